//! What is so only where rules are in a file.

use tidegate_edge::ErrorKind;
use tidegate_edge::rule::Terms;
use tidegate_edge::truth::{Change, Condition, Truth};

use crate::kit::{World, draft, terms};

#[tokio::test]
async fn a_second_writer_is_refused_and_told_of_the_first() {
    let world = World::sqlite().await;
    let error = Truth::open(&world.url, &world.options).await.expect_err("one process at a time");
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains(&format!("process {}", std::process::id())), "{error}");
}

#[tokio::test]
async fn a_link_leads_to_the_same_lock() {
    let world = World::sqlite().await;
    world.create("a", terms("/a", "/x")).await;
    let link = world.folder().join("link.db");
    std::os::unix::fs::symlink("rules.db", &link).unwrap();
    let url = format!("sqlite:{}", link.display());
    let error = Truth::open(&url, &world.options).await.expect_err("one process at a time");
    assert!(error.to_string().contains("one process at a time"), "{error}");
    // Also where there is nothing yet that it leads to.
    let (file, link) = (world.folder().join("new.db"), world.folder().join("new-link.db"));
    std::os::unix::fs::symlink("new.db", &link).unwrap();
    let _first = Truth::open(&format!("sqlite:{}", link.display()), &world.options).await.unwrap();
    let second = Truth::open(&format!("sqlite:{}", file.display()), &world.options).await;
    assert!(second.expect_err("it is the same").to_string().contains("one process at a time"));
}

#[tokio::test]
async fn what_was_written_is_there_when_it_is_opened_again() {
    let world = World::sqlite().await;
    world.create("a", terms("/a", "/x")).await;
    let before = world.truth.position().await.unwrap();
    let World { truth, options, url, .. } = &world;
    let (options, url) = (options.clone(), url.clone());
    // The lock is given back by the last handle.
    let copy = world.folder().join("copy.db");
    drop(truth.clone());
    let backup = rusqlite::Connection::open(url.strip_prefix("sqlite:").unwrap()).unwrap();
    backup.execute("VACUUM INTO ?1", [copy.to_str().unwrap()]).unwrap();
    let again = Truth::open(&format!("sqlite:{}", copy.display()), &options).await.unwrap();
    assert_eq!(again.position().await.unwrap(), before);
    assert_eq!(again.get("a").await.unwrap(), truth.get("a").await.unwrap());
}

#[tokio::test]
async fn a_database_of_something_else_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("other.db");
    rusqlite::Connection::open(&path).unwrap().execute_batch("CREATE TABLE theirs (x)").unwrap();
    let url = format!("sqlite:{}", path.display());
    let error = Truth::open(&url, &Default::default()).await.expect_err("it is not ours");
    assert!(error.to_string().contains("something else"), "{error}");
    let newer = folder.path().join("newer.db");
    rusqlite::Connection::open(&newer).unwrap().execute_batch("PRAGMA user_version = 99").unwrap();
    let error =
        Truth::open(&format!("sqlite:{}", newer.display()), &Default::default()).await.expect_err("newer");
    assert!(error.to_string().contains("newer"), "{error}");
    for url in ["sqlite:", "mysql://x", "", "sqlite:/no/such/folder/rules.db"] {
        let error = Truth::open(url, &Default::default()).await.expect_err(url);
        assert_eq!(error.kind(), ErrorKind::Config, "{url}: {error}");
    }
}

