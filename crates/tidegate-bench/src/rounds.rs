//! How things are timed: contenders take turns, and the median round counts.
//!
//! Turns are short, so that whatever else the machine does meets all contenders
//! alike; the first round warms up and does not count.

use std::time::Duration;

use anyhow::Result;
use tidegate::clock::monotonic;

/// How much to measure.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Effort {
    /// Rounds that count.
    pub(crate) rounds: usize,
    /// Whether all of it has to end within two minutes.
    pub(crate) quick: bool,
}

impl Effort {
    pub(crate) fn new(quick: bool) -> Self {
        Self { rounds: if quick { 7 } else { 25 }, quick }
    }

    /// Either of two sizes.
    pub(crate) fn pick<T>(self, quick: T, full: T) -> T {
        if self.quick { quick } else { full }
    }
}

/// What several contenders measured, round by round.
pub(crate) struct Samples<const N: usize>([Vec<f64>; N]);

impl<const N: usize> Samples<N> {
    pub(crate) fn new() -> Self {
        Self(std::array::from_fn(|_| Vec::new()))
    }

    /// Adds what the contenders measured in a round.
    pub(crate) fn push(&mut self, round: [f64; N]) {
        self.0.iter_mut().zip(round).for_each(|(samples, sample)| samples.push(sample));
    }

    /// The median round of each contender.
    pub(crate) fn medians(mut self) -> [f64; N] {
        self.0.each_mut().map(|samples| {
            samples.sort_by(f64::total_cmp);
            let middle = samples.len() / 2;
            match samples.len() {
                0 => f64::NAN,
                n if n % 2 == 1 => samples[middle],
                _ => (samples[middle - 1] + samples[middle]) / 2.0,
            }
        })
    }
}

/// Something that does a round and says how it went.
pub(crate) type Contender<'a> = &'a mut dyn FnMut() -> Result<f64>;

/// Lets the contenders take turns; the median of each.
pub(crate) fn alternate<const N: usize>(rounds: usize, contenders: [Contender<'_>; N]) -> Result<[f64; N]> {
    let mut samples = Samples::new();
    for round in 0..=rounds {
        let mut sample = [0.0; N];
        for turn in 0..N {
            // Nobody always follows the same neighbour.
            let at = (turn + round) % N;
            sample[at] = contenders[at]()?;
        }
        if round > 0 {
            samples.push(sample);
        }
    }
    Ok(samples.medians())
}

/// How long `work` takes.
pub(crate) fn time(work: impl FnOnce()) -> Duration {
    let start = monotonic();
    work();
    start.elapsed()
}

/// Nanoseconds per operation of `operations` in a row.
pub(crate) fn ns_each(operations: usize, mut operation: impl FnMut(usize)) -> f64 {
    let taken = time(|| (0..operations).for_each(&mut operation));
    taken.as_nanos() as f64 / operations as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_round_does_not_count_and_the_median_does() {
        let mut times = [100.0, 3.0, 1.0, 2.0].into_iter();
        let mut one = || Ok(times.next().unwrap_or_default());
        let mut other = || Ok(7.0);
        assert_eq!(alternate(3, [&mut one, &mut other]).unwrap(), [2.0, 7.0]);
    }
}
