//! Hot pages in this process: bytes that are accounted for, and bounds that hold.

use std::process::Command;
use std::time::Duration;

use tidegate::clock::monotonic;
use tidegate::hot::{Edit, HotOptions, Recorded, WhenFull};

use crate::hot::{Space, key};

const MIB: usize = 1 << 20;

/// One edit each of `count` pages.
async fn flood(space: &Space, count: usize) {
    for i in 0..count {
        let page = format!("a page that is seldom edited {i}");
        space.hot.record(&Edit::new(key(&page), "1", "alice")).await.unwrap();
    }
}

#[tokio::test]
async fn the_bound_on_bytes_holds_whatever_is_recorded() {
    let space = Space::memory(|it| {
        (it.max_bytes, it.max_tracked, it.max_members_per_page) = (2 * MIB, 100_000, 4000);
    })
    .await;
    let (long, mut most) = ("x".repeat(255), 0);
    let check = |what: &str| {
        let bytes = space.hot.bytes_in_process();
        assert!(bytes <= 2 * MIB, "{bytes} bytes after {what}");
        bytes
    };
    for i in 0..20_000_usize {
        let (page, id) = (format!("page {}", i * i % 5003), format!("{i} {}", &long[..i % 200]));
        space.hot.record(&Edit::new(key(&page), &id, &id)).await.unwrap();
        most = most.max(check("an edit"));
        if i % 1000 == 0 {
            space.clock.advance_ms(20_000);
            space.hot.cleanup().await.unwrap();
            check("a cleanup");
        }
    }
    assert!(most > 2 * MIB * 9 / 10, "{most}: it is used");
    // One page alone, of the longest texts.
    for i in 0..4000 {
        let id = format!("{i:0>255}");
        space.hot.record(&Edit::new(key(&long), &id, &id)).await.unwrap();
        check("the longest edit");
    }
}

/// At the bound on bytes activity goes first, then the coldest page.
#[tokio::test]
async fn at_the_bound_on_bytes_the_hottest_stay() {
    let space = Space::memory(|it| it.max_bytes = MIB).await;
    let hottest: Vec<_> = (0..20).map(|i| format!("hot {i}")).collect();
    space.fill(&hottest, 50).await;
    flood(&space, 20_000).await;
    assert_eq!(space.hot.tracked().await.unwrap(), 20, "one-edit pages replace none");
    for i in 0..3000 {
        space.fill(&[format!("two edits {i}")], 2).await;
    }
    let listed: Vec<_> = space.list(20).await.into_iter().map(|it| it.1).collect();
    assert_eq!(listed, [50; 20]);
    assert!(space.hot.bytes_in_process() <= MIB);
}

/// Everything that was taken is given back.
#[tokio::test]
async fn when_all_is_over_no_bytes_are_left() {
    let space = Space::memory(|it| {
        (it.max_tracked, it.max_activity, it.max_members_per_page) = (50, 300, 20);
        it.when_full = WhenFull::ReplaceColdest;
    })
    .await;
    let long = "y".repeat(100);
    let fill = async |round: usize| {
        for i in 0..8000_usize {
            let page = format!("page {} {}", i * i % 1009, &long[..i % 7 * 10]);
            let id = format!("{round} {} {}", i % 900, &long[..i % 50]);
            space.hot.record(&Edit::new(key(&page), &id, &id)).await.unwrap();
            if i % 100 == 0 {
                space.clock.advance_ms(30_000);
            }
        }
        let used = space.hot.bytes_in_process();
        space.clock.advance_ms(2 * 3_600_000);
        space.hot.cleanup().await.unwrap();
        assert_eq!(space.hot.tracked().await.unwrap(), 0);
        assert_eq!(space.metric("tidegate_hot_activities"), 0);
        (used, space.hot.bytes_in_process())
    };
    // Events are still there: from the second round on a thousand.
    fill(0).await;
    let (used, left) = fill(1).await;
    assert!(left < 250_000 && left < used, "{left} of {used}");
    for round in 2..5 {
        let (_, now) = fill(round).await;
        assert!(now.abs_diff(left) < 20_000, "{now} bytes after round {round}, {left} before");
    }
}

