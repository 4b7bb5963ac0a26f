//! What was changed of late, and how all was after it: what a fetch goes by that was under way meanwhile.

use std::collections::VecDeque;

use crate::truth::{Digest, Seq};

/// Changes that are remembered, at most. A fetch that takes longer than so many is made again.
const REMEMBERED: usize = 16_384;

/// Places of which is remembered how all was there.
const PLACES: usize = 128;

/// What one may take, half of the room being free.
const CHANGE_BYTES: usize = 2 * size_of::<(Seq, u64)>();

/// The last changes of rules for one path, by the hash of their key.
#[derive(Debug)]
pub(crate) struct Recent {
    /// All changes behind this one are here.
    from: Seq,
    changes: VecDeque<(Seq, u64)>,
    most: usize,
    /// Each where its number says.
    places: [Option<(Seq, Digest)>; PLACES],
}

impl Recent {
    /// Those from now on, in so many bytes.
    pub(crate) fn since(from: Seq, bytes: usize) -> Self {
        let most = (bytes / CHANGE_BYTES).clamp(1, REMEMBERED);
        Self { from, changes: VecDeque::new(), most, places: [None; PLACES] }
    }

    /// This is how all is at a place that was reached.
    pub(crate) fn reached(&mut self, seq: Seq, digest: Digest) {
        self.places[Self::place(seq)] = Some((seq, digest));
    }

    /// Whether it was so at that place, if that is known.
    pub(crate) fn was_so(&self, seq: Seq, digest: Digest) -> Option<bool> {
        self.places[Self::place(seq)].filter(|place| place.0 == seq).map(|place| place.1 == digest)
    }

    fn place(seq: Seq) -> usize {
        (seq.0 % PLACES as u64) as usize
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
    fn how_all_was_is_known_of_the_last_places() {
        let digest = |seq| Digest::of("a", seq, "");
        let mut recent = Recent::since(Seq(0), 4000);
        assert_eq!(recent.was_so(Seq(0), Digest::default()), None);
        let last = 8 + PLACES as u64;
        (1..=last).for_each(|seq| recent.reached(Seq(seq), digest(seq)));
        assert_eq!(recent.was_so(Seq(last), digest(last)), Some(true));
        assert_eq!(recent.was_so(Seq(9), digest(8)), Some(false));
        assert_eq!(recent.was_so(Seq(8), digest(8)), None, "it is too long ago");
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
