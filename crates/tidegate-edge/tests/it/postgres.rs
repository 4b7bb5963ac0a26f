//! What is so only where rules are in a database that servers share.

use std::collections::BTreeSet;
use std::time::Duration;

use tidegate::clock::Clock;
use tidegate_edge::ErrorKind;
use tidegate_edge::stream::{Event, Mark, Message, Next, Snapshots, StreamOptions, Tail};
use tidegate_edge::truth::{
    Ask, Change, Condition, Fields, Filter, Grant, Report, Return, Returned, Seq, Truth, TruthOptions,
};
use tokio::time::timeout;

use crate::kit::{PostgresServer, QUICK, World, bodies, check, counted, terms};
use crate::replica::{Replica, catch_up};

/// Long enough for anything that comes at all.
const SOON: Duration = Duration::from_secs(30);

fn put(id: &str, destination: &str) -> Change {
    let terms = terms(&format!("/{id}"), destination);
    Change::Replace { id: id.to_owned(), terms, condition: Condition::None }
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_that_start_at_once_on_an_empty_database_all_work() {
    let (_, url) = PostgresServer::shared().database().await;
    let opening: Vec<_> = (0..6)
        .map(|_| {
            let url = url.clone();
            tokio::spawn(async move { Truth::open(&url, &TruthOptions::default()).await.unwrap() })
        })
        .collect();
    let mut epochs = BTreeSet::new();
    for (number, opened) in opening.into_iter().enumerate() {
        let truth = opened.await.unwrap();
        truth.change(put(&number.to_string(), "/x")).await.unwrap().unwrap();
        epochs.insert(truth.position().await.unwrap().epoch);
        check(&truth).await;
    }
    assert_eq!(epochs.len(), 1, "there is one database: {epochs:?}");
}

#[tokio::test]
async fn a_database_of_something_else_is_left_alone() {
    let server = PostgresServer::shared();
    let refused = async |name: &str, kind: ErrorKind, text: &str| {
        let error = Truth::open(&server.url(name), &Default::default()).await.expect_err(text);
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(text), "{error}");
        assert!(!error.to_string().contains("secret"), "{error}");
    };
    let (newer, url) = server.database().await;
    drop(Truth::open(&url, &Default::default()).await.unwrap());
    let client = server.client(&newer).await;
    client.batch_execute("INSERT INTO tidegate.migrations (version) VALUES (99)").await.unwrap();
    refused(&newer, ErrorKind::Config, "version 99, and this program knows 1").await;
    let (theirs, _) = server.database().await;
    let client = server.client(&theirs).await;
    let create =
        format!("CREATE SCHEMA tidegate AUTHORIZATION {theirs}; CREATE TABLE tidegate.theirs (x int)");
    client.batch_execute(&create).await.unwrap();
    refused(&theirs, ErrorKind::Config, "something else").await;
    let (latin, _) = server.database().await;
    let client = server.client("postgres").await;
    client.batch_execute(&format!("DROP DATABASE {latin}")).await.unwrap();
    let create = format!(
        "CREATE DATABASE {latin} OWNER {latin} TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C' LOCALE_PROVIDER libc"
    );
    client.batch_execute(&create).await.unwrap();
    refused(&latin, ErrorKind::Config, "LATIN1").await;
    client.batch_execute(&format!("DROP DATABASE {latin}")).await.unwrap();
    refused(&latin, ErrorKind::Config, "does not exist").await;
    let nobody = "postgres://127.0.0.1:1/rules";
    let error = Truth::open(nobody, &Default::default()).await.expect_err("nobody is there");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("127.0.0.1:1/rules"), "{error}");
}

#[tokio::test]
async fn who_may_not_make_a_schema_is_given_one() {
    let server = PostgresServer::shared();
    let (name, url) = server.database().await;
    let client = server.client(&name).await;
    let revoke =
        format!("ALTER DATABASE {name} OWNER TO postgres; REVOKE CREATE ON DATABASE {name} FROM {name}");
    client.batch_execute(&revoke).await.unwrap();
    let error = Truth::open(&url, &Default::default()).await.expect_err("it may not");
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    client.batch_execute(&format!("CREATE SCHEMA tidegate AUTHORIZATION {name}")).await.unwrap();
    let truth = Truth::open(&url, &Default::default()).await.unwrap();
    truth.change(put("a", "/x")).await.unwrap().unwrap();
    check(&truth).await;
}

