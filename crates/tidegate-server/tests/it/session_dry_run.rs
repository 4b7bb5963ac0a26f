//! `tidegate sessions cleanup --dry-run`: writes nothing, and foretells what a cleanup does.

use serde_json::{Value, json};
use tidegate::testkit::RedisServer;

use crate::cli::{run, tidegate};
use crate::session_reconcile::all_of_it;

/// A dry run that leaves a stamp would say that somebody looks after the space.
#[test]
fn a_dry_cleanup_writes_nothing_at_all() {
    let redis = RedisServer::start();
    let dry = |more: &[&str]| {
        let mut command_line =
            tidegate(&["sessions", "cleanup", "--dry-run", "--json", "--store", &redis.url()]);
        command_line.args(more);
        run(command_line)
    };
    // Not even a marker on a store that has none.
    let (code, out, err) = dry(&["--set", "sessions.sessions.grace=0s"]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    assert!(all_of_it(&redis).is_empty(), "{:?}", all_of_it(&redis).keys());

    let settings = [
        "--set",
        "sessions.sessions.grace=0s",
        "--set",
        "sessions.sessions.cleanup_interval=1d",
        "--set",
        "hot.pages.hot_threshold=2",
        "--set",
        "limits.api.rate=5/s",
    ];
    let store = redis.url();
    let server = crate::cli::Server::start(&[&["--store", &store][..], &settings].concat());
    let made =
        server.request("POST", "/v1/sessions/sessions", r#"{"broadcaster":"b","config":{},"holder":"h"}"#);
    let (_, made) = made.split_once("\r\n\r\n").unwrap();
    let id = serde_json::from_str::<Value>(made).unwrap()["id"].as_str().unwrap().to_owned();
    let left = server.request("DELETE", &format!("/v1/sessions/sessions/{id}/holders/h"), "");
    assert!(left.starts_with("HTTP/1.1 200"), "{left}");
    server.request("POST", "/v1/sessions/sessions", r#"{"broadcaster":"c","config":{}}"#);
    assert_eq!(server.signal("TERM").0, Some(0));
    let before = all_of_it(&redis);
    assert!(before.len() >= 6, "{:?}", before.keys());
    for more in [&[][..], &settings] {
        let (code, out, err) = dry(more);
        assert_eq!((code, err.as_str()), (0, ""), "{out}");
        assert_eq!(serde_json::from_str::<Value>(&out).unwrap()["deleted"], 1, "{out}");
        let after = all_of_it(&redis);
        for (key, value) in &after {
            assert!(before.get(key) == Some(value), "{key} has changed");
        }
        assert_eq!(after.len(), before.len());
    }
}

/// What is in the index and no session is not foretold to be deleted, nor what an older program
/// has set active.
#[test]
fn a_dry_cleanup_foretells_what_a_cleanup_reports() {
    let redis = RedisServer::start();
    let settings = "sessions.sessions.grace=0s";
    let server = crate::cli::Server::start(&[
        "--store",
        &redis.url(),
        "--set",
        settings,
        "--set",
        "sessions.sessions.cleanup_interval=1d",
    ]);
    let mut connection = redis.connection();
    for number in 0..10 {
        let body = format!(r#"{{"broadcaster":"b{number}","config":{{}},"holder":"h"}}"#);
        let made = server.request("POST", "/v1/sessions/sessions", &body);
        let (_, made) = made.split_once("\r\n\r\n").unwrap();
        let id = serde_json::from_str::<Value>(made).unwrap()["id"].as_str().unwrap().to_owned();
        server.request("DELETE", &format!("/v1/sessions/sessions/{id}/holders/h"), "");
        if number % 2 == 0 {
            let key = format!("session:{id}");
            redis::cmd("HSET").arg(key).arg("last_disconnect").arg(0).exec(&mut connection).unwrap();
        }
    }
    let mut pipe = redis::pipe();
    for number in 0..1500 {
        pipe.zadd("disconnected_sessions", format!("junk{number}"), 1.0 + f64::from(number) / 1000.0)
            .ignore();
    }
    pipe.exec(&mut connection).unwrap();
    let counts = server.request("GET", "/v1/sessions/sessions/counts", "");
    let (_, counts) = counts.split_once("\r\n\r\n").unwrap();
    let lag_ms = serde_json::from_str::<Value>(counts).unwrap()["lag_ms"].as_u64().unwrap();
    assert!(lag_ms < 600_000, "nobody has been due for {lag_ms} ms");
    let cleanup = |more: &[&str]| {
        let mut command_line = tidegate(&["sessions", "cleanup", "--store", &redis.url()]);
        command_line.args(more);
        let (code, out, err) = run(command_line);
        assert_eq!(code, 0, "{out}{err}");
        out
    };
    let dry = cleanup(&["--dry-run"]);
    let of = |out: &str| -> Value {
        let mut value: Value = serde_json::from_str(out).unwrap();
        // Time passes.
        value.as_object_mut().unwrap().retain(|name, _| name != "lag_ms" && name != "dry_run");
        value
    };
    let foretold = of(&cleanup(&["--dry-run", "--json"]));
    assert_eq!(dry, "dry run: 5 sessions would be deleted, 1500 dropped from the index\n");
    assert_eq!(of(&cleanup(&["--json"])), foretold);
    assert_eq!((&foretold["deleted"], &foretold["invalid"]), (&json!(5), &json!(1500)), "{foretold}");
    assert_eq!(cleanup(&["--dry-run"]), "dry run: 0 sessions would be deleted\n");
    assert_eq!(server.signal("TERM").0, Some(0));
}
