//! Any service over any stream, and no request past the point where access is decided.

use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::http::{Response, StatusCode};
use hyper::body::Incoming;
use parking_lot::Mutex;
use tidegate::Tidegate;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::sync::watch;

use super::*;
use crate::http::{App, HttpService, Problem};
use crate::parts::Parts;
use crate::settings::{Flag, Settings, Sources};

/// Sends `requests`, the last of which ends it, to a connection that is served over `near`. All
/// that is answered.
async fn exchange<S: Service>(service: S, (near, far): (impl Stream, impl Stream), requests: &str) -> String {
    let connections = Connections::new(service, &HttpSettings::default());
    let (_stop, stopping) = watch::channel(());
    let (mut reader, mut writer) = tokio::io::split(far);
    let mut answers = String::new();
    let (_, sent, read) = tokio::join!(
        connections.serve(near, Some(PEER.parse().unwrap()), stopping),
        writer.write_all(requests.as_bytes()),
        reader.read_to_string(&mut answers),
    );
    sent.unwrap();
    read.unwrap();
    answers
}

async fn over_memory<S: Service>(service: S, request: &str) -> String {
    // Smaller than a request and than an answer, so that both come in pieces.
    exchange(service, tokio::io::duplex(100), request).await
}

/// Limit `api` of 5 per minute, and the space `main` of hot pages.
async fn app() -> App {
    let gate = Tidegate::open("memory:").await.unwrap();
    let rate = Flag { given_as: "--set", path: "limits.api.rate".to_owned(), value: "5/m".to_owned() };
    let settings = Settings::load(&Sources { flags: vec![rate], ..Sources::default() }).unwrap();
    App::new(Parts::open(gate, &settings.parts).unwrap())
}

/// A take with these further lines in its head; with credentials it goes the ordinary way.
fn take(lines: &str) -> String {
    format!(
        "POST /v1/limits/api/take HTTP/1.1\r\nhost: t\r\n{lines}content-length: 11\r\n\r\n{{\"key\":\"a\"}}"
    )
}

const CREDENTIALS: &str = "authorization: Bearer x\r\n";
const LAST: &str = "connection: close\r\n";

/// Notes which way requests take.
#[derive(Clone)]
struct Noted<S>(S, Arc<Mutex<Vec<&'static str>>>);

impl<S: Service> Service for Noted<S> {
    const IS_PUBLIC: bool = S::IS_PUBLIC;

    type Fast<'a> = S::Fast<'a>;
    type Waiting<'a> = S::Waiting<'a>;

    fn admit(&self, request: &AccessRequest<'_>) -> Result<(), Problem> {
        self.0.admit(request)
    }

    fn recognise(&self, head: &PlainHead<'_>) -> Option<S::Fast<'_>> {
        self.0.recognise(head)
    }

    fn begin<'a>(
        &'a self,
        request: S::Fast<'a>,
        head: &PlainHead<'_>,
        admitted: Admitted,
        output: &mut Output<'_>,
    ) -> Begun<S::Waiting<'a>> {
        self.1.lock().push("fast");
        self.0.begin(request, head, admitted, output)
    }

    async fn respond(
        &self,
        request: S::Waiting<'_>,
        body: &[u8],
        since: Instant,
        admitted: Admitted,
        output: &mut Output<'_>,
    ) -> Written {
        self.0.respond(request, body, since, admitted, output).await
    }

    async fn route(&self, request: hyper::Request<Incoming>, admitted: Admitted) -> Response<Body> {
        self.1.lock().push("routed");
        self.0.route(request, admitted).await
    }

    fn metrics(&self) -> &ConnectionMetrics {
        self.0.metrics()
    }
}

/// Both ways of a take, over what is no socket and over one that is not TCP.
#[tokio::test]
async fn any_stream_of_bytes_is_served() {
    let requests = [take(""), take(CREDENTIALS), take(LAST)].concat();
    for is_socket in [false, true] {
        let noted = Noted(HttpService::new(app().await), Arc::default());
        let answers = match is_socket {
            true => exchange(noted.clone(), UnixStream::pair().unwrap(), &requests).await,
            false => over_memory(noted.clone(), &requests).await,
        };
        assert_eq!(*noted.1.lock(), ["fast", "routed", "routed"], "{answers}");
        assert_eq!(answers.matches("HTTP/1.1 200 OK\r\n").count(), 3, "{answers}");
        for remaining in [4, 3, 2] {
            assert!(answers.contains(&format!("\"remaining\":{remaining}")), "{answers}");
        }
    }
}

/// A service of another kind: short links, and a page for everything else.
#[derive(Clone)]
struct Links(Arc<ConnectionMetrics>);

impl Service for Links {
    const IS_PUBLIC: bool = true;

    type Fast<'a> = &'a str;
    type Waiting<'a> = std::convert::Infallible;

    fn admit(&self, _: &AccessRequest<'_>) -> Result<(), Problem> {
        Ok(())
    }

    fn recognise(&self, head: &PlainHead<'_>) -> Option<&str> {
        (head.method == "GET" && head.path() == "/go").then_some("https://elsewhere.example/")
    }

    fn begin(
        &self,
        link: &str,
        _: &PlainHead<'_>,
        _: Admitted,
        output: &mut Output<'_>,
    ) -> Begun<std::convert::Infallible> {
        let fields = |into: &mut Vec<u8>| {
            put_field(into, "location", link.as_bytes());
            put_field(into, "content-length", b"0");
        };
        Begun::Answered(output.parts(StatusCode::FOUND, fields, b""))
    }

    async fn respond(
        &self,
        never: Self::Waiting<'_>,
        _: &[u8],
        _: Instant,
        _: Admitted,
        _: &mut Output<'_>,
    ) -> Written {
        match never {}
    }

