//! How often something is there, beside a list that is strictly in the order of last use.

use super::*;

const KEYS: usize = 100_000;
const REQUESTS: usize = 300_000;

/// Chance, the same each time.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}

/// Keys, each the less often the later it comes, by Zipf's law with that exponent.
fn requests(exponent: f64) -> Vec<usize> {
    let mut sum = 0.0;
    let sums: Vec<f64> = (1..=KEYS)
        .map(|rank| {
            sum += (rank as f64).powf(-exponent);
            sum
        })
        .collect();
    let mut chance = Chance(1);
    let mut request = || {
        let drawn = chance.next() as f64 / u64::MAX as f64 * sum;
        sums.partition_point(|&it| it < drawn).min(KEYS - 1)
    };
    (0..REQUESTS).map(|_| request()).collect()
}

/// Least recently used, as a list in an array.
struct Lru {
    before: Vec<usize>,
    after: Vec<usize>,
    is_there: Vec<bool>,
    len: usize,
    room: usize,
}

impl Lru {
    fn new(room: usize) -> Self {
        let ring: Vec<_> = (0..=KEYS).collect();
        Self { before: ring.clone(), after: ring, is_there: vec![false; KEYS], len: 0, room }
    }

    fn unlink(&mut self, key: usize) {
        let (before, after) = (self.before[key], self.after[key]);
        (self.after[before], self.before[after]) = (after, before);
    }

    /// Whether it was there; it is now. `KEYS` is where the list begins and ends.
    fn ask(&mut self, key: usize) -> bool {
        let was_there = self.is_there[key];
        if was_there {
            self.unlink(key);
        } else if self.len == self.room {
            let oldest = self.before[KEYS];
            self.unlink(oldest);
            self.is_there[oldest] = false;
        } else {
            self.len += 1;
        }
        let newest = self.after[KEYS];
        (self.before[key], self.after[key]) = (KEYS, newest);
        (self.after[KEYS], self.before[newest]) = (key, key);
        self.is_there[key] = true;
        was_there
    }
}

/// What so many take that are there with nobody having left.
fn bytes_of(count: usize) -> usize {
    let mut cache = Cache::new(count * 125, 1);
    (0..count).for_each(|number| assert_eq!(cache.put(number, |_| ()).evicted, 0));
    cache.bytes()
}

#[test]
fn it_has_what_is_asked_for_as_often_as_the_order_of_last_use() {
    let mut failed = Vec::new();
    for room in [KEYS / 100, KEYS / 10] {
        let bound_bytes = bytes_of(room);
        for exponent in [0.8, 0.99, 1.2] {
            let mut cache = Cache::new(bound_bytes, 1000);
            let mut lru = Lru::new(room);
            let (mut hits, mut lru_hits) = (0, 0);
            let requests = requests(exponent);
            for (turn, &key) in requests.iter().enumerate() {
                let hit = cache.hit(key).is_some();
                if !hit {
                    let _ = cache.put(key, |_| ());
                }
                let lru_hit = lru.ask(key);
                // From when on both are full.
                if turn >= REQUESTS / 3 {
                    hits += usize::from(hit);
                    lru_hits += usize::from(lru_hit);
                }
            }
            let ratio = hits as f64 / lru_hits as f64;
            let rate = |hits: usize| hits as f64 / (REQUESTS * 2 / 3) as f64;
            let line = format!(
                "room for {room}, exponent {exponent}: {:.4}, by last use {:.4}, ratio {ratio:.3}",
                rate(hits),
                rate(lru_hits),
            );
            println!("{line}");
            if ratio < 0.98 {
                failed.push(line);
            }
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
}
