//! A doctor finds what is wrong with a store, and nothing else; it mends what can be mended, and
//! nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redis::Commands as _;
use tidegate::clock::{ManualClock, Timestamp, monotonic};
use tidegate::doctor::{DefectKind, Doctor, DoctorOptions};
use tidegate::run::{QuotaKind, QuotaOptions};
use tidegate::store::{FAMILIES, StoreOptions};
use tidegate::testkit::{RedisCluster, RedisServer, hot, limit, run, session, unique};
use tidegate::{Cost, ErrorKind, Name, Tidegate};

use crate::doctor_world::{World, assert_well, options, quick};
use crate::kit::On;

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
    let known: BTreeSet<_> =
        FAMILIES.iter().map(|it| (it.pattern.to_owned(), it.key_type.to_owned())).collect();
    assert_eq!(documented, known);
    assert_eq!(known.len(), FAMILIES.len(), "each is there once");
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
        assert_eq!((keys("hours"), keys("calendar"), keys("absolute")), (3, 3, 3), "{url}");
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
    // But for what only an older program writes, and what only quotas do.
    let is_used = |name: &&str| !["ref_count", "hours"].contains(name);
    let all: BTreeSet<_> = FAMILIES.iter().map(|it| it.name).filter(is_used).collect();
    assert_eq!(seen, all, "every family is in use");
    assert!(report.families.iter().all(|it| it.bytes() > 0 || it.family.name == "marker"));
    assert!(report.entries > 100, "{}", report.entries);
    clock.advance_ms(40 * 3_600_000);
    assert_well(&world.check().await, "much later");
    world.hot.cleanup().await.unwrap();
    world.links.cleanup().await.unwrap();
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
        let (mut all, mut partly) = (0, 0);
        for namespace in &namespaces {
            for &at in clocks {
                let clock = ManualClock::at(Timestamp::from_millis(at));
                let doctor = Doctor::open(url, &options(namespace, partitions, Some(&clock))).await.unwrap();
                let report = doctor.check(&quick(), |_| {}).await.unwrap();
                assert_well(&report, namespace);
                partly += usize::from(report.undeclared > 0 && report.parts > 0);
                let ours: u64 = report.families.iter().map(|it| it.keys).sum();
                assert_eq!(ours + report.undeclared + report.others, report.scanned, "{namespace}");
                all += ours;
            }
        }
        // What ended before anybody could declare it, or all parts of it, is left alone. Keys that are of no
        // family would be in most that a room has written, a third of all or more.
        assert!(partly * 4 <= namespaces.len() * clocks.len(), "{partly}: keys are of a family");
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
    run::history::check(&on, 300);
    assert!(well(&[BEFORE, AFTER]) > 50);
}

/// All that there is, bit by bit, without ends.
fn dump(connection: &mut redis::Connection) -> BTreeMap<String, Vec<u8>> {
    let keys: Vec<String> = connection.keys("*").unwrap();
    let dumped = |key: String| {
        let bytes = redis::cmd("DUMP").arg(&key).query(connection).unwrap();
        (key, bytes)
    };
    // The sessions of a space are stamped all the time.
    keys.into_iter()
        .filter(|key| !key.ends_with("sessions:state") && !key.ends_with("marker"))
        .map(dumped)
        .collect()
}

/// What somebody does to a store, what is found then, where, and whether it can be mended.
struct Planted {
    commands: &'static [&'static str],
    kind: DefectKind,
    subject: &'static str,
    is_mendable: bool,
}

const fn planted(
    kind: DefectKind,
    subject: &'static str,
    is_mendable: bool,
    commands: &'static [&'static str],
) -> Planted {
    Planted { commands, kind, subject, is_mendable }
}

use DefectKind::{
    DataWithoutEntry, EntryWithoutData, Incomplete, MarkerDisagrees, MarkerMissing, Misplaced, NoTtl,
    SettingsDisagree, Unreadable, WrongType,
};

