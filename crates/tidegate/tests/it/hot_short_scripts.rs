//! A call that would keep a server for long is made in parts, which nobody can tell from one: nothing is lost, nothing is
//! recorded twice.

use std::time::Duration;

use tidegate::Tidegate;
use tidegate::clock::Timestamp;
use tidegate::hot::{Count, Edit, HotOptions, Recorded};
use tidegate::testkit::{Fault, FaultProxy, RedisServer};

use crate::hot::{START_MS, Space, key, options};
use crate::outage::until;

/// How often a server was called a script.
fn scripts(server: &RedisServer) -> usize {
    let text: String = redis::cmd("INFO").arg("commandstats").query(&mut server.connection()).unwrap();
    let calls = |command: &str| -> usize {
        let start = format!("cmdstat_{command}:calls=");
        let rest = text.lines().find_map(|line| line.strip_prefix(&start)).unwrap_or("0,");
        rest.split(',').next().unwrap().parse().unwrap()
    };
    calls("evalsha")
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("page {number:03}")).collect()
}

fn count(recorded: &[Recorded], kind: &str) -> usize {
    recorded.iter().filter(|it| it.as_str() == kind).count()
}

/// One in this process and one on a server of its own.
async fn spaces(set: impl Fn(&mut HotOptions)) -> ([Space; 2], RedisServer) {
    let server = RedisServer::start();
    let on_redis = Space::on("redis", &server.url(), options(&set)).await;
    ([Space::memory(&set).await, on_redis], server)
}

#[tokio::test]
async fn pages_that_all_become_hot_at_once_are_recorded_in_several_scripts() {
    let (spaces, server) = spaces(|it| (it.hot_threshold, it.max_tracked) = (3, 1000)).await;
    for space in spaces {
        let on = space.on;
        let names = names(128);
        // The server knows the script then.
        space.record("other", "a").await;
        let before = scripts(&server);
        let edits: Vec<_> = names
            .iter()
            .flat_map(|page| ["a", "b", "c", "d"].map(|id| Edit::new(key(page), id, "bob")))
            .collect();
        let recorded = space.hot.record_many(&edits).await.unwrap();
        let kinds = ["remembered", "promoted", "added"].map(|it| count(&recorded, it));
        assert_eq!(kinds, [256, 128, 128], "{on}");
        assert!(
            on == "memory" || scripts(&server) >= before + 6,
            "{on}: {} scripts",
            scripts(&server) - before
        );
        assert!(space.list(200).await.iter().all(|(_, edits)| *edits == 4), "{on}");
        assert_eq!(space.hot.tracked().await.unwrap(), 128, "{on}");
        assert_eq!(space.metric("hot_pages_promoted_total"), 128, "{on}");
        let again = space.hot.record_many(&edits).await.unwrap();
        assert!(again.iter().all(|it| *it == Recorded::Duplicate), "{on}");
    }
}

/// Each is put before others that are there, and takes its time; an id that comes twice counts once, though its page has let
/// it go since.
#[tokio::test]
async fn edits_of_one_page_are_recorded_in_several_scripts() {
    let (spaces, server) = spaces(|it| (it.hot_threshold, it.max_members_per_page) = (3, 300)).await;
    for space in spaces {
        let on = space.on;
        space.set(START_MS + 10_000);
        space.fill(&["p".to_owned()], 290).await;
        let before = scripts(&server);
        let ids: Vec<_> = (0..256).map(|number| format!("e{number:03}")).collect();
        let at = |number: usize| Some(Timestamp::from_millis(START_MS + 5000 - 10 * number as u64));
        // Twice, at another time.
        let mut edits = Vec::new();
        for (number, id) in ids.iter().enumerate() {
            edits.extend(
                [0, 100].map(|more| Edit { at: at(number + more), ..Edit::new(key("p"), id, "bob") }),
            );
        }
        let recorded = space.hot.record_many(&edits).await.unwrap();
        assert_eq!(count(&recorded, "duplicate"), 256, "{on}");
        assert!(
            on == "memory" || scripts(&server) >= before + 6,
            "{on}: {} scripts",
            scripts(&server) - before
        );
        assert_eq!(space.stats("p").await.total_edits, 290 + 256, "{on}");
        assert_eq!(space.list(1).await, [("p".to_owned(), 290 + 256)], "{on}");
        assert_eq!(space.window("p").await.len(), 300, "{on}");
    }
}

