//! Somebody asks for whatever comes to mind.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use serde_json::json;

use super::kit::{Connection, Process, Rules, exchange, pipelined};

const RULES: u64 = 4000;
const UNKNOWN: u64 = 30_000;

/// Of paths that nobody made a rule for, fewer than one in a hundred are asked of the database, also while rules are made
/// and the filter grows; and links beside them are answered.
#[test]
fn unknown_paths_do_not_reach_the_database() {
    let rules = Rules::new();
    let origin = Process::start(1, &["serve", "--listen", "127.0.0.1:0", "--rules", &rules.url()]);
    let upsert = |number: u64| json!({"upsert": {"id": format!("r{number}"), "path": format!("/links/{number}"), "destination": "https://to.example/"}});
    let make = |from: u64| {
        for some in (from..from + RULES).collect::<Vec<_>>().chunks(500) {
            let body: Vec<_> = some.iter().map(|number| upsert(*number)).collect();
            origin.call("POST", "/v1/rules/bulk", &json!(body));
        }
    };
    make(0);
    let worker = Process::edge(origin.api(), &[]).loaded();
    // All of them are in memory from now on.
    let links: Vec<_> = (0..RULES).map(|number| format!("/links/{number}")).collect();
    let mut connection = Connection::open(worker.redirects());
    for some in links.chunks(200) {
        assert!(pipelined(&mut connection, "h", some).iter().all(|it| it.status == 302));
    }
    let (asked_before, fetched_before) =
        (origin.metric("tidegate_rules_resolutions_total"), worker.metric("tidegate_edge_fetches_total"));
    assert!(asked_before >= RULES, "{asked_before} were asked for");
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut connection = Connection::open(worker.redirects());
            while !is_over.load(Ordering::Relaxed) {
                for some in links.chunks(50).step_by(20) {
                    assert!(pipelined(&mut connection, "h", some).iter().all(|it| it.status == 302));
                }
            }
        });
        scope.spawn(|| make(RULES));
        let unknown: Vec<_> = (0..UNKNOWN).map(|number| format!("/links/{number}{}", number % 7)).collect();
        let unknown: Vec<_> = unknown.iter().map(|it| format!("{it}x")).collect();
        for (number, some) in unknown.chunks(100).enumerate() {
            let host = ["h", "www.h.example", "10.0.0.1"][number % 3];
            assert!(pipelined(&mut connection, host, some).iter().all(|it| it.status == 404));
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let asked = origin.metric("tidegate_rules_resolutions_total") - asked_before;
    assert_eq!(worker.metric("tidegate_edge_fetches_total") - fetched_before, asked);
    println!("{asked} of {UNKNOWN} unknown paths were asked for");
    assert!(asked < UNKNOWN / 100, "{asked}");
    assert_eq!(exchange(worker.redirects(), "GET", "h", "/links/7777", "").status, 302);
}
