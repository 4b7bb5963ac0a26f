//! Servers: their version, and settings of theirs that endanger what is kept on them.

use std::collections::HashMap;

use redis::Value;

use super::report::{DefectKind, Report, ServerState};
use crate::error::Result;
use crate::store::redis::{Direct, Node};

/// Memory is nearly full from so many hundredths of what is allowed on.
const NEARLY_FULL_PERCENT: u64 = 80;

/// The oldest version that has all we need.
const OLDEST: [u32; 2] = [6, 2];

/// Looks at a master and its replicas.
pub(super) async fn look_at(direct: &Direct, node: &Node, report: &mut Report) -> Result<()> {
    let address = node.address();
    let info = info(&text_of(direct.send(node, &redis::cmd("INFO")).await));
    let keys = direct.send(node, &redis::cmd("DBSIZE")).await?;
    let mut server = ServerState {
        keys: if let Value::Int(keys) = keys { keys as u64 } else { 0 },
        appendfsync: config(direct, node, "appendfsync").await,
        ..told(&address, &info)
    };
    if info.is_empty() {
        report.notes.push(format!("{address} does not answer INFO: its version and memory are not known"));
    }
    if server.appendfsync.is_none() {
        report.notes.push(format!("{address} does not answer CONFIG GET: some settings are not known"));
    }
    judge(&server, report);
    // It counts from when this one is a replica, too.
    if config(direct, node, "replica-read-only").await.is_some_and(|it| it == "no") {
        let detail = "replica-read-only is no: as a replica it accepts writes, which are lost: set it to yes";
        report.found(DefectKind::WritableReplica, &address, detail);
    }
    for (host, port) in replicas(&info) {
        let replica = direct.node(&host, port);
        server.replicas.push(replica.address());
        match direct.send(&replica, &redis::cmd("PING")).await {
            Err(_) => {
                report.notes.push(format!("the replica {} cannot be reached from here", replica.address()))
            }
            Ok(_) if config(direct, &replica, "replica-read-only").await.is_some_and(|it| it == "no") => {
                let detail = format!(
                    "it is a replica of {address} and accepts writes, which are lost: set replica-read-only to yes"
                );
                report.found(DefectKind::WritableReplica, replica.address(), detail);
            }
            Ok(_) => {}
        }
    }
    report.servers.push(server);
    Ok(())
}

/// What a server says of itself. Valkey also says which Redis it is like.
fn told(address: &str, info: &HashMap<String, String>) -> ServerState {
    let text = |name: &str| info.get(name).cloned();
    let number = |name: &str| info.get(name).and_then(|it| it.parse::<u64>().ok());
    let redis = || text("redis_version").map(|_| "redis".to_owned());
    ServerState {
        address: address.to_owned(),
        program: text("server_name").or_else(redis).unwrap_or_default(),
        version: text("valkey_version").or_else(|| text("redis_version")).unwrap_or_default(),
        role: text("role").unwrap_or_default(),
        used_memory: number("used_memory"),
        max_memory: number("maxmemory"),
        eviction: text("maxmemory_policy"),
        append_only: info.get("aof_enabled").map(|it| it == "1"),
        ..ServerState::default()
    }
}

fn judge(server: &ServerState, report: &mut Report) {
    let address = &server.address;
    if let Some(policy) = server.eviction.as_ref().filter(|it| *it != "noeviction") {
        let detail =
            format!("maxmemory-policy is {policy}: keys would be evicted that count: set it to noeviction");
        report.found(DefectKind::Eviction, address, detail);
    }
    if let (Some(used), Some(max @ 1..)) = (server.used_memory, server.max_memory)
        && used.saturating_mul(100) >= max.saturating_mul(NEARLY_FULL_PERCENT)
    {
        let detail = format!("{used} of {max} bytes are in use: from there on writes are refused");
        report.found(DefectKind::MemoryNearBound, address, detail);
    }
    if server.appendfsync.as_deref() == Some("no") {
        let detail = "appendfsync is no: a crash of its machine loses writes of half a minute or more: \
                      set it to everysec or always";
        report.found(DefectKind::Appendfsync, address, detail);
    }
    if server.append_only == Some(false) {
        report.notes.push(format!(
            "{address} has no append-only file: a restart loses what was written since the last snapshot"
        ));
    }
    if server.role == "slave" {
        report.found(DefectKind::IsReplica, address, "it is a replica: use its master");
    }
    if is_old(&server.version) {
        let detail = format!("version {}: {}.{} or later is needed", server.version, OLDEST[0], OLDEST[1]);
        report.found(DefectKind::OldServer, address, detail);
    }
}

fn is_old(version: &str) -> bool {
    let mut numbers = version.split('.').map(|it| it.parse::<u32>().ok());
    let (Some(Some(major)), Some(Some(minor))) = (numbers.next(), numbers.next()) else { return false };
    [major, minor] < OLDEST
}

/// What INFO answers, by name.
fn info(text: &str) -> HashMap<String, String> {
    let pair = |line: &str| line.split_once(':').map(|(name, value)| (name.to_owned(), value.to_owned()));
    text.lines().filter_map(|line| pair(line.trim_end())).collect()
}

/// Replicas that are connected, as their master knows them.
fn replicas(info: &HashMap<String, String>) -> Vec<(String, u16)> {
    let mut all: Vec<_> = (0..)
        .map_while(|number| info.get(&format!("slave{number}")))
        .filter_map(|line| {
            let field = |name: &str| line.split(',').find_map(|it| it.strip_prefix(name)?.strip_prefix('='));
            Some((field("ip")?.to_owned(), field("port")?.parse().ok()?))
        })
        .collect();
    all.sort();
    all
}

/// A setting, if the server says it.
async fn config(direct: &Direct, node: &Node, name: &str) -> Option<String> {
    let answer = direct.send(node, redis::cmd("CONFIG").arg("GET").arg(name)).await.ok()?;
    let pairs: Vec<String> = redis::from_redis_value(answer).ok()?;
    pairs.into_iter().nth(1)
}

/// What is refused tells nothing.
fn text_of(answer: Result<Value>) -> String {
    answer.ok().and_then(|it| redis::from_redis_value(it).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_called_what_it_is() {
        for (text, program, version) in [
            ("redis_version:7.0.15\r\nredis_mode:standalone\r\n", "redis", "7.0.15"),
            ("redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:9.1.2\r\n", "valkey", "9.1.2"),
            ("", "", ""),
        ] {
            let server = told("here", &info(text));
            assert_eq!((&*server.program, &*server.version), (program, version));
        }
    }

    #[test]
    fn what_servers_tell_is_read_whatever_they_leave_out() {
        let text = "# Server\r\nredis_version:7.0.15\r\nslave0:ip=::1,port=7001,state=online,lag=0\r\n\
                    slave1:ip=10.0.0.2,port=7002\r\n";
        let read = info(text);
        assert_eq!(read["redis_version"], "7.0.15");
        assert_eq!(replicas(&read), [("10.0.0.2".to_owned(), 7002), ("::1".to_owned(), 7001)]);
        assert_eq!(replicas(&info("")), []);
        for (version, old) in
            [("6.0.16", true), ("6.2.0", false), ("7.0.15", false), ("", false), ("5", false)]
        {
            assert_eq!(is_old(version), old, "{version}");
            let mut report = Report::default();
            judge(&ServerState { version: version.to_owned(), ..ServerState::default() }, &mut report);
            let kinds: Vec<_> = report.defects.iter().map(|it| it.kind).collect();
            assert_eq!(kinds.contains(&DefectKind::OldServer), old, "{version}");
        }
    }
}
