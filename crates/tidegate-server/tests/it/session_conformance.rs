//! The model of sessions, asked the same random questions as the HTTP API, on every store:
//! every answer must be what the model says. Lists are read page by page.
//!
//! In a cluster only what one sees of all partitions at once can be told from the model:
//! limits and caps are out of reach there, claims are compared as sets, and every partition
//! sees each move of the clock.

use std::sync::LazyLock;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};
use tidegate::Name;
use tidegate::clock::Timestamp;
use tidegate::session::{
    Disconnect, Found, Generation, Lease, List, Refusal, Session, SessionId, SessionOptions, State,
};
use tidegate::testkit::session::SessionModel;
use tidegate::testkit::{RedisCluster, RedisServer, unique};

use crate::session::{NOBODY, NOW};
use crate::support::{Answer, Fixture, START, call, settings};

static REDIS: LazyLock<RedisServer> = LazyLock::new(RedisServer::start);
static CLUSTER: LazyLock<RedisCluster> = LazyLock::new(RedisCluster::start);

#[derive(Debug, Clone, Copy)]
enum Hold {
    Connect,
    Resume,
    Heartbeat,
    Disconnect,
}

/// Sessions are told by the order in which they were made, the last first; one more than
/// there are is one that never was. A call is made with the generation that is right, the
/// next one, or none.
#[derive(Debug, Clone)]
enum Op {
    Activate { broadcaster: u8, holder: Option<u8> },
    Hold { how: Hold, session: u8, holder: u8, of: Option<bool> },
    Update { session: u8, value: u8, of: Option<bool> },
    Get { session: u8 },
    Find { broadcaster: u8 },
    Delete { session: u8 },
    Orphans { age_ms: u64, limit: usize },
    List { state: State, limit: usize },
    Counts,
    Claim { limit: usize },
    Ack { session: u8, of: Option<bool> },
    AckAll,
    Cleanup,
    Retry { session: u8 },
    Move { by_ms: i64 },
    MoveTo { edge: u8, off_ms: i64 },
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let of = prop_oneof![4 => Just(None), 4 => Just(Some(true)), 1 => Just(Some(false))];
    let session = prop_oneof![5 => 0..2_u8, 2 => 0..6_u8, 1 => 0..20_u8];
    let how = prop_oneof![
        2 => Just(Hold::Connect), 2 => Just(Hold::Resume), 2 => Just(Hold::Heartbeat), 4 => Just(Hold::Disconnect)
    ];
    let state = prop_oneof![
        Just(State::Active),
        Just(State::Disconnected),
        Just(State::Orphan),
        Just(State::Claimed),
        Just(State::Dead)
    ];
    let op = prop_oneof![
        8 => (0..4_u8, prop::option::of(0..3_u8))
            .prop_map(|(broadcaster, holder)| Op::Activate { broadcaster, holder }),
        16 => (how, session.clone(), 0..3_u8, of.clone())
            .prop_map(|(how, session, holder, of)| Op::Hold { how, session, holder, of }),
        2 => (session.clone(), 0..3_u8, of.clone())
            .prop_map(|(session, value, of)| Op::Update { session, value, of }),
        3 => session.clone().prop_map(|session| Op::Get { session }),
        2 => (0..5_u8).prop_map(|broadcaster| Op::Find { broadcaster }),
        2 => session.clone().prop_map(|session| Op::Delete { session }),
        3 => (0..9000_u64, 1..4_usize).prop_map(|(age_ms, limit)| Op::Orphans { age_ms, limit }),
        3 => (state, 1..4_usize).prop_map(|(state, limit)| Op::List { state, limit }),
        2 => Just(Op::Counts),
        6 => (1..4_usize).prop_map(|limit| Op::Claim { limit }),
        3 => (session.clone(), of).prop_map(|(session, of)| Op::Ack { session, of }),
        1 => Just(Op::AckAll),
        1 => Just(Op::Cleanup),
        1 => session.prop_map(|session| Op::Retry { session }),
        4 => (-300..3000_i64).prop_map(|by_ms| Op::Move { by_ms }),
        10 => (0..8_u8, -1..2_i64).prop_map(|(edge, off_ms)| Op::MoveTo { edge, off_ms }),
    ];
    prop::collection::vec(op, 1..80)
}

