//! How long runs live, and what they are bounded by.

use std::time::Duration;

use super::types::Update;
use crate::bounds::MAX_COUNT;
use crate::clock::absurd_ms;
use crate::error::{Error, Result};
use crate::key::{Key, MAX_KEY_BYTES, check_prefix};
use crate::setters::setters;

/// How the runs of a space live.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunOptions {
    /// What the keys of runs on Redis start with.
    pub prefix: String,
    /// How long after its last update a run ends, and all of it.
    pub state_ttl: Duration,
    /// Runs of the space, at most; over several partitions each has its part.
    pub max_runs: usize,
    /// Fields of a run, at most.
    pub max_fields: usize,
    /// The longest name of a field, in bytes.
    pub max_field_name_bytes: usize,
    /// The longest value of a field, in bytes.
    pub max_field_value_bytes: usize,
    /// Processed items of a run, at most.
    pub max_processed: usize,
    /// Items of a run whose failures are kept, at most; then those that failed longest ago leave.
    pub max_failures: usize,
    /// The longest reason of a failure, in bytes.
    pub max_reason_bytes: usize,
    /// Tasks of a run, at most.
    pub max_tasks: usize,
    /// How often runs that have ended are looked for.
    pub cleanup_interval: Duration,
    /// How many are looked at in one step.
    pub batch: usize,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self {
            prefix: "courtlistener".to_owned(),
            state_ttl: Duration::from_secs(25 * 3600),
            max_runs: 100_000,
            max_fields: 64,
            max_field_name_bytes: 255,
            max_field_value_bytes: 4096,
            max_processed: MAX_PROCESSED,
            max_failures: 10_000,
            max_reason_bytes: 1024,
            max_tasks: 1000,
            cleanup_interval: Duration::from_secs(60),
            batch: 100,
        }
    }
}

setters!(RunOptions {
    prefix: String,
    state_ttl: Duration,
    max_runs: usize,
    max_fields: usize,
    max_field_name_bytes: usize,
    max_field_value_bytes: usize,
    max_processed: usize,
    max_failures: usize,
    max_reason_bytes: usize,
    max_tasks: usize,
    cleanup_interval: Duration,
    batch: usize,
});

/// The most processed items that a run may have.
const MAX_PROCESSED: usize = 1_000_000;

/// The most items that may be in one call.
pub const MAX_ITEMS: usize = 10_000;

/// The longest that anything of a run is kept.
const MAX_STATE_TTL: Duration = Duration::from_secs(60 * 24 * 3600);

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(24 * 3600);

impl RunOptions {
    /// Whether all of it is allowed; a space is only made if it is.
    pub fn check(&self) -> Result<()> {
        Key::new(&self.prefix)?;
        check_prefix(&self.prefix)?;
        lasts("a state_ttl", self.state_ttl, [SECOND, MAX_STATE_TTL])?;
        lasts("a cleanup_interval", self.cleanup_interval, [Duration::from_millis(100), DAY])?;
        between("max_runs", self.max_runs, 1, 10_000_000)?;
        between("max_fields", self.max_fields, 0, 1000)?;
        between("max_field_name_bytes", self.max_field_name_bytes, 1, MAX_KEY_BYTES)?;
        between("max_field_value_bytes", self.max_field_value_bytes, 0, 64 << 10)?;
        between("max_processed", self.max_processed, 1, MAX_PROCESSED)?;
        between("max_failures", self.max_failures, 1, 100_000)?;
        between("max_reason_bytes", self.max_reason_bytes, 0, 64 << 10)?;
        between("max_tasks", self.max_tasks, 0, 10_000)?;
        between("a batch", self.batch, 1, 1000)
    }

    /// What a partition, one of `of`, is bounded by.
    pub(super) fn bounds(&self, of: u32) -> Bounds {
        let ttl_ms = self.state_ttl.as_millis() as u64;
        Bounds {
            ttl_ms,
            absurd_ms: absurd_ms(ttl_ms),
            max_runs: (self.max_runs as u64 / u64::from(of)).max(1),
            max_fields: self.max_fields as u64,
            max_processed: self.max_processed as u64,
            max_failures: self.max_failures as u64,
            max_tasks: self.max_tasks as u64,
        }
    }

    /// Whether an update can be made at all.
    pub(super) fn check_update(&self, update: &Update) -> Result<()> {
        if let Some(state) = update.state.filter(|state| state.is_terminal()) {
            return Err(Error::invalid(format!(
                "an update cannot set {state}: running, processing and paused are allowed, and finish ends a run"
            )));
        }
        if update.total.is_some_and(|total| total > MAX_COUNT) {
            let total = update.total.unwrap_or_default();
            return Err(Error::invalid(format!("a total of {total} is not allowed: 0 to {MAX_COUNT} are")));
        }
        let set = update.fields.values().flatten().count();
        if set > self.max_fields {
            return Err(Error::invalid(format!(
                "{set} fields are not allowed: a run has up to {}",
                self.max_fields
            )));
        }
        // Each of those that are removed was there or was not: a mistake if there are more than can be.
        if update.fields.len() > set + MAX_REMOVED {
            return Err(Error::invalid(format!(
                "{} fields cannot be removed at once: up to {MAX_REMOVED} can",
                update.fields.len() - set
            )));
        }
        for (name, value) in &update.fields {
            let start: String = name.chars().take(20).collect();
            if !(1..=self.max_field_name_bytes).contains(&name.len()) {
                return Err(Error::invalid(format!(
                    "the name of the field {start:?} has {} bytes: 1 to {} are allowed",
                    name.len(),
                    self.max_field_name_bytes
                )));
            }
            let bytes = value.as_ref().map_or(0, String::len);
            if bytes > self.max_field_value_bytes {
                return Err(Error::invalid(format!(
                    "the value of the field {start:?} has {bytes} bytes: up to {} are allowed",
                    self.max_field_value_bytes
                )));
            }
        }
        Ok(())
    }

    pub(super) fn check_reason(&self, reason: &str) -> Result<()> {
        if reason.len() <= self.max_reason_bytes {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "a reason of {} bytes is not allowed: up to {} are",
            reason.len(),
            self.max_reason_bytes
        )))
    }
}

/// Fields that one update may remove.
const MAX_REMOVED: usize = 1000;

/// Whether so many items may be in one call.
pub(super) fn check_items(items: usize) -> Result<()> {
    if items <= MAX_ITEMS {
        return Ok(());
    }
    Err(Error::invalid(format!("{items} items in one call are not allowed: up to {MAX_ITEMS} are")))
}

fn lasts(what: &str, value: Duration, [least, most]: [Duration; 2]) -> Result<()> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(Error::invalid(format!("{what} of {value:?} is not allowed: {least:?} to {most:?} are")))
}

fn between(what: &str, value: usize, least: usize, most: usize) -> Result<()> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(Error::invalid(format!("{what} of {value} is not allowed: {least} to {most} are")))
}

/// The same in numbers, for one partition.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    pub(super) ttl_ms: u64,
    /// How far ahead of the clock a run may have been changed before that is taken for wrong.
    pub(super) absurd_ms: u64,
    pub(super) max_runs: u64,
    pub(super) max_fields: u64,
    pub(super) max_processed: u64,
    pub(super) max_failures: u64,
    pub(super) max_tasks: u64,
}
