//! The edges of the window and of the bounds, clocks that are wrong, input that is wrong.

use std::time::Duration;

use super::face::SOON;
use super::{Face, Kit, Many, START_MS, options};
use crate::bounds::MAX_COUNT;
use crate::clock::Timestamp;
use crate::error::ErrorKind;
use crate::hot::{Edit, EventKind, HotOptions, HotPage, Recorded, Stats};
use crate::key::Key;

pub(super) const MINUTE: u64 = 60_000;
pub(super) const HOUR: u64 = 3_600_000;

pub(super) const PROMOTED: Recorded = Recorded::Promoted { replaced: None };

/// A space in the hands of a case.
pub(super) struct Subject<F>(pub(super) F);

impl<F: Face> Subject<F> {
    pub(super) async fn new(kit: &impl Kit<Face = F>, set: impl FnOnce(&mut HotOptions)) -> Self {
        Self(kit.fresh(options(set)).await)
    }

    /// Sets the clock to `ms` after the start.
    pub(super) fn at(&self, ms: u64) {
        self.0.clock().set(Timestamp::from_millis(START_MS + ms));
    }

    fn advance(&self, ms: u64) {
        self.0.clock().advance_ms(ms);
    }

    /// An edit by alice, made now.
    pub(super) async fn record(&self, page: &str, id: &str) -> Recorded {
        self.0.record(&edit(page, id)).await.expect("an answer")
    }

    /// The same, made `ms` after the start.
    async fn record_at(&self, page: &str, id: &str, ms: u64) -> Recorded {
        let at = Some(Timestamp::from_millis(START_MS + ms));
        self.0.record(&Edit { at, ..edit(page, id) }).await.expect("an answer")
    }

    /// `count` edits of each of `pages`, in few round trips.
    async fn fill(&self, pages: &[String], count: usize) -> Many {
        let ids: Vec<_> = (0..count).map(|i| format!("fill{i}")).collect();
        let edits: Vec<_> = pages.iter().flat_map(|page| ids.iter().map(|id| edit(page, id))).collect();
        self.0.record_many(&edits).await.expect("an answer")
    }

    pub(super) async fn stats(&self, page: &str) -> Stats {
        self.0.stats(page).await.expect("stats")
    }

    pub(super) async fn is_hot(&self, page: &str) -> bool {
        let alone = self.0.is_hot(page).await.expect("an answer");
        let is_hot = self.stats(page).await.is_hot;
        assert_eq!(alone.unwrap_or(is_hot), is_hot);
        is_hot
    }

    pub(super) async fn tracked(&self) -> u64 {
        self.0.tracked().await.expect("a count")
    }

    /// All that is in the window of a page, as `id@ms` after the start.
    pub(super) async fn window(&self, page: &str) -> Vec<String> {
        let all = Timestamp::from_millis(0)..=Timestamp::from_millis(MAX_COUNT);
        let edits = self.0.window(page, all).await.expect("a window");
        let since = |at: Timestamp| at.as_millis().wrapping_sub(START_MS) as i64;
        edits.iter().map(|it| format!("{}@{}", it.id, since(it.at))).collect()
    }

    /// The hottest pages with their edits.
    pub(super) async fn list(&self, limit: usize) -> Vec<(String, u64)> {
        let list = self.0.list_after(None, limit).await.expect("a list");
        list.into_iter().map(|it| (it.page, it.edits)).collect()
    }

    async fn list_after(&self, after: Option<&HotPage>, limit: usize) -> Vec<HotPage> {
        self.0.list_after(after, limit).await.expect("a list")
    }

    async fn metric(&self, name: &str) -> u64 {
        let (text, start) = (self.0.metrics().await, format!("{name}{{space=\"{}\"}} ", self.0.space()));
        let value = text.lines().find_map(|line| line.strip_prefix(&start));
        value.unwrap_or_else(|| panic!("no {start}in\n{text}")).parse().expect("a number")
    }
}

pub(super) fn edit<'a>(page: &'a str, id: &'a str) -> Edit<'a> {
    Edit::new(Key::new(page).expect("a page"), id, "alice")
}

