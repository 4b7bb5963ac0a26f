//! Feature `tower`: a limit in front of an axum router or any other tower service
//! that speaks HTTP.
//!
//! A function of the request names the key that is charged. What is admitted goes
//! on to the service, and its response gets `RateLimit-Policy` and `RateLimit` in
//! addition to what it has; with several layers around a service it tells of each.
//! What is not admitted never reaches the service:
//!
//! | | answer |
//! |---|---|
//! | the key function gives `None` | the service's own, unchanged: the request is not limited |
//! | refused | 429, with `Retry-After` if waiting can help; 503 where that is the store's doing and the limit is set so |
//! | a key that [may not be](crate::Key) | 400 |
//! | the limit fails, for a reason that the log has | 500 |
//! | the limit is away and no [policy](crate::Outage) answers | 503: not expected of a take |
//!
//! Bodies are `application/problem+json`, as the server's are. The service's own
//! errors pass through as they are.
//!
//! A charge is not given back if the service fails, nor if the caller goes away
//! meanwhile, nor if a layer further in refuses. Of several layers the one that
//! refuses most belongs outside.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> tidegate::Result<()> {
//! use std::time::Duration;
//! use axum::{Router, body::Body, http::Request, routing::get};
//! use tidegate::{Cost, Tidegate, limit::{LimitLayer, LimitOptions, Sliding}};
//! use tower::ServiceExt as _;
//!
//! let gate = Tidegate::open("memory:").await?;
//! let sliding = Sliding::new("50/m".parse()?, Duration::from_secs(60))?;
//! let api = gate.limit("api", sliding, LimitOptions::default())?;
//!
//! let by_user = LimitLayer::new(api, |request| {
//!     Some(request.headers().get("x-user")?.to_str().ok()?.to_owned())
//! })
//! .with_cost(|request| if request.method() == "POST" { Cost::new(10).unwrap() } else { Cost::ONE });
//! let app = Router::new().route("/", get("hello").post("done")).layer(by_user);
//!
//! let request = Request::post("/").header("x-user", "user_123").body(Body::empty()).unwrap();
//! let response = app.oneshot(request).await.unwrap();
//! assert_eq!(response.headers()["ratelimit-policy"], r#""api";q=50;w=60"#);
//! assert_eq!(response.headers()["ratelimit"], r#""api";r=40;t=61"#);
//! # Ok(())
//! # }
//! ```

use std::fmt;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service;

use super::{Decision, Limit, Quota, headers, problem};
use crate::bounds::Cost;
use crate::error::Result;
use crate::key::Key;

static RATELIMIT: HeaderName = HeaderName::from_static(headers::RATELIMIT);
static RATELIMIT_POLICY: HeaderName = HeaderName::from_static(headers::RATELIMIT_POLICY);

/// Puts a limit in front of a service; see the [module](self).
#[derive(Clone)]
pub struct LimitLayer<K, C> {
    limit: Limit,
    key: K,
    cost: C,
}

impl<K, B> LimitLayer<K, fn(&Request<B>) -> Cost>
where
    K: Fn(&Request<B>) -> Option<String>,
{
    /// Charges [one permit](Cost::ONE) of `limit` to what `key` says. A request for
    /// which it says `None` is not limited.
    ///
    /// Whoever can choose the key can choose another one each time: take it from
    /// what has been checked, such as the user who has signed in, or from the
    /// connection's address.
    pub fn new(limit: Limit, key: K) -> Self {
        Self { limit, key, cost: |_| Cost::ONE }
    }
}

impl<K, C> LimitLayer<K, C> {
    /// The same, with a request's cost as `cost` says.
    pub fn with_cost<D, B>(self, cost: D) -> LimitLayer<K, D>
    where
        D: Fn(&Request<B>) -> Cost,
    {
        LimitLayer { limit: self.limit, key: self.key, cost }
    }
}

impl<K, C> fmt::Debug for LimitLayer<K, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LimitLayer").field("limit", &self.limit).finish_non_exhaustive()
    }
}

impl<S, K: Clone, C: Clone> Layer<S> for LimitLayer<K, C> {
    type Service = LimitService<S, K, C>;

    fn layer(&self, inner: S) -> Self::Service {
        LimitService { inner, layer: self.clone() }
    }
}

/// A service with a limit in front of it.
#[derive(Debug, Clone)]
pub struct LimitService<S, K, C> {
    inner: S,
    layer: LimitLayer<K, C>,
}

impl<S: Clone, K, C> LimitService<S, K, C> {
    /// The service that has been polled until it was ready, with all that it holds
    /// for that; what is left is another one, and not ready.
    fn take_ready(&mut self) -> S {
        let another = self.inner.clone();
        mem::replace(&mut self.inner, another)
    }
}

