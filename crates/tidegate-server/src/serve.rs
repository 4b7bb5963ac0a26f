//! The HTTP API on a listener, and redirects on another.
//!
//! The caller owns the port and the lifetime: [`run`] takes a listener and a
//! future that ends when the server shall.

use std::future::Future;

use tokio::net::TcpListener;

pub use crate::connection::Ended;
use crate::connection::{Threads, accept};
use crate::edge::EdgeService;
use crate::http::{App, HttpService};
use crate::settings::HttpSettings;

/// Serves `app` on `listener` until `shutdown`, then lets requests in flight end,
/// for as long as the settings allow.
pub async fn run(
    listener: TcpListener,
    app: App,
    settings: &HttpSettings,
    shutdown: impl Future<Output = ()>,
) -> Ended {
    let service = |stopping| HttpService::new(app.with_settings(settings).until(stopping));
    accept::run(listener, settings, Threads::none(), service, shutdown).await
}

/// Serves the redirects of `app` on `listener` in the same way. One that has none ends at once.
pub async fn run_edge(
    listener: TcpListener,
    app: &App,
    settings: &HttpSettings,
    shutdown: impl Future<Output = ()>,
) -> Ended {
    match &app.parts().edge {
        Some(edge) => {
            let service = EdgeService::new(edge.clone());
            let threads = Threads::start(edge.threads());
            accept::run(listener, settings, threads, |_| service, shutdown).await
        }
        None => Ended { cut: 0 },
    }
}
