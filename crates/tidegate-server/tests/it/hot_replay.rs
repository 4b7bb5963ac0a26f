//! `tidegate hot replay`: the same file gives the same pages whatever the store, and the
//! hottest are those of a plain count.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use tidegate::testkit::RedisServer;

use crate::cli::{Server, run, tidegate};

/// 2015-09-12 00:00 UTC.
const MIDNIGHT_MS: u64 = 1_442_016_000_000;
const HOUR_MS: u64 = 3_600_000;

/// A day's edits in the form of a wiki's feed: many pages that are edited once, and some
/// that are edited again and again, each by its own rhythm.
struct Day {
    text: String,
    /// Page by page, when.
    edits: BTreeMap<String, Vec<u64>>,
}

fn day(lines: u64) -> Day {
    let (mut text, mut edits) = (String::new(), BTreeMap::<String, Vec<u64>>::new());
    let mut random = 88_172_645_463_325_252_u64;
    let mut draw = |below: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % below
    };
    for n in 0..lines {
        let ms = MIDNIGHT_MS + n * 24 * HOUR_MS / lines;
        // Half of them on forty pages, the lower the number the more often.
        let busy = draw(40).min(draw(40));
        let (wiki, page) = if draw(2) == 0 {
            (busy % 2, format!("Busy {}", busy / 2))
        } else {
            (draw(2), format!("Once {n}"))
        };
        let wiki = ["#en.wikipedia", "#de.wikipedia"][wiki as usize];
        let time = humantime(ms);
        let line = json!({"time": time, "channel": wiki, "page": page, "user": format!("u{}", draw(50)),
            "delta": draw(1000) as i64 - 500, "comment": "more than is needed"});
        text += &format!("{line}\n");
        edits.entry(format!("{wiki}:{page}")).or_default().push(ms);
    }
    Day { text, edits }
}

/// RFC 3339 in the twelfth of September.
fn humantime(ms: u64) -> String {
    let ms = ms - MIDNIGHT_MS;
    let (s, rest) = (ms / 1000, ms % 1000);
    format!("2015-09-12T{:02}:{:02}:{:02}.{rest:03}Z", s / 3600, s / 60 % 60, s % 60)
}

/// What a plain count says of the last hour: edits, the latest, page.
fn brute_force(day: &Day, top: usize) -> Vec<(u64, u64, String)> {
    let last = day.edits.values().flatten().max().copied().unwrap();
    let count = |(page, times): (&String, &Vec<u64>)| {
        let inside: Vec<_> = times.iter().filter(|ms| **ms + HOUR_MS > last).collect();
        (inside.len() as u64, inside.last().map_or(0, |ms| **ms), page.clone())
    };
    let mut all: Vec<_> = day.edits.iter().map(count).collect();
    all.sort();
    all.reverse();
    all.truncate(top);
    all
}

fn replay(file: &Path, more: &[&str]) -> Value {
    let mut command = tidegate(&["hot", "replay"]);
    command.arg(file).args(["--page-field", "channel,page", "--json"]).args(more);
    let (code, out, err) = run(command);
    assert_eq!(code, 0, "{err}");
    serde_json::from_str(&out).expect(&out)
}

fn packed(text: &str) -> Vec<u8> {
    // Two members, as who appends to a log makes them.
    let (one, other) = text.split_at(text.len() / 2);
    let pack = |text: &str| {
        let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
        packer.write_all(text.as_bytes()).unwrap();
        packer.finish().unwrap()
    };
    [pack(one), pack(other)].concat()
}

#[test]
fn memory_and_redis_have_the_same_hot_pages_and_the_top_is_that_of_a_plain_count() {
    let day = day(12_000);
    let folder = tempfile::tempdir().unwrap();
    let (plain, gzip) = (folder.path().join("day.jsonl"), folder.path().join("day.json.gz"));
    std::fs::write(&plain, &day.text).unwrap();
    std::fs::write(&gzip, packed(&day.text)).unwrap();

    // As many edits of a page as there may be in the hour.
    let whole = ["--set", "hot.main.max_members_per_page=4000", "--top", "1000"];
    let memory = replay(&plain, &whole);
    assert_eq!((&memory["good"], &memory["bad"]), (&json!(12_000), &json!(0)));
    assert_eq!(memory["from_ms"], MIDNIGHT_MS);
    assert_eq!(replay(&gzip, &whole), memory, "packed or not");

    let redis = RedisServer::start();
    let url = redis.url();
    let on_redis = replay(&gzip, &[&whole[..], &["--store", &url]].concat());
    assert_eq!(on_redis, memory, "every outcome, every page, every count");
    assert_eq!(redis.keys_without_ttl(), Vec::<String>::new());

    let top: Vec<_> = memory["pages"].as_array().unwrap()[..20]
        .iter()
        .map(|it| {
            let number = |name: &str| it[name].as_u64().unwrap();
            (number("edits"), number("last_seen_ms"), it["page"].as_str().unwrap().to_owned())
        })
        .collect();
    assert_eq!(top, brute_force(&day, 20));
    let outcomes = &memory["outcomes"];
    assert_eq!((&outcomes["rejected"], &outcomes["too_late"]), (&json!(0), &json!(0)));
}

