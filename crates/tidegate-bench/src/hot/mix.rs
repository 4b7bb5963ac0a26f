//! Edits without end, in two mixes.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;

use super::random::Random;
use super::trace::{Line, PAGES, day};

/// Hot pages of the mix that has no others.
const HOT_PAGES: usize = 1_000;

/// A day over and over, of other pages each time.
pub(super) struct DayMix {
    day: Vec<Line>,
    pass: usize,
    at: usize,
}

impl DayMix {
    pub(super) fn new(trace: Option<&Path>) -> Result<Self> {
        Ok(Self { day: day(trace, PAGES)?, pass: 0, at: 0 })
    }

    pub(super) fn take(&mut self, count: usize) -> Arc<[Line]> {
        let next = |_| {
            let line = &self.day[self.at];
            let line = Line {
                page: format!("{} {}", line.page, self.pass),
                id: format!("{}{}", self.pass, line.id),
                ..line.clone()
            };
            self.at += 1;
            if self.at == self.day.len() {
                (self.at, self.pass) = (0, self.pass + 1);
            }
            line
        };
        (0..count).map(next).collect()
    }
}

/// Edits of hot pages, some far more often than others.
pub(super) struct HotMix {
    random: Random,
    weights: Vec<f64>,
    made: usize,
}

impl HotMix {
    pub(super) fn new() -> Self {
        Self::of(HOT_PAGES)
    }

    /// Of so many pages.
    pub(super) fn of(pages: usize) -> Self {
        let weights = (0..pages).map(|rank| 1.0 / (rank + 10) as f64).collect();
        Self { random: Random::new(), weights, made: 0 }
    }

    pub(super) fn take(&mut self, count: usize) -> Arc<[Line]> {
        let next = |_| {
            self.made += 1;
            Line {
                at_ms: 1_442_016_000_000 + self.made as u64,
                page: format!("en:A page of some renown {}", self.random.weighted(&self.weights)),
                id: format!("{}", 680_000_000 + self.made),
                editor: format!("Editor {}", self.random.below(10_000)),
                byte_change: self.random.below(4_000) as i64 - 1_000,
            }
        };
        (0..count).map(next).collect()
    }
}
