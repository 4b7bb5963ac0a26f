//! What can be set of a space of runs.

use std::num::NonZeroUsize;
use std::time::Duration;

use tidegate::run::{RunOptions, Runs};
use tidegate::store::{Part, PartKind};
use tidegate::{Name, Tidegate};

use crate::parts::{About, PartOptions, Variable};
use crate::settings::SettingsError;
use crate::settings::parse::{Parse, Prefix};
use crate::settings::raw::{Leaf, group};

group!(RawRuns for RunOptions {
    /// what their Redis keys start with (courtlistener)
    prefix: Leaf<Prefix>,
    /// how long after its last update a run is gone, up to 60 days; also REDIS_STATE_TTL_HOURS (25h)
    state_ttl: Leaf<Duration>,
    /// most runs, over several partitions each has its part (100000)
    max_runs: Leaf<NonZeroUsize>,
    /// most fields of a run, up to 1000 (64)
    max_fields: Leaf<Count>,
    /// longest name of a field, up to 255 (255)
    max_field_name_bytes: Leaf<NonZeroUsize>,
    /// longest value of a field, up to 65536 (4096)
    max_field_value_bytes: Leaf<Count>,
    /// most processed items of a run, up to 1000000 (1000000)
    max_processed: Leaf<NonZeroUsize>,
    /// most items of a run whose failures are kept, up to 100000 (10000)
    max_failures: Leaf<NonZeroUsize>,
    /// longest reason of a failure, up to 65536 (1024)
    max_reason_bytes: Leaf<Count>,
    /// most tasks of a run, up to 10000 (1000)
    max_tasks: Leaf<Count>,
    /// how often runs that are over are looked for (1m)
    cleanup_interval: Leaf<Duration>,
    /// runs that are looked at in one step, up to 1000 (100)
    batch: Leaf<NonZeroUsize>,
});

impl PartOptions for RunOptions {
    const ABOUT: &About = &About {
        opens_by_use: true,
        environment: ENVIRONMENT,
        ..About::spaces(PartKind::Runs, "runs", "space of runs", "state_ttl=25h")
    };

    type Raw = RawRuns;
    type Open = Runs;

    fn read(name: &str, raw: RawRuns) -> Result<Self, SettingsError> {
        let options = raw.over(Self::default());
        options.check().map_err(|error| SettingsError(format!("`runs.{name}`: {error}")))?;
        Ok(options)
    }

    fn declared(&self, name: &Name) -> Part {
        self.declared(name)
    }

    fn open(&self, gate: &Tidegate, name: &str) -> tidegate::Result<Runs> {
        gate.runs(name, self.clone())
    }
}

/// What pipelines have in their environment already.
const ENVIRONMENT: &[Variable] =
    &[Variable { name: "REDIS_STATE_TTL_HOURS", setting: "state_ttl", unit: "h" }];

/// How many, or none at all.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Count(usize);

impl Parse for Count {
    fn parse(text: &str) -> Result<Self, String> {
        let count = text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()));
        count.map(Self).ok_or_else(|| format!("{text:?} is not allowed: whole numbers from 0 on are"))
    }
}

impl From<Count> for usize {
    fn from(Count(count): Count) -> Self {
        count
    }
}
