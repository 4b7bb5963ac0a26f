//! The area `limit`: sliding limits in this process beside governor, and on
//! Redis beside trypema and a bare script.

mod gcra;
mod growth;
mod keys;
mod memory;
mod parts;
mod redis;
mod size;
mod takers;

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use tidegate::limit::Sliding;
use tokio::signal::unix::{SignalKind, signal};

use crate::redis_server::RedisServer;
use crate::report::Figure;
use crate::rounds::Effort;

const GOVERNOR: &str = "governor";

/// All figures of the area.
pub(crate) fn figures(effort: Effort) -> Result<Vec<Figure>> {
    let mut figures = memory::figures(effort)?;
    figures.extend(size::figures(effort)?);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    figures.extend(runtime.block_on(on_redis(effort))?);
    Ok(figures)
}

/// The figures that need a server. It stops with this future, so a signal only
/// has to end that.
async fn on_redis(effort: Effort) -> Result<Vec<Figure>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let measure = async {
        let server = RedisServer::start()?;
        let mut figures = redis::figures(&server, effort).await?;
        figures.extend(growth::figures(&server, effort).await?);
        Ok(figures)
    };
    tokio::select! {
        figures = measure => figures,
        _ = terminate.recv() => bail!("terminated"),
        interrupted = tokio::signal::ctrl_c() => {
            interrupted.context("cannot listen to Ctrl-C")?;
            bail!("interrupted")
        }
    }
}

/// Some 250 thousand million permits a minute: everything is admitted.
fn generous() -> Result<Sliding> {
    Ok(Sliding::new(tidegate::Rate::per_second(u32::MAX), Duration::from_secs(60))?)
}
