use std::collections::HashMap;

use proptest::collection::vec;
use proptest::prelude::*;
use tidegate::random::Random;

use super::*;
use crate::worker::key::KeyHasher;

/// So many keys: all sizes that are promised if there is time. At 124,519, 498,074 and 1,992,295 a filter grows.
fn sizes() -> &'static [usize] {
    let all = &[10, 100, 1_000, 10_000, 130_000, 500_000, 1_000_000, 2_000_000];
    if std::env::var_os("TIDEGATE_LONG").is_some() { all } else { &all[..5] }
}

/// A filter, and the keys that it should have, as who rebuilds it has them.
struct Model {
    random: Random,
    /// Each as often as it was added.
    keys: Vec<u64>,
    filter: Filter,
    /// The most bytes per key, from 100,000 on.
    most_bytes: f64,
}

impl Model {
    fn new(seed: u64, filter: Filter) -> Self {
        Self { random: Random::seeded(seed), keys: Vec::new(), filter, most_bytes: 0.0 }
    }

    fn one_in(&self, many: u64) -> bool {
        self.random.bits().is_multiple_of(many)
    }

    fn any_place(&self) -> usize {
        (self.random.bits() % self.keys.len() as u64) as usize
    }

    /// A new one, or now and then one that is there.
    fn add_any(&mut self) {
        let key = if !self.keys.is_empty() && self.one_in(50) {
            self.keys[self.any_place()]
        } else {
            self.random.bits()
        };
        self.add(key);
    }

    fn add(&mut self, key: u64) {
        if self.filter.len() >= self.filter.capacity() {
            self.grow();
        }
        while self.filter.insert(key) == Err(Full) {
            self.grow();
        }
        self.keys.push(key);
        self.look_at_bytes();
    }

    fn remove_any(&mut self) {
        let key = self.keys.swap_remove(self.any_place());
        assert!(self.filter.remove(key));
        if self.filter.is_sparse() {
            self.filter = self.filter.halved().unwrap();
        }
        self.look_at_bytes();
    }

    /// A rebuild from the keys, which fingerprints would not be enough for.
    fn grow(&mut self) {
        let buckets = self.filter.buckets.len() * 2;
        assert_eq!(buckets_for(self.filter.capacity() + 1), buckets.max(MIN_BUCKETS), "as its users grow it");
        self.filter = Filter::with_buckets(buckets);
        self.keys.iter().for_each(|key| self.filter.insert(*key).unwrap());
    }

    fn look_at_bytes(&mut self) {
        if self.keys.len() >= 100_000 {
            let each = self.filter.bytes() as f64 / self.keys.len() as f64;
            assert!(each <= 4.5, "{each} bytes for each of {} keys", self.keys.len());
            self.most_bytes = self.most_bytes.max(each);
        }
    }

    /// By random steps, three of four of them in the right direction.
    fn walk_to(&mut self, goal: usize) {
        while self.keys.len() != goal {
            let is_detour = self.one_in(4);
            if self.keys.is_empty() || (self.keys.len() < goal) != is_detour {
                self.add_any();
            } else {
                self.remove_any();
            }
        }
    }

    fn check(&self) {
        assert_eq!(self.filter.len(), self.keys.len());
        let missed = self.keys.iter().filter(|key| !self.filter.contains(**key)).count();
        assert_eq!(missed, 0, "missed of {} keys", self.keys.len());
    }
}

/// How many of a million absent keys are found, of 100.
fn false_positives(filter: &Filter) -> f64 {
    const ABSENT: usize = 1_000_000;
    // Of another sequence than any model's: hardly one of them is there after all.
    let random = Random::seeded(0xA85E_47FF);
    (0..ABSENT).filter(|_| filter.contains(random.bits())).count() as f64 * 100.0 / ABSENT as f64
}

#[test]
fn no_key_is_missed_at_any_size_and_few_that_are_absent_are_found() {
    for (seed, size) in sizes().iter().enumerate() {
        let mut model = Model::new(seed as u64, Filter::with_capacity(0));
        for part in [1, 3, 6, 8, 4, 8, 5, 1, 0] {
            model.walk_to(size * part / 8);
            model.check();
        }
        // As full as it is before it grows.
        model.walk_to(size / 2);
        while model.keys.len() < *size || model.filter.len() < model.filter.capacity() {
            model.add_any();
        }
        model.check();
        let found = false_positives(&model.filter);
        println!(
            "{} keys: {found:.4} % of absent ones found, at most {:.2} bytes each",
            model.keys.len(),
            model.most_bytes
        );
        assert!(found < 0.1, "{found} % of absent keys are found");
    }
}

/// Hashes as they come from hosts and paths do as well as random numbers.
#[test]
fn hosts_and_paths_are_as_good_as_random_keys() {
    let hasher = KeyHasher::random();
    let hosts: Vec<_> = (0..20).map(|host| hasher.host(&format!("{host}.example.com"))).collect();
    let keys = |path: String| {
        let path = hasher.path(&path);
        hosts.iter().map(|host| path.of_host(*host)).collect::<Vec<_>>()
    };
    let mut filter = Filter::with_buckets(MIN_BUCKETS * 16);
    let there: Vec<_> =
        (0..).flat_map(|it: u32| keys(format!("/there/{it}"))).take(filter.capacity()).collect();
    there.iter().for_each(|key| filter.insert(*key).unwrap());
    assert!(there.iter().all(|key| filter.contains(*key)));
    let found = (0..50_000)
        .flat_map(|it: u32| keys(format!("/absent/{it}")))
        .filter(|key| filter.contains(*key))
        .count();
    assert!(found < 1_000, "{found} of a million absent keys are found");
}