/// An edit counts until the last millisecond of its window.
pub async fn an_edit_counts_until_the_last_millisecond_of_its_window(kit: &impl Kit) {
    let s = Subject::new(kit, |it| it.window_duration = Duration::from_secs(900)).await;
    let window = 900_000;
    s.record("p", "a").await;
    s.at(1000);
    assert_eq!(s.record("p", "b").await, PROMOTED);
    s.at(window - 1);
    assert_eq!(s.stats("p").await.edits_last_hour, 2);
    assert_eq!(s.window("p").await, ["a@0", "b@1000"]);
    assert_eq!(s.list(9).await, [("p".to_owned(), 2)]);
    s.at(window);
    assert_eq!(s.window("p").await, ["b@1000"]);
    assert_eq!(s.list(9).await, [("p".to_owned(), 1)]);
    assert_eq!(s.stats("p").await.edits_last_hour, 1);
    s.at(1000 + window - 1);
    assert_eq!((s.tracked().await, s.is_hot("p").await), (1, true));
    s.at(1000 + window);
    assert_eq!(s.window("p").await, Vec::<String>::new());
    assert_eq!((s.tracked().await, s.is_hot("p").await), (0, false));
}

/// Activity is remembered until the last millisecond of ten minutes.
pub async fn activity_is_remembered_until_the_last_millisecond_of_ten_minutes(kit: &impl Kit) {
    let s = Subject::new(kit, |_| {}).await;
    for page in ["in time", "too late"] {
        assert_eq!(s.record(page, "a").await, Recorded::Remembered);
    }
    s.at(10 * MINUTE - 1);
    assert_eq!(s.record("in time", "b").await, PROMOTED);
    s.at(10 * MINUTE);
    assert_eq!(s.record("too late", "b").await, Recorded::Remembered);
    assert_eq!(s.record("too late", "c").await, PROMOTED, "the ten minutes began anew");
    assert_eq!(s.window("too late").await, ["b@600000", "c@600000"]);
}

/// An edit that comes late counts for what is left of its window.
pub async fn an_edit_that_comes_late_counts_for_what_is_left_of_its_window(kit: &impl Kit) {
    let s = Subject::new(kit, |_| {}).await;
    s.at(HOUR);
    assert_eq!(s.record_at("p", "gone", 0).await, Recorded::TooLate);
    assert_eq!(s.record_at("p", "oldest", 1).await, Recorded::Remembered);
    assert_eq!(s.record("p", "now").await, PROMOTED);
    assert_eq!(s.record_at("p", "between", 5).await, Recorded::Added);
    assert_eq!(s.window("p").await, ["oldest@1", "between@5", "now@3600000"]);
    assert_eq!(s.stats("p").await.last_seen.as_millis(), START_MS + HOUR);
    s.advance(1);
    assert_eq!(s.window("p").await, ["between@5", "now@3600000"]);
    assert_eq!(s.list(9).await, [("p".to_owned(), 2)]);
    // An id that has left counts again, with what it says now.
    assert_eq!(s.record("p", "oldest").await, Recorded::Added);
}

/// A full window keeps the newest, whatever order they come in.
pub async fn a_full_window_keeps_the_newest_whatever_order_they_come_in(kit: &impl Kit) {
    let s = Subject::new(kit, |it| it.max_members_per_page = 3).await;
    s.at(MINUTE);
    for at in [30, 10, 20] {
        s.record_at("p", &format!("e{at}"), at).await;
    }
    assert_eq!(s.record_at("p", "e5", 5).await, Recorded::Counted);
    assert_eq!(s.record_at("p", "e5", 5).await, Recorded::Counted, "nobody knows its id");
    assert_eq!(s.record_at("p", "e10", 5).await, Recorded::Duplicate);
    assert_eq!(s.record_at("p", "e15", 15).await, Recorded::Added);
    assert_eq!(s.window("p").await, ["e15@15", "e20@20", "e30@30"]);
    // Of two at once the greater id is the newer.
    assert_eq!(s.record_at("p", "a", 15).await, Recorded::Counted);
    assert_eq!(s.record_at("p", "f", 15).await, Recorded::Added);
    // By its bytes, in whatever language the server is set to.
    assert_eq!(s.record_at("p", "Z", 15).await, Recorded::Counted);
    assert_eq!(s.window("p").await, ["f@15", "e20@20", "e30@30"]);
    let stats = s.stats("p").await;
    assert_eq!((stats.edits_last_hour, stats.total_edits, stats.covered_ms), (9, 9, MINUTE - 5));
    assert_eq!((stats.members, stats.grain_ms), (3, 65_536));
    assert_eq!(s.list(9).await, [("p".to_owned(), 9)]);
}

