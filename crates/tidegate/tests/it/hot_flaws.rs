//! The flaws of the seed's design, H1 to H13: each a promise that it would break.

use std::time::Duration;

use tidegate::clock::Timestamp;
use tidegate::hot::{Edit, Hot, HotOptions, Recorded, WhenFull};
use tidegate::testkit::RedisServer;

use crate::hot::{HOUR, MINUTE, PROMOTED, START_MS, Space, from_env, key, metric, open, options, replaced};
use crate::hot_audit::audit;
use crate::kit::{CLUSTER, REDIS};

/// The seed asks a counter that ends ten minutes after its first edit, and forgets
/// what comes to a hot page after that.
#[tokio::test]
async fn h1_no_edit_to_a_hot_page_is_lost_however_slowly_they_come() {
    for space in Space::everywhere(|_| {}).await {
        let on = space.on;
        space.fill(&["p".to_owned()], 2).await;
        for turn in 1..30_u64 {
            space.clock.advance_ms(11 * MINUTE);
            assert_eq!(space.record("p", &format!("e{turn}")).await, Recorded::Added, "{on}");
            // Five further ones fit into an hour, and the two that it began with.
            let expected = if turn < 6 { turn + 2 } else { 6 };
            assert_eq!(space.stats("p").await.edits_last_hour, expected, "{on}, edit {turn}");
            assert_eq!(space.stats("p").await.total_edits, turn + 2, "{on}");
        }
    }
}

#[tokio::test]
async fn h2_the_edits_that_made_a_page_hot_are_in_its_window() {
    for space in Space::everywhere(|it| it.hot_threshold = 4).await {
        let on = space.on;
        let editors = ["ann", "bob", "ann", "cid"];
        for (turn, editor) in editors.into_iter().enumerate() {
            let (id, byte_change) = (format!("e{turn}"), turn as i64 * 100 - 150);
            let edit = Edit { byte_change, ..Edit::new(key("p"), &id, editor) };
            let recorded = space.hot.record(&edit).await.unwrap();
            assert_eq!(recorded, if turn < 3 { Recorded::Remembered } else { PROMOTED }, "{on}");
            space.clock.advance_ms(1000);
        }
        let all = Timestamp::from_millis(0)..=space.clock.now();
        let window = space.hot.window(key("p"), all).await.unwrap();
        let seen: Vec<_> = window
            .iter()
            .map(|it| (&*it.id, it.at.as_millis() - START_MS, &*it.editor, it.byte_change))
            .collect();
        let expected = [("e0", 0, "ann", -150), ("e1", 1000, "bob", -50), ("e2", 2000, "ann", 50)];
        assert_eq!(seen, [&expected[..], &[("e3", 3000, "cid", 150)]].concat(), "{on}");
        let stats = space.stats("p").await;
        assert_eq!((stats.edits_last_hour, stats.unique_editors, stats.total_edits), (4, 3, 4), "{on}");
        assert_eq!(stats.first_seen.as_millis(), START_MS, "{on}");
    }
}

/// What is remembered has its end from the first moment, in the same step that writes
/// it, and further edits do not put it off.
#[tokio::test]
async fn h3_activity_ends_ten_minutes_after_its_first_edit() {
    let server = RedisServer::start();
    let gate = tidegate::Tidegate::open(&server.url()).await.unwrap();
    let hot = gate.hot("pages", options(|it| it.hot_threshold = 9)).unwrap();
    let mut connection = server.connection();
    let mut ttl = || redis::cmd("PTTL").arg("activity:p").query::<i64>(&mut connection).unwrap();
    let record = async |id: &str| hot.record(&Edit::new(key("p"), id, "alice")).await.unwrap();
    assert_eq!(record("0").await, Recorded::Remembered);
    let first = ttl();
    assert!((600_000..=610_000).contains(&first), "{first}");
    redis::cmd("PEXPIRE").arg("activity:p").arg(300_000).exec(&mut server.connection()).unwrap();
    for id in ["1", "2", "3"] {
        assert_eq!(record(id).await, Recorded::Remembered);
        assert!(ttl() <= 300_000);
    }
    assert_eq!(server.keys_without_ttl(), Vec::<String>::new());
    // Nothing is ever written but by a script: there is no moment in between.
    let stats: String = redis::cmd("INFO").arg("commandstats").query(&mut server.connection()).unwrap();
    let calls = |name: &str| {
        let line = stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{name}:calls=")));
        line.map_or(0, |line| line.split(',').next().unwrap().parse::<u32>().unwrap())
    };
    assert_eq!(calls("incr"), 0, "{stats}");
    assert!(calls("evalsha") >= 4, "{stats}");
}

