//! A list of slots, sorted by their tags and without gaps, in blocks that are all of one size.
//!
//! Were it one piece of memory, shards would grow from one size to the next, each at its own time, and leave behind pages
//! of the size before with a few of them in each, which the allocator can give to nobody else.

use super::log::Location;
use super::slot::Slot;
use crate::worker::size_class::{array, size_class};

const PER_BLOCK: usize = 32;

type Block = [Slot; PER_BLOCK];

#[derive(Debug, Default)]
pub(super) struct Slots {
    #[allow(clippy::vec_box, reason = "blocks are not to move, and not to be parts of something that grows")]
    blocks: Vec<Box<Block>>,
    len: usize,
}

impl Slots {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// There must be one at that place.
    #[inline]
    pub(super) fn at(&self, at: usize) -> &Slot {
        &self.blocks[at / PER_BLOCK][at % PER_BLOCK]
    }

    /// The same, to be changed.
    pub(super) fn at_mut(&mut self, at: usize) -> &mut Slot {
        &mut self.blocks[at / PER_BLOCK][at % PER_BLOCK]
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Slot> {
        (0..self.len).map(|at| self.at(at))
    }

    /// The first that has this tag or a larger one. Tags are evenly spread, so its place can be guessed.
    #[inline]
    pub(super) fn first(&self, tag: u32) -> usize {
        let guess = ((u64::from(tag) * self.len as u64) >> u32::BITS) as usize;
        let mut at = guess;
        while at > 0 && self.at(at - 1).tag >= tag {
            at -= 1;
        }
        if at == guess {
            while at < self.len && self.at(at).tag < tag {
                at += 1;
            }
        }
        at
    }

    /// Places from one on whose tags are no larger.
    #[inline]
    pub(super) fn up_to(&self, first: usize, tag: u32) -> impl Iterator<Item = usize> {
        (first..self.len).take_while(move |&at| self.at(at).tag <= tag)
    }

    /// Where the slot of that location is, whose tag is one of these.
    pub(super) fn find_location(&self, tags: (u32, u32), location: Location) -> Option<usize> {
        self.up_to(self.first(tags.0), tags.1).find(|&at| self.at(at).location == location)
    }

    /// In front of the one that is there, all behind it one further.
    pub(super) fn insert(&mut self, at: usize, slot: Slot) {
        if self.is_full() {
            if self.blocks.len() == self.blocks.capacity() {
                self.blocks.reserve_exact(self.grown() - self.blocks.len());
            }
            self.blocks.push(Box::default());
        }
        let mut start = at % PER_BLOCK;
        let mut pushed = slot;
        for block in &mut self.blocks[at / PER_BLOCK..] {
            // What was last in its block is first in the next.
            block[start..].rotate_right(1);
            pushed = std::mem::replace(&mut block[start], pushed);
            start = 0;
        }
        self.len += 1;
    }

    /// All behind it one nearer. There must be one at that place.
    pub(super) fn remove(&mut self, at: usize) -> Slot {
        let first = at / PER_BLOCK;
        let mut pulled = Slot::default();
        for (number, block) in self.blocks.iter_mut().enumerate().skip(first).rev() {
            let start = if number == first { at % PER_BLOCK } else { 0 };
            pulled = std::mem::replace(&mut block[start], pulled);
            block[start..].rotate_left(1);
        }
        self.len -= 1;
        if self.len.is_multiple_of(PER_BLOCK) {
            self.blocks.pop();
        }
        pulled
    }

    /// What it takes on the heap.
    pub(super) fn bytes(&self) -> usize {
        array::<Box<Block>>(self.blocks.capacity()) + self.blocks.len() * size_class(size_of::<Block>())
    }

    /// What must be free for one more to come: what grows has its old place and its new one for a moment.
    pub(super) fn growth_bytes(&self) -> usize {
        let is_listed = self.blocks.len() < self.blocks.capacity();
        match self.is_full() {
            true if is_listed => size_class(size_of::<Block>()),
            true => size_class(size_of::<Block>()) + array::<Box<Block>>(self.grown()),
            false => 0,
        }
    }

    fn is_full(&self) -> bool {
        self.len == self.blocks.len() * PER_BLOCK
    }

    /// For how many blocks there is room after one more: for all that the allocator gives anyway.
    fn grown(&self) -> usize {
        array::<Box<Block>>(self.blocks.len() + 1) / size_of::<Box<Block>>()
    }
}
