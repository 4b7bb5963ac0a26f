//! The keys of a space of runs and of the quota of a family on Redis, as the doctor knows them.

use super::quota::LIMITS;
use super::redis::LOOK;
use super::types::RunState;
use crate::PartKind;
use crate::clock::absurd_ms;
use crate::doctor::{Bounds, Declared, HOUR_MS, PartKeys};
use crate::key::Name;
use crate::limit::LimitKeys;
use crate::store::Family;
use crate::store::redis::Script;

const RUN: &[&str] = &["<run prefix>:pipeline:<run>"];

const FAMILIES: &[Family] = &[
    Family::new(
        "pipeline",
        "<run prefix>:pipeline:<run>",
        "hash",
        &["<run prefix>:runs:<state>", "<run prefix>:runs_due"],
    ),
    Family::new("fields", "<run prefix>:fields:<run>", "hash", RUN),
    Family::new("processed", "<run prefix>:processed:<run>", "set", RUN),
    Family::new("failures", "<run prefix>:failures:<run>", "hash", RUN).with_entries("HSCAN"),
    Family::new("failed_at", "<run prefix>:failed_at:<run>", "zset", RUN).with_entries("ZSCAN"),
    Family::new("to_retry", "<run prefix>:to_retry:<run>", "zset", RUN).with_entries("ZSCAN"),
    Family::new("tasks", "<run prefix>:tasks:<run>", "hash", RUN).with_entries("HSCAN"),
    Family::new(
        "task_start",
        "<run prefix>:task_start:<run, escaped>:<task>",
        "string",
        &["<run prefix>:tasks:<run>"],
    ),
    Family::new("failed", "<run prefix>:failed:<hour>", "zset", &[]),
    Family::index("runs", "<run prefix>:runs:<state>"),
    Family::index("runs_due", "<run prefix>:runs_due"),
];

pub(crate) struct RunKeys;

impl PartKeys for RunKeys {
    fn families(&self) -> &'static [Family] {
        FAMILIES
    }

    fn root(&self) -> &'static str {
        "<run prefix>:"
    }

    fn roots(&self, name: &Name, prefix: &str) -> Vec<String> {
        vec![format!("{}{prefix}:", PartKind::Runs.key_prefix(name))]
    }

    fn script(&self) -> &'static Script {
        &LOOK
    }

    fn bounds(&self, declared: &Declared<'_>) -> Bounds {
        let ttl_ms = declared.longest("state_ttl");
        let numbers = vec![
            declared.slack_ms,
            ttl_ms,
            absurd_ms(ttl_ms),
            declared.greatest_per_partition("max_runs"),
            declared.greatest("max_fields"),
            declared.greatest("max_processed"),
            declared.greatest("max_failures"),
            declared.greatest("max_tasks"),
        ];
        Bounds { life_ms: ttl_ms + ttl_ms / 50 + 2 * HOUR_MS, numbers, ..Bounds::default() }
    }

    fn shared(&self, root: &str) -> (Vec<String>, Vec<String>) {
        let mut keys = vec![format!("{root}runs_due")];
        keys.extend(RunState::ALL.map(|state| format!("{root}runs:{state}")));
        (keys, vec![root.to_owned()])
    }
}

/// A quota is known by the limits it stands on.
pub(crate) struct QuotaKeys;

impl PartKeys for QuotaKeys {
    /// They are those of limits, and named there.
    fn families(&self) -> &'static [Family] {
        LimitKeys.families()
    }

    fn root(&self) -> &'static str {
        LimitKeys.root()
    }

    fn roots(&self, _family: &Name, prefix: &str) -> Vec<String> {
        // Whatever kind it is, it may have been another.
        LIMITS.map(|limit| format!("{prefix}:{limit}:")).to_vec()
    }

    fn script(&self) -> &'static Script {
        LimitKeys.script()
    }

    fn bounds(&self, declared: &Declared<'_>) -> Bounds {
        LimitKeys.bounds(declared)
    }
}
