//! A run and its life: starts, states, attempts, ends, fields, lists, clocks that are wrong.

use std::time::Duration;

use super::{
    Face, Granted, Kit, ODD_TEXTS, START_MS, all_failures, all_in_hour, all_runs, all_to_retry, options,
};
use crate::bounds::MAX_COUNT;
use crate::clock::Timestamp;
use crate::run::{
    Attempt, Finished, Hour, Processed, Refusal, RunOptions, RunState, Started, TaskStarted, Update, Updated,
};

/// The default life.
pub(super) const TTL_MS: u64 = 25 * 3_600_000;

pub(super) fn at(ms: u64) -> Timestamp {
    Timestamp::from_millis(START_MS + ms)
}

pub(super) fn first() -> Option<Attempt> {
    Some(Attempt::new(1))
}

pub(super) async fn fresh<K: Kit>(kit: &K) -> K::Face {
    kit.fresh(options(|_| {})).await
}

/// A run that was started now.
pub(super) async fn started<F: Face>(face: &F, run: &str) {
    let started = face.start(run).await.unwrap();
    assert_eq!(started, Ok(Started { attempt: Attempt::new(1), state: RunState::Running, is_new: true }));
}

async fn state(face: &impl Face, run: &str) -> RunState {
    face.get(run).await.unwrap().unwrap().state
}

/// `start` is idempotent.
pub async fn a_run_is_started_once_and_who_comes_later_is_told(kit: &impl Kit) {
    let face = fresh(kit).await;
    assert_eq!(face.get("r").await.unwrap(), None);
    started(&face, "r").await;
    face.clock().advance_ms(1000);
    let again = Started { attempt: Attempt::new(1), state: RunState::Running, is_new: false };
    assert_eq!(face.start("r").await.unwrap(), Ok(again));
    // That changed nothing, not even how long it lives.
    let run = face.get("r").await.unwrap().unwrap();
    assert_eq!((run.started_at, run.updated_at, run.ends_at), (at(0), at(0), at(TTL_MS)));
    assert_eq!((run.attempt_started_at, run.finished_at, run.total), (at(0), None, None));

    face.finish("r", None, RunState::Succeeded).await.unwrap().unwrap();
    let ended = Refusal::Ended { state: RunState::Succeeded, attempt: Attempt::new(1) };
    assert_eq!(face.start("r").await.unwrap(), Err(ended));
}

/// Live states follow each other in any order.
pub async fn live_states_follow_each_other_and_a_terminal_one_is_left_by_retry_alone(kit: &impl Kit) {
    let face = fresh(kit).await;
    started(&face, "r").await;
    let live = [RunState::Running, RunState::Processing, RunState::Paused];
    for from in live {
        for to in live {
            for state in [from, to] {
                let updated = face.update("r", None, &Update::new().state(state)).await.unwrap().unwrap();
                assert_eq!(updated, Updated { attempt: Attempt::new(1), state, ends_at: at(TTL_MS) });
            }
            assert_eq!(state(&face, "r").await, to);
        }
    }
    for terminal in [RunState::Succeeded, RunState::Failed, RunState::Cancelled] {
        let run = terminal.as_str();
        started(&face, run).await;
        let attempt = Attempt::new(1);
        let finish = async |state| face.finish(run, first(), state).await.unwrap();
        assert_eq!(finish(terminal).await, Ok(Finished { attempt, state: terminal, is_new: true }));
        // In the same state it is a repetition, in another it is refused, as is all else.
        assert_eq!(finish(terminal).await, Ok(Finished { attempt, state: terminal, is_new: false }));
        let ended = Refusal::Ended { state: terminal, attempt };
        for other in [RunState::Succeeded, RunState::Failed, RunState::Cancelled] {
            if other != terminal {
                assert_eq!(finish(other).await, Err(ended));
            }
        }
        for state in live {
            assert_eq!(face.update(run, None, &Update::new().state(state)).await.unwrap(), Err(ended));
        }
        assert_eq!(face.processed(run, None, &["a"]).await.unwrap(), Err(ended));
        assert_eq!(face.failed(run, None, "a", "", "1").await.unwrap(), Err(ended));
        assert_eq!(face.task_started(run, None, "t").await.unwrap(), Err(ended));
        assert_eq!(face.task_finished(run, None, "t").await.unwrap(), Err(ended));
        assert_eq!(state(&face, run).await, terminal);
        let retried = face.retry(run, attempt).await.unwrap().unwrap();
        assert_eq!((retried.attempt.get(), retried.state), (2, RunState::Running));
    }
}

