//! Sessions on a real Redis: the keys that everybody knows, and what older recipes find.

use serde_json::json;
use tidegate::testkit::RedisServer;

use crate::session::NOW;
use crate::support::{Fixture, START, settings};

#[tokio::test]
async fn the_default_space_has_the_names_that_everybody_knows() {
    let redis = RedisServer::start();
    let written = settings("sessions", &["main.reap=claims", "games.reap=claims"]);
    let f = Fixture::of(&redis.url(), &written, START).await;
    let mut connection = redis.connection();
    let mut query = |command: &[&str]| -> String {
        let mut cmd = redis::cmd(command[0]);
        cmd.arg(&command[1..]);
        cmd.query(&mut connection).unwrap()
    };
    for (space, prefix) in [("main", ""), ("games", "spaces:games:")] {
        let path = format!("/v1/sessions/{space}");
        let activate = async |broadcaster: &str| {
            let body = json!({"broadcaster": broadcaster, "config": {"theme": "dark"}, "holder": "h:1"});
            let answer = f.post(&path, &body.to_string()).await.json();
            answer["id"].as_str().unwrap().to_owned()
        };
        let (held, left) = (activate("a:{1}").await, activate("b").await);
        f.put(&format!("{path}/{held}/value"), r#"{"value":42}"#).await;
        f.clock.set(tidegate::clock::Timestamp::from_millis(NOW + 250));
        f.delete(&format!("{path}/{left}/holders/h%3A1")).await;
        for (key, kind) in [
            (format!("session:{held}"), "hash"),
            ("broadcaster:a:{1}".to_owned(), "string"),
            ("disconnected_sessions".to_owned(), "zset"),
            ("active_sessions".to_owned(), "zset"),
            ("sessions:state".to_owned(), "hash"),
        ] {
            assert_eq!(query(&["TYPE", &format!("{prefix}{key}")]), kind, "{prefix}{key}");
        }
        assert_eq!(query(&["GET", &format!("{prefix}broadcaster:a:{{1}}")]), held);
        let mut field = |id: &str, field: &str| query(&["HGET", &format!("{prefix}session:{id}"), field]);
        assert_eq!(field(&held, "value"), "42");
        assert_eq!(field(&held, "broadcaster_user_id"), "a:{1}");
        assert_eq!(field(&held, "config_json"), "{\"theme\":\"dark\"}");
        assert_eq!(field(&held, "last_disconnect"), "0");
        assert_eq!(field(&held, "last_update"), "1800000000");
        assert_eq!(field(&held, "h:h:1"), (NOW + 45_000).to_string());
        assert_eq!(field(&left, "last_disconnect"), "1800000000");
        let score = query(&["ZSCORE", &format!("{prefix}disconnected_sessions"), &left]);
        assert_eq!(score, "1800000000.25", "seconds, with milliseconds behind the point");
        f.clock.set(START);
    }
    assert_eq!(redis.keys_without_ttl(), Vec::<String>::new());
}

/// What is in the index and is nothing is skipped, counted, and gone after a cleanup.
#[tokio::test]
async fn entries_that_are_no_ids_are_counted() {
    let redis = RedisServer::start();
    let f = Fixture::of(&redis.url(), &settings("sessions", &[]), START).await;
    redis::cmd("ZADD")
        .arg(&["disconnected_sessions", "5", "junk", "6", "67E55044-10B1-426F-9247-BB680E5FE0C8"])
        .query::<()>(&mut redis.connection())
        .unwrap();
    let listed = f.get("/v1/sessions/main").await.json();
    assert_eq!((&listed["invalid"], &listed["sessions"]), (&json!(2), &json!([])));
    f.pass(45_000).await;
    let cleaned = f.post("/v1/sessions/main/cleanup", "").await.json();
    assert_eq!((&cleaned["invalid"], &cleaned["deleted"]), (&json!(2), &json!(0)));
    assert_eq!(f.get("/v1/sessions/main").await.json()["invalid"], 0);
    let metrics = f.get("/metrics").await.body;
    assert!(metrics.contains("\ntidegate_session_invalid_entries_total{space=\"main\"} 2\n"), "{metrics}");
}
