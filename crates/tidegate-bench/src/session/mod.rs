//! The area `session`: what was left behind, found and reaped beside the commands of the
//! seed's document, on the same kind of server.

mod bytes;
mod list;
mod ours;
mod reap;
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
    if wants("session.list") {
        figures.extend(list::figures(effort).await?);
    }
    if wants("session.reap_vs_one_by_one") {
        figures.extend(reap::figures(effort).await?);
    }
    if wants("session.bytes_per_session") {
        figures.extend(bytes::figures(effort).await?);
    }
    Ok(figures)
}
