//! All partitions of a space are visited together, and past one that is away, in every room; and
//! a store in this process has them as others do.

use std::collections::BTreeSet;
use std::time::Duration;

use tidegate::clock::{ManualClock, monotonic};
use tidegate::hot::{Edit, Hot, Recorded, WhenFull};
use tidegate::limit::LimitOptions;
use tidegate::session::{Answer, SessionOptions, Sessions, State};
use tidegate::store::StoreOptions;
use tidegate::testkit::limit::{rate, sliding};
use tidegate::testkit::{Fault, FaultProxy, RedisCluster, RedisServer, unique};
use tidegate::{Cost, ErrorKind, Name, Result, Tidegate};

use crate::kit::{CLUSTER, REDIS};
use crate::outage::until;
use crate::session::{GRACE, START_MS, key, ms, options, pass};
use crate::session_flaws::raw;
use crate::{hot, session};

fn store(clock: &ManualClock, partitions: u32) -> StoreOptions {
    let mut store = StoreOptions::default();
    (store.clock, store.partitions) = (clock.clone().into(), Some(partitions));
    store.deadline = Duration::from_secs(10);
    store.namespace = Some(Name::new(&unique("partitions")).unwrap());
    store
}

fn clock() -> ManualClock {
    ManualClock::at(ms(START_MS))
}

/// Sessions that were left just now.
async fn leave(sessions: &Sessions, count: usize) {
    for number in 0..count {
        let broadcaster = format!("b{number}");
        let id = sessions.activate(key(&broadcaster), "", Some(key("h"))).await.unwrap().done().unwrap().id;
        sessions.disconnect(id, key("h")).await.unwrap().done().unwrap();
    }
}

/// Makes pages hot, a thousand or fewer.
async fn heat(hot: &Hot, count: usize) {
    let pages: Vec<_> = (0..count).map(|number| format!("page {number}")).collect();
    for id in ["1", "2"] {
        let edits: Vec<_> = pages.iter().map(|page| Edit::new(key(page), id, "alice")).collect();
        let recorded = hot.record_many(&edits).await.unwrap();
        assert!(recorded.iter().all(|it| matches!(it, Recorded::Remembered | Recorded::Promoted { .. })));
    }
}

/// Whoever visited them one after another would take as long as all of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_visit_to_64_partitions_takes_the_time_of_a_few() {
    const PARTITIONS: u32 = 64;
    let (server, clock, delay) = (RedisServer::start(), clock(), Duration::from_millis(100));
    let proxy = FaultProxy::start(server.port()).await;
    let gate = Tidegate::open_with(&proxy.url(), store(&clock, PARTITIONS)).await.unwrap();
    let sessions = gate.sessions("sessions", options(|_| {})).unwrap();
    leave(&sessions, 200).await;
    let hot = gate.hot("pages", hot::options(|it| it.partitions = PARTITIONS)).unwrap();
    heat(&hot, 200).await;
    let limit = gate.limit("api", sliding(100, 60, 600), LimitOptions::default()).unwrap();
    for number in 0..100 {
        let (name, lasting) = (format!("k{number}"), Duration::from_secs(60));
        limit.set_override(key(&name), rate("20/m"), lasting).await.unwrap();
        limit.reserve(key(&name), "id", Cost::ONE, lasting).await.unwrap();
    }
    pass(&clock, &sessions, GRACE).await;
    proxy.set(Fault::Delay(delay));
    let started = monotonic();
    sessions.find(key("nobody")).await.unwrap();
    let one = started.elapsed();
    assert!(one >= 2 * delay, "there and back: {one:?}");

    let bound = 2 * delay * PARTITIONS / 10;
    let took = |what: &str, since| {
        let took = monotonic().duration_since(since);
        assert!(took < bound, "{what} took {took:?}, of one {one:?}");
        monotonic()
    };
    let mut since = monotonic();
    assert_eq!(sessions.list(State::Disconnected, 1000).await.unwrap().sessions.len(), 200);
    since = took("list of sessions", since);
    assert_eq!(sessions.counts().await.unwrap().orphans, 200);
    since = took("counts", since);
    sessions.stamp().await.unwrap();
    since = took("stamp", since);
    let claims = sessions.claim(100).await.unwrap().claims;
    since = took("claim", since);
    let claims: Vec<_> = claims.iter().map(|it| (it.id, it.generation)).collect();
    assert_eq!(sessions.ack_many(&claims).await.unwrap(), vec![Answer::Done(()); 100]);
    since = took("ack_many", since);
    assert_eq!(sessions.cleanup().await.unwrap().deleted, 100);
    since = took("cleanup of sessions", since);

    assert_eq!(hot.list(1000).await.unwrap().len(), 200);
    since = took("list of pages", since);
    assert_eq!(hot.tracked().await.unwrap(), 200);
    since = took("count", since);
    let third: Vec<_> = (0..200).map(|number| format!("page {number}")).collect();
    let third: Vec<_> = third.iter().map(|page| Edit::new(key(page), "3", "bob")).collect();
    assert_eq!(hot.record_many(&third).await.unwrap(), vec![Recorded::Added; 200]);
    since = took("record_many", since);
    clock.advance_ms(hot::HOUR);
    assert_eq!(hot.cleanup().await.unwrap(), 200);
    since = took("cleanup of pages", since);
    hot.watch(None).await.unwrap();
    since = took("watch", since);

    clock.set(ms(START_MS));
    assert_eq!(limit.overrides(None, 1000).await.unwrap().items.len(), 100);
    since = took("overrides", since);
    assert_eq!(limit.reservations(None, 1000).await.unwrap().items.len(), 100);
    took("reservations", since);
    proxy.set(Fault::None);
}

