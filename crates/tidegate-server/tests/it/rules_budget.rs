//! A rule with a thousand clicks and eight processes that spend them: never more, whoever dies or stands still.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use tidegate::clock::monotonic;

use crate::cli::Server;

const MAX_CLICKS: u64 = 1000;
const WORKERS: usize = 8;

/// Says to this very binary that it is to be a worker: which, and of whom.
const WORKER: &str = "TIDEGATE_TEST_WORKER";

fn request(address: &str, method: &str, path: &str, body: &Value) -> Value {
    let body = body.to_string();
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: t\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n"
    );
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    if body.is_empty() { Value::Null } else { serde_json::from_str(body).expect(&answer) }
}

/// What each of the processes does: it is no test unless it was started as one of them.
#[test]
fn a_process_that_spends() {
    let Ok(worker) = std::env::var(WORKER) else { return };
    let (name, address) = worker.split_once('@').unwrap();
    let mut out = std::io::stdout();
    for number in 0.. {
        let path = format!("/v1/workers/{name}/blocks/{number}");
        let asked_at = monotonic();
        let block = request(address, "PUT", &path, &json!({"rule": "spring", "wanted": 20}));
        match block["outcome"].as_str().unwrap() {
            "granted" => {
                let deadline = asked_at + Duration::from_millis(block["lifeMs"].as_u64().unwrap());
                let mut spent = 0;
                while spent < block["permits"].as_u64().unwrap() && monotonic() < deadline {
                    out.write_all(b"!").unwrap();
                    out.flush().unwrap();
                    spent += 1;
                    // Redirects come one by one.
                    thread::sleep(Duration::from_millis(1));
                }
                request(address, "POST", &format!("{path}/return"), &json!({"spent": spent}));
            }
            "wait" => thread::sleep(Duration::from_millis(block["retryAfterMs"].as_u64().unwrap())),
            "spent" => return,
            other => panic!("{other}"),
        }
    }
}

/// A process of its own.
fn worker(server: &Server, name: &str) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["rules_budget::a_process_that_spends", "--exact", "--nocapture"]);
    command.env(WORKER, format!("{name}@{}", server.address()));
    command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
}

fn signal(child: &Child, signal: &str) {
    assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
}

/// How often a worker has redirected by its end.
fn admitted(mut child: Child) -> u64 {
    let mut said = String::new();
    child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    child.wait().unwrap();
    said.bytes().filter(|byte| *byte == b'!').count() as u64
}

fn server() -> (tempfile::TempDir, Server) {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("rules.db").display());
    let server = Server::start(&["--rules", &url, "--set", "rules.block_life=1s"]);
    let rule = json!({"path": "/spring", "destination": "https://example.com/", "maxClicks": MAX_CLICKS});
    request(server.address(), "PUT", "/v1/rules/spring", &rule);
    (folder, server)
}

fn clicks(server: &Server) -> u64 {
    request(server.address(), "GET", "/v1/rules/spring", &json!({}))["clicks"].as_u64().unwrap()
}

#[test]
fn eight_processes_spend_all_of_it_and_no_more() {
    let (_folder, server) = server();
    let workers: Vec<_> = (0..WORKERS).map(|number| worker(&server, &format!("w{number}"))).collect();
    let admitted: u64 = workers.into_iter().map(admitted).sum();
    assert!((MAX_CLICKS - 10..=MAX_CLICKS).contains(&admitted), "{admitted}");
    assert_eq!(clicks(&server), admitted);
}

#[test]
fn one_that_is_killed_and_one_that_stands_still_do_not_make_it_more() {
    let (_folder, server) = server();
    let mut workers: Vec<_> = (0..WORKERS).map(|number| worker(&server, &format!("w{number}"))).collect();
    // Both have begun.
    let mut seen = 0;
    for child in &mut workers[..2] {
        let mut one = [0];
        while one != *b"!" {
            child.stdout.as_mut().unwrap().read_exact(&mut one).unwrap();
        }
        seen += 1;
    }
    signal(&workers[0], "-KILL");
    signal(&workers[1], "-STOP");
    // Longer than its block lives.
    thread::sleep(Duration::from_millis(1500));
    signal(&workers[1], "-CONT");
    let admitted: u64 = seen + workers.into_iter().map(admitted).sum::<u64>();
    assert!(admitted <= MAX_CLICKS, "{admitted}");
    // At most what the one that was killed held is lost.
    assert!(admitted >= MAX_CLICKS - 30, "{admitted}");
    assert_eq!(clicks(&server), MAX_CLICKS, "what it held counts as spent");
}

/// Another rule of the same id is told apart by when it was made, over HTTP too.
#[test]
fn what_is_said_of_permits_and_clicks_is_of_one_rule_and_not_of_the_next_of_its_id() {
    let (_folder, server) = server();
    let put = |path: &str, body: &Value| request(server.address(), "PUT", path, body);
    let get = || request(server.address(), "GET", "/v1/rules/one", &json!({}));
    let mut made = Vec::new();
    for number in 0..2 {
        let rule = json!({"path": "/one", "destination": "https://example.com/", "maxClicks": 1});
        put("/v1/rules/one", &rule);
        let created_at = get()["createdAt"].clone();
        let ask =
            |number| put(&format!("/v1/workers/w/blocks/{number}"), &json!({"rule": "one", "wanted": 1}));
        for (number, outcome) in [(10 * number, "granted"), (10 * number + 1, "wait")] {
            let block = ask(number);
            assert_eq!((&block["outcome"], &block["createdAt"]), (&json!(outcome), &created_at), "{block}");
        }
        let back = format!("/v1/workers/w/blocks/{}/return", 10 * number);
        request(server.address(), "POST", &back, &json!({"spent": 1}));
        let block = ask(10 * number + 2);
        assert_eq!((&block["outcome"], &block["createdAt"]), (&json!("spent"), &created_at), "{block}");
        request(server.address(), "DELETE", "/v1/rules/one", &json!({}));
        made.push(created_at);
        thread::sleep(Duration::from_millis(2));
    }
    assert_ne!(made[0], made[1]);
    let unbounded = json!({"path": "/one", "destination": "https://example.com/"});
    put("/v1/rules/one", &unbounded);
    let created_at = get()["createdAt"].clone();
    for (number, created_at) in
        [(1, json!({"one": made[1]})), (2, json!({"one": created_at})), (3, json!({}))]
    {
        put(
            &format!("/v1/workers/w/clicks/{number}"),
            &json!({"clicks": {"one": 5}, "createdAt": created_at}),
        );
    }
    assert_eq!(get()["clicks"], 10, "those of the one before are not");
}
