//! The model of hot pages, asked the same random questions as the HTTP API: every answer
//! must be what the model says. Among the edits are duplicates, late ones, early ones and
//! some from the future, and the clock steps back.

use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};
use tidegate::Key;
use tidegate::clock::Timestamp;
use tidegate::hot::{Edit, EditRef, HotOptions, HotPage, Recorded, Stats, WhenFull};
use tidegate::testkit::hot::HotModel;

use crate::support::{Fixture, START, bulk, settings};

#[derive(Debug, Clone)]
enum Op {
    Record { page: u8, id: u16, editor: u8, change: i64, late_ms: i64 },
    Many(Vec<(u8, u16, i64)>),
    Stats { page: u8 },
    Window { page: u8, from_ms: i64, to_ms: i64 },
    List { limit: usize },
    Cleanup,
    Move { by_ms: i64 },
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let page = prop_oneof![4 => 0..4_u8, 2 => 0..12_u8];
    let late = prop_oneof![6 => Just(0_i64), 2 => 0..400_000_i64, 1 => 0..5_000_000_i64, 1 => -90_000..0_i64];
    let op = prop_oneof![
        10 => (page.clone(), 0..400_u16, 0..5_u8, -50..50_i64, late.clone())
            .prop_map(|(page, id, editor, change, late_ms)| Op::Record { page, id, editor, change, late_ms }),
        3 => prop::collection::vec((page.clone(), 0..400_u16, late), 1..12).prop_map(Op::Many),
        2 => page.clone().prop_map(|page| Op::Stats { page }),
        1 => (page, -4_000_000..0_i64, 0..3_000_000_i64)
            .prop_map(|(page, from_ms, length)| Op::Window { page, from_ms, to_ms: from_ms + length }),
        2 => (0..8_usize).prop_map(|limit| Op::List { limit }),
        1 => Just(Op::Cleanup),
        5 => (0..40_000_i64).prop_map(|by_ms| Op::Move { by_ms }),
        1 => (0..900_000_i64).prop_map(|by_ms| Op::Move { by_ms }),
        1 => (-2000..0_i64).prop_map(|by_ms| Op::Move { by_ms }),
    ];
    prop::collection::vec(op, 1..80)
}

/// Settings as they are written, and what they amount to.
fn spaces() -> impl Strategy<Value = (Vec<String>, HotOptions)> {
    let window = prop_oneof![Just(60_u64), Just(900), Just(3600)];
    (1..4_u32, 2..6_u32, window, 1..6_usize, 3..9_usize, any::<bool>(), 2..9_usize).prop_map(
        |(hot, promotion, window, tracked, members, replaces, activity)| {
            let promotion = promotion.min(members as u32);
            let mut options = HotOptions::default();
            options.hot_threshold = hot;
            options.promotion_threshold = promotion;
            options.window_duration = Duration::from_secs(window);
            options.max_tracked = tracked;
            options.max_members_per_page = members;
            options.when_full = if replaces { WhenFull::ReplaceColdest } else { WhenFull::Refuse };
            options.max_activity = activity;
            options.spike_minimum = 3;
            let when_full = if replaces { "replace_coldest" } else { "reject" };
            let written = [
                format!("main.hot_threshold={hot}"),
                format!("main.promotion_threshold={promotion}"),
                format!("main.window_duration={window}s"),
                format!("main.max_tracked={tracked}"),
                format!("main.max_members_per_page={members}"),
                format!("main.when_full={when_full}"),
                format!("main.max_activity={activity}"),
                "main.spike_minimum=3".to_owned(),
            ];
            (written.to_vec(), options)
        },
    )
}

fn name(page: u8) -> String {
    format!("en:{{page}}/{page}?")
}

fn path(page: u8) -> String {
    format!("/v1/hot/main/pages/en%3A%7Bpage%7D%2F{page}%3F")
}

fn stats_json(page: &str, stats: &Stats) -> Value {
    json!({
        "space": "main", "page": page, "is_hot": stats.is_hot, "is_trending": stats.is_trending,
        "is_spiking": stats.is_spiking, "edits_last_hour": stats.edits_last_hour,
        "edits_last_5_minutes": stats.edits_last_5_minutes, "covered_ms": stats.covered_ms,
        "unique_editors": stats.unique_editors, "last_byte_change": stats.last_byte_change,
        "total_edits": stats.total_edits,
        "first_seen_ms": stats.is_hot.then(|| stats.first_seen.as_millis()),
        "last_seen_ms": stats.is_hot.then(|| stats.last_seen.as_millis()),
    })
}

