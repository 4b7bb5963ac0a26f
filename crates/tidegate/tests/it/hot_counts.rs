//! Edits are counted in full, whatever is kept of them: compared with every edit there was.

use std::time::Duration;

use tidegate::clock::Timestamp;
use tidegate::hot::{Edit, Hot, HotOptions, Recorded};

use crate::hot::{HOUR, MINUTE, START_MS, Space, key, options};
use crate::kit::REDIS;

const WINDOW: u64 = 15 * MINUTE;

fn ring_options(it: &mut HotOptions) {
    it.window_duration = Duration::from_millis(WINDOW);
    it.max_members_per_page = 20;
    it.hot_threshold = 1;
}

/// When each edit of a page was made, in order.
struct Raw(Vec<u64>);

impl Raw {
    /// Edits from so long ago on.
    fn within(&self, now: u64, ms: u64) -> u64 {
        (self.0.len() - self.0.partition_point(|at| at + ms <= now)) as u64
    }

    /// Whether so many are no fewer than those of the window and no more than of the window and a grain.
    fn check(&self, now: u64, edits: u64, window: u64, grain: u64, what: &str) {
        let (least, most) = (self.within(now, window), self.within(now, window + grain));
        assert!((least..=most).contains(&edits), "{what} at {now}: {edits}, not {least} to {most}");
    }
}

/// Pages with so many edits each over two windows, some of them late: what is counted is compared with all of them,
/// again and again, and the list has the order of the counts.
async fn compare(space: &Space, sizes: &[u64]) {
    let span = 2 * WINDOW;
    let steps = 60;
    let mut raw: Vec<Raw> = sizes.iter().map(|_| Raw(Vec::new())).collect();
    let names: Vec<String> = sizes.iter().map(|size| format!("page of {size}")).collect();
    for step in 0..steps {
        let (from, to) = (START_MS + step * span / steps, START_MS + (step + 1) * span / steps);
        space.set(to);
        for ((size, name), raw) in sizes.iter().zip(&names).zip(&mut raw) {
            // The smallest has its only edit in the middle.
            let numbers = match size {
                1 => 0..u64::from(step == 31),
                size => step * size / steps..(step + 1) * size / steps,
            };
            let made: Vec<_> = numbers.map(|number| (from + number * 7919 % (to - from), number)).collect();
            let ids: Vec<_> = made.iter().map(|(_, number)| format!("e{number}")).collect();
            raw.0.extend(made.iter().map(|(at, _)| *at));
            let mut many = Vec::with_capacity(made.len());
            for ((at, _), id) in made.iter().zip(&ids) {
                many.push(Edit { at: Some(Timestamp::from_millis(*at)), ..Edit::new(key(name), id, "bot") });
            }
            for recorded in space.hot.record_many(&many).await.unwrap() {
                let counts =
                    matches!(recorded, Recorded::Added | Recorded::Counted | Recorded::Promoted { .. });
                assert!(counts, "{recorded:?}");
            }
            raw.0.sort_unstable();
        }
        for later in [0, 1, 29_999] {
            let now = to + later * (to - from) / 60_000;
            space.set(now);
            check(space, &names, &raw).await;
        }
    }
    // Until nothing is left.
    for minute in 1..=16 {
        space.set(START_MS + span + minute * MINUTE);
        check(space, &names, &raw).await;
    }
    assert_eq!(space.hot.tracked().await.unwrap(), 0, "{}", space.on);
}

async fn check(space: &Space, names: &[String], raw: &[Raw]) {
    let (now, on) = (space.now(), space.on);
    let list = space.list(100).await;
    for (name, raw) in names.iter().zip(raw) {
        let stats = space.stats(name).await;
        let listed = list.iter().find(|(page, _)| page == name).map(|(_, edits)| *edits);
        assert_eq!(stats.is_hot, raw.within(now, WINDOW) > 0, "{on}: {name}");
        assert_eq!(listed.is_some(), stats.is_hot, "{on}: {name}");
        let Some(listed) = listed else { continue };
        raw.check(now, listed, WINDOW, stats.grain_ms, name);
        assert_eq!(stats.edits_last_hour, listed, "{on}: {name}");
        let lately_grain = if stats.grain_ms > 0 { 30_000 } else { 0 };
        raw.check(now, stats.edits_last_5_minutes, 5 * MINUTE, lately_grain, name);
        assert_eq!(stats.total_edits, raw.0.len() as u64, "{on}: {name}");
        assert!(stats.members <= 20 && (stats.grain_ms > 0 || stats.members == listed), "{on}: {name}");
    }
    assert!(list.is_sorted_by_key(|(_, edits)| std::cmp::Reverse(*edits)), "{on}: {list:?}");
}

#[tokio::test]
async fn pages_are_counted_in_full_however_many_edits_they_have() {
    compare(&Space::memory(ring_options).await, &[1, 100, 10_000, 1_000_000]).await;
}

#[tokio::test]
async fn pages_on_redis_are_counted_in_full() {
    compare(&Space::redis(ring_options).await, &[1, 100, 10_000]).await;
}

