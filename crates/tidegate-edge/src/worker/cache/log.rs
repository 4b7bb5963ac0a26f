//! The texts of all entries, one behind the other in segments of one size.
//!
//! With a piece of memory for each, sizes that change over time leave an allocator with pages of sizes that nobody needs
//! any more, which a few who stayed keep alive: a bound of 20 MB became 34 MB of memory. Here segments are all that there
//! is, and they are emptied as a whole: who stays is written anew behind the others.

use std::collections::VecDeque;

use super::place::Prefix;
use crate::worker::entry::{Entry, View};
use crate::worker::size_class::{array, size_class};

/// Of a location, what is the offset in a segment: a segment has no more than 64 KB.
const OFFSET_BITS: u32 = 16;
const MAX_SEGMENT_BYTES: usize = 1 << OFFSET_BITS;

/// Smaller ones if the bound is: how many there are at least.
const MIN_SEGMENTS: usize = 32;
const MIN_SEGMENT_BYTES: usize = 1 << 10;

/// Where a record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Location(u32);

#[derive(Debug)]
pub(super) struct Log {
    /// By their numbers. Those that are not in use have no memory.
    segments: Vec<Segment>,
    /// From the oldest on; the last is the one that is written to.
    order: VecDeque<u32>,
    unused: Vec<u32>,
    /// The memory of one that was emptied, for the next.
    spare: Option<String>,
    /// How many were taken out and are not empty yet.
    taken: usize,
    /// What it was made for.
    max_bytes: usize,
    max_segments: usize,
    segment_bytes: usize,
    /// Records start at multiples of that many bytes, as a power of two: so a location is 32 bits however many there are.
    granule_bits: u32,
    dead_bytes: usize,
}

#[derive(Debug, Default)]
struct Segment {
    text: String,
    /// Bytes of records that are not found any more.
    dead_bytes: usize,
}

impl Log {
    /// For so many bytes in all.
    pub(super) fn new(bytes: usize) -> Self {
        let share = bytes / MIN_SEGMENTS;
        let segment_bytes = match share {
            MAX_SEGMENT_BYTES.. => MAX_SEGMENT_BYTES,
            ..=MIN_SEGMENT_BYTES => MIN_SEGMENT_BYTES,
            _ => 1 << share.ilog2(),
        };
        let max_segments = bytes / segment_bytes + 2;
        let numbers = max_segments.next_power_of_two().trailing_zeros();
        Self {
            segments: Vec::with_capacity(max_segments),
            order: VecDeque::with_capacity(max_segments),
            unused: Vec::with_capacity(max_segments),
            spare: None,
            taken: 0,
            max_bytes: bytes,
            max_segments,
            segment_bytes,
            granule_bits: (numbers + OFFSET_BITS).saturating_sub(u32::BITS),
            dead_bytes: 0,
        }
    }

    /// What it takes, all segments at their full size.
    pub(super) fn bytes(&self) -> usize {
        let used = self.order.len() + usize::from(self.spare.is_some()) + self.taken;
        self.empty_bytes() + used * size_class(self.segment_bytes)
    }

    /// What it takes with nothing in it.
    pub(super) fn empty_bytes(&self) -> usize {
        array::<Segment>(self.max_segments) + 2 * array::<u32>(self.max_segments)
    }

    /// What must be free for a record: a segment if the last has no room for it, and one for records that are written anew
    /// while segments are emptied. `None` if it is too long for any.
    pub(super) fn growth_bytes(&self, record_len: usize) -> Option<usize> {
        let segments = usize::from(!self.has_room_for(record_len)) + usize::from(self.spare.is_none());
        (self.padded(record_len) <= self.segment_bytes).then(|| segments * size_class(self.segment_bytes))
    }

    pub(super) fn max_bytes(&self) -> usize {
        self.max_bytes
    }

    /// The least that there must be room for: one segment to write to, and one to empty it into.
    pub(super) fn min_bytes(&self) -> usize {
        self.empty_bytes() + 2 * size_class(self.segment_bytes)
    }

    pub(super) fn record_len(entry: &Entry) -> usize {
        Prefix::LEN + entry.text().len()
    }

    /// What stands there, and whatever comes behind it.
    #[inline]
    pub(super) fn text(&self, location: Location) -> &str {
        let (number, offset) = self.place_of(location);
        &self.segments[number].text[offset + Prefix::LEN..]
    }

