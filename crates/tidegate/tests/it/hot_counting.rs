//! Spaces that only count: compared with every count there was, and what is kept of them.

use std::time::Duration;

use tidegate::hot::{Count, HotOptions, Recorded, WhenFull};

use crate::hot::{HOUR, MINUTE, PROMOTED, START_MS, Space, key, options, replaced};
use crate::kit::REDIS;

const WINDOW: u64 = 15 * MINUTE;

fn counting(it: &mut HotOptions) {
    it.window_duration = Duration::from_millis(WINDOW);
    it.max_members_per_page = 0;
    it.hot_threshold = 1;
}

/// Counts of a page, with their moments.
struct Raw(Vec<(u64, u64)>);

impl Raw {
    fn within(&self, now: u64, ms: u64) -> u64 {
        self.0.iter().filter(|(at, _)| at + ms > now).map(|(_, count)| count).sum()
    }

    /// Whether so many are no fewer than those of the window and no more than of the window and a grain.
    fn check(&self, now: u64, count: u64, window: u64, grain: u64, what: &str) {
        let (least, most) = (self.within(now, window), self.within(now, window + grain));
        assert!((least..=most).contains(&count), "{what} at {now}: {count}, not {least} to {most}");
    }
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
        raw.check(now, stats.edits_last_5_minutes, 5 * MINUTE, 30_000, name);
        assert_eq!(stats.total_edits, raw.within(now, 100 * HOUR), "{on}: {name}");
        assert_eq!((stats.members, stats.unique_editors), (0, 0), "{on}: {name}");
    }
    assert!(list.is_sorted_by_key(|(_, edits)| std::cmp::Reverse(*edits)), "{on}: {list:?}");
}

/// Pages with 1 to 10⁶ counts and one far beyond, over two windows: what is counted is compared with all of them, again
/// and again, and the list has the order of the counts.
#[tokio::test]
async fn pages_are_counted_in_full_however_often() {
    for space in Space::everywhere(counting).await {
        let sizes = [1_u64, 100, 10_000, 1_000_000, 40_000_000_000];
        let (span, steps) = (2 * WINDOW, 60);
        let mut raw: Vec<Raw> = sizes.iter().map(|_| Raw(Vec::new())).collect();
        let names: Vec<String> = sizes.iter().map(|size| format!("page of {size}")).collect();
        for step in 0..steps {
            let now = START_MS + (step + 1) * span / steps + 977 * step;
            space.set(now);
            let mut counts = Vec::new();
            for ((size, name), raw) in sizes.iter().zip(&names).zip(&mut raw) {
                // The smallest is counted once, in the middle.
                let count = match size {
                    1 => u64::from(step == 31),
                    size => (step + 1) * size / steps - step * size / steps,
                };
                if count > 0 {
                    raw.0.push((now, count));
                    // In pieces, which are one count of the page.
                    counts.extend([Count::new(key(name), count.div_ceil(2))]);
                    counts.extend((count > 1).then(|| Count::new(key(name), count / 2)));
                }
            }
            for counted in space.hot.count_many(&counts).await.unwrap() {
                assert!(matches!(counted, Recorded::Counted | Recorded::Promoted { .. }), "{counted:?}");
            }
            for later in [0, 1, 14_999] {
                space.set(now + later);
                check(&space, &names, &raw).await;
            }
        }
        for minute in 1..=18 {
            space.set(START_MS + span + 60_000 + minute * MINUTE);
            check(&space, &names, &raw).await;
        }
        assert_eq!(space.hot.tracked().await.unwrap(), 0, "{}", space.on);
    }
}

