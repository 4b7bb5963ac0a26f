//! Keys of others under the names of sessions: nothing of ours is ever written to them.

use std::collections::BTreeMap;

use tidegate::session::{Found, Reconciled, State};

use crate::outage::until;
use crate::session::{GRACE, START_MS, Space, key, options};
use crate::session_flaws::raw;
use crate::session_migration::{MIGRATION, Old, id};

/// What another program might have under our names, of every type.
fn others() -> Vec<String> {
    let plain: Vec<_> = (900..930).map(id).collect();
    let mut commands = vec![
        // Sessions of another program: other fields, some of ours among them, nothing of ours.
        format!("HSET session:{} user_id 42 csrf abc expires 1999999999", plain[0]),
        format!("HSET session:{} value 1 last_update 5", plain[1]),
        format!("HSET session:{} value 1", plain[2]),
        format!("HSET session:{} user_id 7 last_disconnect 0", plain[3]),
        format!("HSET session:{} user_id 7 last_disconnect 1600000000", plain[4]),
        format!("HSET session:{} broadcaster_user_id 7 theme dark", plain[5]),
        format!("HSET session:{} s aaaaaaaaaaaaaaaaaaaaaaaaaaaaa m 5 h:x 6", plain[6]),
        format!("HSET session:{} s short broadcaster_user_id 7 last_disconnect 0", plain[7]),
        format!("SET session:{} text", plain[8]),
        format!("RPUSH session:{} 1 2", plain[9]),
        format!("SADD session:{} 1 2", plain[10]),
        format!("ZADD session:{} 1 2", plain[11]),
        format!("XADD session:{} 1-1 broadcaster_user_id 7", plain[12]),
        "HSET session:queue broadcaster_user_id 7 last_disconnect 0".to_owned(),
        "HSET session:0000000A-0000-4000-8000-00000000000A broadcaster_user_id 7 last_disconnect 0"
            .to_owned(),
        format!("HSET session:{}:messages broadcaster_user_id 7 last_disconnect 0", plain[13]),
        // Broadcasters of another program.
        "HSET broadcaster:123:settings theme dark".to_owned(),
        "SET broadcaster:124:settings dark".to_owned(),
        "RPUSH broadcaster:queue 1 2 3".to_owned(),
        "SADD broadcaster:all 1 2 3".to_owned(),
        "XADD broadcaster:log 1-1 a b".to_owned(),
        "ZADD broadcaster:rank 5 a".to_owned(),
        // A session that there is not, one that is another's, one that is nobody's.
        format!("SET broadcaster:gone {}", plain[20]),
        format!("SET broadcaster:stranger {}", id(0)),
        format!("SET broadcaster:other {}", plain[0]),
        "SET broadcaster: 1".to_owned(),
        // Counters of another program.
        "SET ref_count:pages 12".to_owned(),
        "HSET ref_count:users a 1".to_owned(),
        format!("SET ref_count:{} many", plain[21]),
        format!("SET ref_count:{} 1.5", plain[22]),
        format!("SET ref_count:{} 0x10", plain[23]),
        format!("RPUSH ref_count:{} 1", plain[24]),
        format!("HSET ref_count:{} a 1", plain[25]),
        "SET ref_count:0000000A-0000-4000-8000-00000000000A 3".to_owned(),
        // Of sessions that are another's too.
        format!("SET ref_count:{} 3", plain[0]),
        format!("SET ref_count:{} 0", plain[8]),
    ];
    // Under the very names that belong to a session that is taken over and reaped.
    commands.push(format!("DEL ref_count:{}", id(1)));
    commands.push(format!("RPUSH ref_count:{} 1", id(1)));
    commands.push("DEL broadcaster:old2".to_owned());
    commands.push("RPUSH broadcaster:old2 1".to_owned());
    commands
}

/// How many keys those are.
const OTHERS: usize = 38;

type Dumps = BTreeMap<String, (Vec<u8>, i64)>;