/// A cluster, one of whose masters will be away.
struct Away {
    cluster: RedisCluster,
    clock: ManualClock,
    gate: Tidegate,
    /// Which master.
    number: usize,
}

impl Away {
    const PARTITIONS: u32 = 16;

    async fn new() -> Self {
        let (cluster, clock) = (RedisCluster::start(), clock());
        let mut store = store(&clock, Self::PARTITIONS);
        store.deadline = Duration::from_millis(500);
        let gate = Tidegate::open_with(&cluster.url(), store).await.unwrap();
        Self { cluster, clock, gate, number: 0 }
    }

    /// Keys of each master.
    fn keys(&self, pattern: &str) -> Vec<usize> {
        let keys =
            |node: &RedisServer| raw::<Vec<String>>(&mut node.connection(), &format!("KEYS {pattern}")).len();
        self.cluster.nodes().iter().map(keys).collect()
    }

    /// Keys of those that are there.
    fn keys_elsewhere(&self, pattern: &str) -> usize {
        let there = self.cluster.nodes().iter().enumerate().filter(|(number, _)| *number != self.number);
        there
            .map(|(_, node)| raw::<Vec<String>>(&mut node.connection(), &format!("KEYS {pattern}")).len())
            .sum()
    }

    /// The master that has such a key goes away; how many it had.
    fn kill(&mut self, pattern: &str) -> usize {
        let keys = self.keys(pattern);
        self.number = keys.iter().position(|count| *count > 0).unwrap();
        assert!(keys.iter().sum::<usize>() > 0, "{keys:?}");
        self.cluster.nodes_mut()[self.number].kill();
        keys[self.number]
    }

    /// As [`pass`]; one partition cannot be told.
    async fn pass(&self, sessions: &Sessions, half_ms: u64) {
        for _ in 0..2 {
            self.clock.advance_ms(half_ms);
            assert!(sessions.stamp().await.unwrap_err().is_transient());
        }
    }
}

fn in_batches_of(batch: usize) -> SessionOptions {
    options(|it| it.batch = batch)
}

/// Not only one batch of each of the others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cleanup_of_sessions_ends_everywhere_but_where_it_cannot() {
    let mut away = Away::new().await;
    let sessions = away.gate.sessions("sessions", in_batches_of(2)).unwrap();
    leave(&sessions, 200).await;
    let there = 200 - away.kill("*:session:*");
    until("it is noticed", async || sessions.counts().await.err()).await;
    away.pass(&sessions, GRACE / 2).await;
    assert!(sessions.cleanup().await.unwrap_err().is_transient(), "not all of it was done");
    assert_eq!(away.keys_elsewhere("*:session:*"), 0);
    assert_eq!(session::metric(&away.gate, "orphan_sessions_deleted_total") as usize, there);
}

