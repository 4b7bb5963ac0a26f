//! What becomes of edits, one by one or those of a page together.

use std::collections::HashSet;

use super::member::Made;
use super::page::Added;
use super::place::At;
use super::{Effects, Partition};
use crate::clock::Timestamp;
use crate::hot::edit::{Edit, Recorded};

impl Partition {
    #[inline]
    pub(in crate::hot) fn record(&mut self, now_ms: u64, edit: &Edit<'_>) -> (Recorded, Effects) {
        let now_ms = self.advance(now_ms);
        let mut effects = Effects::default();
        let (recorded, added) = self.record_one(now_ms, edit, &mut effects);
        if let Some(at) = added {
            self.judge(now_ms, at);
        }
        self.keep_within_bytes(&mut effects);
        effects.events = self.events.count();
        (recorded, effects)
    }

    /// Records edits of one page, and judges it once. Ids that it has when they come, and their own, are known until
    /// all of them are recorded, also of edits that have to make room for others of them.
    pub(in crate::hot) fn record_all(
        &mut self,
        now_ms: u64,
        edits: &[&Edit<'_>],
    ) -> (Vec<Recorded>, Effects) {
        let now_ms = self.advance(now_ms);
        let (mut effects, mut changed) = (Effects::default(), None);
        let (mut known, mut is_asked) = (HashSet::new(), edits.len() == 1);
        let mut all = Vec::with_capacity(edits.len());
        for (number, edit) in edits.iter().enumerate() {
            if self.is_late(now_ms, edit) {
                all.push(Recorded::TooLate);
                continue;
            }
            if !is_asked && let Some(at) = self.hot(edit.page.as_str()) {
                match self.settle_page(now_ms, at) {
                    true => effects.expired += 1,
                    false => {
                        is_asked = true;
                        let is_there = |it: &&&Edit<'_>| {
                            let tag = self.hash(it.id) as u16;
                            self.pages.get(at).is_some_and(|page| page.has(it.id, tag))
                        };
                        known.extend(edits[number..].iter().filter(is_there).map(|it| it.id));
                    }
                }
            }
            if !known.insert(edit.id) {
                all.push(Recorded::Duplicate);
                continue;
            }
            let (recorded, added) = self.record_one(now_ms, edit, &mut effects);
            changed = added.or(changed);
            all.push(recorded);
        }
        if let Some(at) = changed {
            self.judge(now_ms, at);
        }
        self.keep_within_bytes(&mut effects);
        effects.events = self.events.count();
        (all, effects)
    }

    /// Whether an edit is older than the window.
    fn is_late(&self, now_ms: u64, edit: &Edit<'_>) -> bool {
        edit.at.is_some_and(|at| at.as_millis() + self.bounds.window_ms <= now_ms)
    }

    /// What becomes of an edit, and where its page is if it was added to it: then that is to be judged.
    #[inline]
    fn record_one(&mut self, now_ms: u64, edit: &Edit<'_>, effects: &mut Effects) -> (Recorded, Option<u32>) {
        let at_ms = edit.at.map_or(now_ms, Timestamp::as_millis).min(now_ms);
        if at_ms + self.bounds.window_ms <= now_ms {
            return (Recorded::TooLate, None);
        }
        let made = Made { at_ms, byte_change: edit.byte_change, id: edit.id, editor: edit.editor };
        let name = edit.page.as_str();
        let hash = self.hash(name);
        let recorded = match self.find(hash, name) {
            // Its window may be empty by now.
            Some(At::Hot(at)) if self.settle_page(now_ms, at) => {
                effects.expired += 1;
                self.begin(now_ms, hash, name, &made, effects)
            }
            Some(At::Hot(at)) => {
                let recorded = self.add(at, &made);
                let is_added = !matches!(recorded, Recorded::Duplicate);
                return (recorded, is_added.then_some(at));
            }
            Some(At::Activity(at)) => self.remember(now_ms, at, name, &made, effects),
            None => self.begin(now_ms, hash, name, &made, effects),
        };
        (recorded, None)
    }

    /// Adds to the window of a hot page.
    #[inline]
    fn add(&mut self, at: u32, made: &Made<'_>) -> Recorded {
        let (window_ms, tag) = (self.bounds.window_ms, self.hash(made.id) as u16);
        let Some(page) = self.pages.get_mut(at) else { return Recorded::TooLate };
        let before = page.bytes();
        let added = page.add(made, tag, self.bounds.max_members, self.grain_ms);
        self.bytes = self.bytes - before + page.bytes();
        match added {
            Added::Last => self.pages.changed(at, window_ms),
            // It may be the oldest now.
            Added::Between | Added::Counted => self.pages.index(at, window_ms),
            Added::Duplicate => return Recorded::Duplicate,
        }
        if let Added::Counted = added { Recorded::Counted } else { Recorded::Added }
    }
}
