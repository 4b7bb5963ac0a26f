//! What can be set of the rules of redirects.

use std::num::NonZeroUsize;

use tidegate::clock::Clock;
use tidegate_edge::stream::{Snapshots, StreamOptions, Tail, Workers};
use tidegate_edge::truth::{Truth, TruthOptions};

use crate::parts::{RulesSettings, SingleOptions};
use crate::settings::raw::{Leaf, group};
use crate::settings::{RulesUrl, SettingsError};

group!(RawRules {
    /// where the rules of redirects are kept: sqlite:FILE (none: this server has no rules)
    url: Leaf<RulesUrl>,
    /// changes that their log goes back: who follows them and was away for more begins anew (100000)
    max_log: Leaf<NonZeroUsize>,
});

impl SingleOptions for RulesSettings {
    type Raw = RawRules;
    type Open = OpenRules;

    fn read(raw: RawRules) -> Result<Option<Self>, SettingsError> {
        let mut options = TruthOptions::default();
        if let Some(max_log) = raw.max_log.0 {
            options.max_log = max_log.get() as u64;
        }
        match raw.url.0 {
            Some(url) => Ok(Some(Self { url, options })),
            None if raw.max_log.is_set() => {
                let why = "there are no rules unless `rules.url` says where, like sqlite:rules.db";
                Err(SettingsError(format!("`rules.max_log`: {why}")))
            }
            None => Ok(None),
        }
    }

    async fn open(&self) -> Result<OpenRules, SettingsError> {
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
