//! Random files: what becomes of their rules is what a list would make of them, and an export comes back as it was.

use std::collections::BTreeMap;
use std::io;
use std::sync::OnceLock;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tidegate_edge::formats::{ExportFormat, Format, Reader};
use tidegate_edge::rule::{Rule, Terms};
use tidegate_edge::truth::{ImportMode, ImportOptions, ImportOutcome};

use crate::import::{check, dry, exported, import_with, options, with};
use crate::kit::World;

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

/// Imports lines into one database, what that exports into another, and so on.
async fn comes_back(
    lines: &[serde_json::Value],
    world: World,
    other: &impl AsyncFn() -> World,
) -> Result<(), TestCaseError> {
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
        let other = other().await;
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

fn an_export_comes_back(cases: u32, from: impl AsyncFn() -> World, into: impl AsyncFn() -> World) {
    let cases =
        std::env::var("TIDEGATE_HISTORY_OPS").map_or(cases, |ops| ops.parse::<u32>().unwrap() / 50_000);
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let run = |lines: Vec<serde_json::Value>| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async { comes_back(&lines, from().await, &into).await })
    };
    TestRunner::new(config).run(&vec(hostile(), 1..12), run).unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn an_export_comes_back_byte_for_byte_on_sqlite() {
    an_export_comes_back(40, World::sqlite, World::sqlite);
}

#[test]
fn an_export_comes_back_byte_for_byte_on_postgres() {
    let (one, two) = (OnceLock::new(), OnceLock::new());
    an_export_comes_back(
        20,
        async || World::postgres_again(&one).await,
        async || World::postgres_again(&two).await,
    );
}

#[test]
fn an_export_goes_from_sqlite_to_postgres_byte_for_byte() {
    let database = OnceLock::new();
    an_export_comes_back(20, World::sqlite, async || World::postgres_again(&database).await);
}

#[test]
fn an_export_goes_from_postgres_to_sqlite_byte_for_byte() {
    let database = OnceLock::new();
    an_export_comes_back(20, async || World::postgres_again(&database).await, World::sqlite);
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

async fn agrees(world: World, files: &[File]) -> Result<(), TestCaseError> {
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

fn imports_agree_with_a_list(cases: u32, world: impl AsyncFn() -> World) {
    let cases =
        std::env::var("TIDEGATE_HISTORY_OPS").map_or(cases, |ops| ops.parse::<u32>().unwrap() / 20_000);
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let run = |files: Vec<File>| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async { agrees(world().await, &files).await })
    };
    TestRunner::new(config).run(&histories(), run).unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn imports_into_sqlite_agree_with_a_list() {
    imports_agree_with_a_list(60, World::sqlite);
}

#[test]
fn imports_into_postgres_agree_with_a_list() {
    let database = OnceLock::new();
    imports_agree_with_a_list(30, async || World::postgres_again(&database).await);
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
