//! A doctor finds what is wrong with a store, and nothing else; it mends what can be mended, and
//! nothing else.

mod histories;
mod planted;
mod servers;
mod traffic;
pub(crate) mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::time::Duration;

use redis::Commands as _;
use tidegate::clock::{ManualClock, Timestamp, monotonic};
use tidegate::doctor::{DefectKind, Doctor, DoctorOptions};
use tidegate::run::{QuotaKind, QuotaOptions};
use tidegate::store::{StoreOptions, families};
use tidegate::testkit::{RedisCluster, RedisServer, unique};
use tidegate::{Cost, ErrorKind, Name, Tidegate};

use self::world::{World, assert_well, options, quick};

const START_MS: u64 = 1_700_000_000_000;

/// What the page says, by pattern: the type, and the other way round.
#[test]
fn the_page_of_keys_and_the_table_of_families_say_the_same() {
    let page = include_str!("../../../../docs/redis-keys.md");
    let rows = page.lines().skip_while(|line| !line.starts_with("| key | type |")).skip(2);
    let mut documented = BTreeSet::new();
    for row in rows.take_while(|line| line.starts_with('|')) {
        let cells: Vec<_> = row.split('|').collect();
        let key_type = match cells[2].trim().trim_end_matches('s') {
            "sorted set" => "zset",
            other => other,
        };
        let patterns = cells[1].split('`').skip(1).step_by(2);
        documented.extend(patterns.map(|it| (it.to_owned(), key_type.to_owned())));
    }
    let known: BTreeSet<_> = families().map(|it| (it.pattern.to_owned(), it.key_type.to_owned())).collect();
    assert_eq!(documented, known);
    assert_eq!(known.len(), families().count(), "each is there once");
}

/// Lets time pass while somebody is there.
async fn pass(world: &World, clock: &ManualClock, seconds: u64) {
    for _ in 0..seconds {
        clock.advance_ms(1000);
        world.sessions.stamp().await.unwrap();
    }
}

/// Keys of a quota are known whatever its family is called, and whichever kinds of it there were.
#[tokio::test]
async fn the_keys_of_quotas_are_known_by_their_families() {
    let (server, cluster) = (RedisServer::start(), RedisCluster::start());
    for url in [server.url(), cluster.url()] {
        let options = options(&unique("d"), None, None);
        let gate = Tidegate::open_with(&url, options.clone()).await.unwrap();
        for prefix in ["courtlistener", "acme", "A:{b}"] {
            let quota = QuotaOptions::new().prefix(prefix.to_owned()).kind(QuotaKind::Both);
            let quota = gate.quota(quota).unwrap();
            quota.charge(Cost::ONE, Some("a")).await.unwrap();
            quota.charge(Cost::ONE, Some("b")).await.unwrap();
            quota.release("b").await.unwrap();
        }
        gate.declare().await.unwrap();
        // A server that counts otherwise has taken over.
        let other = Tidegate::open_with(&url, options.clone()).await.unwrap();
        other.quota(QuotaOptions::new().prefix("acme".to_owned()).kind(QuotaKind::Sliding)).unwrap();
        other.declare().await.unwrap();
        let doctor = Doctor::open(&url, &options).await.unwrap();
        let report = doctor.check(&quick(), |_| ()).await.unwrap();
        assert_eq!((report.undeclared, report.others), (0, 0), "{url}: {report:?}");
        let keys =
            |family: &str| report.families.iter().find(|it| it.family.name == family).map_or(0, |it| it.keys);
        assert_eq!((keys("hours"), keys("calendar"), keys("absolute")), (6, 3, 3), "{url}");
        assert_eq!(keys("reservations"), 6, "{url}");
        // What two disagree about is told, by the quota and nothing else.
        let told: Vec<_> = report.defects.iter().map(|it| (it.kind, it.subject.as_str())).collect();
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(report.defects[0].detail.contains("kind"), "{:?}", report.defects);
    }
}

/// On a store of each kind: one server with one partition, with several, and a cluster.
async fn a_healthy_store_is_well(url: &str, partitions: Option<u32>) {
    let clock = ManualClock::at(Timestamp::from_millis(START_MS));
    let world = World::open(url, options(&unique("d"), partitions, Some(&clock))).await;
    assert_well(&world.check().await, "nothing was done");
    for number in 0..60 {
        world.use_all(number).await;
        if number == 30 {
            pass(&world, &clock, 240).await;
            let claims = world.sessions.claim(5).await.unwrap().claims;
            assert!(!claims.is_empty(), "some were left behind");
            world.sessions.ack(claims[0].id, claims[0].generation).await.unwrap().into_result().unwrap();
            // The others are put aside when their claim ends.
            pass(&world, &clock, 240).await;
            world.sessions.claim(100).await.unwrap();
        }
    }
    let report = world.check().await;
    assert_well(&report, url);
    assert_eq!(report.undeclared, 0);
    let seen: BTreeSet<_> =
        report.families.iter().filter(|it| it.keys > 0).map(|it| it.family.name).collect();
    // But for what only an older program writes.
    let is_used = |name: &&str| *name != "ref_count";
    let all: BTreeSet<_> = families().map(|it| it.name).filter(is_used).collect();
    assert_eq!(seen, all, "every family is in use");
    assert!(report.families.iter().all(|it| it.bytes() > 0 || it.family.name == "marker"));
    assert!(report.entries > 100, "{}", report.entries);
    clock.advance_ms(40 * 3_600_000);
    assert_well(&world.check().await, "much later");
    world.hot.cleanup().await.unwrap();
    world.links.cleanup().await.unwrap();
    world.views.cleanup().await.unwrap();
    world.runs.cleanup().await.unwrap();
    assert_well(&world.check().await, "and cleaned up");
    assert_well(&world.fix().await, "nothing to mend");
    world.gate.shutdown().await;
}

