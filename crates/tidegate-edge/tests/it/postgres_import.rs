//! Imports where several servers share a database: each is one change among theirs, or none.

use std::io;
use std::sync::mpsc;

use tidegate_edge::ErrorKind;
use tidegate_edge::Result;
use tidegate_edge::formats::{ExportFormat, Format, Reader};
use tidegate_edge::rule::State;
use tidegate_edge::stream::{StreamOptions, Tail};
use tidegate_edge::truth::{
    Ask, Change, Condition, Grant, ImportMode, ImportOptions, ImportOutcome, ImportReport, ImportStep,
    Report, Return, Returned, Seq, Truth,
};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::import::{LARGE, check, exported, filter, import, import_with, large, lines, options};
use crate::kit::{SOON, World, counted, terms, until_none};
use crate::replica::{Replica, catch_up};

fn csv(text: impl Into<String>) -> Reader {
    Reader::new(Format::Csv, io::Cursor::new(text.into().into_bytes()))
}

/// An import that waits at a step until it is told to go on.
struct Waiting {
    import: JoinHandle<Result<ImportReport>>,
    go: mpsc::Sender<()>,
}

impl Waiting {
    /// Starts it, and waits until it is there.
    async fn at(step: ImportStep, truth: &Truth, reader: Reader, options: ImportOptions) -> Self {
        let (reached, mut at) = tokio::sync::mpsc::unbounded_channel();
        let (go, gate) = mpsc::channel();
        let truth = truth.clone();
        let import = tokio::spawn(async move {
            let progress = move |progress: tidegate_edge::truth::ImportProgress| {
                if progress.step == step {
                    reached.send(()).unwrap();
                    // Whoever has let it go says nothing.
                    let _ = gate.recv();
                }
            };
            truth.import(reader, options, progress).await
        });
        timeout(SOON, at.recv()).await.expect("it comes there").unwrap();
        Self { import, go }
    }

    async fn go_on(self) -> Result<ImportReport> {
        self.go.send(()).unwrap();
        timeout(SOON, self.import).await.expect("it ends").unwrap()
    }
}

fn put(id: &str, path: &str, destination: &str) -> Change {
    Change::Replace { id: id.to_owned(), terms: terms(path, destination), condition: Condition::None }
}