#[tokio::test]
async fn time_is_the_databases() {
    let (name, url) = PostgresServer::shared().database().await;
    let mut options = TruthOptions::default();
    options.clock = Clock::system();
    let truth = Truth::open(&url, &options).await.unwrap();
    let client = PostgresServer::shared().client(&name).await;
    let now = async || {
        let now = "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint";
        client.query_one(now, &[]).await.unwrap().get::<_, i64>(0) as u64
    };
    let before = now().await;
    let rule = truth.change(put("a", "/x")).await.unwrap().unwrap().rule;
    let position = truth.position().await.unwrap();
    let after = now().await;
    assert!(before <= rule.created_at && rule.created_at <= position.time_ms && position.time_ms <= after);
}

#[tokio::test]
async fn changes_of_one_server_are_heard_at_the_other() {
    let world = World::postgres().await;
    let other = world.another_server().await;
    let mut heard = other.last_change();
    world.create("a", terms("/a", "/x")).await;
    timeout(SOON, heard.wait_for(|seq| *seq == Seq(1))).await.expect("it is heard").unwrap();
    // Whoever listened is cut off, and comes back.
    let (_, name) = world.url.rsplit_once('/').unwrap();
    let client = PostgresServer::shared().client(name).await;
    let listening = "FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'SELECT seq%'";
    let count = format!("SELECT count(*) {listening}");
    // One of each server; one may still be on its way.
    let both = async {
        while client.query_one(&count, &[]).await.unwrap().get::<_, i64>(0) != 2 {
            tokio::task::yield_now().await;
        }
    };
    timeout(SOON, both).await.expect("both listen");
    let cut = format!("SELECT count(pg_terminate_backend(pid)) {listening}");
    assert_eq!(client.query_one(&cut, &[]).await.unwrap().get::<_, i64>(0), 2);
    world.create("b", terms("/b", "/x")).await;
    timeout(SOON, heard.wait_for(|seq| *seq == Seq(2))).await.expect("what was missed is asked for").unwrap();
    world.create("c", terms("/c", "/x")).await;
    timeout(SOON, heard.wait_for(|seq| *seq == Seq(3))).await.expect("it is heard again").unwrap();
}

#[tokio::test]
async fn whoever_is_in_the_way_for_a_moment_fails_nothing() {
    let world = World::postgres().await;
    world.create("a", terms("/a", "/x")).await;
    world.create("b", terms("/b", "/x")).await;
    let (_, name) = world.url.rsplit_once('/').unwrap();
    let server = PostgresServer::shared();
    let (theirs, watching) = (server.client(name).await, server.client(name).await);
    // So that it is we who notice.
    theirs.batch_execute("SET deadlock_timeout = '1h'").await.unwrap();
    theirs.batch_execute("BEGIN; SELECT FROM tidegate.rules WHERE id = 'b' FOR UPDATE").await.unwrap();
    let truth = world.truth.clone();
    let ours = tokio::spawn(async move { truth.change_all(vec![put("a", "/y"), put("b", "/y")]).await });
    // We have `a` and wait for `b`; they have `b` and then wait for `a`.
    let waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted
        AND pid IN (SELECT pid FROM pg_stat_activity WHERE datname = current_database())";
    while watching.query_one(waiting, &[]).await.unwrap().get::<_, i64>(0) == 0 {
        tokio::task::yield_now().await;
    }
    theirs.batch_execute("SELECT FROM tidegate.rules WHERE id = 'a' FOR UPDATE; COMMIT").await.unwrap();
    let outcomes = timeout(SOON, ours).await.expect("it ends").unwrap().unwrap();
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    let deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
    let deadlocks = async || watching.query_one(deadlocks, &[]).await.unwrap().get::<_, i64>(0);
    timeout(SOON, async { while deadlocks().await == 0 {} })
        .await
        .expect("one of both was in the other's way");
    world.check().await;
}

