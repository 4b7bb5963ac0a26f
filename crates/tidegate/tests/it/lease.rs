//! Leases: blocks of permits that a node spends by itself, and that never exceed the limit.

use std::num::NonZeroU32;
use std::time::Duration;

use tidegate::clock::{ManualClock, Timestamp, monotonic};
use tidegate::limit::{Algorithm, Calendar, Decision, LeaseOptions, Limit, LimitOptions, Period, Source};
use tidegate::random::Random;
use tidegate::store::{Declarations, StoreOptions};
use tidegate::testkit::limit::model::RawEvents;
use tidegate::testkit::limit::sliding;

use tidegate::testkit::{Fault, FaultProxy, RedisServer, unique};
use tidegate::{AfterLoss, Cost, Key, Name, Outage, Tidegate};

use crate::kit::{CLUSTER, REDIS};
use crate::outage::until;

/// Needs the machine for itself.
mod timing {
    use super::*;

    /// Whoever waits for a block in vain does not wait for the store once more.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_take_waits_for_one_deadline() {
        let server = RedisServer::start();
        let proxy = FaultProxy::start(server.port()).await;
        let gate = Tidegate::open(&proxy.url()).await.unwrap();
        let mut options = LimitOptions::default();
        options.outage = Outage::Closed;
        options.lease = Some(LeaseOptions::default());
        let limit = gate.limit("api", sliding(1_000_000, 60, 600), options).unwrap();
        assert_eq!(take(&limit, 1).await.source(), Source::Lease);
        proxy.set(Fault::HalfOpen);
        let started = monotonic();
        let decision = limit.take(Key::new("another").unwrap(), Cost::ONE).await.unwrap();
        assert_eq!(decision.source(), Source::Policy);
        assert!(started.elapsed() < Duration::from_millis(150), "{:?}", started.elapsed());
    }
}

/// Nodes of one limit, on a clock that the test moves.
#[derive(Clone)]
struct Nodes {
    url: String,
    namespace: Name,
    clock: ManualClock,
    algorithm: Algorithm,
}

const START_MS: u64 = 1_700_000_040_000;

impl Nodes {
    fn new(url: String, algorithm: impl Into<Algorithm>) -> Self {
        let clock = ManualClock::at(Timestamp::from_millis(START_MS));
        Self { url, namespace: Name::new(&unique("t")).unwrap(), clock, algorithm: algorithm.into() }
    }

    fn at(&self, ms: u64) {
        self.clock.set(Timestamp::from_millis(START_MS + ms));
    }

    async fn open(&self) -> Tidegate {
        self.open_within(Duration::from_secs(10)).await
    }

    async fn open_within(&self, deadline: Duration) -> Tidegate {
        let mut options = StoreOptions::default();
        options.clock = self.clock.clone().into();
        options.deadline = deadline;
        options.namespace = Some(self.namespace.clone());
        // No calls but those of the test.
        options.declarations = Declarations::ReadOnly;
        Tidegate::open_with(&self.url, options).await.unwrap()
    }

    async fn start(&self, lease: Option<Duration>) -> (Tidegate, Limit) {
        self.start_within(Duration::from_secs(10), lease).await
    }

    async fn start_within(&self, deadline: Duration, lease: Option<Duration>) -> (Tidegate, Limit) {
        let gate = self.open_within(deadline).await;
        let mut options = LimitOptions::default();
        options.outage = Outage::Closed;
        options.lease = lease.map(|duration| {
            let mut lease = LeaseOptions::default();
            lease.duration = Some(duration);
            lease.nodes = NonZeroU32::new(1).unwrap();
            lease
        });
        let limit = gate.limit("shared", self.algorithm, options).unwrap();
        (gate, limit)
    }
}

async fn take(limit: &Limit, cost: u64) -> Decision {
    limit.take(Key::new("k").unwrap(), Cost::new(cost).unwrap()).await.unwrap()
}

async fn remaining(limit: &Limit) -> u64 {
    limit.peek(Key::new("k").unwrap()).await.unwrap().quota().remaining
}

/// Until a task in the background has done its part.
async fn becomes(limit: &Limit, expected: u64) {
    let what = format!("{expected} remain");
    until(&what, async || (remaining(limit).await == expected).then_some(())).await;
}

