use super::*;
use crate::key::Key;
use crate::metrics::Metrics;

const GATHER: Duration = Duration::from_millis(100);

fn gatherer(metrics: &Metrics, pages: usize, bytes: usize) -> Gatherer {
    Gatherer::bounded("pages", 1, GATHER, GatherMetrics::new(metrics, "pages"), (pages, bytes))
}

fn add(gatherer: &Gatherer, page: &str, count: u64, ms: u64) -> Added {
    let count = Count::new(Key::new(page).expect("a page"), count);
    gatherer.add(0, count, Duration::from_millis(ms))
}

/// All batches, as number, and pages with their counts.
fn batches(sending: &Sending) -> Vec<(u64, Vec<(&str, u64)>)> {
    sending
        .batches
        .iter()
        .map(|it| (it.number, it.pages.iter().map(|(page, count)| (page.as_str(), *count)).collect()))
        .collect()
}

fn lost(metrics: &Metrics) -> Vec<u64> {
    let mut registry = prometheus_client::registry::Registry::default();
    metrics.register(&mut registry);
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).expect("text");
    let of = |why: &str| {
        let row = format!("tidegate_hot_lost_counts_total{{space=\"pages\",why=\"{why}\"}} ");
        let value = text.lines().find_map(|line| line.strip_prefix(&row)).expect("a row");
        value.parse().expect("a number")
    };
    ["dropped", "unknown", "failed"].map(of).into()
}

#[test]
fn counts_are_added_up_and_sent_in_the_order_of_names_and_numbers() {
    let metrics = Metrics::default();
    let gatherer = gatherer(&metrics, 9, 9999);
    let mut sending = Sending::default();
    for (page, count) in [("b", 1), ("a", 2), ("b", 5)] {
        assert_eq!(add(&gatherer, page, count, 0), Added::Gathered);
    }
    gatherer.take(0, &mut sending);
    add(&gatherer, "b", 7, 1);
    add(&gatherer, "b", 1, 1);
    gatherer.take(0, &mut sending);
    assert_eq!(batches(&sending), [(1, vec![("a", 2), ("b", 6)])], "what comes meanwhile is added up");
    // What is not answered for stays as it is.
    for _ in 0..2 {
        assert_eq!(gatherer.next(&mut sending, Duration::ZERO).expect("a batch").number, 1);
    }
    gatherer.done(&mut sending);
    gatherer.take(0, &mut sending);
    assert_eq!(batches(&sending), [(2, vec![("b", 8)])]);
    gatherer.done(&mut sending);
    assert!(gatherer.next(&mut sending, Duration::ZERO).is_none());
    assert_eq!((gatherer.waiting(), gatherer.bytes.load(Ordering::Relaxed)), (0, 0));
    assert_eq!(lost(&metrics), [0, 0, 0]);
}

#[test]
fn no_more_pages_and_bytes_wait_than_may_and_known_pages_always_count() {
    let metrics = Metrics::default();
    for (pages, bytes) in [(2, 9999), (9999, 2 * (PAGE_BYTES + 1))] {
        let gatherer = gatherer(&metrics, pages, bytes);
        let mut sending = Sending::default();
        assert_eq!(add(&gatherer, "a", 1, 0), Added::Gathered);
        assert_eq!(add(&gatherer, "b", 1, 0), Added::Gathered);
        assert_eq!(add(&gatherer, "c", 1, 0), Added::Full);
        assert_eq!(add(&gatherer, "b", 1, 0), Added::Gathered);
        gatherer.take(0, &mut sending);
        assert_eq!(add(&gatherer, "c", 1, 0), Added::Full, "what is on its way takes room");
        gatherer.done(&mut sending);
        assert_eq!(add(&gatherer, "c", 1, 0), Added::Gathered);
        gatherer.close();
        assert_eq!(add(&gatherer, "c", 1, 0), Added::Closed);
        gatherer.take(0, &mut sending);
        gatherer.done(&mut sending);
    }
    assert_eq!(lost(&metrics), [0, 0, 0]);
}