/// A server whose clock is set back, or its successor's is: what has ended stays
/// ended, and what counts is not lost.
pub async fn a_clock_that_steps_back_changes_nothing(kit: &impl Kit) {
    let s = Subject::new(kit, |_| {}).await;
    s.fill(&["p".to_owned()], 2).await;
    s.at(HOUR);
    assert_eq!(s.tracked().await, 0);
    s.fill(&["q".to_owned()], 2).await;
    s.at(HOUR / 2);
    assert!(!s.is_hot("p").await, "it does not come back");
    assert_eq!(s.record("q", "later").await, Recorded::Added);
    assert_eq!(s.window("q").await, ["fill0@3600000", "fill1@3600000", "later@3600000"]);
    s.at(2 * HOUR - 1);
    assert_eq!(s.stats("q").await.edits_last_hour, 3);
    s.at(2 * HOUR);
    assert!(!s.is_hot("q").await);
}

/// A clock that was years ahead for a moment leaves nothing behind that lasts for
/// years: what it dated is dropped, and its places are free.
pub async fn an_absurd_leap_of_the_clock_is_forgotten(kit: &impl Kit) {
    let s = Subject::new(kit, |it| (it.max_tracked, it.max_activity) = (3, 3)).await;
    s.fill(&["before".to_owned()], 2).await;
    s.at(24 * 365 * 30 * HOUR);
    let future: Vec<_> = (0..3).map(|i| format!("future{i}")).collect();
    s.fill(&future, 2).await;
    s.record("half", "a").await;
    s.at(1000);
    assert_eq!(s.record("future0", "a").await, Recorded::Remembered, "it starts over");
    let pages: Vec<_> = (0..3).map(|i| format!("after{i}")).collect();
    let recorded = s.fill(&pages, 2).await;
    assert_eq!(recorded.promoted(), 3, "{recorded:?}");
    assert_eq!(s.record("half", "b").await, Recorded::Remembered);
    let listed: Vec<_> = s.list(9).await.into_iter().map(|it| it.0).collect();
    assert_eq!(listed, ["after2", "after1", "after0"]);
    s.at(1000 + HOUR);
    assert_eq!(s.tracked().await, 0);
    s.0.cleanup().await.expect("a count");
    assert_eq!(s.metric("tidegate_hot_activities").await, 0);
}

/// The smallest of everything.
pub async fn bounds_of_one_are_bounds_of_one(kit: &impl Kit) {
    let s = Subject::new(kit, |it| {
        (it.hot_threshold, it.promotion_threshold) = (1, 1);
        (it.max_tracked, it.max_members_per_page, it.max_activity) = (1, 1, 1);
    })
    .await;
    let mut watch = s.0.watch().await.expect("events");
    assert_eq!(s.record("p", "a").await, PROMOTED);
    s.at(1);
    assert_eq!(s.record("p", "b").await, Recorded::Added);
    assert_eq!(s.record_at("p", "a", 0).await, Recorded::Counted);
    assert_eq!(s.record("p", "b").await, Recorded::Duplicate);
    assert_eq!(s.window("p").await, ["b@1"]);
    for (page, id) in [("q", "a"), ("q", "b"), ("r", "a"), ("q", "b")] {
        assert_eq!(s.record(page, id).await, Recorded::Rejected);
    }
    assert_eq!(s.record("q", "b").await, Recorded::Duplicate);
    let stats = s.stats("p").await;
    assert_eq!((stats.edits_last_hour, stats.unique_editors, stats.total_edits), (3, 1, 3));
    for kind in [EventKind::Promoted, EventKind::Trending] {
        let next = tokio::time::timeout(SOON, s.0.next(&mut watch)).await.expect("an event in time");
        assert_eq!(next.expect("an event").0, kind);
    }
    assert_eq!(s.metric("promotion_rejected_total").await, 4);
}

