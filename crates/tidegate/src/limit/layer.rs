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
//! | the key function gives `None` | 400, unless [`without_key`](LimitLayer::without_key) says otherwise |
//! | refused | 429, with `Retry-After` if waiting can help; 503 where that is the store's doing and the limit is set so |
//! | a key that [may not be](crate::Key) | 400 |
//! | the limit fails, for a reason that the log has | 500 |
//! | the limit is away and no [policy](crate::Outage) answers | 503: not expected of a take |
//!
//! Bodies are `application/problem+json`, as the server's are, unless
//! [`with_refusal`](LimitLayer::with_refusal) makes others. The service's own errors pass through
//! as they are. An admitted request carries the decision: [`Decisions`] is among its extensions.
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
//! # let api = gate.limit("another", Sliding::new("50/m".parse()?, Duration::from_secs(60))?, LimitOptions::default())?;
//! # let by_user = LimitLayer::new(api, |request: &Request<Body>| {
//! #     Some(request.headers().get("x-user")?.to_str().ok()?.to_owned())
//! # });
//! # let app = Router::new().route("/", get("hello")).layer(by_user);
//!
//! // Who has no name is not let through by leaving it out.
//! let response = app.oneshot(Request::get("/").body(Body::empty()).unwrap()).await.unwrap();
//! assert_eq!(response.status(), 400);
//! # Ok(())
//! # }
//! ```

mod refused;

use std::fmt;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service;

pub use self::refused::{Answer, AsMade, AsProblem, Reason, Refused};
use super::{Decision, Limit, Quota, headers, problem};
use crate::bounds::Cost;
use crate::error::Result;
use crate::key::{Key, Name};

static RATELIMIT: HeaderName = HeaderName::from_static(headers::RATELIMIT);
static RATELIMIT_POLICY: HeaderName = HeaderName::from_static(headers::RATELIMIT_POLICY);

/// What a request gets for which the key function gives `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum WithoutKey {
    /// 400: who leaves the key out does not get around the limit.
    #[default]
    Refuse,
    /// It is charged to [what everyone shares](Key::EVERYONE).
    Share,
    /// It goes on to the service, and is not limited.
    Pass,
}

/// What the layers that a request has come through have decided, the outermost first: among the
/// extensions of every request that was charged.
#[derive(Debug, Clone, Default)]
pub struct Decisions(Vec<(Name, Decision)>);

impl Decisions {
    /// What the limit of this name has decided.
    pub fn get(&self, limit: &str) -> Option<&Decision> {
        self.iter().find(|(name, _)| name.as_str() == limit).map(|(_, decision)| decision)
    }

    /// All, with the names of their limits.
    pub fn iter(&self) -> impl Iterator<Item = (&Name, &Decision)> {
        self.0.iter().map(|(name, decision)| (name, decision))
    }
}

/// Puts a limit in front of a service; see the [module](self).
#[derive(Clone)]
pub struct LimitLayer<K, C, A = AsProblem> {
    limit: Limit,
    key: K,
    cost: C,
    without_key: WithoutKey,
    answer: A,
}

impl<K, B> LimitLayer<K, fn(&Request<B>) -> Cost>
where
    K: Fn(&Request<B>) -> Option<String>,
{
    /// Charges [one permit](Cost::ONE) of `limit` to what `key` says. A request for
    /// which it says `None` is refused, unless [`without_key`](Self::without_key) says otherwise.
    ///
    /// Whoever can choose the key can choose another one each time: take it from
    /// what has been checked, such as the user who has signed in, or from the
    /// connection's address.
    pub fn new(limit: Limit, key: K) -> Self {
        Self { limit, key, cost: |_| Cost::ONE, without_key: WithoutKey::default(), answer: AsProblem }
    }
}

impl<K, C, A> LimitLayer<K, C, A> {
    /// The same, with a request's cost as `cost` says.
    pub fn with_cost<D, B>(self, cost: D) -> LimitLayer<K, D, A>
    where
        D: Fn(&Request<B>) -> Cost,
    {
        let Self { limit, key, without_key, answer, .. } = self;
        LimitLayer { limit, key, cost, without_key, answer }
    }

    /// The same, with this for a request that has no key.
    #[must_use]
    pub fn without_key(self, without_key: WithoutKey) -> Self {
        Self { without_key, ..self }
    }

    /// The same, with what `make` answers to a request that does not reach the service, for
    /// whatever [reason](Reason).
    pub fn with_refusal<F, R>(self, make: F) -> LimitLayer<K, C, AsMade<F>>
    where
        F: Fn(Refused) -> Response<R> + Clone,
    {
        let Self { limit, key, cost, without_key, .. } = self;
        LimitLayer { limit, key, cost, without_key, answer: AsMade(make) }
    }
}

impl<K, C, A> fmt::Debug for LimitLayer<K, C, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LimitLayer").field("limit", &self.limit).finish_non_exhaustive()
    }
}

impl<S, K: Clone, C: Clone, A: Clone> Layer<S> for LimitLayer<K, C, A> {
    type Service = LimitService<S, K, C, A>;

    fn layer(&self, inner: S) -> Self::Service {
        LimitService { inner, layer: self.clone() }
    }
}

/// A service with a limit in front of it.
#[derive(Debug, Clone)]
pub struct LimitService<S, K, C, A = AsProblem> {
    inner: S,
    layer: LimitLayer<K, C, A>,
}

