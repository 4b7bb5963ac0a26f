//! Time, in one place.
//!
//! Everything that decides by time asks a [`Clock`]. Production reads the
//! system's clock (on Redis: the server's own `TIME`, inside the script); a test
//! holds a [`ManualClock`] and moves it, backwards too. Nothing else in the
//! project may read a clock: `clippy.toml` bans it.

#[cfg(feature = "redis")]
mod elapsed;

use std::cell::Cell;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::LocalKey;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

#[cfg(feature = "redis")]
pub(crate) use self::elapsed::deadline;
#[cfg(feature = "redis")]
pub use self::elapsed::since_boot;

/// Milliseconds since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The instant `ms` milliseconds after the epoch.
    pub const fn from_millis(ms: u64) -> Self {
        Self(ms)
    }

    /// Milliseconds since the epoch.
    pub const fn as_millis(self) -> u64 {
        self.0
    }
}

/// As RFC 3339 has it: `2026-11-15T12:30:00.000Z`.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, ms) = (self.0 / 86_400_000, self.0 % 86_400_000);
        // Years that begin in March end with the leap day, in cycles of 400.
        let days = days + 719_468;
        let (cycle, day) = (days / 146_097, days % 146_097);
        let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
        let day = day - (365 * year + year / 4 - year / 100);
        let month = (5 * day + 2) / 153;
        let day = day - (153 * month + 2) / 5 + 1;
        let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
        let year = cycle * 400 + year + next;
        let (hour, minute, second) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", ms % 1000)
    }
}

/// Where a store takes its time from.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Clock {
    /// The system's clock; on Redis the server's.
    System(SystemClock),
    /// A clock that a test moves; on Redis its reading goes along with each call.
    Manual(ManualClock),
}

impl Clock {
    /// The system's clock.
    pub fn system() -> Self {
        Self::System(SystemClock::new())
    }

    /// The current time.
    #[inline]
    pub fn now(&self) -> Timestamp {
        match self {
            Self::System(clock) => clock.now(),
            Self::Manual(clock) => clock.now(),
        }
    }

    /// How long after its end an entry is kept before it is collected: long
    /// enough that collecting can never be mistaken for expiring, however the
    /// clock of a test moves.
    pub(crate) fn slack_ms(&self) -> u64 {
        match self {
            Self::System(_) => 10_000,
            Self::Manual(_) => 3_600_000,
        }
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::system()
    }
}

impl From<ManualClock> for Clock {
    fn from(clock: ManualClock) -> Self {
        Self::Manual(clock)
    }
}

/// The system's wall clock in whole milliseconds, at a third of its usual price.
///
/// The system is asked once per millisecond and thread. In between, the
/// processor's counter (10 ns) says whether that millisecond has passed, so a
/// reading is never older than the millisecond it names and cannot drift.
#[derive(Debug, Clone)]
pub struct SystemClock(Counter);

/// Milliseconds since some moment of this process, at the same price. They never step.
#[derive(Debug, Clone)]
pub struct MonotonicClock(Counter);

/// The processor's counter.
#[derive(Debug, Clone)]
struct Counter {
    clock: quanta::Clock,
    ticks_per_ms: u64,
}

/// The millisecond a thread has last seen, and the counter readings within it.
#[derive(Clone, Copy)]
struct Seen {
    from: u64,
    ticks: u64,
    ms: u64,
}

impl Seen {
    const NOTHING: Self = Self { from: 0, ticks: 0, ms: 0 };
}

thread_local! {
    static SEEN: Cell<Seen> = const { Cell::new(Seen::NOTHING) };
    static SEEN_MONOTONIC: Cell<Seen> = const { Cell::new(Seen::NOTHING) };
}

/// What monotonic milliseconds are counted from.
static START: OnceLock<Instant> = OnceLock::new();

impl Counter {
    fn new() -> Self {
        let clock = quanta::Clock::new();
        const SAMPLE: u64 = 1 << 32;
        let nanos = clock.delta_as_nanos(0, SAMPLE).max(1);
        let ticks_per_ms = (u128::from(SAMPLE) * 1_000_000 / u128::from(nanos)) as u64;
        Self { clock, ticks_per_ms }
    }

    /// The millisecond of a clock: the one that was seen last, or else `read` from the system.
    #[inline]
    fn millis(&self, seen: &'static LocalKey<Cell<Seen>>, read: fn() -> Duration) -> u64 {
        let counter = self.clock.raw();
        let last = seen.get();
        if counter.wrapping_sub(last.from) < last.ticks {
            return last.ms;
        }
        self.read_system(counter, seen, read())
    }

