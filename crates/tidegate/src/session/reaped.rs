//! What takes several steps, wherever sessions are: a claim from several partitions, and a cleanup
//! until nothing is due.

use super::types::{Claims, Swept};

/// How often a claim goes on to those that have more.
const MAX_ROUNDS: usize = 8;

/// A claim from all partitions, from each its part of a limit; then what some did not have from
/// those that have more.
#[derive(Debug)]
pub(super) struct Claiming {
    limit: usize,
    /// Those to be asked next.
    asked: Vec<usize>,
    rounds: usize,
    is_more: bool,
    all: Claims,
}

impl Claiming {
    /// Of up to `limit` from `of` partitions, of which the one numbered `first` comes first.
    pub(super) fn new(limit: usize, of: usize, first: usize) -> Self {
        let asked = (0..of).map(|number| (first + number) % of).collect();
        Self { limit, asked, rounds: 0, is_more: false, all: Claims::default() }
    }

    /// How much to ask next of which partitions.
    pub(super) fn next(&self) -> Vec<(usize, usize)> {
        let (left, of) = (self.limit - self.all.claims.len(), self.asked.len());
        let part = |place: usize| left / of + usize::from(place < left % of);
        self.asked.iter().enumerate().map(|(place, number)| (part(place), *number)).collect()
    }

    /// Whether nothing is claimed yet.
    pub(super) fn is_empty(&self) -> bool {
        self.all.claims.is_empty()
    }

    /// Adds what those have given that were asked for a part; whether others have more.
    pub(super) fn goes_on_after(&mut self, answers: Vec<(usize, usize, Claims)>) -> bool {
        let mut more = Vec::new();
        for (part, number, claims) in answers {
            // Only its part keeps it from giving more, or it has to look at others first.
            match claims.swept.is_more && claims.claims.len() == part && part < self.limit {
                true => more.push((part, number)),
                false => self.is_more |= claims.swept.is_more,
            }
            self.all.claims.extend(claims.claims);
            self.all.swept += claims.swept;
        }
        self.all.swept.is_more = self.is_more || !more.is_empty();
        // Those that were asked for the least come first.
        more.sort_unstable();
        self.asked = more.into_iter().map(|(_, number)| number).collect();
        self.rounds += 1;
        self.all.claims.len() < self.limit && !self.asked.is_empty() && self.rounds < MAX_ROUNDS
    }

    /// What was claimed.
    pub(super) fn claims(self) -> Claims {
        self.all
    }
}

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
