//! What callers are told when a connection ends around them.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener};
use std::time::Duration;

use socket2::SockRef;
use tokio::net::TcpStream;

use super::super::super::StoreOptions;
use super::super::dial::Dial;
use super::*;
use crate::testkit::{RedisServer, TlsServer};

async fn pair() -> (Connection, std::net::TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (peer, _) = listener.accept().unwrap();
    (Connection::start(Stream::Tcp(stream)), peer)
}

fn ping() -> Vec<u8> {
    redis::cmd("PING").get_packed_command()
}

async fn soon<T>(answer: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(10), answer).await.expect("it is answered")
}

/// Between being let in and handing over its command a caller may be stopped for as long as
/// the machine likes. Nobody but the connection would answer it.
#[tokio::test]
async fn who_was_let_in_as_it_ended_is_answered() {
    let (connection, peer) = pair().await;
    let permit = connection.requests.reserve().await.unwrap();
    drop(peer);
    soon(connection.ended()).await;
    // It has had all the time to be done with everybody else.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    let (answer, answered) = oneshot::channel();
    permit.send(Request { bytes: ping(), replies: 1, answer });
    let answered = soon(answered).await.expect("by the connection");
    assert!(matches!(answered, Err(Failure::Unsent)), "{answered:?}");
}

/// A reply that came before the command was written is no answer to it.
#[tokio::test]
async fn what_was_said_before_a_command_was_sent_is_not_its_answer() {
    for round in 0..50 {
        let (connection, mut peer) = pair().await;
        // It waits for something to read, and the runtime asks the system only now and then.
        for _ in 0..round % 5 {
            tokio::task::yield_now().await;
        }
        peer.write_all(b"+PONG\r\n").unwrap();
        let answer = soon(connection.send(ping(), 1)).await;
        assert!(matches!(answer, Err(Failure::Unsent)), "round {round}: {answer:?}");
    }
}

/// The end may be behind an answer that has come and that nobody has read: what is asked then
/// is not written there.
#[tokio::test]
async fn nothing_is_written_behind_an_answer_that_the_end_follows() {
    for round in 0..50 {
        let (connection, mut peer) = pair().await;
        let (answer, first) = oneshot::channel();
        connection.requests.send(Request { bytes: ping(), replies: 1, answer }).await.unwrap();
        // It is written, and what comes then has not been looked for.
        peer.set_nonblocking(true).unwrap();
        let mut read = vec![0; ping().len()];
        while socket2::SockRef::from(&peer).peek(&mut [std::mem::MaybeUninit::uninit()]).is_err() {
            tokio::task::yield_now().await;
        }
        peer.read_exact(&mut read).unwrap();
        for _ in 0..round % 5 {
            tokio::task::yield_now().await;
        }
        peer.write_all(b"+PONG\r\n").unwrap();
        drop(peer);
        let second = soon(connection.send(ping(), 1)).await;
        assert!(matches!(second, Err(Failure::Unsent)), "round {round}: {second:?}");
        assert!(soon(first).await.unwrap().is_ok(), "round {round}: it was answered");
    }
}

/// The encryption may have given some of a command to the system before it failed; a plain
/// write that fails has given nothing.
#[tokio::test]
async fn a_write_that_failed_was_sent_if_it_was_encrypted() {
    let (plain, encrypted) = (RedisServer::start(), TlsServer::start());
    let tls_ca = Some(encrypted.ca_pem().to_vec());
    let freeze: [&dyn Fn(); 2] = [&|| plain.freeze(), &|| encrypted.freeze()];
    for (url, is_tls) in [(plain.url(), false), (encrypted.url(), true)] {
        let options = StoreOptions { tls_ca: tls_ca.clone(), ..StoreOptions::default() };
        let (dial, address) = Dial::new(&url, &options).unwrap();
        let stream = dial.stream(&address).await.unwrap();
        let socket = match &stream {
            Stream::Tcp(stream) => SockRef::from(stream).try_clone().unwrap(),
            Stream::Tls(stream) => SockRef::from(stream.get_ref().0).try_clone().unwrap(),
        };
        let connection = Connection::start(stream);
        assert!(soon(connection.send(ping(), 1)).await.is_ok());
        // From now on the system takes nothing, and does not say so before it is tried: nor does the server, which would
        // close its side once it reads that this one is closed.
        freeze[usize::from(is_tls)]();
        socket.shutdown(Shutdown::Write).unwrap();
        let failed = soon(connection.send(ping(), 1)).await.unwrap_err();
        match failed {
            Failure::Away(OutageReason::Cut, _) => assert!(is_tls),
            Failure::Unsent => assert!(!is_tls),
            other => panic!("{other:?}"),
        }
    }
}
