//! A hot page and its window.

use std::collections::VecDeque;
use std::sync::Arc;

use super::ALLOCATION;
use super::member::{Made, Member};
use super::ring::Ring;
use crate::hot::edit::Rank;
use crate::hot::options::{Bounds, SPIKE_MS};

#[derive(Debug)]
pub(super) struct Page {
    pub(super) name: Arc<str>,
    pub(super) hash: u32,
    pub(super) is_trending: bool,
    pub(super) is_spiking: bool,
    /// Where it is in the indices; the ranking may be behind.
    pub(super) indexed_rank: Rank,
    pub(super) indexed_due_ms: u64,
    pub(super) is_stale: bool,
    /// Of its last edit, which leaves with the page.
    last_ms: u64,
    /// Never empty; by time, then id.
    members: VecDeque<Member>,
    /// Of the id of each member: most ids are told apart by it.
    tags: VecDeque<u16>,
    pub(super) total: u64,
    pub(super) first_ms: u64,
    /// The latest edit that counts and is no member, if one is in the ring.
    cut_ms: u64,
    /// Counts all edits, from when the first has left for want of room until the last of those has left the window.
    ring: Option<Ring>,
    /// What texts of members have outside of them.
    text_bytes: usize,
}

/// What became of an edit of a hot page.
pub(super) enum Added {
    /// As the latest, or before others.
    Last,
    Between,
    Duplicate,
    /// Without becoming a member: it is older than all of them.
    Counted,
}

impl Page {
    /// A page of `members`, of which there is one at least, in order.
    pub(super) fn new(name: &str, hash: u32, members: Vec<Member>, tags: VecDeque<u16>) -> Self {
        let mut members = VecDeque::from(members);
        members.shrink_to_fit();
        Self {
            name: name.into(),
            hash,
            is_trending: false,
            is_spiking: false,
            indexed_rank: Rank::default(),
            indexed_due_ms: 0,
            is_stale: false,
            last_ms: members.back().map_or(0, |last| last.at_ms),
            tags,
            total: members.len() as u64,
            first_ms: members.front().map_or(0, |first| first.at_ms),
            cut_ms: 0,
            ring: None,
            text_bytes: members.iter().map(Member::heap).sum(),
            members,
        }
    }

    pub(super) fn members(&self) -> &VecDeque<Member> {
        &self.members
    }

    /// Edits, if none has left the window since it was looked after; never fewer.
    #[inline]
    pub(super) fn count(&self) -> u64 {
        self.ring.as_ref().map_or(self.members.len() as u64, |ring| ring.sum())
    }

    #[inline]
    fn oldest_ms(&self) -> u64 {
        self.members.front().map_or(0, |oldest| oldest.at_ms)
    }

    /// When the first of what counts leaves a window, less that window.
    #[inline]
    pub(super) fn due_ms(&self) -> u64 {
        self.ring.as_ref().map_or(u64::MAX, |ring| ring.first_end_ms()).min(self.oldest_ms())
    }

    /// The ring, if it counts: until what was cut has left the window, and its slot.
    fn ring(&self, now_ms: u64, window_ms: u64) -> Option<&Ring> {
        self.ring.as_ref().filter(|ring| ring.end_ms(self.cut_ms) + window_ms > now_ms)
    }

    /// Edits in the window, of whose members the first `over` have left it.
    pub(super) fn edits(&self, now_ms: u64, window_ms: u64, over: usize) -> u64 {
        match self.ring(now_ms, window_ms) {
            Some(ring) => ring.since((now_ms + 1).saturating_sub(window_ms)),
            None => (self.members.len() - over) as u64,
        }
    }

    /// Edits of the last `ms`, of the window at most.
    pub(super) fn edits_of_last(&self, ms: u64, now_ms: u64, window_ms: u64) -> u64 {
        let from_ms = (now_ms + 1).saturating_sub(ms.min(window_ms));
        self.ring(now_ms, window_ms).map_or_else(|| self.since(from_ms), |ring| ring.since(from_ms))
    }

