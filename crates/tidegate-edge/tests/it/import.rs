//! Imports: all of a file as one change, or nothing.

use std::collections::BTreeMap;
use std::io::{self, Read};

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tidegate_edge::ErrorKind;
use tidegate_edge::formats::{ExportFormat, Format, MAX_PROBLEMS, Reader};
use tidegate_edge::rule::{Rule, State, Terms};
use tidegate_edge::stream::{StreamOptions, Tail};
use tidegate_edge::truth::{
    Ask, Change, Condition, Digest, Filter, Grant, ImportMode, ImportOptions, ImportOutcome, ImportProgress,
    ImportReport, ImportStep, Return, Returned, Seq, Truth,
};

use crate::kit::{START_MS, World, terms};
use crate::replica::{Replica, catch_up};

pub(crate) fn options(change: impl FnOnce(&mut ImportOptions)) -> ImportOptions {
    let mut options = ImportOptions::default();
    change(&mut options);
    options
}

fn dry(mut options: ImportOptions) -> ImportOptions {
    options.dry_run = true;
    options
}

/// The same report of another outcome.
fn with(report: &ImportReport, outcome: ImportOutcome, seq: Option<Seq>) -> ImportReport {
    let mut report = report.clone();
    (report.outcome, report.seq) = (outcome, seq);
    report
}

async fn import_with(world: &World, text: impl Into<String>, options: ImportOptions) -> ImportReport {
    let reader = Reader::new(Format::Csv, io::Cursor::new(text.into().into_bytes()));
    world.truth.import(reader, options, |_| ()).await.unwrap()
}

async fn import(world: &World, rows: &str) -> ImportReport {
    import_with(world, format!("id,path,destination\n{rows}"), ImportOptions::default()).await
}

pub(crate) async fn exported(truth: &Truth, format: ExportFormat) -> String {
    let (_, mut file) = truth.export(format).await.unwrap();
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    text
}

/// Log, rules, digest and what rules are found by agree.
pub(crate) async fn check(world: &World) {
    world.check().await;
    check_rules(&world.truth).await;
}

pub(crate) async fn check_rules(truth: &Truth) {
    let position = truth.position().await.unwrap();
    let (mut digest, mut count) = (Digest::default(), 0);
    for line in exported(truth, ExportFormat::Jsonl).await.lines() {
        let rule: Rule = serde_json::from_str(line).unwrap();
        let body = format!("{}}}", &line[..line.rfind(",\"clicks\":").unwrap()]);
        digest = digest.with(Digest::of(&rule.id, rule.version, &body));
        count += 1;
    }
    assert_eq!((digest, count), (position.digest, position.count));
}

/// Each rule as `id path destination version`.
async fn rules(world: &World) -> Vec<String> {
    let text = exported(&world.truth, ExportFormat::Jsonl).await;
    let shown = |line: &str| {
        let rule: Rule = serde_json::from_str(line).unwrap();
        format!("{} {} {} {}", rule.id, rule.terms.path, rule.terms.destination, rule.version)
    };
    text.lines().map(shown).collect()
}

fn lines(report: &ImportReport) -> Vec<(u64, Option<u64>)> {
    report.problems.first.iter().map(|it| (it.line, it.other_line)).collect()
}

#[tokio::test]
async fn an_import_is_one_change_and_followers_begin_anew() {
    let world = World::sqlite().await;
    world.create("b", terms("/b", "/x")).await;
    let tail = Tail::start(&world.truth, StreamOptions::default());
    let mut replica = Replica::default();
    catch_up(&mut replica, &tail, &world.truth).await;
    let reloads = replica.reloads.len();
    let (before, mut last_change) = (world.truth.position().await.unwrap(), world.truth.last_change());
    last_change.mark_unchanged();
    let report = import(&world, "a,/a,/y\nb,/b,/z\nc,/c,/y\n").await;
    assert_eq!((report.outcome, report.seq), (ImportOutcome::Written, Some(Seq(2))));
    assert_eq!((report.lines, report.rules, report.created, report.changed), (4, 3, 2, 1));
    assert!(last_change.has_changed().unwrap(), "whoever waits for a change is told");
    assert_eq!(*last_change.borrow(), Seq(2));
    let row = world.log().await.pop().unwrap();
    assert_eq!((row.id, row.before, row.after, row.count), (None, None, None, 3));
    assert_eq!(row.left, before.digest, "all that was there has left");
    assert_eq!((row.digest, row.at_ms), (row.came, START_MS));
    catch_up(&mut replica, &tail, &world.truth).await;
    assert_eq!(replica.reloads[reloads..], ["rules were imported"]);
    check(&world).await;
}

