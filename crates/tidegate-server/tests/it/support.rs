//! An app on a clock that a test moves, and ways to call it.

use std::future::Future;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Request, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::Value;
use tidegate::clock::{ManualClock, Timestamp};
use tidegate::limit::{Algorithm, LimitOptions};
use tidegate::random::Random;
use tidegate::store::StoreOptions;
use tidegate::{Name, Tidegate};
use tidegate_server::http::{App, router};
use tidegate_server::parts::{LimitSettings, Named, PartSettings, Parts};
use tidegate_server::settings::{Flag, Settings, Sources};
use tower_service::Service as _;

/// The start of a bucket of 600 ms, and of an hour: 2027-01-15 08:00 UTC.
pub(crate) const START: Timestamp = Timestamp::from_millis(1_800_000_000_000);

/// Limits under test; by default `api` of 300 per 60 s, in this process.
pub(crate) struct Fixture {
    pub(crate) app: App,
    pub(crate) clock: ManualClock,
    router: Router,
}

pub(crate) async fn fixture() -> Fixture {
    serving(&[]).await
}

/// What these settings of limits say, each `NAME.SETTING=VALUE`.
pub(crate) async fn serving(limits: &[&str]) -> Fixture {
    serving_on("memory:", limits).await
}

pub(crate) async fn serving_on(url: &str, limits: &[&str]) -> Fixture {
    Fixture::of(url, &settings("limits", limits), START).await
}

/// What these settings of spaces say, each `NAME.SETTING=VALUE`.
pub(crate) async fn serving_hot(spaces: &[&str]) -> Fixture {
    Fixture::of("memory:", &settings("hot", spaces), START).await
}

/// What these settings of spaces of sessions say, each `NAME.SETTING=VALUE`.
pub(crate) async fn serving_sessions(spaces: &[&str]) -> Fixture {
    Fixture::of("memory:", &settings("sessions", spaces), START).await
}

/// A limit as if it were written down.
pub(crate) fn limit(
    name: &str,
    algorithm: impl Into<Algorithm>,
    options: LimitOptions,
) -> Named<LimitSettings> {
    let options = LimitSettings { algorithm: algorithm.into(), options };
    Named { name: Name::new(name).unwrap(), options, is_implied: false }
}

/// An app with nothing but limits.
pub(crate) fn limits_on(gate: Tidegate, limits: Vec<Named<LimitSettings>>) -> App {
    App::new(Parts::open(gate, &PartSettings { limits, ..PartSettings::default() }).unwrap())
}

pub(crate) fn settings(family: &str, all: &[&str]) -> Settings {
    let flags = all.iter().map(|one| {
        let (path, value) = one.split_once('=').unwrap();
        Flag { given_as: "--set", path: format!("{family}.{path}"), value: value.to_owned() }
    });
    Settings::load(&Sources { flags: flags.collect(), ..Sources::default() }).unwrap()
}

impl Fixture {
    /// The limits of `settings`, on the store at `url` and a clock that starts at `start`.
    pub(crate) async fn of(url: &str, settings: &Settings, start: Timestamp) -> Self {
        let clock = ManualClock::at(start);
        let mut options = StoreOptions::default();
        options.clock = clock.clone().into();
        options.random = Random::seeded(1);
        options.deadline = SOON;
        options.namespace = settings.store.options.namespace.clone();
        let gate = Tidegate::open_with(url, options).await.unwrap();
        let app = App::new(Parts::open(gate, &settings.parts).unwrap());
        Self { router: router(app.clone()), app, clock }
    }

    /// Time passes, and somebody looks after the sessions: no hold begins.
    pub(crate) async fn pass(&self, ms: u64) {
        let spaces = self.get("/v1/sessions").await.json();
        let spaces = spaces["spaces"].as_array().unwrap();
        let lease = |it: &Value| it["holder_lease_ms"].as_u64().unwrap();
        let most_ms = spaces.iter().map(lease).min().unwrap() / 2;
        let mut left_ms = ms;
        loop {
            for space in spaces {
                let path = format!("/v1/sessions/{}/counts", space["space"].as_str().unwrap());
                assert_eq!(self.get(&path).await.status, 200);
            }
            if left_ms == 0 {
                return;
            }
            let step_ms = left_ms.min(most_ms);
            self.clock.advance_ms(step_ms);
            left_ms -= step_ms;
        }
    }

    pub(crate) async fn call(&self, method: &str, path: &str, body: &str) -> Answer {
        call_router(&self.router, method, path, body).await
    }

    pub(crate) async fn post(&self, path: &str, body: &str) -> Answer {
        self.call("POST", path, body).await
    }

    pub(crate) async fn put(&self, path: &str, body: &str) -> Answer {
        self.call("PUT", path, body).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.call("DELETE", path, "").await
    }

    pub(crate) async fn take(&self, body: &str) -> Answer {
        self.call("POST", "/v1/limits/api/take", body).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.call("GET", path, "").await
    }
}

/// Edits in bulk.
pub(crate) async fn bulk(app: &App, path: &str, lines: impl Into<Body>) -> Answer {
    let request = Request::post(path).header("content-type", "application/x-ndjson");
    send(router(app.clone()), request.body(lines.into()).unwrap()).await
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

/// A request without a socket.
pub(crate) async fn call(app: &App, method: &str, path: &str, body: &str) -> Answer {
    call_router(&router(app.clone()), method, path, body).await
}

/// The same, of a router that was made before: making one takes longer than most requests.
pub(crate) async fn call_router(router: &Router, method: &str, path: &str, body: &str) -> Answer {
    let request = Request::builder().method(method).uri(path).body(Body::from(body.to_owned()));
    send(router.clone(), request.unwrap()).await
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
