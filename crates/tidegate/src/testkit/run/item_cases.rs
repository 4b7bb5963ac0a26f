//! What a run has done: items, failures, tasks, progress.

use std::time::Duration;

use super::cases::{TTL_MS, at, first, fresh, started};
use super::{Face, Kit, ODD_TEXTS, START_MS, all_failures, all_in_hour, all_to_retry, options};
use crate::ErrorKind;
use crate::clock::Timestamp;
use crate::run::{
    Attempt, Failure, FailureNoted, Hour, Processed, Progress, Refusal, RunState, Task, TaskStarted, Update,
};

fn noted(count: u64) -> FailureNoted {
    FailureNoted { count, is_new: true, dropped: None }
}

fn items(failures: &[Failure]) -> Vec<&str> {
    failures.iter().map(|failure| failure.item.as_str()).collect()
}

/// As ids, items, tasks, reasons.
pub async fn texts_come_back_as_they_went_in(kit: &impl Kit) {
    let face = fresh(kit).await;
    for run in ODD_TEXTS {
        started(&face, run).await;
        assert_eq!(face.get(run).await.unwrap().unwrap().id, run);
        assert_eq!(face.is_processed(run, &ODD_TEXTS).await.unwrap(), Ok(vec![false; ODD_TEXTS.len()]));
        assert_eq!(face.is_processed(run, &[]).await.unwrap(), Ok(Vec::new()));
        let nothing = Processed { new: 0, processed: 0 };
        assert_eq!(face.processed(run, None, &[]).await.unwrap(), Ok(nothing));
        for (number, item) in ODD_TEXTS.into_iter().enumerate() {
            let answer = Processed { new: 1, processed: number as u64 + 1 };
            assert_eq!(face.processed(run, None, &[item]).await.unwrap(), Ok(answer));
            face.task_started(run, None, item).await.unwrap().unwrap();
            face.failed(run, None, item, item, item).await.unwrap().unwrap();
            // Its id is the last one's.
            assert!(!face.failed(run, None, item, "other", item).await.unwrap().unwrap().is_new);
        }
        assert_eq!(face.is_processed(run, &ODD_TEXTS).await.unwrap(), Ok(vec![true; ODD_TEXTS.len()]));
        let mut sorted = ODD_TEXTS;
        sorted.sort();
        let tasks = face.tasks(run).await.unwrap().unwrap();
        assert_eq!(tasks.iter().map(|task| task.name.as_str()).collect::<Vec<_>>(), sorted);
        let failures = all_to_retry(&face, run, 5).await.unwrap();
        assert_eq!(items(&failures), sorted);
        assert!(failures.iter().all(|failure| failure.reason == failure.item && failure.count == 1));
    }
    let mut listed: Vec<_> = super::all_runs(&face, None, 5).await.into_iter().map(|run| run.id).collect();
    listed.reverse();
    let mut sorted = ODD_TEXTS;
    sorted.sort();
    assert_eq!(listed, sorted);
}

/// A set, not a list.
pub async fn items_are_counted_once_whoever_brings_them(kit: &impl Kit) {
    let face = fresh(kit).await;
    assert_eq!(face.processed("r", None, &["a"]).await.unwrap(), Err(Refusal::Unknown));
    started(&face, "r").await;
    let processed = async |items: &[&str]| face.processed("r", first(), items).await.unwrap().unwrap();
    assert_eq!(processed(&["a", "b", "a"]).await, Processed { new: 2, processed: 2 });
    assert_eq!(processed(&["b", "c"]).await, Processed { new: 1, processed: 3 });
    assert_eq!(processed(&["a", "b", "c"]).await, Processed { new: 0, processed: 3 });
    let flags = face.is_processed("r", &["c", "d", "a", "d"]).await.unwrap();
    assert_eq!(flags, Ok(vec![true, false, true, false]));
    // One run's are not another's.
    started(&face, "s").await;
    assert_eq!(face.is_processed("s", &["a"]).await.unwrap(), Ok(vec![false]));
}