/// The seed counts once in ten seconds and in each process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h4_processes_that_promote_at_once_never_exceed_the_bound_together() {
    for space in Space::everywhere(|it| it.max_tracked = 7).await {
        let mut gates = vec![(space.gate.clone(), space.hot.clone())];
        if space.on != "memory" {
            for _ in 0..3 {
                gates.push(space.another(options(|it| it.max_tracked = 7)).await);
            }
        }
        for (_, hot) in &gates {
            assert_eq!(hot.tracked().await.unwrap(), 0);
        }
        let mut tasks = Vec::new();
        for (number, (_, hot)) in gates.iter().enumerate().cycle().take(12) {
            let (hot, task) = (hot.clone(), tasks.len());
            tasks.push(tokio::spawn(async move {
                let mut promoted = 0;
                for turn in 0..20 {
                    let page = format!("page {number} {task} {turn}");
                    for id in ["a", "b"] {
                        let recorded = hot.record(&Edit::new(key(&page), id, "alice")).await.unwrap();
                        promoted += u64::from(recorded == PROMOTED);
                    }
                }
                promoted
            }));
        }
        let mut promoted = 0;
        for task in tasks {
            promoted += task.await.unwrap();
        }
        let rejected: u64 = gates.iter().map(|(gate, _)| metric(gate, "promotion_rejected_total")).sum();
        assert_eq!((promoted, rejected), (7, 12 * 20 - 7), "{}", space.on);
        assert_eq!(space.hot.tracked().await.unwrap(), 7, "{}", space.on);
    }
}

#[tokio::test]
async fn h5_when_full_the_coldest_makes_room_for_what_is_hotter() {
    let set = |it: &mut HotOptions| {
        it.max_tracked = 3;
        it.when_full = WhenFull::ReplaceColdest;
    };
    for space in Space::everywhere(set).await {
        let on = space.on;
        space.fill(&["four".to_owned()], 4).await;
        for (page, count) in [("old", 2), ("newer", 2)] {
            space.clock.advance_ms(1000);
            space.fill(&[page.to_owned()], count).await;
        }
        // As many edits as the coldest, and later ones: it is hotter.
        space.clock.advance_ms(1000);
        space.record("q", "a").await;
        assert_eq!(space.record("q", "b").await, replaced("old"), "{on}");
        // As many and no later: it is not, but it is as soon as it gets one more.
        space.record_at("r", "a", START_MS + 1).await;
        assert_eq!(space.record_at("r", "b", START_MS + 1).await, Recorded::Rejected, "{on}");
        assert_eq!(space.record("r", "c").await, replaced("newer"), "{on}");
        let hot: Vec<_> = space.list(9).await.into_iter().map(|it| it.0).collect();
        assert_eq!(hot, ["four", "r", "q"], "{on}");
        assert_eq!(space.window("old").await, Vec::<String>::new(), "{on}");
        assert_eq!(
            (space.metric("hot_pages_promoted_total"), space.metric("promotion_rejected_total")),
            (5, 1)
        );
    }
    let space = Space::redis(set).await;
    let pages: Vec<_> = (0..50).map(|i| format!("p{i}")).collect();
    for page in &pages {
        space.clock.advance_ms(1);
        space.fill(std::slice::from_ref(page), 2).await;
    }
    assert_eq!(audit(vec![REDIS.connection()], &space.namespace, HOUR), 3, "nothing is left of the others");
}

#[tokio::test]
async fn h6_editors_are_exact_and_no_more_than_the_window_holds() {
    for space in Space::everywhere(|it| it.max_members_per_page = 50).await {
        let on = space.on;
        for turn in 0..600_u64 {
            space.clock.advance_ms(1000);
            let (id, editor) = (format!("e{turn}"), format!("editor {turn}"));
            // Some are late: they do not leave in the order they came.
            let late_ms = if turn % 10 == 3 { 20_000 } else { 0 };
            let at = Some(Timestamp::from_millis(space.now() - late_ms));
            let recorded = space.hot.record(&Edit { at, ..Edit::new(key("p"), &id, &editor) }).await.unwrap();
            assert_ne!(recorded, Recorded::Dropped, "{on}: the machine is too slow");
            if turn > 0 && turn % 37 == 0 {
                assert_eq!(space.stats("p").await.unique_editors, (turn + 1).min(50), "{on}");
            }
        }
        let before = space.now();
        for turn in 0..30 {
            space.clock.advance_ms(1000);
            space.record("p", &format!("alice {turn}")).await;
        }
        assert_eq!(space.stats("p").await.unique_editors, 20 + 1, "{on}: alice is one");
        space.set(before + HOUR);
        assert_eq!(space.stats("p").await.unique_editors, 1, "{on}: the others have left");
        space.hot.cleanup().await.unwrap();
        assert_eq!(space.stats("p").await.unique_editors, 1, "{on}: and are gone");
        if on == "redis" {
            let mut connection = REDIS.connection();
            let mut size = |command: &str, key: &str| {
                let key = format!("{}:hot:{key}:p", space.namespace);
                redis::cmd(command).arg(key).query::<u64>(&mut connection).unwrap()
            };
            assert_eq!(size("HLEN", "meta"), 5, "with the ring");
            assert_eq!(size("LLEN", "editors"), 30);
        }
    }
}

