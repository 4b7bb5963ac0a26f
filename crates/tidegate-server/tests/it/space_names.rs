//! The default spaces: what they are called in answers, settings and metrics, and the names
//! that they had before.

use serde_json::{Value, json};
use tidegate::clock::Clock;
use tidegate::testkit::{RedisCluster, RedisServer};
use tidegate_server::settings::{Settings, Sources};

use crate::cli::{Server, run, tidegate};
use crate::support::{Fixture, START, serving_hot, serving_sessions, settings};

const EDIT: &str = r#"{"page":"en:Weir","id":"1","editor":"alice"}"#;

fn json_of(text: &str) -> Value {
    serde_json::from_str(text).expect(text)
}

/// Requested by either name the answer is the same, and has the name that the space is known by.
async fn answers_alike(f: &Fixture, name: &str, other: &str, paths: &[String]) {
    for path in paths {
        let (by_name, by_other) =
            (f.get(&path.replace("SPACE", name)).await, f.get(&path.replace("SPACE", other)).await);
        assert_eq!(by_name.status, 200, "{path}: {by_name:?}");
        assert_eq!(by_name.body, by_other.body, "{path}");
        assert_eq!(by_name.json()["space"], name, "{path}");
    }
}

#[tokio::test]
async fn hot_pages_are_found_by_the_present_name_and_the_former() {
    for (configured, name, other) in [
        (vec![], "main", "pages"),
        (vec!["main.max_tracked=7"], "main", "pages"),
        (vec!["pages.max_tracked=7"], "pages", "main"),
    ] {
        let f = serving_hot(&configured).await;
        for (id, space) in [("1", name), ("2", other), ("3", other)] {
            let edited =
                f.post(&format!("/v1/hot/{space}/edits"), &EDIT.replace("\"1\"", &format!("\"{id}\""))).await;
            assert_eq!((edited.status.as_u16(), &edited.json()["space"]), (200, &json!(name)), "{edited:?}");
        }
        let paths = ["", "?stats=true", "/pages/en:Weir", "/pages/en:Weir/window"];
        answers_alike(&f, name, other, &paths.map(|it| format!("/v1/hot/SPACE{it}"))).await;
        assert_eq!(f.get("/v1/hot/main").await.json()["pages"][0]["edits"], 3);
        let listed = f.get("/v1/hot").await.json();
        let names: Vec<_> = listed["spaces"].as_array().unwrap().iter().map(|it| &it["space"]).collect();
        assert_eq!(names, [name]);
        let bulk = crate::support::bulk(&f.app, &format!("/v1/hot/{other}/edits"), EDIT).await;
        assert_eq!(bulk.json()["space"], name, "{bulk:?}");
        assert_eq!(f.post(&format!("/v1/hot/{other}/cleanup"), "").await.json()["space"], name);
        let removed = f.delete(&format!("/v1/hot/{other}/pages/en:Weir")).await.json();
        assert_eq!((&removed["space"], &removed["was"]), (&json!(name), &json!("hot")));
        let metrics = f.get("/metrics").await.body;
        assert!(metrics.contains(&format!("hot_pages_promoted_total{{space=\"{name}\"}} 1")), "{metrics}");
        assert!(!metrics.contains(&format!("space=\"{other}\"")), "{metrics}");
    }
}

