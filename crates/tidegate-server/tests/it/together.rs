//! Several servers on one Redis are one limit.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::thread;

use tidegate::testkit::RedisServer;

use crate::cli::{Server, run, tidegate};

/// Takes `count` times over one connection; how many were admitted. All are decided
/// by one of `sources`.
fn admitted(address: &str, key: &str, count: usize, sources: &[&str]) -> usize {
    let mut stream = BufReader::new(TcpStream::connect(address).unwrap());
    let body = format!("{{\"key\":\"{key}\"}}");
    let request = format!(
        "POST /v1/limits/api/take HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut admitted = 0;
    for _ in 0..count {
        stream.get_mut().write_all(request.as_bytes()).unwrap();
        let (mut line, mut length) = (String::new(), 0);
        stream.read_line(&mut line).unwrap();
        let status = line.split(' ').nth(1).unwrap().to_owned();
        while line != "\r\n" {
            line.clear();
            stream.read_line(&mut line).unwrap();
            let lower = line.to_ascii_lowercase();
            if let Some(value) = lower.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).unwrap();
        let body = String::from_utf8(body).unwrap();
        assert!(sources.iter().any(|source| body.contains(&format!("\"source\":\"{source}\""))), "{body}");
        assert!(status == "200" || status == "429", "{status}: {body}");
        admitted += usize::from(status == "200");
    }
    admitted
}

/// Eight takers of 100 each on two servers; how many were admitted.
fn eight_hundred(servers: &[Server], sources: &'static [&str]) -> usize {
    let takers: Vec<_> = (0..8)
        .map(|i| {
            let address = servers[i % 2].address().to_owned();
            thread::spawn(move || admitted(&address, "user_123", 100, sources))
        })
        .collect();
    takers.into_iter().map(|taker| taker.join().unwrap()).sum()
}

#[test]
fn two_servers_on_one_redis_admit_exactly_the_capacity() {
    let redis = RedisServer::start();
    let deadline = ["--set", "store.deadline=10s"];
    let servers: Vec<_> =
        (0..2).map(|_| Server::start(&[&["--store", &redis.url()], &deadline[..]].concat())).collect();
    assert_eq!(eight_hundred(&servers, &["store"]), 300);
    assert_eq!(redis.keys_without_ttl(), Vec::<String>::new());
}

#[test]
fn servers_that_lease_give_back_what_they_did_not_spend() {
    let redis = RedisServer::start();
    let mut leased = vec!["--store", "", "--set", "store.deadline=10s", "--set", "limits.api.rate=1000/s"];
    leased.extend(["--set", "limits.api.lease=true", "--set", "limits.api.nodes=2"]);
    let url = redis.url();
    leased[1] = &url;
    let servers: Vec<_> = (0..2).map(|_| Server::start(&leased)).collect();
    assert_eq!(eight_hundred(&servers, &["lease", "store"]), 800);
    for server in servers {
        let metrics = server.get("/metrics");
        let counted = |outcome: &str| {
            let row = format!(
                "tidegate_limit_decisions_total{{limit=\"api\",outcome=\"{outcome}\",source=\"lease\"}} "
            );
            let (_, rest) = metrics.split_once(&row).expect(&metrics);
            rest.split_once('\n').unwrap().0.parse::<u64>().unwrap()
        };
        assert!(counted("admitted") > 200, "{metrics}");
        let (code, log) = server.signal("TERM");
        assert_eq!(code, Some(0), "{log}");
    }
    let mut peek = tidegate(&["limit", "peek", "api", "user_123", "--json"]);
    peek.args(&leased);
    let (_, out, err) = run(peek);
    let peeked: serde_json::Value = serde_json::from_str(&out).expect(&err);
    assert_eq!((&peeked["capacity"], &peeked["remaining"]), (&60_000.into(), &59_200.into()), "{out}");
    assert_eq!(redis.keys_without_ttl(), Vec::<String>::new());
}