/// A retry raises the attempt once.
pub async fn a_retry_is_idempotent_and_clears_nothing(kit: &impl Kit) {
    let face = fresh(kit).await;
    assert_eq!(face.retry("r", Attempt::new(1)).await.unwrap(), Err(Refusal::Unknown));
    started(&face, "r").await;
    let live = Refusal::Live { state: RunState::Running, attempt: Attempt::new(1) };
    assert_eq!(face.retry("r", Attempt::new(1)).await.unwrap(), Err(live));
    // There is no attempt before the first that this could be a repetition of.
    let error = face.retry("r", Attempt::new(0)).await.unwrap_err();
    assert_eq!(error.kind(), crate::ErrorKind::Invalid, "{error}");
    assert!(error.to_string().contains("from 1 on"), "{error}");
    face.update("r", None, &Update::new().field("who", "me").total(9)).await.unwrap().unwrap();
    face.processed("r", None, &["a", "b"]).await.unwrap().unwrap();
    face.failed("r", None, "c", "broken", "1").await.unwrap().unwrap();
    face.task_started("r", None, "t").await.unwrap().unwrap();
    face.finish("r", None, RunState::Failed).await.unwrap().unwrap();

    face.clock().advance_ms(60_000);
    let second = Started { attempt: Attempt::new(2), state: RunState::Running, is_new: true };
    assert_eq!(face.retry("r", Attempt::new(1)).await.unwrap(), Ok(second));
    // Whoever has not heard of it asks again.
    let again = Started { is_new: false, ..second };
    assert_eq!(face.retry("r", Attempt::new(1)).await.unwrap(), Ok(again));
    for other in [3, MAX_COUNT] {
        let stale = Refusal::Stale { current: Attempt::new(2) };
        assert_eq!(face.retry("r", Attempt::new(other)).await.unwrap(), Err(stale));
    }
    let run = face.get("r").await.unwrap().unwrap();
    assert_eq!((run.attempt.get(), run.started_at, run.attempt_started_at), (2, at(0), at(60_000)));
    assert_eq!((run.total, run.fields["who"].as_str(), run.finished_at), (Some(9), "me", None));
    let processed = face.is_processed("r", &["a", "b", "c"]).await.unwrap();
    assert_eq!(processed, Ok(vec![true, true, false]));
    assert_eq!(all_failures(&face, "r", 10).await.unwrap().len(), 1);
    // A task that nobody finished begins anew in the next attempt.
    let started = TaskStarted { started_at: at(60_000), is_new: true };
    assert_eq!(face.task_started("r", None, "t").await.unwrap(), Ok(started));

    face.finish("r", None, RunState::Succeeded).await.unwrap().unwrap();
    let ended = Refusal::Ended { state: RunState::Succeeded, attempt: Attempt::new(2) };
    assert_eq!(face.retry("r", Attempt::new(1)).await.unwrap(), Err(ended));
}