/// Runs of scripts so far.
fn scripts_run(server: &RedisServer) -> u64 {
    let info: String = redis::cmd("INFO").arg("commandstats").query(&mut server.connection()).unwrap();
    let calls = info.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls=")?.split(',').next());
    calls.map_or(0, |calls| calls.parse().unwrap())
}

#[tokio::test]
async fn most_takes_ask_nobody_and_a_shutdown_returns_the_rest() {
    let server = RedisServer::start();
    let nodes = Nodes::new(server.url(), sliding(100_000, 60, 600));
    let (gate, limit) = nodes.start(Some(Duration::from_secs(6))).await;
    let before = scripts_run(&server);
    for _ in 0..5000 {
        let decision = take(&limit, 1).await;
        assert!(decision.is_admitted());
        assert_eq!(decision.source(), Source::Lease);
    }
    let requested = scripts_run(&server) - before;
    assert!(requested < 100, "{requested} calls for 5000 takes");
    let (_, direct) = nodes.start(None).await;
    assert!(remaining(&direct).await < 95_000, "what is held counts");
    gate.shutdown().await;
    assert_eq!(remaining(&direct).await, 95_000, "and what is not needed goes back");
    let metrics = gate.metrics();
    let admitted = r#"tidegate_limit_decisions_total{limit="shared",outcome="admitted",source="lease"} 5000"#;
    assert!(metrics.contains(admitted), "{metrics}");
    assert!(metrics.contains(r#"tidegate_limit_lease_held_permits{limit="shared"} 0"#), "{metrics}");
}

#[tokio::test]
async fn what_nobody_spends_goes_back_by_itself() {
    for url in [REDIS.url(), CLUSTER.url()] {
        let nodes = Nodes::new(url, sliding(100_000, 60, 600));
        let (_gate, limit) = nodes.start(Some(Duration::from_secs(1))).await;
        let (_other, direct) = nodes.start(None).await;
        assert!(take(&limit, 3).await.is_admitted());
        assert!(remaining(&direct).await < 99_997);
        becomes(&direct, 99_997).await;
    }
}

#[tokio::test]
async fn a_dry_node_knows_until_when_and_does_not_ask_before() {
    let server = RedisServer::start();
    let nodes = Nodes::new(server.url(), sliding(1000, 1, 10));
    let (_other, direct) = nodes.start(None).await;
    assert!(take(&direct, 1000).await.is_admitted());
    let (_gate, limit) = nodes.start(Some(Duration::from_millis(100))).await;
    assert!(!take(&limit, 1).await.is_admitted());
    let before = scripts_run(&server);
    for ms in 0..1010 {
        nodes.at(ms);
        let refused = take(&limit, 1).await;
        assert!(!refused.is_admitted());
        assert_eq!(refused.source(), Source::Lease);
        assert_eq!(refused.wait().unwrap().retry_after_ms, 1010 - ms);
    }
    assert_eq!(scripts_run(&server) - before, 0);
    nodes.at(1010);
    assert!(take(&limit, 1).await.is_admitted());
}

/// What is held can be spent without the store until the lease ends, and not after.
#[tokio::test]
async fn without_the_store_a_node_spends_what_it_holds_and_no_more() {
    let mut server = RedisServer::start();
    let nodes = Nodes::new(server.url(), sliding(100_000, 60, 600));
    let (_gate, limit) = nodes.start(Some(Duration::from_secs(6))).await;
    assert!(take(&limit, 1).await.is_admitted());
    server.kill();
    for _ in 0..3 {
        let decision = take(&limit, 1).await;
        assert_eq!((decision.is_admitted(), decision.source()), (true, Source::Lease));
    }
    // A hundredth and a millisecond earlier than the store counts it.
    nodes.at(5938);
    assert_eq!(take(&limit, 1).await.source(), Source::Lease);
    nodes.at(5939);
    let decision = take(&limit, 1).await;
    assert_eq!((decision.is_admitted(), decision.source()), (false, Source::Policy));
}

/// A block counts as if spent at its end, and as of its report once it is reported.
#[tokio::test]
async fn what_a_lost_node_held_counts_until_a_window_after_its_lease() {
    let nodes = Nodes::new(REDIS.url(), sliding(1000, 1, 10));
    let (_other, direct) = nodes.start(None).await;
    let lost = tokio::task::spawn_blocking({
        let nodes = nodes.clone();
        move || {
            // With its runtime it loses all that would look after the lease.
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let (gate, limit) = nodes.start(Some(Duration::from_millis(500))).await;
                assert!(take(&limit, 1).await.is_admitted());
                std::mem::forget((gate, limit));
            });
        }
    });
    lost.await.unwrap();
    assert_eq!(remaining(&direct).await, 1000 - 16);
    nodes.at(500 + 1009);
    assert_eq!(remaining(&direct).await, 1000 - 16);
    nodes.at(500 + 1010);
    assert_eq!(remaining(&direct).await, 1000);
}

