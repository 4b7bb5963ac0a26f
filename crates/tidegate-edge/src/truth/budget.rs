//! Clicks of rules that have only so many: permits go out to workers in blocks, and are debited before.
//!
//! What is promised is that never more are admitted than a rule has: a block that was sent counts, and only its explicit
//! return credits what of it was not spent. Deadlines free nothing. They say when what a silent worker holds is known to
//! be lost, so that a rule with nothing left ends instead of asking clients to wait.

use std::time::Duration;

/// Asks for a block of permits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    /// For which rule.
    pub rule: String,
    /// For whom.
    pub worker: String,
    /// The worker's number for it: asked for again, it is the same block.
    pub number: u64,
    /// How many it would like.
    pub wanted: u64,
}

/// What it gets.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Grant {
    /// So many redirects.
    Block {
        /// How many.
        permits: u64,
        /// Until when they are to be spent or returned, counted from before they were asked for.
        life: Duration,
        /// A block ends with its epoch.
        epoch: String,
    },
    /// None now: others hold what is left, and may return it.
    Wait {
        /// When to ask again.
        retry_after: Duration,
    },
    /// None any more.
    Spent,
    /// The rule has no bound.
    Unbounded,
    /// There is no such rule.
    Unknown,
}

/// What is said of permits, and of which rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Granted {
    /// What who asked gets.
    pub grant: Grant,
    /// When the rule was made that it is of, in milliseconds of the database's time: permits of one are not those of another
    /// that has its id since. None if there is no such rule, or if who answered does not say.
    pub created_at: Option<u64>,
}

impl Granted {
    pub(super) const UNKNOWN: Self = Self { grant: Grant::Unknown, created_at: None };
}

/// Gives a block back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Return {
    /// Whose it was.
    pub worker: String,
    /// The worker's number for it.
    pub number: u64,
    /// What of it was spent.
    pub spent: u64,
}

/// What became of a block that was given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Returned {
    /// It was counted.
    Counted,
    /// It had been before.
    Known,
    /// There is no such block: it was not asked for yet and will not be granted, ended long ago, or its rule was deleted.
    Unknown,
    /// It did not have so many.
    TooMany,
}

/// For how long blocks are remembered behind their deadlines: whatever is sent twice is sent by then.
pub(super) const REMEMBERED_MS: u64 = 3_600_000;

/// The rule of a block that was given back before it was asked for: none has an empty id. What is asked for by its number
/// later is refused, since whoever asked has given up.
pub(super) const NO_RULE: &str = "";

/// How long a client waits for permits that others hold, at most.
const RETRY: Duration = Duration::from_secs(1);

/// How a block is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// Its worker has it.
    Open,
    /// Its worker has given it back.
    Returned,
    /// Its worker was silent until the deadline: its permits count as spent.
    Lost,
}

impl Standing {
    pub(super) fn as_number(self) -> u8 {
        match self {
            Self::Open => 0,
            Self::Returned => 1,
            Self::Lost => 2,
        }
    }

    pub(super) fn from_number(number: u8) -> Option<Self> {
        [Self::Open, Self::Returned, Self::Lost].into_iter().find(|it| it.as_number() == number)
    }
}

/// Permits of the next block: the last tenth goes out one by one, so that no worker keeps it from the others.
pub(super) fn permits(max_clicks: u64, granted: u64, wanted: u64) -> u64 {
    let left = max_clicks.saturating_sub(granted);
    let last = max_clicks.div_ceil(10);
    match left.saturating_sub(last) {
        0 => left.min(1),
        // Several ask at once: each gets a part of what is left.
        before => wanted.clamp(1, before.div_ceil(8)),
    }
}

/// What who gets nothing is told, if somebody holds a block until then.
pub(super) fn nothing(held_until_ms: Option<u64>, now_ms: u64) -> Grant {
    match held_until_ms {
        None => Grant::Spent,
        Some(until) => {
            Grant::Wait { retry_after: RETRY.min(Duration::from_millis(until.saturating_sub(now_ms).max(1))) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_never_sum_to_more_than_there_is_and_end_one_by_one() {
        for max in [0, 1, 5, 9, 10, 11, 99, 1000, 12_345] {
            let (mut granted, mut blocks) = (0, Vec::new());
            loop {
                let block = permits(max, granted, 64);
                if block == 0 {
                    break;
                }
                granted += block;
                blocks.push(block);
            }
            assert_eq!(granted, max);
            let ones = blocks.iter().rev().take_while(|it| **it == 1).count() as u64;
            assert!(ones >= max.div_ceil(10), "{max}: {blocks:?}");
            assert!(blocks.len() as u64 - ones <= max / 64 + 40, "few questions before: {max}: {blocks:?}");
        }
        assert_eq!(permits(10, 25, 64), 0, "a bound that was lowered");
        assert_eq!(permits(1000, 0, 0), 1);
    }
}
