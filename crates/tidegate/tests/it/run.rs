//! What runs promise beside the cases of [`tidegate::testkit::run`]: spaces that do not share, two at
//! a time, metrics, declarations. And what all tests of runs are made of.

use std::collections::BTreeSet;
use std::time::Duration;

use tidegate::clock::{ManualClock, Timestamp};
use tidegate::run::{Answer, Attempt, Hour, Processed, Refusal, RunOptions, RunState, Runs, Update};
use tidegate::store::{PartKind, StoreOptions};
pub(crate) use tidegate::testkit::run::options;
use tidegate::testkit::unique;
use tidegate::{Key, Name, Tidegate};

use crate::kit::{CLUSTER, REDIS};

pub(crate) const START_MS: u64 = 1_700_000_000_000;
pub(crate) const HOUR_MS: u64 = 3_600_000;

pub(crate) fn key(text: &str) -> Key<'_> {
    Key::new(text).unwrap()
}

pub(crate) fn keys(texts: &[String]) -> Vec<Key<'_>> {
    texts.iter().map(|text| key(text)).collect()
}

/// A space of its own on some store, with a clock that the test moves.
pub(crate) struct Space {
    /// The kind of store, for messages.
    pub(crate) on: &'static str,
    pub(crate) namespace: String,
    pub(crate) clock: ManualClock,
    pub(crate) gate: Tidegate,
    pub(crate) runs: Runs,
}

/// A gate with everything that tests share: time to answer, and few partitions.
pub(crate) async fn open(url: &str, namespace: &str, clock: Option<&ManualClock>) -> Tidegate {
    let mut options = StoreOptions::default();
    options.deadline = Duration::from_secs(10);
    options.namespace = (!namespace.is_empty()).then(|| Name::new(namespace).unwrap());
    if url.starts_with("redis-cluster") {
        options.partitions = Some(3);
    }
    if let Some(clock) = clock {
        options.clock = clock.clone().into();
    }
    Tidegate::open_with(url, options).await.unwrap()
}

impl Space {
    pub(crate) async fn on(on: &'static str, url: &str, set: impl FnOnce(&mut RunOptions)) -> Self {
        let (namespace, clock) = (unique("r"), ManualClock::at(Timestamp::from_millis(START_MS)));
        let gate = open(url, &namespace, Some(&clock)).await;
        let runs = gate.runs("main", options(set)).unwrap();
        Self { on, namespace, clock, gate, runs }
    }

    pub(crate) async fn everywhere(set: impl Fn(&mut RunOptions)) -> [Self; 3] {
        [
            Self::on("memory", "memory:", &set).await,
            Self::on("redis", &REDIS.url(), &set).await,
            Self::on("cluster", &CLUSTER.url(), &set).await,
        ]
    }

    pub(crate) async fn start(&self, run: &str) -> Attempt {
        self.runs.start(key(run)).await.unwrap().into_result().unwrap().attempt
    }
}

#[tokio::test]
async fn spaces_and_prefixes_share_no_run() {
    for space in Space::everywhere(|_| {}).await {
        let others = [
            space.gate.runs("nightly", options(|_| {})).unwrap(),
            space.gate.runs("other", options(|it| it.prefix = "a:{b}%".to_owned())).unwrap(),
        ];
        space.start("r").await;
        for runs in &others {
            assert_eq!(runs.get(key("r")).await.unwrap(), None, "{}", space.on);
            assert!(runs.start(key("r")).await.unwrap().into_result().unwrap().is_new, "{}", space.on);
            runs.processed(key("r"), None, &[key("a")]).await.unwrap().into_result().unwrap();
        }
        let own = space.runs.is_processed(key("r"), &[key("a")]).await.unwrap();
        assert_eq!(own, Answer::Done(vec![false]), "{}", space.on);
        // With the same options it is the same space, with others an error.
        let again = space.gate.runs("main", options(|_| {})).unwrap();
        assert!(again.get(key("r")).await.unwrap().is_some());
        assert!(space.gate.runs("main", options(|it| it.max_tasks = 7)).is_err());
    }
}