/// A lease of a calendar limit ends with its window at the latest.
#[tokio::test]
async fn permits_of_one_hour_are_not_spent_in_the_next() {
    let nodes = Nodes::new(REDIS.url(), Calendar::new(100_000, Period::Hour).unwrap());
    let rest = 3_600_000 - START_MS % 3_600_000;
    nodes.at(rest - 1000);
    let (gate, limit) = nodes.start(Some(Duration::from_secs(5))).await;
    let (_other, direct) = nodes.start(None).await;
    for _ in 0..10 {
        assert_eq!(take(&limit, 1).await.source(), Source::Lease);
    }
    nodes.at(rest);
    assert!(take(&limit, 1).await.is_admitted());
    gate.shutdown().await;
    assert_eq!(remaining(&direct).await, 99_999, "one permit of this hour, none of the one before");
    nodes.at(rest - 1);
    assert_eq!(remaining(&direct).await, 99_990);
}

/// However little is left of the window, a lease ends a hundredth of its full time and a
/// millisecond before it.
#[tokio::test]
async fn a_short_lease_keeps_its_whole_distance_from_the_end_of_the_hour() {
    let mut server = RedisServer::start();
    let nodes = Nodes::new(server.url(), Calendar::new(1_000_000, Period::Hour).unwrap());
    let rest = 3_600_000 - START_MS % 3_600_000;
    nodes.at(rest - 80);
    let (_gate, limit) = nodes.start(Some(Duration::from_secs(5))).await;
    assert_eq!(take(&limit, 1).await.source(), Source::Lease);
    server.kill();
    nodes.at(rest - 52);
    assert_eq!(take(&limit, 1).await.source(), Source::Lease);
    nodes.at(rest - 51);
    assert_eq!(take(&limit, 1).await.source(), Source::Policy);
}

#[tokio::test]
async fn a_limit_too_small_to_be_shared_is_asked_for_each_permit() {
    let nodes = Nodes::new(REDIS.url(), sliding(999, 1, 10));
    let (_gate, limit) = nodes.start(Some(Duration::from_millis(100))).await;
    assert_eq!(take(&limit, 1).await.source(), Source::Store);
    assert_eq!(remaining(&limit).await, 998);
}

/// What was set aside before a loss may be spent after it: all is refused for a window
/// more than that.
#[tokio::test]
async fn after_a_loss_a_leased_limit_is_held_until_its_leases_are_over_too() {
    let server = RedisServer::start();
    let nodes = Nodes::new(server.url(), sliding(1000, 1, 10));
    let mut held = LimitOptions::default();
    held.after_loss = AfterLoss::Hold;
    held.lease = Some(LeaseOptions::default());
    let gate = nodes.open().await;
    // Too small to be shared: nothing is ever set aside.
    let small = gate.limit("small", nodes.algorithm, held.clone()).unwrap();
    let mut lease = LeaseOptions::default();
    (lease.duration, lease.nodes) = (Some(Duration::from_millis(500)), NonZeroU32::new(1).unwrap());
    held.lease = Some(lease);
    let leased = gate.limit("leased", nodes.algorithm, held).unwrap();
    assert!(take(&small, 1).await.is_admitted() && take(&leased, 1).await.is_admitted());
    let _: () = redis::cmd("FLUSHALL").query(&mut server.connection()).unwrap();
    let wait = async |limit: &Limit| {
        let refused = limit.peek(Key::new("k").unwrap()).await.unwrap();
        assert_eq!(refused.source(), Source::Policy);
        refused.wait().unwrap().retry_after_ms
    };
    assert_eq!((wait(&small).await, wait(&leased).await), (1000, 1500));
    nodes.at(1500);
    assert!(take(&small, 1).await.is_admitted() && take(&leased, 1).await.is_admitted());
}

