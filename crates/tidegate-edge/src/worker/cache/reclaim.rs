//! Who leaves when there is no room, and how segments are emptied.

use super::clicks::Clicked;
use super::{Cache, Shard};

/// Entries that stay in one round because they were asked for. A round that went on would keep those who read waiting while
/// all are looked at, and find that one is as good as the other.
const MAX_SPARED: usize = 8192;

/// Of what there is, how much leaves at once at most.
const MAX_BATCH_SHARE: usize = 32;

/// Who stays when a segment is emptied.
enum Stays<'a> {
    All,
    /// Who was asked for; and who leaves, with clicks.
    Visited(&'a mut Round),
}

#[derive(Default)]
struct Round {
    spared: usize,
    evicted: usize,
    clicks: Vec<Clicked>,
}

impl Cache {
    /// Makes room for so many bytes, and for some to come. How many left.
    pub(super) fn make_room(&mut self, bytes: usize, now_ms: u64, clicks: &mut Vec<Clicked>) -> usize {
        let batch = self.eviction_batch.min(self.len / MAX_BATCH_SHARE);
        let mut round = Round::default();
        while let Some(oldest) = self.log.oldest() {
            if round.evicted >= batch && self.bytes() + bytes <= self.bound_bytes {
                break;
            }
            self.empty(oldest, &mut Stays::Visited(&mut round));
        }
        if self.len == 0 {
            self.shards.iter_mut().for_each(|it| *it = Shard::default());
            self.index_bytes = self.empty_index_bytes();
            self.log.release();
        }
        if round.evicted > 0 {
            self.stats.evictions += 1;
            self.stats.evicted += round.evicted as u64;
            self.stats.last_eviction_ms = Some(now_ms);
        }
        clicks.append(&mut round.clicks);
        round.evicted
    }

    /// Writes segments anew while too much in them is not found any more.
    pub(super) fn compact(&mut self) {
        while let Some(worst) = self.log.worst() {
            self.empty(worst, &mut Stays::All);
        }
    }

    /// Empties a segment: who stays is written behind all others. That takes a segment more at most, for which there is
    /// always room.
    fn empty(&mut self, number: u32, stays: &mut Stays<'_>) {
        let text = self.log.take(number);
        let mut offset = 0;
        while let Some((record, next)) = self.log.record(number, &text, offset) {
            offset = next;
            let (shard, tags) = record.prefix.places(self.shard_bits());
            // Not found any more.
            let Some(at) = self.shards[shard].slots.find_location(tags, record.location) else { continue };
            let slot = self.shards[shard].slots.at_mut(at);
            let leaves = match stays {
                Stays::All => None,
                Stays::Visited(round) if slot.marks.was_visited() && round.spared < MAX_SPARED => {
                    round.spared += 1;
                    None
                }
                Stays::Visited(round) => Some(round),
            };
            match leaves {
                None => slot.location = self.log.append(record.prefix, record.text),
                Some(round) => {
                    round.evicted += 1;
                    round.clicks.extend(Clicked::of(slot, record.text));
                    self.remove_slot(shard, at);
                }
            }
        }
        self.note_peak(0);
        self.log.recycle(number, text);
    }
}
