//! Random histories of calls, clock moves included: each store must answer exactly as
//! the model does, field by field.
//!
//! Over several partitions only what one sees of all at once can be told from the model:
//! limits and caps are out of reach there, claims are compared as sets, and every
//! partition sees each move of the clock, since each has its own latest moment.

use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use tidegate::session::{Answer, Claims, Generation, Holder, Listed, SessionId, SessionOptions, State};
use tidegate::testkit::RedisServer;
use tidegate::testkit::session::SessionModel;

use crate::kit::CLUSTER;
use crate::session::{SPREAD_MEMORY, START_MS, Space, key};
use crate::session_audit::audit;

/// The generation that a call is made with.
#[derive(Debug, Clone, Copy)]
enum Of {
    Any,
    Right,
    Before,
    After,
}

#[derive(Debug, Clone, Copy)]
enum Hold {
    Connect,
    Resume,
    Heartbeat,
    Disconnect,
}

/// Sessions are told by the order in which they were made, the last first; one more than
/// there are is one that never was.
#[derive(Debug, Clone)]
enum Op {
    Activate {
        broadcaster: u8,
        config: u8,
        holder: Option<u8>,
    },
    Hold {
        how: Hold,
        session: u8,
        holder: u8,
        of: Of,
    },
    Update {
        session: u8,
        value: u8,
        of: Of,
    },
    Get {
        session: u8,
    },
    Find {
        broadcaster: u8,
    },
    Delete {
        session: u8,
    },
    Orphans {
        age_ms: u64,
        after: Option<u8>,
        limit: usize,
    },
    List {
        state: State,
        after: Option<u8>,
        limit: usize,
    },
    Counts,
    Claim {
        limit: usize,
    },
    Ack {
        session: u8,
        of: Of,
    },
    AckMany {
        of: Of,
    },
    Renew {
        session: u8,
        of: Of,
        attempt: u64,
    },
    Cleanup,
    Retry {
        session: u8,
    },
    /// Nobody is there meanwhile.
    Move {
        by_ms: i64,
    },
    /// Somebody is.
    Pass {
        by_ms: u64,
    },
    MoveTo {
        edge: u8,
        off_ms: i64,
    },
    PassTo {
        edge: u8,
        off_ms: i64,
    },
    /// The clock was absurdly ahead, is put back, and comes by some of the same moments again.
    Again {
        by_ms: u64,
    },
}

