//! Hot pages on a real Redis: the keys that everybody knows, and the script that
//! validates them.

use std::path::PathBuf;
use std::process::Command;

use tidegate::testkit::RedisServer;

use crate::cli::{Server, run};
use crate::support::{Fixture, START, bulk, settings};

#[tokio::test]
async fn the_default_space_has_the_names_that_everybody_knows() {
    let redis = RedisServer::start();
    let f = Fixture::of(
        &redis.url(),
        &settings("hot", &["main.hot_threshold=2", "links.hot_threshold=2"]),
        START,
    )
    .await;
    let lines = |page: &str| {
        let line = |id: u32| format!("{{\"page\":\"{page}\",\"id\":\"{id}\",\"editor\":\"alice\"}}\n");
        (1..=2).map(line).collect::<String>()
    };
    for space in ["main", "links"] {
        let answer = bulk(&f.app, &format!("/v1/hot/{space}/edits"), lines("SomePopularPage")).await;
        assert_eq!(answer.json()["outcomes"]["promoted"], 1, "{answer:?}");
        f.post(&format!("/v1/hot/{space}/edits"), r#"{"page":"Once","id":"1"}"#).await;
    }
    let mut connection = redis.connection();
    let mut query =
        |command: &str, key: &str| -> String { redis::cmd(command).arg(key).query(&mut connection).unwrap() };
    for prefix in ["", "spaces:links:"] {
        for (key, kind) in [
            ("activity:Once", "string"),
            ("hot:window:SomePopularPage", "zset"),
            ("hot:meta:SomePopularPage", "hash"),
            ("hot:editors:SomePopularPage", "list"),
            ("hot:state", "hash"),
            ("hot:activities", "zset"),
            ("hot:due", "zset"),
            ("hot:rank", "zset"),
            ("hot:events", "stream"),
        ] {
            assert_eq!(query("TYPE", &format!("{prefix}{key}")), kind, "{prefix}{key}");
        }
        assert_eq!(query("TYPE", &format!("{prefix}activity:SomePopularPage")), "none");
    }
    let mut connection = redis.connection();
    let window: Vec<(String, String)> = redis::cmd("ZRANGE")
        .arg("hot:window:SomePopularPage")
        .arg(&["0", "-1", "WITHSCORES"])
        .query(&mut connection)
        .unwrap();
    assert_eq!(
        window,
        [("1".to_owned(), "1800000000000".to_owned()), ("2".to_owned(), "1800000000000".to_owned())]
    );
    let count: String =
        redis::cmd("HGET").arg("hot:meta:SomePopularPage").arg("edit_count").query(&mut connection).unwrap();
    assert_eq!(count, "2");
    assert_eq!(redis.keys_without_ttl(), Vec::<String>::new());
}

#[test]
fn two_servers_on_one_redis_share_their_pages() {
    let redis = RedisServer::start();
    let url = redis.url();
    let args = ["--store", url.as_str(), "--set", "store.deadline=10s"];
    let servers = [Server::start(&args), Server::start(&args)];
    assert_eq!(servers[0].hot(&["record", "a", "--id", "1"]).1, "remembered: the page is not hot yet\n");
    assert_eq!(servers[1].hot(&["record", "a", "--id", "2"]).1, "promoted: the page is hot now\n");
    assert_eq!(servers[0].hot(&["stats", "a"]).0, 0);
    let (_, one, _) = servers[0].hot(&["watch", "--after", "0-0", "--count", "1", "--json"]);
    let (_, other, _) = servers[1].hot(&["watch", "--after", "0-0", "--count", "1", "--json"]);
    assert_eq!(one, other, "the same event, once");
}

/// What tests read from their environment is no setting of the server.
fn without_settings(command: &mut Command) {
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("TIDEGATE_")) {
        command.env_remove(name);
    }
}

#[test]
fn the_validation_passes() {
    let redis = RedisServer::start();
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../scripts/validate-hot-pages.sh");
    let mut command = Command::new(script);
    command.arg(redis.url()).env("TIDEGATE", env!("CARGO_BIN_EXE_tidegate"));
    without_settings(&mut command);
    let (code, out, err) = run(command);
    println!("{out}");
    assert_eq!(code, 0, "{out} {err}");
    assert!(out.ends_with("all valid\n"), "{out}");
    assert_eq!(redis.keys_without_ttl(), Vec::<String>::new());
}

#[test]
fn the_validation_does_not_pass_without_a_redis() {
    let held = tokio::net::TcpSocket::new_v4().unwrap();
    held.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let url = format!("redis://{}", held.local_addr().unwrap());
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../scripts/validate-hot-pages.sh");
    let mut command = Command::new(script);
    command.arg(url).env("TIDEGATE", env!("CARGO_BIN_EXE_tidegate"));
    without_settings(&mut command);
    let (code, _, err) = run(command);
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("no Redis"), "{err}");
}