/// What one partition cannot be told is told to the others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claims_are_acknowledged_everywhere_but_where_they_cannot_be() {
    let mut away = Away::new().await;
    let sessions = away.gate.sessions("sessions", in_batches_of(2)).unwrap();
    leave(&sessions, 200).await;
    pass(&away.clock, &sessions, GRACE).await;
    let claims = sessions.claim(1000).await.unwrap().claims;
    assert_eq!(claims.len(), 200);
    let there = 200 - away.kill("*:session:*");
    let claims: Vec<_> = claims.iter().map(|it| (it.id, it.generation)).collect();
    assert!(sessions.ack_many(&claims).await.unwrap_err().is_transient());
    assert_eq!(away.keys_elsewhere("*:session:*"), 0);
    assert_eq!(session::metric(&away.gate, "orphan_sessions_deleted_total") as usize, there);
}

/// A side effect that cannot be acknowledged keeps nobody else's from being run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn side_effects_run_on_where_they_can_be_acknowledged() {
    let mut away = Away::new().await;
    let sessions = away.gate.sessions("sessions", options(|it| it.effects_at_once = 32)).unwrap();
    leave(&sessions, 200).await;
    pass(&away.clock, &sessions, GRACE).await;
    let (mut run, mut there) = (BTreeSet::new(), 0);
    let reaped = sessions.reap(|claim| {
        // Of the first 32 every partition has two.
        if run.is_empty() {
            there = 200 - away.kill("*:session:*");
        }
        run.insert(claim.id);
        std::future::ready(Ok::<_, &str>(()))
    });
    assert!(reaped.await.unwrap_err().is_transient());
    assert_eq!(away.keys_elsewhere("*:session:*"), 0);
    assert_eq!(session::metric(&away.gate, "orphan_sessions_deleted_total") as usize, there);
    assert!(run.len() >= there, "{} of {there}", run.len());
}

/// The first partition is asked how many there are, which those of the others need not wait for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_are_looked_after_everywhere_but_where_they_cannot_be() {
    for in_background in [true, false] {
        let mut away = Away::new().await;
        let set = hot::options(|it| {
            it.partitions = Away::PARTITIONS;
            it.cleanup_interval = Duration::from_secs(if in_background { 1 } else { 86_400 });
        });
        let hot = away.gate.hot("pages", set).unwrap();
        heat(&hot, 300).await;
        let first = "*hot:state:0";
        assert_eq!(away.keys(first).iter().sum::<usize>(), 1);
        assert_eq!(away.kill(first), 1);
        let there = away.keys_elsewhere("*:hot:meta:*");
        assert!((1..300).contains(&there), "{there}");
        until("it is noticed", async || hot.tracked().await.err()).await;
        away.clock.advance_ms(hot::HOUR);
        if !in_background {
            assert!(hot.cleanup().await.unwrap_err().is_transient(), "not all of it was done");
        }
        until("the others are clean", async || {
            (hot::metric(&away.gate, "hot_pages_expired_total") as usize == there).then_some(())
        })
        .await;
        assert_eq!(away.keys_elsewhere("*:hot:meta:*"), 0);
    }
}

