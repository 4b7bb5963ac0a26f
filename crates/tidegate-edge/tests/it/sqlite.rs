//! What is so only where rules are in a file.

use tidegate_edge::ErrorKind;
use tidegate_edge::truth::Truth;

use crate::kit::{World, terms};

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
