//! What goes in and what comes out.

use super::options::HotOptions;
use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::key::{Key, MAX_KEY_BYTES};

/// The most bytes that an edit can say it has added, or removed.
pub const MAX_BYTE_CHANGE: i64 = 1 << 52;

/// One edit of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edit<'a> {
    /// The caller's whole identity of the page: with the wiki, if there are several.
    pub page: Key<'a>,
    /// Which edit it is: sent twice, it counts once.
    pub id: &'a str,
    /// Who made it; empty if nobody knows, and then it counts for no editor.
    pub editor: &'a str,
    /// By how many bytes the page grew.
    pub byte_change: i64,
    /// When it was made; now, unless told. The store's clock bounds it.
    pub at: Option<Timestamp>,
}

impl<'a> Edit<'a> {
    /// An edit of `page`, made now.
    pub fn new(page: Key<'a>, id: &'a str, editor: &'a str) -> Self {
        Self { page, id, editor, byte_change: 0, at: None }
    }

    /// Whether it can be recorded: one of many that cannot would fail all.
    pub fn check(&self) -> Result<()> {
        let fits = |what: &str, text: &str, least: usize| {
            if (least..=MAX_KEY_BYTES).contains(&text.len()) && !has_nul(text.as_bytes()) {
                return Ok(());
            }
            Err(Error::invalid(format!(
                "{what} has {} bytes: {least} to {MAX_KEY_BYTES} are allowed, none of them NUL",
                text.len()
            )))
        };
        if self.page.as_str().is_empty() {
            return Err(Error::invalid(format!(
                "an edit's page is empty: 1 to {MAX_KEY_BYTES} bytes are allowed"
            )));
        }
        fits("an edit's id", self.id, 1)?;
        fits("an editor", self.editor, 0)?;
        const MOST: i64 = MAX_BYTE_CHANGE;
        if !(-MOST..=MOST).contains(&self.byte_change) {
            let given = self.byte_change;
            return Err(Error::invalid(format!(
                "a byte change of {given} is not allowed: -{MOST} to {MOST} are"
            )));
        }
        Ok(())
    }
}

/// Whether there is a NUL among these bytes: looked for in eight at a time, since every edit is asked.
#[inline]
fn has_nul(bytes: &[u8]) -> bool {
    let has = |eight: &[u8; 8]| {
        const ONES: u64 = u64::MAX / 0xff;
        let eight = u64::from_le_bytes(*eight);
        eight.wrapping_sub(ONES) & !eight & (ONES << 7) != 0
    };
    match bytes.last_chunk() {
        // The last eight have what is left over, and some of those before again.
        Some(last) => has(last) || bytes.as_chunks().0.iter().any(has),
        None => bytes.contains(&0),
    }
}

/// So many views of a page, or whatever else a space counts that keeps no edits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Count<'a> {
    /// The caller's whole identity of the page.
    pub page: Key<'a>,
    /// How many: 1 to [`MAX_AT_ONCE`].
    pub count: u64,
}

/// The most that is counted at once.
pub const MAX_AT_ONCE: u64 = 1_000_000_000;

/// The most that counts of a page at a time: beyond it nothing is added.
pub(super) const MAX_COUNTED: u64 = (1 << 40) - 1;

/// The most that is said of all counts that a page ever had.
pub(super) const MAX_TOTAL: u64 = (1 << 48) - 1;

impl<'a> Count<'a> {
    /// So many of `page`.
    pub fn new(page: Key<'a>, count: u64) -> Self {
        Self { page, count }
    }

    /// Whether it can be counted: one of many that cannot would fail all.
    pub fn check(&self) -> Result<()> {
        if self.page.as_str().is_empty() {
            return Err(Error::invalid(format!("a page is empty: 1 to {MAX_KEY_BYTES} bytes are allowed")));
        }
        match self.count {
            1..=MAX_AT_ONCE => Ok(()),
            count => {
                Err(Error::invalid(format!("a count of {count} is not allowed: 1 to {MAX_AT_ONCE} are")))
            }
        }
    }
}

/// Refuses counts where edits are kept, and edits where they are not.
#[cfg(feature = "redis")]
pub(super) fn check_kind(options: &HotOptions, is_count: bool) -> Result<()> {
    if options.only_counts() == is_count { Ok(()) } else { Err(wrong_kind(options, is_count)) }
}

