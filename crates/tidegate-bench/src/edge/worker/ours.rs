//! Our server with all links: the database, and a worker that redirects, in one process.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use tidegate::clock::monotonic;

use super::links::Links;
use crate::http_client::{Connection, request_by};
use crate::peers;
use crate::server::Server;

/// How long it may take to read all links.
const PATIENCE: Duration = Duration::from_secs(120);

/// With every link in memory, and ready.
pub(super) async fn start(links: &Links, more: &[(&str, &str)]) -> Result<Server> {
    let bodies = [("edge.hydrate", "bodies"), ("edge.max_memory_mb", "500")];
    started(links, &[&bodies, more].concat()).await.map(|(server, _)| server)
}

/// With these settings, and ready; from when on it was there.
pub(super) async fn started(links: &Links, settings: &[(&str, &str)]) -> Result<(Server, Instant)> {
    let binary = peers::tidegate()?;
    let url = links.url();
    let begun = monotonic();
    let server = Server::redirecting(&binary, &[&[("rules.url", &*url)], settings].concat())?;
    let ready = request_by("GET", server.address(), "/readyz", "");
    let mut connection = Connection::open(server.address()).await?;
    while connection.status(&ready).await?.0 != 200 {
        ensure!(begun.elapsed() < PATIENCE, "not ready within {PATIENCE:?}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Ok((server, begun))
}

/// What is counted by that name.
pub(super) async fn counted(server: &Server, name: &str) -> Result<f64> {
    let mut connection = Connection::open(server.address()).await?;
    let text = connection.ok(&request_by("GET", server.address(), "/metrics", "")).await?;
    let text = std::str::from_utf8(text)?;
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    value.with_context(|| format!("{name} is not counted"))
}
