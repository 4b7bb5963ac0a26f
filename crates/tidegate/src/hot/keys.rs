//! The keys of a space of hot pages on Redis, as the doctor knows them.

use super::notes::spread;
use super::redis::LOOK;
use crate::PartKind;
use crate::doctor::{Bounds, Declared, HOUR_MS, PartKeys};
use crate::key::Name;
use crate::store::Family;
use crate::store::redis::Script;

const PAGES: &[&str] = &["hot:rank", "hot:due"];
const COUNTED: &[&str] = &["hot:counting:activities", "hot:counting:rank", "hot:counting:due"];

const FAMILIES: &[Family] = &[
    Family::new("activity", "activity:<page>", "string", &["hot:activities"]),
    Family::new("window", "hot:window:<page>", "zset", PAGES),
    Family::new("meta", "hot:meta:<page>", "hash", PAGES),
    Family::new("editors", "hot:editors:<page>", "list", PAGES),
    Family::new("hot_state", "hot:state", "hash", &[]).numbered(),
    Family::index("activities", "hot:activities").numbered(),
    Family::index("due", "hot:due").numbered(),
    Family::index("rank", "hot:rank").numbered(),
    Family::new("events", "hot:events", "stream", &[]).numbered(),
    Family::new("count", "hot:count:<page>", "string", COUNTED),
    Family::new("counting_state", "hot:counting:state", "hash", &[]).numbered(),
    Family::index("counting_activities", "hot:counting:activities").numbered(),
    Family::index("counting_due", "hot:counting:due").numbered(),
    Family::index("counting_rank", "hot:counting:rank").numbered(),
    Family::new("counting_flush", "hot:counting:flushes:<node>", "string", &[]),
    Family::new("counting_events", "hot:counting:events", "stream", &[]).numbered(),
];

pub(crate) struct HotKeys;

impl PartKeys for HotKeys {
    fn families(&self) -> &'static [Family] {
        FAMILIES
    }

    fn roots(&self, name: &Name, _prefix: &str) -> Vec<String> {
        vec![PartKind::Hot.key_prefix(name)]
    }

    fn script(&self) -> &'static Script {
        &LOOK
    }

    fn bounds(&self, declared: &Declared<'_>) -> Bounds {
        let span_ms = declared.longest("window_duration");
        Bounds { life_ms: span_ms + HOUR_MS, span_ms, ..Bounds::default() }
    }

    fn suffix(&self, partitions: u32, family: &Family, subject: &str) -> String {
        if partitions == 1 {
            return String::new();
        }
        if !family.pattern.contains('<') {
            return subject.to_owned();
        }
        let number = spread(partitions).map(|it| it.partition(subject));
        format!(":{}", number.unwrap_or_default())
    }
}
