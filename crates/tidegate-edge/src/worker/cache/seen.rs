//! All rules are read anew: which of those that are here are still so.
//!
//! Nobody waits for that and it takes no memory, however many there are: who was seen has a mark, and from one moment on only
//! those are there who have it. The others leave a little at a time.

use super::Cache;
use super::clicks::Clicked;
use super::slot::Marks;

/// A rule for one path that was read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen {
    /// The hash of its key, and the number of its host.
    pub(crate) key: u64,
    pub(crate) host: u32,
    /// The hash of its version.
    pub(crate) version: u64,
}

impl Cache {
    /// Nobody was seen any more, of so many slots from a shard on; the shard behind them, until that was all. Only once all
    /// have left who were not seen before.
    pub(crate) fn forget_seen(&self, first: usize, limit: usize) -> Option<usize> {
        debug_assert!(self.unseen_left_to.is_none(), "who was not seen is still leaving");
        let mut looked_at = 0;
        for (number, shard) in self.shards.iter().enumerate().skip(first) {
            if looked_at >= limit {
                return Some(number);
            }
            looked_at += 1 + shard.slots.len();
            shard.slots.iter().for_each(|slot| slot.marks.note_seen(false));
        }
        None
    }

    /// Whether the same version of that rule is here, which was seen then.
    pub(crate) fn note_seen(&self, seen: &Seen) -> bool {
        let place = self.place(seen.key);
        let slots = &self.shards[place.shard].slots;
        let same = slots.up_to(slots.first(place.tag), place.tag).map(|at| slots.at(at)).find(|slot| {
            let view = self.log.view(slot.location);
            view.hash() == seen.version && view.host() == seen.host
        });
        same.inspect(|slot| slot.marks.note_seen(true)).is_some()
    }

    /// Who was not seen is not there any more, and leaves.
    pub(crate) fn keep_seen(&mut self) {
        self.unseen_left_to = Some(0);
    }

    /// Lets go of those who were not seen, of so many that are looked at, or some more. Whether all have left, and of those who
    /// have, their clicks.
    #[must_use = "it has clicks that nobody else has"]
    pub(crate) fn drop_unseen(&mut self, limit: usize) -> (bool, Vec<Clicked>) {
        let (mut looked_at, mut clicks) = (0, Vec::new());
        while let Some(shard) = self.unseen_left_to.filter(|_| looked_at < limit) {
            looked_at += 1;
            let mut at = 0;
            while at < self.shards[shard].slots.len() {
                looked_at += 1;
                if self.shards[shard].slots.at(at).marks.is_seen() {
                    at += 1;
                } else {
                    clicks.extend(self.take_out(shard, at));
                }
            }
            self.unseen_left_to = Some(shard + 1).filter(|&next| next < self.shards.len());
        }
        self.compact();
        (self.unseen_left_to.is_none(), clicks)
    }

    #[inline]
    pub(super) fn is_there(&self, marks: &Marks) -> bool {
        self.unseen_left_to.is_none() || marks.is_seen()
    }
}
