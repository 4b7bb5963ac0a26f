//! Several actors on one session, and an oracle that watches them: two clients, two
//! reapers, an operator, and time.
//!
//! The oracle knows nothing of how sessions are kept. It has what was answered so far, and
//! by that: who holds a session until when, what was claimed, what was deleted.

use std::collections::{BTreeMap, BTreeSet};

use tidegate::session::{Answer, Disconnect, Generation, Holder, Lease, Refusal, SessionId, State};

use crate::session::{CLAIM, GRACE, LEASE, Space, key};

/// How many of so many random orders, or ids, are tried: a tenth, unless `TIDEGATE_ORDERS` says what part.
pub(crate) fn orders(count: u64) -> u64 {
    count / std::env::var("TIDEGATE_ORDERS").map_or(10, |by| by.parse::<u64>().expect("a number"))
}

/// What one of them does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// By client 0 without a holder, by client 1 as one.
    Activate(usize),
    /// Client 0 calls without a generation, client 1 with the one that it was last told.
    Connect(usize),
    Resume(usize),
    Heartbeat(usize),
    Disconnect(usize),
    /// Time passes: a lease, the grace, a claim.
    LeaseEnds,
    GraceEnds,
    ClaimEnds,
    /// Time passes, and nobody is there: whoever comes first finds out.
    Stall,
    /// A reaper claims, and its side effects run.
    Claim(usize),
    Ack(usize),
    Delete,
    Cleanup,
    Retry,
}

pub(crate) const ALL: [Step; 21] = [
    Step::Activate(0),
    Step::Activate(1),
    Step::Connect(0),
    Step::Connect(1),
    Step::Resume(0),
    Step::Resume(1),
    Step::Heartbeat(0),
    Step::Heartbeat(1),
    Step::Disconnect(0),
    Step::Disconnect(1),
    Step::LeaseEnds,
    Step::GraceEnds,
    Step::ClaimEnds,
    Step::Stall,
    Step::Claim(0),
    Step::Claim(1),
    Step::Ack(0),
    Step::Ack(1),
    Step::Delete,
    Step::Cleanup,
    Step::Retry,
];

/// What is known of a session by what was answered.
#[derive(Debug, Default)]
struct Known {
    /// The end of each lease; nobody's is 2.
    leases: BTreeMap<usize, u64>,
    generation: u64,
    /// When it was left, if that is known to have been a disconnect.
    left: u64,
    is_claimed: bool,
    deletions: u32,
    /// Of the side effects that have run.
    tokens: BTreeSet<u64>,
    effects: u32,
}

impl Known {
    fn is_live(&self, now: u64) -> bool {
        self.leases.values().any(|ends| *ends > now)
    }

    fn is_gone(&self) -> bool {
        self.deletions > 0
    }
}

#[derive(Debug, Clone, Copy)]
struct Client {
    id: SessionId,
    generation: Generation,
}

/// One order of steps on a broadcaster of its own.
pub(crate) struct World<'a> {
    space: &'a Space,
    broadcaster: String,
    known: BTreeMap<SessionId, Known>,
    /// The one that was activated last.
    newest: SessionId,
    clients: [Client; 2],
    /// What each reaper has claimed and may acknowledge, again and late too.
    claimed: [Vec<(SessionId, Generation)>; 2],
    /// Until when nothing may be reaped.
    held_until: u64,
    /// The end of the hold before.
    past_hold: u64,
}

pub(crate) type Checked = Result<(), String>;

macro_rules! ensure {
    ($what:expr, $($message:tt)*) => {
        if !$what {
            return Err(format!($($message)*));
        }
    };
}

const HOLDERS: [&str; 2] = ["client-0", "client-1"];

impl<'a> World<'a> {
    /// A session that client 0 holds, and that client 1 knows.
    pub(crate) async fn begin(space: &'a Space, number: u64) -> Result<Self, String> {
        let broadcaster = format!("b{number}");
        let made = space.sessions.activate(key(&broadcaster), "", Some(key(HOLDERS[0]))).await;
        let made =
            made.unwrap().into_result().map_err(|refusal| format!("the first activation: {refusal}"))?;
        let client = Client { id: made.id, generation: made.lease.generation };
        let mut known = Known { generation: made.lease.generation.get(), ..Known::default() };
        known.leases.insert(0, made.lease.until.as_millis());
        let known = BTreeMap::from([(made.id, known)]);
        let (clients, claimed) = ([client; 2], Default::default());
        Ok(Self { space, broadcaster, known, newest: made.id, clients, claimed, held_until: 0, past_hold: 0 })
    }

