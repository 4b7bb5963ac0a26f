//! Many at once: bounds that hold at every moment, writers that die, events that
//! happen once.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tidegate::Tidegate;
use tidegate::clock::Timestamp;
use tidegate::hot::{Edit, EventKind, Hot, HotOptions, Recorded, WhenFull};
use tidegate::testkit::{RedisServer, unique};

use crate::hot::{HOUR, START_MS, Space, events, from_env, key, open, options};
use crate::hot_audit::audit;
use crate::kit::{CLUSTER, REDIS};

const WRITERS: usize = 16;
const MAX_TRACKED: u64 = 1000;

/// Asks for the size of each index as fast as it can, until told to stop.
fn sample(indices: Vec<(redis::Connection, String)>, stop: &AtomicBool) -> (u64, u64) {
    let (mut samples, mut most) = (0, 0);
    let mut indices = indices;
    while !stop.load(Ordering::Relaxed) {
        for (connection, index) in &mut indices {
            let size: u64 = redis::cmd("ZCARD").arg(&*index).query(connection).unwrap();
            most = most.max(size);
            samples += 1;
        }
    }
    (samples, most)
}

/// 16 processes' worth of writers and many more candidates than may be hot, two edits
/// each by two of them. `TIDEGATE_HOT_CANDIDATES` sets how many.
async fn flood(url: &str, nodes: &[&RedisServer], partitions: u32, when_full: WhenFull) {
    let candidates = from_env("TIDEGATE_HOT_CANDIDATES", 2400);
    let namespace = unique("flood");
    let options = options(|it| {
        it.max_tracked = MAX_TRACKED as usize;
        (it.partitions, it.when_full) = (partitions, when_full);
    });
    let mut writers = Vec::new();
    for _ in 0..WRITERS {
        let gate = open(url, &namespace, None).await;
        let hot = gate.hot("pages", options.clone()).unwrap();
        writers.push((gate, hot));
    }
    // Makes each index, so that it can be found.
    let first: Vec<_> = (0..16 * partitions).map(|i| format!("first {i}")).collect();
    let edits: Vec<_> =
        first.iter().flat_map(|page| ["a", "b"].map(|id| Edit::new(key(page), id, "alice"))).collect();
    let mut promoted = 0;
    for recorded in writers[0].1.record_many(&edits).await.unwrap() {
        promoted += u64::from(recorded.as_str() == "promoted");
    }
    let mut indices = Vec::new();
    for node in nodes {
        for suffix in ["", ":*"] {
            let pattern = format!("{namespace}:*hot:rank{suffix}");
            let keys: Vec<String> = redis::cmd("KEYS").arg(pattern).query(&mut node.connection()).unwrap();
            indices.extend(keys.into_iter().map(|key| (node.connection(), key)));
        }
    }
    assert_eq!(indices.len(), partitions as usize);
    let stop = Arc::new(AtomicBool::new(false));
    let sampler = std::thread::spawn({
        let stop = stop.clone();
        move || sample(indices, &stop)
    });
    let tasks: Vec<_> = writers
        .iter()
        .enumerate()
        .map(|(number, (_, hot))| {
            let hot = hot.clone();
            tokio::spawn(async move {
                let (mut promoted, mut replaced) = (0, 0);
                for turn in (0..candidates).step_by(WRITERS) {
                    // Its own, and the one that another has begun.
                    let pages = [(turn + number, "a"), (turn + (number + 5) % WRITERS, "b")];
                    for (page, id) in pages {
                        let page = format!("page {page}");
                        let recorded = hot.record(&Edit::new(key(&page), id, "alice")).await.unwrap();
                        if let Recorded::Promoted { replaced: other } = recorded {
                            promoted += 1;
                            replaced += u64::from(other.is_some());
                        }
                    }
                }
                (promoted, replaced)
            })
        })
        .collect();
    let mut replaced = 0;
    for task in tasks {
        let (more, others) = task.await.unwrap();
        (promoted, replaced) = (promoted + more, replaced + others);
    }
    stop.store(true, Ordering::Relaxed);
    let (samples, most) = sampler.join().unwrap();
    println!("P = {partitions}, {when_full:?}: {samples} samples, at most {most}; {replaced} replaced");
    let bound = MAX_TRACKED / u64::from(partitions);
    assert_eq!(most, bound, "it fills up, and no index is ever above its bound");
    assert!(samples > 20, "{samples}");
    assert_eq!(writers[0].1.tracked().await.unwrap(), MAX_TRACKED);
    assert_eq!(promoted - replaced, MAX_TRACKED);
    assert_eq!(replaced > 0, when_full == WhenFull::ReplaceColdest);
    let connections = nodes.iter().map(|node| node.connection()).collect();
    assert_eq!(audit(connections, &namespace, HOUR), MAX_TRACKED);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h4_sixteen_writers_never_exceed_the_bound_on_redis() {
    let server = RedisServer::start();
    for when_full in [WhenFull::Refuse, WhenFull::ReplaceColdest] {
        flood(&server.url(), &[&server], 1, when_full).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h4_sixteen_writers_never_exceed_the_bound_in_a_cluster() {
    let nodes: Vec<_> = CLUSTER.nodes().iter().collect();
    for when_full in [WhenFull::Refuse, WhenFull::ReplaceColdest] {
        flood(&CLUSTER.url(), &nodes, 1, when_full).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h4_sixteen_writers_never_exceed_the_bounds_of_eight_partitions() {
    let nodes: Vec<_> = CLUSTER.nodes().iter().collect();
    for when_full in [WhenFull::Refuse, WhenFull::ReplaceColdest] {
        flood(&CLUSTER.url(), &nodes, 8, when_full).await;
    }
}

/// What a victim does until it is killed: pages come, are replaced and end.
async fn write_for_ever(url: &str) {
    let gate = Tidegate::open(url).await.unwrap();
    let hot = gate.hot("pages", victim_options()).unwrap();
    println!("\nwriting");
    let tasks = (0..8_u64).map(|task| {
        let hot = hot.clone();
        async move {
            for turn in task.. {
                let (page, id) = (format!("p{}", turn * turn % 211), format!("e{turn}"));
                hot.record(&Edit::new(key(&page), &id, &id)).await.unwrap();
                if turn % 97 == 0 {
                    hot.cleanup().await.unwrap();
                }
            }
        }
    });
    futures_util::future::join_all(tasks).await;
}

fn victim_options() -> HotOptions {
    options(|it| {
        it.window_duration = Duration::from_secs(1);
        (it.max_tracked, it.max_members_per_page, it.max_activity) = (40, 5, 60);
        it.when_full = WhenFull::ReplaceColdest;
    })
}

/// This test starts itself again as a process that writes as fast as it can, and kills
/// it, again and again.
#[test]
fn h3_a_writer_killed_at_any_moment_leaves_nothing_half_done() {
    const ROLE: &str = "TIDEGATE_TEST_HOT_WRITER";
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    if let Ok(url) = std::env::var(ROLE) {
        return runtime.block_on(write_for_ever(&url));
    }
    let server = RedisServer::start();
    let mut connection = server.connection();
    let mut processed = || {
        let info: String = redis::cmd("INFO").arg("stats").query(&mut connection).unwrap();
        let line = info.lines().find_map(|line| line.strip_prefix("total_commands_processed:")).unwrap();
        line.trim().parse::<u64>().unwrap()
    };
    let hot = runtime.block_on(async {
        Tidegate::open(&server.url()).await.unwrap().hot("pages", victim_options()).unwrap()
    });
    let mut most = 0;
    for round in 0..5_u64 {
        let mut victim = Command::new(std::env::current_exe().unwrap())
            .args(["hot_bounds::h3_a_writer_killed_at_any_moment_leaves_nothing_half_done"])
            .args(["--exact", "--nocapture"])
            .env(ROLE, server.url())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(victim.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap() == "writing"));
        // As long as it takes for the server to have done so much.
        let goal = processed() + 300 + round * round * 3777;
        while processed() < goal {}
        victim.kill().unwrap();
        victim.wait().unwrap();
        assert_eq!(server.keys_without_ttl(), Vec::<String>::new());
        let tracked = audit(vec![server.connection()], "", 1000);
        assert!(tracked <= 40, "round {round}: {tracked}");
        most = most.max(tracked);
        runtime.block_on(async { hot.cleanup().await.unwrap() });
        let left = audit(vec![server.connection()], "", 1000);
        assert!(left <= tracked, "round {round}");
    }
    assert_eq!(most, 40, "it was full");
}

/// Many tasks of several processes send the same edits, each edit several times.
async fn share(space: &Space, hots: &[Hot], pages: usize, edits: usize) {
    let tasks = 12;
    let totals: Arc<[AtomicU64; 4]> = Arc::default();
    let running: Vec<_> = (0..tasks)
        .map(|task| {
            let (hot, totals) = (hots[task % hots.len()].clone(), totals.clone());
            tokio::spawn(async move {
                // Each edit is sent by a third of the tasks, in an order of their own.
                for turn in 0..pages * edits {
                    let number = (turn * 7 + task * 131) % (pages * edits);
                    if !(number + task).is_multiple_of(3) {
                        continue;
                    }
                    let (page, id) = (format!("p{}", number % pages), format!("e{}", number / pages));
                    let at = Some(Timestamp::from_millis(START_MS - number as u64));
                    let edit = Edit { at, ..Edit::new(key(&page), &id, &id) };
                    let place = match hot.record(&edit).await.unwrap() {
                        Recorded::Remembered => 0,
                        Recorded::Promoted { replaced: None } => 1,
                        Recorded::Added => 2,
                        Recorded::Duplicate => 3,
                        other => panic!("{other:?}"),
                    };
                    totals[place].fetch_add(1, Ordering::Relaxed);
                    if turn % 50 == 0 {
                        hot.stats(key(&page)).await.unwrap();
                        hot.list(5).await.unwrap();
                    }
                }
            })
        })
        .collect();
    for task in running {
        task.await.unwrap();
    }
    let [remembered, promoted, added, duplicate] = [0, 1, 2, 3].map(|i| totals[i].load(Ordering::Relaxed));
    let all = (pages * edits) as u64;
    let on = space.on;
    assert_eq!(promoted, pages as u64, "{on}: each is promoted once");
    assert_eq!(remembered, pages as u64, "{on}: by its second edit");
    assert_eq!(remembered + promoted + added, all, "{on}: each edit counts once");
    assert_eq!(duplicate, all * (tasks as u64 / 3 - 1), "{on}");
    for page in 0..pages {
        let page = format!("p{page}");
        let (stats, window) = (space.stats(&page).await, space.window(&page).await);
        assert_eq!(window.iter().collect::<BTreeSet<_>>().len(), edits, "{on}: {page}");
        let counted = (stats.edits_last_hour, stats.total_edits, stats.unique_editors);
        assert_eq!(counted, (edits as u64, edits as u64, edits as u64), "{on}: {page}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn however_many_send_the_same_edits_each_counts_once_and_each_event_happens_once() {
    const PAGES: usize = 24;
    for partitions in [1, 4] {
        let set = |it: &mut HotOptions| it.partitions = partitions;
        let spaces = match partitions {
            1 => vec![Space::memory(set).await, Space::redis(set).await],
            _ => vec![Space::memory(set).await, Space::cluster(set).await],
        };
        for space in spaces {
            let (on, from) = (space.on, vec!["0-0"; partitions as usize].join(","));
            let (mut hots, mut gates) = (vec![space.hot.clone()], Vec::new());
            if on != "memory" {
                for _ in 0..2 {
                    let (gate, hot) = space.another(options(set)).await;
                    gates.push(gate);
                    hots.push(hot);
                }
            }
            let mut watchers = Vec::new();
            for hot in &hots {
                watchers.push(hot.watch(Some(&from)).await.unwrap());
            }
            share(&space, &hots, PAGES, 30).await;
            space.clock.advance_ms(2 * HOUR);
            // All of them look for what is over, at once.
            let cleaning = hots.iter().map(|hot| {
                let hot = hot.clone();
                tokio::spawn(async move { hot.cleanup().await.unwrap() })
            });
            let mut expired = 0;
            for cleaned in cleaning.collect::<Vec<_>>() {
                expired += cleaned.await.unwrap();
            }
            assert_eq!(expired, PAGES as u64, "{on}: each is dropped by one");
            let mut expected: Option<Vec<_>> = None;
            for watch in &mut watchers {
                let seen = events(watch, 4 * PAGES).await;
                let mut kinds: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
                for event in &seen {
                    assert!(
                        kinds.entry(event.kind.as_str()).or_default().insert(&event.page),
                        "{on}: {event:?}"
                    );
                }
                for kind in
                    [EventKind::Promoted, EventKind::Trending, EventKind::TrendingEnded, EventKind::Cooled]
                {
                    assert_eq!(kinds[kind.as_str()].len(), PAGES, "{on}: {kind:?}");
                }
                // Partitions are read in turns, so their order may differ.
                let mut sorted: Vec<_> =
                    seen.iter().map(|it| (it.page.clone(), it.at, it.kind.as_str(), it.edits)).collect();
                sorted.sort();
                assert_eq!(*expected.get_or_insert_with(|| sorted.clone()), sorted, "{on}");
            }
            // Nothing more has happened.
            let last = space.hot.watch(Some(&from)).await.unwrap();
            let mut last = last;
            let cursor = events(&mut last, 4 * PAGES).await.pop().unwrap().cursor;
            let mut rest = space.hot.watch(Some(&cursor)).await.unwrap();
            space.fill(&["new".to_owned()], 2).await;
            assert_eq!(events(&mut rest, 1).await[0].page, "new", "{on}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_goes_on_from_any_cursor_without_gap_or_repeat() {
    for partitions in [1, 5] {
        for space in Space::everywhere(|it| it.partitions = partitions).await {
            let (on, from) = (space.on, vec!["0-0"; partitions as usize].join(","));
            let pages: Vec<_> = (0..260).map(|i| format!("p{i}")).collect();
            space.fill(&pages, 2).await;
            let mut seen = BTreeSet::new();
            let mut cursor = from;
            // As a client that loses its connection again and again.
            for take in [1, 2, 150, 79, 27, 1] {
                let mut watch = space.hot.watch(Some(&cursor)).await.unwrap();
                for event in events(&mut watch, take).await {
                    assert!(seen.insert(event.page.clone()), "{on}: {} again", event.page);
                    cursor = event.cursor;
                }
                assert_eq!(watch.cursor(), cursor, "{on}: though more has been read");
            }
            assert_eq!(seen.len(), 260, "{on}");
            // One that asks for no cursor sees what is new.
            let mut fresh = space.hot.watch(None).await.unwrap();
            let mut resumed = space.hot.watch(Some(&cursor)).await.unwrap();
            space.fill(&["new".to_owned()], 2).await;
            for watch in [&mut fresh, &mut resumed] {
                assert_eq!(events(watch, 1).await[0].page, "new", "{on}");
            }
        }
    }
}

/// More happens than is kept: who was away for it is told so, once, and goes on with the
/// oldest that is left.
#[tokio::test]
async fn who_falls_behind_the_events_is_told_of_the_gap() {
    for space in Space::everywhere(|it| it.max_tracked = 10_000).await {
        let on = space.on;
        let fill = async |name: &str, count: usize| {
            space.clock.advance_ms(1);
            let pages: Vec<_> = (0..count).map(|i| format!("{name}{i:04}")).collect();
            space.fill(&pages, 2).await;
        };
        fill("before", 3).await;
        let mut watch = space.hot.watch(Some("0-0")).await.unwrap();
        let cursor = events(&mut watch, 2).await.pop().unwrap().cursor;
        fill("kept", 900).await;
        let mut watch = space.hot.watch(Some(&cursor)).await.unwrap();
        assert_eq!(events(&mut watch, 1).await[0].page, "before0002", "{on}: nothing is missing yet");
        let at_the_edge = watch.cursor();
        fill("more", 1500).await;
        for behind in [&cursor, &at_the_edge] {
            let mut watch = space.hot.watch(Some(behind)).await.unwrap();
            let events_read = events(&mut watch, 3).await;
            assert_eq!((events_read[0].kind, &*events_read[0].page), (EventKind::Missed, ""), "{on}");
            assert_eq!(
                (events_read[1].kind, events_read[2].kind),
                (EventKind::Promoted, EventKind::Promoted),
                "{on}"
            );
            let mut again = space.hot.watch(Some(&events_read[1].cursor)).await.unwrap();
            assert_eq!(events(&mut again, 1).await[0], events_read[2], "{on}: it is told once");
        }
        let mut oldest = space.hot.watch(Some("0-0")).await.unwrap();
        assert_eq!(events(&mut oldest, 1).await[0].kind, EventKind::Promoted, "{on}: it missed nothing");
    }
}

/// A key that has ended by its TTL is still in the index: when its page begins anew with no
/// room left, what gives way is that old place and not the new edit.
#[tokio::test]
async fn a_page_that_begins_anew_is_not_forgotten_for_its_own_old_place() {
    let space = Space::redis(|it| it.max_activity = 1).await;
    assert_eq!(space.record("p", "1").await, Recorded::Remembered);
    let key = format!("{}:activity:p", space.namespace);
    let gone: u64 = redis::cmd("DEL").arg(key).query(&mut REDIS.connection()).unwrap();
    assert_eq!(gone, 1);
    assert_eq!(space.record("p", "2").await, Recorded::Remembered, "its first edit is forgotten");
    assert_eq!(space.record("p", "3").await.as_str(), "promoted", "its second is not");
}
