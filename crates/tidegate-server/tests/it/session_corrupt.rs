//! Keys of sessions that somebody else has written, or written to, over HTTP and from the command
//! line: no answer that is not documented, a line in the log with the key, and ways to repair it.

use serde_json::{Value, json};
use tidegate::testkit::RedisServer;

use crate::cli::Server;
use crate::support::{Answer, Fixture, START, settings};

/// Something of each type.
const TYPES: [&[&str]; 6] = [
    &["SET", "nonsense"],
    &["RPUSH", "x"],
    &["SADD", "x"],
    &["ZADD", "1", "x"],
    &["HSET", "s", "x"],
    &["XADD", "1-1", "a", "b"],
];

fn plant(redis: &RedisServer, key: &str, words: &[&str]) {
    let mut connection = redis.connection();
    redis::cmd("DEL").arg(key).exec(&mut connection).unwrap();
    redis::cmd(words[0]).arg(key).arg(&words[1..]).exec(&mut connection).unwrap();
}

/// Every route of sessions, about one of them.
async fn all_routes(f: &Fixture, id: &str, broadcaster: &str) -> Vec<(String, Answer)> {
    let space = "/v1/sessions/sessions";
    let one = format!("{space}/{id}");
    let acks = json!({"acks": [{"id": id, "generation": 1}]}).to_string();
    let activation = json!({"broadcaster": broadcaster, "config": {}}).to_string();
    let requests = [
        ("GET", one.clone(), ""),
        ("GET", format!("{space}/broadcasters/{broadcaster}"), ""),
        ("PUT", format!("{one}/holders/x"), ""),
        ("PUT", format!("{one}/holders/x?resume=true"), ""),
        ("POST", format!("{one}/holders/x/heartbeat"), ""),
        ("DELETE", format!("{one}/holders/x"), ""),
        ("PUT", format!("{one}/value"), r#"{"value":1}"#),
        ("PUT", format!("{space}/claims/{id}?generation=1&attempt=1"), ""),
        ("POST", format!("{space}/acks"), &acks),
        ("POST", format!("{space}/dead/{id}/retry"), ""),
        ("GET", space.to_owned(), ""),
        ("GET", format!("{space}?state=active"), ""),
        ("GET", format!("{space}/dead"), ""),
        ("GET", format!("{space}/counts"), ""),
        ("POST", format!("{space}/cleanup?dry_run=true"), ""),
        ("POST", format!("{space}/claims"), ""),
        ("POST", format!("{space}/cleanup"), ""),
        ("POST", space.to_owned(), &activation),
        ("DELETE", one.clone(), ""),
    ];
    let mut answers = Vec::new();
    for (method, path, body) in requests {
        let answer = match method {
            "GET" => f.get(&path).await,
            "PUT" => f.put(&path, body).await,
            "POST" => f.post(&path, body).await,
            _ => f.delete(&path).await,
        };
        answers.push((format!("{method} {path}"), answer));
    }
    answers
}

#[tokio::test]
async fn every_route_answers_as_documented_whatever_is_in_the_store() {
    let redis = RedisServer::start();
    let f = Fixture::of(&redis.url(), &settings("sessions", &["sessions.cleanup_interval=1d"]), START).await;
    let (mut corrupt, mut number) = (0, 0);
    let families = [
        "session:{id}",
        "broadcaster:{name}",
        "ref_count:{id}",
        "active_sessions",
        "disconnected_sessions",
        "claimed_sessions",
        "dead_sessions",
        "sessions:state",
    ];
    for family in families {
        for words in TYPES {
            number += 1;
            let name = format!("b{number}");
            let made = f
                .post("/v1/sessions/sessions", &json!({"broadcaster": name, "config": {}}).to_string())
                .await;
            assert_eq!(made.status, 201, "{made:?}");
            let id = made.json()["id"].as_str().unwrap().to_owned();
            let key = family.replace("{id}", &id).replace("{name}", &name);
            plant(&redis, &key, words);
            for (route, answer) in all_routes(&f, &id, &name).await {
                let what = format!("{words:?} at {key}: {route}: {answer:?}");
                if answer.status == 500 {
                    let problem = answer.json();
                    assert_eq!(problem["type"], "urn:tidegate:problem:corrupt-key", "{what}");
                    assert!(problem["detail"].as_str().unwrap().contains("mends it"), "{what}");
                    corrupt += 1;
                } else {
                    assert!([200, 201, 204, 404, 409].contains(&answer.status.as_u16()), "{what}");
                }
            }
            redis::cmd("DEL").arg(&key).exec(&mut redis.connection()).unwrap();
        }
    }
    assert!(corrupt > 100, "{corrupt}");
}

#[test]
fn the_log_names_the_space_and_the_key_and_the_command_line_repairs_it() {
    let redis = RedisServer::start();
    let settings = ["sessions.games.cleanup_interval=1d", "sessions.games.grace=0s", "log.format=json"];
    let mut args = vec!["--store".to_owned(), redis.url()];
    args.extend(settings.iter().flat_map(|it| ["--set".to_owned(), (*it).to_owned()]));
    let mut server = Server::start(&args.iter().map(String::as_str).collect::<Vec<_>>());
    let log = server.log();
    let line = |text: &str| -> Value { serde_json::from_str(&log.wait_for(text)).unwrap() };
    let make = |broadcaster: &str| {
        let body = json!({"broadcaster": broadcaster, "config": {}, "holder": "h"}).to_string();
        let made = server.request("POST", "/v1/sessions/games", &body);
        let (_, made) = made.split_once("\r\n\r\n").unwrap();
        serde_json::from_str::<Value>(made).unwrap()["id"].as_str().unwrap().to_owned()
    };
    let store = |command: &[&str]| {
        let mut command_line = crate::cli::tidegate(&["sessions"]);
        command_line.args(command).args(["--space", "games", "--store", &redis.url()]);
        crate::cli::run(command_line)
    };

    // One that cannot be read.
    let id = make("a");
    let key = format!("spaces:games:session:{id}");
    redis::cmd("HSET").arg(&key).arg("s").arg("x").exec(&mut redis.connection()).unwrap();
    let answer = server.request("GET", &format!("/v1/sessions/games/{id}"), "");
    assert!(answer.starts_with("HTTP/1.1 500") && answer.contains("problem:corrupt-key"), "{answer}");
    let logged = line("a key in the store is not what it should be");
    let error = logged["error"].as_str().unwrap();
    assert!(error.contains(&format!("\"{key}\"")), "{error}");
    assert!(error.contains("the space of sessions \"games\""), "{error}");
    assert_eq!(logged["level"], "ERROR");
    let (code, out, err) = store(&["show", &id]);
    assert_eq!((code, out.as_str()), (2, ""), "{err}");
    assert!(err.contains(&key), "a command on a store, without a server, says so at once: {err}");
    let (code, out, err) = store(&["delete", &id]);
    assert_eq!((code, out.as_str()), (0, "deleted\n"), "{err}");
    assert_eq!(store(&["show", &id]).0, 1);

    // One of another type.
    let id = make("b");
    let key = format!("spaces:games:session:{id}");
    plant(&redis, &key, &["SET", "theirs"]);
    let answer = server.request("POST", &format!("/v1/sessions/games/{id}/holders/h/heartbeat"), "");
    assert!(answer.starts_with("HTTP/1.1 404") && answer.contains("problem:session-gone"), "{answer}");
    let logged = line("what is under the name of a session is none");
    assert_eq!(
        (&logged["level"], &logged["space"], &logged["key"]),
        (&json!("WARN"), &json!("games"), &json!(key))
    );

    // Junk in an index, met by a cleanup.
    redis::cmd("ZADD")
        .arg("spaces:games:disconnected_sessions")
        .arg(1)
        .arg("junk")
        .exec(&mut redis.connection())
        .unwrap();
    let answer = server.request("POST", "/v1/sessions/games/cleanup", "");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let logged = line("entries of the index that are no sessions were removed");
    assert_eq!((&logged["space"], &logged["count"]), (&json!("games"), &json!(1)));
    assert!(
        logged["entries"].as_str().unwrap().contains("spaces:games:disconnected_sessions junk"),
        "{logged}"
    );

    // An index of another type.
    let id = make("c");
    plant(&redis, "spaces:games:active_sessions", &["RPUSH", "x"]);
    let answer = server.request("GET", "/v1/sessions/games/counts", "");
    assert!(answer.starts_with("HTTP/1.1 500") && answer.contains("problem:corrupt-key"), "{answer}");
    let error = line("\\\"spaces:games:active_sessions\\\"");
    assert!(error["error"].as_str().unwrap().contains("the space of sessions \"games\""), "{error}");
    let (code, out, err) = store(&["reconcile", "--verbose"]);
    assert_eq!(code, 0, "{out}{err}");
    assert!(out.contains("1 indices of another type: removed and made anew"), "{out}");
    assert!(err.contains("another-type spaces:games:active_sessions"), "{err}");
    assert!(server.get("/v1/sessions/games/counts").contains("\"active\":1"));
    assert!(server.get(&format!("/v1/sessions/games/{id}")).contains("\"state\":\"active\""));
}
