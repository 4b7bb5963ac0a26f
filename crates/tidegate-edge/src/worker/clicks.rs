//! Clicks of rules without a bound, on their way to the truth: gathered for a second, and told of once.

use hashbrown::HashMap;
use parking_lot::Mutex;

use crate::truth::Report;

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

#[derive(Debug)]
struct Inner {
    gathered: HashMap<Box<str>, u64>,
    bytes: usize,
    /// On its way: sent again until it was heard of, under the same number.
    report: Option<Report>,
    number: u64,
    lost: u64,
}

impl Clicks {
    /// `first` is higher than any number that a worker of this name has used before.
    pub(crate) fn new(worker: String, first: u64) -> Self {
        let inner = Inner { gathered: HashMap::new(), bytes: 0, report: None, number: first, lost: 0 };
        Self { inner: Mutex::new(inner), worker }
    }

    pub(crate) fn add<'a>(&self, clicks: impl IntoIterator<Item = (&'a str, u64)>) {
        let mut inner = self.inner.lock();
        for (id, count) in clicks {
            if let Some(own) = inner.gathered.get_mut(id) {
                *own += count;
            } else if inner.gathered.len() < MAX_RULES {
                inner.bytes += id.len();
                inner.gathered.insert(id.into(), count);
            } else {
                inner.lost += count;
            }
        }
    }

    /// What to tell next: what was not heard of, or what was gathered since.
    pub(crate) fn next(&self) -> Option<Report> {
        let mut inner = self.inner.lock();
        if inner.report.is_none() && !inner.gathered.is_empty() {
            let ids: Vec<_> = inner.gathered.keys().take(TOGETHER).cloned().collect();
            let mut clicks = Vec::with_capacity(ids.len());
            for id in ids {
                if let Some(count) = inner.gathered.remove(&id) {
                    inner.bytes -= id.len();
                    clicks.push((id.into_string(), count));
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
        inner.bytes + inner.gathered.capacity() * (size_of::<(Box<str>, u64)>() + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_told_until_it_is_heard_of_and_once() {
        let clicks = Clicks::new("w".to_owned(), 5);
        assert_eq!(clicks.next(), None);
        clicks.add([("a", 1), ("a", 2)]);
        let first = clicks.next().unwrap();
        assert_eq!((first.number, &first.clicks[..]), (5, &[("a".to_owned(), 3)][..]));
        clicks.add([("a", 4)]);
        assert_eq!(clicks.next(), Some(first), "not heard of yet");
        clicks.told(5);
        assert_eq!(clicks.next().unwrap().clicks, [("a".to_owned(), 4)]);
        clicks.told(5);
        assert!(clicks.next().is_some(), "that was another");
        clicks.told(6);
        assert_eq!(clicks.next(), None);
    }

    #[test]
    fn what_is_not_told_of_is_bounded() {
        let clicks = Clicks::new("w".to_owned(), 1);
        for number in 0..MAX_RULES as u64 + 3 {
            clicks.add([(&*number.to_string(), 1)]);
        }
        assert_eq!(clicks.lost(), 3);
        clicks.add([("7", 1)]);
        assert_eq!(clicks.lost(), 3, "of those that are known they are counted on");
        let full = clicks.bytes();
        while let Some(report) = clicks.next() {
            clicks.told(report.number);
        }
        assert!(clicks.bytes() < full / 1000, "{} of {full}", clicks.bytes());
    }
}
