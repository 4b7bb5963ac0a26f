//! Connections over real sockets: how long they may take and how they end.

use std::net::SocketAddr;
use std::time::Duration;

use tidegate::clock::monotonic;
use tidegate_server::http::App;
use tidegate_server::serve::{Ended, run};
use tidegate_server::settings::HttpSettings;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::support::{fixture, soon};

/// A server of this test's own.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) stop: oneshot::Sender<()>,
    pub(crate) ended: JoinHandle<Ended>,
}

async fn start(settings: HttpSettings) -> Running {
    start_with(settings, fixture().await.app).await
}

pub(crate) async fn start_with(settings: HttpSettings, app: App) -> Running {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel();
    let ended =
        tokio::spawn(async move { run(listener, app, &settings, async { drop(stopped.await) }).await });
    Running { address, stop, ended }
}

impl Running {
    pub(crate) async fn connect(&self) -> Client {
        Client::of(soon(TcpStream::connect(self.address)).await.unwrap())
    }

    pub(crate) async fn stop(self) -> Ended {
        // It may have ended already.
        let _ = self.stop.send(());
        soon(self.ended).await.unwrap()
    }
}

pub(crate) struct Client(TcpStream);

impl Client {
    pub(crate) fn of(stream: TcpStream) -> Self {
        // A request in pieces need not wait for acknowledgements.
        stream.set_nodelay(true).unwrap();
        Self(stream)
    }

    /// Sends to one who may have heard enough before the end of it.
    pub(crate) async fn try_send(&mut self, text: &str) {
        let _ = soon(self.0.write_all(text.as_bytes())).await;
    }

    pub(crate) async fn send_no_more(&mut self) {
        // Who has hung up needs no answer.
        let _ = soon(self.0.shutdown()).await;
    }

    pub(crate) async fn send(&mut self, text: &str) {
        soon(self.0.write_all(text.as_bytes())).await.unwrap();
    }

    /// Everything up to and including `end`.
    pub(crate) async fn read_until(&mut self, end: &str) -> String {
        let mut text = String::new();
        while !text.ends_with(end) {
            let byte = soon(self.0.read_u8()).await.unwrap_or_else(|_| panic!("ended: {text}"));
            text.push(char::from(byte));
        }
        text
    }

    /// Everything up to the end; a reset is one too.
    pub(crate) async fn read_to_end(&mut self) -> String {
        let mut bytes = Vec::new();
        let _ = soon(self.0.read_to_end(&mut bytes)).await;
        String::from_utf8(bytes).unwrap()
    }

    pub(crate) async fn healthz(&mut self) {
        self.send("GET /healthz HTTP/1.1\r\nhost: t\r\n\r\n").await;
        let answer = self.read_until("\r\n\r\nok").await;
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    }

