//! The table under floods, races and clocks that were wrong.

use super::*;

#[derive(Default)]
struct Until(u64);

impl Entry for Until {
    type Context = ();
    fn end_ms(&self, (): &()) -> u64 {
        self.0
    }
    fn is_absurd(&self, (): &(), now_ms: u64) -> bool {
        self.0 > now_ms + 1_000_000
    }
}

fn put(table: &Table<Until>, key: &str, until: u64, now: u64) -> bool {
    let change = |entry: &mut Until, _: u32, (): &mut ()| {
        entry.0 = until;
        ((), true)
    };
    matches!(table.upsert(key, Timestamp::from_millis(now), &(), change), Lookup::Found(()))
}

#[test]
fn the_cap_holds_and_only_what_is_over_makes_room() {
    let table = Table::new(1000, 0);
    for i in 0..1000 {
        assert!(put(&table, &format!("k{i}"), 100 + i, 0));
    }
    assert!(!put(&table, "late", 5000, 99), "nothing is over at 99");
    assert!(put(&table, "late", 5000, 100), "k0 is over at 100");
    assert_eq!(table.len(), 1000);
    assert!(put(&table, "k999", 9000, 100), "a known key needs no room");
    assert!(!put(&table, "later", 5000, 100));
}

#[test]
fn a_used_entry_outlives_its_first_due_time() {
    let table = Table::new(10, 0);
    assert!(put(&table, "a", 100, 0));
    assert!(put(&table, "a", 300, 50));
    assert_eq!(table.sweep(Timestamp::from_millis(200), 10, &()), Swept { looked_at: 1, dropped: 0 });
    assert!(table.get("a", |_| ()).is_some());
    assert_eq!(table.sweep(Timestamp::from_millis(300), 10, &()), Swept { looked_at: 1, dropped: 1 });
    assert!(table.get("a", |_| ()).is_none());
    assert_eq!(table.len(), 0);
}

#[test]
fn memory_comes_back_after_a_flood() {
    let table = Table::new(200_000, 0);
    for i in 0..100_000 {
        assert!(put(&table, &format!("k{i}"), if i % 100 == 0 { 1000 } else { 10 }, 0));
    }
    assert_eq!(table.sweep(Timestamp::from_millis(10), usize::MAX, &()).dropped, 99_000);
    let slots: usize = table
        .shards
        .iter()
        .map(|shard| shard.slots.lock().chunks.iter().map(Vec::capacity).sum::<usize>())
        .sum();
    assert!(slots <= 1000 + table.shards.len() * SMALL, "{slots} slots for 1000 keys");
    for i in (0..100_000).step_by(100) {
        assert!(table.get(&format!("k{i}"), |entry| assert_eq!(entry.0, 1000)).is_some());
    }
}

/// Keys that are used all the time are indexed by an end they had long ago.
/// They must not keep those that are over from being found.
#[test]
fn busy_keys_do_not_hide_idle_ones() {
    let table = Table::new(10_000, 0);
    for i in 0..10_000 {
        assert!(put(&table, &format!("k{i}"), 100, 0));
    }
    for i in 0..9_900 {
        assert!(put(&table, &format!("k{i}"), 5000, 50));
    }
    for i in 0..100 {
        let key = format!("new{i}");
        let tries = (1..200).find(|_| put(&table, &key, 5000, 100));
        assert!(tries.is_some_and(|tries| tries <= 20), "{key}: {tries:?} tries");
    }
    assert_eq!(table.len(), 10_000);
    assert!(!put(&table, "one more", 5000, 100));
}

#[test]
fn whoever_adds_clears_away() {
    let table = Table::new(1_000_000, 0);
    for i in 0..100_000_u64 {
        assert!(put(&table, &format!("k{i}"), i + 1000, i));
    }
    assert!(table.len() < 5000, "{} keys, of which a thousand count", table.len());
}

#[test]
fn what_a_wrong_clock_left_makes_room() {
    let table = Table::new(100, 0);
    for i in 0..100 {
        assert!(put(&table, &format!("k{i}"), 50_000_000, 49_999_000));
    }
    assert!(put(&table, "now", 2000, 1000));
    assert!(table.len() <= 100);
}

#[test]
fn keys_are_compared_in_full() {
    let long = "x".repeat(40);
    for key in ["a", "abcdefg", "abcdefgh", "abcdefghi", "abcdefghijklmnop", "abcdefghijklmnopq", &long] {
        assert!(same(key, key));
        for at in 0..key.len() {
            let other: String = key.char_indices().map(|(i, c)| if i == at { '!' } else { c }).collect();
            assert!(!same(key, &other), "{key} {other}");
        }
        assert!(!same(key, &format!("{key}!")));
    }
}

/// Threads that race for the last places never get more than there are.
#[test]
fn the_cap_holds_under_a_race() {
    let table = Table::new(500, 0);
    let admitted: usize = std::thread::scope(|scope| {
        let racers: Vec<_> = (0..4)
            .map(|racer| {
                let table = &table;
                scope.spawn(move || (0..1000).filter(|i| put(table, &format!("{racer}-{i}"), 100, 0)).count())
            })
            .collect();
        racers.into_iter().map(|racer| racer.join().unwrap()).sum()
    });
    assert_eq!((admitted, table.len()), (500, 500));
}
