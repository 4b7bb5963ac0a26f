//! Numbers with a bound: rates, windows, costs and what follows from them.
//!
//! Rates are exact decimals. A capacity is computed once, here, in integers:
//! 0.29/s over 100 s is 29, where floating point says 28.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::error::{Error, Result};

/// The largest count anywhere: Lua's numbers are exact up to here.
pub const MAX_COUNT: u64 = (1 << 53) - 1;

/// How many permits a call asks for: at least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cost(u64);

impl Cost {
    /// One permit.
    pub const ONE: Self = Self(1);

    /// Checks `permits`: 1 to 2^53 − 1.
    #[inline]
    pub fn new(permits: u64) -> Result<Self> {
        if permits == 0 || permits > MAX_COUNT {
            return Err(Error::invalid(format!("a cost of {permits} is not allowed: 1 to {MAX_COUNT} are")));
        }
        Ok(Self(permits))
    }

    /// The number of permits.
    #[inline]
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// What happens when there is room for no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum WhenFull {
    /// One more is refused: a key, with the time at which the first may be idle; a page, which
    /// is tried again with its next edit.
    #[default]
    Refuse,
    /// Limits only: one more key shares a window with all others there is no room for.
    Share,
    /// Hot pages only: one more takes the place of the coldest, if that is colder: fewest edits
    /// in its window, then the oldest last edit.
    ReplaceColdest,
}

impl WhenFull {
    /// A word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Refuse => "refuse",
            Self::Share => "share",
            Self::ReplaceColdest => "replace_coldest",
        }
    }

    /// Whether it is one of those that `what` can do.
    pub(crate) fn check(self, what: &str, allowed: [Self; 2]) -> Result<()> {
        if allowed.contains(&self) {
            return Ok(());
        }
        let [one, other] = allowed.map(Self::as_str);
        let given = self.as_str();
        Err(Error::invalid(format!(
            "a when_full of {given} is not allowed for {what}: {one} and {other} are"
        )))
    }
}

/// The length of a window: whole seconds, 1 s to 31 days.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Window(u64);

impl Window {
    const MAX_SECONDS: u64 = 31 * 24 * 3600;

    /// Checks `length`.
    pub fn new(length: Duration) -> Result<Self> {
        if length.subsec_nanos() != 0 || !(1..=Self::MAX_SECONDS).contains(&length.as_secs()) {
            return Err(Error::invalid(format!(
                "a window of {length:?} is not allowed: whole seconds from 1s to 31 days are"
            )));
        }
        Ok(Self(length.as_secs()))
    }

    /// The length in seconds.
    pub const fn as_seconds(self) -> u64 {
        self.0
    }

    /// The length in milliseconds.
    pub const fn as_millis(self) -> u64 {
        self.0 * 1000
    }
}

/// Permits per unit of time, as an exact decimal.
///
/// ```
/// use std::time::Duration;
/// use tidegate::{Rate, Window};
/// let rate: Rate = "0.29/s".parse()?;
/// assert_eq!(rate.capacity(Window::new(Duration::from_secs(100))?)?, 29);
/// assert_eq!("300/m".parse::<Rate>()?.capacity(Window::new(Duration::from_secs(60))?)?, 300);
/// # Ok::<(), tidegate::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rate {
    /// The decimal without its point.
    digits: u64,
    /// How many of the digits stand behind the point.
    decimals: u32,
    unit: Unit,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Unit {
    Second,
    Minute,
    Hour,
    Day,
}

impl Unit {
    fn as_millis(self) -> u64 {
        match self {
            Self::Second => 1000,
            Self::Minute => 60_000,
            Self::Hour => 3_600_000,
            Self::Day => 86_400_000,
        }
    }
}

impl Rate {
    const MAX_DECIMALS: usize = 9;

    /// `permits` per second.
    pub fn per_second(permits: u32) -> Self {
        Self { digits: u64::from(permits), decimals: 0, unit: Unit::Second }
    }

    /// How many permits `window` holds, rounded down.
    ///
    /// Fails if that is none at all, or more than can be counted.
    pub fn capacity(self, window: Window) -> Result<u64> {
        let capacity = self.scaled_capacity(window, 1_000_000);
        match u64::try_from(capacity) {
            Ok(capacity @ 1..=MAX_COUNT) => Ok(capacity),
            _ => Err(Error::invalid(format!(
                "{self} over {} s is {capacity} permits: 1 to {MAX_COUNT} are allowed",
                window.as_seconds()
            ))),
        }
    }

    /// How many permits `millionths` of `window` hold, rounded down.
    pub(crate) fn scaled_capacity(self, window: Window, millionths: u64) -> u128 {
        let scale = u128::from(self.unit.as_millis()) * 10u128.pow(self.decimals) * 1_000_000;
        u128::from(self.digits) * u128::from(window.as_millis()) * u128::from(millionths) / scale
    }