#[tokio::test]
async fn sessions_are_found_by_the_present_name_and_the_former() {
    for (configured, name, other) in [
        (vec![], "main", "sessions"),
        (vec!["main.grace=30s"], "main", "sessions"),
        (vec!["sessions.grace=30s"], "sessions", "main"),
    ] {
        let f = serving_sessions(&configured).await;
        // The first use, by the other name, opens what nobody has written down.
        let active =
            f.post(&format!("/v1/sessions/{other}"), r#"{"broadcaster":"b","config":{},"holder":"h"}"#).await;
        assert_eq!((active.status.as_u16(), &active.json()["space"]), (201, &json!(name)), "{active:?}");
        let id = active.json()["id"].as_str().unwrap().to_owned();
        let paths = ["", "/counts", "/dead", "/broadcasters/b", "/ID"].map(|it| it.replace("ID", &id));
        answers_alike(&f, name, other, &paths.map(|it| format!("/v1/sessions/SPACE{it}"))).await;
        let beat = f.post(&format!("/v1/sessions/{other}/{id}/holders/h/heartbeat"), "").await;
        assert_eq!(beat.json()["space"], name, "{beat:?}");
        for path in ["claims", "cleanup", "cleanup?dry_run=true"] {
            let answer = f.post(&format!("/v1/sessions/{other}/{path}"), "").await;
            assert_eq!(answer.json()["space"], name, "{path}: {answer:?}");
        }
        let left = f.delete(&format!("/v1/sessions/{other}/{id}/holders/h")).await;
        assert_eq!(left.json()["space"], name, "{left:?}");
        let metrics = f.get("/metrics").await.body;
        let of = |name: &str| format!("tidegate_session_dead{{space=\"{name}\"}} 0");
        assert!(metrics.contains(&of(name)) && !metrics.contains(&of(other)), "{metrics}");
    }
}

/// The name of the default space is nobody else's alias.
#[tokio::test]
async fn a_space_of_another_name_has_no_second_one() {
    let f = serving_hot(&["news.max_tracked=7"]).await;
    for name in ["main", "pages", "sessions"] {
        let unknown = f.get(&format!("/v1/hot/{name}")).await;
        assert_eq!(
            (unknown.status.as_u16(), &unknown.json()["type"]),
            (404, &json!("urn:tidegate:problem:unknown-space"))
        );
    }
}

#[test]
fn one_space_by_two_names_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("t.yaml");
    for (group, former, setting, value) in
        [("hot", "pages", "max_tracked", "7"), ("sessions", "sessions", "grace", "5s")]
    {
        let expected = |a: &str, b: &str| {
            format!(
                "`{group}.{a}` and `{group}.{b}` are one space by two names, on the same keys: write down one of them"
            )
        };
        std::fs::write(
            &file,
            format!("{group}:\n  main: {{{setting}: {value}}}\n  {former}: {{{setting}: {value}}}\n"),
        )
        .unwrap();
        let sources = Sources { file: Some(file.clone()), ..Sources::default() };
        assert_eq!(Settings::load(&sources).unwrap_err().to_string(), expected("main", former));
        std::fs::write(&file, format!("{group}:\n  main: {{{setting}: {value}}}\n")).unwrap();
        let variable = format!("TIDEGATE_{group}__{former}__{setting}").to_uppercase();
        let environment = [(variable, value.to_owned())].into();
        let sources = Sources { environment, ..sources };
        assert_eq!(Settings::load(&sources).unwrap_err().to_string(), expected("main", former));
    }
}

/// What an older version has left on a store, key by key.
fn plant(redis: &RedisServer, id: &str) {
    let now_ms = Clock::system().now().as_millis();
    let mut connection = redis.connection();
    let left = (now_ms / 1000).to_string();
    let mut command = |words: &[&str]| redis::cmd(words[0]).arg(&words[1..]).exec(&mut connection).unwrap();
    command(&[
        "HSET",
        &format!("session:{id}"),
        "broadcaster_user_id",
        "b",
        "config_json",
        "{}",
        "value",
        "",
        "last_update",
        &left,
        "last_disconnect",
        &left,
    ]);
    command(&["SET", "broadcaster:b", id]);
    command(&["ZADD", "disconnected_sessions", &left, id]);
}

