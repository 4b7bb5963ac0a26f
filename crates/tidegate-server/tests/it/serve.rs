//! `tidegate serve`: where it listens, what it says there, and how it ends.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::cli::{Server, run, tidegate, within};

#[test]
fn the_first_line_is_the_address_and_it_answers_there() {
    let server = Server::start(&[]);
    let address = server.url().strip_prefix("http://127.0.0.1:").unwrap();
    assert_ne!(address.parse::<u16>().unwrap(), 0);
    let answer = server.get("/healthz");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\nok"), "{answer}");
}

#[test]
fn without_a_command_it_serves() {
    let mut command = tidegate(&["--listen", "127.0.0.1:0", "--set", "log.format=json"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut log = BufReader::new(child.stderr.take().unwrap());
    let line = within(move || {
        let mut line = String::new();
        log.read_line(&mut line).unwrap();
        line
    });
    let line: Value = serde_json::from_str(&line).unwrap();
    assert_eq!((&line["message"], &line["store"]), (&json!("serving"), &json!("memory")));
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn signals_end_it_in_good_order() {
    for signal in ["TERM", "INT"] {
        let (code, log) = Server::start(&[]).signal(signal);
        assert_eq!(code, Some(0), "{log}");
        assert!(log.contains(&format!("signal=\"SIG{signal}\"")), "{log}");
        assert!(log.ends_with("INFO stopped\n"), "{log}");
    }
}

#[test]
fn a_redis_that_is_away_does_not_keep_it_from_starting() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let store = format!("redis://{}", silent.local_addr().unwrap());
    let server = Server::start(&["--store", &store, "--set", "store.connect_timeout=50ms"]);
    let (code, out, _) = server.limit(&["take", "api", "u"]);
    assert_eq!(
        (code, out.as_str()),
        (0, "admitted: 300 of 300 left (by policy, not knowing what was used)\n")
    );
}

#[test]
fn the_environment_is_read_and_flags_win() {
    let mut command = tidegate(&["limit", "peek", "login", "u", "--store", "memory:"]);
    command.env("TIDEGATE_LIMITS__LOGIN__RATE", "1/s").env("TIDEGATE_STORE", "mysql://x");
    assert_eq!(run(command).1, "admitted: 60 of 60 left\n");
    let mut command = tidegate(&["serve"]);
    command.env("TIDEGATE_LISEN", "x");
    let (code, _, err) = run(command);
    assert_eq!(code, 2);
    assert!(err.contains("did you mean `TIDEGATE_LISTEN`?"), "{err}");
}

#[test]
fn an_address_in_use_is_an_error() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (code, out, err) = run(tidegate(&["--listen", &address]));
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(err.contains(&format!("cannot listen on {address}: ")), "{err}");
}

/// An address of documents: nobody has it, so nothing is ever opened here.
#[test]
fn a_server_that_others_could_reach_is_refused_unless_they_are_trusted() {
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0", "[::ffff:192.0.2.1]:0"] {
        let (code, out, err) = run(tidegate(&["serve", "--listen", address]));
        assert_eq!((code, out.as_str()), (2, ""), "{address}: {err}");
        let why = format!("cannot listen on {address}: it can be reached from other machines");
        assert!(err.contains(&why) && err.contains("`http.trusted_network: true`"), "{err}");
    }
    let trusted = ["serve", "--listen", "192.0.2.1:0", "--set", "http.trusted_network=true"];
    let (code, _, err) = run(tidegate(&trusted));
    assert_eq!(code, 2);
    assert!(err.contains("cannot listen on 192.0.2.1:0: ") && !err.contains("other machines"), "{err}");
    for loopback in ["127.0.0.2:0", "localhost:0"] {
        let server = Server::start_on(loopback, &[]);
        assert!(server.get("/healthz").starts_with("HTTP/1.1 200 OK"), "{loopback}");
    }
}

/// Of a terminal that was closed, or of somebody who wants settings to be read again.
#[test]
fn a_hangup_does_not_end_a_server() {
    let server = Server::start(&[]);
    let kill = format!("kill -HUP {}", server.id());
    for _ in 0..3 {
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
        assert!(server.get("/healthz").starts_with("HTTP/1.1 200 OK"));
    }
    let (code, log) = server.signal("TERM");
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains("SIGHUP"), "{log}");
}

#[test]
fn the_access_log_has_a_line_for_every_answer_if_it_is_wanted() {
    let take_twice = |server: &Server| {
        server.request("POST", "/v1/limits/api/take", r#"{"key":"a"}"#);
        server.request("POST", "/v1/limits/api/take", "{");
        server.get("/v1/limits/api/keys/a%20b?cost=2");
        server.get("/nope");
        // A take in the form that clients have, on a connection that is kept.
        let mut stream = TcpStream::connect(server.address()).unwrap();
        let take = "POST /v1/limits/api/take HTTP/1.1\r\nhost: t\r\ncontent-length: 2\r\n\r\n{}";
        stream.write_all(take.as_bytes()).unwrap();
        stream.write_all(b"GET /healthz HTTP/1.1\r\n\r\n").unwrap();
        let mut answers = String::new();
        stream.read_to_string(&mut answers).unwrap();
        assert!(answers.contains("HTTP/1.1 400 "), "{answers}");
    };
    let server = Server::start(&["--set", "http.access_log=true", "--set", "log.format=json"]);
    take_twice(&server);
    let (_, log) = server.signal("TERM");
    let mut lines = Vec::new();
    for line in log.lines().filter(|line| line.contains("\"answered\"")) {
        let line: Value = serde_json::from_str(line).unwrap();
        assert!(line["peer"].as_str().unwrap().starts_with("127.0.0.1:"), "{line}");
        assert!(line["took_us"].is_u64(), "{line}");
        lines.push(json!([line["method"], line["path"], line["status"]]));
    }
    let expected = [
        json!(["POST", "/v1/limits/api/take", 200]),
        json!(["POST", "/v1/limits/api/take", 400]),
        json!(["GET", "/v1/limits/api/keys/a%20b?cost=2", 200]),
        json!(["GET", "/nope", 404]),
        json!(["POST", "/v1/limits/api/take", 200]),
        json!(["GET", "-", 400]),
    ];
    assert_eq!(lines, expected, "{log}");
    let server = Server::start(&[]);
    take_twice(&server);
    let (_, log) = server.signal("TERM");
    assert!(!log.contains("/v1/limits"), "{log}");
}
