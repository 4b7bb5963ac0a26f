//! Random histories of calls, clock moves included: a space must answer exactly as the model
//! does, field by field.
//!
//! Over several partitions only what one sees of all at once can be told from the model:
//! limits and caps are out of reach there, claims are compared as sets, and every
//! partition sees each move of the clock, since each has its own latest moment.

use std::time::Duration;

use proptest::test_runner::{TestCaseError, TestCaseResult};
use proptest::{prop_assert, prop_assert_eq};

use super::op::{Hold, LONGEST_MS, Of, Op, ops, spaces};
use super::{Face, Kit, NOBODY, START_MS, SessionModel};
use crate::clock::Timestamp;
use crate::session::{Claims, Generation, Listed, SessionId, SessionOptions, State};
use crate::testkit::history;

/// A space, and the model beside it.
struct Pair<'a, K: Kit> {
    kit: &'a K,
    face: &'a K::Face,
    options: SessionOptions,
    model: SessionModel,
    /// All that were ever made.
    made: Vec<SessionId>,
    /// What was claimed last.
    claimed: Vec<(SessionId, Generation)>,
}

impl<K: Kit> Pair<'_, K> {
    fn now(&self) -> u64 {
        self.face.clock().now().as_millis()
    }

    fn session(&self, number: u8) -> SessionId {
        let place = usize::from(number) % (self.made.len() + 1);
        self.made.iter().rev().nth(place).copied().unwrap_or_else(|| NOBODY.parse().expect("an id"))
    }

    fn generation(&self, id: SessionId, of: Of) -> Option<Generation> {
        let right = self.model.generation(id).unwrap_or(1);
        let least = u64::from(K::Face::REFUSES_ODD_NUMBERS);
        match of {
            Of::Any => None,
            Of::Right => Some(Generation::new(right)),
            Of::Before => Some(Generation::new((right - 1).max(least))),
            Of::After => Some(Generation::new(right + 1)),
        }
    }

    /// What a page may have ended with, or nearly.
    fn listed(&mut self, state: State, number: Option<u8>) -> Option<Listed> {
        let list = self.model.list(self.now(), state, None, 1000).sessions;
        let mut after = list.get(usize::from(number?) % list.len().max(1)).copied();
        if let Some(after) = &mut after
            && number == Some(3)
        {
            // One that is not there (any more).
            after.id = self.session(255);
        }
        after
    }

    fn limit(&self, limit: usize) -> usize {
        if self.kit.is_partitioned() {
            1000
        } else if K::Face::REFUSES_ODD_NUMBERS {
            limit.clamp(1, 1000)
        } else {
            limit
        }
    }

    /// By how much the clock may be behind the latest moment without being put back.
    fn tolerated_ms(&self) -> u64 {
        (self.options.retention.as_millis() as u64).min(600_000)
    }

    /// Somebody is there. In the background somebody always is, now and then: so that it
    /// makes no difference when, both are told before the clock moves.
    async fn stamp(&mut self) -> TestCaseResult {
        let (now, held_until) = (self.now(), self.face.stamp().await.unwrap());
        prop_assert_eq!(held_until.map(|it| it.as_millis()), self.model.stamp(now));
        Ok(())
    }

    /// Time passes, and somebody is there all the time.
    async fn pass_to(&mut self, at_ms: u64) -> TestCaseResult {
        let most_ms = self.options.holder_lease.as_millis() as u64 / 2;
        while self.now() + most_ms < at_ms {
            self.move_to(self.now() + most_ms).await?;
        }
        self.move_to(at_ms).await
    }

    async fn move_to(&mut self, at_ms: u64) -> TestCaseResult {
        self.stamp().await?;
        let at_ms = at_ms.clamp(START_MS - LONGEST_MS, START_MS + LONGEST_MS);
        if at_ms + self.tolerated_ms() < self.now() {
            // Who has fallen silent by the later clock is written down: when that is noticed
            // is nobody's concern otherwise.
            self.gets().await?;
        }
        let is_partitioned = self.kit.is_partitioned();
        if is_partitioned {
            self.counts().await?;
        }
        self.face.clock().set(Timestamp::from_millis(at_ms));
        if is_partitioned {
            self.counts().await?;
        }
        Ok(())
    }

    async fn counts(&mut self) -> TestCaseResult {
        let (now, counts) = (self.now(), self.face.counts().await.unwrap());
        prop_assert_eq!(counts, self.model.counts(now));
        Ok(())
    }

    /// Every session is as it should be.
    async fn gets(&mut self) -> TestCaseResult {
        let now = self.now();
        for id in &self.made {
            let session = self.face.get(*id).await.unwrap();
            let holders = session.as_ref().map_or(0, |it| it.holders.len());
            prop_assert!(holders <= self.options.max_holders);
            prop_assert_eq!(session, self.model.get(now, *id));
        }
        Ok(())
    }

    /// Every session is where it belongs. This changes nothing but what time it is.
    async fn lists(&mut self) -> TestCaseResult {
        let now = self.now();
        for state in [State::Active, State::Disconnected, State::Claimed, State::Dead] {
            let list = self.face.list_after(state, None, 1000).await.unwrap();
            prop_assert_eq!(list, self.model.list(now, state, None, 1000), "{:?}", state);
        }
        Ok(())
    }

    async fn activate(&mut self, broadcaster: u8, config: u8, holder: Option<u8>) -> TestCaseResult {
        let (now, broadcaster) = (self.now(), broadcaster_named(broadcaster));
        let (config, holder) = (format!("[{config}]"), holder.map(holder_named));
        let holder = holder.as_deref();
        let answer = self.face.activate(&broadcaster, &config, holder).await.unwrap();
        let id = answer.map_or_else(|_| self.session(255), |it| it.id);
        let expected = self.model.activate(now, id, &broadcaster, &config, holder);
        prop_assert_eq!(answer, expected);
        if !self.made.contains(&id) && answer.is_ok() {
            self.made.push(id);
        }
        Ok(())
    }

    async fn hold(&mut self, how: Hold, id: SessionId, name: &str, of: Of) -> TestCaseResult {
        let (now, generation) = (self.now(), self.generation(id, of));
        let (face, model, holder) = (self.face, &mut self.model, (name, generation));
        match how {
            Hold::Connect => {
                let answer = face.connect(id, holder).await.unwrap();
                prop_assert_eq!(answer, model.connect(now, id, name, generation));
            }
            Hold::Resume => {
                let answer = face.resume(id, holder).await.unwrap();
                prop_assert_eq!(answer, model.resume(now, id, name, generation));
            }
            Hold::Heartbeat => {
                let answer = face.heartbeat(id, holder).await.unwrap();
                prop_assert_eq!(answer, model.heartbeat(now, id, name, generation));
            }
            Hold::Disconnect => {
                let answer = face.disconnect(id, holder).await.unwrap();
                prop_assert_eq!(answer, model.disconnect(now, id, name, generation));
            }
        }
        Ok(())
    }

    async fn claim(&mut self, limit: usize) -> TestCaseResult {
        let (now, limit) = (self.now(), self.limit(limit));
        let mut answer = self.face.claim(limit).await.unwrap();
        let mut expected = self.model.claim(now, limit);
        if self.kit.is_partitioned() {
            let sort = |claims: &mut Claims| claims.claims.sort_by_key(|it| it.id);
            sort(&mut answer);
            sort(&mut expected);
        }
        prop_assert_eq!(&answer, &expected);
        self.claimed = answer.claims.iter().map(|it| (it.id, it.generation)).collect();
        Ok(())
    }

    async fn ack(&mut self, claims: &[(SessionId, Generation)]) -> TestCaseResult {
        let now = self.now();
        let answers = self.face.ack_many(claims).await.unwrap();
        let expected: Vec<_> =
            claims.iter().map(|(id, generation)| self.model.ack(now, *id, *generation)).collect();
        prop_assert_eq!(answers, expected);
        Ok(())
    }

    async fn step(&mut self, op: &Op) -> TestCaseResult {
        let (now, face) = (self.now(), self.face);
        match *op {
            Op::Activate { broadcaster, config, holder } => {
                self.activate(broadcaster, config, holder).await?;
            }
            Op::Hold { how, session, holder, of } => {
                self.hold(how, self.session(session), &holder_named(holder), of).await?;
            }
            Op::Update { session, value, of } => {
                let (id, value) = (self.session(session), format!("v{value}"));
                let generation = self.generation(id, of);
                let answer = face.update(id, &value, generation).await.unwrap();
                prop_assert_eq!(answer, self.model.update(now, id, &value, generation));
            }
            Op::Get { session } => {
                let id = self.session(session);
                prop_assert_eq!(face.get(id).await.unwrap(), self.model.get(now, id));
            }
            Op::Find { broadcaster } => {
                let broadcaster = broadcaster_named(broadcaster);
                let answer = face.find(&broadcaster).await.unwrap();
                prop_assert_eq!(answer, self.model.find(now, &broadcaster));
                if self.kit.is_partitioned() {
                    self.counts().await?;
                }
            }
            Op::Delete { session } => {
                let id = self.session(session);
                prop_assert_eq!(face.delete(id).await.unwrap(), self.model.delete(now, id));
            }
            Op::Orphans { age_ms, after, limit } => {
                let (age, limit) = (Duration::from_millis(age_ms), self.limit(limit));
                let after = self.listed(State::Disconnected, after);
                let answer = face.orphans_after(age, after, limit).await.unwrap();
                prop_assert_eq!(answer, self.model.orphans(now, age_ms, after, limit));
            }
            Op::List { state, after, limit } => {
                let (after, limit) = (self.listed(state, after), self.limit(limit));
                let answer = face.list_after(state, after, limit).await.unwrap();
                prop_assert_eq!(answer, self.model.list(now, state, after, limit));
            }
            Op::Counts => self.counts().await?,
            Op::Claim { limit } => self.claim(limit).await?,
            Op::Ack { session, of } => {
                let id = self.session(session);
                let generation = self.generation(id, of).unwrap_or(Generation::new(1));
                self.ack(&[(id, generation)]).await?;
            }
            Op::AckMany { of } => {
                let claimed = std::mem::take(&mut self.claimed).into_iter();
                let nobodys = (self.session(19), Generation::new(1));
                let named = |(id, generation)| (id, self.generation(id, of).unwrap_or(generation));
                let claims: Vec<_> = claimed.chain([nobodys]).map(named).collect();
                self.ack(&claims).await?;
            }
            Op::Renew { session, of, attempt } => {
                let id = self.session(session);
                let generation = self.generation(id, of).unwrap_or(Generation::new(1));
                let answer = face.renew(id, generation, attempt).await.unwrap();
                prop_assert_eq!(answer, self.model.renew(now, id, generation, attempt));
            }
            Op::Cleanup => prop_assert_eq!(face.cleanup().await.unwrap(), self.model.cleanup(now)),
            Op::Retry { session } => {
                let id = self.session(session);
                prop_assert_eq!(face.retry(id).await.unwrap(), self.model.retry(now, id));
            }
            Op::Move { by_ms } => self.move_to(now.strict_add_signed(by_ms)).await?,
            Op::Pass { by_ms } => self.pass_to(now + by_ms).await?,
            Op::Again { by_ms } => {
                self.move_to(now - self.tolerated_ms() - 1).await?;
                self.move_to(now - by_ms).await?;
            }
            Op::MoveTo { edge, off_ms } | Op::PassTo { edge, off_ms } => {
                let edges: Vec<_> = self.model.edges().into_iter().filter(|at| *at + 1 >= now).collect();
                let Some(at) = edges.get(usize::from(edge) % edges.len().max(1)) else { return Ok(()) };
                let at_ms = at.strict_add_signed(off_ms);
                match op {
                    Op::MoveTo { .. } => self.move_to(at_ms).await?,
                    _ => self.pass_to(at_ms).await?,
                }
            }
        }
        Ok(())
    }
}

