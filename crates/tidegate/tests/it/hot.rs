//! What hot pages promise beside what the flaws of the seed are about: the edges of
//! the window and of the bounds, clocks that are wrong, input that is wrong, spaces
//! that do not share. And what all tests of hot pages are made of.

use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tidegate::clock::{ManualClock, Timestamp};
use tidegate::hot::{Edit, EventKind, Hot, HotOptions, HotPage, Recorded, Stats, WhenFull};
use tidegate::store::StoreOptions;
use tidegate::testkit::{RedisServer, unique};
use tidegate::{ErrorKind, Key, Name, Tidegate};

use crate::hot_audit::audit;
use crate::kit::{CLUSTER, REDIS};

pub(crate) const START_MS: u64 = 1_700_000_000_000;
pub(crate) const MINUTE: u64 = 60_000;
pub(crate) const HOUR: u64 = 3_600_000;

/// A space of its own on some store, with a clock that the test moves.
pub(crate) struct Space {
    /// The kind of store, for messages.
    pub(crate) on: &'static str,
    pub(crate) url: String,
    pub(crate) namespace: String,
    pub(crate) clock: ManualClock,
    pub(crate) gate: Tidegate,
    pub(crate) hot: Hot,
}

pub(crate) fn options(set: impl FnOnce(&mut HotOptions)) -> HotOptions {
    let mut options = HotOptions::default();
    set(&mut options);
    if options.max_members_per_page >= options.hot_threshold as usize {
        options.promotion_threshold = options.promotion_threshold.min(options.max_members_per_page as u32);
    }
    options
}

/// A gate with everything that tests share: time to answer, and few partitions.
pub(crate) async fn open(url: &str, namespace: &str, clock: Option<&ManualClock>) -> Tidegate {
    let mut options = StoreOptions::default();
    options.deadline = Duration::from_secs(10);
    options.namespace = Some(Name::new(namespace).unwrap());
    if url.starts_with("redis-cluster") {
        options.partitions = Some(8);
    }
    if let Some(clock) = clock {
        options.clock = clock.clone().into();
    }
    Tidegate::open_with(url, options).await.unwrap()
}

impl Space {
    pub(crate) async fn on(on: &'static str, url: &str, options: HotOptions) -> Self {
        let (namespace, clock) = (unique("h"), ManualClock::at(Timestamp::from_millis(START_MS)));
        let gate = open(url, &namespace, Some(&clock)).await;
        let hot = gate.hot("pages", options).unwrap();
        Self { on, url: url.to_owned(), namespace, clock, gate, hot }
    }

    pub(crate) async fn memory(set: impl FnOnce(&mut HotOptions)) -> Self {
        Self::on("memory", "memory:", options(set)).await
    }

    pub(crate) async fn redis(set: impl FnOnce(&mut HotOptions)) -> Self {
        Self::on("redis", &REDIS.url(), options(set)).await
    }

    pub(crate) async fn cluster(set: impl FnOnce(&mut HotOptions)) -> Self {
        Self::on("cluster", &CLUSTER.url(), options(set)).await
    }

    /// One on each kind of store.
    pub(crate) async fn everywhere(set: impl Fn(&mut HotOptions)) -> [Self; 3] {
        [Self::memory(&set).await, Self::redis(&set).await, Self::cluster(&set).await]
    }

    /// What another process would have of the same data.
    pub(crate) async fn another(&self, options: HotOptions) -> (Tidegate, Hot) {
        let gate = open(&self.url, &self.namespace, Some(&self.clock)).await;
        let hot = gate.hot("pages", options).unwrap();
        (gate, hot)
    }

    pub(crate) fn now(&self) -> u64 {
        self.clock.now().as_millis()
    }

    pub(crate) fn set(&self, ms: u64) {
        self.clock.set(Timestamp::from_millis(ms));
    }

    /// An edit by alice, made now.
    pub(crate) async fn record(&self, page: &str, id: &str) -> Recorded {
        self.hot.record(&Edit::new(key(page), id, "alice")).await.unwrap()
    }

    /// The same, made at some other time.
    pub(crate) async fn record_at(&self, page: &str, id: &str, at_ms: u64) -> Recorded {
        let at = Some(Timestamp::from_millis(at_ms));
        self.hot.record(&Edit { at, ..Edit::new(key(page), id, "alice") }).await.unwrap()
    }