#[test]
fn a_full_space_gives_the_same_on_memory_and_redis_too() {
    let day = day(4000);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("day.jsonl");
    std::fs::write(&file, &day.text).unwrap();
    let redis = RedisServer::start();
    let url = redis.url();
    for when_full in ["reject", "replace_coldest"] {
        let setting = format!("hot.main.when_full={when_full}");
        let small =
            ["--set", &setting, "--set", "hot.main.max_tracked=8", "--set", "hot.main.max_activity=20"];
        let memory = replay(&file, &small);
        assert_eq!(replay(&file, &[&small[..], &["--store", &url]].concat()), memory, "{when_full}");
        assert_eq!(memory["count"], 8);
    }
}

#[test]
fn a_replay_touches_nobody_elses_pages() {
    let redis = RedisServer::start();
    let url = redis.url();
    let on_redis = |args: &[&str]| {
        let mut command = tidegate(&["hot"]);
        command.args(args).args(["--store", &url, "--set", "hot.main.hot_threshold=2"]);
        run(command)
    };
    for id in ["1", "2"] {
        assert_eq!(on_redis(&["record", "live", "--id", id]).0, 0);
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("day.jsonl");
    std::fs::write(&file, day(500).text).unwrap();
    for _ in 0..2 {
        // The second counts no duplicates: it has a namespace of its own too.
        let report = replay(&file, &["--store", &url]);
        assert_eq!(report["outcomes"]["duplicate"], 0);
    }
    let (code, out, err) = on_redis(&["list", "--json"]);
    assert_eq!(code, 0, "{err}");
    let live: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&live["count"], &live["pages"][0]["page"]), (&json!(1), &json!("live")));
    let named = replay(&file, &["--store", &url, "--namespace", "mine"]);
    assert_eq!(named["good"], 500);
    let keys: Vec<String> = redis::cmd("KEYS").arg("mine:*").query(&mut redis.connection()).unwrap();
    assert!(!keys.is_empty());
    assert_eq!(redis.keys_without_ttl(), Vec::<String>::new());
}

#[test]
fn bad_lines_are_counted_and_the_first_explained() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("edits.jsonl");
    let good = r#"{"time":5000,"wiki":{"name":"en"},"title":"Gate","rev":"r1"}"#;
    let lines = ["x", good, r#"{"time":"soon","wiki":{"name":"en"},"title":"Gate","rev":2}"#, "", good];
    std::fs::write(&file, format!("{}\n{}", lines.join("\n"), "{}\n".repeat(6))).unwrap();
    let mut command = tidegate(&["hot", "replay"]);
    command.arg(&file).args(["--page-field", "wiki.name,title", "--join", "/", "--id-field", "rev"]);
    let (code, out, err) = run(command);
    assert_eq!(code, 0, "{err}");
    let expected = "2 edits from 1970-01-01T00:00:05.000Z to 1970-01-01T00:00:05.000Z, 8 bad lines\n\
         1 remembered, 1 duplicate\n0 pages hot in the last 1h\n";
    assert_eq!(out, expected);
    let name = file.display();
    for line in [
        format!("{name}:1: it is not JSON: expected value at line 1 column 1\n"),
        format!("{name}:3: `time`: \"soon\" is not a moment"),
        format!("{name}:6: there is no `wiki.name` in it\n"),
        "and 3 more bad lines\n".to_owned(),
    ] {
        assert!(err.contains(&line), "{line}: {err}");
    }
    let (code, _, err) = run({
        let mut command = tidegate(&["hot", "replay"]);
        command.arg(&file).args(["--page-field", "nope"]);
        command
    });
    assert_eq!(code, 2);
    assert!(err.contains("no line is an edit: line 1: it is not JSON"), "{err}");
}

