//! The hottest of pages that come by rank.

use std::collections::BTreeMap;

use crate::clock::Timestamp;
use crate::hot::edit::{HotPage, Rank};

/// The `limit` hottest of `pages` behind `after`, by how many edits each has now and the latest of them, if it is still
/// hot. Pages come with a rank, none of which is too low and the highest first; those without one come before.
pub(super) fn hottest<'a, P: 'a>(
    pages: impl Iterator<Item = (Option<Rank>, &'a P)>,
    after: Option<&HotPage>,
    limit: usize,
    name: impl Fn(&'a P) -> &'a str,
    edits_and_last_ms: impl Fn(&P) -> Option<(u64, u64)>,
) -> Vec<HotPage> {
    let after = after.map(|after| (after.rank(), after.page.as_str()));
    // The coldest of them is at hand.
    let mut hottest: BTreeMap<(Rank, &str), HotPage> = BTreeMap::new();
    for (indexed, page) in pages {
        let coldest = hottest.first_key_value().filter(|_| hottest.len() == limit);
        if coldest.zip(indexed).is_some_and(|(((rank, _), _), indexed)| indexed < *rank) {
            break;
        }
        let Some((edits, last_ms)) = edits_and_last_ms(page) else { continue };
        let place = (Rank::new(edits, last_ms), name(page));
        if after.is_none_or(|after| place < after) {
            hottest.insert(place, HotPage::new(place.1, edits, Timestamp::from_millis(last_ms)));
        }
        if hottest.len() > limit {
            hottest.pop_first();
        }
    }
    hottest.into_values().rev().collect()
}