/// Nothing is lost before a page is hot, and what ended ten minutes after the first count begins anew.
#[tokio::test]
async fn what_was_counted_before_a_page_is_hot_counts() {
    for space in Space::everywhere(|it| (it.max_members_per_page, it.hot_threshold) = (0, 1000)).await {
        let on = space.on;
        assert_eq!(space.hot.count(key("p"), 600).await.unwrap(), Recorded::Remembered, "{on}");
        space.set(START_MS + 10 * MINUTE - 1);
        assert_eq!(space.hot.count(key("p"), 399).await.unwrap(), Recorded::Remembered, "{on}");
        assert_eq!(space.hot.count(key("p"), 1).await.unwrap(), PROMOTED, "{on}");
        assert_eq!(space.hot.count(key("p"), 5).await.unwrap(), Recorded::Counted, "{on}");
        assert_eq!(space.list(9).await, [("p".to_owned(), 1005)], "{on}");
        assert_eq!(space.window("p").await, Vec::<String>::new(), "{on}");
        space.hot.count(key("q"), 999).await.unwrap();
        space.set(START_MS + 20 * MINUTE - 1);
        assert_eq!(space.hot.count(key("q"), 999).await.unwrap(), Recorded::Remembered, "{on}: it was over");
    }
}

#[tokio::test]
async fn there_are_never_more_hot_pages_than_may_be() {
    for space in Space::everywhere(|it| {
        counting(it);
        (it.max_tracked, it.when_full) = (2, WhenFull::ReplaceColdest);
    })
    .await
    {
        let on = space.on;
        for (page, count, met) in
            [("a", 5, PROMOTED), ("b", 3, PROMOTED), ("c", 2, Recorded::Rejected), ("d", 4, replaced("b"))]
        {
            assert_eq!(space.hot.count(key(page), count).await.unwrap(), met, "{on}: {page}");
        }
        assert_eq!(
            space.hot.count(key("c"), 9).await.unwrap(),
            replaced("d"),
            "{on}: what was rejected is kept"
        );
        assert_eq!(space.list(9).await, [("c".to_owned(), 11), ("a".to_owned(), 5)], "{on}");
        assert_eq!(space.metric("promotion_rejected_total"), 1, "{on}");
    }
}

/// No count is beyond what can be kept, and nothing overflows into another.
#[tokio::test]
async fn counts_end_where_they_can_count_no_further() {
    const MOST: u64 = (1 << 40) - 1;
    for space in Space::everywhere(counting).await {
        let many: Vec<_> = (0..1200).map(|_| Count::new(key("p"), 1_000_000_000)).collect();
        space.hot.count_many(&many).await.unwrap();
        assert_eq!(space.list(1).await, [("p".to_owned(), MOST)], "{}", space.on);
        space.hot.count(key("p"), 5).await.unwrap();
        assert_eq!(space.list(1).await, [("p".to_owned(), MOST)], "{}", space.on);
        assert_eq!(space.stats("p").await.total_edits, MOST + 5, "{}: all that came", space.on);
        space.set(START_MS + 40 * MINUTE);
        assert_eq!(space.hot.count(key("p"), 5).await.unwrap(), PROMOTED, "{}", space.on);
        assert_eq!(space.list(1).await, [("p".to_owned(), 5)], "{}", space.on);
    }
}

/// A page that can count no further goes on when what it has leaves the window.
#[tokio::test]
async fn a_page_that_could_count_no_further_counts_again() {
    for space in Space::everywhere(counting).await {
        let on = space.on;
        let many: Vec<_> = (0..1200).map(|_| Count::new(key("p"), 1_000_000_000)).collect();
        space.hot.count_many(&many).await.unwrap();
        space.set(START_MS + 10 * MINUTE);
        assert_eq!(space.hot.count(key("p"), 5).await.unwrap(), Recorded::Counted, "{on}");
        space.set(START_MS + 16 * MINUTE);
        assert_eq!(space.list(1).await, [("p".to_owned(), 0)], "{on}");
        assert_eq!(space.stats("p").await.edits_last_hour, 0, "{on}");
        assert_eq!(space.hot.cleanup().await.unwrap(), 0, "{on}");
        assert_eq!(space.hot.count(key("p"), 7).await.unwrap(), Recorded::Counted, "{on}");
        assert_eq!(space.list(1).await, [("p".to_owned(), 7)], "{on}");
        space.set(START_MS + 40 * MINUTE);
        assert_eq!(space.hot.cleanup().await.unwrap(), 1, "{on}");
    }
}