/// A late worker of attempt 1 changes nothing of attempt 2.
pub async fn who_means_another_attempt_changes_nothing(kit: &impl Kit) {
    let face = fresh(kit).await;
    started(&face, "r").await;
    face.processed("r", first(), &["a"]).await.unwrap().unwrap();
    face.finish("r", first(), RunState::Failed).await.unwrap().unwrap();
    face.retry("r", Attempt::new(1)).await.unwrap().unwrap();
    face.task_started("r", None, "t").await.unwrap().unwrap();
    let before =
        (face.get("r").await.unwrap(), face.progress("r").await.unwrap(), face.tasks("r").await.unwrap());
    face.clock().advance_ms(5000);
    for other in [1, 3].map(|number| Some(Attempt::new(number))) {
        let stale = Refusal::Stale { current: Attempt::new(2) };
        let update = Update::new().state(RunState::Paused).field("x", "y").total(1);
        assert_eq!(face.update("r", other, &update).await.unwrap(), Err(stale));
        assert_eq!(face.finish("r", other, RunState::Failed).await.unwrap(), Err(stale));
        assert_eq!(face.processed("r", other, &["b"]).await.unwrap(), Err(stale));
        assert_eq!(face.failed("r", other, "b", "late", "9").await.unwrap(), Err(stale));
        assert_eq!(face.task_started("r", other, "u").await.unwrap(), Err(stale));
        assert_eq!(face.task_finished("r", other, "t").await.unwrap(), Err(stale));
        assert_eq!(face.expire("r", other, Duration::ZERO).await.unwrap(), Err(stale));
        assert_eq!(face.delete("r", other).await.unwrap(), Err(stale));
    }
    face.clock().set(at(0));
    let after =
        (face.get("r").await.unwrap(), face.progress("r").await.unwrap(), face.tasks("r").await.unwrap());
    assert_eq!(before, after);
    let processed = Processed { new: 1, processed: 2 };
    assert_eq!(face.processed("r", Some(Attempt::new(2)), &["b"]).await.unwrap(), Ok(processed));
}

/// Every change begins a life, and nothing of a run outlives it.
pub async fn a_run_ends_its_ttl_after_its_last_update_and_all_of_it(kit: &impl Kit) {
    let face = fresh(kit).await;
    started(&face, "r").await;
    let mut now_ms = 0;
    let changes = 6;
    for change in 0..changes {
        // The last moment of the life it has.
        now_ms += TTL_MS - 1;
        face.clock().set(at(now_ms));
        match change {
            0 => drop(face.update("r", None, &Update::new()).await.unwrap().unwrap()),
            1 => drop(face.processed("r", None, &["a"]).await.unwrap().unwrap()),
            2 => drop(face.failed("r", None, "b", "", "1").await.unwrap().unwrap()),
            3 => drop(face.task_started("r", None, "t").await.unwrap().unwrap()),
            4 => drop(face.task_finished("r", None, "t").await.unwrap().unwrap()),
            _ => drop(face.finish("r", None, RunState::Failed).await.unwrap().unwrap()),
        }
        assert_eq!(face.get("r").await.unwrap().unwrap().ends_at, at(now_ms + TTL_MS), "{change}");
    }
    now_ms += TTL_MS;
    face.clock().set(at(now_ms - 1));
    assert_eq!(face.is_processed("r", &["a"]).await.unwrap(), Ok(vec![true]));
    assert_eq!(all_runs(&face, None, 10).await.len(), 1);
    face.clock().set(at(now_ms));
    assert_eq!(face.get("r").await.unwrap(), None);
    assert_eq!(all_runs(&face, None, 10).await, []);
    let unknown = Refusal::Unknown;
    assert_eq!(face.is_processed("r", &["a"]).await.unwrap(), Err(unknown));
    assert_eq!(face.progress("r").await.unwrap(), Err(unknown));
    assert_eq!(face.tasks("r").await.unwrap(), Err(unknown));
    assert_eq!(all_failures(&face, "r", 10).await, Err(unknown));
    assert_eq!(face.retry("r", Attempt::new(1)).await.unwrap(), Err(unknown));
    assert_eq!(face.processed("r", None, &["a"]).await.unwrap(), Err(unknown));
    assert_eq!(face.delete("r", None).await.unwrap(), Err(unknown));
    // What is started then is another run.
    started(&face, "r").await;
    assert_eq!(face.is_processed("r", &["a"]).await.unwrap(), Ok(vec![false]));
    assert_eq!(all_failures(&face, "r", 10).await, Ok(Vec::new()));
    assert_eq!(face.tasks("r").await.unwrap(), Ok(Vec::new()));
}