#[tokio::test]
async fn what_is_there_is_left_alone_or_is_the_next_version() {
    let world = World::sqlite().await;
    world.create("a", terms("/a", "/x")).await;
    world.create("b", terms("/b", "/x")).await;
    world.clock.advance_ms(5);
    let text = "id,path,destination,version,createdAt,updatedAt,clicks\n\
                a,/%61,/x,7,1,2,3\nb,/b,/y,7,1,2,3\nc,/c,/x,7,1,2,3\nd,/d,/x,,,,\n";
    let report = import_with(&world, text, ImportOptions::default()).await;
    assert_eq!((report.unchanged, report.changed, report.created), (1, 1, 2));
    let get = async |id: &str| {
        let rule = world.truth.get(id).await.unwrap().unwrap();
        (rule.version, rule.created_at, rule.updated_at, rule.clicks)
    };
    assert_eq!(get("a").await, (1, START_MS, START_MS, 0), "it says the same");
    assert_eq!(get("b").await, (2, START_MS, START_MS + 5, 0));
    assert_eq!(get("c").await, (7, 1, 2, 3), "a new one is what the file says");
    assert_eq!(get("d").await, (1, START_MS + 5, START_MS + 5, 0));
    let again = import_with(&world, text, ImportOptions::default()).await;
    assert_eq!((again.outcome, again.seq, again.unchanged), (ImportOutcome::Unchanged, None, 4));
    assert_eq!(world.truth.position().await.unwrap().seq, Seq(3));
    check(&world).await;
}

#[tokio::test]
async fn any_problem_writes_nothing_unless_the_rest_is_asked_for() {
    let world = World::sqlite().await;
    world.create("taken", terms("/taken", "/x")).await;
    let before = world.truth.position().await.unwrap();
    let text = "id,path,destination\na,/a,/x\nb,b,/x\na,/c,/x\nc,/%61,/x\nd,/taken,/x\ne,/e,\"mailto:\nx\"\nf,/f,/x\n";
    let refused = import_with(&world, text, ImportOptions::default()).await;
    assert_eq!((refused.outcome, refused.seq), (ImportOutcome::Refused, None));
    assert_eq!(lines(&refused), [(3, None), (4, Some(2)), (5, Some(2)), (6, None), (7, None)]);
    let messages: Vec<_> = refused.problems.first.iter().map(|it| &*it.message).collect();
    assert!(messages[1].contains("the id \"a\" is that of line 2"), "{messages:?}");
    assert!(messages[2].contains("the path \"/a\" is that of line 2"), "{messages:?}");
    assert!(messages[3].contains("the rule \"taken\""), "{messages:?}");
    assert_eq!(refused.problems.first[0].field.as_deref(), Some("path"));
    assert_eq!((refused.lines, refused.rules, refused.created, refused.problems.count), (9, 2, 2, 5));
    let told = import_with(&world, text, options(|it| it.dry_run = true)).await;
    assert_eq!(told, with(&refused, ImportOutcome::DryRun, None));
    assert_eq!(world.truth.position().await.unwrap(), before, "nothing was written");
    let partial = options(|it| it.partial = true);
    let told = import_with(&world, text, dry(partial)).await;
    assert_eq!(told, with(&refused, ImportOutcome::DryRun, None));
    let written = import_with(&world, text, partial).await;
    let expected = with(&refused, ImportOutcome::Written, Some(Seq(2)));
    assert_eq!(written, expected);
    assert_eq!(rules(&world).await, ["a /a /x 1", "f /f /x 1", "taken /taken /x 1"]);
    check(&world).await;
}

