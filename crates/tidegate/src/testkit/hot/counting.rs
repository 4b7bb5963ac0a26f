//! Spaces that only count: how long a count counts, what is no count, and many at once.

use super::cases::{HOUR, MINUTE, PROMOTED, Subject, edit};
use super::{Face, Kit, START_MS};
use crate::error::ErrorKind;
use crate::hot::{Count, HotOptions, MAX_AT_ONCE, Recorded, Stats, WhenFull};
use crate::key::Key;

/// A slot of an hour in sixty, rounded up to a power of two.
const GRAIN: u64 = 65_536;

/// The most that counts of a page at a time.
const MOST: u64 = (1 << 40) - 1;

async fn counting<F: Face>(kit: &impl Kit<Face = F>, set: impl FnOnce(&mut HotOptions)) -> Subject<F> {
    Subject::new(kit, |it| {
        (it.max_members_per_page, it.hot_threshold) = (0, 10);
        set(it);
    })
    .await
}

impl<F: Face> Subject<F> {
    async fn count(&self, page: &str, count: u64) -> Recorded {
        self.0.count(page, count).await.expect("an answer")
    }
}

/// A count counts until the end of its slot and the window, to the millisecond, and its page is hot for the window.
pub async fn a_count_counts_until_the_end_of_its_slot_and_the_window(kit: &impl Kit) {
    let s = counting(kit, |_| {}).await;
    assert_eq!(s.count("p", 9).await, Recorded::Remembered);
    assert_eq!((s.is_hot("p").await, s.tracked().await), (false, 0));
    assert_eq!(s.count("p", 3).await, PROMOTED);
    s.at(2 * GRAIN);
    assert_eq!(s.count("p", 5).await, Recorded::Counted);
    let stats = s.stats("p").await;
    let expected = Stats {
        is_hot: true,
        is_trending: true,
        edits_last_hour: 17,
        edits_last_5_minutes: 17,
        covered_ms: 2 * GRAIN,
        grain_ms: GRAIN,
        total_edits: 17,
        first_seen: crate::clock::Timestamp::from_millis(START_MS),
        last_seen: crate::clock::Timestamp::from_millis(START_MS + 2 * GRAIN),
        ..Stats::default()
    };
    assert_eq!(stats, expected);
    assert_eq!(s.window("p").await, Vec::<String>::new(), "no edit is kept");
    let end = GRAIN - 1 - START_MS % GRAIN;
    s.at(end + HOUR - 1);
    assert_eq!((s.stats("p").await.edits_last_hour, s.list(9).await[0].1), (17, 17));
    s.at(end + HOUR);
    assert_eq!((s.stats("p").await.edits_last_hour, s.list(9).await[0].1), (5, 5));
    s.at(2 * GRAIN + HOUR - 1);
    assert_eq!((s.is_hot("p").await, s.tracked().await), (true, 1));
    s.at(2 * GRAIN + HOUR);
    assert_eq!((s.is_hot("p").await, s.tracked().await), (false, 0));
}

/// Counts before a page is hot are remembered until the last millisecond of ten minutes.
pub async fn counts_before_a_page_is_hot_are_remembered_for_ten_minutes(kit: &impl Kit) {
    let s = counting(kit, |_| {}).await;
    for page in ["in time", "too late"] {
        assert_eq!(s.count(page, 9).await, Recorded::Remembered);
    }
    s.at(10 * MINUTE - 1);
    assert_eq!(s.count("in time", 1).await, PROMOTED);
    s.at(10 * MINUTE);
    assert_eq!(s.count("too late", 1).await, Recorded::Remembered);
    assert_eq!(s.count("too late", 9).await, PROMOTED, "the ten minutes began anew");
    assert_eq!(s.stats("too late").await.total_edits, 10);
}

