//! What a program gets that uses the library: which crates, and calls that need no runtime.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;
use tidegate::clock::{ManualClock, Timestamp};
use tidegate::hot::{Edit, HotOptions};
use tidegate::limit::{InProcess, LimitOptions, ReservationState, Reserve, Sliding};
use tidegate::session::{Answer, Refusal, SessionOptions};
use tidegate::store::StoreOptions;
use tidegate::{Cost, ErrorKind, Key, Tidegate, WhenFull, hot, session};

const START_MS: u64 = 1_700_000_000_000;

fn key(text: &str) -> Key<'_> {
    Key::new(text).unwrap()
}

/// The crates that the library is built with, itself left out.
fn crates(features: &[&str]) -> Vec<String> {
    let cargo = Command::new(env!("CARGO"))
        .args(["tree", "--package", "tidegate", "--locked", "--offline", "--no-default-features"])
        .args(["--edges", "normal", "--prefix", "none", "--format", "{p}"])
        .args(features.iter().flat_map(|feature| ["--features", feature]))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(cargo.status.success(), "{}", String::from_utf8_lossy(&cargo.stderr));
    let names = String::from_utf8(cargo.stdout).unwrap();
    let mut names: Vec<_> =
        names.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect();
    names.sort();
    names.dedup();
    names.retain(|name| name != "tidegate");
    names
}

#[test]
fn in_process_alone_brings_few_crates_and_nothing_asynchronous() {
    let few = crates(&[]);
    assert!(few.iter().any(|name| name == "parking_lot"), "{few:?}");
    assert!(few.len() <= 26, "{} crates: {few:?}", few.len());
    for kind in
        ["redis", "tokio", "rustls", "futures", "ring", "mio", "tracing", "prometheus", "serde", "syn"]
    {
        let of_that_kind: Vec<_> =
            few.iter().filter(|name| *name == kind || name.starts_with(&format!("{kind}-"))).collect();
        assert!(of_that_kind.is_empty(), "{of_that_kind:?}");
    }
    // And that it would be seen if it were there.
    assert!(crates(&["redis"]).iter().any(|name| name == "tokio"));
    assert!(crates(&["tracing"]).iter().any(|name| name == "tracing-core"));
}

/// Whoever opens a store in this process and asks it without waiting sees the same state and the
/// same metrics as who waits.
#[tokio::test]
async fn calls_that_wait_and_calls_that_do_not_are_on_the_same_state() {
    let clock = ManualClock::at(Timestamp::from_millis(START_MS));
    let gate = Tidegate::open_with("memory:", StoreOptions::new().clock(clock.clone().into())).await.unwrap();

    let hot = gate.hot("main", HotOptions::new().partitions(4)).unwrap();
    let here = hot.in_process().expect("it is in memory");
    let mut watch = hot.watch(None).await.unwrap();
    for number in 0..40 {
        let (page, id) = (format!("p{}", number / 2), number.to_string());
        let edit = Edit::new(key(&page), &id, "e");
        let recorded =
            if number % 2 == 0 { here.record(&edit).unwrap() } else { hot.record(&edit).await.unwrap() };
        let promoted = hot::Recorded::Promoted { replaced: None };
        assert_eq!(recorded, if number % 2 == 0 { hot::Recorded::Remembered } else { promoted });
    }
    assert_eq!((here.tracked(), hot.tracked().await.unwrap()), (20, 20));
    assert_eq!(here.list(50), hot.list(50).await.unwrap());
    assert_eq!(here.stats(key("p3")), hot.stats(key("p3")).await.unwrap());
    assert!(here.is_hot(key("p3")));
    let everything = Timestamp::from_millis(0)..=Timestamp::from_millis(u64::MAX);
    assert_eq!(here.window(key("p3"), everything.clone()), hot.window(key("p3"), everything).await.unwrap());
    assert_eq!(here.bytes(), hot.bytes_in_process());
    // Who watches hears of what was recorded without waiting, too.
    here.record_many(&[Edit::new(key("new"), "1", "e"), Edit::new(key("new"), "2", "e")]).unwrap();
    let mut seen = Vec::new();
    for _ in 0..21 {
        seen.push(watch.next().await.unwrap().page);
    }
    assert!(seen.iter().any(|page| page == "new"), "{seen:?}");

    let sessions = gate.sessions("main", SessionOptions::new()).unwrap();
    let here = sessions.in_process().expect("it is in memory");
    let id = here.activate(key("b"), "{}", Some(key("h"))).unwrap().done().unwrap().id;
    assert_eq!(here.get(id), sessions.get(id).await.unwrap());
    assert_eq!(sessions.delete(id).await.unwrap(), Answer::Refused(Refusal::Active));
    assert_eq!(here.disconnect(id, key("h")), Answer::Done(session::Disconnect::Disconnected));
    assert_eq!(sessions.counts().await.unwrap(), here.counts());
    assert!(here.delete(id).is_done());
    assert_eq!(here.delete(id).refusal(), Some(Refusal::Gone));

    let metrics = gate.metrics();
    for row in [
        "activity_counter_total{space=\"main\"} 42",
        "hot_pages_promoted_total{space=\"main\"} 21",
        "orphan_sessions_deleted_total{space=\"main\"} 1",
        "disconnected_sessions_count{space=\"main\"} 1",
    ] {
        assert!(metrics.contains(row), "{row}: {metrics}");
    }
}

