//! The area `run`: what a pipeline notes as processed and what it may call, beside the layout and the script of the
//! seed's document, on the same kind of server.

mod append;
mod bytes;
mod ours;
mod quota;
mod seed;

use anyhow::Result;

use crate::report::{Figure, is_wanted};
use crate::rounds::Effort;
use crate::until::measured;

/// The figures of the area, or those of the groups that `only` names.
pub(crate) fn figures(effort: Effort, only: &str) -> Result<Vec<Figure>> {
    measured(only, with_servers(effort, only))
}

/// Servers stop with this future.
async fn with_servers(effort: Effort, only: &str) -> Result<Vec<Figure>> {
    let wants = |group: &str| is_wanted(group, only);
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
