//! Edits and counts that are recorded together: by page, in an order that is theirs and not that in which they came.

use std::collections::{BTreeMap, HashMap};

use super::edit::{Count, Edit, MAX_COUNTED, Recorded};
use crate::clock::Timestamp;

/// Edits of one page that are recorded together, at most: those of a page with more are, one group after the other.
pub(super) const MAX_EDITS: usize = 512;

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

/// What became of the pages of counts that were [`summed`], each as often as it has counts, in the order in which those came.
pub(super) fn in_order_of_coming<T>(numbers: Vec<Vec<usize>>, done: Vec<T>) -> Vec<T> {
    in_order(numbers.into_iter().flatten().zip(done).collect())
}

/// What became of each, by its number.
pub(super) fn in_order<T>(mut answers: Vec<(usize, T)>) -> Vec<T> {
    answers.sort_unstable_by_key(|(number, _)| *number);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

/// What became of ids of pages that have more edits in a batch than are recorded together: each counts once among all.
#[derive(Debug, Default)]
pub(super) struct Before<'a>(HashMap<(&'a str, &'a str), Recorded>);

impl<'a> Before<'a> {
    /// Takes edits whose ids are known out of a group, with what is told of them.
    pub(super) fn take_known(&self, edits: &[Edit<'a>], group: &mut Vec<usize>) -> Vec<(usize, Recorded)> {
        if self.0.is_empty() {
            return Vec::new();
        }
        let known = |number: usize| self.0.get(&(edits[number].page.as_str(), edits[number].id));
        let taken = group.iter().filter_map(|it| Some((*it, known(*it)?.clone()))).collect();
        group.retain(|it| known(*it).is_none());
        taken
    }

    /// Notes what became of an edit. One that was not recorded leaves it to the next with its id.
    pub(super) fn note(&mut self, edit: &Edit<'a>, recorded: &Recorded) {
        let next = match recorded {
            Recorded::TooLate | Recorded::Dropped | Recorded::Corrupt => return,
            // Sent again it might count twice, and left out not at all: nobody knows of either.
            Recorded::Unknown => Recorded::Unknown,
            _ => Recorded::Duplicate,
        };
        self.0.entry((edit.page.as_str(), edit.id)).or_insert(next);
    }
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
