//! Edits and counts that are made one by one and wait together: those of a page travel as one, and each caller is answered
//! as if its own had come alone.

use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::join_all;
use tidegate::ErrorKind;
use tidegate::clock::Timestamp;
use tidegate::hot::{Edit, EventKind, HotOptions, Recorded, WhenFull};
use tidegate::testkit::RedisServer;

use crate::hot::{START_MS, Space, events, key, options, replaced};
use crate::kit::{CLUSTER, REDIS};

/// As many as wait together in these tests: several batches.
const CALLERS: usize = 48;

fn ids(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("e{number:02}")).collect()
}

/// All of them at once, by bob; each is answered.
async fn record_all(space: &Space, page: &str, ids: &[String]) -> Vec<Recorded> {
    let edits: Vec<_> = ids.iter().map(|id| Edit::new(key(page), id, "bob")).collect();
    join_all(edits.iter().map(|edit| space.hot.record(edit))).await.into_iter().map(Result::unwrap).collect()
}

fn count(recorded: &[Recorded], kind: &str) -> usize {
    recorded.iter().filter(|it| it.as_str() == kind).count()
}

/// Where calls travel.
async fn on_servers(set: impl Fn(&mut HotOptions)) -> [Space; 2] {
    [
        Space::on("redis", &REDIS.url(), options(&set)).await,
        Space::on("cluster", &CLUSTER.url(), options(&set)).await,
    ]
}

/// How often a server was called a command.
fn calls(server: &RedisServer, command: &str) -> usize {
    let text: String = redis::cmd("INFO").arg("commandstats").query(&mut server.connection()).unwrap();
    let start = format!("cmdstat_{command}:calls=");
    let rest = text.lines().find_map(|line| line.strip_prefix(&start)).unwrap_or("0,");
    rest.split(',').next().unwrap().parse().unwrap()
}

#[tokio::test]
async fn callers_that_wait_together_are_each_answered_for_their_own_edit() {
    for space in on_servers(|it| it.max_members_per_page = 100).await {
        let on = space.on;
        space.fill(&["p".to_owned()], 3).await;
        // Every third has an id that another has too, or that the page has.
        let ids: Vec<_> = (0..CALLERS)
            .map(|number| match number % 6 {
                0 => "fill1".to_owned(),
                3 => format!("e{:02}", number - 1),
                _ => format!("e{number:02}"),
            })
            .collect();
        let recorded = record_all(&space, "p", &ids).await;
        for (number, (recorded, id)) in recorded.iter().zip(&ids).enumerate() {
            match number % 6 {
                0 => assert_eq!(*recorded, Recorded::Duplicate, "{on}: {id}"),
                1 | 4 | 5 => assert_eq!(*recorded, Recorded::Added, "{on}: {id}"),
                _ => {}
            }
        }
        assert_eq!(count(&recorded, "added"), CALLERS * 4 / 6, "{on}: of two with one id one is new");
        assert_eq!(space.stats("p").await.total_edits as usize, 3 + CALLERS * 4 / 6, "{on}");
        let again = record_all(&space, "p", &ids).await;
        assert!(again.iter().all(|it| *it == Recorded::Duplicate), "{on}: {again:?}");
    }
}

#[tokio::test]
async fn edits_that_wait_together_are_written_together() {
    let server = RedisServer::start();
    let space = Space::on("redis", &server.url(), options(|it| it.max_members_per_page = 20)).await;
    space.fill(&["p".to_owned(), "q".to_owned()], 30).await;
    space.set(START_MS + 1000);
    let before = ["zadd", "rpush", "hset"].map(|it| calls(&server, it));
    let ids = ids(CALLERS);
    let (of_p, of_q) = tokio::join!(record_all(&space, "p", &ids), record_all(&space, "q", &ids));
    assert_eq!(count(&of_p, "added") + count(&of_q, "added"), 2 * CALLERS);
    for (command, before) in ["zadd", "rpush", "hset"].into_iter().zip(before) {
        // A batch has sixteen; of each page there is one item in it, and beside them the indices and the state.
        let made = calls(&server, command) - before;
        assert!(made <= 2 * CALLERS / 3, "{made} × {command} for {} edits", 2 * CALLERS);
    }
    assert_eq!(space.list(9).await.iter().map(|(_, edits)| edits).sum::<u64>() as usize, 2 * CALLERS + 60);
}

