//! Least recently used, as a list in an array.

/// Numbers, of which so many are there.
pub(super) struct Lru {
    before: Vec<usize>,
    after: Vec<usize>,
    is_there: Vec<bool>,
    len: usize,
    room: usize,
    /// Where the list begins and ends.
    ends: usize,
}

impl Lru {
    /// Of numbers below `count`.
    pub(super) fn new(count: usize, room: usize) -> Self {
        let ring: Vec<_> = (0..=count).collect();
        Self { before: ring.clone(), after: ring, is_there: vec![false; count], len: 0, room, ends: count }
    }

    /// Whether it was there; it is now.
    pub(super) fn ask(&mut self, number: usize) -> bool {
        let was_there = self.is_there[number];
        if was_there {
            self.unlink(number);
        } else if self.len == self.room {
            let oldest = self.before[self.ends];
            self.unlink(oldest);
            self.is_there[oldest] = false;
        } else {
            self.len += 1;
        }
        let newest = self.after[self.ends];
        (self.before[number], self.after[number]) = (self.ends, newest);
        (self.after[self.ends], self.before[newest]) = (number, number);
        self.is_there[number] = true;
        was_there
    }

    fn unlink(&mut self, number: usize) {
        let (before, after) = (self.before[number], self.after[number]);
        (self.after[before], self.before[after]) = (after, before);
    }
}
