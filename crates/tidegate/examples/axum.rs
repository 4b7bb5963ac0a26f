//! A tiny axum server with a limit per client address, and one route without.
//!
//! ```text
//! cargo run -p tidegate --features tower --example axum
//! cargo run -p tidegate --features tower --example axum -- redis://127.0.0.1:6379
//! ```
//!
//! Five requests a minute are answered by the service, the sixth is not:
//!
//! ```text
//! $ for i in 1 2 3 4 5 6; do curl -i http://127.0.0.1:3000/; done
//! HTTP/1.1 200 OK
//! content-type: text/plain; charset=utf-8
//! ratelimit-policy: "address";q=5;w=60
//! ratelimit: "address";r=4;t=61
//!
//! hello
//! …
//! HTTP/1.1 429 Too Many Requests
//! content-type: application/problem+json
//! retry-after: 61
//! ratelimit-policy: "address";q=5;w=60
//! ratelimit: "address";r=0;t=61
//!
//! {"type":"https://iana.org/assignments/http-problem-types#quota-exceeded",
//!  "title":"Quota exceeded","status":429,
//!  "detail":"0 of 5 permits per 60 s of the limit \"address\" are left: a cost of 1 fits in 60312 ms",
//!  "violated-policies":["address"]}
//! ```

use std::error::Error;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::extract::{ConnectInfo, Request};
use axum::routing::get;
use tidegate::Tidegate;
use tidegate::limit::{LimitLayer, LimitOptions, Sliding};
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).unwrap_or("memory:".to_owned());
    let gate = Tidegate::open(&url).await?;
    let sliding = Sliding::new("5/m".parse()?, Duration::from_secs(60))?;
    let per_address = gate.limit("address", sliding, LimitOptions::default())?;

    let app = Router::new()
        .route("/", get("hello\n"))
        // What was added before it is limited, what comes after is not.
        .layer(LimitLayer::new(per_address, address))
        .route("/healthz", get("ok\n"));

    let listener = TcpListener::bind("127.0.0.1:3000").await?;
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?;
    Ok(())
}

/// The client's address. Behind a proxy all have the proxy's: take what the proxy
/// writes into a header instead, and only what it writes.
fn address(request: &Request) -> Option<String> {
    let ConnectInfo(address) = request.extensions().get::<ConnectInfo<SocketAddr>>()?;
    Some(address.ip().to_string())
}
