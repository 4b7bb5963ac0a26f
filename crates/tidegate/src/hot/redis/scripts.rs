//! The scripts of hot pages, each of them what it is made of: the numbers of a space are in them.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use parking_lot::Mutex;

use super::super::options::{ACTIVITY_MS, Bounds, SPIKE_MS, ring_exponent};
use crate::PartKind;
use crate::clock::absurd_ms;
use crate::doctor;
use crate::store::redis::Script;

/// Keys live at least so much longer than what is in them.
const BUFFER_MS: u64 = 600_000;

/// In a debug build scripts check themselves.
const CHECKED: &str = if cfg!(debug_assertions) { "local CHECKED = true" } else { "local CHECKED = false" };
const CODES: &str = include_str!("../codes.lua");
const RING_FORM: &str = include_str!("../ring_form.lua");
const RING: &str = include_str!("../ring.lua");
const HOT: &str = include_str!("../hot.lua");
const EDITED: &str = include_str!("../edited_page.lua");
const COUNTED: &str = concat!(include_str!("../counted_form.lua"), include_str!("../counted_page.lua"));
const PAGE: &str = include_str!("../page.lua");
const REMEMBERED: &str = include_str!("../remembered.lua");
const PROMOTE: &str = include_str!("../promote.lua");
const ITEMS: &str = include_str!("../items.lua");

pub(super) static PIN: LazyLock<Script> =
    LazyLock::new(|| Script::of(PartKind::Hot, &[include_str!("../pin.lua")]));

/// What a doctor looks by.
pub(in crate::hot) static LOOK: LazyLock<Script> = LazyLock::new(|| {
    Script::of(PartKind::Hot, &["local TAIL = 1", doctor::LOOK, include_str!("../look.lua")])
});

/// The operations of one kind of space: its numbers are part of each script.
#[derive(Debug)]
pub(super) struct Scripts {
    /// Of edits, or of counts in a space that only counts.
    pub(super) record: Script,
    /// Of counts that were gathered.
    pub(super) flush: Option<Script>,
    pub(super) stats: Script,
    pub(super) window: Script,
    pub(super) cleanup: Script,
    pub(super) tracked: Script,
    pub(super) list: Script,
    pub(super) is_hot: Script,
    pub(super) events: Script,
    pub(super) remove: Script,
}

/// Of all kinds of spaces in this process, by their numbers. There are as many as a
/// process opens with other settings, which is a few, so they are never dropped.
static SCRIPTS: Mutex<BTreeMap<String, &'static Scripts>> = Mutex::new(BTreeMap::new());

pub(super) fn scripts(numbers: String, only_counts: bool) -> &'static Scripts {
    let mut all = SCRIPTS.lock();
    if let Some(scripts) = all.get(&numbers) {
        return scripts;
    }
    let (reads, writes) = ("local READS, REPAIRS = true, false", "local READS, REPAIRS = false, false");
    let form = if only_counts { COUNTED } else { EDITED };
    // Codes come last, next to who uses them: for each variable that a function keeps, Lua looks
    // through those that were declared behind it and are kept by others, in every call of a script.
    let with = |kind: &str, more: &str, operation: &str| {
        let pieces = [CHECKED, kind, &numbers, RING_FORM, RING, HOT, form, PAGE, more, CODES, operation];
        Script::of(PartKind::Hot, &pieces)
    };
    let reading = |operation: &str| with(reads, include_str!("../read.lua"), operation);
    let repairing = |operation: &str| {
        with("local READS, REPAIRS = false, true", include_str!("../repair.lua"), operation)
    };
    let record = match only_counts {
        true => Script::of(PartKind::Hot, &count(writes, &numbers)),
        false => Script::of(PartKind::Hot, &record(writes, &numbers)),
    };
    // To begin takes either as long as several edits do.
    let record = record.in_large_batches();
    let scripts: &'static Scripts = Box::leak(Box::new(Scripts {
        record,
        flush: only_counts.then(|| Script::of(PartKind::Hot, &flush(writes, &numbers))),
        stats: reading(include_str!("../stats.lua")),
        window: reading(include_str!("../window.lua")),
        cleanup: repairing(include_str!("../cleanup.lua")),
        tracked: reading(include_str!("../tracked.lua")),
        list: reading(include_str!("../list.lua")),
        is_hot: with(reads, "", include_str!("../is_hot.lua")),
        events: with(reads, "", include_str!("../events.lua")),
        remove: repairing(include_str!("../remove.lua")),
    }));
    all.insert(numbers, scripts);
    scripts
}

