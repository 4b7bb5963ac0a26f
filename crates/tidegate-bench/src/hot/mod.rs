//! The area `hot`: on Redis beside the seed's own sequence of commands, in this
//! process beside heavykeeper's sketch.

mod cleanup;
mod full;
mod lost;
mod memory;
mod mix;
mod random;
mod recorders;
mod redis;
mod seed;
mod trace;
mod views;

use std::path::Path;

use anyhow::Result;

use crate::report::{Figure, is_wanted};
use crate::rounds::Effort;
use crate::until::measured;

const SEED: &str = "the seed's commands";
const POOLED: &str = "the seed's commands, pooled";
const HEAVYKEEPER: &str = "heavykeeper";

/// The figures of the area, or those of the groups that `only` names; edits are those
/// of `trace`, if there is one.
pub(crate) fn figures(effort: Effort, only: &str, trace: Option<&Path>) -> Result<Vec<Figure>> {
    let wants = |group: &str| is_wanted(group, only);
    let mut figures = Vec::new();
    if wants("hot.memory") {
        figures.extend(memory::figures(effort, trace)?);
    }
    if wants("hot.bytes_per_page") {
        figures.extend(full::in_memory(effort)?);
    }
    figures.extend(measured(only, with_servers(effort, wants, trace))?);
    figures.retain(|figure| figure.is_called(only));
    Ok(figures)
}

/// The figures that need servers, which stop with this future.
async fn with_servers(
    effort: Effort,
    wants: impl Fn(&str) -> bool,
    trace: Option<&Path>,
) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    if ["hot.redis.edits", "hot.redis.part"].into_iter().any(&wants) {
        figures.extend(redis::figures(effort, trace).await?);
    }
    if ["hot.redis.views", "hot.bytes_per_counted_page"].into_iter().any(&wants) {
        figures.extend(views::figures(effort).await?);
    }
    if ["hot.redis.op_ms_p99", "hot.bytes_per_page"].into_iter().any(&wants) {
        figures.extend(full::on_redis(effort).await?);
    }
    if wants("hot.cleanup_growth") {
        figures.extend(cleanup::figures(effort).await?);
    }
    if wants("hot.lost_edits") {
        figures.extend(lost::figures(effort, trace).await?);
    }
    Ok(figures)
}
