//! Work that a signal ends, so that the servers it started end as well.

use anyhow::{Context as _, Result, bail};
use tokio::signal::unix::{SignalKind, signal};

/// The same work, ended by a signal.
pub(crate) async fn until_interrupted<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        done = work => done,
        _ = terminate.recv() => bail!("terminated"),
        interrupted = tokio::signal::ctrl_c() => {
            interrupted.context("cannot listen to Ctrl-C")?;
            bail!("interrupted")
        }
    }
}