/// Edits `from..to` of each page, by as many editors.
async fn edit_all(hot: &Hot, pages: &[String], from: u64, to: u64) {
    for turn in from..to {
        let (id, editor) = (format!("{}", 987_000_000 + turn), format!("Editor{turn:06}"));
        let edit = |page| Edit { byte_change: -12, ..Edit::new(key(page), &id, &editor) };
        let edits: Vec<_> = pages.iter().map(|page| edit(page)).collect();
        hot.record_many(&edits).await.unwrap();
    }
}

/// The production file: 5000 pages with 200 edits each, by as many editors, and from
/// then on. `TIDEGATE_HOT_PAGES` sets how many pages are measured; fewer are scaled.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h7_production_settings_fit_into_150_mb() {
    const WARM: usize = 50;
    let pages = from_env("TIDEGATE_HOT_PAGES", 200);
    let server = RedisServer::start();
    let gate = open(&server.url(), "prod", None).await;
    let prod = options(|it| {
        (it.max_tracked, it.promotion_threshold, it.hot_threshold) = (5000 + WARM, 10, 3);
        it.window_duration = Duration::from_secs(1800);
        it.max_members_per_page = 200;
    });
    let hot = gate.hot("pages", prod).unwrap();
    let mut connection = server.connection();
    let mut used = || {
        let info: String = redis::cmd("INFO").arg("memory").query(&mut connection).unwrap();
        let line = info.lines().find_map(|line| line.strip_prefix("used_memory:")).unwrap();
        line.trim().parse::<f64>().unwrap()
    };
    let names: Vec<_> = (0..WARM + pages).map(|i| format!("en:A page of a usual name {i}")).collect();
    let (warm, names) = names.split_at(WARM);
    // What is there once, scripts and buffers and events, is there before.
    edit_all(&hot, warm, 0, 480).await;
    let before = used();
    edit_all(&hot, names, 0, 200).await;
    let mut scaled = || (used() - before) * 5000.0 / pages as f64 / 1e6;
    let at_first = scaled();
    let mut most = at_first;
    for turn in 200..480 {
        edit_all(&hot, names, turn, turn + 1).await;
        if turn % 20 == 15 {
            most = most.max(scaled());
        }
    }
    let stats = hot.stats(key(&names[0])).await.unwrap();
    assert_eq!((stats.edits_last_hour, stats.unique_editors, stats.total_edits), (480, 200, 480));
    println!("5000 pages with 200 edits: {at_first:.1} MB at first, {most:.1} MB at most ({pages} measured)");
    assert!(most < 150.0, "{most:.1} MB");
}

#[tokio::test]
async fn h8_the_same_title_in_two_wikis_is_two_pages() {
    for space in Space::everywhere(|_| {}).await {
        let on = space.on;
        for wiki in ["en", "de"] {
            assert_eq!(space.record(&format!("{wiki}:Berlin"), "1").await, Recorded::Remembered, "{on}");
        }
        assert_eq!(space.record("en:Berlin", "2").await, PROMOTED, "{on}");
        assert_eq!(space.list(9).await, [("en:Berlin".to_owned(), 2)], "{on}");
        assert!(!space.stats("de:Berlin").await.is_hot, "{on}");
    }
}

