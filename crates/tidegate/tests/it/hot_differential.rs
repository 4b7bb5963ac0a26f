//! The same random edits on every store and on the model: every answer and every
//! event must agree. Among them are duplicates, late ones, early ones and some from
//! the future, and a clock that steps back.

use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tidegate::clock::{ManualClock, Timestamp};
use tidegate::hot::{Edit, EventKind, HotOptions, HotPage, WhenFull};
use tidegate::testkit::RedisServer;
use tidegate::testkit::hot::HotModel;
use tidegate::{Key, Tidegate};

use crate::kit::{CLUSTER, On, REDIS};

#[derive(Debug, Clone)]
enum Op {
    Record { page: u8, id: u16, editor: u8, change: i64, late_ms: i64 },
    Many(Vec<(u8, u16, i64)>),
    Stats { page: u8 },
    IsHot { page: u8 },
    Remove { page: u8 },
    Window { page: u8, from_ms: i64, to_ms: i64 },
    List { limit: usize },
    Count,
    Cleanup,
    Move { by_ms: i64 },
}

const START_MS: u64 = 1_700_000_000_123;

const KINDS: [EventKind; 8] = [
    EventKind::Promoted,
    EventKind::Replaced,
    EventKind::Trending,
    EventKind::TrendingEnded,
    EventKind::Spiking,
    EventKind::SpikingEnded,
    EventKind::Cooled,
    EventKind::Removed,
];

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let page = prop_oneof![4 => 0..4_u8, 2 => 0..12_u8];
    let late = prop_oneof![6 => Just(0_i64), 2 => 0..400_000_i64, 1 => 0..5_000_000_i64, 1 => -90_000..0_i64];
    let op = prop_oneof![
        14 => (page.clone(), 0..400_u16, 0..5_u8, -50..50_i64, late.clone())
            .prop_map(|(page, id, editor, change, late_ms)| Op::Record { page, id, editor, change, late_ms }),
        1 => prop::collection::vec((page.clone(), 0..400_u16, late), 1..12).prop_map(Op::Many),
        2 => page.clone().prop_map(|page| Op::Stats { page }),
        1 => page.clone().prop_map(|page| Op::IsHot { page }),
        1 => page.clone().prop_map(|page| Op::Remove { page }),
        1 => (page, -4_000_000..0_i64, -1_000_000..1000_i64)
            .prop_map(|(page, from_ms, to_ms)| Op::Window { page, from_ms, to_ms }),
        1 => (0..8_usize).prop_map(|limit| Op::List { limit }),
        1 => Just(Op::Count),
        1 => Just(Op::Cleanup),
        5 => (0..40_000_i64).prop_map(|by_ms| Op::Move { by_ms }),
        1 => (0..900_000_i64).prop_map(|by_ms| Op::Move { by_ms }),
        1 => prop_oneof![8 => -2000..0_i64, 2 => -90_000..0_i64, 1 => -20_000_000..20_000_000_i64]
            .prop_map(|by_ms| Op::Move { by_ms }),
    ];
    prop::collection::vec(op, 1..120)
}

fn spaces() -> impl Strategy<Value = HotOptions> {
    let window = prop_oneof![Just(60_u64), Just(900), Just(3600)];
    (1..4_u32, 1..6_u32, window, 1..6_usize, 0..6_usize, any::<bool>(), 1..9_usize).prop_map(
        |(hot, promotion, window, tracked, more, replaces, activity)| {
            let members = hot as usize + more;
            let mut options = HotOptions::default();
            options.hot_threshold = hot;
            options.promotion_threshold = promotion.min(members as u32);
            options.window_duration = Duration::from_secs(window);
            options.max_tracked = tracked;
            options.max_members_per_page = members;
            options.when_full = if replaces { WhenFull::ReplaceColdest } else { WhenFull::Refuse };
            options.max_activity = activity;
            options.spike_minimum = 3;
            options
        },
    )
}