/// Nodes with and without a lease, some behind a line that is cut or goes silent, with
/// costs of many sizes: no window holds more than the capacity.
#[tokio::test]
async fn under_faults_nodes_never_exceed_the_limit() {
    const CAPACITY: u32 = 2000;
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.port()).await;
    for seed in 0..6 {
        let random = Random::seeded(seed);
        let up_to = |n: u64| random.bits() % n;
        let coalesce_ms = [8, 10, 100, 500][seed as usize % 4];
        let mut nodes = Nodes::new(server.url(), sliding(CAPACITY, 1, coalesce_ms));
        let lease = Duration::from_millis([100, 300, 1000][seed as usize % 3]);
        let mut limits = Vec::new();
        for (url, lease) in [
            (proxy.url(), Some(lease)),
            (proxy.url(), Some(lease)),
            (server.url(), Some(lease)),
            (server.url(), None),
        ] {
            nodes.url = url;
            limits.push(nodes.start_within(Duration::from_millis(40), lease).await);
        }
        let (mut events, mut now_ms, mut by_lease) = (Vec::new(), 0, 0);
        for _ in 0..250 {
            now_ms += up_to(30);
            nodes.at(now_ms);
            match up_to(40) {
                0 => proxy.set(Fault::HalfOpen),
                1 => proxy.set(Fault::Cut),
                2..=12 => proxy.set(Fault::None),
                _ => {}
            }
            let (_, limit) = &limits[up_to(4) as usize];
            for _ in 0..up_to(60) {
                let cost = if up_to(10) == 0 { up_to(20) + 1 } else { 1 };
                let decision = take(limit, cost).await;
                if decision.is_admitted() {
                    events.push((now_ms, cost));
                    by_lease += u64::from(decision.source() == Source::Lease);
                }
            }
        }
        proxy.set(Fault::None);
        let mut fullest = RawEvents::default();
        for (at_ms, cost) in events {
            fullest.admitted(at_ms, cost);
        }
        // A permit may be spent again exactly one window later.
        let most = fullest.fullest_window(999);
        assert!(most <= u64::from(CAPACITY), "seed {seed}: {most} of {CAPACITY}");
        assert!(by_lease > 0 && most > u64::from(CAPACITY) / 2, "seed {seed}: {by_lease} by lease, {most}");
    }
}

/// Blocks are as large as what is asked for at once.
#[tokio::test]
async fn large_costs_are_leased_too() {
    let server = RedisServer::start();
    for cost in [17, 33, 100] {
        let nodes = Nodes::new(server.url(), sliding(1_000_000, 60, 600));
        let (_gate, limit) = nodes.start(Some(Duration::from_secs(6))).await;
        let before = scripts_run(&server);
        let mut by_lease = 0;
        for _ in 0..200 {
            let decision = take(&limit, cost).await;
            assert!(decision.is_admitted());
            by_lease += u32::from(decision.source() == Source::Lease);
        }
        let requested = scripts_run(&server) - before;
        assert!(by_lease >= 190 && requested < 50, "cost {cost}: {by_lease} by lease, {requested} scripts");
    }
}

/// What is done on a dry node itself is seen by its next take.
#[tokio::test]
async fn a_dry_node_sees_its_own_reset_and_override() {
    for is_reset in [true, false] {
        let nodes = Nodes::new(REDIS.url(), sliding(1000, 1, 10));
        let (_other, direct) = nodes.start(None).await;
        assert!(take(&direct, 1000).await.is_admitted());
        let (_gate, limit) = nodes.start(Some(Duration::from_millis(100))).await;
        let key = Key::new("k").unwrap();
        assert!(!take(&limit, 1).await.is_admitted());
        match is_reset {
            true => limit.reset(key).await.unwrap(),
            false => {
                let rate = "2000/s".parse().unwrap();
                limit.set_override(key, rate, Duration::from_secs(60)).await.unwrap();
            }
        }
        assert!(take(&limit, 1).await.is_admitted(), "reset {is_reset}");
    }
}

/// A caller that gives up while the store is asked takes nothing with it.
#[tokio::test]
async fn a_caller_that_gives_up_leaves_the_answer_to_others() {
    let nodes = Nodes::new(REDIS.url(), sliding(100_000, 60, 600));
    let (_gate, limit) = nodes.start(Some(Duration::from_secs(6))).await;
    for _ in 0..20 {
        let waiting = limit.take(Key::new("k").unwrap(), Cost::ONE);
        // Polled once and dropped.
        tokio::select! {
            biased;
            _ = waiting => {}
            () = std::future::ready(()) => {}
        }
    }
    assert!(take(&limit, 1).await.is_admitted());
}
