//! Items from the command line or standard input, a batch at a time.

use std::io::BufRead as _;
use std::time::Duration;

use tidegate::clock::monotonic;
use tidegate::run::MAX_ITEMS;
use tokio::sync::mpsc;

/// So many bytes of items fit into a body, whatever has to be escaped.
const MAX_BATCH_BYTES: usize = 600 << 10;

/// Items of standard input that are sent together, and how long the first of them waits for others: who brings them one
/// by one and is killed loses no more than that.
const BATCH: usize = 512;
const LATEST: Duration = Duration::from_millis(50);

/// Items, a batch at a time.
pub(super) enum Batches<'a> {
    Given(Option<&'a [String]>),
    Stdin { items: mpsc::Receiver<Result<String, String>>, failure: Option<String> },
}

impl<'a> Batches<'a> {
    /// Those that were given, or without any what standard input has, between `\n` or NULs.
    pub(super) fn new(given: &'a [String], null: bool) -> Self {
        match given.is_empty() {
            true => Self::stdin(null),
            false => Self::Given(Some(given)),
        }
    }

    /// Read by a thread of its own, which does not hold the process when it ends.
    pub(super) fn stdin(null: bool) -> Self {
        let separator = if null { 0 } else { b'\n' };
        let (sender, items) = mpsc::channel(BATCH);
        std::thread::spawn(move || {
            for item in (StdinItems { separator, number: 0 }) {
                let is_last = item.is_err();
                if sender.blocking_send(item).is_err() || is_last {
                    return;
                }
            }
        });
        Self::Stdin { items, failure: None }
    }

    /// The next batch; an empty one is the end. What came before something that cannot be read is a batch of its own.
    pub(super) async fn next(&mut self) -> Result<Vec<String>, String> {
        match self {
            Self::Given(items) => {
                let Some(all) = items else { return Ok(Vec::new()) };
                let (batch, rest) = all.split_at(all.len().min(MAX_ITEMS));
                *items = Some(rest).filter(|rest| !rest.is_empty());
                Ok(batch.to_vec())
            }
            Self::Stdin { items, failure } => {
                if let Some(failure) = failure.take() {
                    return Err(failure);
                }
                let Some(first) = items.recv().await else { return Ok(Vec::new()) };
                let first = first?;
                let (until, mut bytes, mut batch) = (monotonic() + LATEST, first.len(), vec![first]);
                while batch.len() < BATCH && bytes < MAX_BATCH_BYTES {
                    match tokio::time::timeout_at(until.into(), items.recv()).await {
                        Ok(Some(Ok(item))) => {
                            bytes += item.len();
                            batch.push(item);
                        }
                        Ok(Some(Err(why))) => {
                            *failure = Some(why);
                            break;
                        }
                        Ok(None) | Err(_) => break,
                    }
                }
                Ok(batch)
            }
        }
    }
}

/// Items of standard input, one by one; empty ones are none.
struct StdinItems {
    separator: u8,
    number: u64,
}

impl Iterator for StdinItems {
    type Item = Result<String, String>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let mut item = Vec::new();
            match std::io::stdin().lock().read_until(self.separator, &mut item) {
                Ok(0) => return None,
                Ok(_) => {}
                Err(error) => return Some(Err(format!("cannot read items: {error}"))),
            }
            self.number += 1;
            if item.last() == Some(&self.separator) {
                item.pop();
            }
            if !item.is_empty() {
                let number = self.number;
                return Some(String::from_utf8(item).map_err(|_| format!("item {number} is not UTF-8")));
            }
        }
    }
}