    /// The smallest whole numbers of which `.0` are one permit and `.1` come in per
    /// microsecond: the rate without any rounding. None if the rate is nothing.
    pub(crate) fn per_microsecond(self) -> Option<(u64, u64)> {
        let permit = u128::from(self.unit.as_millis()) * 1000 * 10u128.pow(self.decimals);
        let drain = u128::from(self.digits);
        if drain == 0 {
            return None;
        }
        let (mut divisor, mut rest) = (permit, drain);
        while rest > 0 {
            (divisor, rest) = (rest, divisor % rest);
        }
        Some((u64::try_from(permit / divisor).ok()?, u64::try_from(drain / divisor).ok()?))
    }

    /// The same in numbers of at most `most`: where they are larger, rounded to the
    /// next slower rate that they can say, or the slowest.
    pub(crate) fn per_microsecond_within(self, most: u64) -> (u64, u64) {
        let exact = self.per_microsecond().filter(|(permit, drain)| (*permit).max(*drain) <= most);
        exact.unwrap_or_else(|| {
            let permit = u128::from(self.unit.as_millis()) * 1000 * 10u128.pow(self.decimals);
            let drain = u128::from(self.digits);
            let scale = permit.max(drain).div_ceil(u128::from(most));
            // Both are at most `most` now, which is a u64.
            (permit.div_ceil(scale) as u64, (drain / scale).max(1) as u64)
        })
    }
}

impl FromStr for Rate {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let refused = || {
            Error::invalid(format!(
                "{text:?} is not a rate: a decimal of at most {} places and /s, /m, /h or /d is, like 5/s or 0.29/s",
                Self::MAX_DECIMALS
            ))
        };
        let (number, unit) = text.trim().split_once('/').unwrap_or((text.trim(), "s"));
        let unit = match unit {
            "s" => Unit::Second,
            "m" => Unit::Minute,
            "h" => Unit::Hour,
            "d" => Unit::Day,
            _ => return Err(refused()),
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
        let written_well = !whole.is_empty() && number.ends_with(|c: char| c.is_ascii_digit());
        if !written_well || !digits(whole) || !digits(fraction) || fraction.len() > Self::MAX_DECIMALS {
            return Err(refused());
        }
        let digits = format!("{whole}{fraction}").parse().map_err(|_| refused())?;
        Ok(Self { digits, decimals: fraction.len() as u32, unit })
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scale = 10u64.pow(self.decimals);
        write!(f, "{}", self.digits / scale)?;
        if self.decimals > 0 {
            write!(f, ".{:0width$}", self.digits % scale, width = self.decimals as usize)?;
        }
        f.write_str(match self.unit {
            Unit::Second => "/s",
            Unit::Minute => "/m",
            Unit::Hour => "/h",
            Unit::Day => "/d",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capacity(rate: &str, seconds: u64) -> Result<u64> {
        rate.parse::<Rate>()?.capacity(Window::new(Duration::from_secs(seconds))?)
    }

    #[test]
    fn capacities_are_exact_decimals() {
        assert_eq!(capacity("0.29/s", 100).unwrap(), 29);
        assert_eq!(capacity("0.5/s", 3).unwrap(), 1);
        assert_eq!(capacity("5", 60).unwrap(), 300);
        assert_eq!(capacity("5000/h", 3600).unwrap(), 5000);
        assert_eq!(capacity("1/d", 86_400).unwrap(), 1);
        assert_eq!(capacity("0.000000001/s", 1_000_000).unwrap_err().kind(), crate::ErrorKind::Invalid);
        assert!(capacity("18446744073709551615/s", 60).is_err());
    }

    #[test]
    fn rates_print_as_they_were_written() {
        for text in ["5/s", "0.29/s", "1.050/m", "7/h", "9/d"] {
            assert_eq!(text.parse::<Rate>().unwrap().to_string(), text);
        }
        for bad in [
            "",
            "/s",
            ".5/s",
            "5./s",
            "-1/s",
            "1e3/s",
            "5/y",
            "5/",
            "0.0000000001/s",
            "99999999999999999999/s",
        ] {
            assert!(bad.parse::<Rate>().is_err(), "{bad}");
        }
    }

    #[test]
    fn windows_are_whole_seconds() {
        assert!(Window::new(Duration::from_millis(1500)).is_err());
        assert!(Window::new(Duration::ZERO).is_err());
        assert!(Window::new(Duration::from_secs(31 * 86_400)).is_ok());
        assert!(Window::new(Duration::from_secs(31 * 86_400 + 1)).is_err());
    }
}
