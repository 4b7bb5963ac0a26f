//! A space of hot pages as a caller sees it, and how a store makes fresh ones.
//!
//! Small on purpose: whoever puts the space behind something else, like HTTP,
//! implements these and has the whole suite.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use crate::Tidegate;
use crate::clock::{ManualClock, Timestamp};
use crate::error::Result;
use crate::hot::{
    Count, Edit, EditRef, EventKind, Hot, HotOptions, HotPage, Recorded, Removed, Stats, Watch,
};
use crate::key::Key;

/// What happened: kind, page, edits, when in ms.
pub type Happened = (EventKind, String, u64, u64);

/// What became of many edits or counts: of each, or how many met which fate.
#[derive(Debug)]
pub enum Many {
    /// Of each, in their order.
    Each(Vec<Recorded>),
    /// By the name of what became of them.
    Counts(BTreeMap<String, u64>),
}

impl Many {
    /// Whether this is what should have become of them.
    pub fn is(&self, expected: &[Recorded]) -> bool {
        match self {
            Self::Each(each) => each == expected,
            Self::Counts(counts) => {
                let mut left = counts.clone();
                let counted = expected.iter().all(|it| {
                    let count = left.get_mut(it.as_str()).filter(|count| **count > 0);
                    count.map(|count| *count -= 1).is_some()
                });
                counted && left.values().all(|count| *count == 0)
            }
        }
    }

    /// How many made a page hot.
    pub(super) fn promoted(&self) -> u64 {
        match self {
            Self::Each(each) => {
                each.iter().filter(|it| matches!(it, Recorded::Promoted { .. })).count() as u64
            }
            Self::Counts(counts) => counts.get("promoted").copied().unwrap_or_default(),
        }
    }
}

/// A space as a caller sees it.
pub trait Face {
    /// What is told of what happens.
    type Watch;
    /// What it is called in metrics.
    fn space(&self) -> &str;
    /// The clock that a case moves.
    fn clock(&self) -> &ManualClock;
    /// Records an edit.
    fn record(&self, edit: &Edit<'_>) -> impl Future<Output = Result<Recorded>>;
    /// Records many.
    fn record_many(&self, edits: &[Edit<'_>]) -> impl Future<Output = Result<Many>>;
    /// Counts so many of a page.
    fn count(&self, page: &str, count: u64) -> impl Future<Output = Result<Recorded>>;
    /// Counts many.
    fn count_many(&self, counts: &[Count<'_>]) -> impl Future<Output = Result<Many>>;
    /// Sends what was gathered.
    fn flush(&self) -> impl Future<Output = Result<()>>;
    /// What is known of a page.
    fn stats(&self, page: &str) -> impl Future<Output = Result<Stats>>;
    /// Whether a page is hot; none where that cannot be asked alone.
    fn is_hot(&self, page: &str) -> impl Future<Output = Result<Option<bool>>>;
    /// Forgets a page.
    fn remove(&self, page: &str) -> impl Future<Output = Result<Removed>>;
    /// The edits of a page between two moments.
    fn window(
        &self,
        page: &str,
        range: RangeInclusive<Timestamp>,
    ) -> impl Future<Output = Result<Vec<EditRef>>>;
    /// The hottest pages behind one.
    fn list_after(&self, after: Option<&HotPage>, limit: usize)
    -> impl Future<Output = Result<Vec<HotPage>>>;
    /// How many are hot.
    fn tracked(&self) -> impl Future<Output = Result<u64>>;
    /// Drops what is over.
    fn cleanup(&self) -> impl Future<Output = Result<u64>>;
    /// Everything that happens, from the beginning.
    fn watch(&self) -> impl Future<Output = Result<Self::Watch>>;
    /// The next of it.
    fn next(&self, watch: &mut Self::Watch) -> impl Future<Output = Result<Happened>>;
    /// All metrics, as text.
    fn metrics(&self) -> impl Future<Output = String>;
}

/// A space of the library.
#[derive(Debug)]
pub struct Library {
    gate: Tidegate,
    hot: Hot,
    clock: ManualClock,
}

impl Library {
    /// The space `pages` of `gate`, whose clock it is.
    pub fn new(gate: Tidegate, options: HotOptions, clock: ManualClock) -> Self {
        Self { hot: gate.hot("pages", options).expect("a space"), gate, clock }
    }
}

impl Face for Library {
    type Watch = Watch;

    fn space(&self) -> &str {
        self.hot.space().as_str()
    }

    fn clock(&self) -> &ManualClock {
        &self.clock
    }

    async fn record(&self, edit: &Edit<'_>) -> Result<Recorded> {
        self.hot.record(edit).await
    }

    async fn record_many(&self, edits: &[Edit<'_>]) -> Result<Many> {
        self.hot.record_many(edits).await.map(Many::Each)
    }

    async fn count(&self, page: &str, count: u64) -> Result<Recorded> {
        self.hot.count(Key::new(page)?, count).await
    }

    async fn count_many(&self, counts: &[Count<'_>]) -> Result<Many> {
        self.hot.count_many(counts).await.map(Many::Each)
    }

    async fn flush(&self) -> Result<()> {
        self.hot.flush().await
    }

    async fn stats(&self, page: &str) -> Result<Stats> {
        self.hot.stats(Key::new(page)?).await
    }

    async fn is_hot(&self, page: &str) -> Result<Option<bool>> {
        self.hot.is_hot(Key::new(page)?).await.map(Some)
    }

    async fn remove(&self, page: &str) -> Result<Removed> {
        self.hot.remove(Key::new(page)?).await
    }

    async fn window(&self, page: &str, range: RangeInclusive<Timestamp>) -> Result<Vec<EditRef>> {
        self.hot.window(Key::new(page)?, range).await
    }

    async fn list_after(&self, after: Option<&HotPage>, limit: usize) -> Result<Vec<HotPage>> {
        self.hot.list_after(after, limit).await
    }

    async fn tracked(&self) -> Result<u64> {
        self.hot.tracked().await
    }

    async fn cleanup(&self) -> Result<u64> {
        self.hot.cleanup().await
    }

    async fn watch(&self) -> Result<Watch> {
        self.hot.watch(Some("0-0")).await
    }

    async fn next(&self, watch: &mut Watch) -> Result<Happened> {
        let event = watch.next().await?;
        Ok((event.kind, event.page, event.edits, event.at.as_millis()))
    }

    async fn metrics(&self) -> String {
        self.gate.metrics()
    }
}

/// Makes fresh spaces on one kind of store.
pub trait Kit {
    /// What it makes.
    type Face: Face;
    /// Whether counts are gathered where that is set, until they are flushed.
    fn gathers(&self) -> bool {
        false
    }
    /// A space that nobody has used, on a clock that starts at [`START_MS`](super::START_MS).
    fn fresh(&self, options: HotOptions) -> impl Future<Output = Self::Face>;
}

/// Options that differ from the defaults.
pub fn options(set: impl FnOnce(&mut HotOptions)) -> HotOptions {
    let mut options = HotOptions::default();
    set(&mut options);
    options
}

/// What must happen soon. Far longer than it takes, so that it only ends a test
/// that would hang.
pub(super) const SOON: Duration = Duration::from_secs(60);