#[test]
fn a_full_filter_says_so_and_has_lost_nothing() {
    for size in sizes() {
        let mut model = Model::new(*size as u64, Filter::with_capacity(*size));
        // More than there is room for, whatever is where.
        let slots = model.filter.buckets.len() * SLOTS;
        for attempt in 0..slots + 4 {
            let key = model.random.bits();
            let before = (attempt >= slots).then(|| model.filter.clone());
            match model.filter.insert(key) {
                Ok(()) => model.keys.push(key),
                Err(Full) => assert!(before.is_none_or(|before| before == model.filter), "it has changed"),
            }
        }
        model.check();
        let taken = model.keys.len();
        println!("{taken} of {slots} slots, {:.2} %", taken as f64 * 100.0 / slots as f64);
        assert!(model.filter.len() > model.filter.capacity(), "less than it was made for");
        // What was refused has left no trace either.
        for key in std::mem::take(&mut model.keys) {
            assert!(model.filter.remove(key));
        }
        assert!(model.filter.buckets.iter().all(|it| *it == 0));
    }
}

#[test]
fn there_is_room_for_what_it_was_made_for() {
    for seed in 0..400 {
        // The smallest of all: chance weighs most there.
        let mut filter = Filter::with_capacity(0);
        let random = Random::seeded(seed);
        let size = filter.capacity();
        assert!(
            (0..size).all(|_| filter.insert(random.bits()).is_ok()),
            "no room for {size} keys, seed {seed}"
        );
        assert_eq!((filter.bytes(), filter.len()), (Filter::bytes_for(size), size));
    }
}

#[test]
fn a_key_is_there_as_often_as_it_was_added() {
    for buckets in [2, 4, MIN_BUCKETS] {
        let mut filter = Filter::with_buckets(buckets);
        // The fingerprint of an empty slot is nobody's.
        for key in [0, u64::MAX, 0x0001_0000_0000_0000] {
            assert!(!filter.contains(key));
            assert!((0..8).all(|_| filter.insert(key).is_ok()));
            let full = filter.clone();
            assert_eq!(filter.insert(key), Err(Full), "a ninth copy");
            assert_eq!(filter, full);
            for _ in 0..8 {
                assert!(filter.contains(key));
                assert!(filter.remove(key));
            }
            assert!(!filter.contains(key) && filter.is_empty());
            assert!(!filter.remove(key), "a ninth copy");
        }
    }
}

/// Who removes what was never added finds out, nearly always; not always, which is why only what was added may be.
#[test]
fn removing_what_is_absent_says_so() {
    let mut model = Model::new(0, Filter::with_capacity(10_000));
    model.walk_to(10_000);
    let absent = Random::seeded(1);
    let mut taken_for_another = 0;
    for _ in 0..100_000 {
        let key = absent.bits();
        let (is_found, before) = (model.filter.contains(key), model.filter.len());
        assert_eq!(model.filter.remove(key), is_found);
        assert_eq!(model.filter.len(), before - usize::from(is_found));
        if is_found {
            // Whose copy it was does not matter: they are alike.
            model.filter.insert(key).unwrap();
            taken_for_another += 1;
        }
    }
    assert!(taken_for_another < 100, "{taken_for_another} of 100,000 took the copy of another key");
    model.check();
}

#[derive(Debug, Clone, Copy)]
enum Op {
    Add(usize),
    Remove(usize),
    Grow,
    Halve,
}

/// Of so few keys that most are there, some of them often, in a filter that is full most of the time.
const KEYS: usize = 24;

fn ops() -> impl Strategy<Value = Op> {
    prop_oneof![
        12 => (0..KEYS).prop_map(Op::Add),
        10 => (0..KEYS).prop_map(Op::Remove),
        1 => Just(Op::Grow),
        2 => Just(Op::Halve),
    ]
}

proptest! {
    #[test]
    fn every_copy_is_kept_through_adds_removals_and_rebuilds(seed: u64, ops in vec(ops(), 1..400)) {
        let random = Random::seeded(seed);
        let keys: Vec<_> = (0..KEYS).map(|_| random.bits()).collect();
        let mut filter = Filter::with_buckets(8);
        let mut copies: HashMap<u64, usize> = HashMap::new();
        for op in ops {
            match op {
                Op::Add(at) => {
                    let before = filter.clone();
                    match filter.insert(keys[at]) {
                        Ok(()) => *copies.entry(keys[at]).or_default() += 1,
                        Err(Full) => prop_assert_eq!(&filter, &before),
                    }
                }
                Op::Remove(at) => {
                    if let Some(copies) = copies.get_mut(&keys[at]).filter(|it| **it > 0) {
                        prop_assert!(filter.remove(keys[at]));
                        *copies -= 1;
                    }
                }
                Op::Grow if filter.buckets.len() < 64 => {
                    let mut larger = Filter::with_buckets(filter.buckets.len() * 2);
                    let all = copies.iter().flat_map(|(key, copies)| std::iter::repeat_n(*key, *copies));
                    if all.map(|key| larger.insert(key)).all(|it| it.is_ok()) {
                        filter = larger;
                    }
                }
                Op::Grow => {}
                Op::Halve => filter = filter.halved().unwrap_or(filter),
            }
            prop_assert_eq!(filter.len(), copies.values().sum::<usize>());
            for (key, copies) in &copies {
                prop_assert!(*copies == 0 || filter.contains(*key));
            }
        }
        for (key, copies) in copies {
            for _ in 0..copies {
                prop_assert!(filter.remove(key));
            }
        }
        prop_assert!(filter.buckets.iter().all(|it| *it == 0), "each copy was there once");
    }
}