async fn agree(on: &On, options: HotOptions, history: &[Op]) -> Result<(), TestCaseError> {
    let clock = ManualClock::at(Timestamp::from_millis(START_MS));
    let gate: Tidegate = on.open(clock.clone(), 1).await;
    let hot = gate.hot("pages", options.clone()).unwrap();
    let mut model = HotModel::new(options);
    let mut watch = hot.watch(Some("0-0")).await.unwrap();
    let name = |page: u8| format!("en:{{page}}:{page}");
    for (step, op) in history.iter().enumerate() {
        let now = clock.now().as_millis();
        let moment = |late_ms: i64| Some(Timestamp::from_millis(now.strict_add_signed(-late_ms)));
        match op {
            Op::Record { page, id, editor, change, late_ms } => {
                let (page, id) = (name(*page), format!("e{id}"));
                // One of them is nobody.
                let editor = if *editor == 0 { String::new() } else { format!("user{editor}") };
                let at = if *late_ms == 0 { None } else { moment(*late_ms) };
                let key = Key::new(&page).unwrap();
                let edit = Edit { page: key, id: &id, editor: &editor, byte_change: *change, at };
                let recorded = hot.record(&edit).await.unwrap();
                prop_assert_eq!(recorded, model.record(now, &edit), "step {}: {:?}", step, op);
            }
            Op::Many(many) => {
                let texts: Vec<_> =
                    many.iter().map(|(page, id, _)| (name(*page), format!("e{id}"))).collect();
                let edits: Vec<_> = texts
                    .iter()
                    .zip(many)
                    .map(|((page, id), (_, _, late_ms))| Edit {
                        at: moment(*late_ms),
                        ..Edit::new(Key::new(page).unwrap(), id, "bot")
                    })
                    .collect();
                let recorded = hot.record_many(&edits).await.unwrap();
                let expected: Vec<_> = edits.iter().map(|edit| model.record(now, edit)).collect();
                prop_assert_eq!(recorded, expected, "step {}: {:?}", step, op);
            }
            Op::Stats { page } => {
                let page = name(*page);
                let stats = hot.stats(Key::new(&page).unwrap()).await.unwrap();
                prop_assert_eq!(stats, model.stats(now, &page), "step {}: {:?}", step, op);
            }
            Op::IsHot { page } => {
                let page = name(*page);
                let is_hot = hot.is_hot(Key::new(&page).unwrap()).await.unwrap();
                prop_assert_eq!(is_hot, model.is_hot(now, &page), "step {}: {:?}", step, op);
            }
            Op::Remove { page } => {
                let page = name(*page);
                let removed = hot.remove(Key::new(&page).unwrap()).await.unwrap();
                prop_assert_eq!(removed, model.remove(now, &page), "step {}: {:?}", step, op);
            }
            Op::Window { page, from_ms, to_ms } => {
                let (from, to) = (now.strict_add_signed(*from_ms), now.strict_add_signed(*to_ms));
                let page = name(*page);
                let range = Timestamp::from_millis(from)..=Timestamp::from_millis(to);
                let window = hot.window(Key::new(&page).unwrap(), range).await.unwrap();
                prop_assert_eq!(window, model.window_of(now, &page, from, to), "step {}: {:?}", step, op);
            }
            Op::List { limit } => {
                let list = hot.list(*limit).await.unwrap();
                prop_assert_eq!(list, model.list(now, *limit), "step {}: {:?}", step, op);
                // Page by page it is all there is, each once.
                let (all, size) = (model.list(now, 1000), 1 + *limit % 3);
                let mut paged: Vec<HotPage> = Vec::new();
                loop {
                    let page = hot.list_after(paged.last(), size).await.unwrap();
                    let is_last = page.len() < size;
                    paged.extend(page);
                    if is_last || paged.len() > all.len() {
                        break;
                    }
                }
                prop_assert_eq!(paged, all, "step {}: by {}", step, size);
            }
            Op::Count => {
                let count = hot.count().await.unwrap();
                prop_assert_eq!(count, model.count(now), "step {}", step);
            }
            Op::Cleanup => {
                let cleaned = hot.cleanup().await.unwrap();
                prop_assert_eq!(cleaned, model.cleanup(now), "step {}: {:?}", step, op);
            }
            Op::Move { by_ms } => clock.set(Timestamp::from_millis(now.strict_add_signed(*by_ms))),
        }
    }
    // What is counted is what has happened, whoever came upon it.
    let metrics = gate.metrics();
    for kind in KINDS {
        let line = format!("tidegate_hot_events_total{{space=\"pages\",kind=\"{}\"}} ", kind.as_str());
        let counted = metrics.lines().find_map(|found| found.strip_prefix(&line)).unwrap().parse::<usize>();
        let expected = model.events.iter().filter(|event| event.0 == kind).count();
        prop_assert_eq!(counted.unwrap(), expected, "{}", kind.as_str());
    }
    for (number, expected) in model.events.iter().enumerate() {
        let event = watch.next().await.unwrap();
        let seen = (event.kind, event.page, event.edits, event.at.as_millis());
        prop_assert_eq!(&seen, expected, "event {}", number);
    }
    Ok(())
}

pub(crate) fn check(on: &On, cases: u32) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    runner
        .run(&(spaces(), ops()), |(options, history)| {
            runtime.block_on(async {
                let done = tokio::time::timeout(Duration::from_secs(60), agree(on, options, &history)).await;
                done.unwrap_or_else(|_| Err(TestCaseError::fail("an event is missing")))
            })
        })
        .unwrap_or_else(|failure| panic!("{failure}"));
}

/// Histories to run, of 60 operations in the mean.
fn budget() -> u32 {
    std::env::var("TIDEGATE_HISTORY_OPS").map_or(200_000, |ops| ops.parse::<u32>().expect("a number")) / 60
}

#[test]
fn memory_agrees_with_the_model() {
    check(&On::url("memory:"), budget());
}

#[test]
fn redis_agrees_with_the_model() {
    check(&On::url(REDIS.url()), (budget() / 10).max(1));
}

#[test]
fn the_cluster_agrees_with_the_model() {
    check(
        &On { url: CLUSTER.url(), options: |options| options.partitions = Some(3) },
        (budget() / 40).max(1),
    );
}

/// Whatever happens, indices that are emptied and made anew included.
#[test]
fn random_histories_leave_no_key_without_an_end() {
    let server = RedisServer::start();
    check(&On::url(server.url()), (budget() / 20).max(1));
    let keys: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut server.connection()).unwrap();
    for family in ["activity:", "hot:window:", "hot:editors:", "hot:rank", "hot:activities", "hot:events"] {
        assert!(keys.iter().any(|key| key.contains(family)), "no key of {family}");
    }
    assert_eq!(server.keys_without_ttl(), Vec::<String>::new());
}