/// How far a history goes, back and forth: less than what keys live longer than their data.
const LONGEST_MS: u64 = 1_700_000;

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let of =
        prop_oneof![4 => Just(Of::Any), 4 => Just(Of::Right), 1 => Just(Of::Before), 1 => Just(Of::After)];
    let session = prop_oneof![5 => 0..2_u8, 2 => 0..6_u8, 1 => 0..20_u8];
    let how = prop_oneof![
        2 => Just(Hold::Connect),
        2 => Just(Hold::Resume),
        2 => Just(Hold::Heartbeat),
        4 => Just(Hold::Disconnect)
    ];
    let state = prop_oneof![
        Just(State::Active),
        Just(State::Disconnected),
        Just(State::Orphan),
        Just(State::Claimed),
        Just(State::Dead)
    ];
    let after = prop::option::of(0..4_u8);
    let limit = prop_oneof![6 => 1..4_usize, 1 => Just(0), 1 => Just(5000)];
    let op = prop_oneof![
        8 => (0..4_u8, 0..3_u8, prop::option::of(0..3_u8))
            .prop_map(|(broadcaster, config, holder)| Op::Activate { broadcaster, config, holder }),
        16 => (how, session.clone(), 0..3_u8, of.clone())
            .prop_map(|(how, session, holder, of)| Op::Hold { how, session, holder, of }),
        1 => (session.clone(), 0..3_u8, of.clone())
            .prop_map(|(session, value, of)| Op::Update { session, value, of }),
        2 => session.clone().prop_map(|session| Op::Get { session }),
        2 => (0..5_u8).prop_map(|broadcaster| Op::Find { broadcaster }),
        2 => session.clone().prop_map(|session| Op::Delete { session }),
        2 => (0..9000_u64, after.clone(), limit.clone())
            .prop_map(|(age_ms, after, limit)| Op::Orphans { age_ms, after, limit }),
        2 => (state, after, limit.clone()).prop_map(|(state, after, limit)| Op::List { state, after, limit }),
        2 => Just(Op::Counts),
        6 => limit.prop_map(|limit| Op::Claim { limit }),
        3 => (session.clone(), of.clone()).prop_map(|(session, of)| Op::Ack { session, of }),
        2 => (session.clone(), of.clone(), 1..3_u64)
            .prop_map(|(session, of, attempt)| Op::Renew { session, of, attempt }),
        1 => of.prop_map(|of| Op::AckMany { of }),
        1 => Just(Op::Cleanup),
        1 => session.prop_map(|session| Op::Retry { session }),
        2 => (0..3000_i64).prop_map(|by_ms| Op::Move { by_ms }),
        2 => (0..3000_u64).prop_map(|by_ms| Op::Pass { by_ms }),
        3 => (0..8_u8, -1..2_i64).prop_map(|(edge, off_ms)| Op::MoveTo { edge, off_ms }),
        8 => (0..8_u8, -1..2_i64).prop_map(|(edge, off_ms)| Op::PassTo { edge, off_ms }),
        1 => prop_oneof![6 => -3000..0_i64, 1 => -90_000..0_i64, 1 => -300_000..300_000_i64]
            .prop_map(|by_ms| Op::Move { by_ms }),
        1 => (0..4000_u64).prop_map(|by_ms| Op::Again { by_ms }),
    ];
    prop::collection::vec(op, 1..120)
}

fn spaces() -> impl Strategy<Value = SessionOptions> {
    let grace = prop_oneof![Just(0_u64), Just(1500), Just(5000)];
    let lease = prop_oneof![Just(1000_u64), Just(3000)];
    let more = prop_oneof![Just(0_u64), Just(2000), Just(60_000)];
    let (kept, claim) = (prop_oneof![Just(0_u64), Just(60_000)], prop_oneof![Just(1000_u64), Just(4000)]);
    let holders = prop_oneof![3 => 1..4_usize, 1 => Just(50)];
    (grace, lease, more, kept, claim, 1..4_u32, holders, 1..7_usize, 1..4_usize).prop_map(
        |(grace, lease, more, kept, claim, attempts, holders, sessions, batch)| {
            let ttl = grace + lease + more;
            let duration = Duration::from_millis;
            crate::session::options(|it| {
                (it.grace, it.holder_lease, it.session_ttl) =
                    (duration(grace), duration(lease), duration(ttl));
                (it.retention, it.claim_lease) = (duration((ttl + kept).max(claim)), duration(claim));
                it.migration_lease = duration(ttl);
                (it.max_attempts, it.max_holders) = (attempts, holders);
                (it.max_sessions, it.batch) = (sessions, batch);
            })
        },
    )
}

/// A store, and the model beside it.
struct Pair {
    space: Space,
    model: SessionModel,
    /// All that were ever made.
    made: Vec<SessionId>,
    /// What was claimed last.
    claimed: Vec<(SessionId, Generation)>,
    is_partitioned: bool,
}

impl Pair {
    fn now(&self) -> u64 {
        self.space.clock.now().as_millis()
    }

    fn session(&self, number: u8) -> SessionId {
        let nobody = || "00000000-0000-4000-8000-000000000000".parse().unwrap();
        let place = usize::from(number) % (self.made.len() + 1);
        self.made.iter().rev().nth(place).copied().unwrap_or_else(nobody)
    }

