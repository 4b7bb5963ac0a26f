//! Events as they happen: each once, in order, resumed where they were left, and no
//! reason for a server not to end.

use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tidegate_server::http::router;
use tidegate_server::serve::Ended;
use tidegate_server::settings::HttpSettings;
use tower_service::Service as _;

use crate::lifecycle::{Client, Running, start_with};
use crate::support::{Fixture, START, bulk, send, serving_hot, soon};

const PATH: &str = "/v1/hot/main/events";

async fn edits(f: &Fixture, page: &str, from: u64, to: u64) {
    for id in from..to {
        let body = json!({"page": page, "id": id.to_string()}).to_string();
        assert_eq!(f.post("/v1/hot/main/edits", &body).await.status, 200);
    }
}

/// The next event: its id, its name and its data.
async fn next(client: &mut Client) -> (String, String, Value) {
    loop {
        let text = client.read_until("\n\n").await;
        let field = |name: &str| {
            let found = text.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")));
            found.map(str::to_owned)
        };
        if let Some(data) = field("data") {
            return (field("id").unwrap(), field("event").unwrap(), serde_json::from_str(&data).unwrap());
        }
    }
}

async fn watching(running: &Running, query: &str, header: &str) -> Client {
    let mut client = running.connect().await;
    client.send(&format!("GET {PATH}{query} HTTP/1.1\r\nhost: t\r\n{header}\r\n")).await;
    let head = client.read_until("\r\n\r\n").await;
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(head.contains("content-type: text/event-stream\r\n"), "{head}");
    assert!(head.contains("cache-control: no-store\r\n"), "{head}");
    client
}

#[tokio::test]
async fn events_are_sent_as_they_happen_and_resumed_where_they_were_left() {
    let f = serving_hot(&["main.promotion_threshold=3"]).await;
    edits(&f, "before", 0, 2).await;
    let running = start_with(HttpSettings::default(), f.app.clone()).await;
    let mut client = watching(&running, "", "").await;
    let opening = client.read_until("\n\n").await;
    let position = opening.split("id: ").nth(1).unwrap().trim().to_owned();

    edits(&f, "a\nb", 0, 3).await;
    let (first, name, data) = next(&mut client).await;
    assert_eq!(name, "promoted");
    assert_eq!(
        data,
        json!({"space": "main", "kind": "promoted", "page": "a\nb", "edits": 2,
            "at_ms": START.as_millis(), "cursor": first})
    );
    let (second, name, data) = next(&mut client).await;
    assert_eq!((name.as_str(), &data["edits"]), ("trending", &json!(3)));
    drop(client);

    // While nobody looked.
    f.clock.advance_ms(3_600_000);
    f.post("/v1/hot/main/cleanup", "").await;
    let mut again = watching(&running, "", &format!("last-event-id: {second}\r\n")).await;
    for kind in ["trending_ended", "cooled"] {
        let (_, name, data) = next(&mut again).await;
        assert_eq!((name.as_str(), &data["page"]), (kind, &json!("a\nb")));
    }
    assert_eq!(next(&mut again).await.2["page"], "before");

    // The header is later than the parameter, and wins.
    let header = format!("last-event-id: {second}\r\n");
    assert_eq!(next(&mut watching(&running, "?after=0-0", &header).await).await.1, "trending_ended");
    // Who was cut off before anything had happened has missed nothing.
    let mut early = watching(&running, &format!("?after={position}"), "").await;
    assert_eq!(next(&mut early).await.0, first);
    let mut whole = watching(&running, "?after=0-0", "").await;
    assert_eq!(next(&mut whole).await.2["page"], "before");
    drop((again, early, whole));
    running.stop().await;
}

/// What was in the process is gone: who comes back gets a notice, and sees what comes after it.
#[tokio::test]
async fn a_position_from_before_a_restart_learns_what_it_missed() {
    let f = serving_hot(&[]).await;
    for page in 0..5 {
        edits(&f, &format!("p{page}"), 0, 2).await;
    }
    let running = start_with(HttpSettings::default(), f.app.clone()).await;
    let mut client = watching(&running, "?after=0-0", "").await;
    let mut last = String::new();
    for _ in 0..5 {
        last = next(&mut client).await.0;
    }
    drop(client);
    running.stop().await;

    let again = serving_hot(&[]).await;
    again.clock.advance_ms(1000);
    edits(&again, "after", 0, 2).await;
    let running = start_with(HttpSettings::default(), again.app.clone()).await;
    let mut client = watching(&running, "", &format!("last-event-id: {last}\r\n")).await;
    let (id, name, data) = next(&mut client).await;
    assert_eq!((name.as_str(), &data["page"], &data["cursor"]), ("missed", &json!(""), &json!(id)));
    assert_eq!(next(&mut client).await.2["page"], "after");
    drop(client);
    running.stop().await;
}

#[tokio::test]
async fn a_position_that_cannot_be_is_a_bad_request() {
    let f = serving_hot(&[]).await;
    edits(&f, "a", 0, 2).await;
    // The test's clock says 2027.
    let ahead = "4102444800000-0";
    for (path, header, detail) in [
        (PATH, Some(ahead), "`Last-Event-ID`: the position 4102444800000-0 is ahead of the store's clock"),
        (PATH, Some("x"), "`Last-Event-ID`: \"x\" is not a position among these events"),
        (&format!("{PATH}?after={ahead}"), None, "`after`: the position 4102444800000-0 is ahead"),
        (&format!("{PATH}?after=0-0"), Some(ahead), "`Last-Event-ID`: the position"),
        (&format!("{PATH}?after="), None, "`after`: \"\" is not a position"),
    ] {
        let mut request = Request::get(path);
        if let Some(header) = header {
            request = request.header("last-event-id", header);
        }
        let answer = send(router(f.app.clone()), request.body(Body::empty()).unwrap()).await;
        assert_eq!(answer.status, 400, "{path}: {}", answer.body);
        assert!(answer.json()["detail"].as_str().unwrap().contains(detail), "{path}: {}", answer.body);
    }
}

