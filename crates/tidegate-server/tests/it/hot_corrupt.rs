//! Keys of hot pages that somebody else has written, over HTTP and on the command line: reported by a
//! type of their own, named in the log, no matter to other pages, and repaired by a removal.

use serde_json::json;
use tidegate::testkit::RedisServer;

use crate::cli::{Log, Server};
use crate::support::{Answer, Fixture, START, bulk, settings};

fn run(redis: &RedisServer, command: &[&str]) {
    let _: redis::Value = redis::cmd(command[0]).arg(&command[1..]).query(&mut redis.connection()).unwrap();
}

/// A set in the place of `key`: none of ours is one.
fn plant(redis: &RedisServer, key: &str) {
    run(redis, &["DEL", key]);
    run(redis, &["SADD", key, "x"]);
    run(redis, &["PEXPIRE", key, "600000"]);
}

#[track_caller]
fn assert_corrupt(answer: &Answer, what: &str) {
    assert_eq!(answer.status, 500, "{what}: {answer:?}");
    let problem = answer.json();
    assert_eq!(problem["type"], "urn:tidegate:problem:corrupt-key", "{what}: {problem}");
}

#[tokio::test]
async fn a_page_that_is_not_ours_is_reported_stops_no_other_and_is_repaired_by_a_removal() {
    let redis = RedisServer::start();
    for family in ["hot:window:", "hot:meta:", "hot:editors:"] {
        let f = Fixture::of(&redis.url(), &settings("hot", &["main.max_tracked=9"]), START).await;
        let edit = async |page: &str, id: &str| {
            f.post("/v1/hot/main/edits", &json!({"page": page, "id": id}).to_string()).await
        };
        for (page, id) in [("bad", "1"), ("bad", "2"), ("good", "1"), ("good", "2")] {
            assert_eq!(edit(page, id).await.status, 200, "{family}");
        }
        plant(&redis, &format!("{family}bad"));
        assert_corrupt(&edit("bad", "3").await, family);
        // The window is known without it.
        if family != "hot:meta:" {
            assert_corrupt(&f.get("/v1/hot/main/pages/bad/window").await, family);
        }
        assert_corrupt(&f.get("/v1/hot/main/pages/bad").await, family);
        let list = f.get("/v1/hot/main?stats=true").await;
        assert_eq!(list.status, 200, "{family}: {list:?}");
        let pages = list.json()["pages"].clone();
        let good = pages.as_array().unwrap().iter().find(|it| it["page"] == "good").unwrap().clone();
        assert_eq!(good["stats"]["edits_last_hour"], 2, "{family}: {pages}");
        let bad = pages.as_array().unwrap().iter().find(|it| it["page"] == "bad");
        assert!(bad.is_none_or(|bad| bad.get("stats").is_none()), "{family}: {pages}");

        let lines = ["good", "bad", "other"].map(|page| json!({"page": page, "id": "4"}).to_string());
        let many = bulk(&f.app, "/v1/hot/main/edits", lines.join("\n")).await;
        assert_eq!(many.status, 207, "{family}: {many:?}");
        let outcomes = many.json()["outcomes"].clone();
        let counted = ["added", "corrupt", "remembered", "dropped", "unknown"].map(|it| outcomes[it].clone());
        assert_eq!(counted, [1, 1, 1, 0, 0].map(|it| json!(it)), "{family}: {outcomes}");
        let metrics = f.get("/metrics").await.body;
        assert!(metrics.contains("\ntidegate_hot_corrupt_edits_total{space=\"main\"} 2\n"), "{metrics}");
        assert_eq!(f.post("/v1/hot/main/cleanup", "").await.status, 200, "{family}");

        let removed = f.delete("/v1/hot/main/pages/bad").await;
        assert_eq!((removed.status.as_u16(), &removed.json()["was"]), (200, &json!("hot")), "{family}");
        for id in ["5", "6"] {
            assert_eq!(edit("bad", id).await.status, 200, "{family}");
        }
        assert_eq!(f.get("/v1/hot/main/pages/bad").await.json()["edits_last_hour"], 2, "{family}");
        run(&redis, &["FLUSHALL"]);
    }
}