/// What is said of counts where edits are kept, and of edits where they are not.
#[cold]
pub(super) fn wrong_kind(options: &HotOptions, is_count: bool) -> Error {
    match is_count {
        false => Error::invalid(
            "the space only counts, its max_members_per_page is 0: it takes a page and a count, not an edit",
        ),
        true => Error::invalid(format!(
            "the space keeps edits, its max_members_per_page is {}: it takes edits, not counts",
            options.max_members_per_page
        )),
    }
}

/// What became of an edit, or of a count.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Recorded {
    /// The page is not hot yet; it is remembered.
    Remembered,
    /// It made the page hot, in the place of another if one is named.
    Promoted {
        /// The page that is not tracked any more.
        replaced: Option<String>,
    },
    /// It counts in the window of a hot page.
    Added,
    /// It counts, and nothing else of it is kept: the space only counts, or it is older than all edits of its page that
    /// are, and some have left for want of room. Sent again it counts again, since nobody knows its id.
    Counted,
    /// It waits in this process to be sent with others, see [`gather`](super::HotOptions::gather): what becomes of the page
    /// is not known yet.
    Gathered,
    /// It would have made the page hot, and there is no room.
    Rejected,
    /// It has been recorded before.
    Duplicate,
    /// It is older than all that counts.
    TooLate,
    /// The store is away; nothing of it was recorded, and it is counted as such.
    Dropped,
    /// The store was asked and did not answer in time: it may have been recorded. Sent again
    /// it counts once.
    Unknown,
    /// One of many, of a page whose keys in the store are of another type or cannot be read;
    /// nothing of it was recorded. [`remove`](super::Hot::remove) repairs the page.
    Corrupt,
}

impl Recorded {
    /// The page that had to leave, if one had to.
    pub fn replaced(&self) -> Option<&str> {
        match self {
            Self::Promoted { replaced } => replaced.as_deref(),
            _ => None,
        }
    }

    /// The name in answers.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Remembered => "remembered",
            Self::Promoted { .. } => "promoted",
            Self::Added => "added",
            Self::Counted => "counted",
            Self::Gathered => "gathered",
            Self::Rejected => "rejected",
            Self::Duplicate => "duplicate",
            Self::TooLate => "too_late",
            Self::Dropped => "dropped",
            Self::Unknown => "unknown",
            Self::Corrupt => "corrupt",
        }
    }
}

/// What is known of a page. All zero if it is not hot.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stats {
    /// Whether it is tracked.
    pub is_hot: bool,
    /// Whether it has `promotion_threshold` edits in its window.
    pub is_trending: bool,
    /// Whether its edits come faster than they used to.
    pub is_spiking: bool,
    /// Edits in the last hour, as far as the window covers it.
    pub edits_last_hour: u64,
    /// Edits in the last five minutes.
    pub edits_last_5_minutes: u64,
    /// How much of the last hour the window covers.
    pub covered_ms: u64,
    /// By how much edits may count longer than they should: 0 while all of them are kept, then less than this. Those of
    /// the last five minutes count for less than half a minute longer.
    pub grain_ms: u64,
    /// Editors of the members; edits without one have none.
    pub unique_editors: u64,
    /// Edits in the window that are kept, with id and editor: the newest.
    pub members: u64,
    /// By how much the latest edit changed the page.
    pub last_byte_change: i64,
    /// Edits since it became hot, those that made it so included.
    pub total_edits: u64,
    /// Its first edit of those.
    pub first_seen: Timestamp,
    /// Its latest.
    pub last_seen: Timestamp,
}

/// An edit in the window of a hot page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EditRef {
    /// Which.
    pub id: String,
    /// When.
    pub at: Timestamp,
    /// By whom.
    pub editor: String,
    /// By how many bytes.
    pub byte_change: i64,
}

/// A hot page and its rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HotPage {
    /// The page.
    pub page: String,
    /// Edits in its window.
    pub edits: u64,
    /// Its latest edit.
    pub last_seen: Timestamp,
}

impl HotPage {
    /// A place in a list, to go on behind; see [`Hot::list_after`](super::Hot::list_after).
    pub fn new(page: impl Into<String>, edits: u64, last_seen: Timestamp) -> Self {
        Self { page: page.into(), edits, last_seen }
    }

