//! What somebody has done to keys of ours is found, each by itself.

use std::collections::BTreeMap;

use redis::Commands as _;
use tidegate::clock::{ManualClock, Timestamp};
use tidegate::doctor::DefectKind::{
    self, DataWithoutEntry, EntryWithoutData, Incomplete, MarkerDisagrees, MarkerMissing, Misplaced, NoTtl,
    Unreadable, WrongType,
};
use tidegate::testkit::{RedisServer, unique};

use super::START_MS;
use super::world::{World, assert_well, key, options};

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
    // Where it would be the first to go.
    planted(EntryWithoutData, "hot:activities", true, &["ZADD ~hot:activities 1 ghost"]),
    // Behind one that may have ended, with a number that is none of ours.
    planted(
        EntryWithoutData,
        "hot:activities",
        true,
        &["DEL ~activity:quiet_0", "ZADD ~hot:activities 2.5 ghost"],
    ),
    // The first may have ended; the third had to be there with the second.
    planted(EntryWithoutData, "hot:activities", true, &["DEL ~activity:quiet_0 ~activity:quiet_4"]),
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
    planted(
        EntryWithoutData,
        "dead_sessions",
        true,
        &["ZADD ~dead_sessions 99999999999999 no-id", "EXPIRE ~dead_sessions 900"],
    ),
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
    planted(
        EntryWithoutData,
        "failed_at:manual_0",
        true,
        &["ZADD ~courtlistener:failed_at:manual_0T14:30:00+00:00 1 ghost"],
    ),
    planted(
        EntryWithoutData,
        "to_retry:manual_0",
        true,
        &["ZADD ~courtlistener:to_retry:manual_0T14:30:00+00:00 1 ghost"],
    ),
    planted(
        EntryWithoutData,
        "failed_at:manual_0",
        true,
        &["HDEL ~courtlistener:failures:manual_0T14:30:00+00:00 3"],
    ),
    planted(
        DataWithoutEntry,
        "failures:manual_0",
        false,
        &["ZREM ~courtlistener:failed_at:manual_0T14:30:00+00:00 3"],
    ),
    planted(
        Unreadable,
        "failures:manual_0",
        false,
        &["HSET ~courtlistener:failures:manual_0T14:30:00+00:00 3 x"],
    ),
    planted(
        Unreadable,
        "tasks:manual_0",
        false,
        &["HSET ~courtlistener:tasks:manual_0T14:30:00+00:00 process:docket x"],
    ),
    planted(
        Unreadable,
        "rate_limit:2023-11-14_22",
        false,
        &["SET ~courtlistener:rate_limit:2023-11-14_22 x EX 900"],
    ),
    planted(NoTtl, "rate_limit:hours", true, &["PERSIST ~courtlistener:rate_limit:hours"]),
    planted(NoTtl, "failed:2023-11-14_22", true, &["PERSIST ~courtlistener:failed:2023-11-14_22"]),
    planted(DataWithoutEntry, "reservations:user:0", false, &["ZREM ~trypema:sliding:pending 6:user:0c"]),
    planted(
        DataWithoutEntry,
        "reservations:user:0",
        false,
        &["ZREM ~trypema:sliding:reservations_due:user:0 c"],
    ),
    planted(DataWithoutEntry, "override:user:0", false, &["ZREM ~trypema:sliding:overrides user:0"]),
    planted(DataWithoutEntry, "hot:meta:page:0", false, &["ZREM ~hot:rank page:0"]),
    planted(
        DataWithoutEntry,
        "hot:window:page:0",
        false,
        &["DEL ~hot:meta:page:0", "ZREM ~hot:rank page:0", "ZREM ~hot:due page:0"],
    ),
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
    planted(
        DataWithoutEntry,
        "task_start:manual_0",
        false,
        &["HDEL ~courtlistener:tasks:manual_0T14:30:00+00:00 process:docket"],
    ),
    planted(
        Misplaced,
        "dead_sessions",
        false,
        &["ZADD ~dead_sessions 99999999999999 #", "EXPIRE ~dead_sessions 900"],
    ),
    planted(
        Misplaced,
        "runs:paused",
        false,
        &[
            "ZADD ~courtlistener:runs:paused 1 manual_0T14:30:00+00:00",
            "EXPIRE ~courtlistener:runs:paused 900",
        ],
    ),
    planted(
        NoTtl,
        "spaces:views:hot:counting:flushes:theirs",
        true,
        &["SET ~spaces:views:hot:counting:flushes:theirs 1"],
    ),
    planted(
        DataWithoutEntry,
        "spaces:views:hot:count:page:0",
        false,
        &["ZREM ~spaces:views:hot:counting:due page:0"],
    ),
    planted(
        DataWithoutEntry,
        "spaces:views:hot:count:quiet 0",
        false,
        &["ZREM ~spaces:views:hot:counting:activities quiet_0"],
    ),
    planted(
        EntryWithoutData,
        "spaces:views:hot:counting:rank",
        true,
        &["DEL ~spaces:views:hot:count:page:0"],
    ),
    planted(
        EntryWithoutData,
        "spaces:views:hot:counting:activities",
        true,
        &["ZADD ~spaces:views:hot:counting:activities 99999 ghost"],
    ),
    planted(
        Unreadable,
        "spaces:views:hot:count:page:0",
        false,
        &["SET ~spaces:views:hot:count:page:0 x EX 100"],
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
    planted(Unreadable, "reservations:user:0", false, &["HSET ~trypema:sliding:reservations:user:0 d x"]),
    planted(WrongType, "tidegate:marker", false, &["DEL ~tidegate:marker", "SET ~tidegate:marker x EX 900"]),
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
        world.hot.cleanup().await.unwrap();
        assert_well(&world.check().await, "cleaned up");
        let held = world.sessions.find(key("channel 0")).await.unwrap().unwrap().id;
        // Nobody puts it right again meanwhile.
        world.gate.shutdown().await;
        for command in planted.commands {
            let words = command.replace('~', &format!("{namespace}:")).replace('#', &held.to_string());
            let mut words = words.split(' ').map(|it| match it {
                // Texts with a space in them.
                it if it.ends_with("channel_0") || it.contains("quiet_") => it.replace('_', " "),
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
        // What is in the way of another key is no defect of that.
        assert!(found.defects.iter().all(|it| it.kind == planted.kind), "{what}");
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

/// However many there are, all are found and mended; a thousand of a kind are told one by one.
#[tokio::test]
async fn however_many_defects_there_are_all_are_counted_and_mended() {
    const GHOSTS: u64 = 2500;
    let server = RedisServer::start();
    let (namespace, clock) = (unique("d"), ManualClock::at(Timestamp::from_millis(START_MS)));
    let world = World::open(&server.url(), options(&namespace, None, Some(&clock))).await;
    world.use_all(0).await;
    world.gate.shutdown().await;
    let mut plant = redis::pipe();
    for ghost in 0..GHOSTS {
        plant.zadd(format!("{namespace}:hot:due"), format!("ghost {ghost}"), 99_999_999_999_999_u64);
    }
    let () = plant.query(&mut server.connection()).unwrap();
    let found = world.check().await;
    assert_eq!((&found.counts[..], found.mended), (&[(EntryWithoutData, GHOSTS)][..], 0));
    assert_eq!(found.defects.len(), 1000);
    let mended = world.fix().await;
    assert_eq!((&mended.counts[..], mended.mended), (&[(EntryWithoutData, GHOSTS)][..], GHOSTS));
    assert!(mended.is_well());
    assert_well(&world.check().await, "mended");
}