/// Commands with the default of `--space`, through servers and on the store, find what older
/// versions wrote under the former names; and what a server of those names declares.
#[test]
fn commands_find_what_was_written_by_the_former_names() {
    let (redis, cluster) = (RedisServer::start(), RedisCluster::start());
    for store in [redis.url(), cluster.url()] {
        let id = "0190b6a0-1111-7000-8000-000000000001";
        if store == redis.url() {
            plant(&redis, id);
        }
        let shared = ["--store", &store, "--set", "store.deadline=10s"];
        // As it was configured before.
        let former = ["--set", "hot.pages.window_duration=2h", "--set", "sessions.sessions.grace=1h"];
        let old = Server::start(&[&shared[..], &former].concat());
        for id in ["1", "2"] {
            assert_eq!(old.hot(&["record", "en:Weir", "--id", id]).0, 0);
        }
        let (code, out, err) = old.hot(&["list", "--json", "--space", "pages"]);
        assert_eq!((code, &json_of(&out)["space"]), (0, &json!("pages")), "{err}");
        // One that is left to its defaults, by the settings that are declared.
        let new = Server::start(&shared);
        for args in [&["list", "--json"][..], &["list", "--json", "--space", "pages"]] {
            let (_, by_server, _) = new.hot(args);
            let mut command = tidegate(&["hot"]);
            command.args(args).args(shared);
            let (code, by_store, err) = run(command);
            assert_eq!((code, err.as_str()), (0, ""), "{by_store}");
            for answer in [by_server, by_store] {
                let answer = json_of(&answer);
                assert_eq!((&answer["space"], &answer["window_ms"]), (&json!("main"), &json!(7_200_000)));
                assert_eq!(answer["pages"][0]["edits"], 2);
            }
        }
        for args in [&["list", "--json"][..], &["list", "--json", "--space", "sessions"]] {
            let mut command = tidegate(&["sessions"]);
            command.args(args).args(shared);
            let (code, out, err) = run(command);
            assert_eq!((code, err.as_str(), &json_of(&out)["space"]), (0, "", &json!("main")), "{out}");
            if store == redis.url() {
                assert_eq!(json_of(&out)["sessions"][0]["id"], id, "{out}");
            }
        }
        let mut command = tidegate(&["sessions", "compare", "--json"]);
        let (code, out, err) = run({
            command.args(shared);
            command
        });
        assert_eq!((code, &json_of(&out)["space"]), (0, &json!("main")), "{err}");
        let mut command = tidegate(&["declare", "--json"]);
        command.args(shared);
        let (_, out, _) = run(command);
        let declared = json_of(&out);
        let names: Vec<_> = declared["declarations"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| [&it["part"], &it["name"]])
            .collect();
        assert!(names.contains(&[&json!("hot"), &json!("main")]), "{names:?}");
        assert!(!names.contains(&[&json!("hot"), &json!("pages")]), "{names:?}");
        let log = new.get("/metrics");
        assert!(!log.contains("tidegate_declarations_replaced_total{"), "nothing was replaced: {log}");
    }
}

/// A replay goes by the settings of the space that is meant, by either name.
#[test]
fn a_replay_takes_the_settings_of_the_space_by_either_name() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("edits");
    std::fs::write(&file, "{\"page\":\"a\",\"time\":1000}\n{\"page\":\"a\",\"time\":2000}\n").unwrap();
    let file = file.to_str().unwrap();
    for (configured, space) in [("pages", None), ("pages", Some("main")), ("main", Some("pages"))] {
        let mut command = tidegate(&["hot", "replay", file, "--json"]);
        command.args(["--set", &format!("hot.{configured}.window_duration=7s")]);
        if let Some(space) = space {
            command.args(["--space", space]);
        }
        let (code, out, err) = run(command);
        assert_eq!((code, &json_of(&out)["window_ms"]), (0, &json!(7000)), "{out} {err}");
    }
}

/// The files to start from have them by their present names.
#[tokio::test]
async fn the_files_to_start_from_use_the_present_names() {
    for file in ["dev", "minimal", "prod"] {
        let file = format!("{}/../../config/{file}.yaml", env!("CARGO_MANIFEST_DIR"));
        let settings = Settings::load(&Sources { file: Some(file.into()), ..Sources::default() }).unwrap();
        let names = (settings.parts.hot[0].name.as_str(), settings.parts.sessions[0].name.as_str());
        assert_eq!(names, ("main", "main"));
    }
    let f = Fixture::of("memory:", &settings("hot", &[]), START).await;
    assert_eq!(f.get("/v1/sessions").await.json()["spaces"][0]["space"], "main");
}
