//! What is noted hour by hour, in this process.

use super::super::decision::Decision;
use super::InProcess;
use crate::clock::Timestamp;
use crate::key::Key;

impl InProcess {
    /// Notes what counts after a charge without a subject.
    pub(in crate::limit) fn note(&self, key: Key<'_>, now: Timestamp, decision: &Decision) {
        if let Some(hours) = self.shared.hours.as_ref().filter(|_| key == Key::EVERYONE)
            && decision.is_admitted()
        {
            let quota = decision.quota();
            hours.note(now.as_millis(), quota.capacity.saturating_sub(quota.remaining));
        }
    }

    /// The same of what was held or spent.
    pub(in crate::limit) fn note_standing(&self, key: Key<'_>) {
        if self.shared.hours.is_some() && key == Key::EVERYONE {
            self.note(key, self.shared.clock.now(), &self.peek_by(key, self.plain(0)));
        }
    }
}
