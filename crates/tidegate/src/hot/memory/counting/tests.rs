//! That the running sum of bytes is the sum, and that everything is where it belongs.

use super::*;
use crate::bounds::WhenFull;
use crate::hot::HotOptions;

/// Goes through everything there is.
fn recount(partition: &Counting) -> usize {
    let activities: usize = partition.activities.iter().map(Remembered::bytes).sum();
    let pages: usize = partition.pages.iter().map(hot_bytes).sum();
    activities + pages + partition.events.recount()
}

fn check(partition: &Counting) {
    for page in partition.pages.iter() {
        assert!(std::ptr::eq(partition.hot(page.name_text()).unwrap(), page));
    }
    let activities = partition.activities.iter().count();
    assert_eq!(partition.table.len(), activities + partition.pages.len());
    partition.pages.check(partition.grid);
}

/// Whatever happens, by a generator whose numbers follow from the last.
#[test]
fn bytes_are_what_a_recount_finds_after_every_step() {
    let mut options = HotOptions::new().max_tracked(200).max_activity(300).max_members_per_page(0);
    for round in 0..6_u64 {
        options.when_full = if round % 2 == 0 { WhenFull::Refuse } else { WhenFull::ReplaceColdest };
        options.hot_threshold = 1 + round as u32 % 3 * 10;
        let mut bounds = options.bounds();
        bounds.max_bytes = if round < 3 { 8 << 20 } else { 150_000 };
        let mut partition = Counting::new(bounds);
        let (mut now_ms, mut random) = (1_700_000_000_000, round + 1);
        let mut next = move |below: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % below
        };
        for step in 0..4000 {
            now_ms = now_ms + next(20_000) - if next(50) == 0 { next(9_000_000) } else { 0 };
            let number = next(300) * next(4);
            let page = format!("{number}{}", "x".repeat((number * 7 % 60) as usize));
            partition.count(now_ms, &page, 1 + next(40) * next(1000));
            if next(40) == 0 {
                partition.cleanup(now_ms, 10);
            }
            if next(20) == 0 {
                partition.list(now_ms, None, 3);
            }
            if next(50) == 0 {
                partition.remove(now_ms, &page);
            }
            assert_eq!(partition.bytes(), recount(&partition), "round {round}, step {step}");
            assert!(partition.bytes() <= bounds.max_bytes, "round {round}, step {step}");
            check(&partition);
        }
    }
}

/// With a name of 20 bytes, eight slots of an hour's window in use, and counts in each of the last half minutes.
#[test]
fn a_hot_page_takes_no_more_than_160_bytes() {
    let options = HotOptions::new().max_members_per_page(0).hot_threshold(1);
    let mut partition = Counting::new(options.bounds());
    let (name, empty) = ("en:A page of 1234567", partition.bytes());
    for half_minute in 0..17 {
        partition.count(1_700_000_000_000 + half_minute * 30_000, name, 1000 + half_minute);
    }
    let page = partition.hot(name).unwrap();
    assert_eq!(partition.grid.grain_ms(), 65_536);
    assert_eq!(page.edits(1_700_000_480_000, partition.grid), 17 * 1000 + 16 * 17 / 2);
    assert_eq!(partition.bytes() - empty - partition.events.bytes(), hot_bytes(page));
    assert!(hot_bytes(page) <= 160, "{}", hot_bytes(page));
}