/// Hundreds of pages that are equally hot, whose names only tell them apart, over partitions.
pub async fn all_hot_pages_are_listed_page_by_page_each_once(kit: &impl Kit) {
    let s = Subject::new(kit, |it| (it.partitions, it.max_tracked) = (3, 1000)).await;
    let names: Vec<_> = (0..250).map(|i| format!("{}:{i}", ["en", "ä", "", "Z"][i % 4])).collect();
    s.fill(&names, 2).await;
    s.advance(5);
    s.fill(&names[..40], 3).await;
    let all = s.list_after(None, 1000).await;
    assert_eq!(all.len(), 250);
    for size in [1, 7, 100, 250, 251] {
        let mut paged = Vec::new();
        loop {
            let page = s.list_after(paged.last(), size).await;
            let is_last = page.len() < size;
            paged.extend(page);
            if is_last || paged.len() > all.len() {
                break;
            }
        }
        assert_eq!(paged, all, "by {size}");
    }
    // A place stays one when its page has gone elsewhere, or never was.
    let at = all[100].clone();
    s.record(&at.page, "another").await;
    assert_eq!(s.list_after(Some(&at), 5).await, all[101..106]);
    let nobody = HotPage::new("m", at.edits, at.last_seen);
    let behind =
        all.iter().filter(|it| (it.edits, it.last_seen, &it.page) < (at.edits, at.last_seen, &nobody.page));
    let behind: Vec<_> = behind.filter(|it| it.page != at.page).take(5).cloned().collect();
    assert_eq!(s.list_after(Some(&nobody), 5).await, behind);
    let (first, last) = (HotPage::new("m", MAX_COUNT, at.last_seen), HotPage::new("m", 0, at.last_seen));
    assert_eq!(s.list_after(Some(&first), 1000).await.len(), 250);
    assert_eq!(s.list_after(Some(&last), 1000).await, []);
}

/// As many as there are can be listed, however many are asked for.
pub async fn as_many_as_there_are_can_be_listed(kit: &impl Kit) {
    let s = Subject::new(kit, |_| {}).await;
    s.fill(&["p".to_owned(), "q".to_owned()], 2).await;
    for limit in [2, 3, 1_000_000, 1 << 53, usize::MAX] {
        assert_eq!(s.list(limit).await.len(), 2, "by {limit}");
    }
    assert_eq!(s.list(0).await, []);
}

/// Edits that are like `good`, and each wrong in one way; `long` is longer than any text may be.
pub fn wrong_edits<'a>(good: Edit<'a>, long: &'a str) -> [Edit<'a>; 8] {
    [
        Edit { page: Key::EVERYONE, ..good },
        Edit { id: "", ..good },
        Edit { id: "a\0b", ..good },
        Edit { id: long, ..good },
        Edit { editor: "a\0b", ..good },
        Edit { editor: long, ..good },
        Edit { byte_change: i64::MIN, ..good },
        Edit { byte_change: (1 << 52) + 1, ..good },
    ]
}

/// Wrong input is an error and changes nothing.
pub async fn wrong_input_is_an_error_and_changes_nothing(kit: &impl Kit) {
    let s = Subject::new(kit, |_| {}).await;
    let long = "x".repeat(256);
    assert_eq!(s.record("p", "first").await, Recorded::Remembered);
    let good = edit("p", "good");
    for edit in wrong_edits(good, &long) {
        let error = s.0.record(&edit).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{edit:?}: {error}");
    }
    assert!(!s.is_hot("p").await);
    let widest = "\u{10ffff}".repeat(63);
    let edge = Edit { id: &widest, editor: "", byte_change: -(1 << 52), ..good };
    assert_eq!(s.0.record(&edge).await.expect("an answer"), PROMOTED);
    assert_eq!(s.stats("p").await.last_byte_change, -(1 << 52));
    assert!(s.0.record_many(&[]).await.expect("an answer").is(&[]));
}
