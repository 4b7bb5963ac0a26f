//! That the running sum of bytes is the sum.

use super::*;
use crate::hot::{HotOptions, WhenFull};
use crate::key::Key;

/// Goes through everything there is.
fn recount(partition: &Partition) -> usize {
    let entry = |(name, entry): (&CompactString, &Entry)| match entry {
        Entry::Activity(it) => activity_bytes(name) + it.edits.iter().map(Member::bytes).sum::<usize>(),
        Entry::Hot(page) => entry_bytes(name) + page.bytes(),
    };
    partition.pages.iter().map(entry).sum::<usize>() + partition.events.iter().map(event_bytes).sum::<usize>()
}

/// Whatever happens, by a generator whose numbers follow from the last.
#[test]
fn bytes_are_what_a_recount_finds_after_every_step() {
    let mut options = HotOptions::default();
    (options.max_tracked, options.max_activity, options.max_members_per_page) = (200, 300, 12);
    for round in 0..6_u64 {
        options.when_full = if round % 2 == 0 { WhenFull::Reject } else { WhenFull::ReplaceColdest };
        options.hot_threshold = 1 + round as u32 % 3;
        let mut bounds = options.bounds();
        bounds.max_bytes = if round < 3 { 8 << 20 } else { 400_000 };
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
            assert_eq!(partition.bytes, recount(&partition), "round {round}, step {step}");
            assert!(partition.bytes <= bounds.max_bytes, "round {round}, step {step}");
            assert!(partition.queue.len() as u64 <= 2 * partition.activities + 1001, "round {round}");
        }
    }
}
