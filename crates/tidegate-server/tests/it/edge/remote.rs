//! Workers alone, which follow a server.

use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use tidegate::clock::monotonic;

use super::kit::{Connection, MARGIN, Process, Rules, to, until};

/// A server that only has the rules.
fn origin(rules: &Rules) -> Process {
    origin_on("127.0.0.1:0", rules)
}

fn origin_on(address: &str, rules: &Rules) -> Process {
    Process::start(1, &["serve", "--listen", address, "--rules", &rules.url()])
}

#[test]
fn a_worker_follows_a_server() {
    let rules = Rules::new();
    let origin = origin(&rules);
    origin.rule("before", to("/before", "https://to.example/before"));
    origin.rule(
        "folder",
        json!({"path": "/docs/*", "appendRest": true, "destination": "https://to.example/docs"}),
    );
    origin.rule("off", json!({"host": "own.example", "path": "/before", "enabled": false, "destination": "https://to.example/off"}));
    for hydrate in ["keys", "bodies"] {
        let worker = Process::edge(origin.api(), &["--set", &format!("edge.hydrate={hydrate}")]).loaded();
        assert_eq!(
            worker.location("h", "/before").as_deref(),
            Some("https://to.example/before"),
            "{hydrate}"
        );
        assert_eq!(worker.location("own.example", "/before").as_deref(), Some("https://to.example/before"));
        assert_eq!(worker.location("h", "/docs/a").as_deref(), Some("https://to.example/docs/a"));
        assert_eq!(worker.get("h", "/new").status, 404);
        origin.rule("new", to("/new", "https://to.example/1"));
        until("created", || worker.location("h", "/new").as_deref() == Some("https://to.example/1"));
        origin.rule("new", to("/new", "https://to.example/2"));
        until("updated", || worker.location("h", "/new").as_deref() == Some("https://to.example/2"));
        origin.call("DELETE", "/v1/rules/new", &Value::Null);
        until("deleted", || worker.get("h", "/new").status == 404);
        // Who follows is known at the origin, and how far.
        until("told", || {
            let workers = origin.call("GET", "/v1/workers", &Value::Null);
            let all = workers["workers"].as_array().unwrap().clone();
            all.iter().any(|it| it["connected"] == true && it["appliedSeq"] == workers["seq"])
        });
        worker.stop();
    }
}

/// The origin dies and comes back: what is in memory is served meanwhile, what is not is a clear no in time.
#[test]
fn a_worker_outlives_its_origin() {
    let rules = Rules::new();
    let first = origin(&rules);
    first.rule("asked", to("/asked", "https://to.example/asked"));
    first.rule("unasked", to("/unasked", "https://to.example/unasked"));
    first.rule("folder", to("/docs/*", "https://to.example/docs"));
    first.rule("few", json!({"path": "/few", "maxClicks": 100, "destination": "https://to.example/few"}));
    let address = first.api().to_owned();
    let deadline = Duration::from_millis(500);
    let worker =
        Process::edge(&address, &["--set", "edge.deadline=500ms", "--set", "edge.age_header=true"]).loaded();
    assert_eq!(worker.location("h", "/asked").as_deref(), Some("https://to.example/asked"));
    first.kill();
    until("noticed", || worker.call("GET", "/v1/edge/cache", &Value::Null)["progress"]["connected"] == false);
    assert_eq!(worker.location("h", "/asked").as_deref(), Some("https://to.example/asked"));
    assert_eq!(worker.location("h", "/docs/x").as_deref(), Some("https://to.example/docs"));
    assert_eq!(worker.get("h", "/none").status, 404);
    assert!(worker.get("h", "/asked").header("tidegate-age").is_some());
    for path in ["/unasked", "/few"] {
        let asked = monotonic();
        let answer = worker.get("h", path);
        assert_eq!((answer.status, answer.header("retry-after")), (503, Some("1")), "{path} {answer:?}");
        assert!(asked.elapsed() < 2 * deadline + MARGIN, "{path}: {:?}", asked.elapsed());
    }
    // Loaded is enough to be ready, unless the settings say otherwise.
    assert_eq!(super::exchange(worker.api(), "GET", "t", "/readyz", "").status, 200);
    let second = origin_on(&address, &rules);
    until("back", || worker.location("h", "/unasked").as_deref() == Some("https://to.example/unasked"));
    second.rule("new", to("/new", "https://to.example/new"));
    until("caught up", || worker.location("h", "/new").as_deref() == Some("https://to.example/new"));
    assert_eq!(worker.get("h", "/few").status, 302);
    // It went on where it was, and did not read all rules anew.
    let metrics = super::exchange(worker.api(), "GET", "t", "/metrics", "").body;
    assert!(metrics.contains("\ntidegate_edge_resyncs_total 0\n"), "{metrics}");
    worker.stop();
    second.stop();
    assert_eq!(rules.get("few")["clicks"], 1);
    assert_eq!(rules.get("unasked")["clicks"], 1);
}