    /// `count` edits of each of `pages`, in few round trips.
    pub(crate) async fn fill(&self, pages: &[String], count: usize) -> Vec<Recorded> {
        let ids: Vec<_> = (0..count).map(|i| format!("fill{i}")).collect();
        let edits: Vec<_> =
            pages.iter().flat_map(|page| ids.iter().map(|id| Edit::new(key(page), id, "alice"))).collect();
        self.hot.record_many(&edits).await.unwrap()
    }

    pub(crate) async fn stats(&self, page: &str) -> Stats {
        self.hot.stats(key(page)).await.unwrap()
    }

    /// All that is in the window of a page, as `id@ms` after the start.
    pub(crate) async fn window(&self, page: &str) -> Vec<String> {
        let all = Timestamp::from_millis(0)..=Timestamp::from_millis(u64::MAX);
        let edits = self.hot.window(key(page), all).await.unwrap();
        edits
            .iter()
            .map(|it| format!("{}@{}", it.id, it.at.as_millis().wrapping_sub(START_MS) as i64))
            .collect()
    }

    /// The hottest pages with their edits.
    pub(crate) async fn list(&self, limit: usize) -> Vec<(String, u64)> {
        self.hot.list(limit).await.unwrap().into_iter().map(|it| (it.page, it.edits)).collect()
    }

    pub(crate) fn metric(&self, name: &str) -> u64 {
        metric(&self.gate, name)
    }
}

/// A metric of the space `pages`.
pub(crate) fn metric(gate: &Tidegate, name: &str) -> u64 {
    let (text, start) = (gate.metrics(), format!("{name}{{space=\"pages\"}} "));
    let value = text.lines().find_map(|line| line.strip_prefix(&start));
    value.unwrap_or_else(|| panic!("no {name} in\n{text}")).parse().unwrap()
}

pub(crate) fn key(text: &str) -> Key<'_> {
    Key::new(text).unwrap()
}

pub(crate) const PROMOTED: Recorded = Recorded::Promoted { replaced: None };

pub(crate) fn replaced(page: &str) -> Recorded {
    Recorded::Promoted { replaced: Some(page.to_owned()) }
}

