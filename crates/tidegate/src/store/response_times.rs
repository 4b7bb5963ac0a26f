//! How long the store took to answer, lately: in a few kilobytes, however many calls there are.
//!
//! Times are counted in buckets, eight to each doubling, so one that is read is at most an eighth
//! too long. Two spans of five minutes are kept, the one that runs and the one before it: what is
//! told is of the last five to ten minutes.

use std::time::{Duration, Instant};

/// Buckets per doubling, as bits.
const FINE: u32 = 3;

/// The longest time that is told apart: 2^27 µs, two minutes and more. No call may take so long.
const LONGEST: u32 = 27;

const BUCKETS: usize = ((LONGEST - FINE + 1) << FINE) as usize;

/// How long a span is.
pub(super) const SPAN: Duration = Duration::from_secs(300);

/// What was counted in one span.
#[derive(Debug, Clone)]
struct Span {
    since: Instant,
    calls: u64,
    micros: u64,
    counts: Box<[u64; BUCKETS]>,
}

impl Span {
    fn new(since: Instant) -> Self {
        Self { since, calls: 0, micros: 0, counts: Box::new([0; BUCKETS]) }
    }
}

/// The times of one part.
#[derive(Debug, Default)]
pub(super) struct Times {
    current: Option<Span>,
    previous: Option<Span>,
}

/// Times that were added up.
#[derive(Debug, Default)]
pub(super) struct Summed {
    calls: u64,
    micros: u64,
    counts: Vec<u64>,
}

impl Times {
    /// Counts `calls` that took `took` and were answered at `now`.
    pub(super) fn count(&mut self, calls: u64, took: Duration, now: Instant) {
        self.pass(now);
        let span = self.current.get_or_insert_with(|| Span::new(now));
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        span.calls += calls;
        span.micros = span.micros.saturating_add(micros.saturating_mul(calls));
        span.counts[bucket(micros)] += calls;
    }

    /// Leaves out what is over.
    fn pass(&mut self, now: Instant) {
        let age = |span: &Span| now.saturating_duration_since(span.since);
        if self.current.as_ref().is_some_and(|span| age(span) >= SPAN) {
            self.previous = self.current.take();
        }
        if self.previous.as_ref().is_some_and(|span| age(span) >= 2 * SPAN) {
            self.previous = None;
        }
    }

    /// Adds what there is at `now` to a sum.
    pub(super) fn add_to(&mut self, sum: &mut Summed, now: Instant) {
        self.pass(now);
        sum.counts.resize(BUCKETS, 0);
        for span in self.current.iter().chain(&self.previous) {
            sum.calls += span.calls;
            sum.micros = sum.micros.saturating_add(span.micros);
            sum.counts.iter_mut().zip(&*span.counts).for_each(|(sum, count)| *sum += count);
        }
    }
}

impl Summed {
    /// The average; none of nothing.
    pub(super) fn average(&self) -> Option<Duration> {
        self.micros.checked_div(self.calls).map(Duration::from_micros)
    }

    /// What 99 of 100 calls did not exceed.
    pub(super) fn p99(&self) -> Option<Duration> {
        let rank = (self.calls > 0).then(|| (self.calls * 99).div_ceil(100))?;
        let mut below = 0;
        let found = self.counts.iter().position(|count| {
            below += count;
            below >= rank
        });
        found.map(|bucket| Duration::from_micros(upper(bucket)))
    }
}

/// The bucket of a time.
fn bucket(micros: u64) -> usize {
    let micros = micros.min((1 << LONGEST) - 1);
    match micros.checked_ilog2() {
        Some(doublings) if doublings > FINE => {
            let above = doublings - FINE;
            ((u64::from(above) << FINE) + (micros >> above)) as usize
        }
        _ => micros as usize,
    }
}

/// The longest time of a bucket.
fn upper(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    match (bucket >> FINE).checked_sub(1) {
        Some(above) => {
            let first = (bucket & ((1 << FINE) - 1)) | (1 << FINE);
            ((first + 1) << above) - 1
        }
        None => bucket,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    fn read(times: &mut Times, now: Instant) -> (Option<Duration>, Option<Duration>) {
        let mut sum = Summed::default();
        times.add_to(&mut sum, now);
        (sum.average(), sum.p99())
    }

    #[test]
    fn a_bucket_is_at_most_an_eighth_too_long() {
        let mut last = 0;
        for micros in (0..4095).chain((12..27).flat_map(|bits| [(1 << bits) - 1, 1 << bits, (1 << bits) + 1]))
        {
            let (bucket, upper) = (bucket(micros), upper(bucket(micros)));
            assert!(bucket < BUCKETS && bucket >= last, "{micros}: {bucket} after {last}");
            assert!(upper >= micros && upper - micros <= micros / 8, "{micros}: {upper}");
            last = bucket;
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn one_call_of_a_hundred_may_be_slow() {
        let (now, ms) = (clock::monotonic(), Duration::from_millis);
        let mut times = Times::default();
        assert_eq!(read(&mut times, now), (None, None));
        times.count(99, ms(2), now);
        times.count(1, ms(800), now);
        let (average, p99) = read(&mut times, now);
        assert_eq!(average, Some(Duration::from_micros((99 * 2000 + 800_000) / 100)));
        assert!((ms(2)..=ms(2) * 9 / 8).contains(&p99.unwrap()), "{p99:?}");
        times.count(1, ms(800), now);
        let (_, p99) = read(&mut times, now);
        assert!((ms(800)..=ms(900)).contains(&p99.unwrap()), "two of a hundred and one: {p99:?}");
    }

    #[test]
    fn what_is_told_is_of_the_last_five_to_ten_minutes() {
        let (now, ms) = (clock::monotonic(), Duration::from_millis);
        let mut times = Times::default();
        times.count(1, ms(400), now);
        times.count(1, ms(2), now + SPAN);
        assert_eq!(read(&mut times, now + SPAN).0, Some(ms(201)));
        assert_eq!(read(&mut times, now + 2 * SPAN - ms(1)).0, Some(ms(201)));
        assert_eq!(read(&mut times, now + 2 * SPAN).0, Some(ms(2)));
        assert_eq!(read(&mut times, now + 3 * SPAN - ms(1)).0, Some(ms(2)));
        assert_eq!(read(&mut times, now + 3 * SPAN).0, None);
    }
}