    #[inline]
    pub(super) fn view(&self, location: Location) -> View<'_> {
        View::of(self.text(location))
    }

    /// Writes a record behind all others, in a new segment if the last has no room for it.
    pub(super) fn append(&mut self, prefix: Prefix, text: &str) -> Location {
        if !self.has_room_for(Prefix::LEN + text.len()) {
            self.open();
        }
        // One was opened if there was none.
        let number = self.order.back().copied().unwrap_or_default();
        let at = self.location_of(number, self.segments[number as usize].text.len());
        let into = &mut self.segments[number as usize].text;
        prefix.push_to(into);
        into.push_str(text);
        let padding = into.len().next_multiple_of(1 << self.granule_bits) - into.len();
        into.extend(std::iter::repeat_n('\0', padding));
        at
    }

    /// Notes that a record is not found any more. Its segment is given back when none is.
    pub(super) fn bury(&mut self, location: Location) {
        let len = self.padded(Prefix::LEN + self.view(location).text_len());
        let number = self.place_of(location).0;
        let segment = &mut self.segments[number];
        segment.dead_bytes += len;
        self.dead_bytes += len;
        if segment.dead_bytes == segment.text.len() {
            let text = self.take(number as u32);
            self.recycle(number as u32, text);
        }
    }

    /// The segment whose turn it is.
    pub(super) fn oldest(&self) -> Option<u32> {
        self.order.front().copied()
    }

    /// The segment that is most worth being written anew, if so much is dead that one should be.
    pub(super) fn worst(&self) -> Option<u32> {
        const DEAD_SHARE: usize = 16;
        let is_much = self.dead_bytes > self.segment_bytes
            && self.dead_bytes * DEAD_SHARE > self.order.len() * self.segment_bytes;
        if !is_much {
            return None;
        }
        self.order.iter().copied().max_by_key(|&number| self.segments[number as usize].dead_bytes)
    }

    /// Takes a segment out, to be emptied. Locations in it are still its own.
    pub(super) fn take(&mut self, number: u32) -> String {
        let segment = std::mem::take(&mut self.segments[number as usize]);
        self.dead_bytes -= segment.dead_bytes;
        self.order.retain(|&it| it != number);
        self.taken += 1;
        segment.text
    }

    /// The record at an offset in a segment that was taken out, and the offset of the next.
    pub(super) fn record<'a>(
        &self,
        number: u32,
        text: &'a str,
        offset: usize,
    ) -> Option<(Record<'a>, usize)> {
        let rest = text.get(offset..).filter(|it| !it.is_empty())?;
        let (prefix, rest) = rest.split_at(Prefix::LEN);
        let text = &rest[..View::of(rest).text_len()];
        let record =
            Record { location: self.location_of(number, offset), prefix: Prefix::read(prefix), text };
        Some((record, offset + self.padded(Prefix::LEN + text.len())))
    }

    /// Takes back a segment that was emptied.
    pub(super) fn recycle(&mut self, number: u32, mut text: String) {
        self.taken -= 1;
        self.unused.push(number);
        if self.spare.is_none() {
            text.clear();
            self.spare = Some(text);
        }
    }

    /// Gives back all that is not needed while there is nothing in it.
    pub(super) fn release(&mut self) {
        self.spare = None;
    }

    fn open(&mut self) {
        let number = self.unused.pop().unwrap_or(self.segments.len() as u32);
        let text = self.spare.take().unwrap_or_else(|| String::with_capacity(self.segment_bytes));
        let segment = Segment { text, dead_bytes: 0 };
        match self.segments.get_mut(number as usize) {
            Some(there) => *there = segment,
            None => self.segments.push(segment),
        }
        self.order.push_back(number);
    }

    fn has_room_for(&self, record_len: usize) -> bool {
        let last = self.order.back().map(|&number| &self.segments[number as usize].text);
        last.is_some_and(|it| it.len() + self.padded(record_len) <= self.segment_bytes)
    }

    fn padded(&self, len: usize) -> usize {
        len.next_multiple_of(1 << self.granule_bits)
    }

    #[inline]
    fn place_of(&self, Location(location): Location) -> (usize, usize) {
        let position = u64::from(location) << self.granule_bits;
        ((position >> OFFSET_BITS) as usize, (position & ((1 << OFFSET_BITS) - 1)) as usize)
    }

    fn location_of(&self, number: u32, offset: usize) -> Location {
        let position = u64::from(number) << OFFSET_BITS | offset as u64;
        Location((position >> self.granule_bits) as u32)
    }
}

#[cfg(test)]
impl Log {
    /// What is really there.
    pub(super) fn counted_bytes(&self) -> usize {
        let tables = array::<Segment>(self.segments.capacity())
            + array::<u32>(self.order.capacity())
            + array::<u32>(self.unused.capacity());
        let texts = self.segments.iter().map(|it| it.text.capacity()).filter(|&it| it > 0);
        tables + texts.chain(self.spare.as_ref().map(String::capacity)).map(size_class).sum::<usize>()
    }
}

/// An entry in a segment that is being emptied.
pub(super) struct Record<'a> {
    pub(super) location: Location,
    pub(super) prefix: Prefix,
    pub(super) text: &'a str,
}