#[tokio::test]
async fn no_question_reads_a_whole_table() {
    let world = World::postgres().await;
    for number in 0..30 {
        let mut given = terms(&format!("/{number}/*"), &format!("https://example.com/{number}"));
        (given.tags, given.max_clicks) = (vec!["t".to_owned()], Some(100));
        world.create(&number.to_string(), given).await;
    }
    for change in [
        (|it| it.host = Some("*".to_owned())) as fn(&mut Filter),
        |it| it.path_prefix = Some("/1".to_owned()),
        |it| it.tag = Some("t".to_owned()),
        |it| it.destination_prefix = Some("https:".to_owned()),
        |it| it.state = Some(tidegate_edge::rule::State::Live),
        |_| (),
    ] {
        let mut filter = Filter::default();
        change(&mut filter);
        let first = world.truth.list(filter.clone(), None, 2).await.unwrap();
        world.truth.list(filter, first.next, 2).await.unwrap();
    }
    world.truth.get("1").await.unwrap();
    world.truth.resolve("a.example.com", "/1/2/3").await.unwrap();
    world.truth.log(Seq(3), 5).await.unwrap();
    let ask = Ask { rule: "1".to_owned(), worker: "w".to_owned(), number: 1, wanted: 5 };
    world.truth.grant(ask).await.unwrap();
    world.truth.give_back(Return { worker: "w".to_owned(), number: 1, spent: 1 }).await.unwrap();
    let clicks = vec![counted("2", 1), counted("3", 1)];
    world.truth.report(Report { worker: "w".to_owned(), number: 1, clicks }).await.unwrap();
    world.truth.clicks("2").await.unwrap();
    let delete = |id: &str| Change::Delete { id: id.to_owned(), condition: Condition::None };
    world.truth.change_all(vec![delete("4"), delete("5"), put("6", "/x")]).await.unwrap();
    bodies(&world.truth).await;
    let (_, name) = world.url.rsplit_once('/').unwrap();
    let client = PostgresServer::shared().client(name).await;
    // What a connection has done is told when it ends, at the latest: all of them have to.
    drop(world);
    let others =
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid != pg_backend_pid()
        AND backend_type = 'client backend'";
    let counts = "SELECT relname::text, seq_scan, idx_scan FROM pg_stat_user_tables
        WHERE schemaname = 'tidegate' AND relname IN ('rules', 'tags', 'log', 'blocks', 'days')";
    let ended = timeout(SOON, async {
        while client.query_one(others, &[]).await.unwrap().get::<_, i64>(0) > 0 {
            tokio::task::yield_now().await;
        }
    });
    ended.await.expect("its connections end");
    let rows = client.query(counts, &[]).await.unwrap();
    let told: Vec<(String, i64, i64)> = rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect();
    assert_eq!(told.len(), 5);
    assert!(told.iter().all(|(_, _, by_index)| *by_index > 0), "each table was asked by an index: {told:?}");
    // An index that is made reads its table once.
    let indices = [("rules", 6), ("tags", 1), ("log", 1), ("blocks", 3), ("days", 1)];
    for (table, scans, _) in &told {
        let made = indices.iter().find(|(name, _)| name == table).unwrap().1;
        assert_eq!(*scans, made, "{told:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_budget_is_kept_over_two_servers() {
    const MAX: u64 = 300;
    let world = World::postgres().await;
    let mut given = terms("/a", "https://example.com/");
    given.max_clicks = Some(MAX);
    world.create("a", given).await;
    let servers = [world.truth.clone(), world.another_server().await];
    let workers: Vec<_> = (0..8_u64)
        .map(|worker| {
            let truth = servers[worker as usize % 2].clone();
            tokio::spawn(async move {
                let name = format!("w{worker}");
                let (mut spent, mut number) = (0, 0);
                loop {
                    number += 1;
                    let ask = Ask { rule: "a".to_owned(), worker: name.clone(), number, wanted: 16 };
                    match truth.grant(ask).await.unwrap().grant {
                        Grant::Block { permits, .. } => {
                            // Some of it comes back, all of it is said twice at once.
                            let used = permits.div_ceil(2);
                            spent += used;
                            let back =
                                || truth.give_back(Return { worker: name.clone(), number, spent: used });
                            let (one, two) = tokio::join!(back(), back());
                            let told = [one.unwrap(), two.unwrap()];
                            let counted = told.iter().filter(|it| **it == Returned::Counted).count();
                            assert_eq!(counted, 1, "{told:?}");
                        }
                        Grant::Wait { .. } => tokio::task::yield_now().await,
                        Grant::Spent => return spent,
                        other => panic!("{other:?}"),
                    }
                }
            })
        })
        .collect();
    let mut spent = 0;
    for worker in workers {
        spent += timeout(SOON, worker).await.expect("it ends").unwrap();
    }
    assert_eq!(spent, MAX, "all of it, and no more");
    assert_eq!(world.truth.get("a").await.unwrap().unwrap().clicks, MAX);
    world.check().await;
}

#[tokio::test]
async fn e13_a_restored_dump_is_noticed_by_who_follows() {
    let world = World::postgres().await;
    let (_, name) = world.url.rsplit_once('/').unwrap();
    let server = PostgresServer::shared();
    let tail = Tail::start(&world.another_server().await, StreamOptions::default());
    let mut replica = Replica::default();
    for number in 0..3 {
        world.truth.change(put("a", &format!("/{number}"))).await.unwrap().unwrap();
    }
    let dump = server.program("pg_dump", &["--clean", "--schema=tidegate", name], b"");
    for number in 3..6 {
        world.truth.change(put("b", &format!("/{number}"))).await.unwrap().unwrap();
    }
    catch_up(&mut replica, &tail, &world.truth).await;
    let mut changes = tail.follow(replica.follower.mark().cloned()).await.unwrap();
    let Next::Message(Message { event: Event::Sync(before), .. }) = changes.next().await.unwrap() else {
        panic!("no sync")
    };
    // Into the same database, under the servers' feet: they go on with what there is.
    server.program("psql", &["--quiet", "--single-transaction", "-v", "ON_ERROR_STOP=1", name], &dump);
    for number in 6..10 {
        world.truth.change(put("c", &format!("/{number}"))).await.unwrap().unwrap();
    }
    let after = world.truth.position().await.unwrap();
    assert_eq!(
        (&after.epoch, after.seq),
        (&before.epoch, Seq(7)),
        "PostgreSQL does not know that it went back"
    );
    assert_ne!(after.digest, before.digest);
    let told = timeout(SOON, changes.next()).await.expect("it is told").unwrap();
    assert!(matches!(told, Next::Message(Message { event: Event::Resync { .. }, .. })), "{told:?}");
    catch_up(&mut replica, &tail, &world.truth).await;
    assert_eq!(replica.reloads.len(), 2, "{:?}", replica.reloads);
    world.check().await;
}

/// A dump that is put back leaves smaller numbers under the same name: who was further begins anew, and is not given what was
/// read before, though that is further too and not old yet.
#[tokio::test]
async fn e13_who_is_further_than_a_restored_dump_reads_what_there_is() {
    let world = World::postgres().await;
    let (_, name) = world.url.rsplit_once('/').unwrap();
    let server = PostgresServer::shared();
    let tail = Tail::start(&world.truth, StreamOptions::default());
    let snapshots = Snapshots::of(&world.truth);
    world.truth.change(put("a", "/0")).await.unwrap().unwrap();
    let dump = server.program("pg_dump", &["--clean", "--schema=tidegate", name], b"");
    for number in 1..6 {
        world.truth.change(put("b", &format!("/{number}"))).await.unwrap().unwrap();
    }
    let mut replica = Replica::default();
    catch_up(&mut replica, &tail, &world.truth).await;
    assert_eq!(snapshots.get(Fields::All, None).await.unwrap().position().seq, Seq(6));
    server.program("psql", &["--quiet", "--single-transaction", "-v", "ON_ERROR_STOP=1", name], &dump);
    world.truth.change(put("c", "/9")).await.unwrap().unwrap();
    let now = world.truth.position().await.unwrap();
    assert_eq!(now.seq, Seq(2));
    for from in [None, Some(Mark::from(&now))] {
        let snapshot = snapshots.get(Fields::All, from.as_ref()).await.unwrap();
        assert_eq!((snapshot.position().seq, snapshot.position().digest), (now.seq, now.digest), "{from:?}");
    }
    let mut changes = tail.follow(replica.follower.mark().cloned()).await.unwrap();
    let following = async {
        while replica.follower.mark() != Some(&Mark::from(&now)) {
            let Next::Message(message) = changes.next().await.unwrap() else { panic!("it was cut off") };
            if let Some(from) = replica.take(message) {
                replica.reload(&snapshots, &from).await;
            }
        }
    };
    timeout(SOON, following).await.expect("it gets there");
    assert_eq!((replica.rules.len() as u64, replica.digest()), (now.count, now.digest));
}

/// A backup of the whole server that is started in its place: it is the same system, on the same timeline.
#[tokio::test]
async fn e13_a_restored_base_backup_is_noticed_by_who_follows() {
    let mut server = PostgresServer::start(&QUICK);
    let (_, url) = server.database().await;
    let truth = Truth::open(&url, &Default::default()).await.unwrap();
    let tail = Tail::start(&truth, StreamOptions::default());
    let (mut behind, mut beyond) = (Replica::default(), Replica::default());
    for number in 0..3 {
        truth.change(put("a", &format!("/{number}"))).await.unwrap().unwrap();
    }
    catch_up(&mut behind, &tail, &truth).await;
    let backup = server.backup();
    for number in 3..6 {
        truth.change(put("b", &format!("/{number}"))).await.unwrap().unwrap();
    }
    catch_up(&mut beyond, &tail, &truth).await;
    let before = truth.position().await.unwrap();
    server.restore(backup);
    let after = timeout(SOON, async {
        loop {
            match truth.position().await {
                Ok(position) => break position,
                Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
            }
        }
    });
    let after = after.await.expect("it is back");
    assert_eq!(
        (&after.epoch, after.seq),
        (&before.epoch, Seq(3)),
        "PostgreSQL does not know that it went back"
    );
    for number in 6..10 {
        truth.change(put("c", &format!("/{number}"))).await.unwrap().unwrap();
    }
    assert_eq!(truth.position().await.unwrap().seq, Seq(7), "beyond where it was");
    // Also at a server that has just been started, and knows of nothing before.
    let started = Truth::open(&url, &Default::default()).await.unwrap();
    let started = Tail::start(&started, StreamOptions::default());
    for tail in [&tail, &started] {
        let mut replica = Replica::default();
        replica.follower.loaded(beyond.follower.mark().unwrap().clone());
        catch_up(&mut replica, tail, &truth).await;
        assert!(
            replica.reloads.len() == 1 && replica.reloads[0].contains("gone back"),
            "{:?}",
            replica.reloads
        );
    }
    catch_up(&mut behind, &started, &truth).await;
    assert_eq!(behind.reloads.len(), 1, "what it had is still so: {:?}", behind.reloads);
    assert_eq!(behind.applied, [4, 5, 6, 7].map(Seq));
    check(&truth).await;
}

#[tokio::test]
async fn a_full_disk_stops_writes_alone() {
    let (disk, server) = PostgresServer::start(&QUICK).on_full_disk();
    let (_, url) = server.database().await;
    let truth = Truth::open(&url, &Default::default()).await.unwrap();
    let tail = Tail::start(&truth, StreamOptions::default());
    let mut replica = Replica::default();
    truth.change(put("a", "/x")).await.unwrap().unwrap();
    catch_up(&mut replica, &tail, &truth).await;
    let mut changes = tail.follow(replica.follower.mark().cloned()).await.unwrap();
    disk.fill();
    // What fits into pages that are there is written.
    let mut written = 0;
    let refused = loop {
        let mut given = terms(&format!("/{written}"), "https://example.com/");
        given.note = "long ".repeat(200);
        let (id, condition) = (written.to_string(), Condition::None);
        match truth.change(Change::Replace { id, terms: given, condition }).await {
            Ok(outcome) => drop(outcome.unwrap()),
            Err(error) => break error,
        }
        written += 1;
        assert!(written < 1000, "everything fits");
    };
    assert_eq!(refused.kind(), ErrorKind::Full, "{refused}");
    let position = truth.position().await.unwrap();
    assert_eq!(position.count, written + 1, "nothing of it was written");
    assert!(truth.get("a").await.unwrap().is_some());
    assert!(truth.resolve("h", "/a").await.unwrap().0.is_some());
    assert_eq!(truth.list(Filter::default(), None, 1).await.unwrap().rules.len(), 1);
    assert_eq!(bodies(&truth).await.1.len() as u64, position.count);
    // Who follows goes on, also from where it was, and who begins anew reads all rules.
    let told = timeout(SOON, changes.next()).await.expect("it goes on").unwrap();
    assert!(matches!(told, Next::Message(_)), "{told:?}");
    catch_up(&mut replica, &tail, &truth).await;
    assert_eq!(replica.reloads.len(), 1);
    catch_up(&mut Replica::default(), &tail, &truth).await;
    disk.free();
    truth.change(put("b", "/x")).await.unwrap().unwrap();
    catch_up(&mut replica, &tail, &truth).await;
    check(&truth).await;
}

#[tokio::test]
async fn tls_is_as_the_url_says() {
    let (server, authority) = PostgresServer::start_with_tls();
    let (name, _) = server.database().await;
    let url =
        |host: &str, rest: &str| format!("postgres://{name}:secret@{host}:{}/{name}{rest}", server.port());
    let authority = format!("sslrootcert={}", authority.display());
    for (host, rest) in [
        ("localhost", format!("?sslmode=verify-full&{authority}")),
        ("localhost", format!("?sslmode=require&{authority}")),
        ("localhost", format!("?{authority}")),
        ("127.0.0.1", "?sslmode=prefer".to_owned()),
        ("localhost", String::new()),
    ] {
        let truth = Truth::open(&url(host, &rest), &Default::default()).await.unwrap_or_else(|error| {
            panic!("{host}{rest}: {error}");
        });
        truth.get("a").await.unwrap();
        let encrypted = "SELECT count(*), count(*) FILTER (WHERE NOT s.ssl) FROM pg_stat_ssl s
            JOIN pg_stat_activity a USING (pid) WHERE a.application_name = 'tidegate'";
        let row = server.client("postgres").await.query_one(encrypted, &[]).await.unwrap();
        assert!(row.get::<_, i64>(0) > 0);
        assert_eq!(row.get::<_, i64>(1), 0, "{rest}");
    }
    for (host, rest, text) in [
        ("localhost", "?sslmode=require".to_owned(), "certificate"),
        ("127.0.0.1", format!("?sslmode=require&{authority}"), "certificate"),
        ("localhost", "?sslmode=disable".to_owned(), "no encryption"),
        ("localhost", "?sslmode=require&sslrootcert=/no/such/file".to_owned(), "/no/such/file"),
        ("localhost", "?sslmode=allow".to_owned(), "sslmode"),
    ] {
        let error = Truth::open(&url(host, &rest), &Default::default()).await.expect_err(&rest);
        assert_eq!(error.kind(), ErrorKind::Config, "{rest}: {error}");
        assert!(error.to_string().contains(text), "{rest}: {error}");
        assert!(!error.to_string().contains("secret"), "{error}");
    }
    // A password that was wrong from the start is a mistake; one that was changed since is an outage.
    let truth = Truth::open(&url("localhost", ""), &Default::default()).await.unwrap();
    let client = server.client("postgres").await;
    client.batch_execute(&format!("ALTER ROLE {name} PASSWORD 'another'")).await.unwrap();
    let cut =
        format!("SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE usename = '{name}'");
    client.batch_execute(&cut).await.unwrap();
    let error = Truth::open(&url("localhost", ""), &Default::default()).await.expect_err("it is another");
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    let error = truth.get("a").await.expect_err("it is another");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    let error = truth.change(put("b", "/x")).await.expect_err("it is another");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
}

/// However many rules come before them in the order that they are listed in.
#[tokio::test]
async fn a_page_reads_no_more_of_an_index_than_where_its_rules_are() {
    const LISTS: usize = 10;
    let server = PostgresServer::shared();
    let (name, url) = server.database().await;
    let truth = Truth::open(&url, &TruthOptions::default()).await.unwrap();
    for first in (0..5000).step_by(1000) {
        let changes =
            (first..first + 1000).map(|number| put(&format!("{number:04}"), "https://example.com/"));
        assert!(truth.change_all(changes.collect()).await.unwrap().iter().all(Result::is_ok));
    }
    truth.change(put("rare", "https://rare.example/")).await.unwrap().unwrap();
    let client = server.client(&name).await;
    for (index, change) in [
        ("rules_by_path", (|it| it.path_prefix = Some("/r".to_owned())) as fn(&mut Filter)),
        ("rules_by_destination", |it| it.destination_prefix = Some("https://rare".to_owned())),
    ] {
        let read = async || -> i64 {
            let statement = "SELECT (idx_blks_read + idx_blks_hit)::bigint FROM pg_statio_user_indexes
                WHERE indexrelname = $1";
            client.query_one(statement, &[&index]).await.unwrap().get(0)
        };
        let list = async || {
            let mut filter = Filter::default();
            change(&mut filter);
            let page = truth.list(filter, None, 100).await.unwrap();
            assert_eq!(page.rules.iter().map(|it| &it.id).collect::<Vec<_>>(), ["rare"], "by {index}");
        };
        // What was read is counted once a second, when somebody reads.
        let counted = async || {
            tokio::time::sleep(Duration::from_millis(1100)).await;
            list().await;
            read().await
        };
        let before = counted().await;
        for _ in 0..LISTS {
            list().await;
        }
        let blocks = counted().await - before;
        let lists = LISTS as i64 + 1;
        assert!((lists..=4 * lists).contains(&blocks), "{lists} lists read {blocks} blocks of {index}");
    }
}