/// What a list and a count need is reported while it is broken, and repaired by an edit.
#[tokio::test]
async fn a_broken_index_is_reported_and_repaired_by_the_next_edit() {
    let redis = RedisServer::start();
    let f = Fixture::of(&redis.url(), &settings("hot", &["main.hot_threshold=1"]), START).await;
    for page in ["a", "b", "c"] {
        f.post("/v1/hot/main/edits", &json!({"page": page, "id": "1"}).to_string()).await;
    }
    for index in ["hot:rank", "hot:due"] {
        plant(&redis, index);
        assert_corrupt(&f.get("/v1/hot/main").await, index);
        let id = format!("{index} 2");
        let edit = f.post("/v1/hot/main/edits", &json!({"page": "a", "id": id, "at": 1}).to_string()).await;
        assert_eq!((edit.status.as_u16(), &edit.json()["outcome"]), (200, &json!("too_late")), "{index}");
        let edit = f.post("/v1/hot/main/edits", &json!({"page": index, "id": id}).to_string()).await;
        assert_eq!((edit.status.as_u16(), &edit.json()["outcome"]), (200, &json!("promoted")), "{index}");
        f.post("/v1/hot/main/cleanup", "").await;
        let list = f.get("/v1/hot/main").await;
        assert_eq!(list.status, 200, "{index}: {list:?}");
        for page in ["a", "b", "c"] {
            assert!(list.body.contains(&format!("\"page\":\"{page}\"")), "{index}: {list:?}");
        }
    }
    assert_eq!(redis.keys_without_ttl(), Vec::<String>::new());
}

fn logged(log: &Log, text: &str) -> serde_json::Value {
    serde_json::from_str(&log.wait_for(text)).unwrap()
}

#[test]
fn the_log_and_the_command_line_say_which_key_it_is() {
    let redis = RedisServer::start();
    let url = redis.url();
    let mut server = Server::start(&["--store", &url, "--set", "log.format=json"]);
    let log = server.log();
    for id in ["1", "2"] {
        assert_eq!(server.hot(&["record", "en:Tide", "--id", id]).0, 0);
    }
    plant(&redis, "hot:meta:en:Tide");
    let (code, out, err) = server.hot(&["stats", "en:Tide"]);
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(err.contains("of another type than ours, or cannot be read"), "{err}");
    let line = logged(&log, "a key in the store is not what it should be");
    let error = line["error"].as_str().unwrap();
    assert!(error.contains("\"activity:en:Tide\"") && error.contains("in the space main"), "{error}");
    assert_eq!(server.hot(&["record", "en:Tide", "--id", "3"]).0, 2);
    // Without a server the same.
    let (code, _, err) = crate::cli::run({
        let mut command = crate::cli::tidegate(&["hot", "stats", "en:Tide"]);
        command.args(["--store", &url]);
        command
    });
    assert_eq!(code, 2);
    assert!(err.contains("activity:en:Tide") && err.contains("WRONGTYPE"), "{err}");
    assert_eq!(server.hot(&["rm", "en:Tide"]).0, 0);
    assert_eq!(server.hot(&["stats", "en:Tide"]), (1, "en:Tide: not hot\n".into(), "".into()));

    plant(&redis, "hot:rank");
    assert_eq!(server.hot(&["list"]).0, 2);
    let line = logged(&log, "hot:rank");
    assert_eq!(line["message"], "a key in the store is not what it should be");
    assert_eq!(server.hot(&["cleanup"]).0, 0);
    let line = logged(&log, "and was mended");
    assert_eq!(
        (&line["level"], &line["space"], &line["key"]),
        (&json!("WARN"), &json!("main"), &json!("hot:rank"))
    );
    assert_eq!(server.hot(&["list"]).0, 0);
}

/// A look at a store leaves what is not ours there as it is.
#[test]
fn looking_at_a_store_leaves_a_state_that_is_not_ours() {
    let redis = RedisServer::start();
    let url = redis.url();
    let hot = |arguments: &[&str]| {
        let mut command = crate::cli::tidegate(&[&["hot"], arguments].concat());
        command.args(["--store", &url]);
        crate::cli::run(command)
    };
    let server = Server::start(&["--store", &url]);
    for id in ["1", "2"] {
        assert_eq!(server.hot(&["record", "en:Tide", "--id", id]).0, 0);
    }
    drop(server);
    run(&redis, &["SET", "hot:state", "precious"]);
    let (code, out, err) = hot(&["list"]);
    assert!(code == 0 && out.contains("en:Tide"), "{code} {out} {err}");
    let (code, _, err) = hot(&["stats", "en:Tide"]);
    assert_eq!(code, 0, "{err}");
    let value: String = redis::cmd("GET").arg("hot:state").query(&mut redis.connection()).unwrap();
    assert_eq!(value, "precious");
}