#[tokio::test]
async fn a_dry_run_writes_nothing() {
    let world = World::sqlite().await;
    world.create("a", terms("/a", "/x")).await;
    let before = exported(&world.truth, ExportFormat::Csv).await;
    let position = world.truth.position().await.unwrap();
    for mode in [ImportMode::Merge, ImportMode::Replace] {
        let dry = options(|it| (it.dry_run, it.mode) = (true, mode));
        let report = import_with(&world, "id,path,destination\nb,/b,/x\n", dry).await;
        assert_eq!((report.outcome, report.created), (ImportOutcome::DryRun, 1));
        assert_eq!(report.deleted, u64::from(mode == ImportMode::Replace));
    }
    assert_eq!(world.truth.position().await.unwrap(), position);
    assert_eq!(exported(&world.truth, ExportFormat::Csv).await, before);
}

#[tokio::test]
async fn problems_are_kept_to_a_bound_and_all_counted() {
    let world = World::sqlite().await;
    let rows: String = (0..MAX_PROBLEMS + 7).map(|_| "a,,/x\n").collect();
    let report = import(&world, &rows).await;
    assert_eq!(report.problems.count, MAX_PROBLEMS as u64 + 7);
    assert_eq!(report.problems.first.len(), MAX_PROBLEMS);
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!((&json["outcome"], &json["problems"]["first"][0]["line"]), (&"refused".into(), &2.into()));
    assert_eq!(serde_json::from_value::<ImportReport>(json).unwrap(), report);
}

#[tokio::test]
async fn warnings_name_their_lines_and_stop_nothing() {
    let world = World::sqlite().await;
    let text = "path,destination,code,expiresAt\n/a,/x,302,\n/b,/x,301,5\n";
    let report = import_with(&world, text, ImportOptions::default()).await;
    assert_eq!(report.outcome, ImportOutcome::Written);
    let lines: Vec<_> = report.warnings.first.iter().map(|it| it.line).collect();
    assert_eq!((report.warnings.count, &lines[..]), (2, &[3, 3][..]));
}

#[tokio::test]
async fn rules_exchange_their_places_within_a_file() {
    let world = World::sqlite().await;
    import(&world, "a,/1,/x\nb,/2,/x\nc,/3,/x\n").await;
    let report = import(&world, "a,/2,/x\nb,/3,/x\nd,/1,/x\nc,/4,/x\n").await;
    assert_eq!((report.changed, report.created, report.problems.count), (3, 1, 0));
    assert_eq!(rules(&world).await, ["a /2 /x 2", "b /3 /x 2", "c /4 /x 2", "d /1 /x 1"]);
    check(&world).await;
}

#[tokio::test]
async fn who_stays_because_of_another_keeps_the_next_from_coming() {
    let world = World::sqlite().await;
    import(&world, "a,/1,/x\nb,/2,/x\nc,/3,/x\nz,/4,/x\n").await;
    // c cannot leave /3, so b cannot leave /2, and a cannot leave /1.
    let rows = "id,path,destination\nd,/1,/x\na,/2,/x\nb,/3,/x\nc,/4,/x\ne,/5,/x\n";
    let report = import_with(&world, rows, options(|it| it.partial = true)).await;
    assert_eq!(lines(&report), [(2, None), (3, None), (4, None), (5, None)]);
    assert_eq!(rules(&world).await, ["a /1 /x 1", "b /2 /x 1", "c /3 /x 1", "e /5 /x 1", "z /4 /x 1"]);
    check(&world).await;
}

#[tokio::test]
async fn a_list_without_ids_is_imported_again_and_again() {
    let world = World::sqlite().await;
    world.create("mine", terms("/a", "/x")).await;
    let list =
        |to: &str| Reader::new(Format::Netlify, io::Cursor::new(format!("/a {to}\n/b {to}\n").into_bytes()));
    let report = world.truth.import(list("/y"), ImportOptions::default(), |_| ()).await.unwrap();
    assert_eq!((report.changed, report.created), (1, 1), "a rule without an id is that of its place");
    assert_eq!(world.truth.get("mine").await.unwrap().unwrap().version, 2);
    let again = world.truth.import(list("/y"), ImportOptions::default(), |_| ()).await.unwrap();
    assert_eq!((again.outcome, again.unchanged), (ImportOutcome::Unchanged, 2));
    let changed = world.truth.import(list("/z"), ImportOptions::default(), |_| ()).await.unwrap();
    assert_eq!((changed.changed, changed.created), (2, 0));
    // The one that is named goes elsewhere, and the one that is not is new.
    let report = import(&world, ",/a,/x\nmine,/c,/x\n").await;
    assert_eq!((report.changed, report.created, report.problems.count), (1, 1, 0));
    check(&world).await;
}

