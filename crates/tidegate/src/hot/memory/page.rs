//! A hot page and its window.

use std::collections::VecDeque;
use std::sync::Arc;

use super::ALLOCATION;
use super::member::{Made, Member};
use crate::hot::options::{Bounds, SPIKE_MS};

#[derive(Debug)]
pub(super) struct Page {
    pub(super) name: Arc<str>,
    pub(super) hash: u32,
    pub(super) is_trending: bool,
    pub(super) is_spiking: bool,
    /// Where it is in the indices; the ranking may be behind.
    pub(super) indexed_rank: u64,
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
    /// Edits have left for want of room, up to this moment.
    cut_ms: u64,
    /// What texts of members have outside of them.
    text_bytes: usize,
}

/// What became of an edit of a hot page.
pub(super) enum Added {
    /// As the latest, or before others.
    Last,
    Between,
    Duplicate,
    TooLate,
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
            indexed_rank: 0,
            indexed_due_ms: 0,
            is_stale: false,
            last_ms: members.back().map_or(0, |last| last.at_ms),
            tags,
            total: members.len() as u64,
            first_ms: members.front().map_or(0, |first| first.at_ms),
            cut_ms: 0,
            text_bytes: members.iter().map(Member::heap).sum(),
            members,
        }
    }

    pub(super) fn members(&self) -> &VecDeque<Member> {
        &self.members
    }

    #[inline]
    pub(super) fn count(&self) -> u64 {
        self.members.len() as u64
    }

    #[inline]
    pub(super) fn oldest_ms(&self) -> u64 {
        self.members.front().map_or(0, |oldest| oldest.at_ms)
    }

    #[inline]
    pub(super) fn last_ms(&self) -> u64 {
        self.last_ms
    }

    pub(super) fn last_byte_change(&self) -> i64 {
        self.members.back().map_or(0, |last| last.byte_change)
    }

    /// Where it stands: edits first, then the latest one.
    pub(super) fn rank(&self) -> u64 {
        rank(self.count(), self.last_ms())
    }

    /// Adds to the window, of at most `max` edits.
    #[inline]
    pub(super) fn add(&mut self, edit: &Made<'_>, tag: u16, max: u64) -> Added {
        if self.has(edit.id, tag) {
            return Added::Duplicate;
        }
        let key = (edit.at_ms, edit.id.as_bytes());
        // Most are, and it is known without a look at the others.
        let is_last = edit.at_ms > self.last_ms || self.members.back().is_none_or(|last| last.key() < key);
        if self.count() >= max {
            if !is_last && self.members.front().is_some_and(|oldest| key < oldest.key()) {
                return Added::TooLate;
            }
            self.cut_ms = self.cut_ms.max(self.pop_oldest());
        }
        self.total += 1;
        self.first_ms = self.first_ms.min(edit.at_ms);
        let member = Member::new(edit);
        self.text_bytes += member.heap();
        if is_last {
            self.last_ms = edit.at_ms;
            self.members.push_back(member);
            self.tags.push_back(tag);
            return Added::Last;
        }
        let at = self.members.partition_point(|other| other.key() < key);
        self.members.insert(at, member);
        self.tags.insert(at, tag);
        Added::Between
    }

    #[inline]
    fn has(&self, id: &str, tag: u16) -> bool {
        let (front, back) = self.tags.as_slices();
        if !front.contains(&tag) && !back.contains(&tag) {
            return false;
        }
        self.tags.iter().zip(&self.members).any(|(it, member)| *it == tag && member.is(id))
    }

    /// Drops the oldest edit; when it was made.
    fn pop_oldest(&mut self) -> u64 {
        self.tags.pop_front();
        let Some(oldest) = self.members.pop_front() else { return 0 };
        self.text_bytes -= oldest.heap();
        oldest.at_ms
    }

    /// Drops edits from before `from_ms`.
    pub(super) fn drop_before(&mut self, from_ms: u64) {
        while self.oldest_ms() < from_ms && !self.members.is_empty() {
            self.pop_oldest();
        }
        if self.members.capacity() > 4 * self.members.len() {
            self.members.shrink_to(2 * self.members.len());
            self.tags.shrink_to(2 * self.tags.len());
        }
    }

    /// Edits from then on.
    pub(super) fn since(&self, from_ms: u64) -> u64 {
        (self.members.len() - self.members.partition_point(|member| member.at_ms < from_ms)) as u64
    }

    /// How many edits have left the window.
    pub(super) fn over(&self, now_ms: u64, window_ms: u64) -> usize {
        if self.oldest_ms() + window_ms > now_ms {
            return 0;
        }
        self.members.partition_point(|member| member.at_ms + window_ms <= now_ms)
    }

    /// How far back the window reaches: to the first edit, unless edits have left for
    /// want of room. The first `over` edits have left it.
    #[inline]
    pub(super) fn covered_ms(&self, now_ms: u64, window_ms: u64, over: usize) -> u64 {
        let reach = now_ms.saturating_sub(self.first_ms).min(window_ms);
        let is_cut = self.cut_ms > 0 && self.cut_ms + window_ms > now_ms;
        let oldest_ms = self.members.get(over).map_or(now_ms, |oldest| oldest.at_ms);
        if is_cut { reach.min(now_ms.saturating_sub(oldest_ms)) } else { reach }
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
        if !self.members.len().checked_sub(least).is_some_and(|at| at >= over && is_enough(at)) {
            return false;
        }
        let covered_ms = self.covered_ms(now_ms, bounds.window_ms, over);
        if covered_ms <= SPIKE_MS {
            return false;
        }
        let lately = self.since(from_ms);
        let ratio = if self.is_spiking { bounds.spike_ratio / 2.0 } else { bounds.spike_ratio };
        let rate = lately as f64 / SPIKE_MS as f64;
        let base = (self.count() - over as u64 - lately) as f64 / (covered_ms - SPIKE_MS) as f64;
        rate >= ratio * base
    }

    /// With all that it has elsewhere; and a sixteenth of its window, for what a window
    /// that grew has left behind.
    #[inline]
    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>()
            + self.members.capacity() * (size_of::<Member>() + size_of::<Member>() / 16)
            + self.tags.capacity() * size_of::<u16>()
            + self.text_bytes
            + self.name.len()
            + NAME
            + 4 * ALLOCATION
    }
}

/// What a shared name has beside its text.
pub(super) const NAME: usize = 2 * size_of::<usize>();

/// Edits first, then the latest one.
pub(super) fn rank(edits: u64, last_ms: u64) -> u64 {
    edits << 41 | last_ms.min((1 << 41) - 1)
}
