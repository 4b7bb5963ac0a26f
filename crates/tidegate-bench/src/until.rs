//! Work that a signal ends, so that the servers it started end as well.

use anyhow::{Context as _, Result, bail};
use tokio::signal::unix::{SignalKind, signal};

use crate::report::Figure;

/// What `work` measures, with servers that stop with it; of its figures those that `only` names.
pub(crate) fn measured(only: &str, work: impl Future<Output = Result<Vec<Figure>>>) -> Result<Vec<Figure>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let mut figures = runtime.block_on(until_interrupted(work))?;
    figures.retain(|figure| figure.is_called(only));
    Ok(figures)
}

/// The same work, ended by a signal.
async fn until_interrupted<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
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