    /// The `limit` hottest of `pages`, hottest first.
    pub(super) fn hottest(mut pages: Vec<Self>, limit: usize) -> Vec<Self> {
        pages.sort_by(|a, b| (b.rank(), &b.page).cmp(&(a.rank(), &a.page)));
        pages.truncate(limit);
        pages
    }

    /// By what pages are ranked; then by name.
    pub(super) fn rank(&self) -> Rank {
        Rank::new(self.edits, self.last_seen.as_millis())
    }
}

/// Where a page stands: edits first, then the latest of them. As a store has it that keeps one double for both: edits
/// exactly, and of the moment as much as there is room for, which is all of it below 4,096 edits and four seconds at
/// ten million.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct Rank(u64);

impl Rank {
    #[inline]
    pub(super) fn new(edits: u64, last_ms: u64) -> Self {
        let rank = edits.min(MAX_RANKED) as f64 * RANKED + last_ms.min(RANKED as u64 - 1) as f64;
        // Doubles that are not negative have the order of their bits.
        Self(rank.to_bits())
    }

    /// In the same order.
    pub(super) fn bits(self) -> u64 {
        self.0
    }
}

/// Times edits; scripts have the same.
const RANKED: f64 = (1_u64 << 41) as f64;

/// More edits than are ever counted, which a double has exactly.
pub(super) const MAX_RANKED: u64 = 1 << 53;

/// What happened to a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EventKind {
    /// It became hot.
    Promoted,
    /// Another took its place.
    Replaced,
    /// It reached `promotion_threshold`.
    Trending,
    /// Its edits come faster than they used to.
    Spiking,
    /// Its window is empty.
    Cooled,
    /// It has fewer edits than `promotion_threshold` again, or is not hot any more.
    TrendingEnded,
    /// Its edits come no longer faster, or it is not hot any more.
    SpikingEnded,
    /// Somebody removed it.
    Removed,
    /// Who watches is told so, of no page: more has happened since than is kept, and what
    /// comes next is the oldest that is left.
    Missed,
}

impl EventKind {
    /// The name in answers and in the store.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Promoted => "promoted",
            Self::Replaced => "replaced",
            Self::Trending => "trending",
            Self::Spiking => "spiking",
            Self::Cooled => "cooled",
            Self::TrendingEnded => "trending_ended",
            Self::SpikingEnded => "spiking_ended",
            Self::Removed => "removed",
            Self::Missed => "missed",
        }
    }

    /// What happens to pages, in the order in which a store counts it.
    pub(crate) const OF_PAGES: [Self; 8] = [
        Self::Promoted,
        Self::Replaced,
        Self::Trending,
        Self::TrendingEnded,
        Self::Spiking,
        Self::SpikingEnded,
        Self::Cooled,
        Self::Removed,
    ];

    pub(super) fn named(name: &str) -> Option<Self> {
        Self::OF_PAGES.into_iter().find(|kind| kind.as_str() == name)
    }
}

/// How many events of each kind, in the order of [`EventKind::OF_PAGES`].
pub(super) type EventCounts = [u32; EventKind::OF_PAGES.len()];

/// What a removed page had been.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Removed {
    /// Hot.
    Hot,
    /// Not hot, and remembered.
    Remembered,
    /// Not known.
    Unknown,
}

impl Removed {
    /// The name in answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hot => "hot",
            Self::Remembered => "remembered",
            Self::Unknown => "unknown",
        }
    }
}

/// Something that happened, once, however many servers share the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Where it stands among all, to go on from: opaque, and per space.
    pub cursor: String,
    /// What.
    pub kind: EventKind,
    /// To which page.
    pub page: String,
    /// Its edits in the window then; of `Missed`, how many events were, 0 if nobody knows.
    pub edits: u64,
    /// When, by the store's clock.
    pub at: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nul_is_found_wherever_it_is_and_nothing_else_is_taken_for_one() {
        for length in 0..40 {
            let mut bytes = vec![1; length];
            assert!(
                !has_nul(&bytes) && !has_nul(&vec![0x80; length]) && !has_nul(&vec![0xff; length]),
                "{length}"
            );
            for at in 0..length {
                bytes[at] = 0;
                assert!(has_nul(&bytes), "{at} of {length}");
                bytes[at] = 1;
            }
        }
    }
}
