//! Goes through everything that hot pages have written, and checks that it is whole.

use std::collections::BTreeMap;

/// All of one namespace, pages by their name with the tag of their slot in front.
#[derive(Default)]
struct Found {
    rank: BTreeMap<String, f64>,
    due: BTreeMap<String, f64>,
    activities: BTreeMap<String, f64>,
    windows: BTreeMap<String, Vec<(String, f64)>>,
    metas: BTreeMap<String, BTreeMap<String, Vec<u8>>>,
    editors: BTreeMap<String, Vec<String>>,
    activity: BTreeMap<String, u64>,
}

fn read(connection: &mut redis::Connection, namespace: &str, found: &mut Found) {
    let mut get = redis::cmd("KEYS");
    let prefix = if namespace.is_empty() { String::new() } else { format!("{namespace}:") };
    let keys: Vec<String> = get.arg(format!("{prefix}*")).query(connection).unwrap();
    for key in &keys {
        let ttl: i64 = redis::cmd("PTTL").arg(key).query(connection).unwrap();
        assert_ne!(ttl, -1, "{key} has no end");
        let rest = &key[prefix.len()..];
        let (tag, rest) = match rest.starts_with('{') {
            true => rest.split_once(':').unwrap(),
            false => ("", rest),
        };
        let page = |family: &str| rest.strip_prefix(family).map(|page| format!("{tag} {page}"));
        let mut sorted_set = |into: &mut BTreeMap<String, f64>| {
            let all: Vec<(String, f64)> =
                redis::cmd("ZRANGE").arg(key).arg(0).arg(-1).arg("WITHSCORES").query(connection).unwrap();
            for (member, score) in all {
                let twice = into.insert(format!("{tag} {member}"), score);
                assert_eq!(twice, None, "{member} is listed twice");
            }
        };
        if let Some(page) = page("hot:window:") {
            let all = redis::cmd("ZRANGE").arg(key).arg(0).arg(-1).arg("WITHSCORES").query(connection);
            found.windows.insert(page, all.unwrap());
        } else if let Some(page) = page("hot:meta:") {
            found.metas.insert(page, redis::cmd("HGETALL").arg(key).query(connection).unwrap());
        } else if let Some(page) = page("hot:editors:") {
            found
                .editors
                .insert(page, redis::cmd("LRANGE").arg(key).arg(0).arg(-1).query(connection).unwrap());
        } else if let Some(page) = page("activity:") {
            found.activity.insert(page, redis::cmd("STRLEN").arg(key).query(connection).unwrap());
        } else if rest.starts_with("hot:rank") {
            sorted_set(&mut found.rank);
        } else if rest.starts_with("hot:due") {
            sorted_set(&mut found.due);
        } else if rest.starts_with("hot:activities") {
            sorted_set(&mut found.activities);
        } else {
            let known = ["hot:state", "hot:events", "tidegate:marker"];
            assert!(known.iter().any(|known| rest.starts_with(known)), "whose key is {key}?");
        }
    }
}

/// The pages of the default space under `namespace`: every key has an end, every page
/// in an index has its keys and the other way round, and what is counted is there. How
/// many pages are hot.
pub(crate) fn audit(connections: Vec<redis::Connection>, namespace: &str, due_base_ms: u64) -> u64 {
    let mut found = Found::default();
    for mut connection in connections {
        read(&mut connection, namespace, &mut found);
    }
    let names = |keys: Vec<&String>| keys.into_iter().cloned().collect::<Vec<_>>();
    let ranked = names(found.rank.keys().collect());
    assert_eq!(ranked, names(found.due.keys().collect()), "due");
    assert_eq!(ranked, names(found.windows.keys().collect()), "windows");
    assert_eq!(ranked, names(found.metas.keys().collect()), "metas");
    assert_eq!(ranked, names(found.editors.keys().collect()), "editors");
    assert_eq!(
        names(found.activities.keys().collect()),
        names(found.activity.keys().collect()),
        "activity and its index"
    );
    for (page, rank) in &found.rank {
        assert!(!found.activity.contains_key(page), "{page} is hot and is not");
        let (window, meta) = (&found.windows[page], &found.metas[page]);
        let packed: Vec<f64> =
            meta["w"].chunks_exact(8).map(|it| f64::from_le_bytes(it.try_into().unwrap())).collect();
        let [count, oldest, ..] = packed[..] else { panic!("{page}: {packed:?}") };
        let ms = |score: f64| score;
        assert_eq!(window.len() as f64, count, "{page}");
        assert_eq!(ms(window[0].1), oldest, "{page}");
        let ring = meta.get("ring").map(|ring| ringed(ring));
        let (edits, first_end) = ring.unwrap_or((count, f64::MAX));
        assert!(edits >= count, "{page}");
        assert_eq!(found.due[page], oldest.min(first_end) + due_base_ms as f64, "{page}");
        let last: u64 = String::from_utf8_lossy(&meta["last_edit"]).parse().unwrap();
        assert_eq!(ms(window[window.len() - 1].1), last as f64, "{page}");
        assert_eq!(*rank, edits * 2_f64.powi(41) + last as f64, "{page}");
        let total: u64 = String::from_utf8_lossy(&meta["edit_count"]).parse().unwrap();
        assert!(total >= window.len() as u64, "{page}");
        assert_eq!(found.editors[page].len(), window.len(), "{page}: each edit has its editor");
    }
    found.rank.len() as u64
}

/// Edits of a ring, and when its first slot ends.
fn ringed(ring: &[u8]) -> (f64, f64) {
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |sum, it| sum << 8 | u64::from(*it));
    let (grain, lately, sum) = (1_u64 << ring[0], usize::from(ring[1]), number(&ring[2..8]));
    let newest = number(&ring[14..20]) / grain;
    let slots: Vec<_> = ring[20 + 6 * lately..].chunks_exact(6).map(|it| (it[0], number(&it[1..]))).collect();
    assert!(slots.iter().all(|(_, count)| *count > 0));
    assert_eq!(slots.iter().map(|(_, count)| count).sum::<u64>(), sum);
    let first = newest - u64::from((newest as u8).wrapping_sub(slots[0].0));
    (sum as f64, ((first + 1) * grain - 1) as f64)
}
