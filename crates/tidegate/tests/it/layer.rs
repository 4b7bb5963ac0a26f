//! The tower layer, in front of a service that checks how it is used. Decided in
//! this process or by Redis are two ways through the layer: all is tried on both.

mod strict;

use std::convert::Infallible;
use std::future::{Ready, poll_fn};
use std::num::NonZeroU32;
use std::task::{Context, Poll};

use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Request, Response, StatusCode};
use axum::routing::get;
use serde_json::{Value, json};
use tidegate::clock::{ManualClock, Timestamp};
use tidegate::limit::layer::{Decisions, LimitService, WithoutKey};
use tidegate::limit::{Algorithm, Limit, LimitLayer, LimitOptions, Suppressed};
use tidegate::testkit::RedisServer;
use tidegate::testkit::limit::sliding;
use tidegate::{ClosedStatus, Cost, Key, Outage, Share, Tidegate};
use tower::{Layer, Service, ServiceExt as _};

use self::strict::Strict;
use crate::kit::{On, REDIS};

fn stores() -> [On; 2] {
    [On::url("memory:"), On::url(REDIS.url())]
}

/// A limit of 5 per minute, and its clock.
async fn limit(on: &On, name: &str) -> (Limit, ManualClock) {
    limit_by(on, name, sliding(5, 60, 600)).await
}

async fn limit_by(on: &On, name: &str, algorithm: impl Into<Algorithm>) -> (Limit, ManualClock) {
    let clock = ManualClock::at(Timestamp::from_millis(1_700_000_040_000));
    let gate = on.open(clock.clone(), 1).await;
    (gate.limit(name, algorithm, LimitOptions::default()).unwrap(), clock)
}

/// Keyed by the header `x-key`.
fn key<B>(request: &Request<B>) -> Option<String> {
    Some(request.headers().get("x-key")?.to_str().unwrap().to_owned())
}

fn request(key: &str) -> Request<String> {
    Request::post("/").header("x-key", key).body("tea".to_owned()).unwrap()
}

/// Asks as a caller that keeps to the rules: until it is ready, then once.
async fn send<S>(service: &mut S, request: Request<String>) -> Result<Response<String>, S::Error>
where
    S: Service<Request<String>, Response = Response<String>>,
{
    poll_fn(|cx| service.poll_ready(cx)).await?;
    service.call(request).await
}

fn field<'a>(headers: &'a HeaderMap, name: &str) -> Vec<&'a str> {
    headers.get_all(name).iter().map(|value| value.to_str().unwrap()).collect()
}

async fn left(limit: &Limit, key: &str) -> u64 {
    limit.peek(Key::new(key).unwrap()).await.unwrap().quota().remaining
}