#[tokio::test]
async fn one_of_those_that_wait_together_makes_the_page_hot() {
    let bounds = |it: &mut HotOptions| {
        (it.hot_threshold, it.max_tracked, it.when_full) = (3, 1, WhenFull::ReplaceColdest);
    };
    for space in on_servers(bounds).await {
        let on = space.on;
        let mut watch = space.hot.watch(Some("0-0")).await.unwrap();
        space.fill(&["old".to_owned()], 3).await;
        space.set(START_MS + 1000);
        let activity = space.metric("activity_counter_total");
        let recorded = record_all(&space, "p", &ids(CALLERS)).await;
        let kinds = ["remembered", "promoted", "added"].map(|it| count(&recorded, it));
        assert_eq!(kinds, [2, 1, CALLERS - 3], "{on}: {recorded:?}");
        assert!(recorded.contains(&replaced("old")), "{on}");
        // What it did is noted once.
        assert_eq!(space.metric("activity_counter_total") - activity, 3, "{on}");
        assert_eq!(space.metric("hot_pages_promoted_total"), 2, "{on}");
        let seen = events(&mut watch, 3).await;
        let kinds: Vec<_> =
            seen.iter().filter(|it| it.kind != EventKind::Trending).map(|it| it.kind).collect();
        assert!(kinds.starts_with(&[EventKind::Promoted, EventKind::Replaced]), "{on}: {kinds:?}");
        let text = space.gate.metrics();
        for (kind, most) in [("promoted", 2), ("replaced", 1)] {
            let row = format!("tidegate_hot_events_total{{space=\"pages\",kind=\"{kind}\"}} {most}");
            assert!(text.contains(&row), "{on}: no {row} in\n{text}");
        }
        assert_eq!(space.list(9).await, [("p".to_owned(), CALLERS as u64)], "{on}");
    }
}

/// Some say when, some do not: the window has them in their order, whoever called first.
#[tokio::test]
async fn edits_of_other_times_that_wait_together_are_put_in_order() {
    for space in on_servers(|it| it.max_members_per_page = 100).await {
        let on = space.on;
        space.fill(&["p".to_owned()], 3).await;
        space.set(START_MS + 100_000);
        let ids = ids(CALLERS);
        let at = |number: usize| {
            (!number.is_multiple_of(5)).then(|| START_MS + 1000 * (number * 7 % 40) as u64 + 1)
        };
        let edits: Vec<_> = (0..CALLERS)
            .map(|it| Edit { at: at(it).map(Timestamp::from_millis), ..Edit::new(key("p"), &ids[it], "bob") })
            .collect();
        let recorded = join_all(edits.iter().map(|edit| space.hot.record(edit))).await;
        assert!(recorded.iter().all(|it| *it.as_ref().unwrap() == Recorded::Added), "{on}: {recorded:?}");
        let mut sorted: Vec<_> =
            (0..CALLERS).map(|it| (at(it).map_or(100_000, |at| at - START_MS), &ids[it])).collect();
        sorted.sort_unstable();
        let expected: Vec<_> = sorted.iter().map(|(at, id)| format!("{id}@{at}")).collect();
        assert_eq!(space.window("p").await[3..], expected, "{on}");
    }
}

