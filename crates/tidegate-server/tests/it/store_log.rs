//! What the log says of the store: when it goes, why, what is answered meanwhile, and when
//! it is back.

use serde_json::{Value, json};
use tidegate::testkit::RedisServer;

use crate::cli::Server;

fn start(url: &str, more: &[&str]) -> Server {
    let mut args = vec!["--store", url, "--set", "log.format=json", "--set", "store.check_interval=100ms"];
    args.extend(more.iter().flat_map(|setting| ["--set", *setting]));
    Server::start(&args)
}

fn take(server: &Server, limit: &str) -> String {
    server.request("POST", &format!("/v1/limits/{limit}/take"), r#"{"key":"a"}"#)
}

fn line(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

fn metric(server: &Server, line: &str) -> Option<u64> {
    let metrics = server.get("/metrics");
    metrics.lines().find_map(|found| found.strip_prefix(line)?.trim().parse().ok())
}

#[test]
fn a_server_without_its_store_says_since_when_why_and_what_it_answers_until_it_is_back() {
    let mut redis = RedisServer::start();
    redis.kill();
    let url = format!("redis://joe:secret@127.0.0.1:{}", redis.port());
    let mut server = start(&url, &["limits.api.outage=open", "limits.login.outage=closed"]);
    let log = server.log();
    let away = log.wait_for("the store is away");
    assert!(!away.contains("secret"), "{away}");
    let away = line(&away);
    assert_eq!((&away["level"], &away["reason"]), (&json!("WARN"), &json!("refused")));
    assert_eq!(away["server"], format!("127.0.0.1:{}", redis.port()));
    assert_eq!(away["meanwhile"], "closed: limit login; open: limit api");
    let since = away["since"].as_str().unwrap();
    assert!(since.len() == 24 && since.ends_with('Z'), "{since}");

    for _ in 0..3 {
        assert!(take(&server, "api").starts_with("HTTP/1.1 200"));
        assert!(take(&server, "login").starts_with("HTTP/1.1 429"));
    }
    assert_eq!(metric(&server, "tidegate_store_failed_calls_total{reason=\"refused\"}"), Some(6));

    redis.restart();
    let mut connection = redis.connection();
    redis::cmd("ACL")
        .arg(&["SETUSER", "joe", "on", ">secret", "~*", "&*", "+@all"])
        .exec(&mut connection)
        .unwrap();
    let back = line(&log.wait_for("the store is back"));
    assert_eq!((&back["level"], &back["since"]), (&json!("WARN"), &json!(since)));
    assert_eq!(back["answered_without_it"], 6);
    assert!(back["after"].is_string(), "{back}");
    assert!(take(&server, "api").contains("\"source\":\"store\""));
}

#[test]
fn an_outage_says_why_in_a_word() {
    let redis = RedisServer::start();
    let mut connection = redis.connection();
    let mut config = |name: &str, value: &str| {
        redis::cmd("CONFIG").arg("SET").arg(name).arg(value).exec(&mut connection).unwrap();
    };
    let mut server = start(&redis.url(), &[]);
    let log = server.log();
    config("maxmemory", "1");
    take(&server, "api");
    assert_eq!(line(&log.wait_for("the store is away"))["reason"], "oom");
    config("maxmemory", "0");
    log.wait_for("the store is back");

    redis.freeze();
    assert_eq!(line(&log.wait_for("the store is away"))["reason"], "timeout", "though nobody called");
    redis.thaw();
    log.wait_for("the store is back");

    config("requirepass", "secret");
    let mut connection = redis::Client::open(format!("redis://:secret@127.0.0.1:{}", redis.port()))
        .and_then(|client| client.get_connection())
        .unwrap();
    redis::cmd("CLIENT").arg("KILL").arg("TYPE").arg("normal").exec(&mut connection).unwrap();
    assert_eq!(line(&log.wait_for("the store is away"))["reason"], "auth");
}

#[test]
fn what_is_no_redis_is_said_to_be_none() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            use std::io::Write as _;
            let _ = stream.and_then(|mut stream| stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n"));
        }
    });
    let mut server = start(&format!("redis://127.0.0.1:{port}"), &[]);
    assert_eq!(line(&server.log().wait_for("the store is away"))["reason"], "not_redis");
}

/// A flush is a loss, also where nobody looks at the store, and a hold is logged when it
/// begins and when it ends.
#[test]
fn a_flush_counts_as_a_loss_and_the_hold_after_it_is_logged() {
    let redis = RedisServer::start();
    let settings = ["limits.api.after_loss=hold", "limits.api.window=2s", "limits.other.rate=1/s"];
    let mut server = start(&redis.url(), &settings);
    let log = server.log();
    assert!(take(&server, "api").starts_with("HTTP/1.1 200"));
    redis::cmd("FLUSHALL").exec(&mut redis.connection()).unwrap();
    log.wait_for("the store lost writes");
    let held = line(&log.wait_for("refuses everything"));
    assert_eq!((&held["level"], &held["part"]), (&json!("WARN"), &json!("limit api")));
    let refused = take(&server, "api");
    assert!(refused.starts_with("HTTP/1.1 429") && refused.contains("problem:store-loss"), "{refused}");
    assert_eq!(metric(&server, "tidegate_store_losses_total"), Some(1));
    let over = line(&log.wait_for("decides again"));
    assert_eq!(over["part"], "limit api");
    assert!(take(&server, "api").starts_with("HTTP/1.1 200"));
    assert_eq!(metric(&server, "tidegate_store_losses_total"), Some(1), "one flush is one loss");
}

/// The store is looked at every few seconds; a call that is refused before then logs it.
#[test]
fn a_hold_is_logged_when_the_first_call_meets_it() {
    let redis = RedisServer::start();
    let settings = ["limits.api.after_loss=hold", "limits.api.window=2s", "store.check_interval=60s"];
    let mut server = start(&redis.url(), &settings);
    let log = server.log();
    for _ in 0..2 {
        assert!(take(&server, "api").starts_with("HTTP/1.1 200"));
        redis::cmd("FLUSHALL").exec(&mut redis.connection()).unwrap();
        assert!(take(&server, "api").contains("problem:store-loss"));
        log.wait_for("the store lost writes");
        log.wait_for("refuses everything");
        log.wait_for("decides again");
    }
    assert_eq!(metric(&server, "tidegate_store_losses_total"), Some(2));
}

#[test]
fn a_background_loop_that_fails_says_which_it_is() {
    let mut redis = RedisServer::start();
    let mut server = start(&redis.url(), &["hot.wiki.cleanup_interval=1s"]);
    let log = server.log();
    log.wait_for("serving");
    redis.kill();
    let failed = line(&log.wait_for("reaper failed"));
    assert_eq!((&failed["reaper"], &failed["space"]), (&json!("hot"), &json!("wiki")));
    let _ = log.so_far();
}
