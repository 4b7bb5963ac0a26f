//! How a store has been doing: what is counted of connections, operations and times, and from when
//! on it is unhealthy.

use std::num::NonZeroU32;
use std::time::Duration;

use tidegate::clock::{ManualClock, Timestamp, monotonic};
use tidegate::hot::{Edit, HotOptions};
use tidegate::limit::{Limit, LimitOptions, Source};
use tidegate::run::{Hour, RunOptions};
use tidegate::session::SessionOptions;
use tidegate::store::{Declarations, PartHealth, PartKind, StoreHealth, StoreOptions, success_rate};
use tidegate::testkit::limit::sliding;
use tidegate::testkit::{Fault, FaultProxy, RedisCluster, RedisServer, unique};
use tidegate::{Cost, Key, Name, Tidegate};

use crate::full_memory::{fill, free};
use crate::outage::until;

/// Checked often, and asked by nobody but the test.
fn options() -> StoreOptions {
    let mut options = StoreOptions::default();
    options.declarations = Declarations::ReadOnly;
    // Tests share the machine: what is late here is not lost.
    options.deadline = Duration::from_secs(1);
    options.check_interval = Duration::from_millis(50);
    options.connect_timeout = Duration::from_millis(200);
    options
}

async fn open(url: &str, options: StoreOptions) -> (Tidegate, Limit) {
    let gate = Tidegate::open_with(url, options).await.unwrap();
    let limit = gate.limit("api", sliding(1_000_000, 60, 600), LimitOptions::default()).unwrap();
    (gate, limit)
}

async fn take(limit: &Limit, key: &str) -> Source {
    limit.take(Key::new(key).unwrap(), Cost::ONE).await.unwrap().source()
}

fn part(health: &StoreHealth, part: PartKind) -> PartHealth {
    health.parts.iter().find(|it| it.part == part).unwrap().clone()
}

/// Looks until it is unhealthy, or healthy and reached. Whatever is seen meanwhile, three failures in a row and
/// nothing else decide.
async fn until_it_is(gate: &Tidegate, healthy: bool) -> StoreHealth {
    until("its health turns", async || {
        let health = gate.store().health();
        assert_eq!(health.is_healthy(), health.consecutive_failures < 3, "{health:?}");
        let is_there = health.consecutive_failures == 0 && gate.store().status().away.is_empty();
        (if healthy { is_there } else { !health.is_healthy() }).then_some(health)
    })
    .await
}

/// Waits until so many failures in a row are counted: who has called hears of the end of its time at the same moment.
async fn until_failed(gate: &Tidegate, times: u32) -> StoreHealth {
    until("its failures are counted", async || {
        let health = gate.store().health();
        (health.consecutive_failures == times).then_some(health)
    })
    .await
}

#[tokio::test]
async fn a_store_is_unhealthy_while_its_server_is_dead_and_healthy_when_it_is_back() {
    let mut server = RedisServer::start();
    let (gate, limit) = open(&server.url(), options()).await;
    for _ in 0..10 {
        assert_eq!(take(&limit, "k").await, Source::Store);
    }
    let health = gate.store().health();
    assert_eq!((health.connection_attempts, health.connection_failures), (1, 0), "{health:?}");
    assert_eq!((health.consecutive_failures, health.unhealthy_after), (0, 3));
    assert_eq!((health.operations, health.failures), (10, 0));
    let limits = part(&health, PartKind::Limit);
    assert_eq!((limits.operations, limits.failures), (10, 0));
    assert_eq!(part(&health, PartKind::Runs).operations, 0);

    server.kill();
    let health = until_it_is(&gate, false).await;
    assert!(health.connection_failures >= 2, "{health:?}");
    assert!(health.connection_attempts > health.connection_failures, "{health:?}");
    let rate = success_rate(health.connection_attempts, health.connection_failures).unwrap();
    assert!(rate > 0.0 && rate < 0.5, "{rate}");
    for _ in 0..5 {
        assert_eq!(take(&limit, "k").await, Source::Policy);
    }
    let limits = part(&gate.store().health(), PartKind::Limit);
    assert_eq!((limits.operations, limits.failures), (15, 5));
    let metrics = gate.metrics();
    for line in [
        "tidegate_store_healthy 0",
        "tidegate_store_calls_total 15",
        r#"tidegate_store_operations_total{part="limit"} 15"#,
        r#"tidegate_store_operation_failures_total{part="limit"} 5"#,
        r#"tidegate_store_operation_failures_total{part="runs"} 0"#,
    ] {
        assert!(metrics.lines().any(|found| found == line), "{line} in\n{metrics}");
    }

    server.restart();
    let health = until_it_is(&gate, true).await;
    assert!(health.is_healthy() && health.connection_failures >= 3, "{health:?}");
    assert!(gate.metrics().contains("tidegate_store_healthy 1\n"));
    assert_eq!(take(&limit, "k").await, Source::Store);
}