/// What is in each key and when it ends, bit by bit.
fn dumps(old: &Old, keys: &[String]) -> Dumps {
    let mut connection = old.server.connection();
    let mut read = |key: &String| {
        let dump: Vec<u8> = redis::cmd("DUMP").arg(key).query(&mut connection).unwrap();
        let ttl: i64 = redis::cmd("PTTL").arg(key).query(&mut connection).unwrap();
        (key.clone(), (dump, ttl))
    };
    keys.iter().map(&mut read).collect()
}

/// The keys that `commands` have written.
fn written(old: &Old, commands: &[String]) -> Vec<String> {
    let keys = commands.iter().map(|it| it.split(' ').nth(1).unwrap());
    let keys: std::collections::BTreeSet<_> = keys.collect();
    let prefixed = keys.iter().map(|key| match *key {
        // Its name ends where its value begins.
        "broadcaster:" => format!("{}:broadcaster:", old.space.namespace),
        key => format!("{}:{key}", old.space.namespace),
    });
    prefixed.collect()
}

#[tokio::test]
async fn keys_that_are_not_recognised_are_never_written_to() {
    let old = Old::with(30).await;
    let (space, sessions) = (&old.space, &old.space.sessions);
    let commands = others();
    old.old_program(&commands);
    let keys = written(&old, &commands);
    assert_eq!(keys.len(), OTHERS);
    let before = dumps(&old, &keys);

    let found = old.dry_run().await;
    assert_eq!(dumps(&old, &keys), before, "by looking");
    let reconciled = old.reconcile().await;
    assert_eq!(dumps(&old, &keys), before, "by reconciling");
    let counts = |it: &Reconciled| (it.unrecognised, it.invalid, it.sessions);
    assert_eq!((counts(&found), counts(&reconciled)), ((OTHERS as u64, 0, 30), (OTHERS as u64, 0, 30)));

    // Nor by any other call that meets them.
    for number in 900..926 {
        // Those of another type are an error.
        let _ = sessions.get(id(number)).await;
        let _ = sessions.resume(id(number), key("h")).await;
        let _ = sessions.delete(id(number)).await;
    }
    for name in ["123:settings", "queue", "gone", "stranger", "other"] {
        let _ = sessions.find(key(name)).await;
    }
    assert_eq!(space.get(id(1)).await.state, State::Orphan);
    space.pass(MIGRATION + GRACE).await;
    assert_eq!(sessions.cleanup().await.unwrap().deleted, 30);
    assert_eq!(dumps(&old, &keys), before, "by reaping");
    let left: Vec<String> = raw(&mut old.server.connection(), "KEYS *");
    let ours = |key: &&String| key.contains("marker") || key.ends_with(":state");
    assert_eq!(left.iter().filter(ours).count() + OTHERS, left.len(), "{left:?}");
}

/// The reconciliation that nobody asks for is as careful, comes when its time has come, and tells
/// what it has met.
#[tokio::test]
async fn the_automatic_reconciliation_leaves_them_alone_and_keeps_its_interval() {
    let old = Old::with(3).await;
    let commands = others();
    old.old_program(&commands);
    let keys = written(&old, &commands);
    let before = dumps(&old, &keys);
    let state = format!("{}:sessions:state", old.space.namespace);
    let gate = crate::session::open(&old.server.url(), &old.space.namespace, Some(&old.space.clock)).await;
    let interval = std::time::Duration::from_secs(60);
    let sessions = gate.sessions("sessions", options(|it| it.reconcile_interval = interval)).unwrap();
    let completed =
        async || -> Option<u64> { raw(&mut old.server.connection(), &format!("HGET {state} mended")) };
    let first = until("it is known when it begins", completed).await;
    assert_eq!(first, old.space.clock.now().as_millis());
    assert_eq!(sessions.counts().await.unwrap().active, 0, "nothing is done before its time");
    old.space.pass(60_000).await;
    until("it is done when a minute has passed", async || completed().await.filter(|at| *at > first)).await;
    assert_eq!(sessions.counts().await.unwrap().active, 1, "what is recognised is taken over");
    assert_eq!(dumps(&old, &keys), before);
    let met = crate::session::metric(&gate, "tidegate_session_unrecognised_keys_total");
    assert_eq!(met, OTHERS as u64);
    assert!(crate::session::metric(&gate, "orphan_cleanup_keys_scanned_total") >= OTHERS as u64 + 9);
    gate.shutdown().await;
}

