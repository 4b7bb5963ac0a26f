//! Hours of UTC, as keys and people name them: `2024-09-17_14`.

use std::fmt;
use std::str::FromStr;

use crate::clock::Timestamp;
use crate::error::{Error, Result};

const HOUR_MS: u64 = 3_600_000;

/// An hour of UTC.
///
/// ```
/// use tidegate::clock::Timestamp;
/// use tidegate::run::Hour;
/// let hour = Hour::of(Timestamp::from_millis(1_726_584_600_000));
/// assert_eq!(hour.to_string(), "2024-09-17_14");
/// assert_eq!("2024-09-17_14".parse::<Hour>()?, hour);
/// # Ok::<(), tidegate::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Hour(u64);

impl Hour {
    /// The hour that a moment is in.
    pub fn of(at: Timestamp) -> Self {
        Self(at.as_millis() / HOUR_MS)
    }

    /// Its first millisecond.
    pub fn starts_at(self) -> Timestamp {
        Timestamp::from_millis(self.0 * HOUR_MS)
    }

    /// The first millisecond of the next.
    pub(crate) fn ends_ms(self) -> u64 {
        (self.0 + 1) * HOUR_MS
    }

    /// Which of its day it is, 0 to 23.
    pub(crate) fn of_day(self) -> u64 {
        self.0 % 24
    }

    /// Hours from `earlier` on to this.
    pub(crate) fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    fn read(text: &str) -> Option<Self> {
        let (date, hour) = text.split_once('_')?;
        let mut numbers = date.splitn(3, '-');
        let mut number = |digits: usize| {
            let text = numbers.next()?;
            let is_plain = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse::<u64>().ok().filter(|_| is_plain)
        };
        let (year, month, day) = (number(4)?, number(2)?, number(2)?);
        let hour: u64 = hour.parse().ok()?;
        if year < 1970 || !(1..=12).contains(&month) || hour > 23 {
            return None;
        }
        // Years that begin in March end with the leap day.
        let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
        let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1;
        let found = Self(days.checked_sub(719_468)? * 24 + hour);
        // A day that its month does not have, or an hour of other digits, is written otherwise.
        (found.to_string() == text).then_some(found)
    }
}

impl fmt::Display for Hour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.starts_at().to_string();
        let (date, time) = text.split_once('T').unwrap_or((&text, ""));
        write!(f, "{date}_{}", time.get(..2).unwrap_or_default())
    }
}

impl FromStr for Hour {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::read(text).ok_or_else(|| {
            let start: String = text.chars().take(40).collect();
            Error::invalid(format!("{start:?} is no hour: one of UTC is, like 2024-09-17_14"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_are_read_as_they_are_written() {
        for hour in [0, 1, 23, 24, 8_759, 262_968, 473_352, 474_095, 474_096, 1_140_984, 2_000_000] {
            assert_eq!(Hour(hour).to_string().parse::<Hour>().unwrap(), Hour(hour), "{hour}");
        }
        assert_eq!(Hour(0).to_string(), "1970-01-01_00");
        let bad = ["", "2024-09-17", "2024-09-17_24", "2024-09-17_1", "2023-02-29_00", "2024-13-01_00"];
        for bad in bad.into_iter().chain(["2024-9-17_14", "1969-12-31_23", "2024-09-17_+4", "2024-00-10_10"])
        {
            assert!(bad.parse::<Hour>().is_err(), "{bad}");
        }
    }
}
