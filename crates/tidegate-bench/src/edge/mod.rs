//! The area `edge`: rules in a file, beside what one would write by hand on the same database.

mod list;
mod rules;
mod snapshot;
mod writes;

use anyhow::Result;

use crate::report::{Figure, is_wanted};
use crate::rounds::Effort;
use crate::until::measured;

/// The figures of the area, or those of the groups that `only` names.
pub(crate) fn figures(effort: Effort, only: &str) -> Result<Vec<Figure>> {
    measured(only, in_turn(effort, only))
}

async fn in_turn(effort: Effort, only: &str) -> Result<Vec<Figure>> {
    let wants = |group: &str| is_wanted(group, only);
    let mut figures = Vec::new();
    if wants("edge.writes_per_s") {
        figures.extend(writes::figures(effort).await?);
    }
    if wants("edge.list_page_growth") {
        figures.extend(list::figures(effort).await?);
    }
    if wants("edge.snapshot_rules_per_s") {
        figures.extend(snapshot::figures(effort).await?);
    }
    Ok(figures)
}
