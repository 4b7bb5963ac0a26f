//! Leases on Redis: blocks of permits that a node spends without asking.

use std::time::Duration;

use compact_str::{CompactString, ToCompactString as _};

use super::super::lease::{Grant, Report};
use super::reply::{REPLIES, Reply};
use super::scripts::Scripts;
use super::{Args, OnRedis};
use crate::clock;
use crate::error::Result;
use crate::key::Key;

impl OnRedis {
    /// The clock that a lease ends by: a test's own, if it set one.
    pub(in crate::limit) fn since_boot(&self) -> Duration {
        match self.store.set_time_ms() {
            Some(now_ms) => Duration::from_millis(now_ms),
            None => clock::since_boot(),
        }
    }

    /// Requests a block of `wanted` permits, and reports what became of up to two.
    pub(in crate::limit) async fn lease(
        &self,
        key: Key<'_>,
        id: &str,
        wanted: u64,
        lasting: Duration,
        reports: &[Report],
    ) -> Result<Grant> {
        let args = |first: u64| {
            let mut args = Args::from([first.to_compact_string(), id.into(), wanted.to_compact_string()]);
            args.push(lasting.as_millis().to_compact_string());
            for at in 0..2 {
                args.extend(match reports.get(at) {
                    Some(Report { id, spent, returned }) => {
                        [id.clone(), spent.to_compact_string(), returned.to_compact_string()]
                    }
                    None => ["", "0", "0"].map(CompactString::from),
                });
            }
            args
        };
        match self.run_with(&Scripts::of(&self.algorithm).lease, key, &["leases"], &[], args).await? {
            Reply::Granted(grant) => Ok(grant),
            Reply::Held(held_ms) => {
                self.store.meet_loss(key.as_str());
                Ok(Grant {
                    granted: 0,
                    lasting_ms: 0,
                    capacity: self.algorithm.capacity(),
                    free: 0,
                    reset_after_ms: held_ms,
                    dry_ms: held_ms,
                    is_held: true,
                })
            }
            other => Err(REPLIES.unexpected(&other)),
        }
    }
}
