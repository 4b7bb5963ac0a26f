//! Keys of ours that somebody else has written: reported by a type of their own, and repaired by a reset.

use redis::Connection;
use tidegate::testkit::RedisServer;

use crate::support::{Answer, Fixture, START, serving_on, settings};

#[track_caller]
fn assert_corrupt(answer: &Answer, what: &str) {
    assert_eq!(answer.status, 500, "{what}: {answer:?}");
    let problem = answer.json();
    assert_eq!(problem["type"], "urn:tidegate:problem:corrupt-key", "{what}: {problem}");
    assert!(problem["detail"].as_str().unwrap().contains("mends it"), "{problem}");
}

fn run(connection: &mut Connection, command: &[&str]) {
    let _: redis::Value = redis::cmd(command[0]).arg(&command[1..]).query(connection).unwrap();
}

/// Puts something else in the place of `key`, in each of the ways that there are; of the type that
/// it has too. With how it may be reported.
fn plants(kind: &str) -> Vec<Vec<&'static str>> {
    let mut plants = vec![vec!["RPUSH", "x"], vec!["SADD", "x"], vec!["ZADD", "1", "x"]];
    match kind {
        "string" => plants.extend([vec!["SET", "nonsense"], vec!["HSET", "h", "x"]]),
        _ => plants.extend([vec!["SET", "x"], vec!["HSET", "h", "x"]]),
    }
    plants
}