/// A session is recognised with any of its five fields missing but one, and with what is
/// no number in its time.
#[tokio::test]
async fn remnants_of_the_older_program_are_recognised() {
    let old = Old::with(0).await;
    let space: &Space = &old.space;
    let times = ["nan", "-nan", "inf", "-inf", "-5", "1e400", "soon", "99999999999999999999", ""];
    for (number, time) in times.iter().enumerate() {
        let session = format!("{}:session:{}", space.namespace, id(number));
        let mut command = redis::cmd("HSET");
        command.arg(session).arg(&["broadcaster_user_id", "b", "last_disconnect", time]);
        command.exec(&mut old.server.connection()).unwrap();
    }
    old.old_program(&[
        format!("HSET session:{} last_disconnect 1600000000.5", id(100)),
        format!("HSET session:{} broadcaster_user_id x value 1 config_json 2 last_update 3", id(101)),
        format!("ZADD disconnected_sessions 5 {}", id(0)),
    ]);
    let found = old.dry_run().await;
    let reconciled = old.reconcile().await;
    assert_eq!(reconciled, found, "what was foretold");
    assert_eq!((reconciled.adopted_active, reconciled.adopted_disconnected), (times.len() as u64 + 1, 1));
    assert_eq!(old.dry_run().await.faults(), 0);
    for (number, time) in times.iter().enumerate() {
        assert_eq!(space.get(id(number)).await.state, State::Active, "{time}");
    }
    space.pass(MIGRATION + GRACE).await;
    assert_eq!(space.sessions.cleanup().await.unwrap().deleted, times.len() as u64 + 2);
}

/// A broadcaster has the session that names it, whatever its key says.
#[tokio::test]
async fn a_wrong_mapping_finds_nothing() {
    let old = Old::with(6).await;
    let sessions = &old.space.sessions;
    old.old_program(&[
        format!("SET broadcaster:old1 {}", id(2)),
        format!("SET broadcaster:nobody {}", id(2)),
    ]);
    assert_eq!(sessions.find(key("old1")).await.unwrap(), None);
    assert_eq!(sessions.find(key("nobody")).await.unwrap(), None);
    assert_eq!(sessions.find(key("old2")).await.unwrap().unwrap().id, id(2));
    // It has its own session from now on, and the other one is left alone.
    let made = sessions.activate(key("old1"), "{}", None).await.unwrap().done().unwrap();
    assert!(made.id != id(1) && made.id != id(2));
    assert_eq!(old.space.get(id(2)).await.broadcaster, "old2");
}

