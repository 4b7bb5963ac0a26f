//! What can be set of a space of runs.

use std::num::NonZeroUsize;
use std::sync::OnceLock;
use std::time::Duration;

use tidegate::run::{Quota, QuotaKind, QuotaOptions, RunOptions, Runs};
use tidegate::store::{Part, PartKind};
use tidegate::{Cost, Name, Tidegate};

use crate::parts::{About, PartOptions};
use crate::settings::SettingsError;
use crate::settings::parse::{Prefix, SafetyBuffer, choices};
use crate::settings::raw::{Leaf, group};

group!(RawRuns for RunOptions {
    /// what their Redis keys start with (courtlistener)
    prefix: Leaf<Prefix>,
    /// how long after its last update a run is gone, up to 60 days; also REDIS_STATE_TTL_HOURS (25h)
    state_ttl: Leaf<Duration>,
    /// most runs, over several partitions each has its part (100000)
    max_runs: Leaf<NonZeroUsize>,
    /// most fields of a run, up to 1000 (64)
    max_fields: Leaf<NonZeroUsize>,
    /// longest name of a field, up to 255 (255)
    max_field_name_bytes: Leaf<NonZeroUsize>,
    /// longest value of a field, up to 65536 (4096)
    max_field_value_bytes: Leaf<NonZeroUsize>,
    /// most processed items of a run, up to 1000000 (1000000)
    max_processed: Leaf<NonZeroUsize>,
    /// most items of a run whose failures are kept, up to 100000 (10000)
    max_failures: Leaf<NonZeroUsize>,
    /// longest reason of a failure, up to 65536 (1024)
    max_reason_bytes: Leaf<NonZeroUsize>,
    /// most tasks of a run, up to 10000 (1000)
    max_tasks: Leaf<NonZeroUsize>,
    /// how often runs that are over are looked for (1m)
    cleanup_interval: Leaf<Duration>,
    /// runs that are looked at in one step, up to 1000 (100)
    batch: Leaf<NonZeroUsize>,
} beside {
    /// what the other side allows in an hour
    quota: RawQuota,
});

group!(RawQuota for QuotaOptions {
    /// what counts as an hour: aligned (to UTC), sliding (any 60 minutes) or both (aligned)
    kind: Leaf<QuotaKind>,
    /// calls per hour, the buffer included; also CALL_LIMIT_PER_HOUR (5000)
    limit: Leaf<Cost>,
    /// calls of those that are never made; also COURTLISTENER_SAFETY_BUFFER (25)
    safety_buffer: Leaf<SafetyBuffer>,
    /// how long Redis keeps the counter of an hour, at least to its end; also REDIS_COUNTER_TTL_HOURS (2h)
    counter_ttl: Leaf<Duration>,
    /// most ids of charges that are remembered, up to 1000000 (10000)
    max_charges: Leaf<NonZeroUsize>,
});

choices! {
    QuotaKind: "aligned" Aligned, "sliding" Sliding, "both" Both;
}

/// A space of runs, and the quota of their family.
#[derive(Debug, Clone)]
pub(crate) struct RunSettings {
    pub(crate) options: RunOptions,
    pub(crate) quota: QuotaOptions,
}

/// The same, open. A quota is opened by its first use: it declares limits of its own.
#[derive(Debug, Clone)]
pub(crate) struct OpenRuns {
    pub(crate) runs: Runs,
    quota_options: QuotaOptions,
    quota: OnceLock<Quota>,
}

impl OpenRuns {
    pub(crate) fn quota(&self, gate: &Tidegate) -> tidegate::Result<&Quota> {
        if let Some(quota) = self.quota.get() {
            return Ok(quota);
        }
        // Opened twice at once it is the same quota.
        let opened = gate.quota(self.quota_options.clone())?;
        Ok(self.quota.get_or_init(|| opened))
    }
}

impl PartOptions for RunSettings {
    const ABOUT: &About = &About {
        opens_by_use: true,
        ..About::spaces(PartKind::Runs, "runs", "space of runs", "state_ttl=25h")
    };

    type Raw = RawRuns;
    type Open = OpenRuns;

    fn read(name: &str, mut raw: RawRuns) -> Result<Self, SettingsError> {
        let quota = std::mem::take(&mut raw.quota);
        let options = raw.over(RunOptions::default());
        options.check().map_err(|error| SettingsError(format!("`runs.{name}`: {error}")))?;
        // The family is that of its keys.
        let quota = quota.over(QuotaOptions::default().prefix(options.prefix.clone()));
        quota.check().map_err(|error| SettingsError(format!("`runs.{name}.quota`: {error}")))?;
        Ok(Self { options, quota })
    }

    fn declared(&self, name: &Name) -> Part {
        self.options.declared(name)
    }

    fn open(&self, gate: &Tidegate, name: &str) -> tidegate::Result<OpenRuns> {
        let runs = gate.runs(name, self.options.clone())?;
        Ok(OpenRuns { runs, quota_options: self.quota.clone(), quota: OnceLock::new() })
    }
}
