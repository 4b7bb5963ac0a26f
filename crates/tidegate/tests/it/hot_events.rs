//! Who watches: fed by one reader however many they are, resumed without gap or repeat,
//! and told when something is missing, because it was too slow or the store forgot.

use std::collections::BTreeSet;
use std::time::Duration;

use tidegate::clock::{Clock, monotonic};
use tidegate::hot::{Event, EventKind, Hot, HotOptions, Recorded, Watch};
use tidegate::testkit::RedisServer;
use tidegate::{ErrorKind, Tidegate};

use crate::hot::{HOUR, MINUTE, PROMOTED, START_MS, Space, events, key, open, options};
use crate::kit::REDIS;
use crate::outage::until;

fn pages(what: &str, from: usize, to: usize) -> Vec<String> {
    (from..to).map(|i| format!("{what}{i:05}")).collect()
}

/// Events up to and including that of `page`.
async fn up_to(watch: &mut Watch, page: &str) -> Vec<Event> {
    let mut seen = Vec::new();
    while seen.last().is_none_or(|last: &Event| last.page != page) {
        seen.append(&mut events(watch, 1).await);
    }
    seen
}

fn ms(cursor: &str) -> u64 {
    cursor.split('-').next().unwrap().parse().unwrap()
}

fn scripts_run(server: &RedisServer) -> u64 {
    let stats: String = redis::cmd("INFO").arg("commandstats").query(&mut server.connection()).unwrap();
    let calls = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
    calls.map_or(0, |it| it.split(',').next().unwrap().parse().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_who_watch_ask_the_store_as_often_as_one_and_nobody_does_when_they_left() {
    let server = RedisServer::start();
    let gate = Tidegate::open(&server.url()).await.unwrap();
    let hot = gate.hot("pages", options(|it| it.cleanup_interval = Duration::from_secs(86_400))).unwrap();
    let mut watching = tokio::task::JoinSet::new();
    for _ in 0..200 {
        let mut watch = hot.watch(None).await.unwrap();
        watching.spawn(async move { watch.next().await.unwrap().page });
    }
    let (begun, before) = (monotonic(), scripts_run(&server));
    until("the reader has asked ten times", async || (scripts_run(&server) >= before + 10).then_some(()))
        .await;
    // Five times a second: two hundred that each do so themselves are there at once.
    assert!(begun.elapsed() > Duration::from_millis(1200), "{:?}", begun.elapsed());
    for id in ["1", "2"] {
        hot.record(&tidegate::hot::Edit::new(key("p"), id, "alice")).await.unwrap();
    }
    while let Some(seen) = watching.join_next().await {
        assert_eq!(seen.unwrap(), "p");
    }
    // Whatever it was at is over soon, and then there is silence.
    let mut last = (0, monotonic());
    until("nobody asks any more", async || {
        let (now, run) = (monotonic(), scripts_run(&server));
        if run != last.0 {
            last = (run, now);
        }
        (now - last.1 > Duration::from_millis(600)).then_some(())
    })
    .await;
}

/// Some stay, others lose their connection after every few events and come back with the
/// last that they have seen, while events come.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_who_watch_see_every_event_once_and_in_order_however_often_they_come_back() {
    const EVENTS: usize = 800;
    for partitions in [1, 3] {
        for space in Space::everywhere(|it| (it.partitions, it.max_tracked) = (partitions, 10_000)).await {
            let on = space.on;
            let mut watching = tokio::task::JoinSet::new();
            for number in 0..24_usize {
                let hot: Hot = space.hot.clone();
                let mut watch = hot.watch(None).await.unwrap();
                watching.spawn(async move {
                    let mut seen = Vec::with_capacity(EVENTS);
                    while seen.len() < EVENTS {
                        let next = tokio::time::timeout(Duration::from_secs(60), watch.next()).await;
                        let event = next.unwrap_or_else(|_| panic!("after {}", seen.len())).unwrap();
                        assert_eq!(event.kind, EventKind::Promoted);
                        seen.push(event.page);
                        if number % 3 > 0 && seen.len().is_multiple_of(1 + number) {
                            watch = hot.watch(Some(&event.cursor)).await.unwrap();
                        }
                    }
                    seen
                });
            }
            for from in (0..EVENTS).step_by(40) {
                space.fill(&pages("p", from, from + 40), 2).await;
            }
            let all: BTreeSet<_> = pages("p", 0, EVENTS).into_iter().collect();
            while let Some(seen) = watching.join_next().await {
                let seen = seen.unwrap();
                let sorted: BTreeSet<_> = seen.iter().cloned().collect();
                assert_eq!(sorted, all, "{on}: none twice, none missing");
                assert!(partitions > 1 || seen.is_sorted(), "{on}: in order");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_too_slow_is_told_how_many_it_missed_and_goes_on() {
    for space in Space::everywhere(|it| it.max_tracked = 10_000).await {
        let on = space.on;
        let (mut slow, mut fast) =
            (space.hot.watch(None).await.unwrap(), space.hot.watch(None).await.unwrap());
        for first in 0..2 {
            space.fill(&pages("p", first, first + 1), 2).await;
            assert_eq!(events(&mut slow, 1).await[0].page, format!("p{first:05}"), "{on}");
        }
        let nothing = tokio::time::timeout(Duration::from_millis(500), slow.next()).await;
        assert!(nothing.is_err(), "{on}: it waits by now");
        // In steps that one who keeps up takes.
        for from in (2..1502).step_by(300) {
            space.fill(&pages("p", from, from + 300), 2).await;
            let seen = up_to(&mut fast, &format!("p{:05}", from + 299)).await;
            assert!(seen.iter().all(|it| it.kind == EventKind::Promoted), "{on}");
        }
        let seen = events(&mut slow, 1001).await;
        assert_eq!((seen[0].kind, seen[0].edits, &*seen[0].page), (EventKind::Missed, 500, ""), "{on}");
        assert_eq!((&*seen[1].page, &*seen[1000].page), ("p00502", "p01501"), "{on}");
        // Its position is one to go on from.
        let mut again = space.hot.watch(Some(&seen[0].cursor)).await.unwrap();
        assert_eq!(events(&mut again, 1).await[0].page, "p00502", "{on}");
    }
}

/// Whoever takes what is there whenever it gets to run misses only what the buffer had no room for,
/// at whatever rate it comes.
#[tokio::test]
async fn in_process_nothing_is_missed_that_the_buffer_held() {
    let set = |it: &mut HotOptions| (it.max_tracked, it.hot_threshold) = (100_000, 1);
    let space = Space::memory(set).await;
    let mut watch = space.hot.watch(None).await.unwrap();
    let reader = tokio::spawn(async move {
        let mut seen = Vec::new();
        while seen.last().is_none_or(|last: &Event| last.page != "p17999") {
            seen.push(watch.next().await.unwrap());
        }
        (watch, seen)
    });
    for burst in 0..20 {
        space.fill(&pages("p", burst * 900, (burst + 1) * 900), 1).await;
        // Nobody else runs before.
        tokio::task::yield_now().await;
    }
    let (mut watch, seen) = tokio::time::timeout(Duration::from_secs(20), reader).await.unwrap().unwrap();
    let missed = seen.iter().find(|it| it.kind == EventKind::Missed);
    assert_eq!((missed, seen.len()), (None, 18_000));
    assert!(seen.is_sorted_by_key(|it| it.page.clone()), "in order");

    // What it had no room for is told, exactly.
    space.fill(&pages("q", 0, 1500), 1).await;
    let seen = up_to(&mut watch, "q01499").await;
    assert_eq!((seen[0].kind, seen[0].edits, seen.len()), (EventKind::Missed, 500, 1001));
    assert_eq!(seen[1].page, "q00500");
}

/// As fast as they come: more than one per millisecond.
#[tokio::test]
async fn positions_never_run_ahead_of_the_clock() {
    for space in Space::everywhere(|it| it.max_tracked = 10_000).await {
        let mut watch = space.hot.watch(None).await.unwrap();
        let mut last = String::new();
        for from in (0..3000).step_by(500) {
            space.fill(&pages("p", from, from + 500), 2).await;
            let seen = up_to(&mut watch, &format!("p{:05}", from + 499)).await;
            last.clone_from(&seen.last().unwrap().cursor);
        }
        // On Redis they go by the server's own clock.
        let now = if space.on == "memory" { space.now() } else { Clock::system().now().as_millis() };
        assert!(ms(&last) <= now + 1000, "{}: {last} at {now}", space.on);
    }
}

/// What another process had is gone with it: who comes back from it is told so, and sees
/// all that happened since, also if the one before was faster than the clock.
#[tokio::test]
async fn after_a_restart_of_a_store_in_memory_who_comes_back_has_missed_some() {
    let before = Space::memory(|it| it.max_tracked = 10_000).await;
    let mut watch = before.hot.watch(None).await.unwrap();
    let fresh = watch.cursor();
    for from in (0..3000).step_by(500) {
        before.fill(&pages("p", from, from + 500), 2).await;
        up_to(&mut watch, &format!("p{:05}", from + 499)).await;
    }
    for cursor in [fresh, watch.cursor()] {
        let after = Space::memory(|_| {}).await;
        after.clock.advance_ms(10);
        after.fill(&["first".to_owned()], 2).await;
        let mut watch = after.hot.watch(Some(&cursor)).await.unwrap();
        after.fill(&["second".to_owned()], 2).await;
        let seen = events(&mut watch, 3).await;
        assert_eq!(seen[0].kind, EventKind::Missed, "{cursor}");
        assert_eq!((&*seen[1].page, &*seen[2].page), ("first", "second"), "{cursor}");
        let mut again = after.hot.watch(Some(&seen[0].cursor)).await.unwrap();
        assert_eq!(events(&mut again, 1).await[0].page, "first", "it is told once");
    }
}

/// The moment between two lives is shorter than a millisecond, and no event is taken for one
/// of the life before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_flush_all_who_watch_and_all_who_come_back_have_missed_some() {
    let server = RedisServer::start();
    let gate = Tidegate::open(&server.url()).await.unwrap();
    let hot = gate.hot("pages", options(|it| it.max_tracked = 10_000)).unwrap();
    let promote = async |page: &str| {
        for id in ["1", "2"] {
            hot.record(&tidegate::hot::Edit::new(key(page), id, "alice")).await.unwrap();
        }
    };
    for round in 0..20 {
        let mut watch = hot.watch(None).await.unwrap();
        let idle = watch.cursor();
        promote("before").await;
        let cursor = events(&mut watch, 1).await[0].cursor.clone();
        redis::cmd("FLUSHALL").exec(&mut server.connection()).unwrap();
        promote("after").await;
        let seen = events(&mut watch, 2).await;
        assert_eq!((seen[0].kind, &*seen[1].page), (EventKind::Missed, "after"), "{round}: who stayed");
        for from in [&cursor, &idle] {
            let mut back = hot.watch(Some(from)).await.unwrap();
            let seen = events(&mut back, 2).await;
            assert_eq!((seen[0].kind, &*seen[1].page), (EventKind::Missed, "after"), "{round}: {from}");
        }
        redis::cmd("FLUSHALL").exec(&mut server.connection()).unwrap();
    }
    assert_eq!(server.keys_without_ttl(), Vec::<String>::new());
}

/// A server that lost its last events, as a replica that was behind, and kept the rest.
#[tokio::test]
async fn a_lost_end_of_the_events_is_missed_too() {
    let space = Space::redis(|_| {}).await;
    space.fill(&pages("p", 0, 3), 2).await;
    let mut watch = space.hot.watch(Some("0-0")).await.unwrap();
    let seen = events(&mut watch, 3).await;
    drop(watch);
    let stream = format!("{}:hot:events", space.namespace);
    let id = seen[2].cursor.rsplit_once('-').unwrap().0;
    redis::cmd("XDEL").arg(&stream).arg(id).exec(&mut REDIS.connection()).unwrap();
    let mut watch = space.hot.watch(Some(&seen[2].cursor)).await.unwrap();
    assert_eq!(events(&mut watch, 1).await[0].kind, EventKind::Missed);
    space.fill(&["new".to_owned()], 2).await;
    assert_eq!(events(&mut watch, 1).await[0].page, "new");
}

#[tokio::test]
async fn what_can_be_no_position_is_refused() {
    for partitions in [1, 2] {
        for space in Space::everywhere(|it| it.partitions = partitions).await {
            let on = space.on;
            let refused = async |cursor: &str| {
                let error = space.hot.watch(Some(cursor)).await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Invalid, "{on}: {cursor}: {error}");
                error.to_string()
            };
            let all = |one: &str| vec![one; partitions as usize].join(",");
            for odd in ["", "x", "1", "99999999999999999999-0", "1-2-3-4", "-", "-1-0"] {
                let message = refused(&all(odd)).await;
                assert!(message.contains("is not a position among these events"), "{on}: {message}");
            }
            refused(&format!("{},0-0", all("0-0"))).await;
            let current = space.hot.watch(None).await.unwrap().cursor();
            let life = current.split(',').next().unwrap().rsplit_once('-').unwrap().1.to_owned();
            // The tests' own clock is behind the server's.
            for ahead in
                ["4102444800000-0".to_owned(), format!("4102444800000-0-{life}"), format!("{}-0", u64::MAX)]
            {
                let message = refused(&all(&ahead)).await;
                assert!(message.contains("is ahead of the store's clock"), "{on}: {message}");
            }
            // One that was, of whatever life, is none to be refused.
            for cursor in ["0-0", "5-0", "5-0-1"] {
                space.hot.watch(Some(&all(cursor))).await.unwrap();
            }
        }
    }
}

/// A stream with events of a program that gave them no life.
#[tokio::test]
async fn events_of_an_older_program_are_missed_and_no_error() {
    let space = Space::redis(|_| {}).await;
    let stream = format!("{}:hot:events", space.namespace);
    let mut old = redis::cmd("XADD");
    old.arg(&stream).arg("*").arg("kind").arg("promoted").arg("page").arg("old").arg("edits").arg(2);
    let id: String = old.arg("at").arg(5).query(&mut REDIS.connection()).unwrap();
    redis::cmd("PEXPIRE").arg(&stream).arg(60_000).exec(&mut REDIS.connection()).unwrap();
    let mut watch = space.hot.watch(Some(&id)).await.unwrap();
    space.fill(&["new".to_owned()], 2).await;
    let seen = events(&mut watch, 2).await;
    assert_eq!((seen[0].kind, &*seen[1].page), (EventKind::Missed, "new"));
}

/// A space that a process only watches.
#[tokio::test]
async fn to_watch_an_empty_space_leaves_no_key_without_an_end() {
    let server = RedisServer::start();
    let gate = open(&server.url(), "n", None).await;
    let hot = gate.hot("pages", options(|_| {})).unwrap();
    let watch = hot.watch(None).await.unwrap();
    assert!(watch.cursor().starts_with("0-0-"), "{}", watch.cursor());
    assert_eq!(server.keys_without_ttl(), Vec::<String>::new());
}

fn kinds(seen: &[Event]) -> Vec<(EventKind, &str, u64)> {
    seen.iter().map(|it| (it.kind, &*it.page, it.edits)).collect()
}

/// What begins ends, also with the page, and all of it is counted.
#[tokio::test]
async fn what_begins_is_told_when_it_ends() {
    use EventKind::{Cooled, Promoted, Removed, Replaced, Spiking, SpikingEnded, Trending, TrendingEnded};
    let set = |it: &mut tidegate::hot::HotOptions| {
        it.promotion_threshold = 3;
        it.max_tracked = 1;
        it.when_full = tidegate::hot::WhenFull::ReplaceColdest;
        it.spike_minimum = 3;
    };
    for space in Space::everywhere(set).await {
        let on = space.on;
        let mut watch = space.hot.watch(None).await.unwrap();
        space.fill(&["p".to_owned()], 3).await;
        // Two of three leave the window, and the page stays.
        space.set(START_MS + 30 * MINUTE);
        space.record("p", "late").await;
        space.set(START_MS + HOUR);
        space.hot.cleanup().await.unwrap();
        assert_eq!(
            kinds(&events(&mut watch, 3).await),
            [(Promoted, "p", 2), (Trending, "p", 3), (TrendingEnded, "p", 1)],
            "{on}"
        );
        for id in 0..4 {
            space.record("p", &format!("fast{id}")).await;
        }
        let seen = events(&mut watch, 2).await;
        assert_eq!(seen.iter().map(|it| it.kind).collect::<Vec<_>>(), [Trending, Spiking], "{on}");
        // Another takes its place.
        space.clock.advance_ms(1000);
        space.fill(&["q".to_owned()], 2).await;
        space.set(START_MS + 2 * HOUR);
        space.hot.cleanup().await.unwrap();
        assert_eq!(
            kinds(&events(&mut watch, 3).await),
            [(TrendingEnded, "p", 0), (SpikingEnded, "p", 0), (Cooled, "p", 0)],
            "{on}: one page is not enough to take its place, so it cools"
        );
        space.fill(&["r".to_owned()], 3).await;
        assert_eq!(space.hot.remove(key("r")).await.unwrap(), tidegate::hot::Removed::Hot, "{on}");
        space.fill(&["s".to_owned()], 2).await;
        space.clock.advance_ms(1);
        space.fill(&["t".to_owned()], 2).await;
        assert_eq!(
            kinds(&events(&mut watch, 7).await),
            [
                (Promoted, "r", 2),
                (Trending, "r", 3),
                (TrendingEnded, "r", 3),
                (Removed, "r", 3),
                (Promoted, "s", 2),
                (Replaced, "s", 2),
                (Promoted, "t", 2)
            ],
            "{on}"
        );
        let text = space.gate.metrics();
        for (kind, count) in [
            (Promoted, 4),
            (Replaced, 1),
            (Trending, 3),
            (TrendingEnded, 3),
            (Spiking, 1),
            (SpikingEnded, 1),
            (Cooled, 1),
            (Removed, 1),
        ] {
            let kind = kind.as_str();
            let row = format!("tidegate_hot_events_total{{space=\"pages\",kind=\"{kind}\"}} {count}\n");
            assert!(text.contains(&row), "{on}: {row}");
        }
    }
}

#[tokio::test]
async fn a_removed_page_begins_anew_and_its_keys_are_gone() {
    use tidegate::hot::Removed;
    for space in Space::everywhere(|_| {}).await {
        let on = space.on;
        let remove = async |page: &str| space.hot.remove(key(page)).await.unwrap();
        space.fill(&["p".to_owned(), "other".to_owned()], 4).await;
        assert_eq!(remove("p").await, Removed::Hot, "{on}");
        assert_eq!(remove("p").await, Removed::Unknown, "{on}");
        assert!(!space.hot.is_hot(key("p")).await.unwrap(), "{on}");
        assert_eq!(space.hot.tracked().await.unwrap(), 1, "{on}");
        assert_eq!(space.record("p", "fill0").await, Recorded::Remembered, "{on}: nothing of it is left");
        assert_eq!(remove("p").await, Removed::Remembered, "{on}");
        assert_eq!(space.record("p", "1").await, Recorded::Remembered, "{on}");
        space.clock.advance_ms(10 * MINUTE);
        assert_eq!(remove("p").await, Removed::Unknown, "{on}: it was over");
        space.set(START_MS + 2 * HOUR);
        assert_eq!(remove("other").await, Removed::Unknown, "{on}: it had cooled");
        if on == "redis" {
            let left: Vec<String> = redis::cmd("KEYS")
                .arg(format!("{}:*:p", space.namespace))
                .query(&mut REDIS.connection())
                .unwrap();
            assert_eq!(left, Vec::<String>::new());
        }
    }
}

/// What somebody else has written there is an error to all but this.
#[tokio::test]
async fn a_page_with_broken_keys_can_be_removed() {
    let space = Space::redis(|_| {}).await;
    let mut connection = REDIS.connection();
    for family in ["hot:meta:", "hot:window:", "activity:"] {
        space.fill(&["p".to_owned()], 2).await;
        let broken = format!("{}:{family}p", space.namespace);
        redis::cmd("DEL").arg(&broken).exec(&mut connection).unwrap();
        redis::cmd("LPUSH").arg(&broken).arg("x").exec(&mut connection).unwrap();
        redis::cmd("PEXPIRE").arg(&broken).arg(600_000).exec(&mut connection).unwrap();
        // It is there, or what is left of it is cleared away.
        let _ = space.hot.remove(key("p")).await;
        space.hot.remove(key("p")).await.unwrap();
        assert_eq!(space.record("p", "1").await, Recorded::Remembered, "{family}");
        assert_eq!(space.record("p", "2").await, PROMOTED, "{family}");
        space.hot.remove(key("p")).await.unwrap();
    }
}

/// Edits without an editor are edits of nobody.
#[tokio::test]
async fn an_absent_editor_counts_as_none() {
    for space in Space::everywhere(|_| {}).await {
        for (id, editor) in [("1", ""), ("2", ""), ("3", "alice"), ("4", "")] {
            space.hot.record(&tidegate::hot::Edit::new(key("p"), id, editor)).await.unwrap();
        }
        let stats = space.stats("p").await;
        assert_eq!((stats.edits_last_hour, stats.unique_editors), (4, 1), "{}", space.on);
    }
}