/// The first that fit are taken.
pub async fn the_bound_on_processed_items_is_exact_and_what_was_taken_is_told(kit: &impl Kit) {
    let face = kit.fresh(options(|it| it.max_processed = 1500)).await;
    started(&face, "r").await;
    let texts: Vec<String> = (0..2600).map(|number| number.to_string()).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    // In more than one step, of which the last finds nothing that is new.
    let all = [&texts[..1400], &texts[..1000]].concat();
    let answer = face.processed("r", None, &all).await.unwrap();
    assert_eq!(answer, Ok(Processed { new: 1400, processed: 1400 }));
    let answer = face.processed("r", None, &texts[1300..]).await.unwrap();
    assert_eq!(answer, Err(Refusal::Full { taken: 100 }));
    let flags = face.is_processed("r", &texts).await.unwrap().unwrap();
    assert!(flags.iter().enumerate().all(|(number, is_processed)| *is_processed == (number < 1500)));
    // Those that are known are no more.
    let answer = face.processed("r", None, &texts[..1500]).await.unwrap();
    assert_eq!(answer, Ok(Processed { new: 0, processed: 1500 }));
    // One that was not taken is still to be retried.
    face.failed("r", None, "2000", "", "1").await.unwrap().unwrap();
    face.failed("r", None, "3", "", "1").await.unwrap().unwrap();
    let answer = face.processed("r", None, &["2000", "3"]).await.unwrap();
    assert_eq!(answer, Err(Refusal::Full { taken: 0 }));
    assert_eq!(items(&all_to_retry(&face, "r", 9).await.unwrap()), ["2000"]);
}