/// The seed's member has the time in it, so that the same edit at another time is
/// another.
#[tokio::test]
async fn h9_an_edit_that_is_sent_again_counts_once() {
    for space in Space::everywhere(|it| it.hot_threshold = 3).await {
        let on = space.on;
        for (id, expected) in [
            ("a", Recorded::Remembered),
            ("a", Recorded::Duplicate),
            ("b", Recorded::Remembered),
            ("a", Recorded::Duplicate),
            ("b", Recorded::Duplicate),
            ("c", PROMOTED),
            ("a", Recorded::Duplicate),
            ("c", Recorded::Duplicate),
            ("d", Recorded::Added),
            ("d", Recorded::Duplicate),
        ] {
            space.clock.advance_ms(777);
            assert_eq!(space.record("p", id).await, expected, "{on}: {id}");
        }
        assert_eq!(space.record_at("p", "b", START_MS).await, Recorded::Duplicate, "{on}: at another time");
        let twice = [Edit::new(key("p"), "e", "bob"); 2];
        let recorded = space.hot.record_many(&twice).await.unwrap();
        assert_eq!(recorded, [Recorded::Added, Recorded::Duplicate], "{on}");
        let stats = space.stats("p").await;
        assert_eq!((stats.edits_last_hour, stats.total_edits), (5, 5), "{on}");
        assert_eq!(space.metric("activity_counter_total"), 3, "{on}");
    }
}

#[tokio::test]
async fn h10_an_edit_from_the_future_neither_empties_the_window_nor_stays_in_it() {
    for space in Space::everywhere(|_| {}).await {
        let on = space.on;
        space.fill(&["p".to_owned()], 2).await;
        space.set(START_MS + 30 * MINUTE);
        let far = START_MS + 10 * 365 * 24 * HOUR;
        assert_eq!(space.record_at("p", "future", far).await, Recorded::Added, "{on}");
        assert_eq!(space.record_at("p", "end of time", u64::MAX).await, Recorded::Added, "{on}");
        assert_eq!(space.record_at("p", "late", START_MS + 60).await, Recorded::Added, "{on}");
        let expected = ["fill0@0", "fill1@0", "late@60", "end of time@1800000", "future@1800000"];
        assert_eq!(space.window("p").await, expected, "{on}");
        let stats = space.stats("p").await;
        assert_eq!((stats.edits_last_hour, stats.last_seen.as_millis()), (5, space.now()), "{on}");
        // It is not the time that it said, for others neither.
        assert_eq!(space.record("q", "a").await, Recorded::Remembered, "{on}");
        assert_eq!(space.record_at("q", "b", far).await, PROMOTED, "{on}");
        assert_eq!(space.window("q").await, ["a@1800000", "b@1800000"], "{on}");
        space.set(START_MS + 90 * MINUTE);
        assert_eq!(space.hot.tracked().await.unwrap(), 0, "{on}");
    }
}

/// One run of the seed's looks at a hundred keys, from the first on, each time.
#[tokio::test]
async fn h11_one_cleanup_reaches_everything_that_is_over() {
    let server = RedisServer::start();
    let set = |it: &mut HotOptions| it.cleanup_interval = Duration::from_secs(86_400);
    for space in [Space::memory(set).await, Space::on("redis", &server.url(), options(set)).await] {
        let on = space.on;
        let pages = |what: &str, count: usize| (0..count).map(|i| format!("{what} {i}")).collect::<Vec<_>>();
        // So that what is over is not what comes first.
        space.fill(&pages("a stays", 150), 1).await;
        space.fill(&pages("b ends", 900), 2).await;
        space.fill(&pages("c ends", 2000), 1).await;
        space.set(START_MS + 30 * MINUTE);
        let late = [Edit::new(key("b ends 3"), "again", "alice"), Edit::new(key("b ends 3"), "more", "bob")];
        space.hot.record_many(&late).await.unwrap();
        space.fill(&pages("a stays", 150), 2).await;
        space.set(START_MS + HOUR);
        assert_eq!(space.hot.cleanup().await.unwrap(), 899, "{on}");
        assert_eq!(
            space.metric("hot_pages_tracked"),
            101,
            "{on}: what there was room for, in the order it came"
        );
        assert_eq!(space.metric("hot_pages_expired_total"), 899, "{on}");
        assert_eq!(space.metric("cleanup_runs_total"), 1, "{on}");
        assert_eq!(space.metric("tidegate_hot_activities"), 0, "{on}: of activity that is over none is left");
        assert_eq!(space.stats("b ends 3").await.edits_last_hour, 2, "{on}");
        assert_eq!(space.hot.cleanup().await.unwrap(), 0, "{on}");
        // Pages alone.
        space.fill(&pages("d ends", 890), 2).await;
        space.set(START_MS + 2 * HOUR);
        assert_eq!(space.hot.cleanup().await.unwrap(), 101 + 890, "{on}");
        assert_eq!((space.metric("hot_pages_tracked"), space.metric("cleanup_runs_total")), (0, 3), "{on}");
        space.fill(&pages("e stays", 101), 2).await;
        if on == "redis" {
            let mut connection = server.connection();
            let stats: String = redis::cmd("INFO").arg("commandstats").query(&mut connection).unwrap();
            for command in ["scan", "keys"] {
                assert!(!stats.contains(&format!("cmdstat_{command}:")), "{stats}");
            }
            assert_eq!(audit(vec![connection], &space.namespace, HOUR), 101);
        }
    }
}

