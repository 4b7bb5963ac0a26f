//! `tidegate hot`: what it prints and how it exits.

use std::time::Duration;

use serde_json::{Value, json};
use tidegate::testkit::{Fault, FaultProxy, RedisServer};

use crate::cli::{Server, run, tidegate};

fn json_of(out: &str) -> Value {
    serde_json::from_str(out).expect(out)
}

#[test]
fn edits_and_pages_are_printed_for_people_and_for_machines() {
    let server = Server::start(&["--set", "hot.main.max_tracked=1"]);
    let record = |page: &str, id: &str| server.hot(&["record", page, "--id", id, "--editor", "alice"]);
    assert_eq!(record("en:Tide/gate", "1"), (0, "remembered: the page is not hot yet\n".into(), "".into()));
    let (code, out, _) =
        server.hot(&["record", "en:Tide/gate", "--id", "2", "--byte-change", "-12", "--json"]);
    assert_eq!((code, &json_of(&out)["outcome"]), (0, &json!("promoted")));
    assert_eq!(record("en:Tide/gate", "2").1, "duplicate: it has been recorded before\n");
    assert_eq!(record("en:Tide/gate", "3").1, "added to the window of a hot page\n");
    record("b", "1");
    let (code, out, _) = record("b", "2");
    assert_eq!((code, out.as_str()), (1, "rejected: it would be hot, and as many are tracked as may be\n"));
    let (code, out, _) = server.hot(&["record", "b", "--id", "3", "--at", "2015-09-12T00:46:58.771Z"]);
    assert_eq!((code, out.as_str()), (1, "too late: it is older than all that counts\n"));

    let (code, out, _) = server.hot(&["stats", "en:Tide/gate"]);
    let lines: Vec<_> = out.lines().collect();
    assert_eq!((code, lines[0]), (0, "en:Tide/gate: hot"));
    assert!(lines[1].starts_with("3 edits in the last ") && lines[1].ends_with("by 1 editor"), "{out}");
    assert!(lines[2].starts_with("3 edits since 20") && lines[2].ends_with("with +0 bytes"), "{out}");
    assert_eq!(server.hot(&["stats", "cold"]), (1, "cold: not hot\n".into(), "".into()));
    let (code, out, _) = server.hot(&["stats", "cold", "--json"]);
    assert_eq!((code, &json_of(&out)["is_hot"]), (1, &json!(false)));

    let (code, out, _) = server.hot(&["list"]);
    let lines: Vec<_> = out.lines().collect();
    assert_eq!((code, lines[0]), (0, "1 page hot in the last 1h"));
    assert!(lines[2].starts_with("    3  20") && lines[2].ends_with("Z  en:Tide/gate"), "{out}");
    assert_eq!(json_of(&server.hot(&["list", "--limit", "0", "--json"]).1)["pages"], json!([]));

    let (code, out, _) = server.hot(&["window", "en:Tide/gate"]);
    let lines: Vec<_> = out.lines().collect();
    assert_eq!((code, lines.len()), (0, 3));
    assert!(lines[1].ends_with("Z  -12  2  "), "{out}");
    assert_eq!(server.hot(&["window", "en:Tide/gate", "--to", "5"]).1, "no edits\n");
    let out = server.hot(&["window", "en:Tide/gate", "--from", "2015-09-12T00:00:00+02:00", "--json"]).1;
    assert_eq!(json_of(&out)["edits"][1]["byte_change"], -12);

    assert_eq!(server.hot(&["cleanup"]), (0, "0 pages dropped\n".into(), "".into()));
    assert_eq!(
        server.hot(&["spaces"]).1,
        "main: up to 1 pages of up to 100 edits in 1h, hot from 2, trending from 5, when full reject\n"
    );
    let (code, out, _) = server.hot(&["watch", "--after", "0-0", "--count", "1"]);
    assert_eq!(code, 0);
    assert!(out.ends_with("Z  promoted            2  en:Tide/gate\n"), "{out}");
    let (_, out, _) = server.hot(&["watch", "--after", "0-0", "--count", "1", "--json"]);
    assert_eq!(json_of(&out)["kind"], "promoted");
}