/// Without any store: the calls are plain functions.
#[test]
fn all_three_parts_work_in_this_process_without_a_runtime() {
    let clock = ManualClock::at(Timestamp::from_millis(START_MS));
    let sliding = Sliding::new("1/s".parse().unwrap(), Duration::from_secs(10)).unwrap();
    let options = LimitOptions::new().max_keys(1).when_full(WhenFull::Share);
    let limit = InProcess::with(sliding, &options, clock.clone().into()).unwrap();
    assert!(limit.take(key("one"), Cost::new(10).unwrap()).unwrap().is_admitted());
    assert!(limit.take(key("two"), Cost::new(10).unwrap()).unwrap().is_admitted(), "it shares with none yet");
    assert!(!limit.take(key("three"), Cost::ONE).unwrap().is_admitted());
    clock.advance_ms(20_000);
    let reserve = |id| limit.reserve(key("one"), id, Cost::new(6).unwrap(), Duration::from_secs(5)).unwrap();
    assert!(matches!(reserve("a"), Reserve::Held(_)));
    assert!(matches!(reserve("b"), Reserve::Refused(_)), "6 of 10 are held");
    assert_eq!(limit.release(key("one"), "a").unwrap().unwrap().cost, 6);
    assert!(matches!(reserve("c"), Reserve::Held(_)));
    assert!(limit.commit(key("one"), "c").unwrap().is_some());
    let released = limit.reservation(key("one"), "a").unwrap().unwrap();
    assert_eq!(released.state, ReservationState::Released);

    let options = HotOptions::new().max_tracked(1).hot_threshold(1);
    let hot = hot::InProcess::with_clock(options, clock.clone().into()).unwrap();
    hot.record(&Edit::new(key("p"), "1", "e")).unwrap();
    assert_eq!(hot.record(&Edit::new(key("q"), "1", "e")).unwrap(), hot::Recorded::Rejected);
    assert!(hot.record(&Edit::new(key("q"), "", "e")).is_err());
    assert_eq!((hot.tracked(), hot.remove(key("p")), hot.tracked()), (1, hot::Removed::Hot, 0));

    let options = SessionOptions::new().holder_lease(Duration::from_secs(6)).grace(Duration::from_secs(1));
    let sessions = session::InProcess::with_clock(options, clock.clone().into()).unwrap();
    let shared = Arc::new(sessions);
    let id = shared.activate(key("b"), "", Some(key("h"))).unwrap().done().unwrap().id;
    for _ in 0..4 {
        clock.advance_ms(2_000);
        assert_eq!(shared.stamp(), None);
    }
    assert_eq!(shared.get(id).unwrap().state, session::State::Orphan, "its lease ended two seconds ago");
    assert_eq!(shared.cleanup().deleted, 1);
    assert_eq!(shared.get(id), None);
    assert!(shared.update(id, &"x".repeat(session::MAX_TEXT_BYTES + 1), None).is_err());
}

/// One word for all rooms, of which each allows what it can do.
#[test]
fn when_full_is_refused_where_it_makes_no_sense() {
    for (error, named) in [
        (LimitOptions::new().when_full(WhenFull::ReplaceColdest).check().unwrap_err(), "refuse and share"),
        (HotOptions::new().when_full(WhenFull::Share).check().unwrap_err(), "refuse and replace_coldest"),
    ] {
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains(named), "{error}");
    }
    assert!(LimitOptions::new().when_full(WhenFull::Share).check().is_ok());
    assert!(HotOptions::new().when_full(WhenFull::ReplaceColdest).check().is_ok());
}

/// Metrics are where the caller's own are, with the caller's prefix, and so are those of parts that
/// are opened later.
#[tokio::test]
async fn metrics_go_into_a_registry_of_the_callers() {
    let gate = Tidegate::open("memory:").await.unwrap();
    let mut registry = Registry::default();
    gate.register_metrics(registry.sub_registry_with_prefix("shop"));
    let sliding = Sliding::new("1/s".parse().unwrap(), Duration::from_secs(10)).unwrap();
    let limit = gate.limit("api", sliding, LimitOptions::new()).unwrap();
    assert!(limit.take(key("k"), Cost::ONE).await.unwrap().is_admitted());
    gate.hot("late", HotOptions::new()).unwrap();
    let mut metrics = String::new();
    text::encode(&mut metrics, &registry).unwrap();
    for row in [
        r#"shop_tidegate_limit_decisions_total{limit="api",outcome="admitted",source="store"} 1"#,
        r#"shop_tidegate_limit_keys{limit="api"} 1"#,
        r#"shop_hot_pages_promoted_total{space="late"} 0"#,
        "shop_tidegate_store_calls_total 0",
        "shop_tidegate_store_partitions_away 0",
    ] {
        assert!(metrics.contains(row), "{row}: {metrics}");
    }
    let names: Vec<_> = metrics.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
    let mut distinct = names.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(names.len(), distinct.len(), "each is described once: {names:?}");
}