/// What counts. As of edits, what few need comes last.
fn count<'a>(writes: &'a str, numbers: &'a str) -> Vec<&'a str> {
    let most = [ITEMS, include_str!("../count.lua")];
    [&counting(writes, numbers)[..], &most, &any_count(numbers), &[include_str!("../count_rest.lua")]]
        .concat()
}

/// What counts what was gathered.
fn flush<'a>(writes: &'a str, numbers: &'a str) -> Vec<&'a str> {
    [&counting(writes, numbers)[..], &any_count(numbers), &[include_str!("../flush.lua")]].concat()
}

fn counting<'a>(writes: &'a str, numbers: &'a str) -> [&'a str; 10] {
    [
        CHECKED,
        writes,
        numbers,
        RING_FORM,
        HOT,
        CODES,
        REMEMBERED,
        include_str!("../counted_form.lua"),
        include_str!("../count_in_place.lua"),
        include_str!("../count_most.lua"),
    ]
}

/// Numbers again: Lua lets a function keep 60 variables of those around it.
fn any_count(numbers: &str) -> [&str; 10] {
    [
        "local function make_count_any()",
        numbers,
        CODES,
        RING_FORM,
        RING,
        COUNTED,
        PAGE,
        PROMOTE,
        include_str!("../count_any.lua"),
        "end",
    ]
}

/// What records edits. What few of them need comes last, and is only come to by a call that has one of those.
fn record<'a>(writes: &'a str, numbers: &'a str) -> [&'a str; 27] {
    [
        CHECKED,
        writes,
        numbers,
        RING_FORM,
        HOT,
        CODES,
        REMEMBERED,
        include_str!("../edits.lua"),
        // Functions in a function get what that keeps of those around it: to look for it takes most of what they take to make.
        "local function make_record_in_place()",
        // Again: Lua lets a function keep 60 variables of those around it.
        numbers,
        CODES,
        RING_FORM,
        include_str!("../record_in_place.lua"),
        "end",
        ITEMS,
        include_str!("../record_most.lua"),
        "local function make_record_any()",
        numbers,
        CODES,
        RING_FORM,
        RING,
        EDITED,
        PAGE,
        PROMOTE,
        include_str!("../record_any.lua"),
        "end",
        include_str!("../record.lua"),
    ]
}

/// What stands in front of `hot.lua`.
pub(super) fn numbers(bounds: &Bounds, kept_ms: u64, slack_ms: u64, families: &[String; 4]) -> String {
    let numbers = [
        ("buffer_ms", BUFFER_MS.max(slack_ms)),
        ("hot_threshold", bounds.hot_threshold),
        ("promotion_threshold", bounds.promotion_threshold),
        ("window_ms", bounds.window_ms),
        ("kept_ms", kept_ms),
        ("exponent", ring_exponent(bounds, kept_ms)),
        ("max_tracked", bounds.max_tracked),
        ("max_members", bounds.max_members),
        ("spike_minimum", bounds.spike_minimum),
        ("max_activity", bounds.max_activity),
        ("absurd_ms", absurd_ms(kept_ms)),
        ("activity_ttl_ms", ACTIVITY_MS + slack_ms),
    ];
    let (names, values): (Vec<_>, Vec<_>) =
        numbers.into_iter().map(|(name, value)| (name, value.to_string())).unzip();
    let mut text = format!("local {} = {}\n", names.join(", "), values.join(", "));
    text += &format!("local replaces, spike_ratio = {}, {:?}\n", bounds.replaces, bounds.spike_ratio);
    text += &format!("local SPIKE_MS = {SPIKE_MS}\n");
    // Of names, colons and braces: nothing in them has to be escaped.
    text + &format!("local FAMILIES = {{ '{}' }}", families.join("', '"))
}