/// `~` stands for the namespace, `#` for a session that is held.
const PLANTED: &[Planted] = &[
    planted(
        NoTtl,
        "trypema:sliding:absolute:h:user:0",
        true,
        &["PERSIST ~trypema:sliding:absolute:h:user:0"],
    ),
    planted(NoTtl, "session:", true, &["PERSIST ~session:#"]),
    planted(NoTtl, "hot:rank", true, &["PERSIST ~hot:rank"]),
    planted(NoTtl, "tasks:manual_0", true, &["PERSIST ~courtlistener:tasks:manual_0T14:30:00+00:00"]),
    planted(NoTtl, "tidegate:marker", true, &["PERSIST ~tidegate:marker"]),
    planted(NoTtl, "broadcaster:channel 0", true, &["PERSIST ~broadcaster:channel_0"]),
    planted(
        WrongType,
        "token:user:0",
        false,
        &["DEL ~tidegate:bucket:token:user:0", "RPUSH ~tidegate:bucket:token:user:0 x"],
    ),
    planted(WrongType, "hot:due", false, &["DEL ~hot:due", "SET ~hot:due x EX 100"]),
    planted(WrongType, "active_sessions", false, &["DEL ~active_sessions", "SET ~active_sessions x EX 100"]),
    planted(
        WrongType,
        "runs_due",
        false,
        &["DEL ~courtlistener:runs_due", "HSET ~courtlistener:runs_due a b"],
    ),
    planted(
        EntryWithoutData,
        "hot:rank",
        true,
        &["DEL ~hot:meta:page:0 ~hot:window:page:0 ~hot:editors:page:0"],
    ),
    planted(EntryWithoutData, "hot:due", true, &["ZADD ~hot:due 99999999999999 ghost"]),
    planted(EntryWithoutData, "spaces:links:hot:rank:", true, &["ZADD ~spaces:links:hot:rank:1 5 ghost"]),
    planted(EntryWithoutData, "hot:activities", true, &["ZADD ~hot:activities 99999 ghost"]),
    planted(EntryWithoutData, "active_sessions", true, &["DEL ~session:#"]),
    planted(
        EntryWithoutData,
        "disconnected_sessions",
        true,
        &[
            "ZADD ~disconnected_sessions 1 6f2c1f9e-1111-4222-8333-123456789abc",
            "EXPIRE ~disconnected_sessions 900",
        ],
    ),
    planted(EntryWithoutData, "dead_sessions", true, &["ZADD ~dead_sessions 99999999999999 no-id"]),
    planted(
        EntryWithoutData,
        "courtlistener:runs",
        true,
        &["DEL ~courtlistener:pipeline:manual_2T14:30:00+00:00"],
    ),
    planted(
        EntryWithoutData,
        "runs:paused",
        true,
        &["ZADD ~courtlistener:runs:paused 1 ghost", "EXPIRE ~courtlistener:runs:paused 900"],
    ),
    planted(EntryWithoutData, "sliding:overrides", true, &["DEL ~trypema:sliding:override:user:0"]),
    planted(
        EntryWithoutData,
        "sliding:pending",
        true,
        &["ZADD ~trypema:sliding:pending 99999999999999 5:ghostid"],
    ),
    planted(
        EntryWithoutData,
        "reservations_due:user:0",
        true,
        &["ZADD ~trypema:sliding:reservations_due:user:0 99999999999999 ghost"],
    ),
    planted(DataWithoutEntry, "reservations:user:0", false, &["ZREM ~trypema:sliding:pending 6:user:0c"]),
    planted(DataWithoutEntry, "override:user:0", false, &["ZREM ~trypema:sliding:overrides user:0"]),
    planted(DataWithoutEntry, "hot:meta:page:0", false, &["ZREM ~hot:rank page:0"]),
    planted(DataWithoutEntry, "activity:quiet 0", false, &["ZREM ~hot:activities quiet_0"]),
    planted(DataWithoutEntry, "session:", false, &["ZREM ~active_sessions #"]),
    planted(
        DataWithoutEntry,
        "pipeline:manual_0",
        false,
        &["ZREM ~courtlistener:runs:processing manual_0T14:30:00+00:00"],
    ),
    planted(
        DataWithoutEntry,
        "a%3A%7Bb%7D%25:pipeline:manual_2",
        false,
        &["ZREM ~spaces:nightly:a%3A%7Bb%7D%25:runs_due manual_2T14:30:00+00:00"],
    ),
    planted(
        DataWithoutEntry,
        "fields:manual_9",
        false,
        &["HSET ~courtlistener:fields:manual_9 a b", "EXPIRE ~courtlistener:fields:manual_9 90000"],
    ),
    planted(Misplaced, "dead_sessions", false, &["ZADD ~dead_sessions 99999999999999 #"]),
    planted(
        Misplaced,
        "runs:paused",
        false,
        &[
            "ZADD ~courtlistener:runs:paused 1 manual_0T14:30:00+00:00",
            "EXPIRE ~courtlistener:runs:paused 900",
        ],
    ),
    planted(Incomplete, "hot:rank", false, &["DEL ~hot:meta:page:0"]),
    planted(Incomplete, "hot:meta:page:0", false, &["DEL ~hot:window:page:0"]),
    planted(
        Unreadable,
        "pipeline:manual_0",
        false,
        &["HSET ~courtlistener:pipeline:manual_0T14:30:00+00:00 attempt none"],
    ),
    planted(Unreadable, "session:", false, &["HSET ~session:# s x value v config_json {} last_update 1"]),
    planted(MarkerDisagrees, "tidegate:marker", false, &["HSET ~tidegate:marker hash other"]),
    planted(
        MarkerDisagrees,
        "{0}:tidegate:marker",
        false,
        &["HSET ~{0}:tidegate:marker partitions 4", "EXPIRE ~{0}:tidegate:marker 900"],
    ),
    planted(MarkerMissing, "tidegate:marker", false, &["DEL ~tidegate:marker"]),
];

