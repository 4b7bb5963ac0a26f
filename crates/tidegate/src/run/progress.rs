//! How far a run is.

use super::types::RunState;
use crate::bounds::MAX_COUNT;
use crate::clock::Timestamp;

/// How far a run is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// Items that are processed.
    pub processed: u64,
    /// Items whose failures are known.
    pub failed: u64,
    /// Those of them that were not processed since.
    pub to_retry: u64,
    /// How many items there are to process, if anybody has said so.
    pub total: Option<u64>,
    /// Items per second that were processed in this attempt, in thousandths.
    pub rate_per_second: f64,
    /// When all will be processed at that rate; of a live run whose total is known.
    pub estimated_end: Option<Timestamp>,
    /// When the store was last found to have lost writes since the run was started, if it was (a restart, a failover, a
    /// flush): what was noted of the run before may be missing. Whoever knows of it notes it again.
    pub lost_at: Option<Timestamp>,
}

/// What it is made of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Measured {
    pub(super) state: RunState,
    pub(super) processed: u64,
    /// Those of earlier attempts.
    pub(super) processed_before: u64,
    pub(super) failed: u64,
    pub(super) to_retry: u64,
    pub(super) total: Option<u64>,
    /// When the attempt began.
    pub(super) since_ms: u64,
    /// When it ended, or now.
    pub(super) until_ms: u64,
    /// When writes of it may have been lost.
    pub(super) lost_ms: Option<u64>,
}

impl From<Measured> for Progress {
    fn from(it: Measured) -> Self {
        let done = it.processed.saturating_sub(it.processed_before);
        let elapsed_ms = it.until_ms.saturating_sub(it.since_ms);
        let thousandths = match elapsed_ms {
            0 => 0.0,
            ms => (done as f64 * 1_000_000.0 / ms as f64).round(),
        };
        let estimated_ms = |total: u64| match (total.saturating_sub(it.processed), done) {
            (0, _) => Some(it.until_ms),
            (_, 0) => None,
            (left, done) => {
                let wait_ms = (u128::from(left) * u128::from(elapsed_ms)).div_ceil(u128::from(done));
                Some((u128::from(it.until_ms) + wait_ms).min(u128::from(MAX_COUNT)) as u64)
            }
        };
        let estimated_ms = it.total.filter(|_| !it.state.is_terminal()).and_then(estimated_ms);
        Self {
            processed: it.processed,
            failed: it.failed,
            to_retry: it.to_retry,
            total: it.total,
            rate_per_second: thousandths / 1000.0,
            estimated_end: estimated_ms.map(Timestamp::from_millis),
            lost_at: it.lost_ms.map(Timestamp::from_millis),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(processed: u64, total: Option<u64>, elapsed_ms: u64) -> Measured {
        Measured {
            state: RunState::Running,
            processed,
            processed_before: 0,
            failed: 0,
            to_retry: 0,
            total,
            since_ms: 1000,
            until_ms: 1000 + elapsed_ms,
            lost_ms: None,
        }
    }

    #[test]
    fn the_end_is_when_the_rest_is_done_at_the_rate_so_far() {
        let progress = Progress::from(measured(30, Some(100), 10_000));
        assert_eq!(progress.rate_per_second, 3.0);
        assert_eq!(progress.estimated_end, Some(Timestamp::from_millis(11_000 + 23_334)));
        let retried = Progress::from(Measured { processed_before: 20, ..measured(30, Some(100), 10_000) });
        assert_eq!(retried.rate_per_second, 1.0);
        assert_eq!(retried.estimated_end, Some(Timestamp::from_millis(81_000)));
    }

    #[test]
    fn what_cannot_be_known_is_not_told() {
        assert_eq!(Progress::from(measured(30, None, 10_000)).estimated_end, None);
        assert_eq!(Progress::from(measured(0, Some(10), 10_000)).estimated_end, None);
        assert_eq!(Progress::from(measured(5, None, 0)).rate_per_second, 0.0);
        let ended = Measured { state: RunState::Failed, ..measured(5, Some(10), 5000) };
        assert_eq!(Progress::from(ended).estimated_end, None);
        // More than was said there would be.
        let all = Progress::from(measured(12, Some(10), 5000));
        assert_eq!(all.estimated_end, Some(Timestamp::from_millis(6000)));
    }
}