/// A server that keeps edits and one that only counts, under one name: neither disturbs the other.
#[tokio::test]
async fn a_space_that_counts_and_one_that_keeps_edits_may_have_one_name() {
    let space = Space::redis(counting).await;
    let (_gate, edits) = space.another(options(|_| {})).await;
    space.hot.count(key("p"), 7).await.unwrap();
    let edit = |id| tidegate::hot::Edit::new(key("p"), id, "alice");
    edits.record(&edit("1")).await.unwrap();
    assert_eq!(edits.record(&edit("2")).await.unwrap(), PROMOTED);
    assert_eq!((edits.list(9).await.unwrap()[0].edits, space.list(9).await[0].1), (2, 7));
    space.set(START_MS + 20 * MINUTE);
    space.hot.cleanup().await.unwrap();
    edits.cleanup().await.unwrap();
    assert_eq!((space.hot.tracked().await.unwrap(), edits.tracked().await.unwrap()), (0, 1));
    assert_eq!(edits.list(9).await.unwrap()[0].edits, 2);
}

/// Their keys are not shared, so the window of one is nothing to the other; that of another that counts is.
#[tokio::test]
async fn only_the_windows_of_those_that_count_too_are_respected() {
    let space = Space::redis(counting).await;
    let hours = |hours: u64, members| {
        let window = Duration::from_secs(hours * 3600);
        options(|it| (it.window_duration, it.max_members_per_page) = (window, members))
    };
    let (edits, _edits) = space.another(hours(8, 100)).await;
    for gate in [&space.gate, &edits, &space.gate] {
        gate.declare().await.unwrap();
    }
    space.hot.count(key("p"), 1).await.unwrap();
    assert_eq!(space.stats("p").await.grain_ms, 16_384);
    space.set(START_MS + WINDOW + 16_384);
    assert_eq!(space.hot.cleanup().await.unwrap(), 1, "its place is free");
    let (counts, _counts) = space.another(hours(1, 0)).await;
    for gate in [&counts, &space.gate] {
        gate.declare().await.unwrap();
    }
    space.hot.count(key("p"), 1).await.unwrap();
    assert_eq!(space.stats("p").await.grain_ms, 32_768);
}

/// One key, with an end that outlives what is in it however the counts are spread over a slot.
#[tokio::test]
async fn a_page_is_one_key_that_outlives_what_is_in_it() {
    let space = Space::redis(|it| {
        counting(it);
        it.count_slots = 1;
    })
    .await;
    space.hot.count(key("p"), 7).await.unwrap();
    let mut connection = REDIS.connection();
    let keys: Vec<String> =
        redis::cmd("KEYS").arg(format!("{}:hot:count:*", space.namespace)).query(&mut connection).unwrap();
    assert_eq!(keys, [format!("{}:hot:count:p", space.namespace)]);
    // The latest count that does not lengthen it: at the end of the slot.
    let grain = space.stats("p").await.grain_ms;
    let ttl: u64 = redis::cmd("PTTL").arg(&keys[0]).query(&mut connection).unwrap();
    assert!(ttl >= grain + WINDOW, "{ttl} ms, of {grain} and {WINDOW}");
}

/// What somebody else has written in the place of a page fails its counts alone, and is repaired by `remove`.
#[tokio::test]
async fn a_page_that_cannot_be_read_stops_no_other() {
    let space = Space::redis(counting).await;
    let mut connection = REDIS.connection();
    let name = format!("{}:hot:count:p", space.namespace);
    for what in ["short", "a text that is long enough to be read as one of ours, but is none"] {
        let _: () = redis::cmd("SET").arg(&name).arg(what).query(&mut connection).unwrap();
        let counts = [Count::new(key("p"), 1), Count::new(key("q"), 1)];
        let met = space.hot.count_many(&counts).await.unwrap();
        assert_eq!(met[0], Recorded::Corrupt, "{what}");
        assert!(matches!(met[1], Recorded::Counted | Recorded::Promoted { .. }), "{what}");
        assert!(space.hot.stats(key("p")).await.is_err(), "{what}");
        space.hot.remove(key("p")).await.unwrap();
        assert_eq!(space.hot.count(key("p"), 1).await.unwrap(), PROMOTED, "{what}");
        space.hot.remove(key("p")).await.unwrap();
    }
}