#[test]
fn standard_input_is_read_packed_or_not() {
    let text = day(300).text;
    let mut report = Vec::new();
    for bytes in [text.clone().into_bytes(), packed(&text)] {
        let mut command = tidegate(&["hot", "replay", "-", "--page-field", "channel,page", "--json"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(&bytes).unwrap();
        report.push(String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap());
    }
    assert!(report[0].contains("\"good\":300"), "{report:?}");
    assert_eq!(report[0], report[1]);
}

#[test]
fn a_live_replay_is_made_now() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("day.jsonl");
    let day = day(1000);
    std::fs::write(&file, &day.text).unwrap();
    let server = Server::start(&[]);
    let to_server = format!("http://{}", server.address());
    let report = replay(&file, &["--rate", "20000", "--server", &to_server, "--top", "3"]);
    assert_eq!((&report["good"], &report["outcomes"]["too_late"]), (&json!(1000), &json!(0)));
    // All of the day is in the last hour of the server.
    let count = |page: &Value| day.edits[page["page"].as_str().unwrap()].len() as u64;
    let pages = report["pages"].as_array().unwrap();
    assert_eq!(pages.len(), 3);
    for page in pages {
        assert_eq!(page["edits"].as_u64().unwrap(), count(page).min(100));
    }
    let (_, out, _) = server.hot(&["list", "--limit", "1", "--json"]);
    assert_eq!(serde_json::from_str::<Value>(&out).unwrap()["count"], report["count"]);
    let direct = replay(&file, &["--rate", "20000", "--store", "memory:", "--top", "3"]);
    assert_eq!(direct["outcomes"], report["outcomes"]);
}

#[test]
fn what_cannot_be_replayed_is_refused_with_the_reason() {
    for (args, message) in [
        (vec!["/nowhere/day.jsonl"], "cannot read /nowhere/day.jsonl: "),
        (vec!["-", "--space", "nope"], "there is no space \"nope\"; known are: main"),
        (vec!["-", "--server", "http://127.0.0.1:1"], "--rate <N>"),
        (vec!["-", "--rate", "0"], "0 is not in 1..=1000000"),
        (vec!["-", "--namespace", "x"], "--store <URL>"),
        (vec!["-", "--store", "memory:", "--namespace", "X"], "`--namespace`: the name \"X\" is not allowed"),
        (
            vec!["-", "--set", "hot.main.hot_threshold=101"],
            "`hot.main`: a hot_threshold of 101 is not allowed",
        ),
        (vec!["-", "--top", "1001"], "1001 is not in 0..=1000"),
    ] {
        let mut command = tidegate(&["hot", "replay"]);
        command.args(&args);
        let (code, out, err) = run(command);
        assert_eq!((code, out.as_str()), (2, ""), "{args:?}: {err}");
        assert!(err.contains(message), "{args:?}: {err}");
    }
    let (code, out, _) = run(tidegate(&["hot", "replay", "/dev/null"]));
    assert_eq!((code, out.as_str()), (0, "0 edits, 0 bad lines\nnothing\n0 pages hot in the last 1h\n"));
}

/// Rows dated 2100, 1970 and months off, one or several in a row, at the start, in the middle
/// and at the end: all else is as if they were not there.
#[test]
fn rows_far_from_those_around_them_are_skipped_counted_and_shown() {
    let folder = tempfile::tempdir().unwrap();
    let (clean, odd) = (folder.path().join("clean.jsonl"), folder.path().join("odd.jsonl"));
    let day = day(3000);
    let lines: Vec<&str> = day.text.lines().collect();
    let row = |time: &str| {
        json!({"time": time, "channel": "#en", "page": "Odd", "user": "u", "delta": 1}).to_string()
    };
    let mut mixed: Vec<String> = Vec::new();
    for (number, line) in lines.iter().enumerate() {
        match number {
            0 => mixed.push(row("2100-01-01T00:00:00Z")),
            900 => mixed.push(row("1970-01-01T00:00:01Z")),
            1500 => mixed.extend((0..40).map(|_| row("2100-01-01T00:00:00Z"))),
            2000 => mixed.extend((0..3).map(|_| row("2016-03-01T00:00:00Z"))),
            _ => {}
        }
        mixed.push((*line).to_owned());
    }
    mixed.push(row("2100-01-01T00:00:00Z"));
    std::fs::write(&clean, &day.text).unwrap();
    std::fs::write(&odd, mixed.join("\n")).unwrap();
    // By their place in the file ids would differ.
    let ids = ["--id-field", "time"];
    let expected = replay(&clean, &ids);
    let report = replay(&odd, &ids);
    assert_eq!((&report["skipped"], &report["lines"]), (&json!(46), &json!(3046)));
    for what in ["good", "bad", "outcomes", "from_ms", "to_ms", "count", "pages"] {
        assert_eq!(report[what], expected[what], "{what}");
    }
    let first = &report["skipped_lines"][0];
    assert_eq!(first["line"], 1);
    let detail = first["detail"].as_str().unwrap();
    assert!(detail.starts_with("skipped: its time, 2100-01-01T00:00:00.000Z, is 84years"), "{detail}");
    let mut command = tidegate(&["hot", "replay", "--page-field", "channel,page"]);
    command.arg(&odd).args(["--max-gap", "1000years"]);
    let (_, out, _) = run(command);
    assert!(out.contains("too late") && !out.contains("skipped"), "{out}");
    let mut command = tidegate(&["hot", "replay", "--page-field", "channel,page"]);
    command.arg(&odd);
    let (_, out, err) = run(command);
    assert!(out.contains(", 0 bad lines, 46 rows skipped\n"), "{out}");
    assert!(
        err.contains("odd.jsonl:1: skipped: its time, 2100") && err.contains("and 41 more rows skipped"),
        "{err}"
    );
}

#[test]
fn times_in_seconds_are_pointed_out() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("seconds.jsonl");
    std::fs::write(&file, "{\"time\":1442016000,\"page\":\"a\"}\n{\"time\":1442016001,\"page\":\"a\"}\n")
        .unwrap();
    let mut command = tidegate(&["hot", "replay"]);
    command.arg(&file);
    let (code, _, err) = run(command);
    assert_eq!(code, 0);
    assert!(err.contains("1442016001 looks like 2015-09-12T00:00:01.000Z in seconds"), "{err}");
}

