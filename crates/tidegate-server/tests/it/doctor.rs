//! `tidegate doctor`: what it says, and how it exits.

use serde_json::Value;
use tidegate::limit::LimitOptions;
use tidegate::run::RunOptions;
use tidegate::testkit::RedisServer;
use tidegate::testkit::limit::sliding;
use tidegate::{Cost, Key, Tidegate};

use crate::cli::{run, tidegate};

const KEY: &str = "trypema:api:absolute:h:user_1";

/// A server that a limit and a space of runs were used on.
async fn used() -> RedisServer {
    let server = RedisServer::start();
    let gate = Tidegate::open(&server.url()).await.unwrap();
    let limit = gate.limit("api", sliding(10, 60, 600), LimitOptions::default()).unwrap();
    limit.take(Key::new("user_1").unwrap(), Cost::ONE).await.unwrap();
    let runs = gate.runs("main", RunOptions::default()).unwrap();
    runs.start(Key::new("nightly").unwrap()).await.unwrap().into_result().unwrap();
    gate.declare().await.unwrap();
    gate.shutdown().await;
    server
}

#[tokio::test]
async fn the_exit_code_says_whether_all_is_well() {
    let server = used().await;
    let url = server.url();
    let doctor = |more: &[&str]| run(tidegate(&[&["doctor", "--store", &url], more].concat()));
    let (code, out, err) = doctor(&[]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    assert!(out.ends_with("all is well\n") && out.contains("<prefix>:<limit>:absolute:h:<key>"), "{out}");

    let mut connection = server.connection();
    let () = redis::cmd("PERSIST").arg(KEY).query(&mut connection).unwrap();
    let () = redis::cmd("DEL").arg("courtlistener:pipeline:nightly").query(&mut connection).unwrap();
    let (code, out, _) = doctor(&[]);
    assert_eq!(code, 1, "{out}");
    assert!(out.contains(&format!("no-ttl {KEY}\n")) && out.ends_with("3 defects\n"), "{out}");
    let (code, out, _) = doctor(&["--json", "--keys-per-second", "0"]);
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &report["well"], &report["mended"]), (1, &Value::Bool(false), &Value::from(0)));
    assert_eq!(report["defect_counts"]["no-ttl"], 1, "{out}");
    assert_eq!(report["defect_counts"]["entry-without-data"], 2, "{out}");
    assert_eq!(report["servers"][0]["maxmemory_policy"], "noeviction", "{out}");

    // Mended, and well from then on.
    let (code, out, _) = doctor(&["--fix"]);
    assert!(code == 0 && out.contains(&format!("no-ttl {KEY} (mended)\n")), "{out}");
    assert!(out.ends_with("3 defects, all of them mended\n"), "{out}");
    let ttl: i64 = redis::cmd("TTL").arg(KEY).query(&mut connection).unwrap();
    assert!(ttl > 0, "{ttl}");
    assert_eq!(doctor(&["--json"]).0, 0);
    // What it cannot mend stays a defect.
    let mut set = redis::cmd("CONFIG");
    let () = set.arg("SET").arg("maxmemory-policy").arg("allkeys-lru").query(&mut connection).unwrap();
    let (code, out, _) = doctor(&["--fix"]);
    assert!(code == 1 && out.contains("eviction ") && out.contains("noeviction"), "{out}");
}

#[tokio::test]
async fn a_store_that_cannot_be_looked_at_has_an_exit_code_of_its_own() {
    let mut server = RedisServer::start();
    server.kill();
    for url in [&*server.url(), "memory:"] {
        let (code, out, err) = run(tidegate(&["doctor", "--store", url]));
        assert_eq!((code, out.as_str()), (2, ""), "{err}");
        assert!(err.contains("cannot be looked at"), "{err}");
    }
    assert_eq!(run(tidegate(&["doctor"])).0, 2, "which store?");
}
