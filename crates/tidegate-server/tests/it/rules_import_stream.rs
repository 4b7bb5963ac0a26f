//! Lists of rules on their way: large ones in bounded memory, ones that break off, and servers that do.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use axum::body::Body;
use futures_util::{StreamExt as _, stream};
use serde_json::{Value, json};
use tidegate::clock::monotonic;
use tidegate_edge::truth::{Digest, Position};
use tidegate_server::serve::Ended;
use tidegate_server::settings::HttpSettings;

use crate::cli::Server;
use crate::lifecycle::start_with;
use crate::rules::{World, world};
use crate::rules_import::import;
use crate::support::{SOON, soon};

const HEAD: &str =
    "POST /v1/rules/import?format=csv HTTP/1.1\r\nhost: t\r\ntransfer-encoding: chunked\r\n\r\n";

fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

/// Lines of a list: rules that say which round they are of.
fn lines(numbers: std::ops::Range<u64>, round: u64, note: &str) -> String {
    numbers.map(|it| format!("r{it},/r/{it},https://example.com/{round}/{it},{note}\n")).collect()
}

const HEADER: &str = "id,path,destination,note\n";

/// Sends `count` rules as they are made; the answer's status and body.
fn send_list(
    address: &str,
    format: &str,
    count: u64,
    header: &str,
    lines: impl Fn(std::ops::Range<u64>) -> String,
) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(address).ok()?;
    // It may be a busy machine, and a list is long; whoever hangs is not waited for.
    stream.set_read_timeout(Some(6 * SOON)).ok()?;
    stream.set_write_timeout(Some(6 * SOON)).ok()?;
    stream.write_all(HEAD.replace("csv", format).as_bytes()).ok()?;
    for from in (0..count).step_by(100) {
        let header = if from == 0 { header } else { "" };
        let piece = format!("{header}{}", lines(from..count.min(from + 100)));
        stream.write_all(chunk(&piece).as_bytes()).ok()?;
    }
    stream.write_all(b"0\r\n\r\n").ok()?;
    let mut answer = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let read = stream.read(&mut piece).ok()?;
        answer.extend_from_slice(&piece[..read]);
        let text = String::from_utf8_lossy(&answer);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length =
                head.split("content-length: ").nth(1)?.split("\r\n").next()?.parse::<usize>().ok()?;
            if body.len() >= length {
                return Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()));
            }
        }
        if read == 0 {
            return None;
        }
    }
}

/// The same of a round.
fn send_round(address: &str, count: u64, round: u64) -> Option<(u16, String)> {
    send_list(address, "csv", count, HEADER, |numbers| lines(numbers, round, ""))
}

/// The most memory that a process has had, in kB.
fn peak_kb(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    peak.trim().strip_suffix(" kB").unwrap().parse().unwrap()
}

/// All of a snapshot's rules, checked against its digest.
fn snapshot(server: &Server) -> (Position, Vec<String>) {
    let answer = server.get("/v1/rules/export?format=jsonl");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
    let position = server.get("/v1/rules/position");
    let position: Position = serde_json::from_str(position.split("\r\n\r\n").nth(1).unwrap()).unwrap();
    let mut digest = Digest::default();
    for line in body.lines() {
        let rule: Value = serde_json::from_str(line).unwrap();
        let own = format!("{}}}", &line[..line.rfind(",\"clicks\":").unwrap()]);
        digest =
            digest.with(Digest::of(rule["id"].as_str().unwrap(), rule["version"].as_u64().unwrap(), &own));
    }
    assert_eq!((body.lines().count() as u64, digest), (position.count, position.digest));
    (position, body.lines().map(str::to_owned).collect())
}

