//! Several servers on one Redis are one limit.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::thread;

use tidegate::testkit::RedisServer;

use crate::cli::Server;

/// Takes `count` times over one connection; how many were admitted.
fn admitted(address: &str, key: &str, count: usize) -> usize {
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
        assert!(body.contains(r#""source":"store""#), "{body}");
        assert!(status == "200" || status == "429", "{status}: {body}");
        admitted += usize::from(status == "200");
    }
    admitted
}

#[test]
fn two_servers_on_one_redis_admit_exactly_the_capacity() {
    let redis = RedisServer::start();
    let deadline = ["--set", "store.deadline=10s"];
    let servers: Vec<_> =
        (0..2).map(|_| Server::start(&[&["--store", &redis.url()], &deadline[..]].concat())).collect();
    let takers: Vec<_> = (0..8)
        .map(|i| {
            let address = servers[i % 2].address().to_owned();
            thread::spawn(move || admitted(&address, "user_123", 100))
        })
        .collect();
    let total: usize = takers.into_iter().map(|taker| taker.join().unwrap()).sum();
    assert_eq!(total, 300);
    assert_eq!(redis.keys_without_ttl(), Vec::<String>::new());
}