    fn now(&self) -> u64 {
        self.space.clock.now().as_millis()
    }

    /// Whether a step is another than doing nothing.
    pub(crate) fn makes_sense(&self, step: Step) -> bool {
        match step {
            Step::Ack(reaper) => !self.claimed[reaper].is_empty(),
            // Which of the two claims first makes no difference.
            Step::Claim(1) => !self.claimed[0].is_empty(),
            _ => true,
        }
    }

    pub(crate) async fn step(&mut self, step: Step) -> Checked {
        let sessions = &self.space.sessions;
        match step {
            Step::Activate(client) => return self.activate(client).await,
            Step::Connect(client) => {
                let answer = sessions.connect(self.clients[client].id, self.holder(client)).await;
                return self.held(client, answer.unwrap(), step);
            }
            Step::Resume(client) => {
                let answer = sessions.resume(self.clients[client].id, self.holder(client)).await;
                return self.held(client, answer.unwrap(), step);
            }
            Step::Heartbeat(client) => {
                let answer = sessions.heartbeat(self.clients[client].id, self.holder(client)).await;
                let answer = answer.unwrap();
                let (id, now) = (self.clients[client].id, self.now());
                let is_held = self.known[&id].leases.get(&client).is_some_and(|ends| *ends > now);
                ensure!(!answer.is_done() || is_held, "a lease that had ended was renewed");
                return self.held(client, answer, step);
            }
            Step::Disconnect(client) => return self.disconnect(client).await,
            Step::LeaseEnds => self.space.pass(LEASE).await,
            Step::GraceEnds => self.space.pass(GRACE).await,
            Step::ClaimEnds => self.space.pass(CLAIM).await,
            Step::Stall => self.stall().await,
            Step::Claim(reaper) => return self.claim(reaper).await,
            Step::Ack(reaper) => {
                for (id, generation) in self.claimed[reaper].clone() {
                    let answer = self.space.sessions.ack(id, generation).await.unwrap();
                    if self.deleted(id, answer, "ack")? {
                        ensure!(self.known[&id].effects > 0, "deleted before its side effects ran");
                    }
                }
            }
            Step::Delete => {
                let id = self.clients[0].id;
                let answer = sessions.delete(id).await.unwrap();
                self.deleted(id, answer, "delete")?;
            }
            Step::Cleanup => return self.cleanup().await,
            Step::Retry => {
                let id = self.clients[0].id;
                let answer = sessions.retry(id).await.unwrap();
                ensure!(!answer.is_done() || self.known[&id].is_claimed, "retried though never claimed");
                ensure!(!answer.is_done() || !self.known[&id].is_gone(), "retried after its deletion");
            }
        }
        Ok(())
    }

    /// A lease that had not ended before ends no earlier than a lease after.
    async fn stall(&mut self) {
        self.space.sessions.stamp().await.unwrap();
        let before = self.now();
        self.space.clock.advance_ms(LEASE + GRACE + 1000);
        let held_until = self.now() + LEASE;
        self.past_hold = std::mem::replace(&mut self.held_until, held_until);
        for ends in self.known.values_mut().flat_map(|it| it.leases.values_mut()).filter(|it| **it > before) {
            *ends = held_until.max(*ends);
        }
    }