#[tokio::test]
async fn an_error_of_a_page_is_one_of_each_who_waits_for_it_and_of_no_other() {
    let space = Space::redis(|_| {}).await;
    space.fill(&["bad".to_owned(), "good".to_owned()], 3).await;
    let meta = format!("{}:hot:meta:bad", space.namespace);
    let _: () = redis::cmd("HSET").arg(&meta).arg("w").arg("short").query(&mut REDIS.connection()).unwrap();
    let ids = ids(CALLERS);
    let edits: Vec<_> = ids
        .iter()
        .enumerate()
        .map(|(number, id)| Edit::new(key(if number % 2 == 0 { "bad" } else { "good" }), id, "bob"))
        .collect();
    let recorded = join_all(edits.iter().map(|edit| space.hot.record(edit))).await;
    for (number, recorded) in recorded.into_iter().enumerate() {
        match number % 2 {
            0 => assert_eq!(recorded.unwrap_err().kind(), ErrorKind::Corrupt),
            _ => assert_eq!(recorded.unwrap(), Recorded::Added),
        }
    }
    assert_eq!(space.metric("tidegate_hot_corrupt_edits_total") as usize, CALLERS / 2);
    assert_eq!(space.stats("good").await.total_edits as usize, 3 + CALLERS / 2);
}

#[tokio::test]
async fn who_has_given_up_before_it_was_sent_is_not_recorded_with_the_others() {
    let space = Space::redis(|it| it.max_members_per_page = 100).await;
    space.fill(&["p".to_owned()], 3).await;
    let ids = ids(CALLERS);
    let edits: Vec<_> = ids.iter().map(|id| Edit::new(key("p"), id, "bob")).collect();
    let mut waiting = Vec::new();
    for (number, edit) in edits.iter().enumerate() {
        let mut call = Box::pin(space.hot.record(edit));
        assert!((&mut call).now_or_never().is_none(), "it waits");
        if number % 3 > 0 {
            waiting.push(call);
        }
    }
    let recorded: Vec<_> = join_all(waiting).await.into_iter().map(Result::unwrap).collect();
    assert_eq!(count(&recorded, "added"), CALLERS / 3 * 2);
    let kept = ids.iter().enumerate().filter(|(number, _)| number % 3 > 0);
    let kept: Vec<_> = kept.map(|(_, id)| format!("{id}@0")).collect();
    assert_eq!(
        space.window("p").await,
        [&kept[..], &["fill0@0", "fill1@0", "fill2@0"].map(String::from)].concat()
    );
}

#[tokio::test]
async fn counts_that_wait_together_are_added_up() {
    let server = RedisServer::start();
    let counting = |it: &mut HotOptions| {
        (it.max_members_per_page, it.hot_threshold) = (0, 100);
        it.window_duration = Duration::from_secs(900);
    };
    let space = Space::on("redis", &server.url(), options(counting)).await;
    space.hot.count(key("p"), 1).await.unwrap();
    let before = calls(&server, "set");
    let count_all = async |most: u64| -> Vec<Recorded> {
        let counted = join_all((1..=most).map(|count| space.hot.count(key("p"), count))).await;
        counted.into_iter().map(Result::unwrap).collect()
    };
    let counted = count_all(CALLERS as u64).await;
    assert_eq!(count(&counted, "promoted"), 1, "{counted:?}");
    assert_eq!(count(&counted, "remembered") + count(&counted, "counted"), CALLERS - 1, "{counted:?}");
    assert_eq!(space.metric("hot_pages_promoted_total"), 1);
    let sum = (CALLERS * (CALLERS + 1) / 2) as u64 + 1;
    assert_eq!(space.list(9).await, [("p".to_owned(), sum)]);
    assert!(count_all(CALLERS as u64).await.iter().all(|it| *it == Recorded::Counted));
    assert_eq!(space.list(9).await, [("p".to_owned(), 2 * sum - 1)]);
    let written = calls(&server, "set") - before;
    assert!(written <= CALLERS / 3, "{written} × set for {} counts", 2 * CALLERS);
}