/// Ten thousand items.
pub async fn a_batch_is_as_large_as_it_may_be_and_no_larger(kit: &impl Kit) {
    let face = fresh(kit).await;
    started(&face, "r").await;
    let texts: Vec<String> = (0..10_001).map(|number| format!("item {number}")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let answer = face.processed("r", None, &texts[1..]).await.unwrap();
    assert_eq!(answer, Ok(Processed { new: 10_000, processed: 10_000 }));
    let flags = face.is_processed("r", &texts[..10_000]).await.unwrap().unwrap();
    assert_eq!((flags.len(), flags.iter().filter(|it| **it).count(), flags[0]), (10_000, 9999, false));
    for error in [
        face.processed("r", None, &texts).await.unwrap_err(),
        face.is_processed("r", &texts).await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    }
}

/// Whether or not it had been processed before.
pub async fn an_item_that_failed_is_to_be_retried_until_it_is_processed(kit: &impl Kit) {
    let face = fresh(kit).await;
    assert_eq!(face.failed("r", None, "a", "", "1").await.unwrap(), Err(Refusal::Unknown));
    assert_eq!(all_to_retry(&face, "r", 9).await, Err(Refusal::Unknown));
    started(&face, "r").await;
    assert_eq!(all_to_retry(&face, "r", 9).await, Ok(Vec::new()));
    for (number, item) in ["c", "a", "b"].into_iter().enumerate() {
        face.clock().set(at(1000 * number as u64));
        assert_eq!(face.failed("r", None, item, "timeout", "1").await.unwrap(), Ok(noted(1)));
    }
    assert_eq!(items(&all_to_retry(&face, "r", 1).await.unwrap()), ["c", "a", "b"]);
    assert_eq!(items(&all_failures(&face, "r", 1).await.unwrap()), ["b", "a", "c"]);
    face.processed("r", None, &["a", "x"]).await.unwrap().unwrap();
    assert_eq!(items(&all_to_retry(&face, "r", 2).await.unwrap()), ["c", "b"]);
    // It fails again, later than the others: both its failures are known.
    face.clock().set(at(9000));
    assert_eq!(face.failed("r", None, "a", "gone", "2").await.unwrap(), Ok(noted(2)));
    let failures = all_to_retry(&face, "r", 2).await.unwrap();
    assert_eq!(items(&failures), ["c", "b", "a"]);
    let expected = Failure {
        item: "a".to_owned(),
        reason: "gone".to_owned(),
        count: 2,
        first_at: at(1000),
        last_at: at(9000),
        to_retry: true,
    };
    assert_eq!(failures[2], expected);
    let progress = face.progress("r").await.unwrap().unwrap();
    assert_eq!((progress.processed, progress.failed, progress.to_retry), (2, 3, 3));
    face.processed("r", None, &["a"]).await.unwrap().unwrap();
    let failures = all_failures(&face, "r", 9).await.unwrap();
    assert_eq!(failures[0], Failure { to_retry: false, ..expected });
    let progress = face.progress("r").await.unwrap().unwrap();
    assert_eq!((progress.failed, progress.to_retry), (3, 2));
}

/// So that a call whose answer was lost can be made again.
pub async fn the_last_call_again_changes_nothing(kit: &impl Kit) {
    let face = fresh(kit).await;
    started(&face, "r").await;
    let failed = async |reason: &str, id: &str| face.failed("r", first(), "a", reason, id).await.unwrap();
    assert_eq!(failed("one", "1").await, Ok(noted(1)));
    face.clock().advance_ms(1000);
    face.processed("r", None, &["a"]).await.unwrap().unwrap();
    face.clock().advance_ms(1000);
    let before = (all_failures(&face, "r", 9).await, face.get("r").await.unwrap());
    assert_eq!(failed("one", "1").await, Ok(FailureNoted { is_new: false, ..noted(1) }));
    // Even what was processed meanwhile stays so.
    assert_eq!((all_failures(&face, "r", 9).await, face.get("r").await.unwrap()), before);
    assert_eq!(all_to_retry(&face, "r", 9).await, Ok(Vec::new()));
    assert_eq!(failed("two", "2").await, Ok(noted(2)));
    assert_eq!(failed("two", "2").await, Ok(FailureNoted { is_new: false, ..noted(2) }));
    // Ids are those of one item.
    assert_eq!(face.failed("r", None, "b", "", "2").await.unwrap(), Ok(noted(1)));
}

/// One that fails again is not a further one.
pub async fn the_bound_on_failures_drops_the_oldest_and_tells(kit: &impl Kit) {
    let face = kit.fresh(options(|it| it.max_failures = 3)).await;
    started(&face, "r").await;
    for (number, item) in ["a", "b", "c"].into_iter().enumerate() {
        face.clock().set(at(number as u64));
        assert_eq!(face.failed("r", None, item, "", "1").await.unwrap(), Ok(noted(1)));
    }
    face.clock().set(at(10));
    assert_eq!(face.failed("r", None, "a", "", "2").await.unwrap(), Ok(noted(2)));
    let dropped = |item: &str| FailureNoted { dropped: Some(item.to_owned()), ..noted(1) };
    assert_eq!(face.failed("r", None, "d", "", "1").await.unwrap(), Ok(dropped("b")));
    assert_eq!(items(&all_failures(&face, "r", 9).await.unwrap()), ["d", "a", "c"]);
    // Of several of one moment the first by name, which is never the new one.
    for item in ["A", "B", "C"] {
        face.failed("r", None, item, "", "1").await.unwrap().unwrap();
    }
    assert_eq!(items(&all_failures(&face, "r", 9).await.unwrap()), ["d", "a", "C"]);
    assert_eq!(items(&all_to_retry(&face, "r", 9).await.unwrap()), ["C", "a", "d"]);
    let hour = Hour::of(at(0));
    let listed = all_in_hour(&face, hour, 2).await;
    assert_eq!(listed.iter().map(|it| it.failure.item.as_str()).collect::<Vec<_>>(), ["d", "a", "C"]);
}

/// Of all runs, once per item.
pub async fn failures_are_found_by_the_hour_of_the_stores_clock(kit: &impl Kit) {
    let face = fresh(kit).await;
    let hour: Hour = "2023-11-14_22".parse().unwrap();
    assert_eq!(Hour::of(Timestamp::from_millis(START_MS)), hour);
    assert_eq!(all_in_hour(&face, hour, 5).await, []);
    // The last millisecond of the hour, and the first of the next.
    let end_ms = hour.starts_at().as_millis() + 3_600_000 - START_MS;
    for run in ["r", "s:1"] {
        face.clock().set(at(0));
        started(&face, run).await;
        for (ms, item) in [(0, "a"), (end_ms - 1, "b"), (end_ms, "c")] {
            face.clock().set(at(ms));
            face.failed(run, None, item, "why", "1").await.unwrap().unwrap();
        }
    }
    let next: Hour = "2023-11-14_23".parse().unwrap();
    let listed = async |hour, limit| -> Vec<String> {
        let found = all_in_hour(&face, hour, limit).await;
        found.into_iter().map(|it| format!("{} {}", it.run, it.failure.item)).collect()
    };
    for limit in [1, 2, 1000] {
        assert_eq!(listed(hour, limit).await, ["s:1 b", "r b", "s:1 a", "r a"]);
        assert_eq!(listed(next, limit).await, ["s:1 c", "r c"]);
    }
    // One that fails again is found where it failed last, and once.
    face.failed("r", None, "a", "again", "2").await.unwrap().unwrap();
    assert_eq!(listed(hour, 2).await, ["s:1 b", "r b", "s:1 a"]);
    assert_eq!(listed(next, 2).await, ["s:1 c", "r c", "r a"]);
    let first = all_in_hour(&face, next, 9).await.remove(2).failure;
    assert_eq!((first.count, first.reason.as_str(), first.first_at), (2, "again", at(0)));
    // What is gone with its run is not found.
    face.delete("s:1", None).await.unwrap().unwrap();
    assert_eq!(listed(hour, 2).await, ["r b"]);
    face.clock().set(at(end_ms - 1 + TTL_MS));
    face.update("r", None, &Update::new()).await.unwrap().unwrap();
    assert_eq!(listed(hour, 2).await, [""; 0]);
    assert_eq!(listed(next, 2).await, ["r c", "r a"]);
}

/// By the store's clock.
pub async fn tasks_tell_how_long_they_took(kit: &impl Kit) {
    let face = fresh(kit).await;
    assert_eq!(face.task_started("r", None, "t").await.unwrap(), Err(Refusal::Unknown));
    started(&face, "r").await;
    assert_eq!(face.tasks("r").await.unwrap(), Ok(Vec::new()));
    assert_eq!(face.task_finished("r", None, "t").await.unwrap(), Err(Refusal::UnknownTask));
    let started_at = |ms, is_new| Ok(TaskStarted { started_at: at(ms), is_new });
    assert_eq!(face.task_started("r", first(), "t").await.unwrap(), started_at(0, true));
    face.clock().set(at(500));
    assert_eq!(face.task_started("r", None, "a").await.unwrap(), started_at(500, true));
    // Whoever has not heard of it starts it again.
    assert_eq!(face.task_started("r", first(), "t").await.unwrap(), started_at(0, false));
    face.clock().set(at(1234));
    let took = Duration::from_millis(1234);
    assert_eq!(face.task_finished("r", first(), "t").await.unwrap(), Ok(took));
    face.clock().set(at(2000));
    assert_eq!(face.task_finished("r", first(), "t").await.unwrap(), Ok(took));
    let task = |name: &str, started_ms, finished_ms: Option<u64>| Task {
        name: name.to_owned(),
        attempt: Attempt::new(1),
        started_at: at(started_ms),
        finished_at: finished_ms.map(at),
    };
    let tasks = face.tasks("r").await.unwrap().unwrap();
    assert_eq!(tasks, [task("t", 0, Some(1234)), task("a", 500, None)]);
    assert_eq!((tasks[0].duration(), tasks[1].duration()), (Some(took), None));
    // A call that comes twice, and late, starts nothing anew.
    for attempt in [first(), None] {
        assert_eq!(face.task_started("r", attempt, "t").await.unwrap(), started_at(0, false));
        assert_eq!(face.task_finished("r", attempt, "t").await.unwrap(), Ok(took));
    }
    assert_eq!(face.tasks("r").await.unwrap(), Ok(tasks));
    // The next attempt does it again, and a late worker of this one does not.
    face.finish("r", None, RunState::Failed).await.unwrap().unwrap();
    face.retry("r", Attempt::new(1)).await.unwrap().unwrap();
    let stale = Err(Refusal::Stale { current: Attempt::new(2) });
    assert_eq!(face.task_started("r", first(), "t").await.unwrap(), stale);
    assert_eq!(face.task_started("r", None, "t").await.unwrap(), started_at(2000, true));
    assert_eq!(face.task_started("r", None, "t").await.unwrap(), started_at(2000, false));
}

/// Of the attempt that it is in.
pub async fn progress_tells_rate_and_end(kit: &impl Kit) {
    let face = fresh(kit).await;
    assert_eq!(face.progress("r").await.unwrap(), Err(Refusal::Unknown));
    started(&face, "r").await;
    let nothing = Progress {
        processed: 0,
        failed: 0,
        to_retry: 0,
        total: None,
        rate_per_second: 0.0,
        estimated_end: None,
        lost_at: None,
    };
    assert_eq!(face.progress("r").await.unwrap(), Ok(nothing));
    face.processed("r", None, &["a", "b", "c"]).await.unwrap().unwrap();
    face.clock().set(at(4000));
    let progress = Progress { processed: 3, rate_per_second: 0.75, ..nothing };
    assert_eq!(face.progress("r").await.unwrap(), Ok(progress));
    face.update("r", None, &Update::new().total(12)).await.unwrap().unwrap();
    let known = Progress { total: Some(12), estimated_end: Some(at(16_000)), ..progress };
    assert_eq!(face.progress("r").await.unwrap(), Ok(known));
    face.finish("r", None, RunState::Failed).await.unwrap().unwrap();
    face.clock().set(at(100_000));
    assert_eq!(face.progress("r").await.unwrap(), Ok(Progress { estimated_end: None, ..known }));
    face.retry("r", Attempt::new(1)).await.unwrap().unwrap();
    let next = Progress { rate_per_second: 0.0, estimated_end: None, ..known };
    assert_eq!(face.progress("r").await.unwrap(), Ok(next));
    face.clock().set(at(103_000));
    face.processed("r", None, &["a", "d"]).await.unwrap().unwrap();
    let next = Progress { processed: 4, rate_per_second: 0.333, estimated_end: Some(at(127_000)), ..next };
    assert_eq!(face.progress("r").await.unwrap(), Ok(next));
}

/// Before anything is asked of the store.
pub async fn what_is_not_allowed_is_an_error_that_says_what_is(kit: &impl Kit) {
    let face = kit.fresh(options(|it| it.max_reason_bytes = 10)).await;
    started(&face, "r").await;
    let long = "x".repeat(256);
    let errors = [
        face.start("").await.unwrap_err(),
        face.start(&long).await.unwrap_err(),
        face.processed("r", None, &["a", ""]).await.unwrap_err(),
        face.processed("r", None, &[&long]).await.unwrap_err(),
        face.failed("r", None, "a", "eleven byte", "1").await.unwrap_err(),
        face.failed("r", None, "a", "", "").await.unwrap_err(),
        face.task_started("r", None, "").await.unwrap_err(),
        face.finish("r", None, RunState::Paused).await.unwrap_err(),
        face.list(None, None, 0).await.unwrap_err(),
        face.list(None, None, 1001).await.unwrap_err(),
        face.failures("r", None, 0).await.unwrap_err(),
        face.retry_list("r", None, 1001).await.unwrap_err(),
    ];
    for error in errors {
        let text = error.to_string();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{text}");
        assert!(text.contains("allowed") || text.contains("up to"), "{text}");
    }
    // Nothing was done.
    assert_eq!(face.is_processed("r", &["a"]).await.unwrap(), Ok(vec![false]));
    assert_eq!(all_failures(&face, "r", 9).await, Ok(Vec::new()));
    let ten = face.failed("r", None, "a", "ten bytes.", "1").await.unwrap();
    assert_eq!(ten, Ok(noted(1)));
}