/// The list is far larger than what the server may have for it: what SQLite may keep of two databases is most of that. Much
/// of it is spaces, which nobody keeps.
#[test]
fn a_hundred_thousand_rules_are_never_all_in_memory() {
    const RULES: u64 = 100_000;
    const MOST_KB: u64 = 120 << 10;
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("rules.db").display());
    let server = Server::start(&["--rules", &url]);
    let before_kb = peak_kb(server.id());
    let padding = " ".repeat(2000);
    let lines = |numbers: std::ops::Range<u64>| -> String {
        numbers.map(|it| format!("{{\"path\":\"/r/{it}\",\"destination\":\"/x/{it}\"}}{padding}\n")).collect()
    };
    let start = monotonic();
    let (status, body) = send_list(server.address(), "jsonl", RULES, "", lines).unwrap();
    let seconds = start.elapsed().as_secs_f64();
    let report: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(
        (status, &report["created"], &report["outcome"]),
        (200, &json!(RULES), &json!("written")),
        "{body}"
    );
    let (list_kb, grown_kb) = (report["bytes"].as_u64().unwrap() >> 10, peak_kb(server.id()) - before_kb);
    println!("{RULES} rules of {list_kb} kB: {seconds:.1} s, {grown_kb} kB more memory");
    assert!(list_kb > MOST_KB * 3 / 2 - 1000, "{list_kb}");
    assert!(grown_kb < MOST_KB, "{grown_kb} kB for a list of {list_kb} kB");
    let out = folder.path().join("rules.csv");
    let export = crate::cli::tidegate(&["rules", "export", out.to_str().unwrap(), "--server", server.url()]);
    let start = monotonic();
    assert_eq!(crate::cli::run(export).0, 0);
    let seconds = start.elapsed().as_secs_f64();
    assert_eq!(std::fs::read_to_string(out).unwrap().lines().count() as u64, RULES + 1);
    let grown_kb = peak_kb(server.id()) - before_kb;
    println!("and exported: {seconds:.1} s, {grown_kb} kB more memory");
    assert!(grown_kb < MOST_KB, "{grown_kb} kB for an export");
}

/// A list whose pieces are counted as they are asked for, and which goes on when it is let.
fn counted(pieces: Vec<String>, asked: &Arc<AtomicU64>, rest: tokio::sync::oneshot::Receiver<()>) -> Body {
    let asked = Arc::clone(asked);
    let pieces = stream::iter(pieces).map(move |piece| {
        asked.fetch_add(1, Ordering::Relaxed);
        Ok::<_, std::io::Error>(piece)
    });
    let rest = stream::once(async move { Ok(rest.await.map(|()| String::new()).unwrap_or_default()) });
    Body::from_stream(pieces.chain(rest))
}

/// Imports take turns, and who waits is not read meanwhile.
#[tokio::test]
async fn an_import_that_waits_for_its_turn_is_not_read() {
    let w = world().await;
    let begun = |asked: &Arc<AtomicU64>, many: u64| {
        let asked = Arc::clone(asked);
        soon(async move {
            while asked.load(Ordering::Relaxed) < many {
                tokio::task::yield_now().await;
            }
        })
    };
    let list = |of: u64| -> Vec<String> {
        let own = (0..50).map(|it| lines(of * 5000 + it * 100..of * 5000 + it * 100 + 100, of, ""));
        std::iter::once(HEADER.to_owned()).chain(own).collect()
    };
    let (first_asked, second_asked) = (Arc::default(), Arc::default());
    let (go_on, rest) = tokio::sync::oneshot::channel();
    let first = counted(list(0), &first_asked, rest);
    let (done, rest) = tokio::sync::oneshot::channel();
    let second = counted(list(1), &second_asked, rest);
    done.send(()).unwrap();
    let (first, second) = (import(&w, "?format=csv", first), import(&w, "?format=csv", second));
    let both = async {
        let meanwhile = async {
            // More than wait for it: it is being read, so it is its turn.
            begun(&first_asked, 51).await;
            begun(&second_asked, 5).await;
            for _ in 0..20 {
                assert_eq!(w.get("/v1/rules/position").await.json()["seq"], 0);
            }
            let asked = second_asked.load(Ordering::Relaxed);
            assert!(asked <= 6, "{asked} pieces of a list that waits");
            go_on.send(()).unwrap();
        };
        // The second is not begun before the first has its turn.
        let second = async {
            begun(&first_asked, 51).await;
            second.await
        };
        tokio::join!(first, second, meanwhile)
    };
    let (first, second, ()) = soon(both).await;
    for (answer, seq) in [(first, 1), (second, 2)] {
        let answer = answer.json();
        assert_eq!((&answer["created"], &answer["seq"]), (&json!(5000), &json!(seq)), "{answer}");
    }
}