#[tokio::test]
async fn an_id_that_is_made_is_nobodys() {
    let first = World::sqlite().await;
    import(&first, ",/a,/x\n").await;
    let made = rules(&first).await[0].split(' ').next().unwrap().to_owned();
    // The same chance makes the same id, which somebody has thought of: in the database, or in the file.
    let second = World::sqlite().await;
    second.create(&made, terms("/b", "/x")).await;
    assert_eq!(import(&second, ",/a,/x\n").await.created, 1);
    let third = World::sqlite().await;
    assert_eq!(import(&third, &format!(",/a,/x\n{made},/b,/x\n")).await.created, 2);
    for world in [second, third] {
        let rule = world.truth.get(&made).await.unwrap().unwrap();
        assert_eq!((&*rule.terms.path, world.truth.position().await.unwrap().count), ("/b", 2));
        check(&world).await;
    }
}

#[tokio::test]
async fn what_a_file_replaces_takes_its_permits_and_clicks_with_it() {
    let world = World::sqlite().await;
    let bounded = "id,path,destination,maxClicks\na,/a,/x,100\n";
    import_with(&world, bounded, ImportOptions::default()).await;
    let ask = Ask { rule: "a".to_owned(), worker: "w".to_owned(), number: 1, wanted: 5 };
    assert!(matches!(world.truth.grant(ask).await.unwrap(), Grant::Block { permits: 5, .. }));
    let replace = options(|it| it.mode = ImportMode::Replace);
    import_with(&world, "id,path,destination\nb,/b,/x\n", replace).await;
    import_with(&world, bounded, ImportOptions::default()).await;
    let late = Return { worker: "w".to_owned(), number: 1, spent: 3 };
    assert_eq!(world.truth.give_back(late).await.unwrap(), Returned::Unknown);
    let clicked = world.truth.clicks("a").await.unwrap().unwrap();
    assert_eq!((clicked.clicks, clicked.days.len()), (0, 0));
}

#[tokio::test]
async fn a_file_may_replace_all_rules() {
    let world = World::sqlite().await;
    import_with(&world, "id,path,destination,tags\na,/a,/x,t\nb,/b,/x,\"t,u\"\n", ImportOptions::default())
        .await;
    let replace = options(|it| it.mode = ImportMode::Replace);
    let report = import_with(&world, "id,path,destination,tags\nc,/a,/x,u\nb,/b,/x,v\n", replace).await;
    // A rule with an id of its own takes the place of one that goes.
    assert_eq!((report.created, report.changed, report.deleted), (1, 1, 1));
    assert_eq!(rules(&world).await, ["b /b /x 2", "c /a /x 1"]);
    let by_tag = async |tag: &str| {
        let mut filter = Filter::default();
        filter.tag = Some(tag.to_owned());
        let page = world.truth.list(filter, None, 10).await.unwrap();
        page.rules.into_iter().map(|rule| rule.id).collect::<Vec<_>>().join(" ")
    };
    assert_eq!((&*by_tag("t").await, &*by_tag("u").await, &*by_tag("v").await), ("", "c", "b"));
    let connection = rusqlite::Connection::open(world.url.strip_prefix("sqlite:").unwrap()).unwrap();
    let tags: u64 = connection.query_row("SELECT count(*) FROM tags", [], |row| row.get(0)).unwrap();
    assert_eq!(tags, 2, "those of what is gone are gone");
    for (text, why) in [("id,path,destination\n", "empty"), ("id,path,destination\nx,x,/x\n", "a bad line")] {
        assert_eq!(import_with(&world, text, replace).await.outcome, ImportOutcome::Refused, "{why}");
    }
    let reader = Reader::new(Format::Csv, io::empty());
    let both = options(|it| (it.mode, it.partial) = (ImportMode::Replace, true));
    let error =
        world.truth.import(reader, both, |_| ()).await.expect_err("it would delete rules of bad lines");
    assert_eq!(error.kind(), ErrorKind::Config);
    assert_eq!(rules(&world).await.len(), 2);
    check(&world).await;
}