/// However much junk an index has, the sessions behind it are found.
#[tokio::test]
async fn junk_in_an_index_hides_nothing() {
    let old = Old::with(0).await;
    let (space, sessions) = (&old.space, &old.space.sessions);
    let mut ids = Vec::new();
    for number in 0..30 {
        ids.push(space.left(&format!("b{number}")).await);
    }
    let held = space.held("held", "h").await;
    let mut pipe = redis::pipe();
    for number in 0..3500 {
        let set = |name: &str| format!("{}:{name}", space.namespace);
        // Before all of them, at the same moment, and what is no text.
        pipe.zadd(set("disconnected_sessions"), format!("junk {number}"), number).ignore();
        let at = START_MS as f64 / 1000.0;
        pipe.zadd(
            set("disconnected_sessions"),
            [&[255, 0, 128][..], format!("{number}").as_bytes()].concat(),
            at,
        );
        pipe.ignore().zadd(set("active_sessions"), format!("junk {number}"), START_MS + 1 + number).ignore();
        pipe.zadd(set("dead_sessions"), format!("junk {number}"), number).ignore();
    }
    pipe.exec(&mut old.server.connection()).unwrap();
    ids.sort();
    let listed = async |after, limit| sessions.list_after(State::Disconnected, after, limit).await.unwrap();
    let all = listed(None, 100).await;
    assert_eq!(all.sessions.iter().map(|it| it.id).collect::<Vec<_>>(), ids);
    assert_eq!(all.invalid, 7000);
    let (mut paged, mut after) = (Vec::new(), None);
    while let Some(last) = {
        let page = listed(after, 7).await.sessions;
        paged.extend(page.iter().map(|it| it.id));
        page.last().copied()
    } {
        after = Some(last);
    }
    assert_eq!(paged, ids, "page by page");
    assert_eq!(sessions.list(State::Active, 5).await.unwrap().sessions[0].id, held);
    assert_eq!(sessions.list(State::Dead, 5).await.unwrap().sessions, []);
    // Silent ones are behind junk of their own set.
    space.pass(crate::session::LEASE).await;
    assert_eq!(listed(None, 100).await.sessions.len(), 31);
    space.pass(GRACE).await;
    assert_eq!(sessions.cleanup().await.unwrap().deleted, 31);
}

/// Older programs wrote ids in upper case too, and emptied a mapping instead of deleting it. They
/// name no session of ours, and must not keep a broadcaster from one. What such an id names is
/// left alone.
#[tokio::test]
async fn a_mapping_that_is_empty_or_in_upper_case_is_replaced() {
    let old = Old::with(0).await;
    let (space, sessions) = (&old.space, &old.space.sessions);
    let get = |key: &str| -> Option<String> {
        redis::cmd("GET")
            .arg(format!("{}:{key}", space.namespace))
            .query(&mut old.server.connection())
            .unwrap()
    };
    for (number, id) in ["", "67E55044-10B1-426F-9247-BB680E5FE0C8", "67e55044-10B1-426F-9247-bb680e5fe0c9"]
        .iter()
        .enumerate()
    {
        let name = format!("b{number}");
        let mapping = format!("{}:broadcaster:{name}", space.namespace);
        redis::cmd("SET").arg(&mapping).arg(id).exec(&mut old.server.connection()).unwrap();
        if !id.is_empty() {
            old.old_program(&[format!(
                "HSET session:{id} broadcaster_user_id {name} value 1 last_disconnect 0"
            )]);
        }
        assert_eq!(sessions.find(key(&name)).await.unwrap(), None, "{id:?}");
        assert_eq!(
            get(&format!("broadcaster:{name}")).as_deref(),
            Some(*id),
            "whoever looks changes nothing"
        );
        let made = sessions.activate(key(&name), "{}", None).await.unwrap().done().unwrap();
        assert_eq!(
            (made.found, space.get(made.id).await.broadcaster),
            (Found::Nothing, name.clone()),
            "{id:?}"
        );
        assert_eq!(get(&format!("broadcaster:{name}")), Some(made.id.to_string()), "{id:?}");
        assert_eq!(sessions.find(key(&name)).await.unwrap().unwrap().id, made.id, "{id:?}");
        let again = sessions.activate(key(&name), "{}", None).await.unwrap().done().unwrap();
        assert_eq!((again.found, again.id), (Found::Active, made.id), "{id:?}");
        if !id.is_empty() {
            let theirs = format!("HGETALL {}:session:{id}", space.namespace);
            let fields: Vec<String> = raw(&mut old.server.connection(), &theirs);
            assert_eq!(fields.len(), 6, "{id:?}: {fields:?}");
        }
    }
}
