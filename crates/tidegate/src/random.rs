//! Chance, in one place: so that a test can choose it.

use std::cell::Cell;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;

use parking_lot::Mutex;

/// Where a limit that decides by chance takes it from.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub enum Random {
    /// A generator of each thread, seeded by the system.
    #[default]
    System,
    /// A sequence that a test chose. Clones go on in the same sequence.
    Seeded(Arc<Mutex<u64>>),
}

thread_local! {
    static STATE: Cell<u64> = Cell::new(RandomState::new().hash_one("tidegate"));
}

impl Random {
    /// The sequence of `seed`, the same every time.
    pub fn seeded(seed: u64) -> Self {
        Self::Seeded(Arc::new(Mutex::new(seed)))
    }

    /// The next number of the sequence, all bits alike.
    pub fn bits(&self) -> u64 {
        match self {
            Self::System => STATE.with(|state| {
                let mut next = state.get();
                let bits = advance(&mut next);
                state.set(next);
                bits
            }),
            Self::Seeded(state) => advance(&mut state.lock()),
        }
    }

    /// A number of [0, 1), with the 53 bits that fit.
    pub fn draw(&self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// SplitMix64: a counter, well mixed.
fn advance(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut bits = *state;
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_even_and_a_seed_repeats_itself() {
        for random in [Random::System, Random::seeded(7)] {
            let mut tenths = [0; 10];
            for _ in 0..100_000 {
                tenths[(random.draw() * 10.0) as usize] += 1;
            }
            assert!(tenths.iter().all(|count| (9_500..10_500).contains(count)), "{tenths:?}");
        }
        let (one, other) = (Random::seeded(1), Random::seeded(1));
        assert!((0..100).all(|_| one.bits() == other.bits()));
        assert_ne!(Random::seeded(1).bits(), Random::seeded(2).bits());
    }
}
