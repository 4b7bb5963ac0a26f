//! Where a page is, as the table has it.

/// Where a page is, with the hash of its name: growing looks at nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) hash: u32,
    /// Among the activities; or among the hot pages, with the highest bit set.
    pub(super) at: u32,
}

const HOT: u32 = 1 << 31;

/// Among the activities, or the hot pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum At {
    Activity(u32),
    Hot(u32),
}

impl Place {
    pub(super) fn new(hash: u32, at: At) -> Self {
        match at {
            At::Activity(at) => Self { hash, at },
            At::Hot(at) => Self { hash, at: at | HOT },
        }
    }

    #[inline]
    pub(super) fn at(self) -> At {
        if self.at & HOT == 0 { At::Activity(self.at) } else { At::Hot(self.at & !HOT) }
    }
}

/// What an entry takes in the table, which is half empty at times.
pub(super) const PLACE: usize = 2 * (size_of::<Place>() + 1);

/// The table takes its places from both ends of a hash.
pub(super) fn spread(hash: u32) -> u64 {
    u64::from(hash) << 32 | u64::from(hash)
}
