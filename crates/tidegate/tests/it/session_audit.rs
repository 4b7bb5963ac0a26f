//! Goes through everything that sessions have written, and checks that it is whole.

use std::collections::{BTreeMap, BTreeSet};

/// A session as it is written.
#[derive(Debug)]
struct Written {
    broadcaster: String,
    last_disconnect: f64,
    generation: f64,
    deadline: f64,
    left: f64,
    claimed: f64,
    /// The ends of all leases.
    leases: Vec<f64>,
    ttl_ms: i64,
}

/// All of one space, ids and broadcasters with the tag of their slot in front.
#[derive(Debug, Default)]
struct Found {
    sessions: BTreeMap<String, Written>,
    broadcasters: BTreeMap<String, String>,
    /// By name of the set: score of each entry, and for how long it lives.
    sets: BTreeMap<String, BTreeMap<String, f64>>,
    set_ttls: BTreeMap<String, i64>,
}

const SETS: [&str; 4] = ["active_sessions", "disconnected_sessions", "claimed_sessions", "dead_sessions"];

fn session(key: &str, connection: &mut redis::Connection, ttl_ms: i64) -> Written {
    let fields: BTreeMap<String, Vec<u8>> = redis::cmd("HGETALL").arg(key).query(connection).unwrap();
    let text = |name: &str| String::from_utf8(fields[name].clone()).unwrap();
    let packed = &fields["s"];
    // Behind it, what an older program's hand was when it was last looked at.
    assert!(packed.len() == 29 || packed[29].is_ascii_digit(), "{key}: {packed:?}");
    let number = |from: usize, size: usize| {
        let number = packed[from..from + size].iter().rev().fold(0, |n, byte| n << 8 | u64::from(*byte));
        number as f64
    };
    let (moment, is_left) = (number(10, 6), number(28, 1) == 1.0);
    let (deadline, left) = if is_left { (0.0, moment) } else { (moment, 0.0) };
    let claimed = if number(18, 6) == 2_f64.powi(48) - 1.0 { -1.0 } else { number(18, 6) };
    let is_lease = |name: &str| name == "m" || name.starts_with("h:");
    let leases = fields.iter().filter(|(name, _)| is_lease(name));
    Written {
        broadcaster: text("broadcaster_user_id"),
        last_disconnect: text("last_disconnect").parse().unwrap(),
        generation: number(0, 4),
        deadline,
        left,
        claimed,
        leases: leases.map(|(_, ends)| String::from_utf8_lossy(ends).parse().unwrap()).collect(),
        ttl_ms,
    }
}

fn read(connection: &mut redis::Connection, prefix: &str, found: &mut Found) {
    let keys: Vec<String> = redis::cmd("KEYS").arg(format!("{prefix}*")).query(connection).unwrap();
    for key in &keys {
        let ttl_ms: i64 = redis::cmd("PTTL").arg(key).query(connection).unwrap();
        assert_ne!(ttl_ms, -1, "{key} has no end");
        let rest = &key[prefix.len()..];
        let (tag, rest) = match rest.starts_with('{') {
            true => rest.split_once(':').unwrap(),
            false => ("", rest),
        };
        if let Some(id) = rest.strip_prefix("session:") {
            found.sessions.insert(format!("{tag} {id}"), session(key, connection, ttl_ms));
        } else if let Some(name) = rest.strip_prefix("broadcaster:") {
            let id: String = redis::cmd("GET").arg(key).query(connection).unwrap();
            found.broadcasters.insert(format!("{tag} {name}"), format!("{tag} {id}"));
        } else if SETS.contains(&rest) {
            let all: Vec<(String, f64)> =
                redis::cmd("ZRANGE").arg(key).arg(0).arg(-1).arg("WITHSCORES").query(connection).unwrap();
            let set = found.sets.entry(rest.to_owned()).or_default();
            set.extend(all.into_iter().map(|(id, score)| (format!("{tag} {id}"), score)));
            found.set_ttls.insert(format!("{tag} {rest}"), ttl_ms);
        } else {
            // What an older program counted ends by itself.
            let is_counter = rest.starts_with("ref_count:");
            let known = is_counter || rest == "sessions:state" || rest.starts_with("tidegate:marker");
            assert!(known, "whose key is {key}?");
        }
    }
}

/// The sessions of a space whose keys start with `prefix`: every key has an end, every
/// session is in the one set that its fields say and nowhere else, with the right time,
/// every entry has its session, a set outlives what it lists, leases are those that the
/// deadline is of, and a broadcaster has a session of its own. How many there are.
pub(crate) fn audit(connections: Vec<redis::Connection>, prefix: &str) -> usize {
    let mut found = Found::default();
    for mut connection in connections {
        read(&mut connection, prefix, &mut found);
    }
    let mut listed = BTreeSet::new();
    for (name, set) in &found.sets {
        for id in set.keys() {
            assert!(found.sessions.contains_key(id), "{id} in {name} has no session");
            assert!(listed.insert(id.clone()), "{id} is listed twice, also in {name}");
        }
    }
    for (id, it) in &found.sessions {
        let (set, score) = match (it.left, it.claimed) {
            (0.0, 0.0) => ("active_sessions", Some(it.deadline)),
            (left, 0.0) => ("disconnected_sessions", Some(left / 1000.0)),
            (_, -1.0) => ("dead_sessions", None),
            (_, until) => ("claimed_sessions", Some(until)),
        };
        let there = found.sets.get(set).and_then(|set| set.get(id));
        let there = there.unwrap_or_else(|| panic!("{id} is not in {set}: {it:?}"));
        assert!(score.is_none_or(|score| score == *there), "{id} in {set} at {there}: {it:?}");
        let last = it.leases.iter().copied().fold(0.0, f64::max);
        assert_eq!(it.deadline, last, "{id}: {it:?}");
        assert_eq!(it.leases.is_empty(), it.left > 0.0, "{id}: {it:?}");
        let seconds = if it.left > 0.0 { (it.left / 1000.0).floor().max(1.0) } else { 0.0 };
        assert_eq!(it.last_disconnect, seconds, "{id}: {it:?}");
        assert!(it.generation >= 1.0, "{id}: {it:?}");
        let tag = id.split(' ').next().unwrap();
        let set_ttl = found.set_ttls[&format!("{tag} {set}")];
        assert!(set_ttl >= it.ttl_ms, "{id} lives for {} ms, {set} for {set_ttl}", it.ttl_ms);
    }
    for (broadcaster, id) in &found.broadcasters {
        let it = found.sessions.get(id).unwrap_or_else(|| panic!("{broadcaster} has {id}, which is none"));
        let tag = id.split(' ').next().unwrap();
        assert_eq!(format!("{tag} {}", it.broadcaster), *broadcaster, "{id}");
    }
    found.sessions.len()
}