/// As the operations page says: pages an hour after their window, indices and the marker two.
#[test]
fn the_keys_of_a_replay_end_when_they_should() {
    const WINDOW_MS: i64 = 1_800_000;
    let redis = RedisServer::start();
    let url = redis.url();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("day.jsonl");
    std::fs::write(&file, day(2000).text).unwrap();
    replay(&file, &["--store", &url, "--namespace", "mine", "--set", "hot.main.window_duration=30m"]);
    let mut connection = redis.connection();
    let keys: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut connection).unwrap();
    for family in ["hot:window:", "hot:rank", "activity:", "tidegate:marker"] {
        assert!(keys.iter().any(|key| key.contains(family)), "{family}: {keys:?}");
    }
    for key in keys {
        let ttl_ms: i64 = redis::cmd("PTTL").arg(&key).query(&mut connection).unwrap();
        let is_of_page =
            ["activity:", "hot:window:", "hot:meta:", "hot:editors:"].iter().any(|it| key.contains(it));
        let most = WINDOW_MS + if is_of_page { 3_600_000 } else { 7_200_000 };
        assert!((1..=most).contains(&ttl_ms), "{key} ends in {ttl_ms} ms");
    }
}

/// It is stopped in the middle of a file that has no end.
#[test]
fn ctrl_c_leaves_a_summary() {
    let redis = RedisServer::start();
    let url = redis.url();
    let mut command = tidegate(&[
        "hot",
        "replay",
        "-",
        "--page-field",
        "channel,page",
        "--store",
        &url,
        "--namespace",
        "mine",
    ]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(day(1500).text.as_bytes()).unwrap();
    stdin.flush().unwrap();
    // It has begun once there is something of it.
    let begun = tidegate::clock::monotonic();
    let mut connection = redis.connection();
    while redis::cmd("EXISTS").arg("mine:hot:rank").query::<u64>(&mut connection).unwrap() == 0 {
        assert!(begun.elapsed() < std::time::Duration::from_secs(60), "nothing is recorded");
        std::thread::yield_now();
    }
    let kill = format!("kill -INT {}", child.id());
    assert!(std::process::Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert_eq!(output.status.code(), Some(130), "{out}{err}");
    assert!(out.contains(" edits from 2015-09-12T") && out.contains(" hot in the last 1h\n"), "{out}");
    assert!(err.contains("interrupted after line "), "{err}");
    drop(stdin);
}