    async fn route(&self, request: hyper::Request<Incoming>, _: Admitted) -> Response<Body> {
        Response::new(Body::from(format!("no link at {}", request.uri().path())))
    }

    fn metrics(&self) -> &ConnectionMetrics {
        &self.0
    }
}

#[tokio::test]
async fn any_service_is_served_with_a_fast_path_of_its_own() {
    let noted = Noted(Links(Arc::new(ConnectionMetrics::new())), Arc::default());
    let get = |target: &str, lines: &str| format!("GET {target} HTTP/1.1\r\nhost: t\r\n{lines}\r\n");
    let requests = [get("/go", ""), get("/go?from=mail", ""), get("/nowhere", ""), get("/go", LAST)].concat();
    let answers = over_memory(noted.clone(), &requests).await;
    assert_eq!(*noted.1.lock(), ["fast", "fast", "routed", "routed"], "{answers}");
    assert_eq!(answers.matches("HTTP/1.1 302 Found\r\nlocation: https://elsewhere.example/\r\n").count(), 2);
    assert!(answers.contains("no link at /nowhere"), "{answers}");
}

/// The same service, for nobody.
#[derive(Clone)]
struct Closed(HttpService, Arc<Mutex<Vec<String>>>);

impl Service for Closed {
    type Fast<'a> = <HttpService as Service>::Fast<'a>;
    type Waiting<'a> = std::convert::Infallible;

    fn admit(&self, request: &AccessRequest<'_>) -> Result<(), Problem> {
        let AccessRequest { peer, method, path, headers } = request;
        assert_eq!(*peer, Some(PEER.parse().unwrap()));
        let shown = headers.is_some_and(|it| it.contains_key("authorization"));
        self.1.lock().push(format!("{method} {} {shown}", path.unwrap_or("-")));
        Err(Problem::conflict("closed to everybody".to_owned()))
    }

    fn recognise(&self, head: &PlainHead<'_>) -> Option<<HttpService as Service>::Fast<'_>> {
        self.0.recognise(head)
    }

    fn begin<'a>(
        &'a self,
        _: <HttpService as Service>::Fast<'a>,
        _: &PlainHead<'_>,
        _: Admitted,
        _: &mut Output<'_>,
    ) -> Begun<std::convert::Infallible> {
        unreachable!("nothing is admitted")
    }

    async fn respond(
        &self,
        never: Self::Waiting<'_>,
        _: &[u8],
        _: Instant,
        _: Admitted,
        _: &mut Output<'_>,
    ) -> Written {
        match never {}
    }

    async fn route(&self, _: hyper::Request<Incoming>, _: Admitted) -> Response<Body> {
        unreachable!("nothing is admitted")
    }

    fn metrics(&self) -> &ConnectionMetrics {
        self.0.metrics()
    }
}

const PEER: &str = "192.0.2.7:4711";

#[tokio::test]
async fn no_request_gets_past_a_refusal_of_access() {
    let app = app().await;
    let closed = Closed(HttpService::new(app.clone()), Arc::default());
    let last = format!("GET /last HTTP/1.1\r\nhost: t\r\n{LAST}\r\n");
    let line = |line: &str| format!("{line} HTTP/1.1\r\nhost: t\r\n\r\n");
    let fast = ["POST /v1/limits/api/take false"; 2].as_slice();
    for (request, passed) in [
        // On the fast path, and once more on the way on which it is refused.
        (take(""), fast),
        (take(CREDENTIALS), &["POST /v1/limits/api/take true"]),
        // Heads that are refused anyway.
        (line("GET /").replace("\r\n", "\n"), &["GET - false"]),
        (line("HEAD /").replace("host: t\r\n", ""), &["HEAD - false"]),
        (line("GET /v1/hot/main/events"), &["GET /v1/hot/main/events false"]),
        (line("GET /"), &["GET / false"]),
        (line("GET /healthz"), &["GET /healthz false"]),
        (line("GET /readyz"), &["GET /readyz false"]),
        (line("GET /metrics"), &["GET /metrics false"]),
        (line("GET /openapi.json"), &["GET /openapi.json false"]),
        (line("OPTIONS *"), &["OPTIONS * false"]),
        (line("OPTIONS /v1/limits/api/take"), &["OPTIONS /v1/limits/api/take false"]),
        (line("DELETE /v1/limits/api/keys/a"), &["DELETE /v1/limits/api/keys/a false"]),
        (line("GET /nowhere"), &["GET /nowhere false"]),
        (line("GET /v1/limits/%zz"), &["GET /v1/limits/%zz false"]),
    ] {
        closed.1.lock().clear();
        let answers = exchange(closed.clone(), tokio::io::duplex(4096), &format!("{request}{last}")).await;
        // What comes behind a refused head is not read.
        let (is_read, is_head) = (!passed[0].contains(" - "), request.starts_with("HEAD"));
        let count = 1 + usize::from(is_read);
        assert_eq!(answers.matches("HTTP/1.1 409 Conflict\r\n").count(), count, "{answers} to {request:?}");
        assert_eq!(answers.matches("HTTP/1.1 ").count(), count, "{answers} to {request:?}");
        assert_eq!(answers.contains("closed to everybody"), !is_head, "{answers} to {request:?}");
        let expected: Vec<_> = passed.iter().copied().chain(is_read.then_some("GET /last false")).collect();
        assert_eq!(*closed.1.lock(), expected, "to {request:?}");
    }
    // Nothing was charged, on either way.
    let answer = over_memory(HttpService::new(app), &take(LAST)).await;
    assert!(answer.contains("\"remaining\":4"), "{answer}");
}
