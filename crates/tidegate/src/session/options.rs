//! How sessions live, and what they are bounded by.

use std::time::Duration;

use crate::error::{Error, Result};
use crate::ranges::{self, Ranged};
use crate::setters::setters;

/// Who deletes orphans.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Reap {
    /// This process, in the background: for those without side effects.
    #[default]
    Cleanup,
    /// Whoever [claims](super::Sessions::claim) them. The background loop only finds
    /// out who has fallen silent and how far behind the claims are.
    Claims,
}

/// How the sessions of a space live.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionOptions {
    /// How long a session may be without holders before it is an orphan.
    pub grace: Duration,
    /// How long a holder holds after its last heartbeat.
    pub holder_lease: Duration,
    /// How long after the last sign of a holder a session can be resumed.
    pub session_ttl: Duration,
    /// How long what is not reaped is kept, session and index: past `session_ttl` an
    /// orphan cannot be resumed, and is still there to be claimed.
    pub retention: Duration,
    /// Orphans handled at a time by the background loop.
    pub batch: usize,
    /// How often orphans are looked for.
    pub cleanup_interval: Duration,
    /// Who deletes them.
    pub reap: Reap,
    /// How long a claim holds before it returns.
    pub claim_lease: Duration,
    /// Side effects that [`reap`](super::Sessions::reap) runs at a time.
    pub effects_at_once: usize,
    /// Claims of one session, at most; then it is put aside as dead.
    pub max_attempts: u32,
    /// Holders of one session, at most.
    pub max_holders: usize,
    /// Sessions of the space, at most; over several partitions each has its part.
    pub max_sessions: usize,
    /// How long the holders of a session that an older program left active have to come
    /// back: it is not known who they are.
    pub migration_lease: Duration,
    /// How often index and sessions are reconciled in the background.
    pub reconcile_interval: Duration,
}

impl Default for SessionOptions {
    fn default() -> Self {
        Self {
            grace: Duration::from_secs(30),
            holder_lease: Duration::from_secs(45),
            session_ttl: Duration::from_secs(24 * 3600),
            retention: Duration::from_secs(7 * 24 * 3600),
            batch: 100,
            cleanup_interval: Duration::from_secs(30),
            reap: Reap::default(),
            claim_lease: Duration::from_secs(60),
            effects_at_once: 16,
            max_attempts: 5,
            max_holders: 1000,
            max_sessions: 1_000_000,
            migration_lease: Duration::from_secs(3600),
            reconcile_interval: Duration::from_secs(7 * 24 * 3600),
        }
    }
}

setters!(SessionOptions {
    grace: Duration,
    holder_lease: Duration,
    session_ttl: Duration,
    retention: Duration,
    batch: usize,
    cleanup_interval: Duration,
    reap: Reap,
    claim_lease: Duration,
    effects_at_once: usize,
    max_attempts: u32,
    max_holders: usize,
    max_sessions: usize,
    migration_lease: Duration,
    reconcile_interval: Duration,
});

