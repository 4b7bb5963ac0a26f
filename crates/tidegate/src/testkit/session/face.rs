//! A space of sessions as a caller sees it, and how a store makes fresh ones.
//!
//! Small on purpose: whoever puts the space behind something else, like HTTP,
//! implements these and has the whole suite.

use std::time::Duration;

use crate::Tidegate;
use crate::clock::{ManualClock, Timestamp};
use crate::error::Result;
use crate::key::Key;
use crate::session::{
    Activated, Answer, Claims, Counts, Disconnect, Generation, Holder, Lease, List, Listed, Refusal, Session,
    SessionId, SessionOptions, Sessions, State, Swept,
};

/// What was asked for, or why not: an [`Answer`] that `?` can be used on.
pub type Granted<T> = std::result::Result<T, Refusal>;

/// A space as a caller sees it. Holders are told by their name and the generation that they mean.
pub trait Face {
    /// Whether it refuses numbers that make no sense, as HTTP does: a claim of none, a generation of 0,
    /// more than a thousand at once. Then none is asked for.
    const REFUSES_ODD_NUMBERS: bool = false;

    /// The clock that a case moves.
    fn clock(&self) -> &ManualClock;
    /// The session of a broadcaster, active.
    fn activate(
        &self,
        broadcaster: &str,
        config: &str,
        holder: Option<&str>,
    ) -> impl Future<Output = Result<Granted<Activated>>>;
    /// One more holder of an active session.
    fn connect(&self, id: SessionId, holder: Held<'_>) -> impl Future<Output = Result<Granted<Lease>>>;
    /// A holder of a session that may have been left.
    fn resume(&self, id: SessionId, holder: Held<'_>) -> impl Future<Output = Result<Granted<Lease>>>;
    /// A holder is still there.
    fn heartbeat(&self, id: SessionId, holder: Held<'_>) -> impl Future<Output = Result<Granted<Lease>>>;
    /// A holder leaves.
    fn disconnect(
        &self,
        id: SessionId,
        holder: Held<'_>,
    ) -> impl Future<Output = Result<Granted<Disconnect>>>;
    /// A session as it is.
    fn get(&self, id: SessionId) -> impl Future<Output = Result<Option<Session>>>;
    /// The session that a broadcaster last activated.
    fn find(&self, broadcaster: &str) -> impl Future<Output = Result<Option<Session>>>;
    /// A new value.
    fn update(
        &self,
        id: SessionId,
        value: &str,
        generation: Option<Generation>,
    ) -> impl Future<Output = Result<Granted<Generation>>>;
    /// Deletes what nobody holds and nobody reaps.
    fn delete(&self, id: SessionId) -> impl Future<Output = Result<Granted<()>>>;
    /// Those that were left for at least so long, behind one.
    fn orphans_after(
        &self,
        max_age: Duration,
        after: Option<Listed>,
        limit: usize,
    ) -> impl Future<Output = Result<List>>;
    /// Those in a state, behind one.
    fn list_after(
        &self,
        state: State,
        after: Option<Listed>,
        limit: usize,
    ) -> impl Future<Output = Result<List>>;
    /// How many there are.
    fn counts(&self) -> impl Future<Output = Result<Counts>>;
    /// Somebody is there; until when a hold runs.
    fn stamp(&self) -> impl Future<Output = Result<Option<Timestamp>>>;
    /// Orphans to reap.
    fn claim(&self, limit: usize) -> impl Future<Output = Result<Claims>>;
    /// A claim takes longer.
    fn renew(
        &self,
        id: SessionId,
        generation: Generation,
        attempt: u64,
    ) -> impl Future<Output = Result<Granted<Timestamp>>>;
    /// The side effects of these have run.
    fn ack_many(&self, claims: &[(SessionId, Generation)]) -> impl Future<Output = Result<Vec<Granted<()>>>>;
    /// Deletes all that is due.
    fn cleanup(&self) -> impl Future<Output = Result<Swept>>;
    /// A dead one can be claimed again.
    fn retry(&self, id: SessionId) -> impl Future<Output = Result<Granted<()>>>;
}

/// A holder by name, and the generation that is meant.
pub type Held<'a> = (&'a str, Option<Generation>);

/// A space of the library.
#[derive(Debug)]
pub struct Library {
    /// What its keys start with.
    pub namespace: String,
    sessions: Sessions,
    clock: ManualClock,
}

impl Library {
    /// The space `sessions` of `gate`, whose namespace and clock these are.
    pub fn new(gate: &Tidegate, options: SessionOptions, namespace: String, clock: ManualClock) -> Self {
        Self { sessions: gate.sessions("sessions", options).expect("a space"), namespace, clock }
    }
}

fn holder<'a>((name, generation): Held<'a>) -> Result<Holder<'a>> {
    Ok(Holder { name: Key::new(name)?, generation })
}

