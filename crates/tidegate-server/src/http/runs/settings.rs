//! What can be set of a space of runs.

use std::num::NonZeroUsize;
use std::sync::OnceLock;
use std::time::Duration;

use tidegate::run::{Quota, QuotaKind, QuotaOptions, RunOptions, Runs};
use tidegate::store::{Declaration, Part, PartKind};
use tidegate::{Name, Tidegate};

use crate::parts::{About, PartError, PartOptions, QuotaSettings, RunSettings, Variable, read_declared};
use crate::settings::SettingsError;
use crate::settings::parse::{Prefix, choices};
use crate::settings::raw::{Leaf, group};

group!(RawRuns for RunOptions {
    /// what their Redis keys start with (courtlistener)
    prefix: Leaf<Prefix>,
    /// how long after its last update a run is gone, up to 60 days; also REDIS_STATE_TTL_HOURS (25h)
    state_ttl: Leaf<Duration>,
    /// most runs, over several partitions each has its part (100000)
    max_runs: Leaf<NonZeroUsize>,
    /// most fields of a run, up to 1000 (64)
    max_fields: Leaf<usize>,
    /// longest name of a field, up to 255 (255)
    max_field_name_bytes: Leaf<NonZeroUsize>,
    /// longest value of a field, up to 65536 (4096)
    max_field_value_bytes: Leaf<usize>,
    /// most processed items of a run, up to 1000000 (1000000)
    max_processed: Leaf<NonZeroUsize>,
    /// most items of a run whose failures are kept, up to 100000 (10000)
    max_failures: Leaf<NonZeroUsize>,
    /// longest reason of a failure, up to 65536 (1024)
    max_reason_bytes: Leaf<usize>,
    /// most tasks of a run, up to 10000 (1000)
    max_tasks: Leaf<usize>,
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
    limit: Leaf<u64>,
    /// calls of those that are never made; also COURTLISTENER_SAFETY_BUFFER (25)
    safety_buffer: Leaf<u64>,
    /// how long Redis keeps the counter of an hour, at least to its end; also REDIS_COUNTER_TTL_HOURS (2h)
    counter_ttl: Leaf<Duration>,
    /// most ids of charges that are remembered, up to 1000000 (10000)
    max_charges: Leaf<NonZeroUsize>,
});

choices! {
    QuotaKind: "aligned" Aligned, "sliding" Sliding, "both" Both;
}

/// What pipelines have in their environment already.
const ENVIRONMENT: &[Variable] = &[
    Variable { name: "REDIS_STATE_TTL_HOURS", setting: "state_ttl", unit: "h" },
    Variable { name: "REDIS_COUNTER_TTL_HOURS", setting: "quota.counter_ttl", unit: "h" },
    Variable { name: "COURTLISTENER_SAFETY_BUFFER", setting: "quota.safety_buffer", unit: "" },
    Variable { name: "CALL_LIMIT_PER_HOUR", setting: "quota.limit", unit: "" },
];

impl PartOptions for RunSettings {
    const ABOUT: &About = &About {
        opens_by_use: true,
        environment: ENVIRONMENT,
        ..About::spaces(PartKind::Runs, "runs", "space of runs", "state_ttl=25h")
    };

    type Raw = RawRuns;
    type Open = OpenRuns;

    fn read(name: &str, mut raw: RawRuns) -> Result<Self, SettingsError> {
        let quota = std::mem::take(&mut raw.quota);
        let options = raw.over(RunOptions::default());
        options.check().map_err(|error| SettingsError(format!("`runs.{name}`: {error}")))?;
        // The family is that of its keys.
        let is_written = quota.is_written();
        let quota = quota.over(QuotaOptions::new().prefix(options.prefix.clone()));
        quota.check().map_err(|error| SettingsError(format!("`runs.{name}.quota`: {error}")))?;
        let quota = if is_written { QuotaSettings::Written(quota) } else { QuotaSettings::Implied(quota) };
        Ok(Self { options, quota })
    }

    fn declared(&self, name: &Name) -> Part {
        self.options.declared(name)
    }

    fn declared_beside(&self) -> Vec<Part> {
        match &self.quota {
            QuotaSettings::Written(quota) => quota.declared().into_iter().collect(),
            QuotaSettings::Implied(_) | QuotaSettings::Unknown => Vec::new(),
        }
    }

    fn reads_beside(declared: &Declaration) -> bool {
        declared.kind == PartKind::Quota && declared_quota(declared).is_ok()
    }

    fn adopt_beside(&mut self, declared: &[Declaration], is_all: bool) -> Result<(), SettingsError> {
        if let QuotaSettings::Written(_) = self.quota {
            return Ok(());
        }
        let is_it = |it: &&Declaration| {
            it.kind == PartKind::Quota && it.settings.get("prefix") == Some(&self.options.prefix)
        };
        match declared.iter().find(is_it) {
            Some(found) => self.quota = QuotaSettings::Implied(declared_quota(found)?),
            None if is_all => self.quota = QuotaSettings::Unknown,
            None => {}
        }
        Ok(())
    }

    fn open(&self, gate: &Tidegate, name: &str) -> tidegate::Result<OpenRuns> {
        let runs = gate.runs(name, self.options.clone())?;
        let (gate, family) = (gate.clone(), self.options.prefix.clone());
        let open = OpenRuns { runs, gate, family, settings: self.quota.clone(), quota: OnceLock::new() };
        // So that it is declared; a limit that stands in its way matters to who uses it.
        let _ = open.quota();
        Ok(open)
    }
}

impl RawQuota {
    /// Whether anything is.
    fn is_written(&self) -> bool {
        let Self { kind, limit, safety_buffer, counter_ttl, max_charges } = self;
        kind.0.is_some()
            || limit.0.is_some()
            || safety_buffer.0.is_some()
            || counter_ttl.0.is_some()
            || max_charges.0.is_some()
    }
}

/// A quota as the store declares it.
fn declared_quota(declared: &Declaration) -> Result<QuotaOptions, SettingsError> {
    let mut settings = declared.settings.clone();
    let prefix = settings.remove("prefix").unwrap_or_default();
    let path = format!("quota of {prefix:?}");
    let raw: RawQuota = read_declared(&path, &settings)?;
    let quota = raw.over(QuotaOptions::new().prefix(prefix));
    quota.check().map_err(|error| SettingsError(format!("`{path}`, as the store declares it: {error}")))?;
    Ok(quota)
}

/// A space of runs, open, and the quota of its family.
#[derive(Debug, Clone)]
pub(crate) struct OpenRuns {
    pub(crate) runs: Runs,
    gate: Tidegate,
    family: String,
    settings: QuotaSettings,
    quota: OnceLock<Quota>,
}

impl OpenRuns {
    pub(crate) fn quota(&self) -> Result<&Quota, PartError> {
        if let Some(quota) = self.quota.get() {
            return Ok(quota);
        }
        let options = match &self.settings {
            QuotaSettings::Written(options) | QuotaSettings::Implied(options) => options.clone(),
            QuotaSettings::Unknown => return Err(self.undeclared()),
        };
        // Opened twice at once it is the same quota.
        let opened = self.gate.quota(options).map_err(PartError::Failed)?;
        Ok(self.quota.get_or_init(|| opened))
    }

    fn undeclared(&self) -> PartError {
        let (family, space) = (&self.family, self.runs.space().as_str());
        PartError::Undeclared(format!(
            "the store declares no quota of the family {family:?}, and it is not written down here: a server that has it \
             declares it; or say what it is, by --config FILE or --set runs.{space}.quota.limit=5000"
        ))
    }
}