/// Settings as they are written, and what they amount to.
fn spaces() -> impl Strategy<Value = (Vec<String>, SessionOptions)> {
    let (grace, lease) =
        (prop_oneof![Just(0_u64), Just(1500), Just(5000)], prop_oneof![Just(1000_u64), Just(3000)]);
    let (more, claim) = (prop_oneof![Just(2000_u64), Just(60_000)], prop_oneof![Just(1000_u64), Just(4000)]);
    (grace, lease, more, claim, 1..4_u32, 1..4_usize, 2..7_usize).prop_map(
        |(grace, lease, more, claim, attempts, holders, sessions)| {
            let mut options = SessionOptions::default();
            let ms = Duration::from_millis;
            let ttl = grace + lease + more;
            (options.grace, options.holder_lease, options.session_ttl) = (ms(grace), ms(lease), ms(ttl));
            (options.retention, options.claim_lease, options.migration_lease) =
                (ms(ttl + 4000), ms(claim), ms(ttl));
            (options.max_attempts, options.max_holders, options.max_sessions) = (attempts, holders, sessions);
            // Nothing happens in the background.
            options.cleanup_interval = Duration::from_secs(86_400);
            let written = [
                format!("grace={grace}ms"),
                format!("holder_lease={lease}ms"),
                format!("session_ttl={ttl}ms"),
                format!("retention={}ms", ttl + 4000),
                format!("claim_lease={claim}ms"),
                format!("migration_lease={ttl}ms"),
                format!("max_attempts={attempts}"),
                format!("max_holders={holders}"),
                format!("max_sessions={sessions}"),
                "cleanup_interval=1d".to_owned(),
            ];
            (written.map(|it| format!("main.{it}")).to_vec(), options)
        },
    )
}

type Checked = Result<(), TestCaseError>;

/// The API, and the model beside it.
struct Pair {
    f: Fixture,
    model: SessionModel,
    made: Vec<SessionId>,
    claimed: Vec<(SessionId, Generation)>,
    is_partitioned: bool,
}

fn refusal_of(answer: &Answer) -> Option<String> {
    (!answer.status.is_success()).then(|| answer.json()["refusal"].as_str().expect(&answer.body).to_owned())
}

fn same<T>(answer: &Answer, expected: Result<T, Refusal>, told: impl FnOnce(T) -> Value) -> Checked {
    match expected {
        Ok(expected) => prop_assert_eq!(answer.json(), told(expected)),
        Err(refusal) => {
            let told = refusal_of(answer);
            prop_assert_eq!(told.as_deref(), Some(refusal.as_str()), "{:?}", answer);
        }
    }
    Ok(())
}

/// The model keeps texts.
fn as_json(text: &str) -> Value {
    if text.is_empty() { Value::Null } else { serde_json::from_str(text).unwrap() }
}

fn session_json(session: &Session) -> Value {
    json!({"space": "main", "id": session.id.to_string(), "broadcaster": session.broadcaster,
        "config": as_json(&session.config), "value": as_json(&session.value), "state": session.state.as_str(),
        "generation": session.generation.get(), "ref_count": session.ref_count,
        "holders": session.holders.iter()
            .map(|it| json!({"holder": it.holder, "until_ms": it.until.as_millis()})).collect::<Vec<_>>(),
        "held_until_ms": session.held_until.map(Timestamp::as_millis),
        "last_disconnect_ms": session.last_disconnect.map(Timestamp::as_millis),
        "last_update_ms": session.last_update.as_millis(), "last_seen_ms": session.last_seen.as_millis(),
        "attempts": session.attempts})
}

impl Pair {
    fn now(&self) -> u64 {
        self.f.clock.now().as_millis()
    }

    fn session(&self, number: u8) -> SessionId {
        let place = usize::from(number) % (self.made.len() + 1);
        self.made.iter().rev().nth(place).copied().unwrap_or_else(|| NOBODY.parse().unwrap())
    }

    fn generation(&self, id: SessionId, of: Option<bool>) -> Option<Generation> {
        let right = self.model.generation(id).unwrap_or(1);
        of.map(|is_right| Generation::new(if is_right { right } else { right + 1 }))
    }

    async fn ask(&self, method: &str, path: &str, body: &str) -> Answer {
        call(&self.f.app, method, &format!("/v1/sessions/main{path}"), body).await
    }

