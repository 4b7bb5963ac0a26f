//! What random histories of every room leave behind is well.

use std::collections::BTreeSet;

use redis::Commands as _;
use tidegate::clock::{ManualClock, Timestamp};
use tidegate::doctor::Doctor;
use tidegate::testkit::{RedisCluster, RedisServer, hot, limit, run, session};

use super::START_MS;
use super::world::{assert_well, options, quick};
use crate::kit::On;

/// At this moment nothing that histories have left is over, and at this one everything.
const BEFORE: u64 = START_MS;
const AFTER: u64 = START_MS + 90 * 86_400_000;

/// Every namespace that histories have left on a server, by these clocks. It is empty then.
fn every_namespace_is_well(
    url: &str,
    servers: &[&RedisServer],
    partitions: Option<u32>,
    clocks: &[u64],
) -> u64 {
    let connections = servers.iter().map(|it| it.connection());
    let mut namespaces = BTreeSet::new();
    for mut connection in connections {
        let markers: Vec<String> = connection.keys("*tidegate:marker").unwrap();
        namespaces.extend(markers.iter().map(|it| it.split(':').next().unwrap().to_owned()));
    }
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let ours = runtime.block_on(async {
        let mut all = 0;
        for namespace in &namespaces {
            for &at in clocks {
                let clock = ManualClock::at(Timestamp::from_millis(at));
                let doctor = Doctor::open(url, &options(namespace, partitions, Some(&clock))).await.unwrap();
                let report = doctor.check(&quick(), |_| {}).await.unwrap();
                assert_well(&report, namespace);
                // Every part was declared before anything was done.
                assert_eq!(report.undeclared, 0, "{namespace}: every key is of a family");
                let ours: u64 = report.families.iter().map(|it| it.keys).sum();
                assert_eq!(ours + report.undeclared + report.others, report.scanned, "{namespace}");
                all += ours;
            }
        }
        all
    });
    for server in servers {
        let () = redis::cmd("FLUSHALL").query(&mut server.connection()).unwrap();
    }
    ours
}

#[test]
fn random_histories_leave_nothing_to_find_on_one_server() {
    let server = RedisServer::start();
    let on = On::url(server.url());
    let well = |clocks: &[u64]| every_namespace_is_well(&server.url(), &[&server], None, clocks);
    limit::history::check(&on, 600);
    limit::reservation_history::check(&on, 300);
    // Indices of limits forget what is over when they are next written to, and keys end later.
    assert!(well(&[AFTER]) > 100);
    hot::history::check(&on, 900);
    session::history::check(&on, 900);
    run::history::check(&on, 900);
    assert!(well(&[BEFORE, AFTER]) > 100);
}

#[test]
fn random_histories_leave_nothing_to_find_in_a_cluster() {
    let cluster = RedisCluster::start();
    let on = On { url: cluster.url(), options: |options| options.partitions = Some(3) };
    let nodes: Vec<_> = cluster.nodes().iter().collect();
    let well = |clocks: &[u64]| every_namespace_is_well(&cluster.url(), &nodes, Some(3), clocks);
    limit::history::check(&on, 300);
    assert!(well(&[AFTER]) > 30);
    hot::history::check(&on, 300);
    session::history::check(&on, 300);
    run::history::check(&on, 900);
    assert!(well(&[BEFORE, AFTER]) > 50);
}
