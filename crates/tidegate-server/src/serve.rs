//! The HTTP API on a listener.
//!
//! The caller owns the port and the lifetime: [`run`] takes a listener and a
//! future that ends when the server shall.

use std::future::Future;

use tokio::net::TcpListener;

pub use crate::connection::Ended;
use crate::connection::accept;
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
    accept::run(listener, settings, service, shutdown).await
}
