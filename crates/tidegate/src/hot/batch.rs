//! Edits and counts that are recorded together: by page, in an order that is theirs and not that in which they came.

use std::collections::{BTreeMap, HashMap};

use super::edit::{Count, Edit, MAX_COUNTED};
use crate::clock::Timestamp;

/// Which edits are of one page, in order: by time, then id. Pages come by the first of their edits, so what becomes of
/// all does not depend on how they were sent. At most `most` are in a group.
pub(super) fn grouped(edits: &[Edit<'_>], most: usize) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..edits.len()).collect();
    order.sort_unstable_by_key(|number| {
        let Edit { page, id, editor, byte_change, at } = edits[*number];
        // Those without a moment are made now, which is the latest there is.
        let at_ms = at.map_or(u64::MAX, Timestamp::as_millis);
        (at_ms, page.as_str(), id, editor, byte_change, *number)
    });
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut last_of: HashMap<&str, usize> = HashMap::with_capacity(edits.len());
    for number in order {
        let group = last_of.entry(edits[number].page.as_str()).or_insert(usize::MAX);
        if groups.get(*group).is_none_or(|it| it.len() >= most) {
            *group = groups.len();
            groups.push(Vec::new());
        }
        groups[*group].push(number);
    }
    groups
}

/// Counts by page, those of a page together, in the order of their names: so what becomes of them does not depend on how
/// they were sent. With each page, which of the counts it has.
pub(super) fn summed<'a>(counts: &[Count<'a>]) -> (Vec<Count<'a>>, Vec<Vec<usize>>) {
    let mut pages: BTreeMap<&str, (Count<'a>, Vec<usize>)> = BTreeMap::new();
    for (number, count) in counts.iter().enumerate() {
        let (sum, numbers) =
            pages.entry(count.page.as_str()).or_insert_with(|| (Count::new(count.page, 0), Vec::new()));
        sum.count = (sum.count + count.count).min(MAX_COUNTED);
        numbers.push(number);
    }
    pages.into_values().unzip()
}

/// What became of edits that were [`grouped`], in the order in which they came.
pub(super) fn in_order_of_coming<T>(groups: Vec<Vec<usize>>, done: Vec<T>) -> Vec<T> {
    let mut answers: Vec<_> = groups.into_iter().flatten().zip(done).collect();
    answers.sort_unstable_by_key(|(number, _)| *number);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Key;

    #[test]
    fn edits_are_grouped_by_page_and_in_order_of_time_and_id() {
        let edit = |page, id, at: Option<u64>| {
            let edit = Edit::new(Key::new(page).expect("a page"), id, "");
            Edit { at: at.map(Timestamp::from_millis), ..edit }
        };
        let edits = [
            edit("b", "2", None),
            edit("a", "9", Some(5)),
            edit("b", "1", None),
            edit("a", "8", Some(5)),
            edit("b", "3", Some(7)),
        ];
        assert_eq!(grouped(&edits, 9), [vec![3, 1], vec![4, 2, 0]]);
        assert_eq!(grouped(&edits, 2), [vec![3, 1], vec![4, 2], vec![0]]);
        assert_eq!(grouped(&[], 2), Vec::<Vec<usize>>::new());
    }
}