/// The longest time that anything of a session is kept.
const MAX_RETENTION: Duration = Duration::from_secs(60 * 24 * 3600);

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// How long each may last, beside the others.
const LASTING: [Ranged<SessionOptions, Duration>; 8] = [
    Ranged {
        name: "a holder_lease",
        get: |it| it.holder_lease,
        set: |it, lasting| it.holder_lease = lasting,
        range: |it| [SECOND, it.session_ttl.saturating_sub(it.grace)],
        widest: [SECOND, MAX_RETENTION],
    },
    Ranged {
        name: "a grace",
        get: |it| it.grace,
        set: |it, lasting| it.grace = lasting,
        range: |it| [Duration::ZERO, it.session_ttl.saturating_sub(it.holder_lease)],
        widest: [Duration::ZERO, MAX_RETENTION],
    },
    Ranged {
        name: "a migration_lease",
        get: |it| it.migration_lease,
        set: |it, lasting| it.migration_lease = lasting,
        range: |it| [SECOND, it.session_ttl],
        widest: [SECOND, MAX_RETENTION],
    },
    // A claim that ends later than anything is kept would be taken for one of a clock
    // that was wrong.
    Ranged {
        name: "a claim_lease",
        get: |it| it.claim_lease,
        set: |it, lasting| it.claim_lease = lasting,
        range: |it| [SECOND, DAY.min(it.retention)],
        widest: [SECOND, DAY],
    },
    Ranged {
        name: "a session_ttl",
        get: |it| it.session_ttl,
        set: |it, lasting| it.session_ttl = lasting,
        range: |it| {
            [SECOND.max(it.grace.saturating_add(it.holder_lease)).max(it.migration_lease), it.retention]
        },
        widest: [SECOND, MAX_RETENTION],
    },
    Ranged {
        name: "a retention",
        get: |it| it.retention,
        set: |it, lasting| it.retention = lasting,
        range: |it| [SECOND.max(it.session_ttl).max(it.claim_lease), MAX_RETENTION],
        widest: [SECOND, MAX_RETENTION],
    },
    Ranged {
        name: "a cleanup_interval",
        get: |it| it.cleanup_interval,
        set: |it, lasting| it.cleanup_interval = lasting,
        range: |_| [Duration::from_millis(100), DAY],
        widest: [Duration::from_millis(100), DAY],
    },
    Ranged {
        name: "a reconcile_interval",
        get: |it| it.reconcile_interval,
        set: |it, lasting| it.reconcile_interval = lasting,
        range: |_| [Duration::from_secs(60), MAX_RETENTION],
        widest: [Duration::from_secs(60), MAX_RETENTION],
    },
];

/// The most that is looked at in one step.
pub(super) const MAX_BATCH: usize = 1000;

impl SessionOptions {
    /// Whether all of it is allowed; a space is only made if it is.
    pub fn check(&self) -> Result<()> {
        ranges::check(self, &LASTING, |[least, most]| format!("{least:?} to {most:?} are"))?;
        let between = |what: &str, value: usize, most: usize| {
            if (1..=most).contains(&value) {
                return Ok(());
            }
            Err(Error::invalid(format!("{what} of {value} is not allowed: 1 to {most} are")))
        };
        between("a batch", self.batch, MAX_BATCH)?;
        between("effects_at_once", self.effects_at_once, MAX_BATCH)?;
        between("max_attempts", self.max_attempts as usize, 1000)?;
        between("max_holders", self.max_holders, 10_000)?;
        between("max_sessions", self.max_sessions, 100_000_000)
    }

    /// What a partition, one of `of`, is bounded by.
    pub(super) fn bounds(&self, of: u32) -> Bounds {
        let ms = |duration: Duration| duration.as_millis() as u64;
        Bounds {
            grace_ms: ms(self.grace),
            lease_ms: ms(self.holder_lease),
            ttl_ms: ms(self.session_ttl),
            retention_ms: ms(self.retention),
            claim_ms: ms(self.claim_lease),
            migration_ms: ms(self.migration_lease),
            max_attempts: self.max_attempts.into(),
            max_holders: self.max_holders as u64,
            max_sessions: (self.max_sessions as u64 / u64::from(of)).max(1),
        }
    }
}

/// How far ahead of the clock the latest moment that anything was done at may be before it
/// is taken for wrong: a clock that is ahead for a moment stops a space for no longer.
pub(crate) const STAMP_MS: u64 = 600_000;

/// The same in numbers, for one partition.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    pub(super) grace_ms: u64,
    pub(super) lease_ms: u64,
    pub(super) ttl_ms: u64,
    /// Also how far ahead of the clock a stamp may be before it is taken for wrong.
    pub(super) retention_ms: u64,
    pub(super) claim_ms: u64,
    pub(super) migration_ms: u64,
    pub(super) max_attempts: u64,
    pub(super) max_holders: u64,
    pub(super) max_sessions: u64,
}