/// Whoever opens a store in this process and asks it without waiting sees the same state.
#[tokio::test]
async fn calls_that_wait_and_calls_that_do_not_are_on_the_same_runs() {
    let space = Space::on("memory", "memory:", |_| {}).await;
    let here = space.runs.in_process().expect("it is in memory");
    space.start("r").await;
    assert!(!here.start(key("r")).into_result().unwrap().is_new);
    here.processed(key("r"), None, &[key("a")]).unwrap().into_result().unwrap();
    here.failed(key("r"), None, key("b"), "why", key("1")).unwrap().into_result().unwrap();
    let waiting = space.runs.progress(key("r")).await.unwrap().into_result().unwrap();
    assert_eq!(here.progress(key("r")).into_result().unwrap(), waiting);
    assert_eq!((waiting.processed, waiting.failed), (1, 1));
    assert_eq!(here.get(key("r")), space.runs.get(key("r")).await.unwrap());
    space.clock.advance_ms(30 * HOUR_MS);
    assert_eq!((here.cleanup(), here.cleanup()), (1, 0));
    let redis = Space::on("redis", &REDIS.url(), |_| {}).await;
    assert!(redis.runs.in_process().is_none());
}

/// By the calendar of the script, which is the library's: around leap days and the ends of years.
#[tokio::test]
async fn keys_and_times_on_redis_are_those_that_people_know() {
    let mut connection = REDIS.connection();
    let days =
        ["1970-01-02", "2000-02-28", "2000-02-29", "2000-03-01", "2023-12-31", "2024-02-29", "2024-12-31"];
    for day in days.into_iter().chain(["2099-12-31", "2100-02-28", "2100-03-01", "2104-02-29"]) {
        for hour in ["00", "09", "23"] {
            let hour: Hour = format!("{day}_{hour}").parse().unwrap();
            let space = Space::on("redis", &REDIS.url(), |_| {}).await;
            space.clock.set(Timestamp::from_millis(hour.starts_at().as_millis() + 3_599_987));
            space.start("a:b").await;
            space.runs.task_started(key("a:b"), None, key("c:d")).await.unwrap().into_result().unwrap();
            space.runs.failed(key("a:b"), None, key("x"), "", key("1")).await.unwrap().into_result().unwrap();
            let mut get = |command: &str, name: &str, field: &[&str]| -> String {
                let name = format!("{}:courtlistener:{name}", space.namespace);
                redis::cmd(command).arg(name).arg(field).query(&mut connection).unwrap()
            };
            let text = format!("{}T{}:59:59.987000", day, &hour.to_string()[11..]);
            assert_eq!(get("HGET", "pipeline:a:b", &["start_time"]), text);
            assert_eq!(get("HGET", "pipeline:a:b", &["dag_run_id"]), "a:b");
            assert_eq!(get("GET", "task_start:a%3Ab:c:d", &[]), text);
            assert_eq!(get("TYPE", &format!("failed:{hour}"), &[]), "zset");
            let failed = space.runs.failures_in_hour(hour, None, 9).await.unwrap().items;
            assert_eq!((failed.len(), failed[0].run.as_str()), (1, "a:b"), "{hour}");
        }
    }
}

#[tokio::test]
async fn options_that_are_not_allowed_are_refused_by_name() {
    let refused = |set: fn(&mut RunOptions), named: &str| {
        let error = options(set).check().unwrap_err().to_string();
        assert!(error.contains(named) && error.contains("allowed"), "{error}");
    };
    refused(|it| it.state_ttl = Duration::ZERO, "state_ttl");
    refused(|it| it.state_ttl = Duration::from_secs(61 * 24 * 3600), "state_ttl");
    refused(|it| it.max_runs = 0, "max_runs");
    refused(|it| it.max_processed = 1_000_001, "max_processed");
    refused(|it| it.max_failures = 0, "max_failures");
    refused(|it| it.max_fields = 1001, "max_fields");
    refused(|it| it.max_field_name_bytes = 256, "max_field_name_bytes");
    refused(|it| it.max_field_value_bytes = 70_000, "max_field_value_bytes");
    refused(|it| it.max_reason_bytes = 70_000, "max_reason_bytes");
    refused(|it| it.max_tasks = 10_001, "max_tasks");
    refused(|it| it.batch = 0, "batch");
    refused(|it| it.cleanup_interval = Duration::ZERO, "cleanup_interval");
    refused(|it| it.prefix = String::new(), "key");
    refused(|it| it.prefix = "sessions".to_owned(), "sessions");
    RunOptions::default().check().unwrap();
}