#[tokio::test]
async fn a_file_that_breaks_off_writes_nothing() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("the client is gone"))
        }
    }
    let world = World::sqlite().await;
    let reader = Reader::new(Format::Csv, b"path,destination\n/a,/b\n".chain(Broken));
    let error = world.truth.import(reader, ImportOptions::default(), |_| ()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreadable);
    assert!(error.to_string().contains("the client is gone"), "{error}");
    assert_eq!(world.truth.position().await.unwrap().seq, Seq(0));
    assert_eq!(files(&world), ["rules.db", "rules.db-lock", "rules.db-shm", "rules.db-wal"]);
}

/// What is in the folder of a database.
fn files(world: &World) -> Vec<String> {
    let entries = std::fs::read_dir(world.folder()).unwrap();
    let mut names: Vec<_> = entries.map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[tokio::test]
async fn what_a_dead_process_left_is_gone_when_the_database_is_opened() {
    let folder = tempfile::tempdir().unwrap();
    let (left, other) = (folder.path().join("rules.db-import-x1"), folder.path().join("rules.db-backup"));
    for path in [&left, &other] {
        std::fs::write(path, "x").unwrap();
    }
    let url = format!("sqlite:{}", folder.path().join("rules.db").display());
    Truth::open(&url, &Default::default()).await.unwrap();
    assert!(!left.exists() && other.exists());
}

/// How many rules a large import has: enough that indices are made anew.
pub(crate) const LARGE: u64 = 12_000;

pub(crate) fn large(round: u64) -> impl Read + Send + 'static {
    let row = move |number: u64| {
        // Not in the order of ids.
        let id = number * 7919 % LARGE;
        format!("r{id},/p/{number},https://example.com/{round}/{id},t{}\n", id % 10).into_bytes()
    };
    let mut rows = std::iter::once(b"id,path,destination,tags\n".to_vec()).chain((0..LARGE).map(row));
    let mut rest = io::Cursor::new(Vec::new());
    ReadFn(move |into: &mut [u8]| {
        while rest.position() == rest.get_ref().len() as u64 {
            match rows.next() {
                Some(row) => rest = io::Cursor::new(row),
                None => return Ok(0),
            }
        }
        rest.read(into)
    })
}

struct ReadFn<F>(F);

impl<F: FnMut(&mut [u8]) -> io::Result<usize>> Read for ReadFn<F> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0(into)
    }
}

