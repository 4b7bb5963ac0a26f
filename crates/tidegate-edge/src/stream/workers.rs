//! Who follows, how far each has got, and who went silent.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::Serialize;

use crate::truth::Seq;

/// Workers that are known, at most.
const MAX_WORKERS: usize = 10_000;

/// For how long one that went silent is told of.
const REMEMBERED_MS: u64 = 3_600_000;

/// The workers that have followed this server's stream. Clones are one.
#[derive(Debug, Clone, Default)]
pub struct Workers(Arc<Mutex<HashMap<String, Known>>>);

#[derive(Debug, Clone, Copy)]
struct Known {
    /// Streams that it has open.
    streams: u32,
    since_ms: u64,
    seen_at_ms: u64,
    applied: Option<Seq>,
}

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Worker {
    /// What it calls itself.
    pub name: String,
    /// Whether it follows now.
    pub connected: bool,
    /// Since when it does, or did not, in milliseconds.
    pub since: u64,
    /// When it was last heard of.
    pub seen_at: u64,
    /// The last change that it has applied, as it has told.
    pub applied_seq: Option<u64>,
    /// Changes that it had not applied by then.
    pub lag: Option<u64>,
}

/// That a worker follows, as long as this lives.
#[derive(Debug)]
pub struct Following {
    workers: Workers,
    name: String,
    clock: tidegate::clock::Clock,
}

impl Workers {
    /// A worker follows from now on. One that is not known is not kept if there are too many.
    pub fn follows(&self, name: &str, clock: &tidegate::clock::Clock) -> Following {
        let now_ms = clock.now().as_millis();
        self.heard(name, now_ms, |known| {
            if known.streams == 0 {
                known.since_ms = now_ms;
            }
            known.streams += 1;
        });
        Following { workers: self.clone(), name: name.to_owned(), clock: clock.clone() }
    }

    /// A worker has told how far it is.
    pub fn applied(&self, name: &str, seq: Seq, now_ms: u64) {
        self.heard(name, now_ms, |known| known.applied = Some(seq));
    }

    fn heard(&self, name: &str, now_ms: u64, change: impl FnOnce(&mut Known)) {
        let mut all = self.0.lock();
        if !all.contains_key(name) && all.len() >= MAX_WORKERS {
            all.retain(|_, known| known.is_kept(now_ms));
            if all.len() >= MAX_WORKERS {
                return;
            }
        }
        let new = Known { streams: 0, since_ms: now_ms, seen_at_ms: now_ms, applied: None };
        let known = all.entry(name.to_owned()).or_insert(new);
        known.seen_at_ms = now_ms;
        change(known);
    }

    /// All that are known, by name, beside the last change.
    pub fn list(&self, last: Seq, now_ms: u64) -> Vec<Worker> {
        let mut all = self.0.lock();
        all.retain(|_, known| known.is_kept(now_ms));
        let worker = |(name, known): (&String, &Known)| Worker {
            name: name.clone(),
            connected: known.streams > 0,
            since: known.since_ms,
            seen_at: known.seen_at_ms,
            applied_seq: known.applied.map(|seq| seq.0),
            lag: known.applied.map(|seq| last.0.saturating_sub(seq.0)),
        };
        let mut workers: Vec<_> = all.iter().map(worker).collect();
        workers.sort_by(|a, b| a.name.cmp(&b.name));
        workers
    }
}

impl Known {
    fn is_kept(&self, now_ms: u64) -> bool {
        self.streams > 0 || now_ms.saturating_sub(self.seen_at_ms) < REMEMBERED_MS
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        let now_ms = self.clock.now().as_millis();
        let mut all = self.workers.0.lock();
        if let Some(known) = all.get_mut(&self.name) {
            known.streams = known.streams.saturating_sub(1);
            if known.streams == 0 {
                (known.since_ms, known.seen_at_ms) = (now_ms, now_ms);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tidegate::clock::{Clock, ManualClock, Timestamp};

    use super::*;

    #[test]
    fn who_follows_and_who_went_silent_is_told_for_an_hour() {
        let manual = ManualClock::at(Timestamp::from_millis(1000));
        let (clock, workers) = (Clock::from(manual.clone()), Workers::default());
        let first = workers.follows("a", &clock);
        manual.advance_ms(5);
        let second = workers.follows("a", &clock);
        workers.applied("a", Seq(7), 1005);
        workers.applied("b", Seq(9), 1005);
        let told = |now_ms| {
            let all = workers.list(Seq(10), now_ms).into_iter();
            all.map(|it| (it.name, it.connected, it.since, it.lag)).collect::<Vec<_>>()
        };
        assert_eq!(
            told(1005),
            [("a".to_owned(), true, 1000, Some(3)), ("b".to_owned(), false, 1005, Some(1))]
        );
        drop(first);
        manual.advance_ms(5);
        assert_eq!(told(1010)[0], ("a".to_owned(), true, 1000, Some(3)), "one stream is left");
        drop(second);
        assert_eq!(told(1010)[0], ("a".to_owned(), false, 1010, Some(3)));
        assert_eq!(told(1010 + REMEMBERED_MS), []);
    }

    #[test]
    fn there_are_never_too_many() {
        let workers = Workers::default();
        for number in 0..MAX_WORKERS + 5 {
            workers.applied(&number.to_string(), Seq(1), 1000);
        }
        assert_eq!(workers.list(Seq(1), 1000).len(), MAX_WORKERS);
        workers.applied("late", Seq(1), 1000 + REMEMBERED_MS);
        assert_eq!(workers.list(Seq(1), 1000 + REMEMBERED_MS).len(), 1, "those that are over make room");
    }
}