    /// Those of the last five minutes.
    pub(super) fn edits_lately(&self, now_ms: u64, window_ms: u64) -> u64 {
        match self.ring(now_ms, window_ms).filter(|_| window_ms > SPIKE_MS) {
            Some(ring) => {
                let from_ms = (now_ms.max(self.last_ms) + 1).saturating_sub(SPIKE_MS);
                ring.lately_since(from_ms).min(self.edits(now_ms, window_ms, 0))
            }
            None => self.edits_of_last(SPIKE_MS, now_ms, window_ms),
        }
    }

    /// By how much edits may count too long.
    pub(super) fn grain_ms(&self, now_ms: u64, window_ms: u64) -> u64 {
        self.ring(now_ms, window_ms).map_or(0, Ring::grain_ms)
    }

    #[inline]
    pub(super) fn last_ms(&self) -> u64 {
        self.last_ms
    }

    pub(super) fn last_byte_change(&self) -> i64 {
        self.members.back().map_or(0, |last| last.byte_change)
    }

    /// Where it stands: edits first, then the latest one.
    pub(super) fn rank(&self) -> Rank {
        Rank::new(self.count(), self.last_ms())
    }

    /// Counts an edit, which may be one that is not kept, in the ring: which is made of the members if there is none.
    fn count_in_ring(&mut self, at_ms: u64, grain_ms: u64) {
        let (members, last_ms) = (&self.members, self.last_ms.max(at_ms));
        let ring =
            self.ring.get_or_insert_with(|| Ring::new(grain_ms, members.iter().map(|member| member.at_ms)));
        ring.add(at_ms, last_ms);
    }

    /// Adds to the window, which keeps at most `max` edits.
    #[inline]
    pub(super) fn add(&mut self, edit: &Made<'_>, tag: u16, max: u64, grain_ms: u64) -> Added {
        if self.has(edit.id, tag) {
            return Added::Duplicate;
        }
        let key = (edit.at_ms, edit.id.as_bytes());
        // Most are, and it is known without a look at the others.
        let is_last = edit.at_ms > self.last_ms || self.members.back().is_none_or(|last| last.key() < key);
        self.total += 1;
        self.first_ms = self.first_ms.min(edit.at_ms);
        let is_full = self.members.len() as u64 >= max;
        if is_full || self.ring.is_some() {
            self.count_in_ring(edit.at_ms, grain_ms);
            if !is_last && self.members.front().is_some_and(|oldest| key < oldest.key()) {
                self.cut_ms = self.cut_ms.max(edit.at_ms);
                return Added::Counted;
            }
        }
        if is_last {
            self.last_ms = edit.at_ms;
            self.push(edit, tag, is_full);
            return Added::Last;
        }
        if is_full {
            self.cut_ms = self.cut_ms.max(self.pop_oldest());
        }
        let member = Member::new(edit);
        self.text_bytes += member.heap();
        let at = self.members.partition_point(|other| other.key() < key);
        self.members.insert(at, member);
        self.tags.insert(at, tag);
        Added::Between
    }

    /// Adds the latest edit; in a full window where the oldest was, which is looked at anyway.
    #[inline]
    fn push(&mut self, edit: &Made<'_>, tag: u16, is_full: bool) {
        if is_full {
            if self.members.capacity() > self.members.len() {
                self.members.shrink_to_fit();
                self.tags.shrink_to_fit();
            }
            self.cut_ms = self.cut_ms.max(self.pop_oldest());
        }
        self.tags.push_back(tag);
        self.members.push_back(Member::EMPTY);
        if let Some(last) = self.members.back_mut() {
            last.set(edit);
            self.text_bytes += last.heap();
        }
    }

    #[inline]
    pub(super) fn has(&self, id: &str, tag: u16) -> bool {
        let (front, back) = self.tags.as_slices();
        if !has_tag(front, tag) && !has_tag(back, tag) {
            return false;
        }
        self.tags.iter().zip(&self.members).any(|(it, member)| *it == tag && member.is(id))
    }

    /// Drops the oldest edit; when it was made.
    #[inline]
    fn pop_oldest(&mut self) -> u64 {
        let Some(oldest) = self.members.front() else { return 0 };
        let at_ms = oldest.at_ms;
        self.text_bytes -= oldest.heap();
        self.members.pop_front();
        self.tags.pop_front();
        at_ms
    }