/// Whatever became of the run before it, nothing of that is left for the next.
pub async fn a_new_run_begins_with_nothing(kit: &impl Kit) {
    let face = fresh(kit).await;
    for (number, case) in
        ["over", "expired", "deleted", "ended and over", "over and cleaned up"].into_iter().enumerate()
    {
        let mut now_ms = 100 * TTL_MS * number as u64;
        face.clock().set(at(now_ms));
        let is_deleted = case == "deleted";
        for round in 0..3 {
            let attempt = if is_deleted { round + 1 } else { 1 };
            let is_new = Started { attempt: Attempt::new(attempt), state: RunState::Running, is_new: true };
            assert_eq!(face.start("r").await.unwrap(), Ok(is_new), "{case}");
            let run = face.get("r").await.unwrap().unwrap();
            assert_eq!((run.fields.len(), run.total, run.finished_at), (0, None, None), "{case}");
            assert_eq!((run.started_at, run.ends_at), (at(now_ms), at(now_ms + TTL_MS)), "{case}");
            let progress = face.progress("r").await.unwrap().unwrap();
            assert_eq!((progress.processed, progress.failed, progress.to_retry), (0, 0, 0), "{case}");
            assert_eq!(face.is_processed("r", &["a", "b"]).await.unwrap(), Ok(vec![false; 2]), "{case}");
            assert_eq!(all_failures(&face, "r", 9).await, Ok(Vec::new()), "{case}");
            assert_eq!(all_to_retry(&face, "r", 9).await, Ok(Vec::new()), "{case}");
            assert_eq!(all_in_hour(&face, Hour::of(at(now_ms)), 9).await, [], "{case}");
            assert_eq!(face.tasks("r").await.unwrap(), Ok(Vec::new()), "{case}");
            assert_eq!(all_runs(&face, None, 9).await.len(), 1, "{case}");
            let update = Update::new().state(RunState::Paused).field("who", "me").total(9);
            face.update("r", None, &update).await.unwrap().unwrap();
            let processed = Processed { new: 2, processed: 2 };
            assert_eq!(face.processed("r", None, &["a", "b"]).await.unwrap(), Ok(processed), "{case}");
            for item in ["b", "c"] {
                let noted = face.failed("r", None, item, "why", "1").await.unwrap().unwrap();
                assert_eq!((noted.count, noted.is_new), (1, true), "{case}");
            }
            assert!(face.task_started("r", None, "t").await.unwrap().unwrap().is_new, "{case}");
            match case {
                "expired" => drop(face.expire("r", None, Duration::ZERO).await.unwrap().unwrap()),
                "deleted" => face.delete("r", None).await.unwrap().unwrap(),
                "ended and over" => drop(face.finish("r", None, RunState::Failed).await.unwrap().unwrap()),
                _ => {}
            }
            if !is_deleted && case != "expired" {
                now_ms += TTL_MS;
                face.clock().set(at(now_ms));
            }
            if case == "over and cleaned up" {
                now_ms += TTL_MS;
                face.clock().set(at(now_ms));
                face.cleanup().await.unwrap();
            }
        }
    }
}

/// More than are taken away in one step, by number and by how much there is of each.
pub async fn a_cleanup_goes_on_until_nothing_is_over(kit: &impl Kit) {
    const RUNS: usize = 900;
    let face = kit.fresh(options(|it| it.batch = 1000)).await;
    for number in 0..RUNS {
        started(&face, &format!("run {number}")).await;
    }
    face.clock().set(at(3 * TTL_MS));
    started(&face, "live").await;
    assert_eq!(face.cleanup().await.unwrap(), RUNS);
    assert_eq!(face.cleanup().await.unwrap(), 0);
    assert_eq!(all_runs(&face, None, 10).await.len(), 1);
}

