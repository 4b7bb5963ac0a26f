//! Index and sessions, compared and mended step by step beside whatever else happens.
//!
//! Each step looks at some keys or some entries, and what it mends it mends in the same
//! atomic step: nothing is rebuilt, nothing renamed, so nothing that is written meanwhile
//! is lost. Sessions of an older program, hashes with `last_disconnect` and nothing else
//! of ours, are taken over on the way.

use super::types::Listed;
use super::{Backend, Sessions};
use crate::error::Result;

/// What is asked of a step.
#[derive(Debug)]
pub(super) struct Ask<'a> {
    pub(super) is_mending: bool,
    /// Empty: where it was last left.
    pub(super) from: &'a str,
    pub(super) count: usize,
    /// For how long nothing is done after it was done.
    pub(super) pause_ms: u64,
    /// How long an orphan is left for.
    pub(super) age_ms: u64,
}

/// Keys looked at in a step, about.
pub(super) const LOOKED_AT: usize = 200;

/// What was found, and if asked mended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Mended {
    /// Keys under the names of sessions, broadcasters and counters.
    pub looked_at: u64,
    /// Sessions among them.
    pub sessions: u64,
    /// Active sessions of an older program: taken over, held for a while.
    pub adopted_active: u64,
    /// Disconnected sessions of an older program: taken over, indexed.
    pub adopted_disconnected: u64,
    /// Sessions that were missing where they belong: put there.
    pub indexed: u64,
    /// Entries without a session, or of a session that belongs elsewhere: removed.
    pub unindexed: u64,
    /// Keys without an end: given one.
    pub ended: u64,
    /// Entries that are no ids: removed.
    pub invalid: u64,
    /// Keys under the names of sessions that are nothing we know: left alone.
    pub unrecognised: u64,
    /// Keys that all sessions share, of another type: replaced.
    pub replaced: u64,
}

impl Mended {
    /// Whatever was not as it should be, what is left alone excepted.
    pub fn faults(&self) -> u64 {
        self.adopted_active
            + self.adopted_disconnected
            + self.indexed
            + self.unindexed
            + self.ended
            + self.replaced
    }
}

impl std::ops::AddAssign for Mended {
    fn add_assign(&mut self, other: Self) {
        self.looked_at += other.looked_at;
        self.sessions += other.sessions;
        self.adopted_active += other.adopted_active;
        self.adopted_disconnected += other.adopted_disconnected;
        self.indexed += other.indexed;
        self.unindexed += other.unindexed;
        self.ended += other.ended;
        self.invalid += other.invalid;
        self.unrecognised += other.unrecognised;
        self.replaced += other.replaced;
    }
}

/// What a step found.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Step {
    /// In numbers.
    pub mended: Mended,
    /// What was not as it should be: a word, and a whole key, or a set and its entry.
    pub told: Vec<(String, String)>,
    /// Sessions that nobody holds, by their own fields and not by an index.
    pub orphans: Vec<Listed>,
    /// Keys of the server, whatever they are.
    pub keys: u64,
    /// Keys and entries that this step went through, whatever they are.
    pub scanned: u64,
    /// Where to go on; empty at the end.
    pub(super) next: String,
}

impl Step {
    pub(super) fn new(
        next: String,
        [keys, scanned]: [u64; 2],
        counts: &[u64],
        told: Vec<(String, String)>,
        orphans: Vec<Listed>,
    ) -> Self {
        let count = |number: usize| counts.get(number).copied().unwrap_or(0);
        let mended = Mended {
            looked_at: count(0),
            sessions: count(1),
            adopted_active: count(2),
            adopted_disconnected: count(3),
            indexed: count(4),
            unindexed: count(5),
            ended: count(6),
            invalid: count(7),
            unrecognised: count(8),
            replaced: count(9),
        };
        Self { mended, told, orphans, keys, scanned, next }
    }
}

/// A walk through everything that a space has written.
#[derive(Debug)]
pub struct Mending {
    sessions: Sessions,
    is_mending: bool,
    age_ms: u64,
    partition: usize,
    /// Whether it begins at the beginning, and not where somebody left it.
    is_anew: bool,
    /// Empty before the first step of a partition.
    from: String,
    /// What was found so far.
    pub total: Mended,
}

impl Mending {
    pub(super) fn new(sessions: Sessions, is_mending: bool, age_ms: u64) -> Self {
        let (partition, from, total) = (0, String::new(), Mended::default());
        Self { sessions, is_mending, age_ms, partition, is_anew: !is_mending, from, total }
    }

    /// The same from the beginning, whatever another walk has left undone.
    #[must_use]
    pub fn anew(mut self) -> Self {
        self.is_anew = true;
        self
    }

    /// The next step; none at the end. One that failed can be tried again.
    pub async fn step(&mut self) -> Result<Option<Step>> {
        let Backend::Redis(partitions) = &self.sessions.core.backend else { return Ok(None) };
        let Some(partition) = partitions.get(self.partition) else { return Ok(None) };
        // Whoever looks begins at the beginning; whoever mends goes on where it was left,
        // by whomever, unless told otherwise.
        let from = if self.from.is_empty() && self.is_anew { "0 0" } else { &self.from };
        let ask =
            Ask { is_mending: self.is_mending, from, count: LOOKED_AT, pause_ms: 0, age_ms: self.age_ms };
        let step = partition.mend(&ask).await?;
        self.sessions.note_step(&step);
        self.total += step.mended;
        if step.next.is_empty() {
            self.partition += 1;
        }
        self.from.clone_from(&step.next);
        Ok(Some(step))
    }

    /// All that is left of it.
    pub async fn finish(mut self) -> Result<Mended> {
        while self.step().await?.is_some() {}
        Ok(self.total)
    }
}