    /// A take that has been begun: the server waits for the rest of its body.
    async fn begin_take(&mut self) {
        self.send(
            "POST /v1/limits/api/take HTTP/1.1\r\nhost: t\r\ncontent-length: 11\r\nexpect: 100-continue\r\n\r\n",
        )
        .await;
        assert_eq!(self.read_until("\r\n\r\n").await, "HTTP/1.1 100 Continue\r\n\r\n");
        self.send(r#"{"key""#).await;
    }

    async fn finish_take(&mut self) {
        self.send(r#":"a"}"#).await;
    }
}

#[tokio::test]
async fn a_request_in_flight_is_finished_and_nothing_new_is_begun() {
    let running = start(HttpSettings::default()).await;
    let (mut busy, mut idle) = (running.connect().await, running.connect().await);
    idle.healthz().await;
    busy.begin_take().await;

    running.stop.send(()).unwrap();
    // That the idle connection is closed shows that the server is on its way down.
    assert_eq!(idle.read_to_end().await, "");
    assert!(soon(TcpStream::connect(running.address)).await.is_err());

    busy.finish_take().await;
    let answer = busy.read_to_end().await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.contains("connection: close\r\n"), "{answer}");
    assert!(answer.ends_with("\"source\":\"store\"}"), "{answer}");
    assert_eq!(soon(running.ended).await.unwrap(), Ended { cut: 0 });
}

#[tokio::test]
async fn a_stuck_request_is_cut_at_the_deadline() {
    let settings = HttpSettings { shutdown_deadline: Duration::from_millis(50), ..HttpSettings::default() };
    let running = start(settings).await;
    let mut stuck = running.connect().await;
    stuck.begin_take().await;
    assert_eq!(running.stop().await, Ended { cut: 1 });
    assert_eq!(stuck.read_to_end().await, "");
}

#[tokio::test]
async fn a_slow_head_is_cut_and_so_is_a_silent_connection() {
    let settings = HttpSettings {
        header_timeout: Duration::from_millis(200),
        idle_timeout: Duration::from_secs(3600),
        ..HttpSettings::default()
    };
    let running = start(settings).await;
    let (mut silent, mut slow, mut slow_later) =
        (running.connect().await, running.connect().await, running.connect().await);
    slow.send("GET /healthz HTTP/1.1\r\nhost:").await;
    slow_later.healthz().await;
    slow_later.send("GET").await;
    for client in [&mut silent, &mut slow, &mut slow_later] {
        assert_eq!(client.read_to_end().await, "");
    }
    running.stop().await;
}

#[tokio::test]
async fn half_a_head_behind_a_request_is_cut_like_any_slow_one() {
    let settings = HttpSettings {
        header_timeout: Duration::from_millis(200),
        idle_timeout: Duration::from_secs(3600),
        ..HttpSettings::default()
    };
    let running = start(settings).await;
    let body = r#"{"key":"a"}"#;
    let take = format!(
        "POST /v1/limits/api/take HTTP/1.1\r\nhost: t\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let chunked = format!(
        "POST /v1/limits/api/take HTTP/1.1\r\nhost: t\r\ntransfer-encoding: chunked\r\n\r\nb\r\n{body}\r\n0\r\n\r\n"
    );
    let get = "GET /healthz HTTP/1.1\r\nhost: t\r\n\r\n";
    for first in [take.as_str(), &chunked, get, &take.repeat(3), &get.repeat(3)] {
        for half in ["G", "GET /healthz HTTP/1.1\r\n", "POST /v1/limits/api/take HTTP/1.1\r\nhost: t\r\n"] {
            let mut client = running.connect().await;
            client.send(&format!("{first}{half}")).await;
            let answers = client.read_to_end().await;
            assert!(answers.starts_with("HTTP/1.1 200 OK\r\n"), "{answers} to {first:?} and {half:?}");
        }
    }
    running.stop().await;
}

#[tokio::test]
async fn an_idle_connection_is_kept_for_longer_than_a_slow_one() {
    let (head, idle) = (Duration::from_millis(200), Duration::from_millis(600));
    let settings = HttpSettings { header_timeout: head, idle_timeout: idle, ..HttpSettings::default() };
    let running = start(settings).await;
    let mut client = running.connect().await;
    let sent = monotonic();
    client.healthz().await;
    assert_eq!(client.read_to_end().await, "");
    assert!(sent.elapsed() >= idle, "{:?}", sent.elapsed());
    running.stop().await;
}

#[tokio::test]
async fn a_slow_body_is_answered_that_it_took_too_long() {
    let settings = HttpSettings { request_timeout: Duration::from_millis(50), ..HttpSettings::default() };
    let running = start(settings).await;
    let mut slow = running.connect().await;
    slow.begin_take().await;
    let answer = slow.read_to_end().await;
    assert!(answer.starts_with("HTTP/1.1 408 Request Timeout\r\n"), "{answer}");
    assert!(answer.contains("the request was not complete after 50ms"), "{answer}");
    running.stop().await;
}

#[tokio::test]
async fn a_large_body_is_refused_before_it_is_sent_and_while_it_is() {
    let running = start(HttpSettings { max_body_bytes: 20, ..HttpSettings::default() }).await;
    let head = "POST /v1/limits/api/take HTTP/1.1\r\nhost: t\r\n";
    for rest in [
        "content-length: 21\r\nexpect: 100-continue\r\n\r\n",
        "transfer-encoding: chunked\r\n\r\n15\r\n{\"key\":\"0123456789ab\"\r\n",
    ] {
        let mut client = running.connect().await;
        client.send(&format!("{head}{rest}")).await;
        let answer = client.read_to_end().await;
        assert!(answer.starts_with("HTTP/1.1 413 Payload Too Large\r\n"), "{answer}");
        assert!(answer.contains("at most 20 bytes are allowed"), "{answer}");
    }
    running.stop().await;
}

#[tokio::test]
async fn connections_above_the_cap_wait_for_their_turn() {
    let running = start(HttpSettings { max_connections: 1, ..HttpSettings::default() }).await;
    let mut first = running.connect().await;
    first.healthz().await;
    let mut second = running.connect().await;
    second.send("GET /healthz HTTP/1.1\r\nhost: t\r\n\r\n").await;
    for _ in 0..10 {
        first.healthz().await;
    }
    assert!(second.0.try_read(&mut [0]).is_err());
    drop(first);
    second.read_until("\r\n\r\nok").await;
    running.stop().await;
}

#[tokio::test]
async fn requests_follow_each_other_on_one_connection_and_are_counted() {
    let running = start(HttpSettings::default()).await;
    let mut client = running.connect().await;
    client.healthz().await;
    // Two at once, answered in order.
    let two = "GET /nope HTTP/1.1\r\nhost: t\r\n\r\n\
               GET /metrics HTTP/1.1\r\nhost: t\r\naccept: application/openmetrics-text\r\n\r\n";
    client.send(two).await;
    let answers = client.read_until("# EOF\n").await;
    assert!(answers.starts_with("HTTP/1.1 404 Not Found\r\n"), "{answers}");
    for line in [
        "tidegate_http_connections 1\n",
        "tidegate_http_responses_total{status=\"2xx\"} 1\n",
        "tidegate_http_responses_total{status=\"4xx\"} 1\n",
    ] {
        assert!(answers.contains(line), "{answers}");
    }
    running.stop().await;
}
