//! What a cleanup does until nothing is due.

use super::types::Swept;

/// Steps of a cleanup in a row that find only sessions of a clock that was wrong.
const MAX_FRUITLESS: usize = 1000;

/// A cleanup, step by step.
#[derive(Debug, Default)]
pub(super) struct Cleanup {
    all: Swept,
    fruitless: usize,
}

impl Cleanup {
    /// Adds a step; whether there is more to do.
    pub(super) fn goes_on_after(&mut self, step: Swept) -> bool {
        self.all += step;
        // One that changes nothing would go on for ever.
        self.fruitless = if step.items() == 0 { self.fruitless + 1 } else { 0 };
        step.is_more && self.fruitless < MAX_FRUITLESS
    }

    /// What all steps did.
    pub(super) fn swept(self) -> Swept {
        Swept { is_more: false, ..self.all }
    }
}