#[tokio::test]
async fn an_admission_adds_to_what_the_service_answers() {
    for on in stores() {
        let (limit, _) = limit(&on, "api").await;
        let (strict, seen) = Strict::new();
        let mut service = LimitLayer::new(limit, key).layer(strict);
        for left in (0..5).rev() {
            let response = send(&mut service, request("a")).await.unwrap();
            assert_eq!((response.status(), &**response.body()), (StatusCode::CREATED, "made tea"));
            let headers = response.headers();
            assert_eq!(field(headers, "x-own"), ["1"]);
            assert_eq!(field(headers, "ratelimit-policy"), [r#""api";q=5;w=60"#]);
            assert_eq!(field(headers, "ratelimit"), ["own", &format!(r#""api";r={left};t=61"#)]);
            assert_eq!(headers.len(), 4, "{headers:?}");
        }
        assert_eq!(seen.calls(), 5);
    }
}

#[tokio::test]
async fn a_refusal_is_a_problem_and_says_when_to_come_back() {
    for on in stores() {
        let (limit, clock) = limit(&on, "api").await;
        let (strict, seen) = Strict::new();
        let mut service = LimitLayer::new(limit, key).layer(strict);
        for _ in 0..5 {
            send(&mut service, request("a")).await.unwrap();
        }
        clock.advance_ms(100);
        let response = send(&mut service, request("a")).await.unwrap();
        assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
        let headers = response.headers();
        assert_eq!(field(headers, "content-type"), ["application/problem+json"]);
        assert_eq!(field(headers, "retry-after"), ["61"], "60.5 s, rounded up");
        assert_eq!(field(headers, "ratelimit-policy"), [r#""api";q=5;w=60"#]);
        assert_eq!(field(headers, "ratelimit"), [r#""api";r=0;t=61"#]);
        assert_eq!(
            serde_json::from_str::<Value>(response.body()).unwrap(),
            json!({
                "type": "https://iana.org/assignments/http-problem-types#quota-exceeded",
                "title": "Quota exceeded",
                "status": 429,
                "detail": "0 of 5 permits per 60 s of the limit \"api\" are left: a cost of 1 fits in 60500 ms",
                "violated-policies": ["api"],
            })
        );
        assert_eq!(seen.calls(), 5);
        assert_eq!(send(&mut service, request("b")).await.unwrap().status(), 201, "another key");
        clock.advance_ms(61_000);
        assert_eq!(send(&mut service, request("a")).await.unwrap().status(), 201);
        assert_eq!(seen.calls(), 7);
    }
}

#[tokio::test]
async fn a_request_costs_what_the_function_says() {
    let cost = |request: &Request<String>| Cost::new(request.body().len() as u64).unwrap();
    for on in stores() {
        let (limit, _) = limit(&on, "api").await;
        let mut service = LimitLayer::new(limit.clone(), key).with_cost(cost).layer(Strict::new().0);
        let tea = send(&mut service, request("a")).await.unwrap();
        assert_eq!(field(tea.headers(), "ratelimit")[1], r#""api";r=2;t=61"#);
        assert_eq!(send(&mut service, request("a")).await.unwrap().status(), 429);
        assert_eq!(left(&limit, "a").await, 2, "a refusal charges nothing");

        let coffee = request("b").map(|_| "coffee".to_owned());
        let response = send(&mut service, coffee).await.unwrap();
        assert_eq!(response.status(), 429);
        assert_eq!(field(response.headers(), "retry-after"), [""; 0], "waiting cannot help");
        let problem: Value = serde_json::from_str(response.body()).unwrap();
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.starts_with("a cost of 6 never fits the limit \"api\""), "{detail}");
    }
}

/// Above a hard limit as low as the soft one, chance lets nothing through.
#[tokio::test]
async fn what_chance_declines_is_refused_without_a_time() {
    for on in stores() {
        let suppressed = Suppressed::new(sliding(5, 60, 600), 1.0).unwrap();
        let (limit, _) = limit_by(&on, "api", suppressed).await;
        let (strict, seen) = Strict::new();
        let mut service = LimitLayer::new(limit, key).with_cost(|_| Cost::new(5).unwrap()).layer(strict);
        assert_eq!(send(&mut service, request("a")).await.unwrap().status(), 201);
        let response = send(&mut service, request("a")).await.unwrap();
        assert_eq!(response.status(), 429);
        assert_eq!(field(response.headers(), "retry-after"), [""; 0]);
        assert_eq!(field(response.headers(), "ratelimit-policy"), [r#""api";q=5;w=60"#]);
        let problem: Value = serde_json::from_str(response.body()).unwrap();
        assert!(problem["detail"].as_str().unwrap().contains("lets only some calls through"), "{problem}");
        assert_eq!(seen.calls(), 1);
    }
}

/// The header is left out: that is no way around a limit.
#[tokio::test]
async fn without_a_key_a_request_is_refused_unless_told_otherwise() {
    let nameless = || Request::post("/").body("tea".to_owned()).unwrap();
    for on in stores() {
        let (limit, _) = limit(&on, "api").await;
        let (strict, seen) = Strict::new();
        let mut service = LimitLayer::new(limit.clone(), key).layer(strict);
        let refused = send(&mut service, nameless()).await.unwrap();
        assert_eq!(refused.status(), 400, "{}", on.url);
        assert_eq!(field(refused.headers(), "content-type"), ["application/problem+json"]);
        let problem: Value = serde_json::from_str(refused.body()).unwrap();
        assert_eq!(problem["type"], "urn:tidegate:problem:invalid-request");
        assert_eq!(problem["detail"], "the request has no key, which the limit \"api\" needs");
        assert_eq!(seen.calls(), 0, "{}", on.url);

        let (strict, seen) = Strict::new();
        let passing = LimitLayer::new(limit.clone(), key).without_key(WithoutKey::Pass);
        let passed = send(&mut passing.layer(strict), nameless()).await.unwrap();
        assert_eq!((passed.status().as_u16(), passed.body().as_str()), (201, "made tea"));
        assert_eq!(field(passed.headers(), "ratelimit"), ["own"]);
        assert_eq!(seen.calls(), 1);

        let (strict, seen) = Strict::new();
        let sharing = LimitLayer::new(limit.clone(), key).without_key(WithoutKey::Share);
        let mut service = sharing.layer(strict);
        for expected in [201, 201, 201, 201, 201, 429] {
            assert_eq!(send(&mut service, nameless()).await.unwrap().status(), expected, "{}", on.url);
        }
        assert_eq!(seen.calls(), 5, "{}", on.url);
        assert_eq!(limit.peek(Key::EVERYONE).await.unwrap().quota().remaining, 0);
        assert_eq!(send(&mut service, request("a")).await.unwrap().status(), 201, "a key has its own");
    }
}

/// What the handler has to know to tell, or to give back.
#[tokio::test]
async fn the_handler_gets_what_every_layer_has_decided() {
    for on in stores() {
        let ((outer, _), (inner, _)) = (limit(&on, "outer").await, limit(&on, "inner").await);
        let handler = tower::service_fn(async |request: Request<String>| {
            let decisions = request.extensions().get::<Decisions>().unwrap();
            let names: Vec<_> = decisions.iter().map(|(name, _)| name.as_str().to_owned()).collect();
            let left = |name: &str| decisions.get(name).unwrap().quota().remaining;
            let text = format!("{names:?} {} {}", left("outer"), left("inner"));
            assert!(decisions.get("outer").unwrap().receipt().is_some() && decisions.get("x").is_none());
            Ok::<_, Infallible>(Response::new(text))
        });
        let service = LimitLayer::new(inner, key).with_cost(|_| Cost::new(2).unwrap()).layer(handler);
        let mut service = LimitLayer::new(outer, key).layer(service);
        for expected in ["[\"outer\", \"inner\"] 4 3", "[\"outer\", \"inner\"] 3 1"] {
            assert_eq!(send(&mut service, request("a")).await.unwrap().body(), expected, "{}", on.url);
        }
    }
}

#[tokio::test]
async fn the_answer_of_a_refusal_can_be_made_by_the_user() {
    /// A body that nobody can make of a text.
    #[derive(Debug, PartialEq)]
    enum Page {
        Made,
        Sorry(u16, Option<u64>),
    }
    for on in stores() {
        let (limit, _) = limit(&on, "api").await;
        let handler =
            tower::service_fn(async |_: Request<String>| Ok::<_, Infallible>(Response::new(Page::Made)));
        let layer = LimitLayer::new(limit, key).with_refusal(|refused| {
            let left = refused.decision().map(|decision| decision.quota().remaining);
            let (parts, _) = refused.response.into_parts();
            let status = parts.status.as_u16();
            let mut response = Response::from_parts(parts, Page::Sorry(status, left));
            *response.status_mut() = StatusCode::IM_A_TEAPOT;
            response
        });
        let mut service = layer.layer(handler);
        let mut send = async |request: Request<String>| {
            poll_fn(|cx| Service::<Request<String>>::poll_ready(&mut service, cx)).await.unwrap();
            service.call(request).await.unwrap()
        };
        for _ in 0..5 {
            assert_eq!(*send(request("a")).await.body(), Page::Made, "{}", on.url);
        }
        let refused = send(request("a")).await;
        assert_eq!((refused.status().as_u16(), refused.body()), (418, &Page::Sorry(429, Some(0))));
        assert!(refused.headers().contains_key("retry-after") && refused.headers().contains_key("ratelimit"));
        let nameless = send(Request::post("/").body(String::new()).unwrap()).await;
        assert_eq!((nameless.status().as_u16(), nameless.body()), (418, &Page::Sorry(400, None)));
        let too_long = send(request(&"x".repeat(256))).await;
        assert_eq!((too_long.status().as_u16(), too_long.body()), (418, &Page::Sorry(400, None)));
    }
}

#[tokio::test]
async fn a_key_that_may_not_be_is_the_callers_mistake() {
    for on in stores() {
        let (limit, _) = limit(&on, "api").await;
        let (strict, seen) = Strict::new();
        let mut service = LimitLayer::new(limit, key).layer(strict);
        for (key, says) in [("", "must not be empty"), (&*"\"".repeat(256), "has 256 bytes: 1 to 255")] {
            let response = send(&mut service, request(key)).await.unwrap();
            assert_eq!(response.status(), StatusCode::BAD_REQUEST);
            assert_eq!(field(response.headers(), "content-type"), ["application/problem+json"]);
            assert_eq!(response.headers().len(), 1, "{:?}", response.headers());
            let problem: Value = serde_json::from_str(response.body()).unwrap();
            assert_eq!(problem["type"], "urn:tidegate:problem:invalid-request");
            assert!(problem["detail"].as_str().unwrap().contains(says), "{problem}");
        }
        assert_eq!(send(&mut service, request(&"x".repeat(255))).await.unwrap().status(), 201);
        assert_eq!(seen.calls(), 1);
    }
}

/// Somebody wrote something else under the limit's own key.
#[tokio::test]
async fn a_key_of_another_type_is_an_internal_error() {
    let server = RedisServer::start();
    let (limit, _) = limit(&On::url(server.url()), "api").await;
    let (strict, seen) = Strict::new();
    let mut service = LimitLayer::new(limit, key).layer(strict);
    assert_eq!(send(&mut service, request("a_key")).await.unwrap().status(), 201);
    let mut connection = server.connection();
    let keys: Vec<String> = redis::cmd("KEYS").arg("*a_key").query(&mut connection).unwrap();
    let [name] = &keys[..] else { panic!("one key: {keys:?}") };
    redis::cmd("SET").arg(name).arg("x").arg("EX").arg(60).exec(&mut connection).unwrap();

    let response = send(&mut service, request("a_key")).await.unwrap();
    assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
    let problem: Value = serde_json::from_str(response.body()).unwrap();
    assert_eq!(problem["type"], "urn:tidegate:problem:corrupt-key");
    assert!(problem["detail"].as_str().unwrap().ends_with("a reset mends it"), "{problem}");
    assert_eq!(seen.calls(), 1);
}

#[tokio::test]
async fn while_the_store_is_away_its_policy_answers() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let service = async |outage, closed_status| {
        let gate = Tidegate::open(&format!("redis://127.0.0.1:{port}")).await.unwrap();
        let mut options = LimitOptions::default();
        options.outage = outage;
        options.closed_status = closed_status;
        let limit = gate.limit("api", sliding(5, 60, 600), options).unwrap();
        LimitLayer::new(limit, key).layer(Strict::new().0)
    };
    for (closed_status, expected) in
        [(ClosedStatus::TooManyRequests, 429), (ClosedStatus::ServiceUnavailable, 503)]
    {
        let mut service = service(Outage::Closed, closed_status).await;
        let response = send(&mut service, request("a")).await.unwrap();
        assert_eq!(response.status(), expected);
        assert_eq!(field(response.headers(), "retry-after"), ["1"]);
        let problem: Value = serde_json::from_str(response.body()).unwrap();
        assert_eq!(problem["type"], "urn:tidegate:problem:store-away");
        assert_eq!(problem["status"], expected);
        assert!(problem["detail"].as_str().unwrap().starts_with("the store is away"), "{problem}");
    }

    let half = Outage::Local(Share::one_of(NonZeroU32::new(2).unwrap()));
    let response = send(&mut service(half, ClosedStatus::default()).await, request("a")).await.unwrap();
    assert_eq!(response.status(), 201);
    assert_eq!(field(response.headers(), "ratelimit-policy"), [r#""api";q=2;w=60"#]);
}

#[tokio::test]
async fn the_services_own_errors_pass_through() {
    for on in stores() {
        let (limit, _) = limit(&on, "api").await;
        let (strict, seen) = Strict::new();
        let mut service = LimitLayer::new(limit.clone(), key).layer(strict);
        let broken = Request::post("/broken").header("x-key", "a").body(String::new()).unwrap();
        assert_eq!(send(&mut service, broken).await.unwrap_err(), "broken");
        assert_eq!((seen.calls(), left(&limit, "a").await), (1, 4));
    }
}

/// Says the one thing whenever it is asked whether it is ready.
#[derive(Clone)]
struct Says(Poll<Result<(), &'static str>>);

impl Service<Request<String>> for Says {
    type Response = Response<String>;
    type Error = &'static str;
    type Future = Ready<Result<Response<String>, &'static str>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), &'static str>> {
        self.0
    }

    fn call(&mut self, _: Request<String>) -> Self::Future {
        panic!("it was not ready");
    }
}

#[tokio::test]
async fn a_layer_is_ready_when_its_service_is() {
    let (limit, _) = limit(&On::url("memory:"), "api").await;
    for says in [Poll::Pending, Poll::Ready(Err("closed")), Poll::Ready(Ok(()))] {
        let mut service: LimitService<_, _, _> = LimitLayer::new(limit.clone(), key).layer(Says(says));
        assert_eq!(poll_fn(|cx| Poll::Ready(service.poll_ready(cx))).await, says);
    }
}

/// A store that takes its time must not mix up who is ready: here two are asked
/// before either has its answer.
#[tokio::test]
async fn requests_together_have_a_ready_service_each() {
    for on in stores() {
        let (limit, _) = limit(&on, "api").await;
        let (strict, seen) = Strict::new();
        let mut service = LimitLayer::new(limit, key).layer(strict);
        let mut responses = Vec::new();
        for _ in 0..7 {
            poll_fn(|cx| service.poll_ready(cx)).await.unwrap();
            responses.push(service.call(request("a")));
        }
        let mut statuses = Vec::new();
        for response in responses {
            statuses.push(response.await.unwrap().status().as_u16());
        }
        statuses.sort_unstable();
        assert_eq!(statuses, [201, 201, 201, 201, 201, 429, 429]);
        assert_eq!(seen.calls(), 5);
    }
}

#[tokio::test]
async fn stacked_layers_tell_of_each_limit() {
    for on in stores() {
        let ((outer, _), (inner, _)) = (limit(&on, "outer").await, limit(&on, "inner").await);
        let (strict, seen) = Strict::new();
        let service = LimitLayer::new(inner.clone(), key).layer(strict);
        let mut service = LimitLayer::new(outer.clone(), key).layer(service);

        let response = send(&mut service, request("a")).await.unwrap();
        let policies = [r#""inner";q=5;w=60"#, r#""outer";q=5;w=60"#];
        assert_eq!(field(response.headers(), "ratelimit-policy"), policies);
        let fields = ["own", r#""inner";r=4;t=61"#, r#""outer";r=4;t=61"#];
        assert_eq!(field(response.headers(), "ratelimit"), fields);

        // The inner one refuses: the outer one still tells what it has charged.
        inner.take(Key::new("a").unwrap(), Cost::new(4).unwrap()).await.unwrap();
        let response = send(&mut service, request("a")).await.unwrap();
        assert_eq!(response.status(), 429);
        assert!(response.body().contains(r#""violated-policies":["inner"]"#), "{}", response.body());
        assert_eq!(field(response.headers(), "ratelimit-policy"), policies);
        assert_eq!(field(response.headers(), "ratelimit"), [r#""inner";r=0;t=61"#, r#""outer";r=3;t=61"#]);

        // The outer one refuses: the inner one is not asked.
        outer.take(Key::new("b").unwrap(), Cost::new(5).unwrap()).await.unwrap();
        let response = send(&mut service, request("b")).await.unwrap();
        assert_eq!((response.status().as_u16(), left(&inner, "b").await), (429, 5));
        assert_eq!(field(response.headers(), "ratelimit-policy"), policies[1..]);
        assert_eq!(seen.calls(), 1);
    }
}

#[tokio::test]
async fn an_axum_router_is_limited() {
    for on in stores() {
        let (limit, _) = limit(&on, "api").await;
        let app = axum::Router::new()
            .route("/", get(async || "hello"))
            .layer(LimitLayer::new(limit, |request| {
                Some(request.headers().get("x-key")?.to_str().ok()?.to_owned())
            }))
            .route("/free", get(async || "free"));
        let send = async |path: &str| {
            let request = Request::get(path).header("x-key", "a").body(Body::empty()).unwrap();
            let answer: Result<Response<Body>, Infallible> = app.clone().oneshot(request).await;
            let (parts, body) = answer.unwrap().into_parts();
            let body = to_bytes(body, 10_000).await.unwrap();
            (parts.status, parts.headers, String::from_utf8(body.to_vec()).unwrap())
        };
        for left in (0..5).rev() {
            let (status, headers, body) = send("/").await;
            assert_eq!((status, &*body), (StatusCode::OK, "hello"));
            assert_eq!(field(&headers, "ratelimit"), [format!(r#""api";r={left};t=61"#)]);
        }
        let (status, headers, body) = send("/").await;
        assert_eq!(status, StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(field(&headers, "content-type"), ["application/problem+json"]);
        assert_eq!(field(&headers, "retry-after"), ["61"]);
        let problem: Value = serde_json::from_str(&body).unwrap();
        assert_eq!((&problem["status"], &problem["violated-policies"]), (&json!(429), &json!(["api"])));
        let (status, headers, _) = send("/free").await;
        assert_eq!((status, field(&headers, "ratelimit").len()), (StatusCode::OK, 0));
    }
}