/// And what is done later does not lengthen it.
pub async fn expire_only_shortens_a_life(kit: &impl Kit) {
    let face = fresh(kit).await;
    let expire = async |ms: u64| face.expire("r", None, Duration::from_millis(ms)).await.unwrap();
    assert_eq!(expire(1).await, Err(Refusal::Unknown));
    started(&face, "r").await;
    assert_eq!(expire(2 * TTL_MS).await, Ok(at(TTL_MS)));
    assert_eq!(expire(10_000).await, Ok(at(10_000)));
    assert_eq!(expire(20_000).await, Ok(at(10_000)));
    face.clock().advance_ms(5000);
    let updated = face.update("r", None, &Update::new()).await.unwrap().unwrap();
    assert_eq!(updated.ends_at, at(10_000));
    // One that has ended too.
    face.finish("r", None, RunState::Succeeded).await.unwrap().unwrap();
    assert_eq!(expire(1000).await, Ok(at(6000)));
    face.clock().set(at(5999));
    assert!(face.get("r").await.unwrap().is_some());
    face.clock().set(at(6000));
    assert_eq!(face.get("r").await.unwrap(), None);
    started(&face, "r").await;
    assert_eq!(face.get("r").await.unwrap().unwrap().ends_at, at(6000 + TTL_MS));
    assert_eq!(expire(0).await, Ok(at(6000)));
    assert_eq!(face.get("r").await.unwrap(), None);
}

/// So that the next attempt is higher.
pub async fn a_deleted_run_is_remembered_for_the_rest_of_its_life(kit: &impl Kit) {
    let face = fresh(kit).await;
    assert_eq!(face.delete("r", None).await.unwrap(), Err(Refusal::Unknown));
    started(&face, "r").await;
    face.processed("r", None, &["a"]).await.unwrap().unwrap();
    face.failed("r", None, "b", "", "1").await.unwrap().unwrap();
    face.clock().advance_ms(1000);
    assert_eq!(face.delete("r", first()).await.unwrap(), Ok(()));
    assert_eq!(face.delete("r", None).await.unwrap(), Err(Refusal::Unknown));
    assert_eq!(face.get("r").await.unwrap(), None);
    assert_eq!(all_runs(&face, None, 10).await, []);
    assert_eq!(face.processed("r", None, &["b"]).await.unwrap(), Err(Refusal::Unknown));
    assert_eq!(face.retry("r", Attempt::new(1)).await.unwrap(), Err(Refusal::Unknown));

    let again = Started { attempt: Attempt::new(2), state: RunState::Running, is_new: true };
    assert_eq!(face.start("r").await.unwrap(), Ok(again));
    assert_eq!(face.is_processed("r", &["a"]).await.unwrap(), Ok(vec![false]));
    assert_eq!(all_failures(&face, "r", 10).await, Ok(Vec::new()));
    let stale = Refusal::Stale { current: Attempt::new(2) };
    assert_eq!(face.processed("r", first(), &["b"]).await.unwrap(), Err(stale));
    let run = face.get("r").await.unwrap().unwrap();
    assert_eq!((run.started_at, run.ends_at), (at(1000), at(1000 + TTL_MS)));

    // For the rest of its life, and no longer.
    face.delete("r", None).await.unwrap().unwrap();
    face.clock().set(at(1000 + TTL_MS - 1));
    assert_eq!(face.start("r").await.unwrap().map(|it| it.attempt.get()), Ok(3));
    face.clock().set(at(2000 + TTL_MS));
    face.delete("r", None).await.unwrap().unwrap();
    face.clock().set(at(1000 + 2 * TTL_MS - 1));
    started(&face, "r").await;
}

