//! Which keys were changed of late: what a fetch goes by that was under way meanwhile.

use std::collections::VecDeque;

use crate::truth::Seq;

/// Changes that are remembered, at most. A fetch that takes longer than so many is made again.
const REMEMBERED: usize = 16_384;

/// What one may take, half of the room being free.
const CHANGE_BYTES: usize = 2 * size_of::<(Seq, u64)>();

/// The last changes of rules for one path, by the hash of their key.
#[derive(Debug)]
pub(crate) struct Recent {
    /// All changes behind this one are here.
    from: Seq,
    changes: VecDeque<(Seq, u64)>,
    most: usize,
}

impl Recent {
    /// Those from now on, in so many bytes.
    pub(crate) fn since(from: Seq, bytes: usize) -> Self {
        Self { from, changes: VecDeque::new(), most: (bytes / CHANGE_BYTES).clamp(1, REMEMBERED) }
    }

    pub(crate) fn push(&mut self, seq: Seq, hash: u64) {
        if self.changes.len() >= self.most
            && let Some((oldest, _)) = self.changes.pop_front()
        {
            self.from = oldest;
        }
        self.changes.push_back((seq, hash));
    }

    /// Whether this key is known not to have changed behind that place.
    pub(crate) fn is_unchanged(&self, hash: u64, behind: Seq) -> bool {
        behind >= self.from
            && self
                .changes
                .iter()
                .rev()
                .take_while(|(seq, _)| *seq > behind)
                .all(|(_, changed)| *changed != hash)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.changes.capacity() * size_of::<(Seq, u64)>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_takes_no_more_than_its_room() {
        let mut recent = Recent::since(Seq(0), 4000);
        for seq in 1..1000 {
            recent.push(Seq(seq), seq);
            assert!(recent.bytes() <= 4000, "{} at {seq}", recent.bytes());
        }
        assert!(recent.is_unchanged(1, Seq(990)) && !recent.is_unchanged(1, Seq(1)));
    }

    #[test]
    fn what_changed_behind_a_place_is_known_as_far_as_it_goes_back() {
        let mut recent = Recent::since(Seq(5), 1 << 20);
        assert!(recent.is_unchanged(7, Seq(5)));
        assert!(!recent.is_unchanged(7, Seq(4)), "nobody knows");
        recent.push(Seq(6), 7);
        recent.push(Seq(6), 8);
        recent.push(Seq(9), 9);
        assert!(!recent.is_unchanged(7, Seq(5)));
        assert!(!recent.is_unchanged(8, Seq(5)));
        assert!(recent.is_unchanged(7, Seq(6)));
        assert!(!recent.is_unchanged(9, Seq(8)));
        for seq in 10..10 + REMEMBERED as u64 {
            recent.push(Seq(seq), seq);
        }
        assert!(!recent.is_unchanged(1, Seq(8)), "it does not go back so far any more");
        assert!(recent.is_unchanged(1, Seq(9)));
    }
}
