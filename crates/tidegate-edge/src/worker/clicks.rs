//! Clicks of rules without a bound, on their way to the truth: gathered for a second, and told of once.

use hashbrown::{Equivalent, HashMap, HashSet};
use parking_lot::Mutex;

use super::cache::Clicked;
use crate::truth::{Counted, Report};

/// Rules that clicks are gathered of, at most; beyond, clicks are counted as lost.
const MAX_RULES: usize = 262_144;

/// Rules in one report.
const TOGETHER: usize = 1000;

/// What was gathered and not told of yet.
#[derive(Debug)]
pub(crate) struct Clicks {
    inner: Mutex<Inner>,
    worker: String,
}

/// Whose clicks they are: a rule, and not another that has its id before or since.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Whose {
    id: Box<str>,
    created_at: u64,
}

/// The same to be looked up by.
#[derive(Hash)]
struct WhoseRef<'a> {
    id: &'a str,
    created_at: u64,
}

impl Equivalent<Whose> for WhoseRef<'_> {
    fn equivalent(&self, key: &Whose) -> bool {
        (self.id, self.created_at) == (&*key.id, key.created_at)
    }
}

#[derive(Debug)]
struct Inner {
    gathered: HashMap<Whose, u64>,
    bytes: usize,
    /// On its way: sent again until it was heard of, under the same number.
    report: Option<Report>,
    number: u64,
    lost: u64,
}

impl Inner {
    fn add(&mut self, id: &str, created_at: u64, clicks: u64) {
        if let Some(own) = self.gathered.get_mut(&WhoseRef { id, created_at }) {
            *own += clicks;
        } else if self.gathered.len() < MAX_RULES {
            self.bytes += id.len();
            self.gathered.insert(Whose { id: id.into(), created_at }, clicks);
        } else {
            self.lost += clicks;
        }
    }
}

impl Clicks {
    /// `first` is higher than any number that a worker of this name has used before.
    pub(crate) fn new(worker: String, first: u64) -> Self {
        let inner = Inner { gathered: HashMap::new(), bytes: 0, report: None, number: first, lost: 0 };
        Self { inner: Mutex::new(inner), worker }
    }

    pub(crate) fn add(&self, clicks: &[Clicked]) {
        let mut inner = self.inner.lock();
        clicks.iter().for_each(|it| inner.add(&it.id, it.created_at, it.clicks));
    }

    /// One of a rule.
    pub(crate) fn add_one(&self, id: &str, created_at: u64) {
        self.inner.lock().add(id, created_at, 1);
    }

    /// What to tell next: what was not heard of, or what was gathered since.
    pub(crate) fn next(&self) -> Option<Report> {
        let mut inner = self.inner.lock();
        if inner.report.is_none() && !inner.gathered.is_empty() {
            let rules: Vec<_> = inner.gathered.keys().take(TOGETHER).cloned().collect();
            let mut clicks = Vec::with_capacity(rules.len());
            let mut ids = HashSet::with_capacity(rules.len());
            for rule in &rules {
                // A report names an id once.
                if ids.insert(&*rule.id)
                    && let Some(count) = inner.gathered.remove(rule)
                {
                    inner.bytes -= rule.id.len();
                    let (id, created_at) = (rule.id.to_string(), Some(rule.created_at));
                    clicks.push(Counted { id, created_at, clicks: count });
                }
            }
            // What many needed once is not kept from rules for ever.
            if inner.gathered.len() < inner.gathered.capacity() / 4 {
                let most = inner.gathered.len() * 2;
                inner.gathered.shrink_to(most);
            }
            let number = inner.number;
            inner.number += 1;
            inner.report = Some(Report { worker: self.worker.clone(), number, clicks });
        }
        inner.report.clone()
    }

    /// It was heard of.
    pub(crate) fn told(&self, number: u64) {
        self.inner.lock().report.take_if(|report| report.number == number);
    }

    /// Clicks that there was no room for.
    pub(crate) fn lost(&self) -> u64 {
        self.inner.lock().lost
    }

    pub(crate) fn bytes(&self) -> usize {
        let inner = self.inner.lock();
        inner.bytes + inner.gathered.capacity() * (size_of::<(Whose, u64)>() + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_told_until_it_is_heard_of_and_once() {
        let clicks = Clicks::new("w".to_owned(), 5);
        let clicked = |id: &str, created_at, clicks| Clicked { id: id.into(), created_at, clicks };
        let counted =
            |created_at, clicks| Counted { id: "a".to_owned(), created_at: Some(created_at), clicks };
        assert_eq!(clicks.next(), None);
        clicks.add(&[clicked("a", 7, 1), clicked("a", 7, 2)]);
        let first = clicks.next().unwrap();
        assert_eq!((first.number, &first.clicks[..]), (5, &[counted(7, 3)][..]));
        clicks.add(&[clicked("a", 7, 4)]);
        assert_eq!(clicks.next(), Some(first), "not heard of yet");
        clicks.told(5);
        assert_eq!(clicks.next().unwrap().clicks, [counted(7, 4)]);
        clicks.told(5);
        assert!(clicks.next().is_some(), "that was another");
        clicks.told(6);
        assert_eq!(clicks.next(), None);
        // Of two rules of one id, one after the other.
        clicks.add(&[clicked("a", 7, 1), clicked("a", 8, 2)]);
        let mut told = Vec::new();
        while let Some(report) = clicks.next() {
            assert_eq!(report.clicks.len(), 1);
            told.extend(report.clicks);
            clicks.told(report.number);
        }
        told.sort_by_key(|it| it.created_at);
        assert_eq!(told, [counted(7, 1), counted(8, 2)]);
    }

    #[test]
    fn what_is_not_told_of_is_bounded() {
        let clicks = Clicks::new("w".to_owned(), 1);
        for number in 0..MAX_RULES as u64 + 3 {
            clicks.add_one(&number.to_string(), 0);
        }
        assert_eq!(clicks.lost(), 3);
        clicks.add_one("7", 0);
        assert_eq!(clicks.lost(), 3, "of those that are known they are counted on");
        let full = clicks.bytes();
        while let Some(report) = clicks.next() {
            clicks.told(report.number);
        }
        assert!(clicks.bytes() < full / 1000, "{} of {full}", clicks.bytes());
    }
}
