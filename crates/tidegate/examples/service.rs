//! A service that uses all three parts: visits of pages are limited per user, counted for what is
//! hot, and kept in a session per user.
//!
//! ```text
//! LISTEN=127.0.0.1:3000 cargo run -p tidegate --features tower --example service
//! LISTEN=127.0.0.1:3000 STORE=redis://127.0.0.1:6379 cargo run -p tidegate --features tower --example service
//! curl -X POST -H 'x-user: alice' http://127.0.0.1:3000/pages/tides
//! curl http://127.0.0.1:3000/hot
//! curl http://127.0.0.1:3000/online
//! curl http://127.0.0.1:3000/metrics
//! ```
//!
//! Without an address it asks itself all of this, prints the answers and ends.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, Request, StatusCode};
use axum::routing::{get, post};
use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;
use tidegate::hot::{Edit, Hot, HotOptions};
use tidegate::limit::{LimitLayer, LimitOptions, Sliding};
use tidegate::session::{SessionOptions, Sessions};
use tidegate::{Key, Tidegate};
use tokio::net::TcpListener;
use tower::ServiceExt as _;

struct Service {
    hot: Hot,
    sessions: Sessions,
    visits: AtomicU64,
    registry: Registry,
}

/// What went wrong is the caller's to know only if it is the caller's doing.
type Answer<T> = Result<T, StatusCode>;

fn failed(error: tidegate::Error) -> StatusCode {
    if error.is_transient() { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::BAD_REQUEST }
}

/// Who it is, as somebody further out has found out.
fn user(headers: &HeaderMap) -> Option<&str> {
    headers.get("x-user")?.to_str().ok()
}

async fn visit(
    State(service): State<Arc<Service>>,
    Path(page): Path<String>,
    headers: HeaderMap,
) -> Answer<String> {
    let user = Key::new(user(&headers).unwrap_or("nobody")).map_err(failed)?;
    let page = Key::new(&page).map_err(failed)?;
    // A session per user, held for as long as visits come.
    let activated = service.sessions.activate(user, "", Some(user)).await.map_err(failed)?;
    let session = activated.into_result().map_err(|_| StatusCode::TOO_MANY_REQUESTS)?;

    let visit = service.visits.fetch_add(1, Ordering::Relaxed);
    let id = format!("{}-{visit}", std::process::id());
    service.hot.record(&Edit::new(page, &id, user.as_str())).await.map_err(failed)?;
    Ok(format!("{} in session {}\n", page.as_str(), session.id))
}

async fn hottest(State(service): State<Arc<Service>>) -> Answer<String> {
    let pages = service.hot.list(10).await.map_err(failed)?;
    Ok(pages.into_iter().map(|it| format!("{} {}\n", it.edits, it.page)).collect())
}

async fn online(State(service): State<Arc<Service>>) -> Answer<String> {
    Ok(format!("{}\n", service.sessions.counts().await.map_err(failed)?.active))
}

async fn metrics(State(service): State<Arc<Service>>) -> String {
    let mut metrics = String::new();
    // Writing to a String cannot fail.
    let _ = text::encode(&mut metrics, &service.registry);
    metrics
}

async fn app(url: &str) -> Result<Router, Box<dyn Error>> {
    let gate = Tidegate::open(url).await?;
    let three_a_minute = Sliding::new("3/m".parse()?, Duration::from_secs(60))?;
    let visits = gate.limit("visits", three_a_minute, LimitOptions::new())?;
    let mut registry = Registry::default();
    gate.register_metrics(&mut registry);
    let service = Service {
        hot: gate.hot("main", HotOptions::new().hot_threshold(2))?,
        sessions: gate.sessions("main", SessionOptions::new().holder_lease(Duration::from_secs(60)))?,
        visits: AtomicU64::new(0),
        registry,
    };
    let by_user =
        LimitLayer::new(visits, |request: &Request<Body>| Some(user(request.headers())?.to_owned()));
    Ok(Router::new()
        .route("/pages/{page}", post(visit))
        // What was added before it is limited, what comes after is not.
        .layer(by_user)
        .route("/hot", get(hottest))
        .route("/online", get(online))
        .route("/metrics", get(metrics))
        .with_state(Arc::new(service)))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let app = app(std::env::var("STORE").as_deref().unwrap_or("memory:")).await?;
    if let Ok(address) = std::env::var("LISTEN") {
        let listener = TcpListener::bind(address).await?;
        println!("listening on http://{}", listener.local_addr()?);
        return Ok(axum::serve(listener, app).await?);
    }

    let ask = async |request: Request<Body>| -> Result<(StatusCode, String), Box<dyn Error>> {
        let response = app.clone().oneshot(request).await?;
        let status = response.status();
        let body = axum::body::to_bytes(response.into_body(), 1 << 20).await?;
        Ok((status, String::from_utf8(body.to_vec())?))
    };
    let visit = |user: &str, page: &str| {
        Request::post(format!("/pages/{page}")).header("x-user", user).body(Body::empty())
    };
    for (user, page) in [("alice", "tides"), ("bob", "tides"), ("alice", "gates"), ("alice", "tides")] {
        let (status, body) = ask(visit(user, page)?).await?;
        print!("{user}: {status} {body}");
        assert_eq!(status, 200);
    }
    let (status, body) = ask(visit("alice", "tides")?).await?;
    println!("alice: {status} {body}");
    assert_eq!(status, 429, "her fourth within a minute");

    assert_eq!(ask(Request::get("/hot").body(Body::empty())?).await?.1, "3 tides\n");
    assert_eq!(ask(Request::get("/online").body(Body::empty())?).await?.1, "2\n");
    let (_, metrics) = ask(Request::get("/metrics").body(Body::empty())?).await?;
    assert!(
        metrics.contains(
            r#"tidegate_limit_decisions_total{limit="visits",outcome="rejected",source="store"} 1"#
        )
    );
    Ok(())
}
