//! Edits of one page on their way into the store: what became of them so far, and which are left.

use compact_str::CompactString;
use redis::Value;

use super::super::edit::{Edit, Recorded};
use super::super::memory::Effects;
use super::codes::LATER;
use super::joined::written;
use super::reply::{recorded, recorded_several};
use crate::error::{Error, Result};
use crate::key::Key;

/// What became of the edits of one page, and what they did.
#[derive(Debug)]
pub(in crate::hot) struct OfPage {
    pub(in crate::hot) recorded: Vec<Result<Recorded>>,
    pub(in crate::hot) effects: Effects,
}

#[derive(Debug)]
pub(super) struct Record<'a> {
    /// One at least.
    edits: &'a [Edit<'a>],
    /// What became of each; nothing yet of those that are left.
    answers: Vec<Option<Result<Recorded>>>,
    effects: Effects,
}

impl<'a> Record<'a> {
    pub(super) fn new(edits: &'a [Edit<'a>]) -> Self {
        Self { edits, answers: vec![None; edits.len()], effects: Effects::default() }
    }

    pub(super) fn page(&self) -> Key<'a> {
        self.edits[0].page
    }

    fn left(&self) -> impl Iterator<Item = &'a Edit<'a>> {
        self.edits.iter().zip(&self.answers).filter(|(_, answer)| answer.is_none()).map(|(edit, _)| edit)
    }

    /// How many edits are left.
    pub(super) fn len(&self) -> usize {
        self.left().count()
    }

    /// Those that are left, as the script takes them.
    pub(super) fn written(&self) -> CompactString {
        match self.len() {
            all if all == self.edits.len() => written(self.edits),
            _ => written(&self.left().copied().collect::<Vec<_>>()),
        }
    }

    /// What those that are left were answered, unless they failed.
    pub(super) fn answered(&mut self, value: &Value) -> Result<()> {
        let (recorded, effects) = match (value, self.len()) {
            (Value::Int(LATER), _) => return Ok(()),
            (value, 1) => recorded(value).map(|(one, effects)| (vec![Some(one)], effects))?,
            (value, left) => recorded_several(value, left)?,
        };
        let left = self.answers.iter_mut().filter(|it| it.is_none());
        left.zip(recorded).for_each(|(answer, it)| *answer = it.map(Ok));
        self.effects.add(effects);
        Ok(())
    }

    /// Those that are left fail.
    pub(super) fn fail(&mut self, error: &Error) {
        self.answers.iter_mut().filter(|it| it.is_none()).for_each(|it| *it = Some(Err(error.clone())));
    }

    pub(super) fn into_page(self) -> OfPage {
        let unanswered = || Err(Error::internal("an edit was not answered for"));
        let recorded = self.answers.into_iter().map(|it| it.unwrap_or_else(unanswered)).collect();
        OfPage { recorded, effects: self.effects }
    }
}