/// Each failure is provoked alone: the first and the second say nothing yet, the third does.
#[tokio::test]
async fn exactly_the_third_failure_in_a_row_makes_it_unhealthy() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.port()).await;
    let mut options = options();
    // Nobody looks by itself, and who tries to connect waits for as long as the test likes.
    options.check_interval = Duration::from_secs(3600);
    options.connect_timeout = Duration::from_secs(3600);
    let (gate, limit) = open(&proxy.url(), options).await;
    assert_eq!(take(&limit, "k").await, Source::Store);
    assert_eq!(gate.store().health().consecutive_failures, 0);
    proxy.set(Fault::Freeze);
    for times in 1..=2 {
        assert_eq!(take(&limit, "k").await, Source::Policy);
        assert!(until_failed(&gate, times).await.is_healthy());
    }
    // From here on calls are refused unasked, and those count for nothing.
    for _ in 0..10 {
        assert_eq!(take(&limit, "k").await, Source::Policy);
    }
    let health = gate.store().health();
    assert_eq!((health.consecutive_failures, health.is_healthy()), (2, true));
    // The keeper has tried to connect again meanwhile: now it hears that it cannot.
    proxy.set(Fault::Cut);
    let health = until_it_is(&gate, false).await;
    assert!(health.consecutive_failures >= 3, "{health:?}");
    proxy.set(Fault::None);
    assert_eq!(until_it_is(&gate, true).await.consecutive_failures, 0);
}

#[tokio::test]
async fn one_success_between_failures_begins_the_count_anew() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.port()).await;
    let mut options = options();
    options.check_interval = Duration::from_secs(3600);
    let (gate, limit) = open(&proxy.url(), options).await;
    for _ in 0..4 {
        proxy.set(Fault::Freeze);
        assert_eq!(take(&limit, "k").await, Source::Policy);
        until_failed(&gate, 1).await;
        proxy.set(Fault::None);
        assert_eq!(take(&limit, "k").await, Source::Store);
        until_failed(&gate, 0).await;
    }
}

#[tokio::test]
async fn how_many_failures_make_it_unhealthy_is_a_setting() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.port()).await;
    let mut options = options();
    options.check_interval = Duration::from_secs(3600);
    options.unhealthy_after = NonZeroU32::MIN;
    let (gate, limit) = open(&proxy.url(), options).await;
    assert!(gate.store().health().is_healthy());
    proxy.set(Fault::Freeze);
    assert_eq!(take(&limit, "k").await, Source::Policy);
    assert!(!until_failed(&gate, 1).await.is_healthy());
}

/// Nobody calls, and its system goes on to accept connections for it.
#[tokio::test]
async fn a_frozen_server_is_unhealthy_though_it_accepts_connections() {
    let server = RedisServer::start();
    let (gate, _) = open(&server.url(), options()).await;
    server.freeze();
    until_it_is(&gate, false).await;
    let health = gate.store().health();
    assert!(health.connection_failures > 0, "{health:?}");
    assert!(health.connection_attempts >= health.connection_failures, "{health:?}");
    server.thaw();
    until_it_is(&gate, true).await;
}

/// Whoever goes by what the others answer would never see it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_dead_master_of_three_makes_it_unhealthy_whatever_the_others_answer() {
    let mut cluster = RedisCluster::start();
    let (gate, limit) = open(&cluster.url(), options()).await;
    until("all were asked", async || (gate.store().health().memory.len() == 3).then_some(())).await;
    let dead = cluster.nodes()[1].port();
    cluster.nodes_mut()[1].kill();
    let calls = async || {
        let mut from_store = 0;
        for number in 0..64 {
            from_store += u32::from(take(&limit, &format!("user_{number}")).await == Source::Store);
        }
        from_store
    };
    until("it is unhealthy", async || {
        calls().await;
        (!gate.store().health().is_healthy()).then_some(())
    })
    .await;
    for _ in 0..5 {
        assert!(calls().await > 0, "the others answer");
        assert!(!gate.store().health().is_healthy(), "port {dead} is still dead");
    }
    cluster.nodes_mut()[1].restart();
    until_it_is(&gate, true).await;
}