/// Who is refused where there is no room is the same on every store, since each partition has its
/// part of it.
#[tokio::test]
async fn a_store_in_this_process_has_partitions_like_others() {
    for partitions in [1, 3, 8] {
        let mut answers = Vec::new();
        for url in ["memory:", &REDIS.url(), &CLUSTER.url()] {
            let clock = clock();
            let gate = Tidegate::open_with(url, store(&clock, partitions)).await.unwrap();
            let sessions = gate.sessions("sessions", options(|it| it.max_sessions = 24)).unwrap();
            let mut activated = Vec::new();
            for number in 0..60 {
                let broadcaster = format!("b{number}");
                let answer = sessions.activate(key(&broadcaster), "", None).await.unwrap();
                activated.push(answer.map(|it| it.found));
                let id = sessions.find(key(&broadcaster)).await.unwrap().map(|it| it.id);
                assert_eq!(id.is_some(), answer.is_done());
                if let Some(id) = id {
                    assert_eq!(sessions.get(id).await.unwrap().unwrap().broadcaster, broadcaster);
                }
            }
            let active = sessions.counts().await.unwrap().active;
            assert_eq!(activated.iter().filter(|it| it.is_done()).count() as u64, active);
            assert_eq!(sessions.list(State::Active, 1000).await.unwrap().sessions.len() as u64, active);
            pass(&clock, &sessions, session::LEASE + GRACE).await;
            let claimed = sessions.claim(10).await.unwrap();
            assert_eq!((claimed.claims.len(), claimed.swept.is_more), (10, active > 10));
            assert_eq!(sessions.cleanup().await.unwrap().deleted, active - 10);
            answers.push(activated);
        }
        assert!(answers.iter().all(|it| *it == answers[0]), "{partitions}: {answers:#?}");
    }
}

/// Each partition has its part of the bounds, its own indices and its own latest moment.
#[tokio::test]
async fn pages_in_partitions_are_the_same_in_this_process_and_on_redis() {
    for seed in 0..20 {
        let clock = clock();
        let mut spaces = Vec::new();
        for url in ["memory:", &REDIS.url()] {
            let gate = Tidegate::open_with(url, store(&clock, 2)).await.unwrap();
            let set = hot::options(|it| {
                (it.partitions, it.max_tracked, it.max_activity) = (3, 6, 9);
                it.window_duration = Duration::from_secs(60);
                it.when_full = if seed % 2 == 0 { WhenFull::Refuse } else { WhenFull::ReplaceColdest };
            });
            spaces.push(gate.hot("pages", set).unwrap());
        }
        let mut random = Sequence(seed);
        for step in 0..150 {
            let pages: Vec<_> = (0..4).map(|_| format!("page {}", random.below(30))).collect();
            let (what, id) = (random.below(8), random.below(5).to_string());
            let mut answers = Vec::new();
            for hot in &spaces {
                let edits: Vec<_> = pages.iter().map(|page| Edit::new(key(page), &id, "alice")).collect();
                answers.push(match what {
                    0 => format!("{:?}", hot.list(4).await),
                    1 => format!("{:?}", hot.tracked().await),
                    2 => format!("{:?}", hot.stats(key(&pages[0])).await),
                    3 => format!("{:?}", hot.cleanup().await),
                    4 => format!("{:?}", hot.remove(key(&pages[0])).await),
                    _ => format!("{:?}", hot.record_many(&edits).await),
                });
            }
            assert_eq!(answers[0], answers[1], "step {step} of {seed}: {what} {pages:?}");
            // Now and then it steps back.
            let now_ms = clock.now().as_millis();
            clock.set(ms(now_ms + random.below(9000) - random.below(10).saturating_sub(8) * 4000));
        }
    }
}

/// Numbers that are the same each time.
struct Sequence(u64);

impl Sequence {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

#[tokio::test]
async fn a_number_of_partitions_that_is_not_allowed_is_refused_by_every_store() {
    for url in ["memory:", &REDIS.url()] {
        for partitions in [0, 1025] {
            let refused: Result<_> = Tidegate::open_with(url, store(&clock(), partitions)).await;
            let error = refused.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config);
            assert_eq!(error.to_string(), format!("{partitions} partitions are not allowed: 1 to 1024 are"));
        }
    }
}

/// Who only looks leaves no trace, whatever is opened.
#[tokio::test]
async fn nothing_runs_in_the_background_of_who_only_reads() {
    let mut store = store(&clock(), 1);
    store.read_only = true;
    let gate = Tidegate::open_with(&REDIS.url(), store).await.unwrap();
    gate.hot("pages", hot::options(|_| {})).unwrap();
    gate.sessions("sessions", options(|_| {})).unwrap();
    let metrics = gate.metrics();
    for reaper in ["hot", "session", "session_reconcile", "session_stamp", "marker"] {
        assert!(!metrics.contains(&format!("reaper=\"{reaper}\"")), "{reaper} in {metrics}");
    }
    assert!(metrics.contains("reaper=\"limit\""), "it has to do with this process alone: {metrics}");
}
