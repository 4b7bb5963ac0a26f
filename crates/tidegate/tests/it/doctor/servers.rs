//! Markers, declarations, and servers with their settings.

use std::time::Duration;

use redis::Commands as _;
use tidegate::clock::monotonic;
use tidegate::doctor::DefectKind::{self, MarkerDisagrees, MarkerMissing, SettingsDisagree};
use tidegate::doctor::Doctor;
use tidegate::store::StoreOptions;
use tidegate::testkit::{RedisCluster, RedisServer, unique};

use super::world::{World, assert_well, options, quick};

#[tokio::test]
async fn a_partition_without_its_marker_and_keys_of_partitions_that_are_none_are_found() {
    for cluster in [None, Some(RedisCluster::start())] {
        let server = RedisServer::start();
        let url = cluster.as_ref().map_or(server.url(), RedisCluster::url);
        let world = World::open(&url, options(&unique("d"), Some(5), None)).await;
        world.use_all(0).await;
        assert_well(&world.check().await, "before");
        world.gate.shutdown().await;
        let namespace = world.options.namespace.as_ref().unwrap().as_str().to_owned();
        let mut connections: Vec<_> = match &cluster {
            Some(cluster) => cluster.nodes().iter().map(RedisServer::connection).collect(),
            None => vec![server.connection()],
        };
        let outside = format!("{namespace}:{{9}}:trypema:sliding:absolute:h:x");
        let marker = format!("{namespace}:{{3}}:tidegate:marker");
        let other_marker = format!("{namespace}:{{4}}:tidegate:marker");
        // No number of a partition is written like this.
        let of_others = format!("{namespace}:{{04}}:trypema:sliding:absolute:h:x");
        // In a cluster only one of them has the slot.
        let mut done = 0;
        for connection in &mut connections {
            done += connection.hset_nx::<_, _, _, i64>(&outside, "h", "x").unwrap_or_default();
            done += connection.hset_nx::<_, _, _, i64>(&of_others, "h", "x").unwrap_or_default();
            done += connection.del::<_, i64>(&marker).unwrap_or_default();
            done += connection.hset::<_, _, _, ()>(&other_marker, "partitions", "7").map_or(0, |()| 1);
        }
        assert_eq!(done, 4);
        let report = world.check().await;
        let found: Vec<_> = report.defects.iter().map(|it| (it.kind, it.subject.as_str())).collect();
        assert_eq!(
            found,
            [
                (MarkerMissing, marker.as_str()),
                (MarkerDisagrees, other_marker.as_str()),
                (DefectKind::OutsidePartitions, outside.as_str())
            ]
        );
        assert_eq!(report.others, 1, "{of_others}");
        // Whoever comes with another number of partitions is told.
        let mut other = world.options.clone();
        other.partitions = Some(6);
        let report = Doctor::open(&url, &other).await.unwrap().check(&quick(), |_| {}).await.unwrap();
        assert!(report.defects.iter().any(|it| it.kind == MarkerDisagrees), "{:?}", report.defects);
        assert_eq!(report.partitions, 5, "the store says how many there are");
    }
}

#[tokio::test]
async fn servers_that_disagree_about_a_part_are_found() {
    let server = RedisServer::start();
    let world = World::open(&server.url(), options("", None, None)).await;
    let other = tidegate::Tidegate::open(&server.url()).await.unwrap();
    let wider = tidegate::testkit::limit::sliding(1000, 120, 1200);
    other.limit("sliding", wider, tidegate::limit::LimitOptions::default()).unwrap();
    other.declare().await.unwrap();
    let report = world.check().await;
    let found: Vec<_> = report.defects.iter().map(|it| (it.kind, it.subject.as_str())).collect();
    assert_eq!(found, [(SettingsDisagree, "limit sliding")]);
    assert!(report.defects[0].detail.contains("window"), "{}", report.defects[0].detail);
    // Keys of both are known, though they are called differently.
    let plain = tidegate::limit::LimitOptions::default();
    let mine = other.limit("mine", tidegate::testkit::limit::sliding(1000, 60, 600), plain).unwrap();
    other.declare().await.unwrap();
    for limit in [&mine, &world.limits[4]] {
        limit.take(super::world::key("k"), tidegate::Cost::ONE).await.unwrap();
    }
    let report = world.check().await;
    let found: Vec<_> = report.defects.iter().map(|it| (it.kind, it.subject.as_str())).collect();
    assert_eq!(found, [(SettingsDisagree, "limit mine"), (SettingsDisagree, "limit sliding")]);
    assert_eq!((report.undeclared, report.others), (0, 0));
}

#[tokio::test]
async fn settings_of_servers_that_endanger_us_are_found() {
    let server = RedisServer::start();
    let mut connection = server.connection();
    let mut set = |name: &str, value: &str| {
        let () = redis::cmd("CONFIG").arg("SET").arg(name).arg(value).query(&mut connection).unwrap();
    };
    let check = async || {
        let doctor = Doctor::open(&server.url(), &StoreOptions::default()).await.unwrap();
        doctor.check(&quick().fix(true), |_| {}).await.unwrap()
    };
    let report = check().await;
    assert_well(&report, "as they are by default");
    assert!(report.servers[0].version.contains('.'), "{:?}", report.servers);
    assert!(report.notes.iter().any(|it| it.contains("append-only")), "{:?}", report.notes);
    let used = report.servers[0].used_memory.unwrap();
    for (name, bad, good, kind) in [
        ("maxmemory-policy", "allkeys-lru", "noeviction", DefectKind::Eviction),
        ("maxmemory-policy", "volatile-ttl", "noeviction", DefectKind::Eviction),
        ("maxmemory", &*(used + used / 10).to_string(), "0", DefectKind::MemoryNearBound),
        ("appendfsync", "no", "everysec", DefectKind::Appendfsync),
        ("replica-read-only", "no", "yes", DefectKind::WritableReplica),
    ] {
        set(name, bad);
        let report = check().await;
        let kinds: Vec<_> = report.defects.iter().map(|it| it.kind).collect();
        assert_eq!(kinds, [kind], "{name} {bad}");
        assert!(!report.is_well() && report.mended == 0, "no setting of a server is changed");
        set(name, good);
    }
    // A replica of it that accepts writes, by a look at its master.
    let replica = RedisServer::start();
    let mut of_replica = replica.connection();
    let () =
        redis::cmd("CONFIG").arg("SET").arg("replica-read-only").arg("no").query(&mut of_replica).unwrap();
    let () = redis::cmd("REPLICAOF").arg("127.0.0.1").arg(server.port()).query(&mut of_replica).unwrap();
    let until = monotonic() + Duration::from_secs(30);
    loop {
        let report = check().await;
        if !report.servers[0].replicas.is_empty() {
            let found: Vec<_> = report.defects.iter().map(|it| (it.kind, it.subject.clone())).collect();
            assert_eq!(found, [(DefectKind::WritableReplica, format!("127.0.0.1:{}", replica.port()))]);
            break;
        }
        assert!(monotonic() < until, "the replica never connected");
        tokio::task::yield_now().await;
    }
    // And by a look at itself.
    let doctor = Doctor::open(&replica.url(), &StoreOptions::default()).await.unwrap();
    let report = doctor.check(&quick(), |_| {}).await.unwrap();
    assert!(report.defects.iter().any(|it| it.kind == DefectKind::IsReplica), "{:?}", report.defects);
}