/// With `--after` a list goes on behind the one before, and a watch behind an event.
#[test]
fn lists_and_watches_go_on_where_one_was() {
    let server = Server::start(&["--set", "hot.main.hot_threshold=1"]);
    for (page, edits) in [("en:A b", 3), ("c/d", 2), ("e", 1)] {
        for id in 0..edits {
            assert_eq!(server.hot(&["record", page, "--id", &format!("{page}{id}")]).0, 0);
        }
    }
    let (mut listed, mut after): (Vec<String>, Option<String>) = (Vec::new(), None);
    loop {
        let mut args = vec!["list", "--limit", "1", "--json"];
        args.extend(after.iter().flat_map(|after| ["--after", after]));
        let (code, out, err) = server.hot(&args);
        assert_eq!(code, 0, "{err}");
        let list = json_of(&out);
        listed.extend(
            list["pages"].as_array().unwrap().iter().map(|it| it["page"].as_str().unwrap().to_owned()),
        );
        match list["next"].as_str() {
            Some(next) => after = Some(next.to_owned()),
            None => break,
        }
    }
    assert_eq!(listed, ["en:A b", "c/d", "e"]);
    let (code, out, err) = server.hot(&["list", "--after", "nowhere"]);
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(err.contains("\"nowhere\" is not a place in a list"), "{err}");

    let first = json_of(&server.hot(&["watch", "--after", "0-0", "--count", "1", "--json"]).1);
    let second = json_of(
        &server.hot(&["watch", "--after", first["cursor"].as_str().unwrap(), "--count", "1", "--json"]).1,
    );
    assert_eq!((&first["page"], &second["page"]), (&json!("en:A b"), &json!("c/d")));
}

#[test]
fn what_is_wrong_is_an_error() {
    let server = Server::start(&[]);
    for (args, message) in [
        (vec!["list", "--space", "nope"], "there is no space \"nope\"; known are: main (404 Not Found)"),
        (vec!["stats", ""], "a page must not be empty"),
        (vec!["record", "a", "--id", ""], "an edit's id has 0 bytes: 1 to 255 are allowed"),
        (vec!["record", "a", "--id", "1", "--at", "soon"], "\"soon\" is not a moment"),
        (vec!["window", "a", "--from", "5", "--to", "4"], "`from` is 1 ms after `to`"),
        (vec!["list", "--limit", "1001"], "whole numbers from 0 to 1000 are"),
        (vec!["watch", "--after", "x"], "is not a position among these events"),
        (vec!["record", "a"], "--id <ID>"),
        (vec!["top", "--limit", "101"], "whole numbers from 0 to 100 are"),
    ] {
        let (code, out, err) = server.hot(&args);
        assert_eq!((code, out.as_str()), (2, ""), "{args:?}");
        assert!(err.contains(message), "{args:?}: {err}");
    }
    let away = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let store = format!("redis://{}", away.local_addr().unwrap());
    let (code, _, err) =
        run(tidegate(&["hot", "list", "--store", &store, "--set", "store.connect_timeout=50ms"]));
    assert_eq!(code, 2, "{err}");
}

#[test]
fn a_store_can_be_used_directly() {
    let redis = RedisServer::start();
    let on_redis = |args: &[&str]| {
        let mut command = tidegate(&["hot"]);
        command.args(args).args(["--store", &redis.url(), "--set", "store.deadline=10s"]);
        command.args(["--set", "hot.main.hot_threshold=2"]);
        run(command)
    };
    for id in ["1", "2"] {
        assert_eq!(on_redis(&["record", "a", "--id", id, "--editor", "alice"]).0, 0);
    }
    assert_eq!(on_redis(&["stats", "a"]).0, 0);
    let (_, out, _) = on_redis(&["list", "--json"]);
    assert_eq!(json_of(&out)["pages"][0]["edits"], 2);
    let (code, out, _) = on_redis(&["watch", "--after", "0-0", "--count", "1", "--json"]);
    assert_eq!((code, &json_of(&out)["page"]), (0, &json!("a")));
    assert_eq!(redis.keys_without_ttl(), Vec::<String>::new());
}

#[test]
fn top_is_shown_once_to_who_is_no_terminal() {
    let server = Server::start(&[]);
    for id in 0..6 {
        server.hot(&["record", "en:\u{1b}[2Jgate", "--id", &id.to_string(), "--editor", "alice"]);
    }
    let (code, out, _) = server.hot(&["top"]);
    let lines: Vec<_> = out.lines().collect();
    assert_eq!((code, lines[0]), (0, "main: 1 hot, edits of the last 1h"));
    assert_eq!(lines[2], "edits  5 min  editors  latest           page");
    assert!(lines[3].starts_with("    6      6        1  "), "{out}");
    assert!(lines[3].ends_with(" ago           trending en:\\u{1b}[2Jgate"), "{out}");
    let (_, out, _) = server.hot(&["top", "--once", "--json"]);
    assert_eq!(json_of(&out)["pages"][0]["stats"]["is_trending"], true);
}

/// In a terminal of its own: drawn, quit by `q`, and everything is as it was.
#[test]
fn top_is_a_live_table_in_a_terminal() {
    let server = Server::start(&[]);
    for id in 0..3 {
        server.hot(&["record", "en:Tide gate", "--id", &id.to_string()]);
    }
    let program = format!(
        "{} hot top --server http://{} --interval 100ms",
        env!("CARGO_BIN_EXE_tidegate"),
        server.address()
    );
    let mut command = std::process::Command::new("sh");
    // `script` gives it a terminal; what it types comes when the table is there.
    let typed = format!(
        "{{ n=0; until grep -q 'Tide gate' \"$0\" 2>/dev/null || [ $n = 5000 ]; do n=$((n + 1)); done; printf q; }} | \
         script -qec '{program}' \"$0\" >/dev/null; cat \"$0\""
    );
    let folder = tempfile::tempdir().unwrap();
    command.arg("-c").arg(typed).arg(folder.path().join("seen"));
    let (code, out, err) = run(command);
    assert_eq!(code, 0, "{out} {err}");
    assert!(out.contains("main: 1 of 1000 hot, edits of the last 1h   q quits"), "{out}");
    assert!(out.contains("\u{1b}[?1049h") && out.contains("\u{1b}[?1049l"), "{out}");
}

