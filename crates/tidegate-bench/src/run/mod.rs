//! The area `run`: what a pipeline notes as processed and what it may call, beside the layout and the script of the
//! seed's document, on the same kind of server.

mod append;
mod bytes;
mod ours;
mod quota;
mod seed;

use anyhow::Result;

use crate::report::Figure;
use crate::rounds::Effort;
use crate::until::until_interrupted;

/// The figures of the area, or those of the groups that `only` names.
pub(crate) fn figures(effort: Effort, only: &str) -> Result<Vec<Figure>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let mut figures = runtime.block_on(until_interrupted(with_servers(effort, only)))?;
    figures.retain(|figure| figure.is_called(only));
    Ok(figures)
}

/// Servers stop with this future.
async fn with_servers(effort: Effort, only: &str) -> Result<Vec<Figure>> {
    // A group is asked for by its own name, by a shorter or by a longer one.
    let wants = |group: &str| group.starts_with(only) || only.starts_with(group);
    let mut figures = Vec::new();
    if wants("run.append_growth") {
        figures.extend(append::growth(effort).await?);
    }
    if wants("run.append_items") {
        figures.extend(append::items(effort).await?);
    }
    if wants("run.bytes_per_item") {
        figures.extend(bytes::figures(effort).await?);
    }
    if wants("run.quota_ops") {
        figures.extend(quota::ops(effort).await?);
    }
    if wants("run.sliding_hour_max") {
        figures.extend(quota::sliding_hour_max().await?);
    }
    Ok(figures)
}