/// Names and values are text.
pub async fn fields_come_back_as_they_went_in_and_are_bounded(kit: &impl Kit) {
    let face = kit
        .fresh(options(|it| {
            (it.max_fields, it.max_field_name_bytes, it.max_field_value_bytes) = (12, 64, 64);
        }))
        .await;
    started(&face, "r").await;
    let mut update = Update::new();
    for (name, value) in ODD_TEXTS.iter().zip(ODD_TEXTS.iter().rev()) {
        update = update.field(*name, *value);
    }
    face.update("r", None, &update).await.unwrap().unwrap();
    let fields = face.get("r").await.unwrap().unwrap().fields;
    let expected = ODD_TEXTS.iter().zip(ODD_TEXTS.iter().rev());
    assert_eq!(fields, expected.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect());

    // One more is refused, and nothing of the call is done; one for another is not.
    let more = Update::new().state(RunState::Paused).field("more", "").field("007", "8").total(4);
    assert_eq!(face.update("r", None, &more).await.unwrap(), Err(Refusal::TooManyFields));
    let run = face.get("r").await.unwrap().unwrap();
    assert_eq!((run.fields, run.state, run.total), (fields, RunState::Running, None));
    face.update("r", None, &more.remove("[]")).await.unwrap().unwrap();
    let run = face.get("r").await.unwrap().unwrap();
    assert_eq!((run.state, run.total, run.fields.len()), (RunState::Paused, Some(4), 12));
    assert_eq!((run.fields["more"].as_str(), run.fields["007"].as_str()), ("", "8"));
    assert!(!run.fields.contains_key("[]"));
    // Names of our own are nobody's.
    face.update("r", None, &Update::new().remove("007").field("status", "failed")).await.unwrap().unwrap();
    assert_eq!(state(&face, "r").await, RunState::Paused);

    let too_long = "x".repeat(65);
    for bad in [
        Update::new().field("", "x"),
        Update::new().field(too_long.as_str(), "x"),
        Update::new().field("x", too_long.as_str()),
        Update::new().total(1 << 53),
        Update::new().state(RunState::Succeeded),
    ] {
        let error = face.update("r", None, &bad).await.unwrap_err();
        assert_eq!(error.kind(), crate::ErrorKind::Invalid, "{error}");
    }
}

/// From an index, whatever the states.
pub async fn pages_of_runs_are_the_list_newest_first(kit: &impl Kit) {
    let face = fresh(kit).await;
    assert_eq!(all_runs(&face, None, 1).await, []);
    let mut ids = Vec::new();
    for number in 0..20_usize {
        // Three at a time.
        let (id, ms) = (format!("run {:02}", (number * 7) % 20), number / 3 * 1000);
        face.clock().set(at(ms as u64));
        started(&face, &id).await;
        match number % 4 {
            0 => drop(face.finish(&id, None, RunState::Succeeded).await.unwrap().unwrap()),
            1 => drop(face.update(&id, None, &Update::new().state(RunState::Paused)).await.unwrap().unwrap()),
            _ => {}
        }
        ids.push((ms, id, number % 4));
    }
    ids.sort();
    ids.reverse();
    let of = |which: &[usize]| -> Vec<String> {
        ids.iter().filter(|it| which.contains(&it.2)).map(|it| it.1.clone()).collect()
    };
    let all = of(&[0, 1, 2, 3]);
    for limit in [1, 2, 3, 7, 20, 1000] {
        let listed = async |state| -> Vec<String> {
            all_runs(&face, state, limit).await.into_iter().map(|run| run.id).collect()
        };
        assert_eq!(listed(None).await, all, "{limit}");
        assert_eq!(listed(Some(RunState::Succeeded)).await, of(&[0]), "{limit}");
        assert_eq!(listed(Some(RunState::Paused)).await, of(&[1]), "{limit}");
        assert_eq!(listed(Some(RunState::Running)).await, of(&[2, 3]), "{limit}");
        assert_eq!(listed(Some(RunState::Cancelled)).await, [""; 0], "{limit}");
    }
    // A page begins behind the last one, though that one has left.
    let page = face.list(None, None, 5).await.unwrap();
    face.delete(&all[4], None).await.unwrap().unwrap();
    face.clock().advance_ms(5000);
    started(&face, "newer").await;
    let next = face.list(None, page.next.as_ref(), 5).await.unwrap();
    assert_eq!(next.items.iter().map(|run| run.id.as_str()).collect::<Vec<_>>(), all[5..10]);
}