#[tokio::test]
async fn a_client_that_watches_does_not_keep_the_server() {
    let f = serving_hot(&[]).await;
    let settings = HttpSettings { shutdown_deadline: Duration::from_secs(3600), ..HttpSettings::default() };
    let running = start_with(settings, f.app.clone()).await;
    let mut watching = watching(&running, "", "").await;
    watching.read_until("\n\n").await;
    // It ends by itself, long before the deadline, and is not cut.
    assert_eq!(running.stop().await, Ended { cut: 0 });
    assert!(watching.read_to_end().await.ends_with("0\r\n\r\n"), "the end of the body");
}

#[tokio::test]
async fn a_client_that_watches_is_not_idle() {
    let f = serving_hot(&[]).await;
    let short = Duration::from_millis(100);
    let settings = HttpSettings {
        header_timeout: short,
        idle_timeout: short,
        request_timeout: short,
        ..HttpSettings::default()
    };
    let running = start_with(settings, f.app.clone()).await;
    let mut client = watching(&running, "", "").await;
    client.read_until("\n\n").await;
    // Others come and go meanwhile, until they have been cut for being idle.
    let mut idle = running.connect().await;
    idle.healthz().await;
    assert_eq!(idle.read_to_end().await, "");
    let mut idle = running.connect().await;
    idle.healthz().await;
    assert_eq!(idle.read_to_end().await, "");
    edits(&f, "a", 0, 2).await;
    assert_eq!(next(&mut client).await.1, "promoted");
    drop(client);
    running.stop().await;
}

/// One that takes nothing though there is something is cut after `stall_timeout`; one that nothing
/// happens for is not.
#[tokio::test]
async fn a_client_that_takes_nothing_is_cut() {
    let f = serving_hot(&["main.hot_threshold=1", "main.max_tracked=100000"]).await;
    let stall_timeout = Duration::from_millis(300);
    let settings = HttpSettings { stall_timeout, idle_timeout: stall_timeout * 4, ..HttpSettings::default() };
    let running = start_with(settings, f.app.clone()).await;
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut stuck = Client::of(soon(socket.connect(running.address)).await.unwrap());
    stuck.send(&format!("GET {PATH} HTTP/1.1\r\nhost: t\r\n\r\n")).await;
    stuck.read_until("\n\n").await;

    // More than the system keeps for a connection: names that are long in JSON.
    let name = "\\u0001".repeat(240);
    for batch in 0..60 {
        let lines: String =
            (0..100).map(|page| format!("{{\"page\":\"{name}{batch}-{page}\",\"id\":\"1\"}}\n")).collect();
        assert_eq!(bulk(&f.app, "/v1/hot/main/edits", lines).await.status, 200);
        // The server gets to send them meanwhile.
        running.connect().await.healthz().await;
    }
    let mut quiet = watching(&running, "", "").await;
    quiet.read_until("\n\n").await;
    // One that is idle is closed long after.
    let mut idle = running.connect().await;
    idle.healthz().await;
    assert_eq!(idle.read_to_end().await, "");
    let rest = stuck.read_to_end().await;
    assert!(rest.contains("event: promoted") && !rest.ends_with("0\r\n\r\n"), "it was cut, and not ended");
    edits(&f, "after all", 0, 1).await;
    assert_eq!(next(&mut quiet).await.2["page"], "after all");
    drop(quiet);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_quiet_space_has_a_heartbeat() {
    let f = serving_hot(&[]).await;
    let request = Request::get(PATH).body(Body::empty()).unwrap();
    let mut body = router(f.app.clone()).call(request).await.unwrap().into_body();
    let mut frame = async || {
        let frame = soon(body.frame()).await.unwrap().unwrap().into_data().unwrap();
        String::from_utf8(frame.to_vec()).unwrap()
    };
    assert!(frame().await.starts_with("retry: 1000\nid: "));
    assert_eq!(frame().await, ":\n\n");
    assert_eq!(frame().await, ":\n\n");
}

#[tokio::test]
async fn partitions_have_a_position_each() {
    let f = serving_hot(&["main.partitions=3", "main.max_tracked=30"]).await;
    for page in 0..9 {
        edits(&f, &format!("p{page}"), 0, 2).await;
    }
    let running = start_with(HttpSettings::default(), f.app.clone()).await;
    let mut client = watching(&running, "?after=0-0,0-0,0-0", "").await;
    let mut seen = Vec::new();
    // Each from where the one before had been.
    for _ in 0..9 {
        let (id, _, data) = next(&mut client).await;
        seen.push(data["page"].as_str().unwrap().to_owned());
        client = watching(&running, "", &format!("last-event-id: {id}\r\n")).await;
    }
    seen.sort();
    let all: Vec<_> = (0..9).map(|page| format!("p{page}")).collect();
    assert_eq!(seen, all);
    drop(client);
    running.stop().await;
}