/// What rules are found by.
fn indices(connection: &rusqlite::Connection) -> Vec<String> {
    let all = "SELECT sql FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL ORDER BY name";
    let mut select = connection.prepare(all).unwrap();
    let found = select.query_map([], |row| row.get(0)).unwrap();
    found.collect::<rusqlite::Result<_>>().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_import_keeps_readers_going_and_writers_waiting() {
    let world = World::sqlite().await;
    world.create("other", terms("/other", "/x")).await;
    let connection = rusqlite::Connection::open(world.url.strip_prefix("sqlite:").unwrap()).unwrap();
    let all = indices(&connection);
    assert!(all.len() >= 5, "{all:?}");
    for round in 0..2 {
        let (steps, mut step) = tokio::sync::mpsc::unbounded_channel();
        let (go, gate) = std::sync::mpsc::channel();
        let (truth, reader) = (world.truth.clone(), Reader::new(Format::Csv, large(round)));
        let progress = move |progress: ImportProgress| {
            steps.send(progress).unwrap();
            if progress.step == ImportStep::Writing {
                gate.recv().unwrap();
            }
        };
        let import =
            tokio::spawn(async move { truth.import(reader, ImportOptions::default(), progress).await });
        let mut lines = 0;
        loop {
            let progress = step.recv().await.unwrap();
            assert!(progress.lines >= lines && progress.bytes > 0);
            lines = progress.lines;
            if progress.step == ImportStep::Writing {
                break;
            }
        }
        assert_eq!(lines, LARGE + 1);
        // The transaction is open, and will be until we say so.
        let before = world.truth.position().await.unwrap();
        assert!(world.truth.resolve("x.example", "/other").await.unwrap().0.is_some());
        assert!(!world.truth.list(Filter::default(), None, 10).await.unwrap().rules.is_empty());
        let change = Change::Replace {
            id: "other".to_owned(),
            terms: terms("/other", &format!("/{round}")),
            condition: Condition::None,
        };
        let truth = world.truth.clone();
        let change = tokio::spawn(async move { truth.change(change).await.unwrap().unwrap() });
        go.send(()).unwrap();
        let report = import.await.unwrap().unwrap();
        assert_eq!(report.created + report.changed, LARGE, "{:?}", report.problems);
        assert_eq!(report.seq, Some(before.seq.next()));
        assert_eq!(change.await.unwrap().seq, report.seq.map(Seq::next), "it has waited");
    }
    // All that rules are found by is there again.
    assert_eq!(indices(&connection), all);
    let sound: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(sound, "ok");
    let (found, _) = world.truth.resolve("x.example", "/p/3").await.unwrap();
    assert_eq!(found.unwrap().terms.destination, format!("https://example.com/1/{}", 3 * 7919 % LARGE));
    for (filter, first) in [
        (filter(|it| it.tag = Some("t5".to_owned())), "r10005"),
        (filter(|it| it.path_prefix = Some("/p/123".to_owned())), "r2037"),
        (filter(|it| it.destination_prefix = Some("https://example.com/1/77".to_owned())), "r77"),
        (filter(|it| it.state = Some(State::Live)), "other"),
    ] {
        let page = world.truth.list(filter.clone(), None, 1).await.unwrap();
        assert_eq!(page.rules[0].id, first, "{filter:?}");
    }
    assert_eq!(files(&world), ["rules.db", "rules.db-lock", "rules.db-shm", "rules.db-wal"]);
    check(&world).await;
}

fn filter(change: impl FnOnce(&mut Filter)) -> Filter {
    let mut filter = Filter::default();
    change(&mut filter);
    filter
}

/// A rule with hostile text, as a line of our JSON.
fn hostile() -> impl Strategy<Value = serde_json::Value> {
    let text = || "[a-c\",;=|'\n\t \\[\\]{}\\\\ü€\u{1f600}#:-]{0,12}";
    let tag = "[a-c\",;| \\[\\]ü]{1,6}";
    let optional = |number: std::ops::Range<u64>| proptest::option::of(number);
    let times = (optional(0..5000), optional(5000..9000), optional(1..10), any::<bool>());
    let history = (1..9_u64, 0..9_u64, 0..9_u64, 0..12_u64);
    let terms =
        (text(), vec(tag, 0..4), 0..4_usize, any::<bool>(), 0..3_usize, proptest::option::of(0..9_u32));
    (text(), times, terms, history).prop_map(|(id, times, terms, history)| {
        let (starts, expires, clicks, has_fallback) = times;
        let (note, tags, code, enabled, query, max_age) = terms;
        let can_end = expires.is_some() || clicks.is_some();
        let (code, query) = ([301, 302, 307, 308][code], ["off", "append", "merge"][query]);
        serde_json::json!({
            "id": id.replace(['\n', '\t'], " ") + "-", "destination": format!("https://example.com/?{}", id.len()),
            "code": code, "query": query,
            "startsAt": starts, "expiresAt": expires, "maxClicks": clicks, "maxAge": max_age,
            "fallback": (has_fallback && can_end).then_some("/f,\"ü"), "tags": tags, "enabled": enabled,
            "note": note, "version": history.0, "createdAt": history.1, "updatedAt": history.2, "clicks": history.3,
        })
    })
}

async fn comes_back(lines: &[serde_json::Value]) -> Result<(), TestCaseError> {
    let world = World::sqlite().await;
    let mut unique = BTreeMap::new();
    for (number, line) in lines.iter().enumerate() {
        let mut line = line.clone();
        line["path"] =
            if number % 3 == 0 { format!("/ü,\"{number}/*") } else { format!("/p {number}") }.into();
        line["host"] = ["*", "x.example", "*.bücher.example"][number % 3].into();
        line["appendRest"] = (number % 3 == 0).into();
        unique.insert(line["id"].to_string(), line);
    }
    let text: String = unique.values().map(|line| format!("{line}\n")).collect();
    let reader = Reader::new(Format::Jsonl, io::Cursor::new(text.into_bytes()));
    let report = world.truth.import(reader, ImportOptions::default(), |_| ()).await.unwrap();
    prop_assert_eq!(
        (report.created, report.problems.count),
        (unique.len() as u64, 0),
        "{:?}",
        report.problems
    );
    for (format, read_as) in [(ExportFormat::Csv, Format::Csv), (ExportFormat::Jsonl, Format::Jsonl)] {
        let first = exported(&world.truth, format).await;
        let other = World::sqlite().await;
        other.clock.advance_ms(99);
        let reader = Reader::new(read_as, io::Cursor::new(first.clone().into_bytes()));
        let report = other.truth.import(reader, ImportOptions::default(), |_| ()).await.unwrap();
        prop_assert_eq!(report.created, unique.len() as u64, "{:?}", report.problems);
        prop_assert_eq!(exported(&other.truth, format).await, first);
        let (here, there) = (world.truth.position().await.unwrap(), other.truth.position().await.unwrap());
        prop_assert_eq!((here.digest, here.count), (there.digest, there.count));
        check(&other).await;
    }
    Ok(())
}

#[test]
fn an_export_comes_back_byte_for_byte() {
    let cases = std::env::var("TIDEGATE_HISTORY_OPS").map_or(40, |ops| ops.parse::<u32>().unwrap() / 50_000);
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let run = |lines: Vec<serde_json::Value>| {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(comes_back(&lines))
    };
    TestRunner::new(config).run(&vec(hostile(), 1..12), run).unwrap_or_else(|failure| panic!("{failure}"));
}

/// One line of a random file.
#[derive(Debug, Clone)]
struct Line {
    id: Option<u8>,
    path: u8,
    to: u8,
}

#[derive(Debug, Clone)]
struct File {
    lines: Vec<Line>,
    replace: bool,
    partial: bool,
}

fn histories() -> impl Strategy<Value = Vec<File>> {
    let line = (proptest::option::weighted(0.8, 0..6_u8), 0..6_u8, 0..2_u8);
    let line = line.prop_map(|(id, path, to)| Line { id, path, to });
    let file = (vec(line, 1..7), proptest::bool::weighted(0.2), proptest::bool::weighted(0.7));
    let file =
        file.prop_map(|(lines, replace, partial)| File { lines, replace, partial: partial && !replace });
    vec(file, 1..8)
}

/// Rules by their ids, as path and destination and version, in the simplest way that can be.
type Model = BTreeMap<String, (u8, u8, u64)>;

/// What a file makes of rules, and the lines of its problems. Ids that are made are called after their path.
fn expected(model: &Model, file: &File) -> (Model, Vec<u64>) {
    let mut problems = Vec::new();
    let mut kept: Vec<(u64, Option<String>, u8, u8)> = Vec::new();
    let rows = || file.lines.iter().enumerate().map(|(index, line)| (index as u64 + 2, line));
    for (line, row) in rows() {
        let id = row.id.map(|it| it.to_string());
        if id.is_some() && kept.iter().any(|(_, other, ..)| *other == id) {
            problems.push(line);
        } else {
            kept.push((line, id, row.path, row.to));
        }
    }
    let mut places = Vec::new();
    kept.retain(|(line, _, path, _)| {
        let is_first = !places.contains(path);
        places.push(*path);
        if !is_first {
            problems.push(*line);
        }
        is_first
    });
    let named: Vec<_> = kept.iter().filter_map(|(_, id, ..)| id.clone()).collect();
    let mut kept: Vec<(u64, String, u8, u8)> = kept
        .into_iter()
        .map(|(line, id, path, to)| {
            let owner = model.iter().find(|(owner, rule)| rule.0 == path && !named.contains(owner));
            let made =
                || owner.map_or(format!("made {line} {path} {}", model.len()), |(owner, _)| owner.clone());
            (line, id.unwrap_or_else(made), path, to)
        })
        .collect();
    let taken = |kept: &[(u64, String, u8, u8)]| {
        kept.iter().position(|(_, id, path, _)| {
            model.iter().any(|(owner, rule)| {
                rule.0 == *path && owner != id && !kept.iter().any(|(_, other, ..)| other == owner)
            })
        })
    };
    while let Some(at) = taken(&kept).filter(|_| !file.replace) {
        problems.push(kept.remove(at).0);
    }
    problems.sort();
    if !problems.is_empty() && !file.partial {
        return (model.clone(), problems);
    }
    let mut after = if file.replace { Model::new() } else { model.clone() };
    for (_, id, path, to) in kept {
        let version = match model.get(&id) {
            None => 1,
            Some(rule) => rule.2 + u64::from((rule.0, rule.1) != (path, to)),
        };
        after.insert(id, (path, to, version));
    }
    (after, problems)
}

async fn agrees(files: &[File]) -> Result<(), TestCaseError> {
    let world = World::sqlite().await;
    let mut model = Model::new();
    for file in files {
        let mut text = "id,path,destination\n".to_owned();
        for Line { id, path, to } in &file.lines {
            let id = id.map(|it| it.to_string()).unwrap_or_default();
            text += &format!("{id},/{path},https://example.com/{to}\n");
        }
        let how = options(|it| {
            it.partial = file.partial;
            it.mode = if file.replace { ImportMode::Replace } else { ImportMode::Merge };
        });
        let told = import_with(&world, text.clone(), dry(how)).await;
        let report = import_with(&world, text, how).await;
        prop_assert_eq!(&told, &with(&report, ImportOutcome::DryRun, None), "a dry run says the same");
        let (after, problems) = expected(&model, file);
        let found: Vec<_> = report.problems.first.iter().map(|it| it.line).collect();
        prop_assert_eq!(found, problems, "{:?} of {:?}", file, model);
        // Made ids differ: rules are compared by their places.
        let by_place = |rules: &Model| -> BTreeMap<u8, (Option<String>, u8, u64)> {
            let known = |id: &String| (id.len() == 1).then(|| id.clone());
            rules.iter().map(|(id, rule)| (rule.0, (known(id), rule.1, rule.2))).collect()
        };
        let mut there = Model::new();
        for line in exported(&world.truth, ExportFormat::Jsonl).await.lines() {
            let rule: Rule = serde_json::from_str(line).unwrap();
            let digit = |text: &str| text[text.len() - 1..].parse::<u8>().unwrap();
            there.insert(rule.id, (digit(&rule.terms.path), digit(&rule.terms.destination), rule.version));
        }
        prop_assert_eq!(by_place(&there), by_place(&after), "{:?} of {:?}", file, model);
        // What was made here goes by the database's names from now on.
        model = there;
    }
    check(&world).await;
    Ok(())
}

#[test]
fn imports_agree_with_a_list() {
    let cases = std::env::var("TIDEGATE_HISTORY_OPS").map_or(60, |ops| ops.parse::<u32>().unwrap() / 20_000);
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let run = |files: Vec<File>| {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(agrees(&files))
    };
    TestRunner::new(config).run(&histories(), run).unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn terms_are_all_in_an_export() {
    // Who gives a rule another field gives it a column too.
    let mut all = Terms::new("/a", "/b");
    (all.starts_at, all.expires_at, all.max_clicks) = (Some(1), Some(2), Some(3));
    (all.fallback, all.max_age, all.note) = (Some("/f".to_owned()), Some(4), "n".to_owned());
    all.tags = vec!["t".to_owned()];
    let serde_json::Value::Object(fields) = serde_json::to_value(&all).unwrap() else { panic!("no object") };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let header = runtime.block_on(async { exported(&World::sqlite().await.truth, ExportFormat::Csv).await });
    let columns: Vec<_> = header.trim().split(',').collect();
    for field in fields.keys() {
        assert!(columns.contains(&field.as_str()), "{field} is not in {columns:?}");
    }
    assert_eq!(columns.len(), fields.len() + 5, "and id, version, times and clicks");
}