    fn generation(&self, id: SessionId, of: Of) -> Option<Generation> {
        let right = self.model.generation(id).unwrap_or(1);
        match of {
            Of::Any => None,
            Of::Right => Some(Generation::new(right)),
            Of::Before => Some(Generation::new(right - 1)),
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
        if self.is_partitioned { 1000 } else { limit }
    }

    /// By how much the clock may be behind the latest moment without being put back.
    fn tolerated_ms(&self) -> u64 {
        (self.space.sessions.options().retention.as_millis() as u64).min(600_000)
    }

    /// Somebody is there. In the background somebody always is, now and then: so that it
    /// makes no difference when, both are told before the clock moves.
    async fn stamp(&mut self) -> Result<(), TestCaseError> {
        let (now, held_until) = (self.now(), self.space.sessions.stamp().await.unwrap());
        prop_assert_eq!(held_until.map(|it| it.as_millis()), self.model.stamp(now));
        Ok(())
    }

    /// Time passes, and somebody is there all the time.
    async fn pass_to(&mut self, at_ms: u64) -> Result<(), TestCaseError> {
        let most_ms = self.space.sessions.options().holder_lease.as_millis() as u64 / 2;
        while self.now() + most_ms < at_ms {
            self.move_to(self.now() + most_ms).await?;
        }
        self.move_to(at_ms).await
    }

    async fn move_to(&mut self, at_ms: u64) -> Result<(), TestCaseError> {
        self.stamp().await?;
        let at_ms = at_ms.clamp(START_MS - LONGEST_MS, START_MS + LONGEST_MS);
        if at_ms + self.tolerated_ms() < self.now() {
            // Who has fallen silent by the later clock is written down: when that is noticed
            // is nobody's concern otherwise.
            self.gets().await?;
        }
        if self.is_partitioned {
            self.counts().await?;
        }
        self.space.set(at_ms);
        if self.is_partitioned {
            self.counts().await?;
        }
        Ok(())
    }

    async fn counts(&mut self) -> Result<(), TestCaseError> {
        let (now, counts) = (self.now(), self.space.sessions.counts().await.unwrap());
        prop_assert_eq!(counts, self.model.counts(now));
        prop_assert_eq!(self.space.sessions.disconnected_count().await.unwrap(), counts.disconnected);
        Ok(())
    }

    /// Every session is as it should be.
    async fn gets(&mut self) -> Result<(), TestCaseError> {
        let now = self.now();
        for id in &self.made {
            let session = self.space.sessions.get(*id).await.unwrap();
            let holders = session.as_ref().map_or(0, |it| it.holders.len());
            prop_assert!(holders <= self.space.sessions.options().max_holders);
            prop_assert_eq!(session, self.model.get(now, *id));
        }
        Ok(())
    }

    /// Every session is where it belongs. This changes nothing but what time it is.
    async fn lists(&mut self) -> Result<(), TestCaseError> {
        let now = self.now();
        for state in [State::Active, State::Disconnected, State::Claimed, State::Dead] {
            let list = self.space.sessions.list(state, 1000).await.unwrap();
            prop_assert_eq!(list, self.model.list(now, state, None, 1000), "{:?}", state);
        }
        Ok(())
    }

    async fn hold(&mut self, how: Hold, id: SessionId, name: &str, of: Of) -> Result<(), TestCaseError> {
        let (now, generation) = (self.now(), self.generation(id, of));
        let holder = Holder { name: key(name), generation };
        let (sessions, model) = (&self.space.sessions, &mut self.model);
        match how {
            Hold::Connect => {
                let answer = sessions.connect(id, holder).await.unwrap().into_result();
                prop_assert_eq!(answer, model.connect(now, id, name, generation));
            }
            Hold::Resume => {
                let answer = sessions.resume(id, holder).await.unwrap().into_result();
                prop_assert_eq!(answer, model.resume(now, id, name, generation));
            }
            Hold::Heartbeat => {
                let answer = sessions.heartbeat(id, holder).await.unwrap().into_result();
                prop_assert_eq!(answer, model.heartbeat(now, id, name, generation));
            }
            Hold::Disconnect => {
                let answer = sessions.disconnect(id, holder).await.unwrap().into_result();
                prop_assert_eq!(answer, model.disconnect(now, id, name, generation));
            }
        }
        Ok(())
    }

    async fn claim(&mut self, limit: usize) -> Result<(), TestCaseError> {
        let (now, limit) = (self.now(), self.limit(limit));
        let mut answer = self.space.sessions.claim(limit).await.unwrap();
        let mut expected = self.model.claim(now, limit);
        if self.is_partitioned {
            let sort = |claims: &mut Claims| claims.claims.sort_by_key(|it| it.id);
            sort(&mut answer);
            sort(&mut expected);
        }
        prop_assert_eq!(&answer, &expected);
        self.claimed = answer.claims.iter().map(|it| (it.id, it.generation)).collect();
        Ok(())
    }

    async fn ack_many(&mut self, of: Of) -> Result<(), TestCaseError> {
        let now = self.now();
        let tokens = std::mem::take(&mut self.claimed).into_iter();
        let tokens: Vec<_> = tokens
            .chain([(self.session(19), Generation::new(1))])
            .map(|(id, generation)| (id, self.generation(id, of).unwrap_or(generation)))
            .collect();
        let answers = self.space.sessions.ack_many(&tokens).await.unwrap();
        let answers: Vec<_> = answers.into_iter().map(Answer::into_result).collect();
        let expected: Vec<_> =
            tokens.iter().map(|(id, generation)| self.model.ack(now, *id, *generation)).collect();
        prop_assert_eq!(answers, expected);
        Ok(())
    }

    async fn step(&mut self, op: &Op) -> Result<(), TestCaseError> {
        let now = self.now();
        match *op {
            Op::Activate { broadcaster, config, holder } => {
                let (broadcaster, config) = (format!("{{b}}:{broadcaster}"), format!("c{config}"));
                let name = holder.map(|holder| format!("h{holder}"));
                let holder = name.as_deref().map(key);
                let answer = self
                    .space
                    .sessions
                    .activate(key(&broadcaster), &config, holder)
                    .await
                    .unwrap()
                    .into_result();
                let id = answer.map_or_else(|_| self.session(255), |it| it.id);
                let expected = self.model.activate(now, id, &broadcaster, &config, name.as_deref());
                prop_assert_eq!(answer, expected);
                if !self.made.contains(&id) && answer.is_ok() {
                    self.made.push(id);
                }
            }
            Op::Hold { how, session, holder, of } => {
                self.hold(how, self.session(session), &format!("h{holder}"), of).await?;
            }
            Op::Update { session, value, of } => {
                let (id, value) = (self.session(session), format!("v{value}"));
                let generation = self.generation(id, of);
                let answer = self.space.sessions.update(id, &value, generation).await.unwrap().into_result();
                prop_assert_eq!(answer, self.model.update(now, id, &value, generation));
            }
            Op::Get { session } => {
                let id = self.session(session);
                let answer = self.space.sessions.get(id).await.unwrap();
                prop_assert_eq!(answer, self.model.get(now, id));
            }
            Op::Find { broadcaster } => {
                let broadcaster = format!("{{b}}:{broadcaster}");
                let answer = self.space.sessions.find(key(&broadcaster)).await.unwrap();
                prop_assert_eq!(answer, self.model.find(now, &broadcaster));
                if self.is_partitioned {
                    self.counts().await?;
                }
            }
            Op::Delete { session } => {
                let id = self.session(session);
                let answer = self.space.sessions.delete(id).await.unwrap().into_result();
                prop_assert_eq!(answer, self.model.delete(now, id));
            }
            Op::Orphans { age_ms, after, limit } => {
                let (age, limit) = (Duration::from_millis(age_ms), self.limit(limit));
                let after = self.listed(State::Disconnected, after);
                let answer = self.space.sessions.orphans_after(age, after, limit).await.unwrap();
                prop_assert_eq!(answer, self.model.orphans(now, age_ms, after, limit));
            }
            Op::List { state, after, limit } => {
                let (after, limit) = (self.listed(state, after), self.limit(limit));
                let answer = self.space.sessions.list_after(state, after, limit).await.unwrap();
                prop_assert_eq!(answer, self.model.list(now, state, after, limit));
            }
            Op::Counts => self.counts().await?,
            Op::Claim { limit } => self.claim(limit).await?,
            Op::Ack { session, of } => {
                let id = self.session(session);
                let generation = self.generation(id, of).unwrap_or(Generation::new(1));
                let answer = self.space.sessions.ack(id, generation).await.unwrap().into_result();
                prop_assert_eq!(answer, self.model.ack(now, id, generation));
            }
            Op::Renew { session, of, attempt } => {
                let id = self.session(session);
                let generation = self.generation(id, of).unwrap_or(Generation::new(1));
                let answer = self.space.sessions.renew(id, generation, attempt).await.unwrap().into_result();
                prop_assert_eq!(answer, self.model.renew(now, id, generation, attempt));
            }
            Op::AckMany { of } => self.ack_many(of).await?,
            Op::Cleanup => {
                let answer = self.space.sessions.cleanup().await.unwrap();
                prop_assert_eq!(answer, self.model.cleanup(now));
            }
            Op::Retry { session } => {
                let id = self.session(session);
                let answer = self.space.sessions.retry(id).await.unwrap().into_result();
                prop_assert_eq!(answer, self.model.retry(now, id));
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

/// On which store, and what is looked at after each history.
#[derive(Clone, Copy)]
pub(crate) struct On<'a> {
    pub(crate) name: &'static str,
    pub(crate) url: &'a str,
    pub(crate) servers: &'a [RedisServer],
}

async fn agree(on: On<'_>, mut options: SessionOptions, history: &[Op]) -> Result<(), TestCaseError> {
    let is_partitioned = on.name == "cluster" || on.url == SPREAD_MEMORY;
    if is_partitioned {
        (options.max_sessions, options.batch) = (100_000, 1000);
    }
    let space = Space::on(on.name, on.url, options.clone()).await;
    let model = SessionModel::new(options);
    let mut pair = Pair { space, model, made: Vec::new(), claimed: Vec::new(), is_partitioned };
    pair.stamp().await?;
    for (step, op) in history.iter().enumerate() {
        let mut agreed = pair.step(op).await;
        if agreed.is_ok() && on.name == "memory" {
            agreed = pair.lists().await;
        }
        agreed.map_err(|error| TestCaseError::fail(format!("step {step}, {op:?}: {error}")))?;
    }
    // Whatever was not asked for is also as it should be.
    pair.gets().await?;
    pair.lists().await?;
    let now = pair.now();
    if !on.servers.is_empty() {
        let connections = on.servers.iter().map(RedisServer::connection).collect();
        let counts = pair.model.counts(now);
        let all = counts.active + counts.disconnected + counts.claimed + counts.dead;
        prop_assert_eq!(audit(connections, &format!("{}:", pair.space.namespace)) as u64, all);
    }
    Ok(())
}

pub(crate) fn check(on: On<'_>, cases: u32) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    runner
        .run(&(spaces(), ops()), |(options, history)| runtime.block_on(agree(on, options, &history)))
        .unwrap_or_else(|failure| panic!("{failure}"));
}

/// Histories to run, of 60 operations in the mean.
fn budget() -> u32 {
    std::env::var("TIDEGATE_HISTORY_OPS").map_or(200_000, |ops| ops.parse::<u32>().expect("a number")) / 60
}

#[test]
fn memory_agrees_with_the_model() {
    check(On { name: "memory", url: "memory:", servers: &[] }, budget());
}

#[test]
fn memory_in_partitions_agrees_with_the_model() {
    check(On { name: "memory", url: SPREAD_MEMORY, servers: &[] }, budget() / 2);
}

#[test]
fn redis_agrees_with_the_model_and_what_it_writes_is_whole() {
    let server = RedisServer::start();
    let servers = std::slice::from_ref(&server);
    check(On { name: "redis", url: &server.url(), servers }, (budget() / 10).max(1));
    assert_eq!(server.keys_without_ttl(), Vec::<String>::new());
}

#[test]
fn the_cluster_agrees_with_the_model_and_what_it_writes_is_whole() {
    let on = On { name: "cluster", url: &CLUSTER.url(), servers: CLUSTER.nodes() };
    check(on, (budget() / 40).max(1));
}
