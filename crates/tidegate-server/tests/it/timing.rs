//! How soon the server is there. `scripts/test` runs this alone, since a busy
//! machine is late by itself.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use tidegate::clock::monotonic;

use crate::cli::Server;

#[test]
fn healthz_answers_within_a_second_of_the_start() {
    let started = monotonic();
    let server = Server::start(&[]);
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let took = started.elapsed();
    println!("/healthz after {took:?}");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(took < Duration::from_secs(1), "{took:?}");
}
