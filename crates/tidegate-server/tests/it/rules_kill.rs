//! A server that is killed in the middle of writes: whatever it had acknowledged is there, and all of it fits together.

use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use serde_json::{Value, json};
use tidegate::random::Random;
use tidegate_edge::truth::{Digest, Position};

use crate::cli::Server;

const WRITERS: u64 = 8;

/// The status of a request, if it was answered.
fn status(address: &str, method: &str, path: &str, body: &str) -> Option<u16> {
    let mut stream = TcpStream::connect(address).ok()?;
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: t\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n"
    );
    stream.write_all(format!("{head}{body}").as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    answer.split(' ').nth(1)?.parse().ok()
}

/// Writes higher and higher numbers into rules of its own, until nobody answers; of each the number that was
/// acknowledged last, and the one that was sent last.
fn write(address: &str, writer: u64, from: u64, is_over: &AtomicBool) -> HashMap<String, (u64, u64)> {
    let mut written = HashMap::new();
    for number in from.. {
        let id = format!("w{writer}-{}", number % 5);
        let body = json!({"path": format!("/{id}"), "destination": format!("https://example.com/{number}")})
            .to_string();
        let entry = written.entry(id.clone()).or_insert((0, 0));
        entry.1 = number;
        match status(address, "PUT", &format!("/v1/rules/{id}"), &body) {
            Some(200 | 201) => entry.0 = number,
            None if is_over.load(Ordering::Relaxed) => return written,
            other => panic!("{other:?} before the end"),
        }
    }
    written
}

/// A body that came in chunks.
fn joined(mut chunks: &str) -> String {
    let mut body = String::new();
    while let Some((length, rest)) = chunks.split_once("\r\n") {
        let length = usize::from_str_radix(length, 16).unwrap();
        body += &rest[..length];
        chunks = rest[length..].strip_prefix("\r\n").unwrap();
    }
    body
}

/// All rules, checked against the digest; the number in each.
fn numbers(server: &Server) -> HashMap<String, u64> {
    let answer = server.get("/v1/rules/snapshot");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
    let body = joined(body);
    let mut lines = body.lines();
    let position: Position = serde_json::from_str(lines.next().unwrap()).unwrap();
    let mut numbers = HashMap::new();
    let mut digest = Digest::default();
    for line in lines {
        let rule: Value = serde_json::from_str(line).unwrap();
        let id = rule["id"].as_str().unwrap();
        digest = digest.with(Digest::of(id, rule["version"].as_u64().unwrap(), line));
        let number = rule["destination"].as_str().unwrap().rsplit('/').next().unwrap().parse().unwrap();
        numbers.insert(id.to_owned(), number);
    }
    assert_eq!((numbers.len() as u64, digest), (position.count, position.digest));
    numbers
}

#[test]
fn what_was_acknowledged_is_there() {
    let rounds = if std::env::var_os("TIDEGATE_LONG").is_some() { 50 } else { 10 };
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("rules.db").display());
    let random = Random::seeded(3);
    let next = Arc::new(AtomicU64::new(1));
    let mut acknowledged = 0;
    for round in 0..rounds {
        let server = Server::start(&["--rules", &url]);
        let is_over = Arc::new(AtomicBool::new(false));
        let from = next.load(Ordering::Relaxed);
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (address, is_over) = (server.address().to_owned(), Arc::clone(&is_over));
                thread::spawn(move || write(&address, writer, from, &is_over))
            })
            .collect();
        // That long it writes before it is killed.
        thread::sleep(std::time::Duration::from_millis(50 + random.bits() % 150));
        is_over.store(true, Ordering::Relaxed);
        server.signal("KILL");
        let server = Server::start(&["--rules", &url]);
        let numbers = numbers(&server);
        for writer in writers {
            for (id, (last, sent)) in writer.join().unwrap() {
                let there = numbers.get(&id).copied().unwrap_or(0);
                // What was sent and not answered may be there or not.
                assert!(
                    there >= last && there <= sent,
                    "round {round}: {id} is {there}, {last} was acknowledged"
                );
                acknowledged += u64::from(last > 0);
                next.fetch_max(sent + 1, Ordering::Relaxed);
            }
        }
        server.signal("KILL");
    }
    assert!(acknowledged > rounds * WRITERS, "{acknowledged}");
}
