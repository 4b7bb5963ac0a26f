//! `tidegate run`: what it prints and how it exits, on a server or a store, with items from standard input.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;

use serde_json::{Value, json};
use tidegate::clock::monotonic;
use tidegate::testkit::RedisServer;

use crate::cli::{Server, run, run_with, tidegate, within};
use crate::support::SOON;

type Ran = (i32, String, String);

/// `tidegate run`, with this on standard input.
fn on(server: &Server, args: &[&str], input: &str) -> Ran {
    let mut command = tidegate(&["run"]);
    command.args(args).args(["--server", &format!("http://{}", server.address())]);
    run_with(command, input.as_bytes())
}

fn ok(out: &str) -> Ran {
    (0, format!("{out}\n"), String::new())
}

fn json_of(out: &str) -> Value {
    serde_json::from_str(out).expect(out)
}

const ID: &str = "manual_2024-09-17T14:30:00+00:00/ü";

#[test]
fn a_run_from_its_start_to_its_end() {
    let server = Server::start(&[]);
    let run = |args: &[&str]| on(&server, args, "");
    assert_eq!(run(&["status", ID]), (1, "there is no such run: start it\n".into(), "".into()));
    assert_eq!(run(&["start", ID, "--total", "4", "--field", "a=b=c"]), ok("started: running, attempt 1"));
    assert_eq!(run(&["start", ID]), ok("under way: running, attempt 1"));
    assert_eq!(run(&["status", ID]), ok("running"));
    assert_eq!(run(&["status", ID, "--is", "running"]), (0, "".into(), "".into()));
    assert_eq!(run(&["status", ID, "--is", "paused"]), (1, "".into(), "".into()));
    assert_eq!(run(&["status", "none", "--is", "paused"]), (1, "".into(), "".into()));

    let (code, out, _) = run(&["update", ID, "--state", "processing", "--field", "stage=1", "--remove", "a"]);
    assert!(code == 0 && out.starts_with("processing, attempt 1, kept until 20"), "{out}");
    assert_eq!(run(&["processed", ID, "007", "100000000000001"]), ok("2 new, 2 processed"));
    assert_eq!(on(&server, &["processed", ID], "007\n\n\"quoted\"\n"), ok("1 new, 3 processed"));
    assert_eq!(run(&["failed", ID, "8", "--reason", "timed\nout"]), ok("failed 1 time"));
    assert_eq!(run(&["failed", ID, "8", "--reason", "gone", "--call", "c"]), ok("failed 2 times"));
    assert_eq!(run(&["failed", ID, "8", "--reason", "gone", "--call", "c"]), ok("failed 2 times"));
    assert!(run(&["task-started", ID, "fetch"]).1.starts_with("started 20"));
    assert!(run(&["task-started", ID, "fetch"]).1.starts_with("under way since 20"));
    assert!(run(&["task-finished", ID, "fetch"]).1.starts_with("took "));
    assert_eq!(run(&["task-finished", ID, "other"]).0, 1);
    assert_eq!(run(&["retry-list", ID]), ok("8"));

    let (code, out, _) = run(&["show", ID]);
    let lines: Vec<_> = out.lines().collect();
    assert_eq!((code, lines[0]), (0, &*format!("{ID}: processing, attempt 1")));
    assert!(lines[1].starts_with("started   20") && lines[2].starts_with("updated   20"), "{out}");
    assert!(lines[3].starts_with("kept to   20"), "{out}");
    assert!(lines[4].starts_with("progress  [######################........] 3 of 4 (75%)"), "{out}");
    assert_eq!(&lines[5..8], ["failed    1 item, 1 to be tried again", "fields", "  stage = 1"]);
    assert!(lines[8] == "tasks" && lines[9].starts_with("  fetch  took "), "{out}");
    assert!(lines[10] == "failures" && lines[11].starts_with("  8  20"), "{out}");
    assert!(lines[11].ends_with("Z, 2 times  gone"), "{out}");
    let card = json_of(&run(&["show", ID, "--json"]).1);
    assert_eq!((&card["run"]["fields"], &card["progress"]["to_retry"]), (&json!({"stage": "1"}), &json!(1)));
    assert_eq!(
        (&card["tasks"][0]["task"], &card["failures"]["failures"][0]["count"]),
        (&json!("fetch"), &json!(2))
    );

    assert_eq!(run(&["finish", ID]), ok("succeeded, attempt 1"));
    assert_eq!(run(&["finish", ID]), ok("succeeded, attempt 1, as before"));
    let ended = "the run ended succeeded in attempt 1: retry it to go on\n";
    assert_eq!(run(&["finish", ID, "failed"]), (1, ended.into(), "".into()));
    assert_eq!(run(&["start", ID]), (1, ended.into(), "".into()));
    assert_eq!(run(&["processed", ID, "9"]), (1, "".into(), format!("tidegate: {ended}")));
    let (code, out, _) = run(&["start", ID, "--json"]);
    assert_eq!((code, &json_of(&out)["refusal"], &json_of(&out)["attempt"]), (1, &json!("ended"), &json!(1)));
    assert_eq!(run(&["retry", ID]), ok("started: running, attempt 2"));
    assert_eq!(run(&["retry", ID, "--from-attempt", "1"]), ok("under way: running, attempt 2"));
    assert_eq!(run(&["retry", ID]).0, 1, "it is live");
    let (code, _, err) = run(&["retry", ID, "--from-attempt", "0"]);
    assert!(code == 2 && err.contains("0 is not in 1.."), "{err}");
    assert_eq!(run(&["processed", ID, "9", "--attempt", "1"]).0, 1, "a late worker");
    assert_eq!(run(&["retry", "none"]).0, 1);

    assert!(run(&["list"]).1.starts_with(&format!("{ID}  running, attempt 2, started 20")));
    assert_eq!(run(&["list", "--state", "failed"]), ok("none"));
    assert!(run(&["expire", ID, "--after", "1h"]).1.starts_with("kept until 20"));
    assert_eq!(run(&["delete", ID]), ok("deleted"));
    assert_eq!(run(&["show", ID]), (1, "there is no such run: start it\n".into(), "".into()));
    assert_eq!(run(&["cleanup"]), ok("0 runs removed"));
    assert_eq!(
        run(&["spaces"]),
        ok(
            "main: up to 100000 runs of up to 1000000 items, kept for 1day 1h after the last update, keys under \
            courtlistener"
        )
    );
}

