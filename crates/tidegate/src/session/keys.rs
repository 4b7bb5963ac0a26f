//! The keys of a space of sessions on Redis, as the doctor knows them.

use super::redis::LOOK;
use crate::PartKind;
use crate::doctor::{Bounds, Declared, HOUR_MS, PartKeys};
use crate::key::Name;
use crate::store::Family;
use crate::store::redis::Script;

const SETS: &[&str] = &["active_sessions", "disconnected_sessions", "claimed_sessions", "dead_sessions"];

const FAMILIES: &[Family] = &[
    Family::new("session", "session:<uuid>", "hash", SETS),
    Family::new("broadcaster", "broadcaster:<broadcaster>", "string", &[]),
    Family::index("active", "active_sessions"),
    Family::index("disconnected", "disconnected_sessions"),
    Family::index("claimed", "claimed_sessions"),
    Family::index("dead", "dead_sessions"),
    Family::new("sessions_state", "sessions:state", "hash", &[]),
    Family::new("ref_count", "ref_count:<uuid>", "string", &[]),
];

pub(crate) struct SessionKeys;

impl PartKeys for SessionKeys {
    fn families(&self) -> &'static [Family] {
        FAMILIES
    }

    fn roots(&self, name: &Name, _prefix: &str) -> Vec<String> {
        vec![PartKind::Sessions.key_prefix(name)]
    }

    fn script(&self) -> &'static Script {
        &LOOK
    }

    fn bounds(&self, declared: &Declared<'_>) -> Bounds {
        let numbers = vec![
            declared.slack_ms,
            declared.longest("grace"),
            declared.longest("holder_lease"),
            declared.longest("session_ttl"),
            declared.shortest("retention"),
            declared.longest("claim_lease"),
            declared.greatest("max_attempts"),
            declared.greatest("max_holders"),
            declared.greatest_per_partition("max_sessions"),
            declared.longest("migration_lease"),
        ];
        Bounds { life_ms: declared.longest("retention") + 3 * HOUR_MS, numbers, ..Bounds::default() }
    }

    fn shared(&self, root: &str) -> (Vec<String>, Vec<String>) {
        let of = |names: &[&str]| names.iter().map(|it| format!("{root}{it}")).collect();
        (of(&[&["sessions:state"], SETS].concat()), of(&["session:", "broadcaster:", "ref_count:"]))
    }
}