    fn holder(&self, client: usize) -> Holder<'static> {
        let generation = (client == 1).then_some(self.clients[client].generation);
        Holder { name: key(HOLDERS[client]), generation }
    }

    async fn activate(&mut self, client: usize) -> Checked {
        let now = self.now();
        let holder = (client == 1).then(|| key(HOLDERS[client]));
        let made = self.space.sessions.activate(key(&self.broadcaster), "", holder).await.unwrap();
        let made = made.into_result().map_err(|refusal| format!("an activation was refused: {refusal}"))?;
        let before = &self.known[&self.newest];
        let is_usable = !before.is_gone() && !before.is_claimed;
        ensure!(is_usable == (made.id == self.newest), "a session of its own, and another one");
        let is_new = !self.known.contains_key(&made.id);
        ensure!(made.id == self.newest || is_new, "an old session was activated");
        self.newest = made.id;
        self.clients[client] = Client { id: made.id, generation: made.lease.generation };
        let known = self.known.entry(made.id).or_default();
        let was_live = known.is_live(now);
        if client == 1 && was_live {
            known.leases.remove(&2);
        }
        Self::leased(known, now, if client == 1 { 1 } else { 2 }, made.lease, was_live)
    }

    fn held(&mut self, client: usize, answer: Answer<Lease>, by: Step) -> Checked {
        let now = self.now();
        let id = self.clients[client].id;
        let known = self.known.get_mut(&id).ok_or("it is not known")?;
        let was_live = known.is_live(now);
        let lease = match answer {
            Answer::Done(lease) => lease,
            Answer::Refused(refusal) => {
                let is_consistent = !known.is_gone() || refusal == Refusal::Gone;
                ensure!(is_consistent, "after its deletion it is {refusal:?}");
                let is_reaping = known.is_gone() || !known.is_claimed || refusal == Refusal::Reaping;
                ensure!(is_reaping, "it is being reaped, and is {refusal:?}");
                return Ok(());
            }
        };
        ensure!(by == Step::Resume(client) || was_live, "nobody held it, and it was not resumed");
        self.clients[client].generation = lease.generation;
        if was_live && by != Step::Heartbeat(client) {
            known.leases.remove(&2);
        }
        Self::leased(known, now, client, lease, was_live)
    }

    fn leased(known: &mut Known, now: u64, holder: usize, lease: Lease, was_live: bool) -> Checked {
        ensure!(!known.is_gone(), "a zombie: it is held after its deletion");
        ensure!(!known.is_claimed, "it is held though its side effects may have run");
        let expected = known.generation + u64::from(!was_live);
        ensure!(lease.generation.get() == expected, "generation {:?}, not {expected}", lease.generation);
        ensure!(lease.until.as_millis() == now + LEASE, "until {:?} at {now}", lease.until);
        known.generation = expected;
        if !was_live {
            known.leases.clear();
        }
        known.leases.insert(holder, now + LEASE);
        Ok(())
    }

    async fn disconnect(&mut self, client: usize) -> Checked {
        let (now, id) = (self.now(), self.clients[client].id);
        let answer = self.space.sessions.disconnect(id, self.holder(client)).await.unwrap();
        let known = self.known.get_mut(&id).ok_or("it is not known")?;
        ensure!(
            !known.is_gone() || answer == Answer::Refused(Refusal::Gone),
            "after its deletion it is {answer:?}"
        );
        let Answer::Done(left) = answer else { return Ok(()) };
        if known.is_live(now) {
            if known.leases.remove(&client).is_some_and(|ends| ends > now) {
                known.left = now;
            }
            let expected = if known.is_live(now) { Disconnect::Held } else { Disconnect::Disconnected };
            ensure!(left == expected, "{left:?}, not {expected:?}");
        }
        Ok(())
    }

    async fn claim(&mut self, reaper: usize) -> Checked {
        let now = self.now();
        let found = self.space.sessions.claim(10).await.unwrap();
        for claim in found.claims {
            let known = self.known.get_mut(&claim.id).ok_or("what was claimed was never activated")?;
            ensure!(self.held_until <= now, "claimed in a hold");
            ensure!(!known.is_live(now), "a live session was claimed");
            ensure!(!known.is_gone(), "a deleted session was claimed");
            ensure!(
                claim.generation.get() == known.generation,
                "claimed in generation {:?}",
                claim.generation
            );
            ensure!(claim.since.as_millis() + GRACE <= now, "claimed before its grace was over");
            known.is_claimed = true;
            known.effects += 1;
            known.tokens.insert(claim.generation.get());
            ensure!(known.tokens.len() == 1, "side effects with several tokens: {:?}", known.tokens);
            self.claimed[reaper].push((claim.id, claim.generation));
        }
        Ok(())
    }

    fn deleted(&mut self, id: SessionId, answer: Answer<()>, by: &str) -> Result<bool, String> {
        let now = self.now();
        let known = self.known.get_mut(&id).ok_or("it is not known")?;
        if let Answer::Refused(refusal) = answer {
            ensure!(!known.is_gone() || refusal == Refusal::Gone, "{by} after its deletion: {refusal:?}");
            return Ok(false);
        }
        ensure!(!known.is_live(now), "{by}: a live session was deleted");
        known.deletions += 1;
        ensure!(known.deletions == 1, "{by}: deleted {} times", known.deletions);
        Ok(true)
    }

    async fn cleanup(&mut self) -> Checked {
        let swept = self.space.sessions.cleanup().await.unwrap();
        let mut deleted = 0;
        let ids: Vec<_> = self.known.iter().filter(|(_, it)| !it.is_gone()).map(|(id, _)| *id).collect();
        for id in ids {
            if self.space.sessions.get(id).await.unwrap().is_none() {
                self.deleted(id, Answer::Done(()), "cleanup")?;
                deleted += 1;
            }
        }
        ensure!(swept.deleted == deleted, "{} deleted, it says {}", deleted, swept.deleted);
        Ok(())
    }

    /// Every session is as it must be by what was answered, and there is nothing else.
    pub(crate) async fn check(&self) -> Checked {
        let now = self.now();
        for (id, known) in &self.known {
            let Some(session) = self.space.sessions.get(*id).await.unwrap() else {
                ensure!(known.is_gone(), "{id} is gone, and nobody deleted it");
                continue;
            };
            ensure!(!known.is_gone(), "a zombie: {session:?}");
            let named = known.leases.iter().filter(|(holder, ends)| **holder < 2 && **ends > now).count();
            ensure!(session.ref_count == named as u64, "{} holders, not {named}", session.ref_count);
            ensure!(session.generation.get() == known.generation, "{session:?}, not {}", known.generation);
            let is_live = known.is_live(now);
            ensure!((session.state == State::Active) == is_live, "{session:?} is live: {is_live}");
            let is_reaped = matches!(session.state, State::Claimed | State::Dead);
            ensure!(is_reaped == known.is_claimed, "{session:?} is claimed: {}", known.is_claimed);
            if let Some(left) = session.last_disconnect {
                let ended = known.leases.values().copied().max().unwrap_or(0).max(known.left);
                // Of one that nobody has looked at since, an earlier hold may have said later.
                let latest = ended.max(self.past_hold);
                ensure!((ended..=latest).contains(&left.as_millis()), "left at {left:?}, not at {ended}");
            }
        }
        let counts = self.space.sessions.counts().await.unwrap();
        let all = counts.active + counts.disconnected + counts.claimed + counts.dead;
        let expected = self.known.values().filter(|it| !it.is_gone()).count() as u64;
        ensure!(all == expected, "{counts:?}, not {expected} sessions");
        let found = self.space.sessions.find(key(&self.broadcaster)).await.unwrap().map(|it| it.id);
        let newest = (!self.known[&self.newest].is_gone()).then_some(self.newest);
        ensure!(found == newest, "its broadcaster has {found:?}, not {newest:?}");
        Ok(())
    }

    /// Nobody comes any more: after a lease, the grace and one tick nothing is left, but
    /// for claims that still hold, and those that were put aside. What comes late, which
    /// is tried if `with_late_calls`, changes nothing.
    pub(crate) async fn end(mut self, by_claims: bool, with_late_calls: bool) -> Checked {
        self.space.pass(LEASE + GRACE).await;
        self.reap(by_claims).await?;
        let orphans = self.known.iter().filter(|(_, it)| !it.is_gone() && !it.is_claimed);
        let orphans: Vec<_> = orphans.map(|(id, _)| *id).collect();
        ensure!(orphans.is_empty(), "{orphans:?} left after lease, grace and a tick");
        if self.known.values().any(|it| !it.is_gone()) {
            self.space.pass(CLAIM).await;
            self.reap(by_claims).await?;
            let left: Vec<_> = self.known.iter().filter(|(_, it)| !it.is_gone()).map(|(id, _)| *id).collect();
            for id in left {
                let retried = self.space.sessions.retry(id).await.unwrap();
                ensure!(retried == Answer::Done(()), "{id} was neither reaped nor put aside: {retried:?}");
            }
            self.reap(by_claims).await?;
        }
        ensure!(self.known.values().all(Known::is_gone), "not all is gone");
        if with_late_calls {
            for client in [0, 1] {
                for step in [Step::Disconnect(client), Step::Heartbeat(client), Step::Resume(client)] {
                    self.step(step).await?;
                }
            }
            self.check().await?;
        }
        Ok(())
    }

    async fn reap(&mut self, by_claims: bool) -> Checked {
        if !by_claims {
            return self.cleanup().await;
        }
        self.claim(0).await?;
        self.step(Step::Ack(0)).await
    }
}
