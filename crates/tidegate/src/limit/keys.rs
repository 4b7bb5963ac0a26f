//! The keys of a limit on Redis, as the doctor knows them.

use super::redis::LOOK;
use crate::doctor::{Bounds, Declared, PartKeys, ms};
use crate::key::Name;
use crate::store::Family;
use crate::store::redis::{MARKER_TTL, Script};

const FAMILIES: &[Family] = &[
    Family::new("absolute", "<prefix>:<limit>:absolute:h:<key>", "hash", &[]),
    Family::new("suppressed", "<prefix>:<limit>:suppressed:h:<key>", "hash", &[]),
    Family::new("token", "<prefix>:<limit>:token:<key>", "string", &[]),
    Family::new("calendar", "<prefix>:<limit>:<window>", "string", &[]),
    Family::new("calendar_of_key", "<prefix>:<limit>:<window>:<key>", "string", &[]),
    Family::new("beside", "<prefix>:<limit>:beside:<window>:<key>", "hash", &[]),
    Family::new("override", "<prefix>:<limit>:override:<key>", "string", &["<prefix>:<limit>:overrides"]),
    Family::index("overrides", "<prefix>:<limit>:overrides"),
    Family::index("pending", "<prefix>:<limit>:pending"),
    Family::new(
        "reservations",
        "<prefix>:<limit>:reservations:<key>",
        "hash",
        &["<prefix>:<limit>:reservations_due:<key>", "<prefix>:<limit>:pending"],
    )
    .with_entries("HSCAN"),
    Family::index("reservations_due", "<prefix>:<limit>:reservations_due:<key>"),
    Family::new("hours", "<prefix>:<limit>:hours", "hash", &[]),
    Family::new("leases", "<prefix>:<limit>:leases:<key>", "hash", &[]),
];

pub(crate) struct LimitKeys;

impl PartKeys for LimitKeys {
    fn families(&self) -> &'static [Family] {
        FAMILIES
    }

    fn root(&self) -> &'static str {
        "<prefix>:<limit>:"
    }

    fn roots(&self, name: &Name, prefix: &str) -> Vec<String> {
        vec![format!("{prefix}:{}:", name.as_str())]
    }

    fn script(&self) -> &'static Script {
        &LOOK
    }

    fn bounds(&self, _declared: &Declared<'_>) -> Bounds {
        // No key of ours lives for longer, and the next charge knows better.
        Bounds { life_ms: ms(MARKER_TTL), ..Bounds::default() }
    }
}