#[tokio::test]
async fn a_flood_of_pages_stays_within_its_bound_and_takes_no_longer_the_more_there_are() {
    let space = Space::memory(|it| it.max_activity = 20_000).await;
    let started = monotonic();
    flood(&space, 20_000).await;
    let full = (space.hot.bytes_in_process(), started.elapsed());
    flood(&space, 20_000).await;
    let started = monotonic();
    for i in 0..100_000 {
        space.hot.record(&Edit::new(key(&format!("another one of them {i}")), "1", "bob")).await.unwrap();
    }
    space.hot.tracked().await.unwrap();
    assert_eq!(space.metric("tidegate_hot_activities"), 20_000);
    assert!(space.hot.bytes_in_process() <= full.0 * 11 / 10);
    // Five times as many; a busy machine may be slow, but not a hundred times.
    let took = started.elapsed();
    assert!(took < full.1 * 50 + Duration::from_secs(2), "{took:?}, the first 20,000 took {:?}", full.1);
    // The rule: of those that are remembered the oldest goes.
    assert_eq!(space.record("another one of them 79999", "2").await, Recorded::Remembered);
    assert_ne!(space.record("another one of them 99999", "2").await, Recorded::Remembered);
}

/// The same rule on every store.
#[tokio::test]
async fn at_the_bound_on_activity_what_began_first_is_forgotten() {
    for space in Space::everywhere(|it| it.max_activity = 3).await {
        let on = space.on;
        for page in ["a", "b", "c"] {
            space.clock.advance_ms(1);
            space.record(page, "1").await;
        }
        // Another edit of it does not make it younger.
        let space_of_three = space.record("a", "1").await;
        assert_eq!(space_of_three, Recorded::Duplicate, "{on}");
        space.record("d", "1").await;
        assert_eq!(space.record("b", "2").await.as_str(), "promoted", "{on}");
        assert_eq!(space.record("a", "2").await, Recorded::Remembered, "{on}: it needs all its edits again");
        assert_eq!(space.record("c", "2").await.as_str(), "promoted", "{on}: there was room again");
    }
}

/// Resident memory of this process.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024
}

/// What is accounted for is what the process grows by, so this test starts itself again
/// as a process that does nothing else.
#[test]
fn accounted_bytes_are_those_that_the_process_grows_by() {
    const ROLE: &str = "TIDEGATE_TEST_HOT_BYTES";
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    if let Ok(role) = std::env::var(ROLE) {
        return runtime.block_on(async {
            let space = Space::memory(|it: &mut HotOptions| {
                (it.max_tracked, it.max_activity, it.max_bytes) = (100_000, 300_000, 512 * MIB);
            })
            .await;
            let before = resident();
            match &*role {
                "activity" => flood(&space, 120_000).await,
                "pages" => {
                    for i in 0..30_000 {
                        space.fill(&[format!("a page that is edited often {i}")], 3).await;
                    }
                }
                _ => {
                    for i in 0..2000 {
                        space.fill(&[format!("a page that is edited often {i}")], 110).await;
                    }
                }
            }
            println!("\ngrew {} {}", space.hot.bytes_in_process(), resident() - before);
        });
    }
    for role in ["activity", "pages", "members"] {
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["hot_memory::accounted_bytes_are_those_that_the_process_grows_by"])
            .args(["--exact", "--nocapture"])
            .env(ROLE, role)
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("grew ")).expect(&text);
        let [accounted, grown] = line.split(' ').map(|it| it.parse::<f64>().unwrap()).collect::<Vec<_>>()[..]
        else {
            panic!("{line}")
        };
        let share = grown / accounted;
        println!("{role}: {:.1} MB accounted, {:.1} MB used, {share:.2}", accounted / 1e6, grown / 1e6);
        assert!((0.5..=1.15).contains(&share), "{role}: {share:.2} of what is accounted");
    }
}