impl<S, K, C, B, R> Service<Request<B>> for LimitService<S, K, C>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
    K: Fn(&Request<B>) -> Option<String>,
    C: Fn(&Request<B>) -> Cost,
    R: From<String>,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = LimitFuture<S, B>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let Some(key) = (self.layer.key)(&request) else {
            return State::Serving { response: self.inner.call(request), fields: None }.into();
        };
        let (limit, cost) = (&self.layer.limit, (self.layer.cost)(&request));
        let Some(here) = limit.in_process() else {
            // The future of a take has no name, hence a box: 0.1 us in front of a round trip.
            let limit = limit.clone();
            let judged = Box::pin(async move { ask(&limit, &key, cost).await });
            return State::Asking { judged, waiting: Some((self.take_ready(), request)) }.into();
        };
        match Judged::new(limit, cost, Key::new(&key).and_then(|key| here.take(key, cost))) {
            Judged::Admitted(fields) => {
                State::Serving { response: self.inner.call(request), fields: Some(fields) }.into()
            }
            Judged::Answered(response) => {
                // What it holds for a request that it will not get, others may be waiting for.
                drop(self.take_ready());
                State::Answered { response: Some(response) }.into()
            }
        }
    }
}

enum Judged {
    Admitted(Fields),
    /// Not by the service, but by us.
    Answered(Response<String>),
}

impl Judged {
    fn new(limit: &Limit, cost: Cost, decision: Result<Decision>) -> Self {
        let name = limit.name().as_str();
        match decision {
            Ok(decision) if decision.is_admitted() => Self::Admitted(Fields::new(name, decision.quota())),
            Ok(decision) => {
                let mut response = problem::refusal(limit, cost, &decision);
                Fields::new(name, decision.quota()).append_to(response.headers_mut());
                Self::Answered(response)
            }
            Err(error) => Self::Answered(problem::failure(&error)),
        }
    }
}

async fn ask(limit: &Limit, key: &str, cost: Cost) -> Judged {
    let decision = match Key::new(key) {
        Ok(key) => limit.take(key, cost).await,
        Err(error) => Err(error),
    };
    Judged::new(limit, cost, decision)
}

/// What a response gets in addition to what it has.
struct Fields {
    policy: HeaderValue,
    ratelimit: HeaderValue,
}

impl Fields {
    fn new(limit: &str, quota: &Quota) -> Self {
        Self {
            policy: value(headers::policy(limit, quota.capacity, quota.window_size_seconds)),
            ratelimit: value(headers::ratelimit(limit, quota)),
        }
    }

    /// Behind those of the layers further in: both fields are lists.
    fn append_to(self, headers: &mut HeaderMap) {
        headers.append(&RATELIMIT_POLICY, self.policy);
        headers.append(&RATELIMIT, self.ratelimit);
    }
}

/// A name is letters, digits, `_` and `-`: always a header's value.
fn value(text: String) -> HeaderValue {
    HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static(""))
}

pin_project! {
    /// The response of a [`LimitService`].
    pub struct LimitFuture<S, B>
    where
        S: Service<Request<B>>,
    {
        #[pin]
        state: State<S, B>,
    }
}

pin_project! {
    #[project = Now]
    enum State<S, B>
    where
        S: Service<Request<B>>,
    {
        // The store is being asked; the service and the request are there until it has answered.
        Asking { judged: Pin<Box<dyn Future<Output = Judged> + Send>>, waiting: Option<(S, Request<B>)> },
        Serving { #[pin] response: S::Future, fields: Option<Fields> },
        Answered { response: Option<Response<String>> },
    }
}

impl<S: Service<Request<B>>, B> From<State<S, B>> for LimitFuture<S, B> {
    fn from(state: State<S, B>) -> Self {
        Self { state }
    }
}

impl<S, B, R> Future for LimitFuture<S, B>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: From<String>,
{
    type Output = Result<Response<R>, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.project().state;
        loop {
            let next = match state.as_mut().project() {
                Now::Asking { judged, waiting } => match (ready!(judged.as_mut().poll(cx)), waiting.take()) {
                    (Judged::Admitted(fields), Some((mut service, request))) => {
                        State::Serving { response: service.call(request), fields: Some(fields) }
                    }
                    (Judged::Answered(response), _) => State::Answered { response: Some(response) },
                    // They wait until it is judged, and that is once.
                    (Judged::Admitted(_), None) => return Poll::Pending,
                },
                Now::Serving { response, fields } => {
                    let mut response = ready!(response.poll(cx));
                    if let (Ok(response), Some(fields)) = (&mut response, fields.take()) {
                        fields.append_to(response.headers_mut());
                    }
                    return Poll::Ready(response);
                }
                Now::Answered { response } => {
                    // Nothing is left for who asks again.
                    let Some(response) = response.take() else { return Poll::Pending };
                    return Poll::Ready(Ok(response.map(R::from)));
                }
            };
            state.set(next);
        }
    }
}
