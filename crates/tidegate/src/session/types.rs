//! What sessions are made of, and what calls on them answer.

use std::fmt;
use std::str::FromStr;

use uuid::Uuid;

use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::key::Key;

/// The id of a session: a UUID.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(Uuid);

impl SessionId {
    /// None is greater.
    pub(super) const LAST: Self = Self(Uuid::max());

    /// One that nobody can guess.
    pub(super) fn random() -> Self {
        Self(Uuid::new_v4())
    }

    /// The same, of those that are `there`: a session is found by its id, and must be where its
    /// broadcaster is.
    pub(super) fn random_where(there: impl Fn(Self) -> bool) -> Self {
        std::iter::repeat_with(Self::random).find(|id| there(*id)).unwrap_or(Self::LAST)
    }

    /// The id that an index has. Other ways to write a UUID name other keys.
    pub(super) fn listed(text: &str) -> Option<Self> {
        let id = Uuid::try_parse(text).ok()?;
        (id.as_hyphenated().encode_lower(&mut Uuid::encode_buffer()) == text).then_some(Self(id))
    }
}

impl FromStr for SessionId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Uuid::try_parse(text).map(Self).map_err(|_| {
            let start: String = text.chars().take(40).collect();
            Error::invalid(format!(
                "{start:?} is not a session id: a UUID is, like 67e55044-10b1-426f-9247-bb680e5fe0c8"
            ))
        })
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_hyphenated().fmt(f)
    }
}

/// Which of its lives a session is in: one more each time it becomes active again.
/// With the id it is the token of a session's side effects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Generation(pub(super) u64);

impl Generation {
    /// The number that [`get`](Self::get) told.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number, from 1 on.
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// Who holds a session: one connection, one process, whatever can fall silent.
///
/// With the generation that [`Lease`] told, a call that comes late, after the session
/// was left and resumed, is [refused](Refusal::Stale) instead of meant for another life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holder<'a> {
    /// Its name, unlike that of any other holder of the session.
    pub name: Key<'a>,
    /// The life it belongs to; any if not given.
    pub generation: Option<Generation>,
}

impl<'a> From<Key<'a>> for Holder<'a> {
    fn from(name: Key<'a>) -> Self {
        Self { name, generation: None }
    }
}

/// Why a call on a session changed nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Refusal {
    /// There is no such session (any more).
    Gone,
    /// It is being reaped: its side effects may have run. Activate a new one.
    Reaping,
    /// Somebody holds it.
    Active,
    /// Nobody holds it: it must be resumed.
    Disconnected,
    /// This holder does not hold it (any more): it must connect.
    Lapsed,
    /// The session is in another life than the one that was meant.
    Stale,
    /// It has as many holders as it may.
    TooManyHolders,
    /// There are as many sessions as there may be.
    Full,
    /// It is not claimed.
    NotClaimed,
}

impl Refusal {
    /// A word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Gone => "gone",
            Self::Reaping => "reaping",
            Self::Active => "active",
            Self::Disconnected => "disconnected",
            Self::Lapsed => "lapsed",
            Self::Stale => "stale",
            Self::TooManyHolders => "too_many_holders",
            Self::Full => "full",
            Self::NotClaimed => "not_claimed",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gone => "there is no such session",
            Self::Reaping => "the session is being reaped: activate a new one",
            Self::Active => "the session is active",
            Self::Disconnected => "nobody holds the session: resume it",
            Self::Lapsed => "the holder does not hold the session: connect",
            Self::Stale => "the session is in another generation",
            Self::TooManyHolders => "the session has as many holders as it may",
            Self::Full => "there are as many sessions as there may be",
            Self::NotClaimed => "the session is not claimed",
        })
    }
}

impl std::error::Error for Refusal {}

/// What was asked for of sessions, or why not.
pub type Answer<T> = crate::answer::Answer<T, Refusal>;

/// The same on the way to it, where a refusal ends a step.
pub(super) type Granted<T> = std::result::Result<T, Refusal>;

/// The largest config or value, in bytes.
pub const MAX_TEXT_BYTES: usize = 64 << 10;

pub(super) fn check_text(what: &str, text: &str) -> Result<()> {
    if text.len() <= MAX_TEXT_BYTES {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "a {what} of {} bytes is not allowed: up to {MAX_TEXT_BYTES} are",
        text.len()
    )))
}

/// A holder's hold on a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lease {
    /// The life that it holds.
    pub generation: Generation,
    /// When it ends unless a heartbeat comes before.
    pub until: Timestamp,
}

/// An activated session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Activated {
    /// The session.
    pub id: SessionId,
    /// Until when somebody must have connected, or the given holder sent a heartbeat.
    pub lease: Lease,
    /// What the broadcaster had before.
    pub found: Found,
}

/// What a broadcaster had when it was activated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Found {
    /// No session that could be used: this one is new.
    Nothing,
    /// One that was disconnected: it is resumed.
    Disconnected,
    /// One that is active.
    Active,
}

/// How a session stands after a holder has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Disconnect {
    /// Others hold it.
    Held,
    /// Nobody does.
    Disconnected,
}

/// Where a session is on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// Somebody holds it.
    Active,
    /// Nobody does, for less than the grace.
    Disconnected,
    /// Nobody has for longer.
    Orphan,
    /// It is being reaped.
    Claimed,
    /// It was claimed too often, and put aside.
    Dead,
}

impl State {
    /// A word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Disconnected => "disconnected",
            Self::Orphan => "orphan",
            Self::Claimed => "claimed",
            Self::Dead => "dead",
        }
    }
}