impl Face for Library {
    fn clock(&self) -> &ManualClock {
        &self.clock
    }

    async fn activate(
        &self,
        broadcaster: &str,
        config: &str,
        holder: Option<&str>,
    ) -> Result<Granted<Activated>> {
        let holder = holder.map(Key::new).transpose()?;
        self.sessions.activate(Key::new(broadcaster)?, config, holder).await.map(Answer::into_result)
    }

    async fn connect(&self, id: SessionId, held: Held<'_>) -> Result<Granted<Lease>> {
        self.sessions.connect(id, holder(held)?).await.map(Answer::into_result)
    }

    async fn resume(&self, id: SessionId, held: Held<'_>) -> Result<Granted<Lease>> {
        self.sessions.resume(id, holder(held)?).await.map(Answer::into_result)
    }

    async fn heartbeat(&self, id: SessionId, held: Held<'_>) -> Result<Granted<Lease>> {
        self.sessions.heartbeat(id, holder(held)?).await.map(Answer::into_result)
    }

    async fn disconnect(&self, id: SessionId, held: Held<'_>) -> Result<Granted<Disconnect>> {
        self.sessions.disconnect(id, holder(held)?).await.map(Answer::into_result)
    }

    async fn get(&self, id: SessionId) -> Result<Option<Session>> {
        self.sessions.get(id).await
    }

    async fn find(&self, broadcaster: &str) -> Result<Option<Session>> {
        self.sessions.find(Key::new(broadcaster)?).await
    }

    async fn update(
        &self,
        id: SessionId,
        value: &str,
        generation: Option<Generation>,
    ) -> Result<Granted<Generation>> {
        self.sessions.update(id, value, generation).await.map(Answer::into_result)
    }

    async fn delete(&self, id: SessionId) -> Result<Granted<()>> {
        self.sessions.delete(id).await.map(Answer::into_result)
    }

    async fn orphans_after(&self, max_age: Duration, after: Option<Listed>, limit: usize) -> Result<List> {
        self.sessions.orphans_after(max_age, after, limit).await
    }

    async fn list_after(&self, state: State, after: Option<Listed>, limit: usize) -> Result<List> {
        self.sessions.list_after(state, after, limit).await
    }

    async fn counts(&self) -> Result<Counts> {
        let counts = self.sessions.counts().await?;
        assert_eq!(self.sessions.disconnected_count().await?, counts.disconnected);
        Ok(counts)
    }

    async fn stamp(&self) -> Result<Option<Timestamp>> {
        self.sessions.stamp().await
    }

    async fn claim(&self, limit: usize) -> Result<Claims> {
        self.sessions.claim(limit).await
    }

    async fn renew(&self, id: SessionId, generation: Generation, attempt: u64) -> Result<Granted<Timestamp>> {
        self.sessions.renew(id, generation, attempt).await.map(Answer::into_result)
    }

    async fn ack_many(&self, claims: &[(SessionId, Generation)]) -> Result<Vec<Granted<()>>> {
        match claims {
            [(id, generation)] => Ok(vec![self.sessions.ack(*id, *generation).await?.into_result()]),
            _ => Ok(self.sessions.ack_many(claims).await?.into_iter().map(Answer::into_result).collect()),
        }
    }

    async fn cleanup(&self) -> Result<Swept> {
        self.sessions.cleanup().await
    }

    async fn retry(&self, id: SessionId) -> Result<Granted<()>> {
        self.sessions.retry(id).await.map(Answer::into_result)
    }
}

/// Makes fresh spaces on one kind of store.
pub trait Kit {
    /// What it makes.
    type Face: Face;
    /// A space that nobody has used, on a clock that starts at [`START_MS`](super::START_MS).
    fn fresh(&self, options: SessionOptions) -> impl Future<Output = Self::Face>;
    /// Whether a space has several partitions: each has its part of the bounds and its own latest
    /// moment, and a page of a claim comes from whichever is asked first.
    fn is_partitioned(&self) -> bool {
        false
    }
    /// Whether calls cost so little that all can be looked at after each.
    fn is_quick(&self) -> bool {
        false
    }
    /// What can be seen below a space of so many sessions when a history is over.
    fn look_below(&self, _face: &Self::Face, _sessions: u64) {}
}

/// The defaults, with nothing in the background unless `set` says otherwise.
pub fn options(set: impl FnOnce(&mut SessionOptions)) -> SessionOptions {
    let cleanup_interval = Duration::from_secs(24 * 3600);
    let mut options = SessionOptions { cleanup_interval, ..SessionOptions::default() };
    set(&mut options);
    options
}
