//! Where an event stands among those of its partition.

use std::fmt;

use super::edit::EventKind;
use crate::clock::Timestamp;

/// A position: everything up to it has been seen.
///
/// A *life* is how long a store has remembered: one that is emptied, or a process that is
/// started again, begins another. So a position from before is known as such, whatever the
/// clock has done since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Position {
    /// 0 if it is of none.
    pub(super) life: u64,
    pub(super) ms: u64,
    pub(super) number: u64,
}

impl Position {
    /// In front of the oldest that is kept, whichever that is.
    pub(super) const OLDEST: Self = Self { life: 0, ms: 0, number: 0 };

    /// `ms-number-life`, or `ms-number` of no life.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let is_number = |part: &&str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        let mut parts = text.split('-').map(|part| Some(part).filter(is_number)?.parse::<u64>().ok());
        let (ms, number) = (parts.next()??, parts.next()??);
        let life = parts.next().unwrap_or(Some(0))?;
        parts.next().is_none().then_some(Self { life, ms, number })
    }

    /// Among positions of the same life.
    pub(super) fn order(&self) -> (u64, u64) {
        (self.ms, self.number)
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.ms, self.number)?;
        if self.life > 0 { write!(f, "-{}", self.life) } else { Ok(()) }
    }
}

/// How far ahead of the clock a position may be: clocks of servers differ.
pub(super) const AHEAD_MS: u64 = 1000;

/// What a position is to a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PositionStatus {
    /// All that has happened since is kept.
    Known,
    /// Some of it is not.
    Missed,
    /// It is ahead of the clock: no event was ever there.
    Impossible,
}

/// Something that happened, where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Happened {
    pub(super) position: Position,
    pub(super) kind: EventKind,
    pub(super) page: String,
    pub(super) edits: u64,
    pub(super) at: Timestamp,
}

impl Happened {
    /// That `count` events before `position` were missed, 0 if nobody knows how many.
    pub(super) fn missed(position: Position, count: u64, at: Timestamp) -> Self {
        Self { position, kind: EventKind::Missed, page: String::new(), edits: count, at }
    }
}

/// What a partition knows after a position.
#[derive(Debug)]
pub(super) struct News {
    pub(super) status: PositionStatus,
    /// What the events come after: the position, unless some were missed; the latest there
    /// is, if none was given.
    pub(super) from: Position,
    pub(super) events: Vec<Happened>,
}

impl News {
    /// Where to go on.
    pub(super) fn end(&self) -> Position {
        self.events.last().map_or(self.from, |last| last.position)
    }

    /// That some were missed, if they were.
    pub(super) fn gap(&self) -> Option<Happened> {
        let at = self.events.first().map_or(Timestamp::default(), |first| first.at);
        (self.status != PositionStatus::Known).then(|| Happened::missed(self.from, 0, at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_two_or_three_numbers() {
        for text in ["0-0", "5-1", "5-1-7", "18446744073709551615-0-1"] {
            assert_eq!(Position::parse(text).unwrap().to_string(), text);
        }
        for text in
            ["", "x", "1", "-", "1-", "-1", "1-2-", "1-2-3-4", "+1-2", "99999999999999999999-0", "1-2,3-4"]
        {
            assert_eq!(Position::parse(text), None, "{text}");
        }
    }
}
