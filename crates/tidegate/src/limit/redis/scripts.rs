//! The scripts of limits, each of them what it is made of.

use std::sync::LazyLock;

use super::super::algorithm::Algorithm;
use crate::PartKind;
use crate::doctor;
use crate::store::redis::Script;

const CODES: &str = include_str!("../codes.lua");
const RATE: &str = include_str!("../rate.lua");
const RULES: &str = include_str!("../rules.lua");
const LISTING: &str = include_str!("../listing.lua");
const RECORDS: &str = include_str!("../records.lua");
const SEVERAL: &str = include_str!("../several.lua");
const STANDING: &str = include_str!("../standing.lua");
const HOURS: &str = include_str!("../hours.lua");
const SLIDING_LUA: &str = include_str!("../sliding.lua");
const SUPPRESSED_LUA: &str = include_str!("../suppressed.lua");
const TOKEN_LUA: &str = include_str!("../token.lua");
const CALENDAR_LUA: &str = include_str!("../calendar.lua");

/// What a doctor looks by.
pub(in crate::limit) static LOOK: LazyLock<Script> = LazyLock::new(|| {
    Script::of(PartKind::Limit, &["local TAIL = 1", doctor::LOOK, include_str!("../look.lua")])
});

/// The scripts of one algorithm.
pub(super) struct Scripts {
    pub(super) take: Script,
    pub(super) peek: Script,
    pub(super) refund: Script,
    pub(super) reset: Script,
    pub(super) reserve: Script,
    pub(super) lease: Script,
}

impl Scripts {
    fn new(name: &str, algorithm: &str) -> Self {
        let alias = format!("local algorithm = {name}");
        let with = |shared, operation| {
            Script::of(PartKind::Limit, &[CODES, RATE, HOURS, algorithm, RULES, shared, &alias, operation])
        };
        let script = |operation| with("", operation);
        Self {
            take: script(include_str!("../take.lua")),
            peek: script(include_str!("../peek.lua")),
            refund: script(include_str!("../refund.lua")),
            reset: script(include_str!("../reset.lua")),
            reserve: with(RECORDS, include_str!("../reserve.lua")),
            lease: script(include_str!("../lease.lua")),
        }
    }

    pub(super) fn of(algorithm: &Algorithm) -> &'static Self {
        match algorithm {
            Algorithm::Sliding(_) => &SLIDING,
            Algorithm::Suppressed(_) => &SUPPRESSED,
            Algorithm::Token(_) => &TOKEN,
            Algorithm::Calendar(_) => &CALENDAR,
        }
    }
}

static SLIDING: LazyLock<Scripts> = LazyLock::new(|| Scripts::new("sliding", SLIDING_LUA));
static SUPPRESSED: LazyLock<Scripts> = LazyLock::new(|| Scripts::new("suppressed", SUPPRESSED_LUA));
static TOKEN: LazyLock<Scripts> = LazyLock::new(|| Scripts::new("token", TOKEN_LUA));
static CALENDAR: LazyLock<Scripts> = LazyLock::new(|| Scripts::new("calendar", CALENDAR_LUA));

pub(super) static TAKE_ALL: LazyLock<Script> = LazyLock::new(|| {
    let algorithms = [SLIDING_LUA, SUPPRESSED_LUA, TOKEN_LUA, CALENDAR_LUA];
    Script::of(
        PartKind::Limit,
        &[&[CODES, RATE, HOURS], &algorithms[..], &[RULES, SEVERAL, include_str!("../take_all.lua")]]
            .concat(),
    )
});

/// One of several limits that hold; `fast_path` stands in front of it.
fn several(fast_path: &str, pieces: &[&str]) -> Script {
    let all = [&[CODES, fast_path, RATE, HOURS, SLIDING_LUA, CALENDAR_LUA, RULES, SEVERAL], pieces].concat();
    Script::of(PartKind::Limit, &all)
}

fn charge_all(fast_path: &str) -> Script {
    several(fast_path, &[RECORDS, STANDING, include_str!("../charge_all.lua")])
}

pub(super) static CHARGE_ALL: LazyLock<Script> =
    LazyLock::new(|| charge_all(include_str!("../charge_fast_path.lua")));
/// The same one by one, for a test to compare.
#[cfg(test)]
pub(super) static CHARGE_ONE_BY_ONE: LazyLock<Script> = LazyLock::new(|| charge_all(""));
pub(super) static RELEASE_ALL: LazyLock<Script> =
    LazyLock::new(|| several("", &[RECORDS, include_str!("../release_all.lua")]));
pub(super) static HOURS_OF: LazyLock<Script> =
    LazyLock::new(|| several("", &[STANDING, include_str!("../hours_of.lua")]));
pub(super) static OVERRIDE: LazyLock<Script> =
    LazyLock::new(|| Script::of(PartKind::Limit, &[RATE, include_str!("../override.lua")]));
pub(super) static OVERRIDES: LazyLock<Script> =
    LazyLock::new(|| Script::of(PartKind::Limit, &[RATE, LISTING, include_str!("../overrides.lua")]));
pub(super) static RESERVATIONS: LazyLock<Script> =
    LazyLock::new(|| Script::of(PartKind::Limit, &[CODES, LISTING, include_str!("../reservations.lua")]));