/// A session as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Session {
    /// Its id.
    pub id: SessionId,
    /// Whose it is.
    pub broadcaster: String,
    /// What it was activated with.
    pub config: String,
    /// What it was last [updated](super::Sessions::update) to; empty at first.
    pub value: String,
    /// Where it is on its way.
    pub state: State,
    /// Which of its lives it is in.
    pub generation: Generation,
    /// Holders that hold it now.
    pub ref_count: u64,
    /// Who they are, by name.
    pub holders: Vec<HeldBy>,
    /// Until when it is held if nobody does anything, if it is: by them, by whoever was to
    /// connect, or by those whom an older program left.
    pub held_until: Option<Timestamp>,
    /// When it was left, if nobody holds it.
    pub last_disconnect: Option<Timestamp>,
    /// When its value or config was last set, to the second.
    pub last_update: Timestamp,
    /// When a holder last gave a sign of life.
    pub last_seen: Timestamp,
    /// Claims so far.
    pub attempts: u64,
}

/// Who holds a session, and until when unless a heartbeat comes before.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct HeldBy {
    /// The holder.
    pub holder: String,
    /// The end of its lease.
    pub until: Timestamp,
}

/// A session in a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct Listed {
    /// What the list goes by: until when an active session is held, when a disconnected
    /// one was left, until when a claim holds, when a dead one was put aside. Of one whose
    /// holders gave no sign during a hold it is the end of their last lease as it was given.
    pub at: Timestamp,
    /// The session.
    pub id: SessionId,
}

impl Listed {
    /// The place of a session in a list, as a list told it.
    pub const fn new(at: Timestamp, id: SessionId) -> Self {
        Self { at, id }
    }
}

/// Sessions by time, the first first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct List {
    /// The sessions.
    pub sessions: Vec<Listed>,
    /// Entries of the index that are no session ids, skipped.
    pub invalid: u64,
}

impl List {
    /// The first `limit` of those of several partitions.
    pub(super) fn merged(lists: Vec<Self>, limit: usize) -> Self {
        let mut all = Self::default();
        for list in lists {
            all.sessions.extend(list.sessions);
            all.invalid += list.invalid;
        }
        all.sessions.sort();
        // One that was found silent between two steps has been in both sets.
        all.sessions.dedup();
        all.sessions.truncate(limit);
        all
    }
}

/// A session to reap. Run its side effects, then [acknowledge](super::Sessions::ack).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Claim {
    /// The session.
    pub id: SessionId,
    /// The token: the same each time that this session is claimed.
    pub generation: Generation,
    /// Whose it is.
    pub broadcaster: String,
    /// What it was activated with.
    pub config: String,
    /// What it was last updated to.
    pub value: String,
    /// When it was left.
    pub since: Timestamp,
    /// Which attempt this is, from 1 on.
    pub attempt: u64,
    /// When the claim ends, unless it is [renewed](super::Sessions::renew).
    pub until: Timestamp,
}

/// What a claim found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Claims {
    /// Sessions to reap.
    pub claims: Vec<Claim>,
    /// What was done besides.
    pub swept: Swept,
}

/// What a step of the reaper did and saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Swept {
    /// Sessions whose holders have fallen silent, now disconnected.
    pub lapsed: u64,
    /// Sessions deleted.
    pub deleted: u64,
    /// Sessions put aside after too many claims.
    pub buried: u64,
    /// Entries of the index without a session, removed.
    pub missing: u64,
    /// Entries of the index that are no session ids, or whose key is somebody else's, removed.
    pub invalid: u64,
    /// For how long the first had been due before.
    pub lag_ms: u64,
    /// Whether more is due.
    pub is_more: bool,
    /// Until when nothing is reaped, in some partition at least: holders could not renew, and
    /// have the time to do so.
    pub held_until: Option<Timestamp>,
    /// How long that is from now: ask again then.
    pub retry_after_ms: Option<u64>,
}

impl Swept {
    /// How many sessions and entries it has changed.
    pub(super) fn items(&self) -> u64 {
        self.lapsed + self.deleted + self.buried + self.missing + self.invalid
    }
}

impl std::ops::AddAssign for Swept {
    fn add_assign(&mut self, other: Self) {
        self.lapsed += other.lapsed;
        self.deleted += other.deleted;
        self.buried += other.buried;
        self.missing += other.missing;
        self.invalid += other.invalid;
        self.lag_ms = self.lag_ms.max(other.lag_ms);
        self.is_more |= other.is_more;
        self.held_until = self.held_until.max(other.held_until);
        self.retry_after_ms = self.retry_after_ms.max(other.retry_after_ms);
    }
}

/// How many sessions there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Counts {
    /// Held by somebody.
    pub active: u64,
    /// Held by nobody, orphans included.
    pub disconnected: u64,
    /// Those of them whose grace is over.
    pub orphans: u64,
    /// Being reaped.
    pub claimed: u64,
    /// Put aside.
    pub dead: u64,
    /// For how long the first orphan has been due.
    pub lag_ms: u64,
    /// Until when no lease ends and nothing is reaped, in some partition at least.
    pub held_until: Option<Timestamp>,
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.active += other.active;
        self.disconnected += other.disconnected;
        self.orphans += other.orphans;
        self.claimed += other.claimed;
        self.dead += other.dead;
        self.lag_ms = self.lag_ms.max(other.lag_ms);
        self.held_until = self.held_until.max(other.held_until);
    }
}
