//! Imports: all of a file as one change, or nothing.

use std::io::{self, Read};

use tidegate_edge::ErrorKind;
use tidegate_edge::formats::{ExportFormat, Format, MAX_PROBLEMS, Reader};
use tidegate_edge::rule::{
    MAX_DESTINATION_BYTES, MAX_ID_BYTES, MAX_NOTE_BYTES, MAX_PATH_BYTES, MAX_TAG_BYTES, MAX_TAGS, Rule, State,
};
use tidegate_edge::stream::{StreamOptions, Tail};
use tidegate_edge::truth::{
    Ask, Change, Condition, Digest, Filter, Grant, ImportMode, ImportOptions, ImportOutcome, ImportProgress,
    ImportReport, ImportStep, Return, Returned, Seq, Truth,
};

use crate::conformance::conformance;
use crate::kit::{START_MS, World, terms, until_none};
use crate::replica::{Replica, catch_up};

conformance!(
    an_import_is_one_change_and_followers_begin_anew,
    what_is_there_is_left_alone_or_is_the_next_version,
    any_problem_writes_nothing_unless_the_rest_is_asked_for,
    a_dry_run_writes_nothing,
    problems_are_kept_to_a_bound_and_all_counted,
    duplicates_name_the_first_line_however_many_there_are,
    warnings_name_their_lines_and_stop_nothing,
    rules_exchange_their_places_within_a_file,
    who_stays_because_of_another_keeps_the_next_from_coming,
    a_list_without_ids_is_imported_again_and_again,
    an_id_that_is_made_is_nobodys,
    what_a_file_replaces_takes_its_permits_and_clicks_with_it,
    clicks_of_what_changes_stay_and_of_what_is_new_come,
    a_file_may_replace_all_rules,
    a_file_that_breaks_off_writes_nothing,
    the_longest_rules_are_imported,
    a_long_log_is_cut_by_imports_too,
);

pub(crate) fn options(change: impl FnOnce(&mut ImportOptions)) -> ImportOptions {
    let mut options = ImportOptions::default();
    change(&mut options);
    options
}

pub(crate) fn dry(mut options: ImportOptions) -> ImportOptions {
    options.dry_run = true;
    options
}

/// The same report of another outcome.
pub(crate) fn with(report: &ImportReport, outcome: ImportOutcome, seq: Option<Seq>) -> ImportReport {
    let mut report = report.clone();
    (report.outcome, report.seq) = (outcome, seq);
    report
}

pub(crate) async fn import_with(
    world: &World,
    text: impl Into<String>,
    options: ImportOptions,
) -> ImportReport {
    let reader = Reader::new(Format::Csv, io::Cursor::new(text.into().into_bytes()));
    world.truth.import(reader, options, |_| ()).await.unwrap()
}