fn edit_json(edit: &EditRef) -> Value {
    json!({"id": edit.id, "at_ms": edit.at.as_millis(), "editor": edit.editor, "byte_change": edit.byte_change})
}

fn page_json(page: &HotPage) -> Value {
    json!({"page": page.page, "edits": page.edits, "last_seen_ms": page.last_seen.as_millis()})
}

async fn agree(written: &[String], options: HotOptions, history: &[Op]) -> Result<(), TestCaseError> {
    let written: Vec<_> = written.iter().map(String::as_str).collect();
    let f = Fixture::of("memory:", &settings("hot", &written), START).await;
    let mut model = HotModel::new(options);
    for (step, op) in history.iter().enumerate() {
        let now = f.clock.now().as_millis();
        let moment = |late_ms: i64| now.strict_add_signed(-late_ms);
        match op {
            Op::Record { page, id, editor, change, late_ms } => {
                let (page, id, editor) = (name(*page), format!("e{id}"), format!("user{editor}"));
                let at = (*late_ms != 0).then(|| moment(*late_ms));
                let body = json!({"page": page, "id": id, "editor": editor, "byte_change": change, "at": at});
                let told = f.post("/v1/hot/main/edits", &body.to_string()).await.json();
                let edit = Edit {
                    page: Key::new(&page).unwrap(),
                    id: &id,
                    editor: &editor,
                    byte_change: *change,
                    at: at.map(Timestamp::from_millis),
                };
                let expected = model.record(now, &edit);
                prop_assert_eq!(&told["outcome"], expected.as_str(), "step {}: {:?}", step, op);
                let replaced = match expected {
                    Recorded::Promoted { replaced } => replaced,
                    _ => None,
                };
                prop_assert_eq!(told.get("replaced").cloned(), replaced.map(Value::from), "step {}", step);
            }
            Op::Many(many) => {
                let mut outcomes = json!({"remembered": 0, "promoted": 0, "added": 0, "rejected": 0,
                    "duplicate": 0, "too_late": 0, "dropped": 0, "unknown": 0, "corrupt": 0});
                let mut lines = String::new();
                for (page, id, late_ms) in many {
                    let (page, id, at) = (name(*page), format!("e{id}"), moment(*late_ms));
                    lines += &format!("{}\n", json!({"page": page, "id": id, "editor": "bot", "at": at}));
                    let edit = Edit {
                        at: Some(Timestamp::from_millis(at)),
                        ..Edit::new(Key::new(&page).unwrap(), &id, "bot")
                    };
                    let count = &mut outcomes[model.record(now, &edit).as_str()];
                    *count = json!(count.as_u64().unwrap() + 1);
                }
                let told = bulk(&f.app, "/v1/hot/main/edits", lines).await.json();
                prop_assert_eq!(&told["outcomes"], &outcomes, "step {}: {:?}", step, op);
            }
            Op::Stats { page } => {
                let told = f.get(&path(*page)).await.json();
                let page = name(*page);
                let expected = stats_json(&page, &model.stats(now, &page));
                prop_assert_eq!(told, expected, "step {}: {:?}", step, op);
            }
            Op::Window { page, from_ms, to_ms } => {
                let (from, to) = (now.strict_add_signed(*from_ms), now.strict_add_signed(*to_ms));
                let told = f.get(&format!("{}/window?from={from}&to={to}", path(*page))).await.json();
                let expected: Vec<_> =
                    model.window_of(now, &name(*page), from, to).iter().map(edit_json).collect();
                prop_assert_eq!(&told["edits"], &json!(expected), "step {}: {:?}", step, op);
            }
            Op::List { limit } => {
                let told = f.get(&format!("/v1/hot/main?limit={limit}")).await.json();
                let expected: Vec<_> = model.list(now, *limit).iter().map(page_json).collect();
                prop_assert_eq!(&told["pages"], &json!(expected), "step {}: {:?}", step, op);
                prop_assert_eq!(&told["count"], model.count(now), "step {}", step);
            }
            Op::Cleanup => {
                let told = f.post("/v1/hot/main/cleanup", "").await.json();
                prop_assert_eq!(&told["expired"], model.cleanup(now), "step {}: {:?}", step, op);
            }
            Op::Move { by_ms } => f.clock.set(Timestamp::from_millis(now.strict_add_signed(*by_ms))),
        }
    }
    Ok(())
}

#[test]
fn the_http_api_agrees_with_the_model() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut runner = TestRunner::new(Config { cases: 300, failure_persistence: None, ..Config::default() });
    runner
        .run(&(spaces(), ops()), |((written, options), history)| {
            runtime.block_on(agree(&written, options, &history))
        })
        .unwrap_or_else(|failure| panic!("{failure}"));
}