fn broadcaster_named(number: u8) -> String {
    format!("{{b}}/{number}")
}

fn holder_named(number: u8) -> String {
    format!("h/{number}")
}

async fn agree(kit: &impl Kit, mut options: SessionOptions, history: &[Op]) -> TestCaseResult {
    if kit.is_partitioned() {
        // Each has its part, and which one a session is in is up to chance.
        (options.max_sessions, options.batch) = (100_000, 1000);
    }
    let face = kit.fresh(options.clone()).await;
    let model = SessionModel::new(options.clone());
    let mut pair = Pair { kit, face: &face, options, model, made: Vec::new(), claimed: Vec::new() };
    pair.stamp().await?;
    for (step, op) in history.iter().enumerate() {
        let mut agreed = pair.step(op).await;
        if agreed.is_ok() && kit.is_quick() {
            agreed = pair.lists().await;
        }
        agreed.map_err(|error| TestCaseError::fail(format!("step {step}, {op:?}: {error}")))?;
    }
    // Whatever was not asked for is also as it should be.
    pair.gets().await?;
    pair.lists().await?;
    let counts = pair.model.counts(pair.now());
    kit.look_below(&face, counts.active + counts.disconnected + counts.claimed + counts.dead);
    Ok(())
}

/// Runs so many random operations on spaces of `kit` and on the model.
pub fn check(kit: &impl Kit, operations: usize) {
    // Histories have 60 operations in the mean.
    history::run(operations / 60, &(spaces(), ops()), async |(options, history)| {
        agree(kit, options, &history).await
    });
}