    async fn counts(&mut self) -> Checked {
        let (now, told) = (self.now(), self.ask("GET", "/counts", "").await.json());
        let it = self.model.counts(now);
        let expected = json!({"space": "main", "active": it.active, "disconnected": it.disconnected,
            "orphans": it.orphans, "claimed": it.claimed, "dead": it.dead, "lag_ms": it.lag_ms,
            "held_until_ms": it.held_until.map(Timestamp::as_millis)});
        prop_assert_eq!(told, expected);
        Ok(())
    }

    async fn move_to(&mut self, at_ms: u64) -> Checked {
        // Each partition has its own latest moment; and in the background somebody looks after
        // the space now and then.
        self.counts().await?;
        self.f.clock.set(Timestamp::from_millis(at_ms.clamp(NOW - 1_000_000, NOW + 1_000_000)));
        if self.is_partitioned {
            self.counts().await?;
        }
        Ok(())
    }

    async fn activate(&mut self, broadcaster: u8, holder: Option<u8>) -> Checked {
        let (now, broadcaster) = (self.now(), format!("{{b}}/{broadcaster}"));
        let holder = holder.map(|holder| format!("h/{holder}"));
        let config = json!({"at": now});
        let body = json!({"broadcaster": broadcaster, "config": config, "holder": holder}).to_string();
        let answer = self.ask("POST", "", &body).await;
        let told = answer.json()["id"].as_str().map(|id| id.parse().unwrap());
        let new = told.unwrap_or_else(|| NOBODY.parse().unwrap());
        let expected = self.model.activate(now, new, &broadcaster, &config.to_string(), holder.as_deref());
        if let Ok(activated) = &expected {
            let status = if activated.found == Found::Nothing { 201 } else { 200 };
            prop_assert_eq!(answer.status.as_u16(), status);
            if activated.found == Found::Nothing {
                self.made.push(new);
            }
        }
        same(&answer, expected, |it| {
            let found = match it.found {
                Found::Nothing => "nothing",
                Found::Disconnected => "disconnected",
                Found::Active => "active",
            };
            json!({"space": "main", "id": it.id.to_string(), "generation": it.lease.generation.get(),
                "until_ms": it.lease.until.as_millis(), "found": found})
        })
    }

    async fn hold(&mut self, how: Hold, id: SessionId, holder: u8, of: Option<bool>) -> Checked {
        let (now, generation, name) = (self.now(), self.generation(id, of), format!("h/{holder}"));
        let query = generation.map(|it| format!("generation={}", it.get())).unwrap_or_default();
        let path = format!("/{id}/holders/h%2F{holder}");
        let leased = |it: Lease| {
            json!({"space": "main", "id": id.to_string(), "holder": name, "generation": it.generation.get(),
                "until_ms": it.until.as_millis()})
        };
        let model = &mut self.model;
        match how {
            Hold::Connect => {
                let expected = model.connect(now, id, &name, generation);
                same(&self.ask("PUT", &format!("{path}?{query}"), "").await, expected, leased)
            }
            Hold::Resume => {
                let expected = model.resume(now, id, &name, generation);
                same(&self.ask("PUT", &format!("{path}?resume=true&{query}"), "").await, expected, leased)
            }
            Hold::Heartbeat => {
                let expected = model.heartbeat(now, id, &name, generation);
                same(&self.ask("POST", &format!("{path}/heartbeat?{query}"), "").await, expected, leased)
            }
            Hold::Disconnect => {
                let expected = model.disconnect(now, id, &name, generation);
                same(&self.ask("DELETE", &format!("{path}?{query}"), "").await, expected, |left| {
                    let state = if left == Disconnect::Held { "active" } else { "disconnected" };
                    json!({"space": "main", "id": id.to_string(), "holder": name, "state": state})
                })
            }
        }
    }

    /// Reads all pages of a list.
    async fn pages(&self, query: &str, limit: usize, expected: &List) -> Checked {
        let (mut told, mut next) = (Vec::new(), String::new());
        loop {
            let page = self.ask("GET", &format!("?{query}&limit={limit}{next}"), "").await.json();
            told.extend(page["sessions"].as_array().unwrap_or_else(|| panic!("{page}")).clone());
            let Some(cursor) = page["next"].as_str() else { break };
            next = format!("&after={cursor}");
        }
        let row =
            |it: &tidegate::session::Listed| json!({"id": it.id.to_string(), "at_ms": it.at.as_millis()});
        prop_assert_eq!(told, expected.sessions.iter().map(row).collect::<Vec<_>>());
        Ok(())
    }