/// What is over makes room.
pub async fn bounds_on_runs_and_tasks_are_exact(kit: &impl Kit) {
    let bounds = |it: &mut RunOptions| (it.max_runs, it.max_tasks) = (3, 2);
    let face = kit.fresh(options(bounds)).await;
    if !kit.is_partitioned() {
        for run in ["a", "b", "c"] {
            started(&face, run).await;
        }
        assert_eq!(face.start("d").await.unwrap(), Err(Refusal::TooManyRuns));
        assert!(!face.start("a").await.unwrap().unwrap().is_new);
        // One that was deleted is remembered, and can be started again itself.
        face.delete("a", None).await.unwrap().unwrap();
        assert_eq!(face.start("d").await.unwrap(), Err(Refusal::TooManyRuns));
        assert_eq!(face.start("a").await.unwrap().map(|it| it.attempt.get()), Ok(2));
        face.clock().advance_ms(1000);
        face.update("b", None, &Update::new()).await.unwrap().unwrap();
        face.clock().set(at(TTL_MS));
        started(&face, "d").await;
        started(&face, "e").await;
        assert_eq!(face.start("f").await.unwrap(), Err(Refusal::TooManyRuns));
        assert_eq!(all_runs(&face, None, 10).await.len(), 3);
    }
    face.start("b").await.unwrap().unwrap();
    for task in ["t", "u"] {
        assert!(face.task_started("b", None, task).await.unwrap().unwrap().is_new);
    }
    assert_eq!(face.task_started("b", None, "v").await.unwrap(), Err(Refusal::TooManyTasks));
    assert!(!face.task_started("b", None, "t").await.unwrap().unwrap().is_new);
}

/// As after a failover.
pub async fn a_clock_that_steps_back_brings_nothing_back(kit: &impl Kit) {
    let face = fresh(kit).await;
    face.clock().set(at(60_000));
    started(&face, "r").await;
    face.expire("r", None, Duration::from_secs(10)).await.unwrap().unwrap();
    face.clock().set(at(69_000));
    face.processed("r", None, &["a"]).await.unwrap().unwrap();
    face.clock().set(at(0));
    // The latest moment that anything was done at decides.
    face.task_started("r", None, "t").await.unwrap().unwrap();
    let run = face.get("r").await.unwrap().unwrap();
    assert_eq!((run.updated_at, run.ends_at), (at(69_000), at(70_000)));
    assert_eq!(face.tasks("r").await.unwrap().unwrap()[0].started_at, at(69_000));
    face.expire("r", None, Duration::ZERO).await.unwrap().unwrap();
    assert_eq!(face.get("r").await.unwrap(), None);
}

/// What it wrote is as if it were written now.
pub async fn a_clock_that_was_absurdly_ahead_keeps_nothing_for_ever(kit: &impl Kit) {
    let face = fresh(kit).await;
    face.clock().set(at(100 * TTL_MS));
    started(&face, "r").await;
    face.processed("r", None, &["a"]).await.unwrap().unwrap();
    face.clock().set(at(0));
    let run = face.get("r").await.unwrap().unwrap();
    assert_eq!((run.updated_at, run.ends_at), (at(0), at(TTL_MS)));
    assert_eq!(face.processed("r", None, &["b"]).await.unwrap(), Ok(Processed { new: 1, processed: 2 }));
    face.clock().set(at(TTL_MS));
    assert_eq!(face.get("r").await.unwrap(), None);
    let ended: Granted<Processed> = Err(Refusal::Unknown);
    assert_eq!(face.processed("r", None, &["c"]).await.unwrap(), ended);
}