/// A number from the environment, so that the full size can be asked for.
pub(crate) fn from_env(name: &str, default: usize) -> usize {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

/// Waits for `count` events.
pub(crate) async fn events(watch: &mut tidegate::hot::Watch, count: usize) -> Vec<tidegate::hot::Event> {
    let mut seen = Vec::new();
    for number in 0..count {
        let next = tokio::time::timeout(Duration::from_secs(30), watch.next()).await;
        seen.push(next.unwrap_or_else(|_| panic!("event {number} of {count} is missing: {seen:?}")).unwrap());
    }
    seen
}

#[tokio::test]
async fn an_edit_counts_until_the_last_millisecond_of_its_window() {
    for space in Space::everywhere(|it| it.window_duration = Duration::from_secs(900)).await {
        let (on, window) = (space.on, 900_000);
        space.record("p", "a").await;
        space.clock.advance_ms(1000);
        assert_eq!(space.record("p", "b").await, PROMOTED);
        space.set(START_MS + window - 1);
        assert_eq!(space.stats("p").await.edits_last_hour, 2, "{on}");
        assert_eq!(space.window("p").await, ["a@0", "b@1000"], "{on}");
        assert_eq!(space.list(9).await, [("p".to_owned(), 2)], "{on}");
        space.clock.advance_ms(1);
        assert_eq!(space.window("p").await, ["b@1000"], "{on}");
        assert_eq!(space.list(9).await, [("p".to_owned(), 1)], "{on}");
        assert_eq!(space.stats("p").await.edits_last_hour, 1, "{on}");
        space.set(START_MS + 1000 + window - 1);
        assert_eq!((space.hot.count().await.unwrap(), space.stats("p").await.is_hot), (1, true), "{on}");
        space.clock.advance_ms(1);
        assert_eq!(space.window("p").await, Vec::<String>::new(), "{on}");
        assert!(!space.hot.is_hot(key("p")).await.unwrap(), "{on}");
        assert_eq!(space.hot.count().await.unwrap(), 0, "{on}");
    }
}

#[tokio::test]
async fn activity_is_remembered_until_the_last_millisecond_of_ten_minutes() {
    for space in Space::everywhere(|_| {}).await {
        let on = space.on;
        for page in ["in time", "too late"] {
            assert_eq!(space.record(page, "a").await, Recorded::Remembered, "{on}");
        }
        space.set(START_MS + 10 * MINUTE - 1);
        assert_eq!(space.record("in time", "b").await, PROMOTED, "{on}");
        space.clock.advance_ms(1);
        assert_eq!(space.record("too late", "b").await, Recorded::Remembered, "{on}");
        assert_eq!(space.record("too late", "c").await, PROMOTED, "{on}: the ten minutes began anew");
        assert_eq!(space.window("too late").await, ["b@600000", "c@600000"], "{on}");
    }
}

#[tokio::test]
async fn an_edit_that_comes_late_counts_for_what_is_left_of_its_window() {
    for space in Space::everywhere(|_| {}).await {
        let on = space.on;
        space.set(START_MS + HOUR);
        assert_eq!(space.record_at("p", "gone", START_MS).await, Recorded::TooLate, "{on}");
        assert_eq!(space.record_at("p", "oldest", START_MS + 1).await, Recorded::Remembered, "{on}");
        assert_eq!(space.record("p", "now").await, PROMOTED, "{on}");
        assert_eq!(space.record_at("p", "between", START_MS + 5).await, Recorded::Added, "{on}");
        assert_eq!(space.window("p").await, ["oldest@1", "between@5", "now@3600000"], "{on}");
        assert_eq!(space.stats("p").await.last_seen.as_millis(), START_MS + HOUR, "{on}");
        space.clock.advance_ms(1);
        assert_eq!(space.window("p").await, ["between@5", "now@3600000"], "{on}");
        assert_eq!(space.list(9).await, [("p".to_owned(), 2)], "{on}");
        // An id that has left counts again, with what it says now.
        assert_eq!(space.record("p", "oldest").await, Recorded::Added, "{on}");
    }
}

#[tokio::test]
async fn a_full_window_keeps_the_newest_whatever_order_they_come_in() {
    for space in Space::everywhere(|it| it.max_members_per_page = 3).await {
        let on = space.on;
        space.set(START_MS + MINUTE);
        for at in [30, 10, 20] {
            space.record_at("p", &format!("e{at}"), START_MS + at).await;
        }
        assert_eq!(space.record_at("p", "e5", START_MS + 5).await, Recorded::TooLate, "{on}");
        assert_eq!(space.record_at("p", "e10", START_MS + 5).await, Recorded::Duplicate, "{on}");
        assert_eq!(space.record_at("p", "e15", START_MS + 15).await, Recorded::Added, "{on}");
        assert_eq!(space.window("p").await, ["e15@15", "e20@20", "e30@30"], "{on}");
        // Of two at once the greater id is the newer.
        assert_eq!(space.record_at("p", "a", START_MS + 15).await, Recorded::TooLate, "{on}");
        assert_eq!(space.record_at("p", "f", START_MS + 15).await, Recorded::Added, "{on}");
        // By its bytes, in whatever language the server is set to.
        assert_eq!(space.record_at("p", "Z", START_MS + 15).await, Recorded::TooLate, "{on}");
        assert_eq!(space.window("p").await, ["f@15", "e20@20", "e30@30"], "{on}");
        let stats = space.stats("p").await;
        assert_eq!((stats.edits_last_hour, stats.total_edits, stats.covered_ms), (3, 5, MINUTE - 15), "{on}");
    }
}

/// A server whose clock is set back, or its successor's is: what has ended stays
/// ended, and what counts is not lost.
#[tokio::test]
async fn a_clock_that_steps_back_changes_nothing() {
    for space in Space::everywhere(|_| {}).await {
        let on = space.on;
        space.fill(&["p".to_owned()], 2).await;
        space.set(START_MS + HOUR);
        assert_eq!(space.hot.count().await.unwrap(), 0, "{on}");
        space.fill(&["q".to_owned()], 2).await;
        space.set(START_MS + HOUR / 2);
        assert!(!space.hot.is_hot(key("p")).await.unwrap(), "{on}: it does not come back");
        assert_eq!(space.record("q", "later").await, Recorded::Added, "{on}");
        assert_eq!(space.window("q").await, ["fill0@3600000", "fill1@3600000", "later@3600000"], "{on}");
        space.set(START_MS + 2 * HOUR - 1);
        assert_eq!(space.stats("q").await.edits_last_hour, 3, "{on}");
        space.clock.advance_ms(1);
        assert!(!space.stats("q").await.is_hot, "{on}");
    }
}

/// However far behind the data the clock is, no key ends before what is in it.
#[tokio::test]
async fn keys_outlive_their_data_though_the_clock_steps_back() {
    let space = Space::redis(|it| it.window_duration = Duration::from_secs(4 * 3600)).await;
    let window = 4 * HOUR;
    space.fill(&["p".to_owned()], 2).await;
    space.record("q", "a").await;
    space.set(START_MS - window);
    assert_eq!(space.record("p", "again").await, Recorded::Added);
    assert_eq!(space.record("r", "a").await, Recorded::Remembered);
    let mut connection = REDIS.connection();
    let mut ttl = |name: &str| -> u64 {
        redis::cmd("PTTL").arg(format!("{}:{name}", space.namespace)).query(&mut connection).unwrap()
    };
    for name in ["hot:window:p", "hot:meta:p", "hot:editors:p", "hot:rank", "hot:due", "hot:state"] {
        assert!(ttl(name) >= 2 * window, "{name} ends in {} ms, its data in {}", ttl(name), 2 * window);
    }
    assert!(ttl("activity:r") >= window + 10 * MINUTE, "{}", ttl("activity:r"));
}

/// A clock that was years ahead for a moment leaves nothing behind that lasts for
/// years: what it dated is dropped, and its places are free.
#[tokio::test]
async fn an_absurd_leap_of_the_clock_is_forgotten() {
    for space in Space::everywhere(|it| {
        it.max_tracked = 3;
        it.max_activity = 3;
    })
    .await
    {
        let on = space.on;
        space.fill(&["before".to_owned()], 2).await;
        space.set(START_MS + 24 * 365 * 30 * HOUR);
        let future: Vec<_> = (0..3).map(|i| format!("future{i}")).collect();
        space.fill(&future, 2).await;
        space.record("half", "a").await;
        space.set(START_MS + 1000);
        assert_eq!(space.record("future0", "a").await, Recorded::Remembered, "{on}: it starts over");
        let pages: Vec<_> = (0..3).map(|i| format!("after{i}")).collect();
        let recorded = space.fill(&pages, 2).await;
        assert_eq!(recorded.iter().filter(|it| **it == PROMOTED).count(), 3, "{on}: {recorded:?}");
        assert_eq!(space.record("half", "b").await, Recorded::Remembered, "{on}");
        let listed: Vec<_> = space.list(9).await.into_iter().map(|it| it.0).collect();
        assert_eq!(listed, ["after2", "after1", "after0"], "{on}");
        space.set(START_MS + 1000 + HOUR);
        assert_eq!(space.hot.count().await.unwrap(), 0, "{on}");
        space.hot.cleanup().await.unwrap();
        assert_eq!(space.metric("tidegate_hot_activities"), 0, "{on}");
    }
}

/// The smallest of everything.
#[tokio::test]
async fn bounds_of_one_are_bounds_of_one() {
    for space in Space::everywhere(|it| {
        (it.hot_threshold, it.promotion_threshold) = (1, 1);
        (it.max_tracked, it.max_members_per_page, it.max_activity) = (1, 1, 1);
    })
    .await
    {
        let on = space.on;
        let mut watch = space.hot.watch(Some("0-0")).await.unwrap();
        assert_eq!(space.record("p", "a").await, PROMOTED, "{on}");
        space.clock.advance_ms(1);
        assert_eq!(space.record("p", "b").await, Recorded::Added, "{on}");
        assert_eq!(space.record_at("p", "a", START_MS).await, Recorded::TooLate, "{on}");
        assert_eq!(space.record("p", "b").await, Recorded::Duplicate, "{on}");
        assert_eq!(space.window("p").await, ["b@1"], "{on}");
        for (page, id) in [("q", "a"), ("q", "b"), ("r", "a"), ("q", "b")] {
            assert_eq!(space.record(page, id).await, Recorded::Rejected, "{on}");
        }
        assert_eq!(space.record("q", "b").await, Recorded::Duplicate, "{on}");
        let stats = space.stats("p").await;
        assert_eq!((stats.edits_last_hour, stats.unique_editors, stats.total_edits), (1, 1, 2), "{on}");
        let kinds: Vec<_> = events(&mut watch, 2).await.into_iter().map(|it| it.kind).collect();
        assert_eq!(kinds, [EventKind::Promoted, EventKind::Trending], "{on}");
        assert_eq!(space.metric("promotion_rejected_total"), 4, "{on}");
    }
}

/// Hundreds of pages that are equally hot, whose names only tell them apart, over partitions.
#[tokio::test]
async fn all_hot_pages_are_listed_page_by_page_each_once() {
    for space in Space::everywhere(|options| {
        options.partitions = 3;
        options.max_tracked = 1000;
    })
    .await
    {
        let on = space.on;
        let names: Vec<_> = (0..250).map(|i| format!("{}:{i}", ["en", "ä", "", "Z"][i % 4])).collect();
        space.fill(&names, 2).await;
        space.clock.advance_ms(5);
        space.fill(&names[..40], 3).await;
        let all = space.hot.list(1000).await.unwrap();
        assert_eq!(all.len(), 250, "{on}");
        for size in [1, 7, 100, 250, 251] {
            let mut paged = Vec::new();
            loop {
                let page = space.hot.list_after(paged.last(), size).await.unwrap();
                let is_last = page.len() < size;
                paged.extend(page);
                if is_last || paged.len() > all.len() {
                    break;
                }
            }
            assert_eq!(paged, all, "{on} by {size}");
        }
        // A place stays one when its page has gone elsewhere, or never was.
        let at = all[100].clone();
        space.record(&at.page, "another").await;
        assert_eq!(space.hot.list_after(Some(&at), 5).await.unwrap(), all[101..106], "{on}");
        let nobody = HotPage::new("m", at.edits, at.last_seen);
        let behind = all
            .iter()
            .filter(|it| (it.edits, it.last_seen, &it.page) < (at.edits, at.last_seen, &nobody.page));
        let behind: Vec<_> = behind.filter(|it| it.page != at.page).take(5).cloned().collect();
        assert_eq!(space.hot.list_after(Some(&nobody), 5).await.unwrap(), behind, "{on}");
        let (first, last) = (HotPage::new("", u64::MAX, at.last_seen), HotPage::new("", 0, at.last_seen));
        assert_eq!(space.hot.list_after(Some(&first), 1000).await.unwrap().len(), 250, "{on}");
        assert_eq!(space.hot.list_after(Some(&last), 1000).await.unwrap(), [], "{on}");
    }
}

#[tokio::test]
async fn as_many_as_there_are_can_be_listed() {
    for space in Space::everywhere(|_| {}).await {
        space.fill(&["p".to_owned(), "q".to_owned()], 2).await;
        for limit in [2, 3, 1_000_000, 1 << 53, usize::MAX] {
            assert_eq!(space.list(limit).await.len(), 2, "{} by {limit}", space.on);
        }
        assert_eq!(space.list(0).await, [], "{}", space.on);
    }
}

#[tokio::test]
async fn spaces_and_namespaces_do_not_share() {
    for space in Space::everywhere(|_| {}).await {
        let on = space.on;
        let other = space.gate.hot("articles", HotOptions::default()).unwrap();
        space.fill(&["p".to_owned()], 3).await;
        assert_eq!(other.record(&Edit::new(key("p"), "fill0", "bob")).await.unwrap(), Recorded::Remembered);
        assert!(!other.is_hot(key("p")).await.unwrap(), "{on}");
        assert_eq!((space.hot.count().await.unwrap(), other.count().await.unwrap()), (1, 0), "{on}");
        let mut watch = other.watch(Some("0-0")).await.unwrap();
        assert_eq!(other.record(&Edit::new(key("p"), "b", "bob")).await.unwrap(), PROMOTED, "{on}");
        assert_eq!(other.stats(key("p")).await.unwrap().edits_last_hour, 2, "{on}");
        assert_eq!(events(&mut watch, 1).await[0].kind, EventKind::Promoted, "{on}");
        let elsewhere = Space::on(on, &space.url, HotOptions::default()).await;
        assert_eq!(elsewhere.hot.count().await.unwrap(), 0, "{on}");
        assert_eq!(elsewhere.record("p", "fill0").await, Recorded::Remembered, "{on}");
        let again = space.gate.hot("pages", HotOptions::default()).unwrap();
        assert_eq!(again.count().await.unwrap(), 1, "{on}: asked again it is the same");
        let error = space.gate.hot("pages", options(|it| it.max_tracked = 7)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{on}: {error}");
        assert!(error.to_string().contains("pages"), "{on}: {error}");
    }
}

#[tokio::test]
async fn wrong_input_is_an_error_and_changes_nothing() {
    let long = "x".repeat(256);
    assert!(Key::new("").is_err() && Key::new(&long).is_err());
    for space in Space::everywhere(|_| {}).await {
        let on = space.on;
        assert_eq!(space.record("p", "first").await, Recorded::Remembered);
        let good = Edit::new(key("p"), "good", "bob");
        let wrong = [
            Edit { page: Key::EVERYONE, ..good },
            Edit { id: "", ..good },
            Edit { id: "a\0b", ..good },
            Edit { id: &long, ..good },
            Edit { editor: "a\0b", ..good },
            Edit { editor: &long, ..good },
            Edit { byte_change: i64::MIN, ..good },
            Edit { byte_change: (1 << 52) + 1, ..good },
        ];
        for edit in wrong {
            let error = space.hot.record(&edit).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{on}: {edit:?}: {error}");
            let error = space.hot.record_many(&[good, edit]).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{on}: {edit:?}: {error}");
        }
        assert!(!space.stats("p").await.is_hot, "{on}: of a batch with a wrong one nothing is recorded");
        let widest = "\u{10ffff}".repeat(63);
        let edge = Edit { id: &widest, editor: "", byte_change: -(1 << 52), ..good };
        assert_eq!(space.hot.record(&edge).await.unwrap(), PROMOTED, "{on}");
        assert_eq!(space.stats("p").await.last_byte_change, -(1 << 52), "{on}");
        assert_eq!(space.hot.record_many(&[]).await.unwrap(), [], "{on}");
    }
}

#[tokio::test]
async fn options_that_cannot_be_are_refused() {
    let gate = Tidegate::open("memory:").await.unwrap();
    let wrong: [(_, fn(&mut HotOptions)); 17] = [
        ("a window_duration of 999ms is not allowed: 1s to 7 days are", |it| {
            it.window_duration = Duration::from_millis(999);
        }),
        ("a window_duration of 604800.5s is not allowed: 1s to 7 days are", |it| {
            it.window_duration = Duration::from_millis(604_800_500);
        }),
        ("a max_bytes of 2097151 is not allowed: at least 2097152 is", |it| {
            (it.partitions, it.max_bytes) = (2, (2 << 20) - 1);
        }),
        ("hot_threshold", |it| it.hot_threshold = 0),
        ("hot_threshold", |it| it.hot_threshold = 101),
        ("promotion_threshold", |it| it.promotion_threshold = 0),
        ("a max_members_per_page of 4 is not allowed: 5 to 4000 are", |it| it.max_members_per_page = 4),
        ("window_duration", |it| it.window_duration = Duration::from_millis(999)),
        ("max_tracked", |it| it.max_tracked = 0),
        ("max_members_per_page", |it| it.max_members_per_page = 1),
        ("max_members_per_page", |it| it.max_members_per_page = 4001),
        ("max_activity", |it| it.max_activity = 0),
        ("partitions", |it| it.partitions = 0),
        ("a max_tracked of 7 is not allowed: 8 to", |it| (it.partitions, it.max_tracked) = (8, 7)),
        ("spike_ratio", |it| it.spike_ratio = f64::NAN),
        ("cleanup_interval", |it| it.cleanup_interval = Duration::ZERO),
        ("max_bytes", |it| it.max_bytes = 1000),
    ];
    for (what, set) in wrong {
        let mut options = HotOptions::default();
        set(&mut options);
        let error = gate.hot("pages", options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(error.to_string().contains(what), "{what}: {error}");
    }
    let odd = options(|it| it.window_duration = Duration::from_millis(1999));
    let space = Space::on("memory", "memory:", odd).await;
    space.fill(&["p".to_owned()], 2).await;
    space.set(START_MS + 1998);
    assert_eq!(space.hot.count().await.unwrap(), 1, "a part of a second is not lost");
}

/// Whatever the caller calls a page, an edit or an editor: nothing chooses a slot,
/// and nothing is taken for something else.
#[test]
fn any_page_id_and_editor_will_do_in_a_cluster() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let space = runtime.block_on(Space::cluster(|it| {
        (it.partitions, it.max_tracked) = (3, 10);
        it.when_full = WhenFull::ReplaceColdest;
    }));
    let text = || prop_oneof!["[{}:a]{1,12}", "\\PC{1,40}", "[^\u{0}]{1,60}", "[%\\[\\]^$().*+?|-]{1,9}"];
    let mut runner = TestRunner::new(Config { cases: 200, failure_persistence: None, ..Config::default() });
    runner
        .run(&(text(), text(), text(), text()), |(page, id, more, editor)| {
            prop_assume!([&page, &id, &more, &editor].iter().all(|it| it.len() <= 255 && !it.contains('\0')));
            prop_assume!(id != more);
            runtime.block_on(async {
                space.clock.advance_ms(1);
                let key = Key::new(&page).unwrap();
                let [id, more] = [&id, &more].map(|it| format!("{it}{}", space.now()));
                for id in [&id, &more] {
                    space.hot.record(&Edit::new(key, id, &editor)).await.unwrap();
                }
                let now = Timestamp::from_millis(space.now());
                let window = space.hot.window(key, now..=now).await.unwrap();
                let mut expected = [&id, &more];
                expected.sort();
                let seen: Vec<_> = window.iter().map(|it| (&it.id, &it.editor)).collect();
                prop_assert_eq!(seen, expected.map(|it| (it, &editor)));
                prop_assert!(space.hot.list(1000).await.unwrap().iter().any(|it| it.page == page));
                Ok(())
            })
        })
        .unwrap_or_else(|failure| panic!("{failure}"));
    let connections = CLUSTER.nodes().iter().map(RedisServer::connection).collect();
    assert!(audit(connections, &space.namespace, HOUR) >= 9, "three in each partition");
}

/// A deploy with other numbers finds the data of the last one: nothing loops, and the
/// new bounds hold as soon as there is something to do.
#[tokio::test]
async fn other_numbers_after_a_deploy_take_the_data_over() {
    for (url, on) in [(REDIS.url(), "redis"), (CLUSTER.url(), "cluster")] {
        let quarter = options(|it| it.window_duration = Duration::from_secs(900));
        let space = Space::on(on, &url, quarter).await;
        space.fill(&["p".to_owned(), "q".to_owned()], 9).await;
        let (_gate, longer) = space.another(HotOptions::default()).await;
        space.set(START_MS + 900_000);
        let counted = tokio::time::timeout(Duration::from_secs(30), longer.count()).await;
        assert_eq!(counted.expect("a count that ends").unwrap(), 2, "{on}: the window is an hour now");
        assert_eq!(longer.cleanup().await.unwrap(), 0, "{on}");
        let (_gate, fewer) = space.another(options(|it| it.max_members_per_page = 4)).await;
        assert_eq!(fewer.record(&Edit::new(key("p"), "new", "bob")).await.unwrap(), Recorded::Added, "{on}");
        assert_eq!(fewer.stats(key("p")).await.unwrap().edits_last_hour, 4, "{on}");
        space.set(START_MS + HOUR - 1);
        assert_eq!(longer.count().await.unwrap(), 2, "{on}");
        space.set(START_MS + HOUR);
        assert_eq!(longer.count().await.unwrap(), 1, "{on}");
        assert_eq!(longer.cleanup().await.unwrap(), 1, "{on}");
        let connections = match on {
            "redis" => vec![REDIS.connection()],
            _ => CLUSTER.nodes().iter().map(RedisServer::connection).collect(),
        };
        // The index of what is due goes by the window of who came first.
        assert_eq!(audit(connections, &space.namespace, 900_000), 1, "{on}");
    }
}

/// A page is where its partition is: with another number of them none would be found.
#[tokio::test]
async fn another_number_of_partitions_is_refused() {
    for (url, on) in [(REDIS.url(), "redis"), (CLUSTER.url(), "cluster")] {
        let space = Space::on(on, &url, options(|it| it.partitions = 4)).await;
        space.fill(&["p".to_owned()], 2).await;
        let (_gate, same) = space.another(options(|it| it.partitions = 4)).await;
        assert!(same.is_hot(key("p")).await.unwrap(), "{on}");
        let (_gate, other) = space.another(options(|it| it.partitions = 2)).await;
        for error in [
            other.record(&Edit::new(key("p"), "a", "bob")).await.unwrap_err(),
            other.count().await.unwrap_err(),
            other.is_hot(key("p")).await.unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::Config, "{on}: {error}");
            assert!(error.to_string().contains("with 4 partitions, this is set to 2"), "{on}: {error}");
        }
        let elsewhere = space.gate.hot("articles", options(|it| it.partitions = 2)).unwrap();
        assert_eq!(elsewhere.count().await.unwrap(), 0, "{on}: each space has its own");
    }
}