/// In as many batches as it takes, and in the order in which they came.
#[test]
fn items_go_through_standard_input_and_come_back_as_they_went_in() {
    let server = Server::start(&[]);
    assert_eq!(on(&server, &["start", ID], "").0, 0);
    let all: Vec<_> = (0..25_000).map(|number| format!("item {number:06} é\"\\")).collect();
    let half: String = all.iter().step_by(2).map(|item| format!("{item}\n")).collect();
    assert_eq!(on(&server, &["processed", ID], &half), ok("12500 new, 12500 processed"));
    assert_eq!(on(&server, &["processed", ID], &half), ok("0 new, 12500 processed"));
    assert_eq!(on(&server, &["processed", ID], ""), ok("0 new, 12500 processed"));
    let rest: String = all.iter().skip(1).step_by(2).map(|item| format!("{item}\n")).collect();
    assert_eq!(on(&server, &["skip-done", ID], &format!("{}\n", all.join("\n"))), (0, rest, "".into()));

    // With NUL between them items may be of several lines.
    let odd = "007\0two\nlines\0\x3100000000000001\0..\0";
    assert_eq!(on(&server, &["skip-done", ID, "--null"], odd), (0, odd.into(), "".into()));
    assert_eq!(on(&server, &["processed", ID, "-0"], odd), ok("4 new, 12504 processed"));
    assert_eq!(on(&server, &["skip-done", ID, "-0"], odd), (0, "".into(), "".into()));
    assert_eq!(on(&server, &["failed", ID, "-0", "--reason", "r"], "a\nb\0c\0"), (0, "".into(), "".into()));
    assert_eq!(on(&server, &["retry-list", ID, "-0"], ""), (0, "a\nb\0c\0".into(), "".into()));

    let refused = (1, String::new(), "tidegate: there is no such run: start it\n".to_owned());
    assert_eq!(on(&server, &["skip-done", "none"], "1\n"), refused);
    assert_eq!(on(&server, &["skip-done", "none"], ""), refused);
    assert_eq!(on(&server, &["processed", "none"], ""), refused);
    let command = tidegate(&["run", "processed", ID, "--server", &format!("http://{}", server.address())]);
    assert_eq!(run_with(command, b"1\n\xff\n"), (2, "".into(), "tidegate: item 2 is not UTF-8\n".into()));
    // What came before it is noted.
    assert_eq!(on(&server, &["skip-done", ID], "1\n2\n"), (0, "2\n".into(), "".into()));
}