#[tokio::test]
async fn a_change_writes_the_pages_of_what_it_changes_and_no_others() {
    let world = World::sqlite().await;
    let changes = (0..5000).map(|number| {
        let terms = terms(&format!("/{:05}", number * 7919 % 5000), &format!("/to/{number}"));
        Change::Create(draft(&format!("rule-{number:05}"), terms))
    });
    for outcome in world.truth.change_all(changes.collect()).await.unwrap() {
        outcome.unwrap();
    }
    let log = world.folder().join("rules.db-wal");
    let log_bytes = || std::fs::metadata(&log).unwrap().len();
    // A frame of the log is a page and 24 bytes.
    let frame_bytes = 4096 + 24;
    for number in [17, 2500, 4983] {
        let before = log_bytes();
        let rule = world.truth.get(&format!("rule-{number:05}")).await.unwrap().unwrap();
        let mut terms = rule.terms;
        terms.note = "another".to_owned();
        let change = Change::Replace { id: rule.id, terms, condition: Condition::Exists };
        assert!(world.truth.change(change).await.unwrap().unwrap().seq.is_some());
        let frames = (log_bytes() - before) / frame_bytes;
        // The rule, its row of the log, and where the rules stand; a page may have been full.
        assert!((3..=5).contains(&frames), "{frames} pages for a note");
    }
}

#[tokio::test]
async fn every_column_that_a_change_is_found_by_is_that_of_the_rule() {
    let world = World::sqlite().await;
    let now_ms = world.truth.position().await.unwrap().time_ms;
    let changed = |change: &dyn Fn(&mut Terms)| {
        let mut terms = terms("/a", "/x");
        terms.tags = vec!["x".to_owned(), "y".to_owned()];
        change(&mut terms);
        terms
    };
    let all = [
        changed(&|_| ()),
        changed(&|it| it.host = "go.example".to_owned()),
        changed(&|it| it.path = "/b".to_owned()),
        changed(&|it| it.destination = "/y".to_owned()),
        changed(&|it| it.enabled = false),
        changed(&|it| it.starts_at = Some(now_ms + 60_000)),
        changed(&|it| it.expires_at = Some(now_ms + 60_000)),
        changed(&|it| it.tags = vec!["y".to_owned(), "z".to_owned()]),
        changed(&|it| it.tags.clear()),
        changed(&|it| it.note = "another".to_owned()),
    ];
    world.create("a", all[0].clone()).await;
    let file = rusqlite::Connection::open(world.url.strip_prefix("sqlite:").unwrap()).unwrap();
    let columns = |id: &str| {
        file.query_row(
            "SELECT host, path, destination, state, next_at,
                    (SELECT group_concat(tag, ' ') FROM (SELECT tag FROM tags WHERE id = ?1 ORDER BY tag))
             FROM rules WHERE id = ?1",
            [id],
            |row| {
                type Columns = (String, String, String, String, Option<u64>, Option<String>);
                let columns: Columns =
                    (row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?);
                Ok(columns)
            },
        )
        .unwrap()
    };
    // From each to each.
    for from in &all {
        for to in &all {
            for terms in [from, to] {
                let (id, terms) = ("a".to_owned(), terms.clone());
                let change = Change::Replace { id, terms, condition: Condition::Exists };
                world.truth.change(change).await.unwrap().unwrap();
            }
            let rule = world.truth.get("a").await.unwrap().unwrap();
            let now_ms = world.truth.position().await.unwrap().time_ms;
            let terms = rule.terms.clone();
            let expected = (
                terms.host,
                terms.path,
                terms.destination,
                rule.state(now_ms).as_str().to_owned(),
                rule.next_at(now_ms),
                Some(terms.tags.join(" ")).filter(|tags| !tags.is_empty()),
            );
            assert_eq!(columns("a"), expected, "from {from:?}");
        }
    }
    // Also if time has gone on since they were written.
    let started = changed(&|it| (it.path, it.starts_at) = ("/started".to_owned(), Some(now_ms + 10)));
    world.create("b", started.clone()).await;
    assert_eq!(columns("b").3, "scheduled");
    world.clock.advance_ms(20);
    let mut terms = started;
    terms.note = "another".to_owned();
    let change = Change::Replace { id: "b".to_owned(), terms, condition: Condition::Exists };
    world.truth.change(change).await.unwrap().unwrap();
    let (_, _, _, state, next_at, _) = columns("b");
    assert_eq!((&*state, next_at), ("live", None));
}