/// It answers who reads, and takes no writes: that is three failures too, whoever reads meanwhile.
#[tokio::test]
async fn a_server_whose_memory_is_full_is_unhealthy_though_it_answers_reads() {
    let server = RedisServer::start();
    let (gate, limit) = open(&server.url(), options()).await;
    take(&limit, "k").await;
    fill(&server);
    let peek = async || limit.peek(Key::new("k").unwrap()).await.unwrap().source();
    until("it is unhealthy", async || {
        peek().await;
        (!gate.store().health().is_healthy()).then_some(())
    })
    .await;
    for _ in 0..20 {
        assert_eq!(peek().await, Source::Store);
        assert!(!gate.store().health().is_healthy());
    }
    free(&server);
    until_it_is(&gate, true).await;
}

#[tokio::test]
async fn response_times_are_those_of_the_way_there_and_back() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.port()).await;
    let mut options = options();
    options.check_interval = Duration::from_secs(3600);
    options.deadline = Duration::from_secs(20);
    let (gate, limit) = open(&proxy.url(), options).await;
    assert_eq!(gate.store().health().response_times.p99, None);
    let (delay, mut longest, mut sum) = (Duration::from_millis(30), Duration::ZERO, Duration::ZERO);
    proxy.set(Fault::Delay(delay));
    for _ in 0..20 {
        let began = monotonic();
        assert_eq!(take(&limit, "k").await, Source::Store);
        longest = longest.max(began.elapsed());
        sum += began.elapsed();
    }
    let health = gate.store().health();
    for times in [health.response_times, part(&health, PartKind::Limit).response_times] {
        let (average, p99) = (times.average.unwrap(), times.p99.unwrap());
        assert!(average >= 2 * delay && average <= sum / 20, "{average:?} of {:?}", sum / 20);
        assert!(p99 >= 2 * delay && p99 <= longest * 9 / 8, "{p99:?} of {longest:?}");
    }
    assert_eq!(part(&health, PartKind::Hot).response_times.p99, None);
    let metrics = gate.metrics();
    let shown = metrics
        .lines()
        .find_map(|it| it.strip_prefix("tidegate_store_response_p99_seconds{part=\"limit\"} "));
    let shown: f64 = shown.unwrap_or_else(|| panic!("{metrics}")).parse().unwrap();
    assert!((shown - health.response_times.p99.unwrap().as_secs_f64()).abs() < 1e-9, "{shown}");
}

#[tokio::test]
async fn the_peak_hour_is_the_one_with_the_most_operations_of_the_last_day() {
    // 2027-01-15 08:00 UTC.
    let clock = ManualClock::at(Timestamp::from_millis(1_800_000_000_000));
    let mut options = options();
    options.clock = clock.clone().into();
    options.namespace = Some(Name::new(&unique("t")).unwrap());
    options.deadline = Duration::from_secs(10);
    let (gate, limit) = open(&crate::kit::REDIS.url(), options).await;
    let peak = || gate.store().health().peak_hour.map(|it| (it.hour.to_string(), it.operations));
    assert_eq!(peak(), None);
    for calls in [3, 5, 4] {
        for _ in 0..calls {
            assert_eq!(take(&limit, "k").await, Source::Store);
        }
        clock.advance_ms(3_600_000);
    }
    assert_eq!(peak(), Some(("2027-01-15_09".to_owned(), 5)));
    let metrics = gate.metrics();
    let began = "2027-01-15_09".parse::<Hour>().unwrap().starts_at().as_millis() / 1000;
    assert!(metrics.contains("tidegate_store_peak_hour_operations 5\n"), "{metrics}");
    assert!(metrics.contains(&format!("tidegate_store_peak_hour_timestamp_seconds {began}\n")), "{metrics}");
    // It is 11:00; at 08:59 of the next day that hour of the day before is still of the last 24.
    clock.advance_ms(22 * 3_600_000 - 1);
    assert_eq!(peak(), Some(("2027-01-15_09".to_owned(), 5)));
    clock.advance_ms(1);
    assert_eq!(peak(), Some(("2027-01-15_10".to_owned(), 4)));
}

