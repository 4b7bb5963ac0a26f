//! What a session takes on a server, beside the seed's layout.

use anyhow::Result;

use super::ours::{CONFIG, Ours, SMALL_CONFIG, START_MS};
use super::seed::Seed;
use crate::progress;
use crate::redis_server::used_bytes;
use crate::report::{Figure, Goal};
use crate::rounds::Effort;

pub(super) async fn figures(effort: Effort) -> Result<Vec<Figure>> {
    progress("session.bytes_per_session");
    let count = effort.pick(20_000, 100_000);
    let mut figures = Vec::new();
    for (name, config, is_left) in [
        ("session.bytes_per_session", CONFIG, false),
        ("session.bytes_per_session.left", CONFIG, true),
        ("session.bytes_per_session.small", SMALL_CONFIG, false),
        ("session.bytes_per_session.small_left", SMALL_CONFIG, true),
    ] {
        let (ours, mut seed) = (Ours::start(config).await?, Seed::start(config).await?);
        let client = redis::Client::open(ours.server.url())?;
        let mut connection = client.get_multiplexed_async_connection().await?;
        // What a server takes for itself, and what indices take before they have grown.
        ours.fill(0, 1_000, is_left).await?;
        seed.fill(0, 1_000, if is_left { START_MS / 1000 } else { 0 }).await?;
        let before = [used_bytes(&mut connection).await?, used_bytes(&mut seed.connection).await?];
        ours.fill(1_000, count, is_left).await?;
        seed.fill(1_000, count, if is_left { START_MS / 1000 } else { 0 }).await?;
        let after = [used_bytes(&mut connection).await?, used_bytes(&mut seed.connection).await?];
        let each = |at: usize| (after[at] - before[at]) / count as f64;
        ours.gate.shutdown().await;
        figures.push(
            Figure::ours(name, "B", each(0)).beside("the seed's layout", each(1)).goal(Goal::AtMost(1.3)),
        );
    }
    Ok(figures)
}
