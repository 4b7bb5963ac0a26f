//! That the running sum of bytes is the sum, and that everything is where it belongs.

use super::member::Member;
use super::*;
use crate::bounds::WhenFull;
use crate::clock::Timestamp;
use crate::hot::HotOptions;
use crate::hot::edit::Edit;
use crate::key::Key;

/// Goes through everything there is.
fn recount(partition: &Partition) -> usize {
    let activities: usize = partition.activities.iter().map(|it| PLACE + it.bytes()).sum();
    let pages: usize = partition.pages.iter().map(|it| PLACE + PLACES + it.bytes()).sum();
    activities + pages + partition.events.recount()
}

/// Everything can be found, and in order.
fn check(partition: &Partition) {
    let mut order = Vec::new();
    for activity in partition.activities.iter() {
        let found = partition.find(activity.hash, activity.name_text());
        let Some(At::Activity(at)) = found else { panic!("{found:?}") };
        assert!(std::ptr::eq(partition.activities.get(at), activity));
        order.push(at);
    }
    for page in partition.pages.iter() {
        let found = partition.hot(&page.name).and_then(|at| partition.pages.get(at)).unwrap();
        assert!(std::ptr::eq(found, page));
    }
    assert_eq!(partition.table.len(), order.len() + partition.pages.len());
    let linked: Vec<_> = partition.activities.in_order().collect();
    order.sort();
    let mut sorted = linked.clone();
    sorted.sort();
    assert_eq!(order, sorted);
    partition.pages.check(partition.bounds.window_ms);
}

/// Whatever happens, by a generator whose numbers follow from the last.
#[test]
fn bytes_are_what_a_recount_finds_after_every_step() {
    let mut options = HotOptions::default();
    (options.max_tracked, options.max_activity, options.max_members_per_page) = (200, 300, 12);
    for round in 0..6_u64 {
        options.when_full = if round % 2 == 0 { WhenFull::Refuse } else { WhenFull::ReplaceColdest };
        options.hot_threshold = 1 + round as u32 % 3;
        let mut bounds = options.bounds();
        bounds.max_bytes = if round < 3 { 8 << 20 } else { 300_000 };
        let mut partition = Partition::new(bounds);
        let (mut now_ms, mut random) = (1_700_000_000_000, round + 1);
        let mut next = move |below: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % below
        };
        for step in 0..4000 {
            now_ms = now_ms + next(20_000) - if next(50) == 0 { next(9_000_000) } else { 0 };
            let text = |number: u64| format!("{number}{}", "x".repeat((number * 7 % 60) as usize));
            let (page, id, editor) = (text(next(300) * next(4)), text(next(400)), text(next(90)));
            let at = Timestamp::from_millis(now_ms - next(1_000_000));
            let edit = Edit { at: Some(at), ..Edit::new(Key::new(&page).unwrap(), &id, &editor) };
            partition.record(now_ms, &edit);
            if next(10) == 0 {
                partition.stats(now_ms, &page);
            }
            if next(40) == 0 {
                partition.cleanup(now_ms, 10);
            }
            if next(20) == 0 {
                partition.list(now_ms, None, 3);
            }
            assert_eq!(partition.bytes(), recount(&partition), "round {round}, step {step}");
            assert!(partition.bytes() <= bounds.max_bytes, "round {round}, step {step}");
            check(&partition);
        }
    }
}

/// One that comes with few allocations, or none.
#[test]
fn what_most_pages_take_is_two_cache_lines() {
    assert_eq!(size_of::<Activity>(), 128);
    assert_eq!(size_of::<Member>(), 48);
}
