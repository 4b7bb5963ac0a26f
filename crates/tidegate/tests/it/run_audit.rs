//! Looks at all that runs have written below a prefix, and fails if it does not fit together.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use redis::Commands as _;

/// What belongs to a run and only to one that was not deleted.
const PARTS: [&str; 6] = ["fields", "processed", "failures", "failed_at", "to_retry", "tasks"];

/// Every run is listed once, by its state and by its end; nothing is left of what is gone; every key
/// has an end. How many runs there are, deleted ones among them.
pub(crate) fn audit(connections: Vec<redis::Connection>, namespace: &str) -> usize {
    connections.into_iter().map(|mut it| audit_server(&mut it, namespace)).sum()
}

fn audit_server(connection: &mut redis::Connection, namespace: &str) -> usize {
    let keys: Vec<String> = connection.keys(format!("{namespace}*courtlistener:*")).unwrap();
    let mut roots: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for key in keys {
        let ttl: i64 = connection.pttl(&key).unwrap();
        assert!(ttl > 0, "{key} has no end");
        let (root, rest) = key.split_once("courtlistener:").unwrap();
        roots.entry(root.to_owned()).or_default().push(rest.to_owned());
    }
    roots.iter().map(|(root, keys)| audit_root(connection, &format!("{root}courtlistener:"), keys)).sum()
}

fn audit_root(connection: &mut redis::Connection, root: &str, keys: &[String]) -> usize {
    let set = |connection: &mut redis::Connection, name: &str| -> BTreeMap<String, u64> {
        let members: Vec<(String, f64)> =
            connection.zrange_withscores(format!("{root}{name}"), 0, -1).unwrap();
        members.into_iter().map(|(member, score)| (member, score as u64)).collect()
    };
    let mut due = set(connection, "runs_due");
    let states = ["running", "processing", "paused", "succeeded", "failed", "cancelled"];
    let mut listed: BTreeMap<&str, _> =
        states.into_iter().map(|state| (state, set(connection, &format!("runs:{state}")))).collect();
    let mut live = BTreeSet::new();
    let mut count = 0;
    for id in keys.iter().filter_map(|key| key.strip_prefix("pipeline:")) {
        let run: HashMap<String, String> = connection.hgetall(format!("{root}pipeline:{id}")).unwrap();
        let number = |field: &str| run[field].parse::<u64>().unwrap();
        assert_eq!(run["dag_run_id"], id);
        let due_ms = due.remove(id).unwrap_or_else(|| panic!("{id} has no end in the index"));
        assert!(due_ms <= number("ends_ms"), "{id} would be looked for too late");
        if run["status"] != "deleted" {
            let started_ms = listed.get_mut(run["status"].as_str()).unwrap().remove(id);
            assert_eq!(started_ms, Some(number("started_ms")), "{id}");
            live.insert(id.to_owned());
        }
        count += 1;
    }
    assert!(due.is_empty(), "runs by end that are none: {due:?}");
    assert!(
        listed.values().all(BTreeMap::is_empty),
        "runs by state that are none, or in another: {listed:?}"
    );
    for key in keys {
        let Some((family, id)) = key.split_once(':') else { continue };
        assert!(!PARTS.contains(&family) || live.contains(id), "{key} is left of a run that is gone");
    }
    let mut tasks = 0;
    for id in &live {
        let failed = |connection: &mut redis::Connection, name: &str| -> BTreeMap<String, u64> {
            set(connection, &format!("{name}:{id}"))
        };
        let failures: HashMap<String, String> = connection.hgetall(format!("{root}failures:{id}")).unwrap();
        let (failed_at, to_retry) = (failed(connection, "failed_at"), failed(connection, "to_retry"));
        assert_eq!(failures.len(), failed_at.len(), "{id}");
        for (item, at_ms) in &failed_at {
            let last = failures[item].split(' ').nth(2).unwrap();
            assert_eq!(last.parse(), Ok(*at_ms), "{id} {item}");
        }
        assert!(to_retry.iter().all(|(item, at_ms)| failed_at.get(item) == Some(at_ms)), "{id}");
        let names: Vec<String> = connection.hkeys(format!("{root}tasks:{id}")).unwrap();
        tasks += names.len();
    }
    assert_eq!(keys.iter().filter(|key| key.starts_with("task_start:")).count(), tasks);
    count
}