/// What a space does not take, and counts that are none, are errors and change nothing.
pub async fn what_a_space_does_not_take_is_an_error_and_changes_nothing(kit: &impl Kit) {
    let s = counting(kit, |it| it.hot_threshold = 2).await;
    assert_eq!(s.count("p", 1).await, Recorded::Remembered);
    for count in [0, MAX_AT_ONCE + 1] {
        let error = s.0.count("p", count).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{count}: {error}");
    }
    let error = s.0.record(&edit("p", "an id")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert!(!s.is_hot("p").await);
    assert!(s.0.count_many(&[]).await.expect("an answer").is(&[]));
    assert_eq!(s.count("p", MAX_AT_ONCE).await, PROMOTED);
    assert_eq!(s.stats("p").await.total_edits, MAX_AT_ONCE + 1);
    let s = Subject::new(kit, |_| {}).await;
    assert_eq!(s.record("p", "first").await, Recorded::Remembered);
    let error = s.0.count("p", 1).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert!(!s.is_hot("p").await);
}

/// A batch comes to the same in any order, and however the counts of a page are split.
pub async fn a_batch_of_counts_comes_to_the_same_however_it_is_split(kit: &impl Kit) {
    let whole = [("a", 12), ("b", 9), ("c", 30), ("d", 10)];
    let split = [("d", 4), ("c", 1), ("a", 5), ("c", 29), ("b", 9), ("a", 7), ("d", 6)];
    let mut seen = Vec::new();
    for batch in [&whole[..], &split[..]] {
        let reversed: Vec<_> = batch.iter().rev().copied().collect();
        for batch in [batch.to_vec(), reversed] {
            let s = counting(kit, |it| it.max_tracked = 2).await;
            let key = |page| Key::new(page).expect("a page");
            let counts: Vec<_> = batch.iter().map(|(page, count)| Count::new(key(page), *count)).collect();
            // By name: there is room for the first two that are hot.
            let met = |page: &str| match page {
                "a" | "c" => PROMOTED,
                "b" => Recorded::Remembered,
                _ => Recorded::Rejected,
            };
            let expected: Vec<_> = batch.iter().map(|(page, _)| met(page)).collect();
            let counted = s.0.count_many(&counts).await.expect("an answer");
            assert!(counted.is(&expected), "{batch:?}: {counted:?}");
            assert_eq!(s.count("b", 1).await, Recorded::Rejected);
            seen.push((s.list(9).await, s.stats("a").await, s.stats("c").await));
        }
    }
    assert_eq!(seen[0].0, [("c".to_owned(), 30), ("a".to_owned(), 12)]);
    assert!(seen.iter().all(|it| *it == seen[0]), "{seen:?}");
}

/// A page beyond the bound is rejected and stays remembered; where it may, it replaces the coldest once it is hotter.
pub async fn a_counted_page_beyond_the_bound_is_rejected_or_replaces_the_coldest(kit: &impl Kit) {
    for when_full in [WhenFull::Refuse, WhenFull::ReplaceColdest] {
        let s = counting(kit, |it| (it.max_tracked, it.when_full) = (1, when_full)).await;
        assert_eq!(s.count("p", 20).await, PROMOTED);
        assert_eq!(s.count("q", 19).await, Recorded::Rejected);
        let replaces = when_full == WhenFull::ReplaceColdest;
        let met = match replaces {
            true => Recorded::Promoted { replaced: Some("p".to_owned()) },
            false => Recorded::Rejected,
        };
        assert_eq!(s.count("q", 2).await, met);
        let expected = if replaces { ("q".to_owned(), 21) } else { ("p".to_owned(), 20) };
        assert_eq!(s.list(9).await, [expected]);
    }
}

/// Beyond the most that counts of a page nothing is added, and it stays hot.
pub async fn counts_beyond_the_most_add_nothing(kit: &impl Kit) {
    let s = counting(kit, |_| {}).await;
    let page = Key::new("p").expect("a page");
    let counts = vec![Count::new(page, MAX_AT_ONCE); 1100];
    s.0.count_many(&counts).await.expect("an answer");
    assert_eq!(s.count("p", MAX_AT_ONCE).await, Recorded::Counted);
    s.at(HOUR / 2);
    assert_eq!(s.count("p", 1).await, Recorded::Counted);
    assert_eq!((s.stats("p").await.edits_last_hour, s.list(1).await[0].1), (MOST, MOST));
}