pub(crate) async fn import(world: &World, rows: &str) -> ImportReport {
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

pub(crate) fn lines(report: &ImportReport) -> Vec<(u64, Option<u64>)> {
    report.problems.first.iter().map(|it| (it.line, it.other_line)).collect()
}

async fn an_import_is_one_change_and_followers_begin_anew(world: World) {
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

async fn what_is_there_is_left_alone_or_is_the_next_version(world: World) {
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

async fn any_problem_writes_nothing_unless_the_rest_is_asked_for(world: World) {
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

async fn a_dry_run_writes_nothing(world: World) {
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

async fn problems_are_kept_to_a_bound_and_all_counted(world: World) {
    let rows: String = (0..MAX_PROBLEMS + 7).map(|_| "a,,/x\n").collect();
    let report = import(&world, &rows).await;
    assert_eq!(report.problems.count, MAX_PROBLEMS as u64 + 7);
    assert_eq!(report.problems.first.len(), MAX_PROBLEMS);
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!((&json["outcome"], &json["problems"]["first"][0]["line"]), (&"refused".into(), &2.into()));
    assert_eq!(serde_json::from_value::<ImportReport>(json).unwrap(), report);
}

async fn duplicates_name_the_first_line_however_many_there_are(world: World) {
    // Lines 2, 4, 6, … are one rule, and 3, 5, 7, … are for one place.
    let row = |number: u64| match number % 2 {
        0 => format!("a,/{number},/x\n"),
        _ => format!("{number},/b,/x\n"),
    };
    let report = import(&world, &(0..1200).map(row).collect::<String>()).await;
    assert_eq!((report.problems.count, report.rules, report.created), (1198, 2, 2));
    assert!(
        report.problems.first.iter().all(|it| it.other_line == Some(2 + it.line % 2)),
        "{:?}",
        report.problems
    );
    assert_eq!(report.problems.first.len(), MAX_PROBLEMS);
    assert_eq!(world.truth.position().await.unwrap().seq, Seq(0));
}

async fn warnings_name_their_lines_and_stop_nothing(world: World) {
    let text = "path,destination,code,expiresAt\n/a,/x,302,\n/b,/x,301,5\n";
    let report = import_with(&world, text, ImportOptions::default()).await;
    assert_eq!(report.outcome, ImportOutcome::Written);
    let lines: Vec<_> = report.warnings.first.iter().map(|it| it.line).collect();
    assert_eq!((report.warnings.count, &lines[..]), (2, &[3, 3][..]));
}

async fn rules_exchange_their_places_within_a_file(world: World) {
    import(&world, "a,/1,/x\nb,/2,/x\nc,/3,/x\n").await;
    let report = import(&world, "a,/2,/x\nb,/3,/x\nd,/1,/x\nc,/4,/x\n").await;
    assert_eq!((report.changed, report.created, report.problems.count), (3, 1, 0));
    assert_eq!(rules(&world).await, ["a /2 /x 2", "b /3 /x 2", "c /4 /x 2", "d /1 /x 1"]);
    check(&world).await;
}

async fn who_stays_because_of_another_keeps_the_next_from_coming(world: World) {
    import(&world, "a,/1,/x\nb,/2,/x\nc,/3,/x\nz,/4,/x\n").await;
    // c cannot leave /3, so b cannot leave /2, and a cannot leave /1.
    let rows = "id,path,destination\nd,/1,/x\na,/2,/x\nb,/3,/x\nc,/4,/x\ne,/5,/x\n";
    let report = import_with(&world, rows, options(|it| it.partial = true)).await;
    assert_eq!(lines(&report), [(2, None), (3, None), (4, None), (5, None)]);
    assert_eq!(rules(&world).await, ["a /1 /x 1", "b /2 /x 1", "c /3 /x 1", "e /5 /x 1", "z /4 /x 1"]);
    check(&world).await;
}

async fn a_list_without_ids_is_imported_again_and_again(world: World) {
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

async fn an_id_that_is_made_is_nobodys(first: World) {
    import(&first, ",/a,/x\n").await;
    let made = rules(&first).await[0].split(' ').next().unwrap().to_owned();
    // The same chance makes the same id, which somebody has thought of: in the database, or in the file.
    let second = first.another().await;
    second.create(&made, terms("/b", "/x")).await;
    assert_eq!(import(&second, ",/a,/x\n").await.created, 1);
    let third = first.another().await;
    assert_eq!(import(&third, &format!(",/a,/x\n{made},/b,/x\n")).await.created, 2);
    for world in [second, third] {
        let rule = world.truth.get(&made).await.unwrap().unwrap();
        assert_eq!((&*rule.terms.path, world.truth.position().await.unwrap().count), ("/b", 2));
        check(&world).await;
    }
}

async fn what_a_file_replaces_takes_its_permits_and_clicks_with_it(world: World) {
    let bounded = "id,path,destination,maxClicks\na,/a,/x,100\n";
    import_with(&world, bounded, ImportOptions::default()).await;
    let ask = Ask { rule: "a".to_owned(), worker: "w".to_owned(), number: 1, wanted: 5 };
    assert!(matches!(world.truth.grant(ask).await.unwrap().grant, Grant::Block { permits: 5, .. }));
    let replace = options(|it| it.mode = ImportMode::Replace);
    import_with(&world, "id,path,destination\nb,/b,/x\n", replace).await;
    import_with(&world, bounded, ImportOptions::default()).await;
    let late = Return { worker: "w".to_owned(), number: 1, spent: 3 };
    assert_eq!(world.truth.give_back(late).await.unwrap(), Returned::Unknown);
    let clicked = world.truth.clicks("a").await.unwrap().unwrap();
    assert_eq!((clicked.clicks, clicked.days.len()), (0, 0));
}

async fn clicks_of_what_changes_stay_and_of_what_is_new_come(world: World) {
    let text = |path: &str| {
        format!("id,path,destination,maxClicks,clicks\na,{path},/x,100,7\nb,/b,/x,3,3\nc,/c,/x,,9\n")
    };
    import_with(&world, text("/1"), ImportOptions::default()).await;
    let ask = |number| Ask { rule: "a".to_owned(), worker: "w".to_owned(), number, wanted: 5 };
    assert!(matches!(world.truth.grant(ask(1)).await.unwrap().grant, Grant::Block { permits: 5, .. }));
    let spent = Ask { rule: "b".to_owned(), ..ask(2) };
    assert_eq!(
        world.truth.grant(spent).await.unwrap().grant,
        Grant::Spent,
        "what was spent elsewhere is spent"
    );
    // The file says 7 of it still.
    assert_eq!(import_with(&world, text("/2"), ImportOptions::default()).await.changed, 1);
    let back = Return { worker: "w".to_owned(), number: 1, spent: 2 };
    assert_eq!(world.truth.give_back(back).await.unwrap(), Returned::Counted, "a block survives a change");
    let clicks = async |id: &str| world.truth.get(id).await.unwrap().unwrap().clicks;
    assert_eq!((clicks("a").await, clicks("b").await, clicks("c").await), (9, 3, 9));
    let ended = filter(|it| it.state = Some(State::Ended));
    let ended = world.truth.list(ended, None, 10).await.unwrap().rules;
    assert_eq!(ended.iter().map(|rule| &*rule.id).collect::<Vec<_>>(), ["b"]);
    // A bound that is lowered below what there were is reached.
    let lower = "id,path,destination,maxClicks\na,/2,/x,9\n";
    assert_eq!(import_with(&world, lower, ImportOptions::default()).await.changed, 1);
    assert_eq!(world.truth.grant(ask(3)).await.unwrap().grant, Grant::Spent);
    let ended = filter(|it| it.state = Some(State::Ended));
    assert_eq!(world.truth.list(ended, None, 10).await.unwrap().rules.len(), 2);
    check(&world).await;
}

async fn a_file_may_replace_all_rules(world: World) {
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
    assert_eq!(world.rows_of("tags").await, 2, "those of what is gone are gone");
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

async fn a_file_that_breaks_off_writes_nothing(world: World) {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("the client is gone"))
        }
    }
    let reader = Reader::new(Format::Csv, b"path,destination\n/a,/b\n".chain(Broken));
    let error = world.truth.import(reader, ImportOptions::default(), |_| ()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreadable);
    assert!(error.to_string().contains("the client is gone"), "{error}");
    assert_eq!(world.truth.position().await.unwrap().seq, Seq(0));
    nothing_is_left(&world).await;
    assert_eq!(import(&world, "a,/a,/x\n").await.created, 1, "it is in nobody's way");
}

async fn the_longest_rules_are_imported(world: World) {
    let long = |text: &str, bytes: usize| text.repeat(bytes / text.len());
    let rule = |number: u64| {
        let tags: Vec<_> =
            (0..MAX_TAGS).map(|tag| format!("{tag}{}", long("t", MAX_TAG_BYTES - 2))).collect();
        serde_json::json!({
            "id": format!("{number}{}", long("ü", MAX_ID_BYTES - 2)),
            "path": format!("/{number}{}", long("p", MAX_PATH_BYTES - 2)),
            "destination": format!("https://example.com/{number}{}", long("d", MAX_DESTINATION_BYTES - 21)),
            "note": long("€", MAX_NOTE_BYTES), "tags": tags,
        })
    };
    let text: String = (0..3).map(|number| format!("{}\n", rule(number))).collect();
    for expected in [(3, 0), (0, 3)] {
        let reader = Reader::new(Format::Jsonl, io::Cursor::new(text.clone().into_bytes()));
        let report = world.truth.import(reader, ImportOptions::default(), |_| ()).await.unwrap();
        assert_eq!((report.created, report.unchanged), expected, "{:?}", report.problems);
    }
    assert_eq!(world.rows_of("tags").await, 3 * MAX_TAGS as u64);
    check(&world).await;
}

async fn a_long_log_is_cut_by_imports_too(world: World) {
    let world = world.another_with(|it| it.max_log = 3).await;
    for number in 0..6 {
        import(&world, &format!("a,/a,/{number}\n")).await;
    }
    assert_eq!(world.truth.log(Seq(2), 10).await.unwrap(), None);
    let log = world.truth.log(Seq(3), 10).await.unwrap().expect("it goes back so far");
    assert_eq!(log.iter().map(|row| row.seq.0).collect::<Vec<_>>(), [4, 5, 6]);
}

/// What an import was put together in is gone.
async fn nothing_is_left(world: &World) {
    if world.is_sqlite() {
        assert_eq!(files(world), ["rules.db", "rules.db-lock", "rules.db-shm", "rules.db-wal"]);
    } else {
        until_none(&world.client().await, "pg_class WHERE relpersistence = 't'").await;
    }
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
        // One has a tag of its own each time.
        let tags = if id == 0 { format!("\"t0,round-{round}\"") } else { format!("t{}", id % 10) };
        format!("r{id},/p/{number},https://example.com/{round}/{id},{tags}\n").into_bytes()
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

pub(crate) struct ReadFn<F>(pub(crate) F);

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
async fn a_large_import_keeps_readers_going_and_writers_waiting_on_sqlite() {
    let world = World::sqlite().await;
    let connection = rusqlite::Connection::open(world.url.strip_prefix("sqlite:").unwrap()).unwrap();
    let all = indices(&connection);
    assert!(all.len() >= 5, "{all:?}");
    keeps_readers_going_and_writers_waiting(&world).await;
    // All that rules are found by is there again.
    assert_eq!(indices(&connection), all);
    let sound: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(sound, "ok");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_import_keeps_readers_going_and_writers_waiting_on_postgres() {
    keeps_readers_going_and_writers_waiting(&World::postgres().await).await;
}

async fn keeps_readers_going_and_writers_waiting(world: &World) {
    let other_server = world.another_server().await;
    world.create("other", terms("/other", "/x")).await;
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
        let truth = other_server.clone();
        let change = tokio::spawn(async move { truth.change(change).await.unwrap().unwrap() });
        go.send(()).unwrap();
        let report = import.await.unwrap().unwrap();
        assert_eq!(report.created + report.changed, LARGE, "{:?}", report.problems);
        assert_eq!(report.seq, Some(before.seq.next()));
        assert_eq!(change.await.unwrap().seq, report.seq.map(Seq::next), "it has waited");
    }
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
    nothing_is_left(world).await;
    check(world).await;
}

pub(crate) fn filter(change: impl FnOnce(&mut Filter)) -> Filter {
    let mut filter = Filter::default();
    change(&mut filter);
    filter
}