#[tokio::test]
async fn counts_of_many_pages_are_counted_in_several_scripts() {
    let (spaces, server) = spaces(|it| {
        (it.hot_threshold, it.max_members_per_page, it.max_tracked) = (2, 0, 1000);
    })
    .await;
    for space in spaces {
        let (on, names) = (space.on, names(512));
        space.hot.count(key("other"), 1).await.unwrap();
        let before = scripts(&server);
        let counts: Vec<_> =
            names.iter().enumerate().map(|(it, page)| Count::new(key(page), 1 + it as u64)).collect();
        let counted = space.hot.count_many(&counts).await.unwrap();
        assert_eq!((count(&counted, "remembered"), count(&counted, "promoted")), (1, 511), "{on}");
        assert!(
            on == "memory" || scripts(&server) >= before + 6,
            "{on}: {} scripts",
            scripts(&server) - before
        );
        let counted = space.hot.count_many(&counts).await.unwrap();
        assert_eq!((count(&counted, "promoted"), count(&counted, "counted")), (1, 511), "{on}");
        for (page, number) in [("page 000", 2), ("page 001", 4), ("page 511", 1024)] {
            assert_eq!(space.stats(page).await.total_edits, number, "{on}: {page}");
        }
        assert_eq!(space.metric("hot_pages_promoted_total"), 512, "{on}");
    }
}

/// A part of a batch of gathered counts was counted when its answer is lost: sent again, the rest is, and that part is not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_left_of_a_gathered_batch_is_counted_when_it_is_sent_again() {
    let gathering = |gather| {
        options(|it| {
            (it.max_members_per_page, it.hot_threshold, it.max_tracked) = (0, 1, 1000);
            it.gather = Duration::from_secs(gather);
        })
    };
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.port()).await;
    let gate = Tidegate::open(&proxy.url()).await.unwrap();
    let hot = gate.hot("pages", gathering(60)).unwrap();
    let names = names(512);
    // The first time the server learns the script.
    for lost in [false, true, true] {
        for (number, page) in names.iter().enumerate() {
            assert_eq!(hot.count(key(page), 1 + number as u64).await.unwrap(), Recorded::Gathered);
        }
        let mut connection = server.connection();
        let mut progress = || -> String {
            let keys: Vec<String> = redis::cmd("KEYS").arg("*flushes:*").query(&mut connection).unwrap();
            redis::cmd("GET").arg(&keys[0]).query(&mut connection).unwrap()
        };
        if lost {
            proxy.set(Fault::SwallowAnswers);
            assert!(hot.flush().await.unwrap_err().is_transient());
            let progress = progress();
            let (_, done) = progress.split_once(' ').unwrap_or_else(|| panic!("{progress} is all of it"));
            assert!((1..512).contains(&done.parse::<usize>().unwrap()), "{progress}");
            proxy.set(Fault::None);
            proxy.close_connections();
        }
        until("all of it is sent", async || hot.flush().await.ok()).await;
        assert!(progress().parse::<u64>().is_ok(), "all of it is there");
    }
    let other = Tidegate::open(&server.url()).await.unwrap();
    let listed = other.hot("pages", gathering(0)).unwrap().list(600).await.unwrap();
    assert_eq!(listed.len(), 512);
    for page in listed {
        let number: u64 = page.page.strip_prefix("page ").unwrap().parse().unwrap();
        assert_eq!(page.edits, 3 * (1 + number), "{}", page.page);
    }
    let text = gate.metrics();
    for why in ["dropped", "unknown", "failed"] {
        assert!(text.contains(&format!("tidegate_hot_lost_counts_total{{space=\"pages\",why=\"{why}\"}} 0")));
    }
}