    /// Drops edits from before `from_ms`, and the ring with the last that it alone counts.
    pub(super) fn drop_before(&mut self, from_ms: u64) {
        if self.ring.as_ref().is_some_and(|ring| ring.end_ms(self.cut_ms) < from_ms) {
            (self.ring, self.cut_ms) = (None, 0);
        }
        if let Some(ring) = &mut self.ring {
            ring.drop_before(from_ms);
        }
        while self.oldest_ms() < from_ms && !self.members.is_empty() {
            self.pop_oldest();
        }
        if self.members.capacity() > 4 * self.members.len() {
            self.members.shrink_to(2 * self.members.len());
            self.tags.shrink_to(2 * self.tags.len());
        }
    }

    /// Members from then on.
    fn since(&self, from_ms: u64) -> u64 {
        (self.members.len() - self.members.partition_point(|member| member.at_ms < from_ms)) as u64
    }

    /// How many members have left the window.
    pub(super) fn over(&self, now_ms: u64, window_ms: u64) -> usize {
        if self.oldest_ms() + window_ms > now_ms {
            return 0;
        }
        self.members.partition_point(|member| member.at_ms + window_ms <= now_ms)
    }

    /// How far back the window reaches: to the first edit.
    #[inline]
    pub(super) fn covered_ms(&self, now_ms: u64, window_ms: u64) -> u64 {
        now_ms.saturating_sub(self.first_ms).min(window_ms)
    }

    /// Whether edits come faster than they used to. The first `over` have left the window.
    #[inline]
    pub(super) fn spikes(&self, bounds: &Bounds, now_ms: u64, over: usize) -> bool {
        // Most pages have not been hot for long, or have no edits lately.
        if now_ms.saturating_sub(self.first_ms) <= SPIKE_MS {
            return false;
        }
        let from_ms = (now_ms + 1).saturating_sub(SPIKE_MS);
        let least = bounds.spike_minimum as usize;
        let is_enough = |at: usize| self.members.get(at).is_some_and(|member| member.at_ms >= from_ms);
        if self.ring.is_none()
            && !self.members.len().checked_sub(least).is_some_and(|at| at >= over && is_enough(at))
        {
            return false;
        }
        let window_ms = bounds.window_ms;
        let covered_ms = self.covered_ms(now_ms, window_ms);
        if covered_ms <= SPIKE_MS {
            return false;
        }
        let (edits, lately) = (self.edits(now_ms, window_ms, over), self.edits_lately(now_ms, window_ms));
        bounds.is_spike(self.is_spiking, edits, lately, covered_ms)
    }

    /// With all that it has elsewhere; and a sixteenth of its window, for what a window
    /// that grew has left behind.
    #[inline]
    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>()
            + self.members.capacity() * (size_of::<Member>() + size_of::<Member>() / 16)
            + self.tags.capacity() * size_of::<u16>()
            + self.text_bytes
            + self.ring.as_ref().map_or(0, |ring| ring.bytes())
            + self.name.len()
            + NAME
            + 4 * ALLOCATION
    }
}

/// Whether a tag is among these: sixteen are compared at once, and the last sixteen have what is left over.
#[inline]
fn has_tag(tags: &[u16], tag: u16) -> bool {
    let has = |some: &[u16; 16]| some.iter().fold(false, |has, it| has | (*it == tag));
    match tags.last_chunk() {
        Some(last) => has(last) || tags.as_chunks().0.iter().any(has),
        None => tags.contains(&tag),
    }
}

/// What a shared name has beside its text.
pub(super) const NAME: usize = 2 * size_of::<usize>();

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_found_wherever_it_is_and_nowhere_else() {
        for length in 0..70 {
            let mut tags = vec![7; length];
            assert!(!has_tag(&tags, 9), "{length}");
            for at in 0..length {
                tags[at] = 9;
                assert!(has_tag(&tags, 9), "{at} of {length}");
                tags[at] = 7;
            }
        }
    }
}
