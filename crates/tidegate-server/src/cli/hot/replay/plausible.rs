//! Rows whose time is far from that of the rows around them.
//!
//! The file's times drive the clock, which never goes back: one row dated 2100 would make all
//! that follow too late. So a row waits until as many after it are known as are looked at
//! before it, and is judged by the middle of them all: one, or a few hundred in a row, do not
//! move the middle, and a file that really goes on months later does.

use std::collections::VecDeque;
use std::time::Duration;

/// Rows before and after one that it is judged by.
const NEIGHBOURS: usize = 500;

/// Rows that have been read and not judged yet, among those that they are judged by.
pub(super) struct Plausible<T> {
    max_gap_ms: u64,
    /// By when; nothing is left of those that have been judged.
    rows: VecDeque<(u64, Option<T>)>,
    /// The next to be judged.
    next: usize,
    /// When all of them are, in order.
    sorted: Vec<u64>,
}

/// A row, and how far it is from those around it if that is too far.
pub(super) struct Judged<T> {
    pub(super) row: T,
    pub(super) too_far_ms: Option<u64>,
}

impl<T> Plausible<T> {
    pub(super) fn new(max_gap: Duration) -> Self {
        let max_gap_ms = u64::try_from(max_gap.as_millis()).unwrap_or(u64::MAX);
        Self { max_gap_ms, rows: VecDeque::new(), next: 0, sorted: Vec::new() }
    }

    /// Adds a row; the one that is judged by it, if there is one.
    pub(super) fn push(&mut self, at_ms: u64, row: T) -> Option<Judged<T>> {
        self.rows.push_back((at_ms, Some(row)));
        let place = self.sorted.partition_point(|other| *other <= at_ms);
        self.sorted.insert(place, at_ms);
        if self.rows.len() - self.next > NEIGHBOURS { self.judge() } else { None }
    }

    /// The next of those that are left, after the last.
    pub(super) fn pop(&mut self) -> Option<Judged<T>> {
        self.judge()
    }

    fn judge(&mut self) -> Option<Judged<T>> {
        let (at_ms, row) = self.rows.get_mut(self.next)?;
        let (at_ms, row) = (*at_ms, row.take()?);
        self.next += 1;
        let at = |eighths: usize| self.sorted[self.sorted.len() * eighths / 8];
        let far_ms = at_ms.abs_diff(at(4));
        // Where rows are far from each other, further is no wonder.
        let spread_ms = at(5) - at(3);
        let is_too_far = far_ms > self.max_gap_ms.max(spread_ms.saturating_mul(10));
        if self.next > NEIGHBOURS
            && let Some((gone_ms, _)) = self.rows.pop_front()
        {
            self.next -= 1;
            let place = self.sorted.partition_point(|other| *other < gone_ms);
            self.sorted.remove(place);
        }
        Some(Judged { row, too_far_ms: is_too_far.then_some(far_ms) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u64 = 86_400_000;
    const START: u64 = 1_442_016_000_000;
    const IN_2100: u64 = 4_102_444_800_000;

    /// Which rows are too far, all in the order they came.
    fn too_far(times: &[u64]) -> Vec<usize> {
        let mut plausible = Plausible::new(Duration::from_secs(86_400));
        let mut judged: Vec<Judged<usize>> =
            times.iter().enumerate().filter_map(|(row, at_ms)| plausible.push(*at_ms, row)).collect();
        judged.extend(std::iter::from_fn(|| plausible.pop()));
        assert!(judged.iter().map(|it| it.row).eq(0..times.len()), "each once, in order");
        judged.iter().filter(|it| it.too_far_ms.is_some()).map(|it| it.row).collect()
    }

    fn rows(count: u64, every_ms: u64) -> Vec<u64> {
        (0..count).map(|n| START + n * every_ms).collect()
    }

    #[test]
    fn one_or_many_in_a_row_are_found_wherever_they_are() {
        for count in [3, 7, 100, 1000, 5000] {
            for odd in [IN_2100, 0, START - 400 * DAY, START + 400 * DAY] {
                for at in [0, 1, count / 2, count - 1, count] {
                    let mut times = rows(count, 1000);
                    times.insert(at as usize, odd);
                    assert_eq!(too_far(&times), [at as usize], "{odd} at {at} of {count}");
                }
            }
        }
        for run in [2, 20, 300] {
            let mut times = rows(3000, 1000);
            times.splice(1000..1000, (0..run).map(|n| IN_2100 + n));
            assert_eq!(too_far(&times), (1000..1000 + run as usize).collect::<Vec<_>>());
        }
    }

    #[test]
    fn what_goes_on_later_or_comes_seldom_is_kept() {
        assert_eq!(too_far(&rows(2000, DAY * 7)), [0; 0], "one a week");
        let month = START + 30 * DAY;
        let later: Vec<u64> =
            rows(2000, 1000).into_iter().chain((0..2000).map(|n| month + n * 1000)).collect();
        assert_eq!(too_far(&later), [0; 0], "a day, and another a month later");
        let mut mixed = rows(4000, 1000);
        mixed.swap(10, 700);
        assert_eq!(too_far(&mixed), [0; 0], "out of order");
        assert_eq!(too_far(&[START, IN_2100]), [0; 0], "nobody knows which");
        assert_eq!(too_far(&[]), [0; 0]);
    }
}