    async fn claim(&mut self, limit: usize) -> Checked {
        let (now, limit) = (self.now(), if self.is_partitioned { 1000 } else { limit });
        let mut told = self.ask("POST", "/claims", &json!({"limit": limit}).to_string()).await.json();
        let expected = self.model.claim(now, limit);
        self.claimed = expected.claims.iter().map(|it| (it.id, it.generation)).collect();
        let row = |it: &tidegate::session::Claim| {
            json!({"id": it.id.to_string(), "generation": it.generation.get(), "broadcaster": it.broadcaster,
                "config": as_json(&it.config), "value": as_json(&it.value), "since_ms": it.since.as_millis(),
                "attempt": it.attempt, "until_ms": it.until.as_millis()})
        };
        let mut claims: Vec<_> = expected.claims.iter().map(row).collect();
        if self.is_partitioned {
            let by_id = |it: &Value| it["id"].as_str().unwrap().to_owned();
            told["claims"].as_array_mut().unwrap().sort_by_key(by_id);
            claims.sort_by_key(by_id);
        }
        let it = expected.swept;
        let expected = json!({"space": "main", "claims": claims, "lapsed": it.lapsed, "buried": it.buried,
            "missing": 0, "invalid": 0, "lag_ms": it.lag_ms, "is_more": it.is_more,
            "held_until_ms": it.held_until.map(Timestamp::as_millis), "retry_after_ms": it.retry_after_ms});
        prop_assert_eq!(told, expected);
        Ok(())
    }

    async fn ack(&mut self, claims: &[(SessionId, Generation)]) -> Checked {
        let now = self.now();
        let acks: Vec<_> =
            claims.iter().map(|(id, it)| json!({"id": id.to_string(), "generation": it.get()})).collect();
        let told = self.ask("POST", "/acks", &json!({"acks": acks}).to_string()).await.json();
        let mut outcomes = Vec::new();
        for (id, generation) in claims {
            outcomes.push(match self.model.ack(now, *id, *generation) {
                Ok(()) => "deleted",
                Err(refusal) => refusal.as_str(),
            });
        }
        let rows = told["acks"].as_array().unwrap().iter().map(|it| it["outcome"].as_str().unwrap());
        prop_assert_eq!(rows.collect::<Vec<_>>(), outcomes.clone());
        prop_assert_eq!(&told["deleted"], outcomes.iter().filter(|it| **it == "deleted").count());
        Ok(())
    }

    async fn cleanup(&mut self) -> Checked {
        let now = self.now();
        let told = self.ask("POST", "/cleanup", "").await.json();
        let it = self.model.cleanup(now);
        prop_assert_eq!(&told["deleted"], it.deleted);
        prop_assert_eq!(&told["buried"], it.buried);
        prop_assert_eq!(&told["lapsed"], it.lapsed);
        prop_assert_eq!(&told["held_until_ms"], &json!(it.held_until.map(Timestamp::as_millis)));
        prop_assert_eq!(&told["retry_after_ms"], &json!(it.retry_after_ms));
        Ok(())
    }