/// Waits until so many imports have failed: nothing of them is under way any more.
async fn failed(w: &World, count: u64) {
    let line = format!("\ntidegate_rules_imports_total{{outcome=\"failed\"}} {count}\n");
    soon(async {
        while !w.get("/metrics").await.body.contains(&line) {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

async fn nothing_is_written(w: &World) {
    let position = w.get("/v1/rules/position").await.json();
    assert_eq!((&position["seq"], &position["count"]), (&json!(0), &json!(0)));
}

#[tokio::test]
async fn a_list_that_breaks_off_writes_nothing() {
    let w = world().await;
    let running = start_with(HttpSettings::default(), w.app.clone()).await;
    let whole = format!("{HEADER}{}", lines(0..1000, 1, ""));
    let long = HEAD.replace("transfer-encoding: chunked", &format!("content-length: {}", whole.len() + 1));
    let cut = chunk(&whole).trim_end().to_owned();
    for (number, (head, body)) in
        [(HEAD, cut), (HEAD, chunk(&whole)), (&*long, whole)].into_iter().enumerate()
    {
        let mut client = running.connect().await;
        client.send(&format!("{head}{body}")).await;
        client.send_no_more().await;
        let answer = client.read_to_end().await;
        assert!(answer.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{answer}");
        assert!(answer.contains("the body ended early, and nothing was written"), "{answer}");
        failed(&w, 2 * number as u64 + 1).await;
        // The same of a sender that is gone.
        let mut client = running.connect().await;
        client.send(&format!("{head}{body}")).await;
        drop(client);
        failed(&w, 2 * number as u64 + 2).await;
        nothing_is_written(&w).await;
    }
    running.stop().await;
}

#[tokio::test]
async fn a_list_that_does_not_come_writes_nothing() {
    let w = world().await;
    let brief = Duration::from_millis(200);
    for (number, (settings, detail)) in [
        (
            HttpSettings { bulk_timeout: brief, ..HttpSettings::default() },
            "the request was not complete after 200ms, and nothing was written",
        ),
        (
            HttpSettings { request_timeout: brief, ..HttpSettings::default() },
            "nothing has come for 200ms, and nothing was written",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let running = start_with(settings, w.app.clone()).await;
        let mut client = running.connect().await;
        client.send(&format!("{HEAD}{}", chunk(&format!("{HEADER}{}", lines(0..10, 1, ""))))).await;
        let answer = client.read_to_end().await;
        assert!(
            answer.starts_with("HTTP/1.1 408 Request Timeout\r\n") && answer.contains(detail),
            "{answer}"
        );
        failed(&w, number as u64 + 1).await;
        nothing_is_written(&w).await;
        running.stop().await;
    }
}

/// Longer than any other request may take, and never silent for so long.
#[tokio::test]
async fn a_list_has_a_time_of_its_own() {
    let w = world().await;
    let settings = HttpSettings { request_timeout: Duration::from_millis(500), ..HttpSettings::default() };
    let running = start_with(settings, w.app.clone()).await;
    let mut client = running.connect().await;
    client.send(&format!("{HEAD}{}", chunk(HEADER))).await;
    let (begun, mut count) = (monotonic(), 0);
    while begun.elapsed() < Duration::from_millis(1500) {
        client.send(&chunk(&lines(count..count + 10, 1, ""))).await;
        count += 10;
    }
    client.send("0\r\n\r\n").await;
    let answer = client.read_until("}}").await;
    assert!(answer.contains(&format!("\"created\":{count},")), "{answer}");
    running.stop().await;
}

#[tokio::test]
async fn a_server_that_stops_writes_no_part_of_a_list() {
    let w = world().await;
    let long = Duration::from_secs(3600);
    let settings = HttpSettings { request_timeout: long, shutdown_deadline: long, ..HttpSettings::default() };
    let running = start_with(settings, w.app.clone()).await;
    let mut client = running.connect().await;
    client.send(&format!("{}expect: 100-continue\r\n\r\n", HEAD.strip_suffix("\r\n").unwrap())).await;
    assert_eq!(client.read_until("\r\n\r\n").await, "HTTP/1.1 100 Continue\r\n\r\n");
    client.send(&chunk(&format!("{HEADER}{}", lines(0..10, 1, "")))).await;
    assert_eq!(running.stop().await, Ended { cut: 0 });
    let answer = client.read_to_end().await;
    assert!(answer.starts_with("HTTP/1.1 503 Service Unavailable\r\n"), "{answer}");
    assert!(answer.contains("the server is stopping, and nothing was written"), "{answer}");
    failed(&w, 1).await;
    nothing_is_written(&w).await;
}

/// What is wrong is known at the first line: whoever sends all the same reads the answer.
#[tokio::test]
async fn a_long_list_that_is_refused_at_its_start_is_answered_at_its_end() {
    let w = world().await;
    let running = start_with(HttpSettings::default(), w.app.clone()).await;
    let mut client = running.connect().await;
    client.send(&format!("{HEAD}{}", chunk("no,such,header\n"))).await;
    let piece = chunk(&"x".repeat(1 << 20));
    for _ in 0..20 {
        client.send(&piece).await;
    }
    client.send("0\r\n\r\n").await;
    let answer = client.read_until("\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 422 Unprocessable Entity\r\n"), "{answer}");
    // The connection goes on.
    let body = client.read_until("}}").await;
    assert!(body.contains("a rule has no column"), "{body}");
    client.healthz().await;
    running.stop().await;
}

/// A client that takes its time is waited for as long as it takes anything, and its connection is one like others then.
#[tokio::test]
async fn a_slow_reader_gets_all_of_an_export() {
    let w = world().await;
    let list = format!("{HEADER}{}", lines(0..20_000, 1, &"n".repeat(1000)));
    assert_eq!(import(&w, "?format=csv", list).await.status, 200);
    let brief = Duration::from_millis(300);
    let get = "GET /v1/rules/export HTTP/1.1\r\nhost: t\r\n\r\n";
    let length = |head: &str| -> usize {
        head.split("content-length: ").nth(1).unwrap().split("\r\n").next().unwrap().parse().unwrap()
    };
    let settings = HttpSettings { idle_timeout: brief, ..HttpSettings::default() };
    let running = start_with(settings, w.app.clone()).await;
    let mut client = running.connect().await;
    client.send(get).await;
    let whole = length(&client.read_until("\r\n\r\n").await);
    assert!(whole > 20_000_000, "{whole}");
    let begun = monotonic();
    while begun.elapsed() < 3 * brief {
        running.connect().await.healthz().await;
    }
    let body = client.read_to_end().await;
    assert_eq!(body.len(), whole, "and then it ended, since nothing else was asked for");
    running.stop().await;

    let settings = HttpSettings { stall_timeout: brief, ..HttpSettings::default() };
    let running = start_with(settings, w.app.clone()).await;
    let mut client = running.connect().await;
    client.send(get).await;
    client.read_until("\r\n\r\n").await;
    let begun = monotonic();
    while begun.elapsed() < 3 * brief {
        running.connect().await.healthz().await;
    }
    let body = client.read_to_end().await;
    assert!(body.len() < whole, "who takes nothing for so long is cut off");
    running.stop().await;
}

/// An import into a server of its own, which is killed when `is_time` says so; whether it was acknowledged.
fn killed(url: &str, count: u64, round: u64, is_time: impl Fn(&thread::JoinHandle<bool>) -> bool) -> bool {
    let server = Server::start(&["--rules", url]);
    let address = server.address().to_owned();
    let sending =
        thread::spawn(move || send_round(&address, count, round).is_some_and(|(status, _)| status == 200));
    let deadline = monotonic() + 6 * SOON;
    while !is_time(&sending) {
        assert!(monotonic() < deadline, "round {round}: it should have happened by now");
        thread::yield_now();
    }
    server.signal("KILL");
    sending.join().unwrap()
}

/// Wherever in an import the server is killed, the list is there as a whole or not at all.
#[test]
fn a_server_killed_amid_an_import_leaves_all_of_it_or_nothing() {
    const RULES: u64 = 10_000;
    let rounds = if std::env::var_os("TIDEGATE_LONG").is_some() { 50 } else { 10 };
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("rules.db").display());
    let wal = folder.path().join("rules.db-wal");
    let wal_bytes = || wal.metadata().map_or(0, |it| it.len());
    // How long it takes, and what it writes: twice, since rules that change are those of the rounds to come.
    let (mut takes, mut whole_bytes) = (Duration::ZERO, 0);
    for round in 0..2 {
        let (start, most) = (monotonic(), AtomicU64::new(0));
        let watched = |sending: &thread::JoinHandle<bool>| {
            most.fetch_max(wal_bytes(), Ordering::Relaxed);
            sending.is_finished()
        };
        assert!(killed(&url, RULES, round, watched));
        (takes, whole_bytes) = (start.elapsed(), most.load(Ordering::Relaxed));
    }
    assert!(whole_bytes > 1 << 20, "{whole_bytes}");
    let mut before = snapshot(&Server::start(&["--rules", &url])).0;
    assert_eq!((before.seq.0, before.count), (2, RULES));
    let (mut acknowledged, mut written) = (0, 0);
    for round in 2..2 + rounds {
        let share = (round - 2) as f64 / (rounds - 1) as f64;
        let is_acknowledged = match round % 2 {
            // When it was answered.
            _ if round == 1 + rounds => killed(&url, RULES, round, thread::JoinHandle::is_finished),
            // While it is read and staged, and a little later, by time: nothing is seen of it from outside.
            0 => {
                let until = monotonic() + takes.mul_f64(share);
                killed(&url, RULES, round, |_| monotonic() >= until)
            }
            // While it is written, by how much of it is.
            _ => killed(&url, RULES, round, |sending| {
                sending.is_finished() || wal_bytes() as f64 >= whole_bytes as f64 * share.max(0.01)
            }),
        };
        let server = Server::start(&["--rules", &url]);
        let (after, rules) = snapshot(&server);
        assert_eq!(after.count, RULES, "round {round}");
        let is_there = after.seq != before.seq;
        assert!(is_there || !is_acknowledged, "round {round}: it was acknowledged and is gone");
        if is_there {
            assert_eq!(after.seq, before.seq.next(), "round {round}");
            let own = format!("https://example.com/{round}/");
            assert!(rules.iter().all(|rule| rule.contains(&own)), "round {round} is there in part");
        } else {
            assert_eq!(after.digest, before.digest, "round {round}");
        }
        (written, acknowledged) = (written + u64::from(is_there), acknowledged + u64::from(is_acknowledged));
        let left = std::fs::read_dir(folder.path()).unwrap().map(|it| it.unwrap().file_name());
        assert!(left.into_iter().all(|it| !it.to_str().unwrap().contains("-import-")), "round {round}");
        before = after;
    }
    println!(
        "{rounds} rounds, {takes:?} and {whole_bytes} bytes each: {written} there, {acknowledged} acknowledged"
    );
    assert!(written > 0 && written < rounds, "some are killed before they are written, and some are not");
}
