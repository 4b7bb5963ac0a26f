//! Clicks, taken out of the cache to be counted elsewhere.

use std::sync::atomic::Ordering;

use super::{Cache, Slot};
use crate::worker::entry::View;

/// How often a rule redirected since that was last asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clicked {
    /// Which rule.
    pub id: Box<str>,
    /// When it was made: another one of that id is another rule.
    pub created_at: u64,
    /// How often.
    pub clicks: u64,
}

impl Clicked {
    /// Takes them out of a slot, if there are any; `text` is what it stands for.
    pub(super) fn of(slot: &Slot, text: &str) -> Option<Self> {
        let clicks = slot.marks.take_clicks();
        (clicks > 0).then(|| Self::by(&View::of(text), clicks))
    }

    /// Those of a rule.
    pub(crate) fn by(rule: &View<'_>, clicks: u64) -> Self {
        Self { id: rule.id().into(), created_at: rule.created_at(), clicks }
    }
}

impl Cache {
    /// Clicks of at most so many rules; who asks again goes on where this ended. A click that is counted meanwhile is in
    /// this or in a later one.
    #[must_use = "it has clicks that nobody else has"]
    pub fn take_clicks(&self, max: usize) -> Vec<Clicked> {
        let mut taken = Vec::new();
        let first = self.next_clicks.load(Ordering::Relaxed);
        let (behind, front) = self.shards.split_at(first);
        for (shard, step) in front.iter().chain(behind).zip(0..) {
            shard.take_clicks(&self.log, max, &mut taken);
            if taken.len() >= max {
                self.next_clicks.store((first + step) % self.shards.len(), Ordering::Relaxed);
                break;
            }
        }
        taken
    }
}
