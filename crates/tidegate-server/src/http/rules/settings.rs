//! What can be set of the rules of redirects.

use std::num::NonZeroUsize;
use std::time::Duration;

use prometheus_client::registry::Registry;
use tidegate::clock::Clock;
use tidegate_edge::stream::{Snapshots, StreamOptions, Tail, Workers};
use tidegate_edge::truth::{Truth, TruthOptions};
use tidegate_edge::worker::Local;

use crate::parts::{RulesSettings, SingleOptions};
use crate::settings::raw::{Leaf, group};
use crate::settings::validate::between;
use crate::settings::{RulesUrl, SettingsError};

group!(RawRules {
    /// where the rules of redirects are kept: sqlite:FILE or postgres://… (none: this server has no rules)
    url: Leaf<RulesUrl>,
    /// changes that their log goes back: who follows them and was away for more begins anew (100000)
    max_log: Leaf<NonZeroUsize>,
    /// for how long a worker may spend permits of a rule with so many clicks (10s)
    block_life: Leaf<Duration>,
});

impl SingleOptions for RulesSettings {
    const GROUP: &str = "rules";

    type Raw = RawRules;
    type Open = OpenRules;
    type Beside = ();

    fn read(raw: RawRules) -> Result<Option<Self>, SettingsError> {
        let mut options = TruthOptions::default();
        if let Some(max_log) = raw.max_log.0 {
            options.max_log = max_log.get() as u64;
        }
        if let Some(block_life) = raw.block_life.0 {
            between("rules.block_life", block_life, Duration::from_millis(100), Duration::from_secs(3600))?;
            options.block_life = block_life;
        }
        let set = [("max_log", raw.max_log.is_set()), ("block_life", raw.block_life.is_set())];
        let set = set.into_iter().find(|(_, is_set)| *is_set);
        match raw.url.0 {
            Some(url) => Ok(Some(Self { url, options })),
            None => match set {
                None => Ok(None),
                Some((name, _)) => {
                    let why = "there are no rules unless `rules.url` says where, like sqlite:rules.db";
                    Err(SettingsError(format!("`rules.{name}`: {why}")))
                }
            },
        }
    }

    async fn open(&self, (): &()) -> Result<OpenRules, SettingsError> {
        let opened = Truth::open(self.url.as_str(), &self.options).await;
        let truth = opened.map_err(|error| SettingsError(format!("`rules`: {error}")))?;
        Ok(OpenRules {
            tail: Tail::start(&truth, StreamOptions::default()),
            snapshots: Snapshots::of(&truth),
            workers: Workers::default(),
            clock: self.options.clock.clone(),
            truth,
        })
    }
}

/// The rules, open.
#[derive(Debug, Clone)]
pub(crate) struct OpenRules {
    pub(crate) truth: Truth,
    pub(super) tail: Tail,
    pub(super) snapshots: Snapshots,
    pub(super) workers: Workers,
    pub(super) clock: Clock,
}

impl OpenRules {
    /// What a worker in this process has them from.
    pub(crate) fn origin(&self) -> Local {
        let Self { truth, tail, snapshots, workers, clock } = self.clone();
        Local { truth, tail, snapshots, workers, clock }
    }

    /// Puts what is counted of them into a registry.
    pub(crate) fn register_metrics(&self, registry: &mut Registry) {
        self.truth.register_metrics(registry);
        self.tail.register_metrics(registry);
    }
}