/// Each count is told and counted for itself, also of a page that is counted once for all of them.
#[tokio::test]
async fn each_count_of_many_is_counted_as_what_it_met() {
    for space in Space::everywhere(|it| {
        counting(it);
        (it.max_tracked, it.hot_threshold) = (1, 5);
    })
    .await
    {
        let on = space.on;
        let metrics = || ["activity_counter_total", "promotion_rejected_total"].map(|it| space.metric(it));
        let many = |page, count| vec![Count::new(key(page), count); 10];
        space.hot.count(key("hot"), 5).await.unwrap();
        assert_eq!(metrics(), [1, 0], "{on}");
        assert_eq!(space.hot.count_many(&many("p", 7)).await.unwrap(), vec![Recorded::Rejected; 10], "{on}");
        assert_eq!(metrics(), [11, 10], "{on}");
        space.hot.count_many(&many("hot", 7)).await.unwrap();
        assert_eq!(metrics(), [11, 10], "{on}");
    }
}

/// Counts of the last five minutes count for less than half a minute longer: in the last millisecond too.
#[tokio::test]
async fn what_leaves_the_last_five_minutes_has_left_in_the_last_millisecond_of_a_half_minute() {
    const HALF: u64 = MINUTE / 2;
    let begin = (START_MS / HALF + 1) * HALF;
    let spikes = |it: &mut HotOptions| {
        (it.max_members_per_page, it.hot_threshold, it.spike_minimum) = (0, 1, 4);
        it.spike_ratio = 1.0;
    };
    for space in Space::everywhere(spikes).await {
        let on = space.on;
        space.set(begin);
        space.hot.count(key("p"), 5).await.unwrap();
        for (at, count, lately, is_spiking) in [
            (0, 0, 5, false),
            (10 * HALF, 3, 8, false),
            (11 * HALF - 2, 0, 8, true),
            (11 * HALF - 1, 0, 3, false),
            (11 * HALF - 1, 1, 4, false),
        ] {
            space.set(begin + at);
            if count > 0 {
                space.hot.count(key("p"), count).await.unwrap();
            }
            let stats = space.stats("p").await;
            assert_eq!((stats.edits_last_5_minutes, stats.is_spiking), (lately, is_spiking), "{on} at {at}");
        }
    }
}

/// A clock that was so far ahead that nobody goes by it any more has left counts from later than now.
#[tokio::test]
async fn counts_from_before_a_clock_stepped_far_back_are_counted_on() {
    let late = |it: &mut HotOptions| {
        counting(it);
        it.hot_threshold = 10;
    };
    // A second before it is in the same slots, of a window and of half a minute.
    let is_within = |at: &u64| [2 * 8192, MINUTE / 2].iter().all(|slot| at % slot >= 1000);
    let ahead = (START_MS + 2 * WINDOW..).find(is_within).unwrap();
    for space in Space::everywhere(late).await {
        let on = space.on;
        space.set(ahead);
        space.hot.count(key("p"), 1).await.unwrap();
        space.set(ahead - 2 * WINDOW);
        space.hot.count(key("q"), 1).await.unwrap();
        space.set(ahead - 1000);
        for (count, expected) in [(9, PROMOTED), (1, Recorded::Counted), (1, Recorded::Counted)] {
            assert_eq!(space.hot.count(key("p"), count).await.unwrap(), expected, "{on}");
        }
        let stats = space.stats("p").await;
        assert_eq!((stats.edits_last_hour, stats.total_edits), (12, 12), "{on}");
    }
}