#[tokio::test]
async fn every_part_is_counted_apart() {
    let server = RedisServer::start();
    let (gate, limit) = open(&server.url(), options()).await;
    let key = Key::new("k").unwrap();
    let hot = gate.hot("pages", HotOptions::default()).unwrap();
    let runs = gate.runs("main", RunOptions::default()).unwrap();
    let sessions = gate.sessions("rooms", SessionOptions::default()).unwrap();
    let before = gate.store().health();
    for _ in 0..7 {
        take(&limit, "k").await;
    }
    for id in ["1", "2", "3"] {
        hot.record(&Edit::new(key, id, "alice")).await.unwrap();
    }
    runs.start(key).await.unwrap().into_result().unwrap();
    sessions.counts().await.unwrap();
    let health = gate.store().health();
    // What runs in the background counts too.
    let more = |kind| part(&health, kind).operations - part(&before, kind).operations;
    assert_eq!(more(PartKind::Limit), 7);
    assert!(
        more(PartKind::Hot) >= 3 && more(PartKind::Runs) >= 1 && more(PartKind::Sessions) >= 1,
        "{health:?}"
    );
    assert_eq!(health.parts.iter().map(|it| it.operations).sum::<u64>(), health.operations);
}

/// What the server itself says.
fn memory_of(server: &RedisServer) -> u64 {
    let info: String = redis::cmd("INFO").arg("memory").query(&mut server.connection()).unwrap();
    info.lines().find_map(|line| line.strip_prefix("used_memory:")?.trim().parse().ok()).unwrap()
}

#[tokio::test]
async fn memory_is_what_the_server_says() {
    let server = RedisServer::start();
    let mut set = redis::cmd("CONFIG");
    let () = set.arg("SET").arg("maxmemory").arg(1 << 30).query(&mut server.connection()).unwrap();
    let (gate, _) = open(&server.url(), options()).await;
    let before = gate.store().health();
    let memory = &before.memory[0];
    assert_eq!(
        (memory.server.clone(), memory.max_bytes),
        (format!("127.0.0.1:{}", server.port()), Some(1 << 30))
    );
    let () = redis::cmd("SET").arg("big").arg("x".repeat(20 << 20)).query(&mut server.connection()).unwrap();
    let least = before.memory_bytes().unwrap() + (19 << 20);
    let told =
        until("a check has told", async || gate.store().health().memory_bytes().filter(|it| *it >= least))
            .await;
    let said = memory_of(&server);
    assert!(told.abs_diff(said) < 4 << 20, "{told} beside {said}");
    let metrics = gate.metrics();
    assert!(metrics.contains(&format!(
        "tidegate_store_memory_max_bytes{{server=\"{}\"}} {}\n",
        memory.server,
        1 << 30
    )));
    assert!(
        metrics.contains(&format!("tidegate_store_memory_bytes{{server=\"{}\"}} ", memory.server)),
        "{metrics}"
    );
}

/// Whoever may not be asked is not asked, and is healthy all the same.
#[tokio::test]
async fn a_server_that_says_nothing_of_its_memory_is_healthy() {
    let server = RedisServer::start();
    let mut user = redis::cmd("ACL");
    user.arg(&["SETUSER", "app", "reset", "on", ">secret", "~*", "+@all", "-info"]);
    let () = user.query(&mut server.connection()).unwrap();
    let (gate, limit) = open(&server.url().replacen("://", "://app:secret@", 1), options()).await;
    assert_eq!(take(&limit, "k").await, Source::Store);
    let health = gate.store().health();
    assert_eq!((health.is_healthy(), health.memory_bytes()), (true, None), "{health:?}");
}

#[tokio::test]
async fn a_store_in_this_process_is_always_healthy() {
    let (gate, limit) = open("memory:", options()).await;
    take(&limit, "k").await;
    let health = gate.store().health();
    assert!(health.is_healthy());
    assert_eq!((health.connection_attempts, health.operations, health.memory_bytes()), (0, 0, None));
    assert_eq!(health.peak_hour, None);
    assert!(gate.metrics().contains("tidegate_store_healthy 1\n"));
}
