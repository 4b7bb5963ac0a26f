//! An app on a clock that a test moves, and ways to ask it.

use std::future::Future;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Request, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::Value;
use tidegate::Tidegate;
use tidegate::clock::{ManualClock, Timestamp};
use tidegate::limit::{LimitOptions, Sliding};
use tidegate::store::StoreOptions;
use tidegate_server::http::{App, router};
use tower_service::Service as _;

/// The start of a bucket of 600 ms.
const START: Timestamp = Timestamp::from_millis(1_800_000_000_000);

/// A limit `api` of 300 per 60 s, in this process.
pub(crate) struct Fixture {
    pub(crate) app: App,
    pub(crate) clock: ManualClock,
}

pub(crate) async fn fixture() -> Fixture {
    let clock = ManualClock::at(START);
    let mut options = StoreOptions::default();
    options.clock = clock.clone().into();
    let gate = Tidegate::open_with("memory:", options).await.unwrap();
    let sliding = Sliding::new("5/s".parse().unwrap(), Duration::from_secs(60)).unwrap();
    let limit = gate.limit("api", sliding, LimitOptions::default()).unwrap();
    Fixture { app: App::new(gate, [limit]), clock }
}

impl Fixture {
    pub(crate) async fn take(&self, body: &str) -> Answer {
        call(&self.app, "POST", "/v1/limits/api/take", body).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        call(&self.app, "GET", path, "").await
    }
}

/// A response, read to its end.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).expect(&self.body)
    }
}

/// Asks without a socket.
pub(crate) async fn call(app: &App, method: &str, path: &str, body: &str) -> Answer {
    let request = Request::builder().method(method).uri(path).body(Body::from(body.to_owned()));
    send(router(app.clone()), request.unwrap()).await
}

pub(crate) async fn send(mut router: Router, request: Request<Body>) -> Answer {
    let response = router.call(request).await.unwrap();
    let (parts, body) = response.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    Answer { status: parts.status, headers: parts.headers, body: String::from_utf8(body.to_vec()).unwrap() }
}

/// What must happen soon. Far longer than it takes, so that it only ends a test
/// that would hang.
pub(crate) const SOON: Duration = Duration::from_secs(20);

pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(SOON, future).await.expect("it should have happened by now")
}