    async fn step(&mut self, op: &Op) -> Checked {
        let now = self.now();
        match *op {
            Op::Activate { broadcaster, holder } => self.activate(broadcaster, holder).await,
            Op::Hold { how, session, holder, of } => self.hold(how, self.session(session), holder, of).await,
            Op::Update { session, value, of } => {
                let id = self.session(session);
                let (generation, value) = (self.generation(id, of), json!([value]));
                let body = json!({"value": value, "generation": generation.map(Generation::get)}).to_string();
                let answer = self.ask("PUT", &format!("/{id}/value"), &body).await;
                same(
                    &answer,
                    self.model.update(now, id, &value.to_string(), generation),
                    |it| json!({"space": "main", "id": id.to_string(), "generation": it.get()}),
                )
            }
            Op::Get { session } => {
                let id = self.session(session);
                let answer = self.ask("GET", &format!("/{id}"), "").await;
                same(&answer, self.model.get(now, id).ok_or(Refusal::Gone), |it| session_json(&it))
            }
            Op::Find { broadcaster } => {
                let answer = self.ask("GET", &format!("/broadcasters/%7Bb%7D%2F{broadcaster}"), "").await;
                let expected = self.model.find(now, &format!("{{b}}/{broadcaster}"));
                same(&answer, expected.ok_or(Refusal::Gone), |it| session_json(&it))
            }
            Op::Delete { session } => {
                let id = self.session(session);
                let answer = self.ask("DELETE", &format!("/{id}"), "").await;
                let expected = self.model.delete(now, id);
                prop_assert_eq!(answer.status == 204, expected.is_ok(), "{:?}", answer);
                let told = refusal_of(&answer);
                prop_assert_eq!(told.as_deref(), expected.err().map(Refusal::as_str));
                Ok(())
            }
            Op::Orphans { age_ms, limit } => {
                let expected = self.model.orphans(now, age_ms, None, 1000);
                self.pages(&format!("max_age={age_ms}ms"), limit, &expected).await
            }
            Op::List { state, limit } => {
                let expected = self.model.list(now, state, None, 1000);
                self.pages(&format!("state={}", state.as_str()), limit, &expected).await
            }
            Op::Counts => self.counts().await,
            Op::Claim { limit } => self.claim(limit).await,
            Op::Ack { session, of } => {
                let id = self.session(session);
                let generation = self.generation(id, Some(of.unwrap_or(true))).unwrap();
                self.ack(&[(id, generation)]).await
            }
            Op::AckAll => {
                let claimed = std::mem::take(&mut self.claimed);
                self.ack(&claimed).await
            }
            Op::Cleanup => self.cleanup().await,
            Op::Retry { session } => {
                let id = self.session(session);
                let answer = self.ask("POST", &format!("/dead/{id}/retry"), "").await;
                same(
                    &answer,
                    self.model.retry(now, id),
                    |()| json!({"space": "main", "id": id.to_string(), "state": "claimed"}),
                )
            }
            Op::Move { by_ms } => self.move_to(now.strict_add_signed(by_ms)).await,
            Op::MoveTo { edge, off_ms } => {
                let ahead: Vec<_> = self.model.edges().into_iter().filter(|at| *at >= now).collect();
                let Some(at_ms) = ahead.get(usize::from(edge)).map(|at| at.strict_add_signed(off_ms)) else {
                    return Ok(());
                };
                // Every second time somebody is there meanwhile.
                while edge % 2 == 0 && self.now() + 500 < at_ms {
                    self.move_to(self.now() + 500).await?;
                }
                self.move_to(at_ms).await
            }
        }
    }
}

fn agree(url: &str, cases: u32, is_partitioned: bool) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let case = async |written: &[String], mut options: SessionOptions, history: &[Op]| -> Checked {
        let mut written: Vec<_> = written.iter().map(String::as_str).collect();
        if is_partitioned {
            // Each has its part, and which one a session is in is up to chance.
            written.push("main.max_sessions=100000");
            options.max_sessions = 100_000;
        }
        let mut settings = settings("sessions", &written);
        settings.store.namespace = Some(Name::new(&unique("s")).unwrap());
        let f = Fixture::of(url, &settings, START).await;
        let model = SessionModel::new(options);
        let mut pair = Pair { f, model, made: Vec::new(), claimed: Vec::new(), is_partitioned };
        pair.counts().await?;
        for (number, op) in history.iter().enumerate() {
            pair.step(op)
                .await
                .map_err(|error| TestCaseError::fail(format!("step {number}, {op:?}: {error}")))?;
        }
        Ok(())
    };
    runner
        .run(&(spaces(), ops()), |((written, options), history)| {
            runtime.block_on(case(&written, options, &history))
        })
        .unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn the_http_api_agrees_with_the_model_in_memory() {
    agree("memory:", 300, false);
}

#[test]
fn the_http_api_agrees_with_the_model_on_redis() {
    agree(&REDIS.url(), 60, false);
    assert_eq!(REDIS.keys_without_ttl(), Vec::<String>::new());
}

#[test]
fn the_http_api_agrees_with_the_model_on_a_cluster() {
    agree(&CLUSTER.url(), 10, true);
    assert_eq!(CLUSTER.keys_without_ttl(), Vec::<String>::new());
}
