//! Parts that are open, by name: each is opened once, and whoever asks again gets the same.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::Background;
use crate::error::{Error, Result};
use crate::key::Name;
use crate::metrics::Metrics;
use crate::reaper::Reaper;
use crate::store::{DeclaredSettings, Part, PartKind, Store};

/// What can be opened by a name and options: a limit, a space.
pub(crate) trait OpenPart: Clone + Send + Sync + 'static {
    /// Which of the parts it is.
    const KIND: PartKind;
    /// What it is told apart by from another of the same name.
    const TOLD_APART_BY: &str = "options";
    /// What it is opened with, beside its name.
    type Options: PartialEq;

    /// Opens it; nothing of it runs yet.
    fn open(store: &Store, name: Name, options: &Self::Options, metrics: &Metrics) -> Result<Self>;

    /// What it is called.
    fn part_name(&self) -> &Name;

    /// Whether it was opened with these.
    fn has(&self, options: &Self::Options) -> bool;

    /// What is declared of it in the store, and for how long anything of it counts.
    fn declared(&self) -> (Part, Duration);

    /// Deletes nothing from now on that counts for those who have these settings.
    fn respect(&self, _others: &[DeclaredSettings]) {}

    /// Starts what looks after it.
    fn reapers(&self, _metrics: &Metrics) -> Vec<Reaper> {
        Vec::new()
    }

    /// The same, keeping `background` alive.
    fn with(&self, background: &Arc<Background>) -> Self;
}

/// All that are open of one kind, by what the store calls them.
#[derive(Debug)]
pub(crate) struct Registry<P>(Mutex<BTreeMap<String, P>>);

impl<P> Default for Registry<P> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<P: OpenPart> Registry<P> {
    /// The part called `name`: the one that is open, or what `open` makes. With other options than
    /// those it was opened with it is an error.
    pub(crate) fn open(
        &self,
        name: Name,
        options: &P::Options,
        open: impl FnOnce(Name) -> Result<P>,
    ) -> Result<P> {
        let stored = P::KIND.stored_name(name.as_str()).to_owned();
        // Held until it is open, so that nobody else opens it meanwhile.
        let mut parts = self.0.lock();
        match parts.get(&stored) {
            Some(part) if part.has(options) => Ok(part.clone()),
            Some(part) => Err(Error::invalid(format!(
                "there is a {} {:?} with other {} already",
                if P::KIND == PartKind::Limit { "limit" } else { "space" },
                part.part_name().as_str(),
                P::TOLD_APART_BY
            ))),
            None => {
                let part = open(name)?;
                parts.insert(stored, part.clone());
                Ok(part)
            }
        }
    }

    /// All that are open.
    pub(crate) fn all(&self) -> Vec<P> {
        self.0.lock().values().cloned().collect()
    }
}

/// The registries of all kinds of parts, each made when it is first needed: nobody lists them.
#[derive(Debug, Default)]
pub(crate) struct Registries(Mutex<BTreeMap<PartKind, Arc<dyn Any + Send + Sync>>>);

impl Registries {
    /// The one of a kind.
    pub(crate) fn of<P: OpenPart>(&self) -> Arc<Registry<P>> {
        let mut kinds = self.0.lock();
        let known = kinds.get(&P::KIND).and_then(|it| it.clone().downcast().ok());
        known.unwrap_or_else(|| {
            let registry = Arc::<Registry<P>>::default();
            kinds.insert(P::KIND, registry.clone());
            registry
        })
    }
}
