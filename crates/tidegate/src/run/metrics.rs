//! What is counted of a space of runs.

use super::types::{FailureNoted, Finished, Granted, Processed, Refusal, RunState, Started};
use crate::metrics::{Counter, Gauge, Metrics};

/// Handles of one space.
#[derive(Debug, Clone)]
pub(crate) struct RunMetrics {
    started: Counter,
    retried: Counter,
    /// In the order of `RunState::ALL`, from the first terminal one on.
    finished: [Counter; 3],
    processed: Counter,
    failed: Counter,
    dropped: Counter,
    stale: Counter,
    full: Counter,
    removed: Counter,
    /// In the order of `RunState::ALL`.
    runs: [Gauge; RunState::ALL.len()],
}

/// Where the terminal ones begin in `RunState::ALL`.
const TERMINAL: usize = RunState::Succeeded as usize;

impl RunMetrics {
    /// Those of `space`.
    pub(crate) fn new(metrics: &Metrics, space: &str) -> Self {
        let labels = [("space", space)];
        let counter = |name, help| metrics.counter(name, help, &labels);
        let finished = |number: usize| {
            let labels = [("space", space), ("state", RunState::ALL[TERMINAL + number].as_str())];
            metrics.counter("tidegate_run_finished", "Runs that came to an end, by state", &labels)
        };
        Self {
            started: counter("tidegate_run_started", "Runs started"),
            retried: counter("tidegate_run_retried", "Runs that had ended and were retried"),
            finished: std::array::from_fn(finished),
            processed: counter("tidegate_run_processed_items", "Items noted as processed, each once per run"),
            failed: counter("tidegate_run_failed_items", "Failures of items, repeated calls not counted"),
            dropped: counter(
                "tidegate_run_dropped_failures",
                "Items whose failures were dropped, since their run had as many as it may",
            ),
            stale: counter("tidegate_run_stale_calls", "Calls refused that meant another attempt"),
            full: counter(
                "tidegate_run_full",
                "Calls refused since a run or the space had as many of something as it may",
            ),
            removed: counter("tidegate_run_removed", "Runs whose time was over, removed"),
            runs: RunState::ALL.map(|state| {
                let labels = [("space", space), ("state", state.as_str())];
                metrics.gauge("tidegate_run_runs", "Runs by state, at the last cleanup", &labels)
            }),
        }
    }

    fn refused(&self, refusal: Refusal) {
        let refusal = match refusal {
            Refusal::Interrupted { taken, by } => {
                self.processed.inc_by(taken);
                by.into()
            }
            refusal => refusal,
        };
        match refusal {
            Refusal::Stale { .. } => self.stale.inc(),
            Refusal::Full { taken } => {
                self.processed.inc_by(taken);
                self.full.inc()
            }
            Refusal::TooManyFields | Refusal::TooManyTasks | Refusal::TooManyRuns => self.full.inc(),
            _ => return,
        };
    }

    /// What became of a call of which only refusals are counted.
    pub(super) fn noted<T>(&self, answer: &Granted<T>) {
        if let Err(refusal) = answer {
            self.refused(*refusal);
        }
    }

    pub(super) fn start(&self, answer: &Granted<Started>) {
        self.noted(answer);
        self.started.inc_by(answer.is_ok_and(|it| it.is_new).into());
    }

    pub(super) fn retry(&self, answer: &Granted<Started>) {
        self.noted(answer);
        self.retried.inc_by(answer.is_ok_and(|it| it.is_new).into());
    }

    pub(super) fn finish(&self, answer: &Granted<Finished>) {
        self.noted(answer);
        if let Ok(Finished { state, is_new: true, .. }) = answer
            && let Some(counter) = (*state as usize).checked_sub(TERMINAL).map(|at| &self.finished[at])
        {
            counter.inc();
        }
    }

    pub(super) fn processed(&self, answer: &Granted<Processed>) {
        self.noted(answer);
        self.processed.inc_by(answer.map_or(0, |it| it.new));
    }

    pub(super) fn failed(&self, answer: &Granted<FailureNoted>) {
        self.noted(answer);
        if let Ok(noted) = answer {
            self.failed.inc_by(noted.is_new.into());
            self.dropped.inc_by(noted.dropped.is_some().into());
        }
    }

    /// Runs that were removed.
    pub(super) fn removed(&self, removed: usize) {
        self.removed.inc_by(removed as u64);
    }

    /// How many there are, by state.
    pub(super) fn counted(&self, counts: [u64; RunState::ALL.len()]) {
        for (gauge, count) in self.runs.iter().zip(counts) {
            gauge.set(count as i64);
        }
    }
}