/// A pipe that trickles: what has come is noted, looked up and told while more is awaited, and who is killed then has lost
/// nothing of it.
#[test]
fn items_that_trickle_in_are_noted_as_they_come() {
    let server = Server::start(&[]);
    assert_eq!(on(&server, &["start", "r"], "").0, 0);
    for (number, verb) in ["processed", "failed"].into_iter().enumerate() {
        let (item, noted) = (format!("item {number}"), ["retry-list", "r"]);
        let mut command = tidegate(&["run", verb, "r", "--server", &format!("http://{}", server.address())]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let mut pipe = child.stdin.take().unwrap();
        writeln!(pipe, "{item}").unwrap();
        // The pipe stays open until it is known.
        let deadline = monotonic() + SOON;
        loop {
            let is_noted = match verb {
                "processed" => on(&server, &["skip-done", "r"], &item).1.is_empty(),
                _ => on(&server, &noted, "").1 == format!("{item}\n"),
            };
            if is_noted {
                break;
            }
            assert!(monotonic() < deadline, "{verb} waits for the end of its input");
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
    // What is not done comes out while more is awaited.
    let mut command =
        tidegate(&["run", "skip-done", "r", "--server", &format!("http://{}", server.address())]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut pipe, mut out) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
    write!(pipe, "item 0\nnew\n").unwrap();
    let line = within(move || {
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        line
    });
    assert_eq!(line, "new\n");
    drop(pipe);
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_run_is_watched_to_its_end() {
    let server = Server::start(&[]);
    assert_eq!(on(&server, &["start", "w", "--total", "2"], "").0, 0);
    let mut command = tidegate(&["run", "watch", "w", "--interval", "100ms"]);
    command.args(["--server", &format!("http://{}", server.address())]);
    let watching = std::thread::spawn(move || run(command));
    assert_eq!(on(&server, &["processed", "w", "1", "2"], "").0, 0);
    assert_eq!(on(&server, &["finish", "w", "failed"], "").0, 0);
    let (code, out, err) = watching.join().unwrap();
    assert_eq!((code, err.as_str()), (1, ""), "it has failed: {out}");
    assert!(out.lines().last().unwrap().starts_with("w: failed, attempt 1, [####"), "{out}");
    assert_eq!(
        on(&server, &["watch", "none"], ""),
        (1, "there is no such run: start it\n".into(), "".into())
    );
}

#[test]
fn a_quota_is_charged_and_given_back() {
    let quota = ["--set", "runs.main.quota.limit=10", "--set", "runs.main.quota.safety_buffer=2"];
    let server = Server::start(&[&quota[..], &["--set", "runs.main.quota.kind=sliding"]].concat());
    let run = |args: &[&str]| on(&server, args, "");
    assert_eq!(run(&["charge", "a:1", "--cost", "5"]), ok("charged, 3 left"));
    assert_eq!(run(&["charge", "a:1", "--cost", "5"]), ok("charged before, 3 left"));
    let (code, out, err) = run(&["charge", "a:2", "--cost", "4"]);
    assert_eq!((code, err.as_str()), (1, ""));
    assert!(out.starts_with("4 are refused by the quota (sliding), 3 are left: again in "), "{out}");
    let (_, out, _) = run(&["charge", "a:2", "--cost", "4", "--json"]);
    assert!(json_of(&out)["retry_after_ms"].as_u64().unwrap() > 0, "{out}");
    let (_, out, _) = run(&["charge", "a:2", "--cost", "9"]);
    assert_eq!(out, "9 are refused by the quota (sliding), 3 are left: never, it is above the quota\n");
    let (code, out, _) = run(&["quota"]);
    let lines: Vec<_> = out.lines().collect();
    let head = "courtlistener: 3 left of 10 per hour (2 are never used), counted sliding";
    assert_eq!((code, lines[0]), (0, head));
    assert!(lines[1].starts_with("the last 60 minutes: 5 of 8 used, all free in "), "{out}");
    assert!(lines[2].starts_with("  20") && lines[2].ends_with("  5  most"), "{out}");
    assert_eq!(run(&["release", "a:1"]), ok("released"));
    assert_eq!(run(&["release", "a:1"]), ok("released before"));
    assert_eq!(run(&["release", "none"]).0, 1);
    assert_eq!(run(&["charge", "a:1", "--cost", "5"]).0, 1, "it was released");
}

#[test]
fn the_command_line_uses_a_store_without_a_server() {
    let redis = RedisServer::start();
    let on_redis = |args: &[&str]| {
        let mut command = tidegate(&["run"]);
        command.args(args).args(["--store", &redis.url(), "--set", "store.deadline=10s"]);
        run(command)
    };
    let (code, _, err) = on_redis(&["start", ID]);
    assert_eq!(code, 2);
    assert!(err.contains("the store declares no space of runs \"main\""), "{err}");
    let written = ["--set", "runs.main.state_ttl=2h"];
    assert_eq!(on_redis(&[&["start", ID], &written[..]].concat()), ok("started: running, attempt 1"));
    assert_eq!(on_redis(&[&["processed", ID, "1"], &written[..]].concat()), ok("1 new, 1 processed"));
    assert_eq!(redis.keys_without_ttl(), Vec::<String>::new());
    // What a server has declared is what is asked by.
    let server = Server::start(&["--store", &redis.url(), written[0], written[1]]);
    assert_eq!(on(&server, &["status", ID], ""), ok("running"));
    assert_eq!(on_redis(&["status", ID]), ok("running"));
    assert_eq!(on_redis(&["processed", ID, "1", "2"]), ok("1 new, 2 processed"));
}