#[tokio::test]
async fn a_limits_key_that_is_not_ours_is_reported_and_a_reset_repairs_it() {
    let redis = RedisServer::start();
    for algorithm in ["sliding", "suppressed", "smooth", "token", "calendar"] {
        let f = serving_on(&redis.url(), &[&format!("{algorithm}.algorithm={algorithm}")]).await;
        let (take, reset) =
            (format!("/v1/limits/{algorithm}/take"), format!("/v1/limits/{algorithm}/keys/a"));
        assert_eq!(f.post(&take, r#"{"key":"a"}"#).await.status, 200, "{algorithm}");
        let mut connection = redis.connection();
        let pattern = format!("*{algorithm}*");
        let keys: Vec<String> = redis::cmd("KEYS").arg(&pattern).query(&mut connection).unwrap();
        assert!(!keys.is_empty(), "{algorithm}");
        let mut reported = 0;
        for key in &keys {
            let kind: String = redis::cmd("TYPE").arg(key).query(&mut connection).unwrap();
            for plant in plants(&kind) {
                run(&mut connection, &["DEL", key]);
                let command = [&[plant[0], key.as_str()], &plant[1..]].concat();
                run(&mut connection, &command);
                let what = format!("{plant:?} at {key}");
                let answer = f.post(&take, r#"{"key":"a"}"#).await;
                // Another field in a hash is nobody's business.
                if answer.status != 200 {
                    assert_corrupt(&answer, &what);
                    reported += 1;
                }
                assert_eq!(f.delete(&reset).await.status, 204, "{what}");
                let repaired = f.post(&take, r#"{"key":"a"}"#).await;
                assert_eq!(repaired.status, 200, "{what}: {repaired:?}");
                assert_eq!(f.post(&take, r#"{"key":"b"}"#).await.status, 200, "{what}");
            }
        }
        assert!(reported >= 4, "{algorithm}: {reported} of {keys:?}");
    }
    assert_eq!(redis.keys_without_ttl(), Vec::<String>::new());
}

/// What a limit has of a key beside the one that counts, and its indices: the same.
#[tokio::test]
async fn what_is_beside_a_limits_key_is_reported_and_a_reset_repairs_it() {
    let redis = RedisServer::start();
    let f = serving_on(&redis.url(), &["api.rate=100/s", "other.rate=100/s"]).await;
    let of_key = "/v1/limits/api/keys/a";
    let (reservation, override_path) = (format!("{of_key}/reservations/one"), format!("{of_key}/override"));
    let (hold, rate) = (r#"{"cost":3,"lasting_ms":30000}"#, r#"{"rate":"50/s","lasting_ms":30000}"#);
    let both = r#"{"key":"a","limits":[{"limit":"other"},{"limit":"api"}]}"#;
    let mut connection = redis.connection();
    for (family, least) in [
        ("reservations:a", 4),
        ("reservations_due:a", 3),
        ("override:a", 4),
        ("pending", 4),
        ("overrides", 3),
    ] {
        let key = format!("trypema:api:{family}");
        for plant in [&["SADD", "x"], &["RPUSH", "x"]] {
            assert_eq!(f.put(&reservation, hold).await.status, 201);
            assert_eq!(f.put(&override_path, rate).await.status, 200);
            let mut reported = 0;
            for (method, path, body) in [
                ("POST", "/v1/limits/api/take", r#"{"key":"a"}"#),
                ("POST", "/v1/limits/take", both),
                ("POST", "/v1/charges", r#"{"id":"c","key":"a","limits":[{"limit":"api"}]}"#),
                ("POST", "/v1/charges/release", r#"{"id":"c","key":"a","limits":["api"]}"#),
                ("GET", of_key, ""),
                ("GET", "/v1/limits/api/overrides", ""),
                ("GET", "/v1/limits/api/reservations", ""),
                ("GET", &override_path, ""),
                ("PUT", &override_path, rate),
                ("PUT", &override_path, rate),
                ("GET", &reservation, ""),
                ("PUT", &format!("{of_key}/reservations/two"), hold),
                ("POST", &format!("{reservation}/commit"), ""),
                ("DELETE", &reservation, ""),
                ("DELETE", &override_path, ""),
            ] {
                run(&mut connection, &["DEL", &key]);
                run(&mut connection, &[&[plant[0], key.as_str()], &plant[1..]].concat());
                let answer = crate::support::call(&f.app, method, path, body).await;
                if answer.status.is_server_error() {
                    assert_corrupt(&answer, &format!("{method} {path} with {plant:?} at {key}"));
                    reported += 1;
                }
            }
            assert!(reported >= least, "{reported} of those with {plant:?} at {key}");
            run(&mut connection, &["DEL", &key]);
            run(&mut connection, &[&[plant[0], key.as_str()], &plant[1..]].concat());
            assert_eq!(f.delete(of_key).await.status, 204, "{plant:?} at {key}");
            assert_eq!(f.post("/v1/limits/take", both).await.status, 200, "{plant:?} at {key}");
            for list in ["overrides", "reservations"] {
                assert_eq!(f.get(&format!("/v1/limits/api/{list}")).await.status, 200, "{plant:?} at {key}");
            }
        }
    }
    assert_eq!(redis.keys_without_ttl(), Vec::<String>::new());
}

/// On a store the command line names the key itself, and resets it.
#[test]
fn the_command_line_names_the_key_and_resets_it() {
    let redis = RedisServer::start();
    let on_store = |args: &[&str]| {
        let mut command = crate::cli::tidegate(&["limit"]);
        command.args(args).args(["--store", &redis.url(), "--set", "limits.api.rate=100/s"]);
        crate::cli::run(command)
    };
    assert_eq!(on_store(&["set-override", "api", "a", "--rate", "50/s", "--lasting", "1h"]).0, 0);
    let mut connection = redis.connection();
    run(&mut connection, &["DEL", "trypema:api:override:a"]);
    run(&mut connection, &["SADD", "trypema:api:override:a", "x"]);
    let (code, out, err) = on_store(&["take", "api", "a"]);
    assert_ne!(code, 0, "{out}");
    assert!(err.contains("WRONGTYPE") && err.contains("\"trypema:api:override:a\""), "{err}");
    let (code, out, err) = on_store(&["reset", "api", "a"]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    assert_eq!(on_store(&["take", "api", "a"]).0, 0);
}

/// A leased limit that is held after a loss is reported like any other.
#[tokio::test]
async fn a_leased_limit_under_a_hold_is_reported_as_a_store_that_lost_writes() {
    let redis = RedisServer::start();
    let leased = ["rate=5000/s", "lease=true", "nodes=1", "after_loss=hold"];
    let limits: Vec<String> = leased.iter().map(|it| format!("api.{it}")).collect();
    let f = serving_on(&redis.url(), &limits.iter().map(String::as_str).collect::<Vec<_>>()).await;
    assert_eq!(f.take(r#"{"key":"a"}"#).await.status, 200);
    redis::cmd("FLUSHALL").exec(&mut redis.connection()).unwrap();
    let refused = f.take(r#"{"key":"b"}"#).await;
    assert_eq!(refused.status, 429, "{refused:?}");
    assert_eq!(refused.json()["type"], "urn:tidegate:problem:store-loss", "{refused:?}");
    assert_eq!(refused.header("retry-after"), Some("65"), "a window and a lease: {refused:?}");
}

/// The log says which key it is: that is what an operator looks at.
#[tokio::test]
async fn the_error_names_the_key() {
    let redis = RedisServer::start();
    let f = Fixture::of(&redis.url(), &settings("limits", &["api.rate=5/s"]), START).await;
    let mut connection = redis.connection();
    run(&mut connection, &["SET", "trypema:api:absolute:h:user_7", "x"]);
    let limit = f.app.gate().limit("api", tidegate_api(), tidegate::limit::LimitOptions::default()).unwrap();
    let error = limit
        .take(tidegate::Key::new("user_7").unwrap(), tidegate::Cost::ONE)
        .await
        .expect_err("it is of another type");
    assert_eq!(error.kind(), tidegate::ErrorKind::Corrupt);
    let message = error.to_string();
    assert!(
        message.contains("WRONGTYPE") && message.contains("\"trypema:api:absolute:h:user_7\""),
        "{message}"
    );
    assert_corrupt(&f.take(r#"{"key":"user_7"}"#).await, "a string");
}

fn tidegate_api() -> tidegate::limit::Sliding {
    tidegate::limit::Sliding::new("5/s".parse().unwrap(), std::time::Duration::from_secs(60)).unwrap()
}
