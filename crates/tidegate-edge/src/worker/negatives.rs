//! Keys that the filter takes for known and the truth does not have, for a while: who asks for one again costs nothing.

use std::collections::{HashMap, VecDeque};

/// Keys that are remembered, at most.
const MOST: usize = 16_384;

/// What one may take: a table from which some have gone is up to four times as large, and half of the room in the order is free.
const KEY_BYTES: usize = 108;

/// Keys without a rule, by their hash, each until a time of the worker's.
#[derive(Debug)]
pub(crate) struct Negatives {
    until_ms: HashMap<u64, u64>,
    /// In the order in which they end, since all live equally long; those that were taken out are still here.
    order: VecDeque<(u64, u64)>,
    most: usize,
}

impl Negatives {
    /// In so many bytes.
    pub(crate) fn within(bytes: usize) -> Self {
        let most = (bytes / KEY_BYTES).clamp(1, MOST);
        Self { until_ms: HashMap::new(), order: VecDeque::new(), most }
    }

    pub(crate) fn contains(&self, hash: u64, elapsed_ms: u64) -> bool {
        !self.until_ms.is_empty() && self.until_ms.get(&hash).is_some_and(|until| elapsed_ms < *until)
    }

    pub(crate) fn insert(&mut self, hash: u64, until_ms: u64, elapsed_ms: u64) {
        while self.order.len() >= self.most
            || self.order.front().is_some_and(|(until, _)| *until <= elapsed_ms)
        {
            let Some((until, oldest)) = self.order.pop_front() else { break };
            if self.until_ms.get(&oldest) == Some(&until) {
                self.until_ms.remove(&oldest);
            }
        }
        self.until_ms.insert(hash, until_ms);
        self.order.push_back((until_ms, hash));
    }

    /// There is a rule of that key now.
    pub(crate) fn remove(&mut self, hash: u64) {
        self.until_ms.remove(&hash);
    }

    pub(crate) fn clear(&mut self) {
        (self.until_ms, self.order) = Default::default();
    }

    pub(crate) fn bytes(&self) -> usize {
        (self.until_ms.capacity() * 8 / 7 + self.order.capacity()) * size_of::<(u64, u64)>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_absent_for_a_while_or_until_it_is_there() {
        let mut negatives = Negatives::within(2 << 20);
        negatives.insert(1, 100, 0);
        negatives.insert(2, 150, 50);
        assert!(negatives.contains(1, 99) && !negatives.contains(1, 100));
        negatives.remove(2);
        assert!(!negatives.contains(2, 60));
        negatives.insert(2, 160, 60);
        assert!(negatives.contains(2, 155));
        negatives.insert(3, 250, 150);
        assert!(negatives.contains(2, 155), "what was inserted anew does not end with what was before");
    }

    #[test]
    fn they_take_no_more_than_their_room() {
        let mut negatives = Negatives::within(10_000);
        for hash in 0..5000 {
            negatives.insert(hash, 1000, 0);
            assert!(negatives.bytes() <= 10_000, "{} at {hash}", negatives.bytes());
        }
        assert!(negatives.contains(4999, 0));
    }

    #[test]
    fn there_are_never_too_many() {
        let mut negatives = Negatives::within(2 << 20);
        for hash in 0..3 * MOST as u64 {
            negatives.insert(hash, 1000, 0);
        }
        assert!(negatives.until_ms.len() <= MOST && negatives.order.len() <= MOST);
        assert!(negatives.contains(3 * MOST as u64 - 1, 0));
    }
}