#[tokio::test]
async fn a_healthy_store_is_well_on_one_server() {
    let server = RedisServer::start();
    a_healthy_store_is_well(&server.url(), None).await;
    a_healthy_store_is_well(&server.url(), Some(5)).await;
}

#[tokio::test]
async fn a_healthy_store_is_well_in_a_cluster() {
    let cluster = RedisCluster::start();
    a_healthy_store_is_well(&cluster.url(), Some(7)).await;
}

/// A Redis that others use, without a namespace: what is theirs is counted, and that is all.
#[tokio::test]
async fn keys_of_others_are_counted_and_left_alone() {
    let server = RedisServer::start();
    let mut connection = server.connection();
    let world = World::open(&server.url(), options("", None, None)).await;
    world.use_all(0).await;
    let () = redis::pipe()
        .set("session:of-theirs", "x")
        .hset("session:6f2c1f9e-1111-4222-8333-123456789abc", "user", "7")
        .set("broadcaster:theirs", "x")
        .set("activity:theirs", "5")
        .hset("hot:meta:theirs", "edit_count", "7")
        .zadd("hot:window:theirs", "a", 1)
        .hset("courtlistener:pipeline:theirs", "status", "completed")
        .rpush("courtlistener:failed:2024-09-17_14", "x")
        .set("courtlistener:task_start:manual__2024-09-17T14:30:00:task", "x")
        .set("cache:1", "x")
        .set(&b"\xff\xfe"[..], "x")
        .query(&mut connection)
        .unwrap();
    let () = connection.set("trypema:unknown:absolute:h:x", "x").unwrap();
    let before = dump_all(&mut connection);
    let report = world.fix().await;
    assert_well(&report, "nothing of ours is wrong");
    assert_eq!((report.others, report.undeclared), (11, 1));
    assert_eq!(dump_all(&mut connection), before);
    // A marker that is gone is noticed by what nobody declares.
    world.gate.shutdown().await;
    let () = connection.del("tidegate:marker").unwrap();
    let report = world.check().await;
    assert_eq!(report.defects.iter().map(|it| it.kind).collect::<Vec<_>>(), [DefectKind::MarkerMissing]);
    assert!(report.undeclared > 20, "{}", report.undeclared);
}

fn dump_all(connection: &mut redis::Connection) -> BTreeMap<Vec<u8>, i64> {
    let keys: Vec<Vec<u8>> = connection.keys("*").unwrap();
    // Ends of what is not ours: none has got one.
    keys.into_iter()
        .map(|key| (key.clone(), i64::from(connection.ttl::<_, i64>(&key).unwrap() >= 0)))
        .collect()
}

#[tokio::test]
async fn a_store_that_cannot_be_looked_at_is_an_error_and_an_empty_one_is_well() {
    let mut server = RedisServer::start();
    let doctor = Doctor::open(&server.url(), &StoreOptions::default()).await.unwrap();
    let report = doctor.check(&DoctorOptions::default(), |_| {}).await.unwrap();
    assert_well(&report, "nothing is there");
    assert_eq!((report.scanned, report.parts), (0, 0));
    server.kill();
    let error = doctor.check(&quick(), |_| {}).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(Doctor::open(&server.url(), &StoreOptions::default()).await.is_err());
    assert!(Doctor::open("memory:", &StoreOptions::default()).await.is_err());
}

/// What it is told to look at in a second it looks at in a second, and no faster.
#[tokio::test]
async fn a_doctor_is_no_faster_than_it_is_told_to_be() {
    let server = RedisServer::start();
    let namespace = Name::new(&unique("d")).unwrap();
    let world = World::open(&server.url(), options(namespace.as_str(), None, None)).await;
    for number in 0..10 {
        world.use_limits(number).await;
    }
    let doctor = world.doctor().await;
    let keys: u64 = world.check().await.families.iter().map(|it| it.keys).sum();
    let mut steps = Vec::new();
    let pace = DoctorOptions::default().keys_per_second(NonZeroU32::new(keys as u32));
    let started = monotonic();
    doctor.check(&pace, |it| steps.push(it)).await.unwrap();
    assert!(monotonic() - started >= Duration::from_millis(900), "{keys} keys");
    assert!(steps.last().unwrap().scanned >= keys && steps.last().unwrap().keys >= keys, "{steps:?}");
}