/// One server, a namespace for each defect.
#[tokio::test]
async fn each_planted_defect_is_found_and_only_what_can_be_is_mended() {
    let server = RedisServer::start();
    for planted in PLANTED {
        let mut connection = server.connection();
        let () = redis::cmd("FLUSHALL").query(&mut connection).unwrap();
        let (namespace, clock) = (unique("d"), ManualClock::at(Timestamp::from_millis(START_MS)));
        let mut world = World::open(&server.url(), options(&namespace, None, Some(&clock))).await;
        for number in 0..4 {
            world.use_all(number * 2).await;
        }
        assert_well(&world.check().await, "before");
        let held = world.sessions.find(crate::doctor_world::key("channel 0")).await.unwrap().unwrap().id;
        // Nobody puts it right again meanwhile.
        world.gate.shutdown().await;
        for command in planted.commands {
            let words = command.replace('~', &format!("{namespace}:")).replace('#', &held.to_string());
            let mut words = words.split(' ').map(|it| match it {
                // Texts with a space in them.
                it if it.ends_with("channel_0") || it.ends_with("quiet_0") => it.replace('_', " "),
                it => it.to_owned(),
            });
            let mut command = redis::cmd(&words.next().unwrap());
            let done: i64 = match command.arg(words.collect::<Vec<_>>()).query(&mut connection).unwrap() {
                redis::Value::Int(done) => done,
                _ => 1,
            };
            assert!(
                done > 0 || planted.kind == Unreadable || planted.kind == MarkerDisagrees,
                "{:?}",
                planted.commands
            );
        }
        let () = connection.set("somebody else's", "key").unwrap();
        world.options.clock = clock.clone().into();
        let before = dump(&mut connection);
        let found = world.check().await;
        let what = format!("{:?}: {:?}", planted.commands, found.defects);
        let is_it =
            |it: &&tidegate::doctor::Defect| it.kind == planted.kind && it.subject.contains(planted.subject);
        assert!(found.defects.iter().any(|it| is_it(&it)), "{what}");
        assert!(!found.is_well() && found.mended == 0, "{what}");
        // A look changes nothing.
        assert_eq!(dump(&mut connection), before, "{what}");
        let mended = world.fix().await;
        let after = dump(&mut connection);
        assert!(after.contains_key("somebody else's"));
        let ttl: i64 = connection.ttl("somebody else's").unwrap();
        assert_eq!(ttl, -1, "what is not ours gets no end");
        let it = mended.defects.iter().find(is_it).unwrap();
        assert_eq!(it.is_mended, planted.is_mendable, "{what}");
        if planted.is_mendable && planted.kind != EntryWithoutData {
            assert_eq!(after, before, "{what}: only an end was given");
        }
        if !planted.is_mendable && mended.mended == 0 {
            assert_eq!(after, before, "{what}: nothing was touched");
        }
        let again = world.check().await;
        assert!(
            !again.defects.iter().any(|it| is_it(&it)) || !planted.is_mendable,
            "{what}: {:?}",
            again.defects
        );
    }
}

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
        // In a cluster only one of them has the slot.
        let mut done = 0;
        for connection in &mut connections {
            done += connection.hset_nx::<_, _, _, i64>(&outside, "h", "x").unwrap_or_default();
            done += connection.del::<_, i64>(&marker).unwrap_or_default();
        }
        assert_eq!(done, 2);
        let report = world.check().await;
        let found: Vec<_> = report.defects.iter().map(|it| (it.kind, it.subject.as_str())).collect();
        assert_eq!(
            found,
            [(MarkerMissing, marker.as_str()), (DefectKind::OutsidePartitions, outside.as_str())]
        );
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

/// Traffic of all rooms for some seconds, and doctors who look all the while.
async fn no_false_defect(url: &str, partitions: Option<u32>) {
    let world = Arc::new(World::open(url, options(&unique("d"), partitions, None)).await);
    let is_over = Arc::new(AtomicBool::new(false));
    let workers: Vec<_> = (0..4)
        .map(|worker| {
            let (world, is_over) = (world.clone(), is_over.clone());
            tokio::spawn(async move {
                let mut number = worker;
                while !is_over.load(Ordering::Relaxed) {
                    world.use_all(number % 101).await;
                    for claim in world.sessions.claim(3).await.unwrap().claims {
                        let _ = world.sessions.ack(claim.id, claim.generation).await.unwrap();
                    }
                    number += 7;
                }
                number
            })
        })
        .collect();
    let until = monotonic() + Duration::from_secs(5);
    let mut looks = 0;
    while monotonic() < until {
        let report = world.check().await;
        assert_well(&report, "beside traffic");
        // To mend beside traffic takes nothing away either.
        assert_well(&world.fix().await, "beside traffic");
        looks += 1;
    }
    is_over.store(true, Ordering::Relaxed);
    for worker in workers {
        assert!(worker.await.unwrap() > 20, "there was traffic");
    }
    assert!(looks >= 2, "{looks}");
    assert_well(&world.check().await, "after it");
    world.gate.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn beside_live_traffic_nothing_is_taken_for_a_defect_on_one_server() {
    let server = RedisServer::start();
    no_false_defect(&server.url(), None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn beside_live_traffic_nothing_is_taken_for_a_defect_in_a_cluster() {
    let cluster = RedisCluster::start();
    no_false_defect(&cluster.url(), Some(6)).await;
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
    assert_eq!(report.defects.iter().map(|it| it.kind).collect::<Vec<_>>(), [MarkerMissing]);
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
