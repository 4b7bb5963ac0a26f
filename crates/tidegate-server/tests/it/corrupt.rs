//! Keys of ours that somebody else has written: told by a type of their own, and mended by a reset.

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
/// it has too. With how it may be told.
fn plants(kind: &str) -> Vec<Vec<&'static str>> {
    let mut plants = vec![vec!["RPUSH", "x"], vec!["SADD", "x"], vec!["ZADD", "1", "x"]];
    match kind {
        "string" => plants.extend([vec!["SET", "nonsense"], vec!["HSET", "h", "x"]]),
        _ => plants.extend([vec!["SET", "x"], vec!["HSET", "h", "x"]]),
    }
    plants
}

#[tokio::test]
async fn a_limits_key_that_is_not_ours_is_told_and_a_reset_mends_it() {
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
        let mut told = 0;
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
                    told += 1;
                }
                assert_eq!(f.delete(&reset).await.status, 204, "{what}");
                let mended = f.post(&take, r#"{"key":"a"}"#).await;
                assert_eq!(mended.status, 200, "{what}: {mended:?}");
                assert_eq!(f.post(&take, r#"{"key":"b"}"#).await.status, 200, "{what}");
            }
        }
        assert!(told >= 4, "{algorithm}: {told} of {keys:?}");
    }
    assert_eq!(redis.keys_without_ttl(), Vec::<String>::new());
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
    let told = error.to_string();
    assert!(told.contains("WRONGTYPE") && told.contains("\"trypema:api:absolute:h:user_7\""), "{told}");
    assert_corrupt(&f.take(r#"{"key":"user_7"}"#).await, "a string");
}

fn tidegate_api() -> tidegate::limit::Sliding {
    tidegate::limit::Sliding::new("5/s".parse().unwrap(), std::time::Duration::from_secs(60)).unwrap()
}