/// Two workers bring 50,000 items each, half of which both have.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_workers_at_once_are_told_each_new_item_once() {
    let texts: Vec<String> = (0..75_000).map(|number| number.to_string()).collect();
    let texts: &'static [String] = texts.leak();
    for space in Space::everywhere(|_| {}).await {
        space.start("r").await;
        let worker = |items: &'static [String]| {
            let runs = space.runs.clone();
            tokio::spawn(async move {
                let mut new = 0;
                for batch in items.chunks(5000) {
                    let answer = runs.processed(key("r"), None, &keys(batch)).await.unwrap();
                    new += answer.into_result().unwrap().new;
                    tokio::task::yield_now().await;
                }
                new
            })
        };
        let (one, two) = (worker(&texts[..50_000]), worker(&texts[25_000..]));
        let (one, two) = (one.await.unwrap(), two.await.unwrap());
        assert_eq!(one + two, 75_000, "{}: {one} and {two}", space.on);
        let progress = space.runs.progress(key("r")).await.unwrap().into_result().unwrap();
        assert_eq!(progress.processed, 75_000, "{}", space.on);
        for batch in texts.chunks(10_000) {
            let flags = space.runs.is_processed(key("r"), &keys(batch)).await.unwrap().done().unwrap();
            assert!(flags.iter().all(|it| *it), "{}", space.on);
        }
    }
}

/// While one ends the run and retries it, another works on: what it is told was done is done in its
/// attempt, and nothing after.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_of_an_attempt_that_is_over_adds_nothing() {
    for space in Space::everywhere(|_| {}).await {
        let first = space.start("r").await;
        let runs = space.runs.clone();
        let worker = tokio::spawn(async move {
            let (mut done, mut refused) = (BTreeSet::new(), Vec::new());
            // However many it brings before it is noticed, they are the same thousand; then others.
            for number in (0..1000).cycle() {
                let item = format!("{number} after {}", refused.len());
                match runs.processed(key("r"), Some(first), &[key(&item)]).await.unwrap() {
                    Answer::Done(_) => drop(done.insert(item)),
                    Answer::Refused(Refusal::Ended { .. } | Refusal::Stale { .. }) => refused.push(item),
                    Answer::Refused(refusal) => panic!("{refusal}"),
                }
                if refused.len() == 201 {
                    break;
                }
                tokio::task::yield_now().await;
            }
            (done, refused)
        });
        crate::outage::until("some are processed", async || {
            let progress = space.runs.progress(key("r")).await.unwrap().done().unwrap();
            (progress.processed > 50).then_some(())
        })
        .await;
        space.runs.finish(key("r"), Some(first), RunState::Failed).await.unwrap().into_result().unwrap();
        let left = space.runs.progress(key("r")).await.unwrap().done().unwrap().processed;
        space.runs.retry(key("r"), first).await.unwrap().into_result().unwrap();
        let (done, mut refused) = worker.await.unwrap();
        assert_eq!(done.len() as u64, left, "{}", space.on);
        // The first that was refused it may have brought before.
        refused.remove(0);
        let flags = space.runs.is_processed(key("r"), &keys(&refused)).await.unwrap().done().unwrap();
        assert!(flags.iter().all(|it| !it), "{}", space.on);
        assert_eq!(space.runs.progress(key("r")).await.unwrap().done().unwrap().processed, left);
    }
}