#[tokio::test]
async fn h12_the_list_is_the_hottest_and_the_hour_is_what_is_covered() {
    for space in Space::everywhere(|it| {
        it.window_duration = Duration::from_secs(900);
        it.max_members_per_page = 40;
    })
    .await
    {
        let on = space.on;
        let name = |i: usize| format!("page {:02}", i * 7 % 30);
        for i in 0..30 {
            space.fill(&[name(i)], 2 + i).await;
        }
        let top =
            |from: usize, less: u64| (0..5).map(|i| (name(from - i), (from - i + 2) as u64 - less)).collect();
        let expected: Vec<_> = top(29, 0);
        assert_eq!(space.list(5).await, expected, "{on}");
        // The hottest get nothing more, others do: counts fall by themselves.
        space.set(START_MS + 10 * MINUTE);
        for (page, count) in [(name(3), 9), (name(4), 7)] {
            for turn in 0..count {
                space.record(&page, &format!("again {turn}")).await;
            }
        }
        space.set(START_MS + 15 * MINUTE - 1);
        let expected: Vec<_> = top(29, 0);
        assert_eq!(space.list(5).await, expected, "{on}");
        space.clock.advance_ms(1);
        assert_eq!(space.list(5).await, [(name(3), 9), (name(4), 7)], "{on}: exact, not as it was");
        assert_eq!(space.hot.tracked().await.unwrap(), 2, "{on}");
        // "Last hour" says of how much of it.
        let stats = space.stats(&name(3)).await;
        assert_eq!((stats.edits_last_hour, stats.covered_ms), (9, 15 * MINUTE), "{on}");
        for turn in 0..45_u64 {
            space.clock.advance_ms(1000);
            space.record(&name(3), &format!("more {turn}")).await;
        }
        let stats = space.stats(&name(3)).await;
        assert_eq!((stats.edits_last_hour, stats.covered_ms), (54, 15 * MINUTE), "{on}: counted in full");
        assert_eq!((stats.members, stats.unique_editors, stats.grain_ms), (40, 1, 16_384), "{on}");
    }
}

/// In a cluster a script that touches keys of two slots is refused.
#[tokio::test]
async fn h13_all_keys_of_a_page_and_its_indices_share_a_slot() {
    for partitions in [1, 8] {
        let space = Space::cluster(|it| {
            it.partitions = partitions;
            it.hot_threshold = 3;
        })
        .await;
        let names = ["a", "{a}", "}{", "{}", "{b}:c", "x{1}y{2}", "ü:{ö}", "{0}", "hot:rank", " "];
        for name in names {
            for turn in 0..5 {
                space.record(name, &format!("{{{turn}}}")).await;
            }
            space.record(&format!("{name} once"), "1").await;
            assert_eq!(space.stats(name).await.edits_last_hour, 5, "{name}");
        }
        assert_eq!(space.hot.list(20).await.unwrap().len(), names.len());
        let mut tags = std::collections::BTreeSet::new();
        let start = format!("{}:", space.namespace);
        for node in CLUSTER.nodes() {
            let mut connection = node.connection();
            let keys: Vec<String> =
                redis::cmd("KEYS").arg(format!("{start}*")).query(&mut connection).unwrap();
            for key in keys.iter().filter(|key| !key.ends_with("tidegate:marker")) {
                let tag = key.strip_prefix(&start).unwrap().split_once(':').unwrap().0;
                let mut slot = redis::cmd("CLUSTER");
                let slot: u16 = slot.arg("KEYSLOT").arg(key).query(&mut connection).unwrap();
                let of_tag: u16 =
                    redis::cmd("CLUSTER").arg("KEYSLOT").arg(tag).query(&mut connection).unwrap();
                assert_eq!(slot, of_tag, "{key}");
                tags.insert(tag.to_owned());
            }
        }
        if partitions == 1 {
            assert_eq!(tags.len(), 1, "{tags:?}");
        } else {
            assert!(tags.len() > 2, "{tags:?}");
        }
        let connections = CLUSTER.nodes().iter().map(RedisServer::connection).collect();
        assert_eq!(audit(connections, &space.namespace, HOUR), names.len() as u64);
    }
}