    /// `counter` was read before the system was asked, so the millisecond is taken
    /// to end a little early rather than a little late.
    #[cold]
    fn read_system(&self, counter: u64, seen: &'static LocalKey<Cell<Seen>>, read: Duration) -> u64 {
        let ms = read.as_millis() as u64;
        let left_ns = 1_000_000 - u64::from(read.subsec_nanos()) % 1_000_000;
        let ticks = self.ticks_per_ms * left_ns / 1_000_000;
        seen.set(Seen { from: counter, ticks, ms });
        ms
    }
}

impl SystemClock {
    /// A clock; the first one in a process takes some milliseconds to measure
    /// the counter.
    pub fn new() -> Self {
        Self(Counter::new())
    }

    /// The current time.
    #[inline]
    pub fn now(&self) -> Timestamp {
        Timestamp(self.0.millis(&SEEN, read_wall))
    }
}

#[allow(clippy::disallowed_methods, reason = "the one place that reads the wall clock")]
fn read_wall() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

impl MonotonicClock {
    /// A clock; as for [`SystemClock`], the first one takes some milliseconds. All of a process count from the same moment.
    pub fn new() -> Self {
        START.get_or_init(monotonic);
        Self(Counter::new())
    }

    /// Milliseconds since that moment.
    #[inline]
    pub fn elapsed_ms(&self) -> u64 {
        self.0.millis(&SEEN_MONOTONIC, || START.get_or_init(monotonic).elapsed())
    }
}

impl Default for MonotonicClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

/// A clock that stands still until it is moved. Clones show the same time.
///
/// ```
/// use tidegate::clock::{ManualClock, Timestamp};
/// let clock = ManualClock::at(Timestamp::from_millis(1_000));
/// clock.advance_ms(500);
/// assert_eq!(clock.now().as_millis(), 1_500);
/// ```
#[derive(Debug, Clone)]
pub struct ManualClock(Arc<AtomicU64>);

impl ManualClock {
    /// A clock that shows `at`.
    pub fn at(at: Timestamp) -> Self {
        Self(Arc::new(AtomicU64::new(at.0)))
    }

    /// The time it shows.
    pub fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::Acquire))
    }

    /// Shows `at` from now on; may be earlier than before.
    pub fn set(&self, at: Timestamp) {
        self.0.store(at.0, Ordering::Release);
    }

    /// Moves on by `ms`.
    pub fn advance_ms(&self, ms: u64) {
        self.0.fetch_add(ms, Ordering::AcqRel);
    }
}

/// The moment that decides: the clock's, or that of the latest stamp if the clock is behind it, so
/// that nothing which is over counts again; and whether the stamp is absurd. One that is more than
/// `absurd` ahead was left by a clock that was wrong, and decides nothing. In milliseconds, or in
/// whatever all three are. Scripts have the same in `prelude.lua`.
#[inline(always)]
pub(crate) fn deciding(clock: u64, stamp: u64, absurd: u64) -> (u64, bool) {
    let is_absurd = stamp > clock + absurd;
    (if is_absurd { clock } else { stamp.max(clock) }, is_absurd)
}

/// How far a stamp may be ahead of the clock, of what counts for `counts_ms`.
pub(crate) const fn absurd_ms(counts_ms: u64) -> u64 {
    if counts_ms > 60_000 { counts_ms } else { 60_000 }
}

/// A reading for deadlines and durations: it never steps.
#[allow(clippy::disallowed_methods, reason = "the one place that reads the monotonic clock")]
pub fn monotonic() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_are_shown_as_dates() {
        for (ms, shown) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_442_018_818_771, "2015-09-12T00:46:58.771Z"),
            (4_107_542_399_000, "2100-02-28T23:59:59.000Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(Timestamp(ms).to_string(), shown);
        }
    }

    #[test]
    fn what_was_decides_unless_it_is_absurdly_far_ahead() {
        assert_eq!(deciding(1000, 0, 60), (1000, false));
        assert_eq!(deciding(1000, 1000, 60), (1000, false));
        assert_eq!(deciding(1000, 1060, 60), (1060, false));
        assert_eq!(deciding(1000, 1061, 60), (1000, true));
        assert_eq!([0, 60_000, 60_001].map(absurd_ms), [60_000, 60_000, 60_001]);
    }

    #[test]
    #[allow(clippy::disallowed_methods, reason = "compares with the system's clock")]
    fn system_clock_names_the_current_millisecond() {
        let clock = SystemClock::new();
        for _ in 0..200_000 {
            let before = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64;
            let shown = clock.now().as_millis();
            let after = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64;
            assert!(before <= shown && shown <= after, "{before} <= {shown} <= {after}");
        }
    }
    #[test]
    fn monotonic_clock_names_the_current_millisecond() {
        let clock = MonotonicClock::new();
        let read = || START.get().unwrap().elapsed().as_millis() as u64;
        for _ in 0..200_000 {
            let before = read();
            let shown = clock.elapsed_ms();
            assert!(before <= shown && shown <= read(), "{before} <= {shown}");
        }
    }
}
