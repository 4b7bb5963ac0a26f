//! Index and sessions, compared and corrected step by step beside whatever else happens.
//!
//! Each step looks at some keys or some entries, and what it corrects it corrects in the same
//! atomic step: nothing is rebuilt, nothing renamed, so nothing that is written meanwhile
//! is lost. Sessions of an older program, hashes with `last_disconnect` and nothing else
//! of ours, are taken over on the way.

use super::handle::{Backend, Sessions};
use super::types::Listed;
use crate::error::Result;

/// What a step is to do.
#[derive(Debug)]
pub(super) struct StepRequest<'a> {
    pub(super) is_dry_run: bool,
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

/// What was found, and corrected unless it is a dry run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Reconciled {
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

impl Reconciled {
    /// In the order in which the script counts.
    pub(super) fn numbered(numbers: [u64; 10]) -> Self {
        let [
            looked_at,
            sessions,
            adopted_active,
            adopted_disconnected,
            indexed,
            unindexed,
            ended,
            invalid,
            ..,
        ] = numbers;
        let [.., unrecognised, replaced] = numbers;
        Self {
            looked_at,
            sessions,
            adopted_active,
            adopted_disconnected,
            indexed,
            unindexed,
            ended,
            invalid,
            unrecognised,
            replaced,
        }
    }

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

impl std::ops::AddAssign for Reconciled {
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
    pub reconciled: Reconciled,
    /// What was not as it should be: a word, and a whole key, or a set and its entry.
    pub findings: Vec<(String, String)>,
    /// Sessions that nobody holds, by their own fields and not by an index.
    pub orphans: Vec<Listed>,
    /// Keys of the server, whatever they are.
    pub keys: u64,
    /// Keys and entries that this step went through, whatever they are.
    pub scanned: u64,
    /// Where to go on; empty at the end.
    pub(super) next: String,
}

/// Goes through everything that a space has written, step by step.
#[derive(Debug)]
pub struct Reconciliation {
    sessions: Sessions,
    is_dry_run: bool,
    age_ms: u64,
    partition: usize,
    /// Whether it begins at the beginning, and not where somebody left it.
    is_anew: bool,
    /// Empty before the first step of a partition.
    from: String,
    /// What was found so far.
    pub total: Reconciled,
}

impl Reconciliation {
    pub(super) fn new(sessions: Sessions, is_dry_run: bool, age_ms: u64) -> Self {
        let (partition, from, total) = (0, String::new(), Reconciled::default());
        Self { sessions, is_dry_run, age_ms, partition, is_anew: is_dry_run, from, total }
    }

    /// The same from the beginning, whatever another one has left undone.
    #[must_use]
    pub fn anew(mut self) -> Self {
        self.is_anew = true;
        self
    }

    /// The next step; none at the end. One that failed can be tried again.
    pub async fn step(&mut self) -> Result<Option<Step>> {
        let Backend::Redis(partitions) = &self.sessions.core.backend else { return Ok(None) };
        let Some(partition) = partitions.get(self.partition) else { return Ok(None) };
        // A dry run begins at the beginning; another goes on where it was left,
        // by whomever, unless it is to begin anew.
        let from = if self.from.is_empty() && self.is_anew { "0 0" } else { &self.from };
        let request = StepRequest {
            is_dry_run: self.is_dry_run,
            from,
            count: LOOKED_AT,
            pause_ms: 0,
            age_ms: self.age_ms,
        };
        let step = partition.reconcile(&request).await?;
        self.sessions.note_step(&step);
        self.total += step.reconciled;
        if step.next.is_empty() {
            self.partition += 1;
        }
        self.from.clone_from(&step.next);
        Ok(Some(step))
    }

    /// All that is left of it.
    pub async fn finish(mut self) -> Result<Reconciled> {
        while self.step().await?.is_some() {}
        Ok(self.total)
    }
}