/// What was kept was what was counted: with three hundred edits and a hundred and one, the wrong page came first.
#[tokio::test]
async fn the_page_with_more_edits_than_are_kept_is_listed_first() {
    for space in Space::everywhere(|_| {}).await {
        let on = space.on;
        space.fill(&["often".to_owned()], 300).await;
        space.clock.advance_ms(1);
        space.fill(&["less".to_owned()], 101).await;
        assert_eq!(space.list(9).await, [("often".to_owned(), 300), ("less".to_owned(), 101)], "{on}");
        let (_gate, trending) = match on {
            "memory" => continue,
            _ => space.another(options(|it| it.promotion_threshold = 200)).await,
        };
        assert!(trending.stats(key("often")).await.unwrap().is_trending, "{on}");
        assert!(!trending.stats(key("less")).await.unwrap().is_trending, "{on}");
    }
}

/// Edits that have left for want of room end with their slot, and the page is exact again.
#[tokio::test]
async fn a_page_is_exact_again_when_what_was_cut_has_left() {
    for space in Space::everywhere(|it| it.max_members_per_page = 5).await {
        let on = space.on;
        space.fill(&["p".to_owned()], 8).await;
        space.set(START_MS + 10 * MINUTE);
        space.record("p", "later").await;
        let grain = space.stats("p").await.grain_ms;
        assert_eq!((space.stats("p").await.edits_last_hour, grain), (9, 65_536), "{on}");
        // The end of the slot that all were in, and the window.
        let end = (START_MS / grain + 1) * grain - 1 + HOUR;
        for (now, expected) in [(START_MS + HOUR, (9, 1, grain)), (end - 1, (9, 1, grain)), (end, (1, 1, 0))]
        {
            space.set(now);
            let stats = space.stats("p").await;
            assert_eq!((stats.edits_last_hour, stats.members, stats.grain_ms), expected, "{on} at {now}");
            space.hot.cleanup().await.unwrap();
            let stats = space.stats("p").await;
            assert_eq!(
                (stats.edits_last_hour, stats.members, stats.grain_ms),
                expected,
                "{on} cleaned at {now}"
            );
        }
    }
}

/// A server of a version without rings has cut a page, added to it and cut it again: what it added is known by the
/// number of all edits, and counts from then on.
#[tokio::test]
async fn what_a_version_without_rings_has_recorded_is_taken_over() {
    let space = Space::redis(|it| it.max_members_per_page = 5).await;
    space.fill(&["p".to_owned(), "q".to_owned()], 8).await;
    let mut connection = REDIS.connection();
    let meta = |page: &str| format!("{}:hot:meta:{page}", space.namespace);
    // It had not known a ring, and began to count with the members.
    let () = redis::cmd("HDEL").arg(meta("q")).arg("ring").query(&mut connection).unwrap();
    assert_eq!(space.stats("q").await.edits_last_hour, 5);
    space.record("q", "another").await;
    assert_eq!(space.stats("q").await.edits_last_hour, 6);
    // It adds three: the ring stays as it is.
    let ring: Vec<u8> = redis::cmd("HGET").arg(meta("p")).arg("ring").query(&mut connection).unwrap();
    space.clock.advance_ms(1000);
    for id in ["a", "b", "c"] {
        space.record("p", id).await;
    }
    let () = redis::cmd("HSET").arg(meta("p")).arg("ring").arg(ring).query(&mut connection).unwrap();
    assert_eq!(space.stats("p").await.edits_last_hour, 11);
    space.record("p", "d").await;
    assert_eq!(space.stats("p").await.edits_last_hour, 12);
    assert_eq!(space.list(9).await, [("p".to_owned(), 12), ("q".to_owned(), 6)]);
}

async fn edits(hot: &Hot, page: &str) -> (u64, u64) {
    let stats = hot.stats(key(page)).await.unwrap();
    (stats.edits_last_hour, stats.grain_ms)
}

/// Who shares a space and has another window counts by the same ring.
#[tokio::test]
async fn servers_with_other_windows_count_by_one_ring() {
    let space = Space::redis(|it| {
        (it.max_members_per_page, it.window_duration) = (5, Duration::from_secs(60));
    })
    .await;
    let (_gate, longer) = space.another(options(|it| it.max_members_per_page = 5)).await;
    space.fill(&["p".to_owned()], 30).await;
    assert_eq!(
        edits(&longer, "p").await,
        (30, 65_536),
        "by a coarser grid, which that of the first is nested in"
    );
    space.set(START_MS + 50_000);
    for number in 0..10 {
        let id = format!("longer {number}");
        assert_eq!(longer.record(&Edit::new(key("p"), &id, "bob")).await.unwrap(), Recorded::Added);
    }
    assert_eq!(edits(&longer, "p").await, (40, 65_536));
    assert_eq!(edits(&space.hot, "p").await, (40, 65_536));
    space.record("p", "shorter").await;
    assert_eq!(edits(&longer, "p").await, (41, 65_536));
    let end = (START_MS / 65_536 + 1) * 65_536 - 1 + MINUTE;
    space.set(end.max(START_MS + 100_000));
    assert_eq!(edits(&longer, "p").await.0, 41);
    assert_eq!(space.stats("p").await.edits_last_hour, 11, "the first have left the shorter window");
}