impl<S: Clone, K, C, A> LimitService<S, K, C, A> {
    /// The service that has been polled until it was ready, with all that it holds
    /// for that; what is left is another one, and not ready.
    fn take_ready(&mut self) -> S {
        let another = self.inner.clone();
        mem::replace(&mut self.inner, another)
    }
}

impl<S, K, C, A, B, R> Service<Request<B>> for LimitService<S, K, C, A>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
    K: Fn(&Request<B>) -> Option<String>,
    C: Fn(&Request<B>) -> Cost,
    A: Answer<R> + Send + 'static,
    R: 'static,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = LimitFuture<S, B>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let LimitLayer { limit, key, cost, without_key, answer } = &self.layer;
        let key = match (key(&request), without_key) {
            (None, WithoutKey::Pass) => {
                return State::Serving { response: self.inner.call(request), fields: None }.into();
            }
            (None, WithoutKey::Refuse) => {
                let response = answer.answer(Refused::without_key(limit.name().as_str()));
                return self.answered(response);
            }
            (None, WithoutKey::Share) => None,
            (key, _) => key,
        };
        let cost = cost(&request);
        let Some(here) = limit.in_process() else {
            // The future of a take has no name, hence a box: 0.1 us in front of a round trip.
            let (limit, answer) = (limit.clone(), answer.clone());
            let judged = Box::pin(async move { judge(&limit, key.as_deref(), cost).await.answered(&answer) });
            return State::Judging { judged, waiting: Some((self.take_ready(), request)) }.into();
        };
        let decision = subject(key.as_deref()).and_then(|key| here.take(key, cost));
        match Judged::new(limit, cost, decision).answered(answer) {
            Judged::Admitted(admitted) => {
                let (request, fields) = admitted.go_on(request);
                State::Serving { response: self.inner.call(request), fields: Some(fields) }.into()
            }
            Judged::Refused(response) => self.answered(response),
        }
    }
}

impl<S, K, C, A> LimitService<S, K, C, A> {
    /// By us, and not by the service.
    fn answered<B>(&mut self, response: S::Response) -> LimitFuture<S, B>
    where
        S: Service<Request<B>> + Clone,
    {
        // What it holds for a request that it will not get, others may be waiting for.
        drop(self.take_ready());
        State::Answered { response: Some(response) }.into()
    }
}

/// The key, or what everyone shares.
fn subject(key: Option<&str>) -> Result<Key<'_>> {
    key.map_or(Ok(Key::EVERYONE), Key::new)
}

async fn judge(limit: &Limit, key: Option<&str>, cost: Cost) -> Judged<Refused> {
    let decision = match subject(key) {
        Ok(key) => limit.take(key, cost).await,
        Err(error) => Err(error),
    };
    Judged::new(limit, cost, decision)
}

/// What has become of a request: it goes on to the service, or gets an answer.
enum Judged<R> {
    Admitted(Admitted),
    Refused(R),
}

struct Admitted {
    limit: Name,
    decision: Decision,
}

impl Judged<Refused> {
    fn new(limit: &Limit, cost: Cost, decision: Result<Decision>) -> Self {
        let name = limit.name();
        match decision {
            Ok(decision) if decision.is_admitted() => {
                Self::Admitted(Admitted { limit: name.clone(), decision })
            }
            Ok(decision) => {
                let mut response = problem::refusal(limit, cost, &decision);
                Fields::new(name.as_str(), decision.quota()).append_to(response.headers_mut());
                Self::Refused(Refused { reason: Reason::Decided(decision), response })
            }
            Err(error) => Self::Refused(Refused::failed(error)),
        }
    }

    fn answered<R>(self, answer: &impl Answer<R>) -> Judged<Response<R>> {
        match self {
            Self::Admitted(admitted) => Judged::Admitted(admitted),
            Self::Refused(refused) => Judged::Refused(answer.answer(refused)),
        }
    }
}

impl Admitted {
    /// `request` with what was decided, and what its response gets.
    fn go_on<B>(self, mut request: Request<B>) -> (Request<B>, Fields) {
        let fields = Fields::new(self.limit.as_str(), self.decision.quota());
        let extensions = request.extensions_mut();
        match extensions.get_mut::<Decisions>() {
            Some(decisions) => decisions.0.push((self.limit, self.decision)),
            None => drop(extensions.insert(Decisions(vec![(self.limit, self.decision)]))),
        }
        (request, fields)
    }
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
        Judging {
            judged: Pin<Box<dyn Future<Output = Judged<S::Response>> + Send>>,
            waiting: Option<(S, Request<B>)>,
        },
        Serving { #[pin] response: S::Future, fields: Option<Fields> },
        Answered { response: Option<S::Response> },
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
{
    type Output = Result<Response<R>, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.project().state;
        loop {
            let next = match state.as_mut().project() {
                Now::Judging { judged, waiting } => {
                    match (ready!(judged.as_mut().poll(cx)), waiting.take()) {
                        (Judged::Admitted(admitted), Some((mut service, request))) => {
                            let (request, fields) = admitted.go_on(request);
                            State::Serving { response: service.call(request), fields: Some(fields) }
                        }
                        (Judged::Refused(response), _) => State::Answered { response: Some(response) },
                        // They wait until it is judged, and that is once.
                        (Judged::Admitted(_), None) => return Poll::Pending,
                    }
                }
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
                    return Poll::Ready(Ok(response));
                }
            };
            state.set(next);
        }
    }
}