/// The background loop takes away what is over, and what only seemed so stays.
#[tokio::test]
async fn a_cleanup_takes_away_what_is_over_and_nothing_else() {
    for space in Space::everywhere(|it| it.batch = 3).await {
        for number in 0..20 {
            let run = format!("run {number}");
            space.start(&run).await;
            space.runs.processed(key(&run), None, &[key("a")]).await.unwrap().into_result().unwrap();
            space.runs.task_started(key(&run), None, key("t")).await.unwrap().into_result().unwrap();
        }
        space.clock.advance_ms(20 * HOUR_MS);
        for number in 0..5 {
            let run = format!("run {number}");
            space.runs.update(key(&run), None, &Update::new()).await.unwrap().into_result().unwrap();
        }
        assert_eq!(space.runs.cleanup().await.unwrap(), 0, "{}", space.on);
        // Over, but not for so long that no clock brings them back.
        space.clock.advance_ms(5 * HOUR_MS + 1);
        assert_eq!(space.runs.cleanup().await.unwrap(), 0, "{}", space.on);
        space.clock.advance_ms(HOUR_MS);
        assert_eq!(space.runs.cleanup().await.unwrap(), 15, "{}", space.on);
        assert_eq!(space.runs.cleanup().await.unwrap(), 0, "{}", space.on);
        assert_eq!(space.runs.list(None, None, 100).await.unwrap().items.len(), 5, "{}", space.on);
        let metrics = space.gate.metrics();
        for line in [
            r#"tidegate_run_started_total{space="main"} 20"#,
            r#"tidegate_run_removed_total{space="main"} 15"#,
            r#"tidegate_run_processed_items_total{space="main"} 20"#,
            r#"tidegate_run_runs{space="main",state="running"} 5"#,
        ] {
            assert!(metrics.contains(line), "{}: no {line} in {metrics}", space.on);
        }
    }
    // Below, nothing of them is left.
    let space = Space::on("redis", &REDIS.url(), |_| {}).await;
    space.start("a:b").await;
    space.runs.task_started(key("a:b"), None, key("t")).await.unwrap().into_result().unwrap();
    space.clock.advance_ms(30 * HOUR_MS);
    assert_eq!(space.runs.cleanup().await.unwrap(), 1);
    let pattern = format!("{}:courtlistener:*", space.namespace);
    let left: Vec<String> = redis::cmd("KEYS").arg(pattern).query(&mut REDIS.connection()).unwrap();
    assert_eq!(left, Vec::<String>::new());
}

#[tokio::test]
async fn what_is_counted_is_counted_once() {
    for space in Space::everywhere(|it| it.max_failures = 1).await {
        let (runs, r) = (&space.runs, key("r"));
        let first = space.start("r").await;
        space.start("r").await;
        let processed = runs.processed(r, None, &[key("a"), key("b")]).await.unwrap();
        assert_eq!(processed, Answer::Done(Processed { new: 2, processed: 2 }));
        let _ = runs.processed(r, None, &[key("b")]).await.unwrap();
        for (item, id) in [("c", "1"), ("c", "1"), ("c", "2"), ("d", "1")] {
            let _ = runs.failed(r, None, key(item), "", key(id)).await.unwrap();
        }
        for _ in 0..2 {
            let _ = runs.finish(r, None, RunState::Failed).await.unwrap();
        }
        for _ in 0..2 {
            let _ = runs.retry(r, first).await.unwrap();
        }
        let _ = runs.update(r, Some(first), &Update::new()).await.unwrap();
        let _ = runs.finish(r, None, RunState::Succeeded).await.unwrap();
        let metrics = space.gate.metrics();
        for line in [
            r#"tidegate_run_started_total{space="main"} 1"#,
            r#"tidegate_run_retried_total{space="main"} 1"#,
            r#"tidegate_run_finished_total{space="main",state="failed"} 1"#,
            r#"tidegate_run_finished_total{space="main",state="succeeded"} 1"#,
            r#"tidegate_run_finished_total{space="main",state="cancelled"} 0"#,
            r#"tidegate_run_processed_items_total{space="main"} 2"#,
            r#"tidegate_run_failed_items_total{space="main"} 3"#,
            r#"tidegate_run_dropped_failures_total{space="main"} 1"#,
            r#"tidegate_run_stale_calls_total{space="main"} 1"#,
        ] {
            assert!(metrics.contains(line), "{}: no {line} in {metrics}", space.on);
        }
    }
}

#[tokio::test]
async fn a_space_is_declared_by_what_all_must_agree_about() {
    let space = Space::on("redis", &REDIS.url(), |it| it.max_tasks = 7).await;
    space.gate.declare().await.unwrap();
    let declared = space.gate.declarations().await.unwrap();
    let part = declared.iter().find(|it| it.kind == PartKind::Runs).unwrap();
    assert_eq!(part.name.as_str(), "main");
    assert_eq!((&*part.settings["state_ttl"], &*part.settings["max_tasks"]), ("25h", "7"));
    assert_eq!(&*part.settings["prefix"], "courtlistener");
}