/// Counts that are a minute late would be counted as of a time when they were not; what was sent may have been counted.
/// What came later than a stretch before that is kept, however much waited in front of it.
#[test]
fn what_could_not_be_sent_for_too_long_is_given_up_and_nothing_younger_than_a_minute() {
    let metrics = Metrics::default();
    let gatherer = gatherer(&metrics, 99, 9999);
    let mut sending = Sending::default();
    let ms = Duration::from_millis;
    add(&gatherer, "a", 3, 1000);
    gatherer.take(0, &mut sending);
    for at in [2000, 11_999, 12_000, 71_000] {
        add(&gatherer, "b", at, at);
    }
    gatherer.next(&mut sending, ms(71_000)).expect("a batch").was_sent = true;
    assert_eq!((lost(&metrics), sending.lost), (vec![0, 0, 0], 0));
    assert!(gatherer.next(&mut sending, ms(71_001)).is_none());
    assert_eq!((lost(&metrics), sending.lost), (vec![0, 3, 0], 3));
    gatherer.take(0, &mut sending);
    assert_eq!(
        batches(&sending),
        [(2, vec![("b", 13_999)]), (3, vec![("b", 12_000)]), (4, vec![("b", 71_000)])],
        "of ten seconds each, the oldest first"
    );
    assert_eq!(gatherer.waiting(), 3);
    // The youngest of what is given up is a minute old.
    assert_eq!(gatherer.next(&mut sending, ms(72_000)).expect("a batch").number, 2);
    assert_eq!(gatherer.next(&mut sending, ms(72_001)).expect("a batch").number, 3);
    assert_eq!(lost(&metrics), [13_999, 3, 0]);
    let next = gatherer.next(&mut sending, ms(141_000)).expect("a batch");
    assert_eq!((next.number, next.was_sent), (4, false));
    assert!(gatherer.next(&mut sending, ms(141_001)).is_none());
    assert_eq!((lost(&metrics), sending.lost), (vec![96_999, 3, 0], 97_002));
    assert_eq!((gatherer.waiting(), gatherer.bytes.load(Ordering::Relaxed)), (0, 0));
    // And what nobody is left to send.
    add(&gatherer, "c", 4, 0);
    drop(gatherer);
    assert_eq!(lost(&metrics), [97_003, 3, 0]);
}

/// A page that waits takes more counts also where there is no room for it in another stretch: with those that it has.
#[test]
fn where_there_is_no_room_counts_join_those_that_wait() {
    let metrics = Metrics::default();
    let gatherer = gatherer(&metrics, 3, 9999);
    let mut sending = Sending::default();
    for (page, at) in [("a", 0), ("b", 0), ("a", 10_000), ("b", 10_000), ("a", 20_000)] {
        assert_eq!(add(&gatherer, page, 1, at), Added::Gathered, "{page} at {at}");
    }
    assert_eq!(add(&gatherer, "c", 1, 20_000), Added::Full);
    gatherer.take(0, &mut sending);
    assert_eq!(batches(&sending), [(1, vec![("a", 1), ("b", 2)]), (2, vec![("a", 2)])]);
    (0..2).for_each(|_| gatherer.done(&mut sending));
}

/// What is gathered for longer than a stretch is one batch all the same.
#[test]
fn what_is_gathered_for_long_is_one_batch() {
    let metrics = Metrics::default();
    let metrics = GatherMetrics::new(&metrics, "pages");
    let gatherer = Gatherer::new("pages", 1, Duration::from_secs(60), metrics);
    let mut sending = Sending::default();
    (0..60).for_each(|second| assert_eq!(add(&gatherer, "a", 1, second * 1000), Added::Gathered));
    gatherer.take(0, &mut sending);
    assert_eq!(batches(&sending), [(1, vec![("a", 60)])]);
    gatherer.done(&mut sending);
}

#[test]
fn a_batch_has_no_more_pages_than_a_script_may_take() {
    let metrics = Metrics::default();
    let gatherer = gatherer(&metrics, 9999, 999_999);
    let mut sending = Sending::default();
    (0..2 * MAX_EDITS + 1).for_each(|n| assert_eq!(add(&gatherer, &format!("p{n}"), 1, 0), Added::Gathered));
    gatherer.take(0, &mut sending);
    let sizes: Vec<_> = sending.batches.iter().map(|it| (it.number, it.pages.len())).collect();
    assert_eq!(sizes, [(1, MAX_EDITS), (2, MAX_EDITS), (3, 1)]);
    (0..3).for_each(|_| gatherer.done(&mut sending));
}
