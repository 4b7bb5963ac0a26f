//! The scripts of sessions, each of them what it is made of.

use std::sync::LazyLock;

use crate::PartKind;
use crate::doctor;
use crate::store::redis::Script;

const CODES: &str = include_str!("../codes.lua");
const SPACE: &str = include_str!("../space.lua");
const SESSION: &str = include_str!("../session.lua");
const PLACE: &str = include_str!("../place.lua");
const REAP: &str = include_str!("../reap.lua");

pub(super) static ACTIVATE: LazyLock<Script> = LazyLock::new(|| script(include_str!("../activate.lua")));
pub(super) static CONNECT: LazyLock<Script> = LazyLock::new(|| script(include_str!("../connect.lua")));
pub(super) static RESUME: LazyLock<Script> = LazyLock::new(|| script(include_str!("../resume.lua")));
pub(super) static HEARTBEAT: LazyLock<Script> = LazyLock::new(|| script(include_str!("../heartbeat.lua")));
pub(super) static DISCONNECT: LazyLock<Script> = LazyLock::new(|| script(include_str!("../disconnect.lua")));
pub(super) static GET: LazyLock<Script> = LazyLock::new(|| script(include_str!("../get.lua")));
pub(super) static UPDATE: LazyLock<Script> = LazyLock::new(|| script(include_str!("../update.lua")));
pub(super) static DELETE: LazyLock<Script> = LazyLock::new(|| script(include_str!("../delete.lua")));
pub(super) static LIST: LazyLock<Script> = LazyLock::new(|| script(include_str!("../list.lua")));
pub(super) static ACK: LazyLock<Script> = LazyLock::new(|| script(include_str!("../ack.lua")));
pub(super) static RENEW: LazyLock<Script> = LazyLock::new(|| script(include_str!("../renew.lua")));
pub(super) static RETRY: LazyLock<Script> = LazyLock::new(|| script(include_str!("../retry.lua")));
pub(super) static RECONCILE: LazyLock<Script> =
    LazyLock::new(|| comparing(&[include_str!("../reconcile.lua")]));
/// What a doctor looks by.
pub(in crate::session) static LOOK: LazyLock<Script> =
    LazyLock::new(|| comparing(&["local TAIL = 14", doctor::LOOK, include_str!("../look.lua")]));
pub(super) static STAMP: LazyLock<Script> = LazyLock::new(|| script(include_str!("../stamp.lua")));
pub(super) static COUNTS: LazyLock<Script> = LazyLock::new(|| reaping(include_str!("../counts.lua")));
pub(super) static CLAIM: LazyLock<Script> = LazyLock::new(|| reaping(include_str!("../claim.lua")));
pub(super) static CLEANUP: LazyLock<Script> = LazyLock::new(|| reaping(include_str!("../cleanup.lua")));
pub(super) static CLEANUP_DRY_RUN: LazyLock<Script> =
    LazyLock::new(|| reaping(include_str!("../cleanup_dry_run.lua")));
pub(super) static LAPSE: LazyLock<Script> = LazyLock::new(|| reaping(include_str!("../lapse.lua")));

/// Whether a script reconciles everything: then it goes on past what stops others.
const RECONCILING: &str = "local is_reconciling = true";
const NOT_RECONCILING: &str = "local is_reconciling = false";

fn script(operation: &str) -> Script {
    Script::of(PartKind::Sessions, &[NOT_RECONCILING, CODES, SPACE, SESSION, operation])
}

fn comparing(operation: &[&str]) -> Script {
    Script::of(PartKind::Sessions, &[&[RECONCILING, CODES, SPACE, SESSION, PLACE], operation].concat())
}

fn reaping(operation: &str) -> Script {
    Script::of(PartKind::Sessions, &[NOT_RECONCILING, CODES, SPACE, SESSION, REAP, operation])
}
