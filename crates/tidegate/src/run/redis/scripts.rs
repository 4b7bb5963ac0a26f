//! The scripts of runs, each of them what it is made of.

use std::sync::LazyLock;

use crate::PartKind;
use crate::doctor;
use crate::store::redis::Script;

const CODES: &str = include_str!("../codes.lua");
const RUN: &str = include_str!("../run.lua");

pub(super) static START: LazyLock<Script> = LazyLock::new(|| script(include_str!("../start.lua")));
pub(super) static GET: LazyLock<Script> = LazyLock::new(|| script(include_str!("../get.lua")));
pub(super) static LIST: LazyLock<Script> = LazyLock::new(|| script(include_str!("../list.lua")));
pub(super) static UPDATE: LazyLock<Script> = LazyLock::new(|| script(include_str!("../update.lua")));
pub(super) static FINISH: LazyLock<Script> = LazyLock::new(|| script(include_str!("../finish.lua")));
pub(super) static RETRY: LazyLock<Script> = LazyLock::new(|| script(include_str!("../retry.lua")));
pub(super) static EXPIRE: LazyLock<Script> = LazyLock::new(|| script(include_str!("../expire.lua")));
pub(super) static DELETE: LazyLock<Script> = LazyLock::new(|| script(include_str!("../delete.lua")));
pub(super) static PROCESSED: LazyLock<Script> = LazyLock::new(|| script(include_str!("../processed.lua")));
pub(super) static IS_PROCESSED: LazyLock<Script> =
    LazyLock::new(|| script(include_str!("../is_processed.lua")));
pub(super) static PROGRESS: LazyLock<Script> = LazyLock::new(|| script(include_str!("../progress.lua")));
pub(super) static TASK_STARTED: LazyLock<Script> =
    LazyLock::new(|| script(include_str!("../task_started.lua")));
pub(super) static TASK_FINISHED: LazyLock<Script> =
    LazyLock::new(|| script(include_str!("../task_finished.lua")));
pub(super) static TASKS: LazyLock<Script> = LazyLock::new(|| script(include_str!("../tasks.lua")));
pub(super) static FAILED: LazyLock<Script> = LazyLock::new(|| script(include_str!("../failed.lua")));
pub(super) static FAILURES: LazyLock<Script> = LazyLock::new(|| script(include_str!("../failures.lua")));
pub(super) static FAILURES_IN_HOUR: LazyLock<Script> =
    LazyLock::new(|| script(include_str!("../failures_in_hour.lua")));
pub(super) static CLEANUP: LazyLock<Script> = LazyLock::new(|| script(include_str!("../cleanup.lua")));

/// What a doctor looks by.
pub(in crate::run) static LOOK: LazyLock<Script> = LazyLock::new(|| {
    Script::of(PartKind::Runs, &[CODES, RUN, "local TAIL = 10", doctor::LOOK, include_str!("../look.lua")])
});

fn script(operation: &str) -> Script {
    Script::of(PartKind::Runs, &[CODES, RUN, operation])
}