#[tokio::test]
async fn an_import_is_heard_at_the_other_server_and_its_followers_end_equal() {
    let world = World::postgres().await;
    let other = world.another_server().await;
    let (tail, mut heard) = (Tail::start(&other, StreamOptions::default()), other.last_change());
    let mut replica = Replica::default();
    catch_up(&mut replica, &tail, &other).await;
    let before = replica.reloads.len();
    let report = import(&world, "a,/a,/x\nb,/b,/x\n").await;
    timeout(SOON, heard.wait_for(|seq| Some(*seq) == report.seq)).await.expect("it is heard").unwrap();
    catch_up(&mut replica, &tail, &other).await;
    assert_eq!(replica.reloads[before..], ["rules were imported"]);
    assert_eq!(replica.rules.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_servers_import_at_once_one_after_the_other() {
    const RULES: u64 = 600;
    let world = World::postgres().await;
    let servers = [world.truth.clone(), world.another_server().await];
    for round in 0..5 {
        // Each has half of the other's rules too, with another destination, and the same ids that are made.
        let file = |server: u64| {
            let row = move |number: u64| {
                let id = number + server * RULES / 2;
                format!("r{id},/r{id},/{round}/{server}\n,/made/{id},/{round}/{server}\n")
            };
            "id,path,destination\n".to_owned() + &(0..RULES).map(row).collect::<String>()
        };
        let before = world.truth.position().await.unwrap().seq;
        let imports: Vec<_> = (0..2)
            .map(|server| {
                let (truth, reader) = (servers[server as usize].clone(), csv(file(server)));
                tokio::spawn(async move { truth.import(reader, ImportOptions::default(), |_| ()).await })
            })
            .collect();
        let mut reports = Vec::new();
        for (server, import) in imports.into_iter().enumerate() {
            let report = timeout(SOON, import).await.expect("it ends").unwrap().unwrap();
            assert_eq!(report.outcome, ImportOutcome::Written, "{:?}", report.problems);
            assert_eq!(report.created + report.changed, 2 * RULES, "{report:?}");
            reports.push((report.seq.unwrap(), server));
        }
        reports.sort();
        let [(first, _), (second, last)] = reports[..] else { panic!("{reports:?}") };
        assert_eq!((first, second), (before.next(), before.next().next()));
        // What both have is as the second says, what one has is as that one says.
        for line in exported(&world.truth, ExportFormat::Jsonl).await.lines() {
            let rule: tidegate_edge::rule::Rule = serde_json::from_str(line).unwrap();
            let number: u64 =
                rule.terms.path.trim_start_matches(|c: char| !c.is_ascii_digit()).parse().unwrap();
            let server = match number {
                number if number < RULES / 2 => 0,
                number if number >= RULES => 1,
                _ => last,
            };
            assert_eq!(rule.terms.destination, format!("/{round}/{server}"), "{line}");
        }
        assert_eq!(world.truth.position().await.unwrap().count, 3 * RULES);
        check(&world).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_another_server_writes_while_a_file_is_staged_is_judged() {
    let world = World::postgres().await;
    let other = world.another_server().await;
    import(&world, "a,/a,/x\nb,/b,/x\n").await;
    let file = "id,path,destination\na,/a,/y\nb,/b,/y\nc,/c,/y\nd,/d,/y\n,/e,/y\n";
    let waiting = async || {
        let reader = csv(file);
        Waiting::at(ImportStep::Checking, &world.truth, reader, options(|it| it.partial = true)).await
    };
    // One that is in the file is changed, one is gone, one has come, and one has a place of the file.
    let import = waiting().await;
    let changes = vec![
        put("a", "/a", "/z"),
        Change::Delete { id: "b".to_owned(), condition: Condition::None },
        put("c", "/c", "/y"),
        put("theirs", "/d", "/z"),
        put("by place", "/e", "/z"),
    ];
    assert!(other.change_all(changes).await.unwrap().iter().all(Result::is_ok));
    let report = import.go_on().await.unwrap();
    assert_eq!((report.created, report.changed, report.unchanged), (1, 2, 1), "{report:?}");
    assert_eq!(lines(&report), [(5, None)]);
    assert_eq!(report.seq, Some(Seq(7)));
    let version = async |id: &str| world.truth.get(id).await.unwrap().unwrap().version;
    assert_eq!((version("a").await, version("b").await, version("by place").await), (3, 1, 2));
    // Another import is judged too.
    let import = waiting().await;
    let replace = options(|it| it.mode = ImportMode::Replace);
    let report = other.import(csv("id,path,destination\nz,/z,/x\n"), replace, |_| ()).await.unwrap();
    assert_eq!((report.created, report.deleted), (1, 5));
    let report = import.go_on().await.unwrap();
    assert_eq!((report.created, report.changed, report.problems.count), (5, 0, 0), "{report:?}");
    check(&world).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clicks_that_come_while_a_file_is_merged_are_judged() {
    let world = World::postgres().await;
    let other = world.another_server().await;
    let file = |destination: &str| {
        format!("id,path,destination,maxClicks\na,/a,{destination},3\nb,/b,{destination},3\nc,/c,/x,3\n")
    };
    import_with(&world, file("/x"), ImportOptions::default()).await;
    let ask = |rule: &str, number| Ask { rule: rule.to_owned(), worker: "w".to_owned(), number, wanted: 1 };
    assert!(matches!(other.grant(ask("a", 1)).await.unwrap().grant, Grant::Block { permits: 1, .. }));
    let import =
        Waiting::at(ImportStep::Writing, &world.truth, csv(file("/y")), ImportOptions::default()).await;
    let clicks = vec![counted("a", 2), counted("b", 1), counted("c", 3)];
    let report = Report { worker: "w".to_owned(), number: 1, clicks };
    assert!(timeout(SOON, other.report(report)).await.expect("nothing is locked yet").unwrap());
    let back = Return { worker: "w".to_owned(), number: 1, spent: 1 };
    assert_eq!(other.give_back(back).await.unwrap(), Returned::Counted);
    assert_eq!(import.go_on().await.unwrap().changed, 2);
    let rule = async |id: &str| {
        let rule = world.truth.get(id).await.unwrap().unwrap();
        (rule.terms.destination, rule.clicks)
    };
    assert_eq!((rule("a").await, rule("b").await), (("/y".to_owned(), 3), ("/y".to_owned(), 1)));
    let ended = world.truth.list(filter(|it| it.state = Some(State::Ended)), None, 10).await.unwrap().rules;
    assert_eq!(ended.iter().map(|rule| &*rule.id).collect::<Vec<_>>(), ["a", "c"]);
    assert_eq!(other.grant(ask("a", 2)).await.unwrap().grant, Grant::Spent);
    check(&world).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_counts_clicks_and_whoever_imports_never_wait_in_a_circle() {
    const RULES: u64 = 300;
    let world = World::postgres().await;
    let other = world.another_server().await;
    // Those that stay are changed, every second one goes and comes back.
    let file = |round: u64| {
        let rows = (0..RULES).filter(|number| round.is_multiple_of(2) || number % 2 == 0);
        let rows = rows.map(|number| format!("r{number:03},/{number},/to/{round}\n"));
        "id,path,destination\n".to_owned() + &rows.collect::<String>()
    };
    let replace = options(|it| it.mode = ImportMode::Replace);
    import_with(&world, file(0), replace).await;
    let is_over = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let reporters: Vec<_> = (0..4_u64)
        .map(|worker| {
            let (truth, is_over) = (other.clone(), is_over.clone());
            tokio::spawn(async move {
                let mut reports = 0;
                while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                    reports += 1;
                    let clicks = (0..RULES).map(|number| counted(format!("r{number:03}"), 1)).collect();
                    let report = Report { worker: format!("w{worker}"), number: reports, clicks };
                    assert!(truth.report(report).await.unwrap());
                }
                reports
            })
        })
        .collect();
    for round in 1..12 {
        let report = import_with(&world, file(round), replace).await;
        assert_eq!(report.outcome, ImportOutcome::Written);
    }
    is_over.store(true, std::sync::atomic::Ordering::Relaxed);
    let mut reports = 0;
    for reporter in reporters {
        reports += timeout(SOON, reporter).await.expect("it ends").unwrap();
    }
    assert!(reports > 4);
    // What was never deleted has every click.
    let rule = world.truth.get("r000").await.unwrap().unwrap();
    assert_eq!((rule.clicks, rule.version), (reports, 12));
    check(&world).await;
    let client = world.client().await;
    // What a connection has done is told when it ends, at the latest.
    drop((world, other));
    let ours = "pg_stat_activity WHERE datname = current_database() AND application_name = 'tidegate'";
    until_none(&client, ours).await;
    let deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
    assert_eq!(client.query_one(deadlocks, &[]).await.unwrap().get::<_, i64>(0), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_that_others_are_in_the_way_of_is_merged_again() {
    let world = World::postgres().await;
    import(&world, "a,/a,/x\nb,/b,/x\n").await;
    let (theirs, watching) = (world.client().await, world.client().await);
    theirs.batch_execute("BEGIN; SELECT FROM tidegate.rules WHERE id = 'b' FOR UPDATE").await.unwrap();
    let truth = world.truth.clone();
    let reader = csv("id,path,destination\na,/b,/y\nb,/a,/y\n,/c,/y\n");
    let ours = tokio::spawn(async move { truth.import(reader, ImportOptions::default(), |_| ()).await });
    // We have `a` and wait for `b`; they have `b` and then wait for `a`.
    let waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted
        AND pid IN (SELECT pid FROM pg_stat_activity WHERE datname = current_database())";
    while watching.query_one(waiting, &[]).await.unwrap().get::<_, i64>(0) == 0 {
        tokio::task::yield_now().await;
    }
    theirs.batch_execute("SELECT FROM tidegate.rules WHERE id = 'a' FOR UPDATE; COMMIT").await.unwrap();
    let report = timeout(SOON, ours).await.expect("it ends").unwrap().unwrap();
    assert_eq!((report.seq, report.created, report.changed), (Some(Seq(2)), 1, 2), "{report:?}");
    let deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
    let deadlocks = async || watching.query_one(deadlocks, &[]).await.unwrap().get::<_, i64>(0);
    timeout(SOON, async { while deadlocks().await == 0 {} })
        .await
        .expect("one of both was in the other's way");
    check(&world).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_whose_connection_ends_writes_nothing() {
    let world = World::postgres().await;
    import_with(&world, "id,path,destination\na,/a,/x\n", ImportOptions::default()).await;
    let before = world.truth.position().await.unwrap();
    let client = world.client().await;
    let cut = "SELECT count(pg_terminate_backend(pid, 10000)) FROM pg_stat_activity WHERE datname = current_database()
        AND pid IN (SELECT pid FROM pg_locks WHERE relation IN (SELECT oid FROM pg_class WHERE relpersistence = 't'))";
    for step in [ImportStep::Checking, ImportStep::Writing] {
        let reader = Reader::new(Format::Csv, large(0));
        let import = Waiting::at(step, &world.truth, reader, ImportOptions::default()).await;
        let ended = match step {
            ImportStep::Writing => client.query_one(cut, &[]).await.unwrap().get::<_, i64>(0),
            // It holds no lock then: it is found by what it did last.
            _ => {
                let copying = "SELECT count(pg_terminate_backend(pid, 10000)) FROM pg_stat_activity
                    WHERE datname = current_database() AND query LIKE 'COPY pg_temp.staged%'";
                client.query_one(copying, &[]).await.unwrap().get(0)
            }
        };
        assert_eq!(ended, 1, "{step:?}");
        let error = import.go_on().await.expect_err("it was cut off");
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{step:?}: {error}");
        let after = world.truth.position().await.unwrap();
        assert_eq!((after.seq, after.digest), (before.seq, before.digest), "{step:?}");
    }
    check(&world).await;
    let report = import_with(&world, "id,path,destination\nb,/b,/x\n", ImportOptions::default()).await;
    assert_eq!(report.seq, Some(Seq(2)), "nobody is in the way");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_may_take_longer_than_connections_may_be_idle() {
    let world = World::postgres().await;
    let client = world.client().await;
    let ends = format!("ALTER DATABASE {} SET idle_session_timeout = '200ms'", world.database());
    client.batch_execute(&ends).await.unwrap();
    let import = Waiting::at(
        ImportStep::Checking,
        &world.truth,
        csv("id,path,destination\na,/a,/x\n"),
        ImportOptions::default(),
    )
    .await;
    // One that says nothing from now on, and is ended for it: the import was silent for longer.
    let idle = world.client().await;
    let pid: i32 = idle.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
    until_none(&client, &format!("pg_stat_activity WHERE pid = {pid}")).await;
    let report = import.go_on().await.unwrap();
    assert_eq!(report.outcome, ImportOutcome::Written, "{:?}", report.problems);
    check(&world).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_stops_waiting_does_not_stop_an_import() {
    let world = World::postgres().await;
    let reader = csv("id,path,destination\na,/a,/x\n");
    let import = Waiting::at(ImportStep::Checking, &world.truth, reader, ImportOptions::default()).await;
    let mut last = world.truth.last_change();
    import.import.abort();
    import.go.send(()).unwrap();
    timeout(SOON, last.wait_for(|seq| *seq == Seq(1))).await.expect("it is written").unwrap();
    assert!(world.truth.get("a").await.unwrap().is_some());
}

#[tokio::test]
async fn an_import_costs_what_its_file_has() {
    let world = World::postgres().await;
    let reader = Reader::new(Format::Csv, large(0));
    world.truth.import(reader, ImportOptions::default(), |_| ()).await.unwrap();
    let client = world.client().await;
    // Rows of rules that were looked at since, by all connections that have ended.
    let looked_at = async || {
        until_none(&client, "pg_class WHERE relpersistence = 't'").await;
        let rows =
            "SELECT pg_stat_clear_snapshot()::text, seq_tup_read + idx_tup_fetch FROM pg_stat_user_tables
            WHERE relname = 'rules'";
        client.query_one(rows, &[]).await.unwrap().get::<_, i64>(1) as u64
    };
    let before = looked_at().await;
    let few = "id,path,destination\nr7,/p/new,/x\nnew,/new,/x\n,/p/4,/x\n";
    let report = import_with(&world, few, ImportOptions::default()).await;
    assert_eq!((report.created, report.changed), (1, 2), "{report:?}");
    let after = looked_at().await;
    assert!(after - before < 100, "{before} {after}");
    // Also when PostgreSQL has counted what there is.
    for analyze in [false, true] {
        if analyze {
            client.batch_execute("ANALYZE tidegate.rules").await.unwrap();
        }
        let before = looked_at().await;
        let reader = Reader::new(Format::Csv, large(1 + u64::from(analyze)));
        let report = world.truth.import(reader, options(|it| it.partial = true), |_| ()).await.unwrap();
        assert!(report.changed > LARGE - 10, "{report:?}");
        let all = looked_at().await;
        assert!(all - before < 8 * LARGE, "{before} {all}");
    }
}