#[test]
fn a_page_is_removed_and_names_are_escaped() {
    let server = Server::start(&[]);
    let odd = "a\u{1b}[2J\nb\u{202e}c";
    for id in ["1", "2"] {
        assert_eq!(server.hot(&["record", odd, "--id", id]).0, 0);
    }
    assert_eq!(server.hot(&["record", "once", "--id", "1"]).0, 0);
    let shown = "a\\u{1b}[2J\\nb\\u{202e}c";
    let (_, out, _) = server.hot(&["list"]);
    assert!(out.ends_with(&format!("Z  {shown}\n")), "{out}");
    let (_, out, _) = server.hot(&["stats", odd]);
    assert!(out.starts_with(&format!("{shown}: hot\n")) && out.contains("by 0 editors"), "{out}");
    let (_, out, _) = server.hot(&["watch", "--after", "0-0", "--count", "1"]);
    assert!(out.ends_with(&format!("  {shown}\n")), "{out}");
    let (code, out, _) = server.hot(&["rm", odd]);
    assert_eq!((code, out), (0, format!("{shown}: forgotten; it was hot\n")));
    assert_eq!(server.hot(&["rm", odd]), (1, format!("{shown}: nothing was known of it\n"), String::new()));
    assert_eq!(server.hot(&["rm", "once"]).1, "once: forgotten; it was not hot\n");
    assert_eq!(json_of(&server.hot(&["list", "--json"]).1)["count"], 0);
    let (_, out, _) = server.hot(&["watch", "--after", "0-0", "--count", "2", "--json"]);
    assert_eq!(json_of(out.lines().last().unwrap())["kind"], "removed");
    let (code, out, _) = server.hot(&["record", "p", "--id", "1", "--at", "1794753112"]);
    assert_eq!(code, 1);
    assert!(out.contains("\nhint: `at`: 1794753112 looks like 2026-11-15T"), "{out}");
}

#[test]
fn a_full_space_says_so_once_a_minute() {
    let server = Server::start(&["--set", "hot.main.max_tracked=1"]);
    for page in ["a", "b", "c", "d"] {
        for id in ["1", "2", "3"] {
            server.hot(&["record", page, "--id", id]);
        }
    }
    let (_, log) = server.signal("TERM");
    let said: Vec<_> = log.lines().filter(|line| line.contains("as many pages are hot as may be")).collect();
    assert_eq!(said.len(), 1, "{log}");
    for what in ["WARN", "space=\"main\"", "refused=1", "max_tracked=1"] {
        assert!(said[0].contains(what), "{what}: {log}");
    }
}

/// There is no server, and no log of one.
#[test]
fn on_a_store_the_reason_itself_is_printed() {
    let redis = RedisServer::start();
    let mut connection = redis.connection();
    redis::cmd("SET").arg("hot:meta:p").arg("x").arg("EX").arg(60).exec(&mut connection).unwrap();
    let mut command = tidegate(&["hot", "record", "p", "--id", "1", "--store"]);
    command.arg(redis.url()).args(["--set", "hot.main.hot_threshold=2"]);
    let (code, _, err) = run(command);
    assert_eq!(code, 2);
    assert!(err.contains("WRONGTYPE") && !err.contains("server's log"), "{err}");
}

/// A server gives up early, since others wait for its answer. Nobody waits for a command but who has typed it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_waits_for_a_store_that_is_slow() {
    let redis = RedisServer::start();
    let proxy = FaultProxy::start(redis.port()).await;
    // There and back it is twice as long, and a server's deadline is 100 ms.
    proxy.set(Fault::Delay(Duration::from_millis(150)));
    for (args, setting) in [
        (&["hot", "record", "p", "--id", "1"][..], "hot.main.hot_threshold=2"),
        (&["hot", "list"], "hot.main.hot_threshold=2"),
        (&["limit", "take", "api", "k", "--set", "limits.api.outage=closed"], "limits.api.rate=5/s"),
        (&["sessions", "counts"], "sessions.main.grace=1h"),
        (&["run", "start", "r"], "runs.main.prefix=slow"),
    ] {
        let mut command = tidegate(args);
        command.args(["--store", &proxy.url(), "--set", setting]);
        let (code, out, err) = tokio::task::spawn_blocking(|| run(command)).await.unwrap();
        assert_eq!(code, 0, "{args:?}: {out}{err}");
    }
}