#[test]
fn a_worker_is_ready_once_it_has_read_all_keys() {
    let rules = Rules::new();
    let first = origin(&rules);
    let address = first.api().to_owned();
    first.kill();
    let worker =
        Process::edge(&address, &["--set", "edge.readiness=connected", "--set", "edge.deadline=100ms"]);
    let readyz = || super::exchange(worker.api(), "GET", "t", "/readyz", "");
    let not_ready = readyz();
    assert_eq!(not_ready.status, 503);
    assert!(not_ready.body.contains("rules were not all read yet"), "{not_ready:?}");
    assert_eq!(worker.get("h", "/a").status, 503, "nobody knows yet");
    let second = origin_on(&address, &rules);
    until("ready", || readyz().status == 200);
    assert_eq!(worker.get("h", "/a").status, 404);
    second.kill();
    until("not ready", || readyz().status == 503);
    assert!(readyz().body.contains("the rules' origin is away"), "{:?}", readyz());
    assert_eq!(worker.get("h", "/a").status, 404, "it is served all the same");
}

/// Three processes and many at once: never one too many, and all of them in the end.
#[test]
fn a_budget_of_clicks_is_shared_by_workers_and_never_exceeded() {
    const CLICKS: u64 = 300;
    let rules = Rules::new();
    let origin = origin(&rules);
    origin.rule("few", json!({"path": "/few", "maxClicks": CLICKS, "destination": "https://to.example/"}));
    origin.rule("many", to("/many", "https://to.example/"));
    let workers: Vec<_> = (0..3).map(|_| Process::edge(origin.api(), &[]).loaded()).collect();
    let spend = |address: String| {
        thread::spawn(move || {
            let mut connection = Connection::open(&address);
            let (mut sent, mut asked) = (0, 0);
            let deadline = monotonic() + crate::support::SOON;
            loop {
                assert!(monotonic() < deadline, "{sent} of {asked} by now");
                asked += 1;
                let answer = connection.ask("GET", "h", "/few", "");
                assert_eq!(connection.ask("HEAD", "h", "/many", "").status, 302);
                match answer.status {
                    302 => sent += 1,
                    503 => thread::yield_now(),
                    410 => return sent,
                    other => panic!("{other}"),
                }
            }
        })
    };
    let spenders: Vec<_> =
        workers.iter().flat_map(|it| [it, it]).map(|it| spend(it.redirects().to_owned())).collect();
    let sent: u64 = spenders.into_iter().map(|it| it.join().unwrap()).sum();
    assert_eq!(sent, CLICKS);
    for worker in &workers {
        for _ in 0..10 {
            assert_eq!(worker.get("h", "/many").status, 302);
        }
    }
    workers.into_iter().for_each(|it| drop(it.stop()));
    origin.stop();
    assert_eq!(rules.get("few")["clicks"], CLICKS);
    assert_eq!(rules.get("many")["clicks"], 30);
}

/// Every worker answers everything, and all of them know who keeps what.
#[test]
fn workers_share_out_rules() {
    let rules = Rules::new();
    let origin = origin(&rules);
    let paths: Vec<_> = (0..60).map(|number| format!("/link-{number}")).collect();
    for path in &paths {
        origin.rule(&path[1..], to(path, &format!("https://to.example{path}")));
    }
    let shared = ["--of", "a,b,c", "--replicas", "2", "--set", "edge.hydrate=bodies"];
    let start = |name| Process::edge(origin.api(), &[&["--partition", name][..], &shared].concat()).loaded();
    let workers = ["a", "b", "c"].map(start);
    let mut kept = [0; 3];
    for path in &paths {
        for worker in &workers {
            assert_eq!(worker.location("h", path), Some(format!("https://to.example{path}")));
        }
        let owners = workers
            .each_ref()
            .map(|it| it.call("GET", &format!("/v1/edge/owner?url=http://h{path}"), &Value::Null));
        for (at, owner) in owners.iter().enumerate() {
            assert_eq!(owner["owners"], owners[0]["owners"], "{path}");
            let is_own = owner["owners"].as_array().unwrap().contains(&json!(["a", "b", "c"][at]));
            assert_eq!(owner["own"], is_own, "{path}");
            kept[at] += u64::from(is_own);
        }
        assert_eq!(owners[0]["owners"].as_array().unwrap().len(), 2);
    }
    assert_eq!(kept.iter().sum::<u64>(), 120);
    assert!(kept.iter().all(|it| *it > 20), "{kept:?}");
    let answer = super::exchange(workers[0].api(), "GET", "t", "/v1/edge/owner?url=http://h/link-1", "");
    assert!(answer.header("tidegate-owner").is_some(), "{answer:?}");
}
