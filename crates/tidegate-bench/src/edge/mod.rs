//! The area `edge`: rules in a file and on PostgreSQL, beside what one would write by hand on the same database, and
//! from one server to those who follow another; and the worker that redirects by them.

mod by_hand;
mod by_hand_postgres;
mod import;
mod list;
mod propagation;
mod rules;
mod snapshot;
mod stream;
mod worker;
mod writes;

use anyhow::Result;

pub(crate) use self::import::import;
use crate::report::{Figure, is_wanted};
use crate::rounds::Effort;
use crate::until::measured;

/// The figures of the area, or those of the groups that `only` names.
pub(crate) fn figures(effort: Effort, only: &str) -> Result<Vec<Figure>> {
    measured(only, in_turn(effort, only))
}

/// Servers stop with this future.
async fn in_turn(effort: Effort, only: &str) -> Result<Vec<Figure>> {
    let wants = |group: &str| is_wanted(group, only);
    let mut figures = Vec::new();
    if wants("edge.import") {
        figures.extend(import::figures(effort)?);
    }
    if wants("edge.writes_per_s") {
        figures.extend(writes::figures(effort, wants).await?);
    }
    if wants("edge.propagation_ms") {
        figures.extend(propagation::figures(effort).await?);
    }
    if wants("edge.list_page_growth") {
        figures.extend(list::figures(effort, wants).await?);
    }
    if wants("edge.snapshot_rules_per_s") {
        figures.extend(snapshot::figures(effort, wants).await?);
    }
    figures.extend(worker::figures(effort, wants).await?);
    Ok(figures)
}
