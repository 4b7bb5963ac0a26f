//! What the server needs for an item that is processed.

use anyhow::Result;

use super::ours::Ours;
use super::seed::Seed;
use crate::progress;
use crate::redis_server::used_bytes;
use crate::report::Figure;
use crate::rounds::Effort;

pub(super) async fn figures(effort: Effort) -> Result<Vec<Figure>> {
    progress("run.bytes_per_item");
    let count = effort.pick(50_000, 200_000);
    let (ours, mut seed) = (Ours::start().await?, Seed::start().await?);
    let client = redis::Client::open(ours.server.url())?;
    let mut connection = client.get_multiplexed_async_connection().await?;
    ours.run("run").await?;
    // The scripts are there, and the run.
    ours.append("run", count, 1).await?;
    let before = used_bytes(&mut connection).await?;
    ours.fill("run", count).await?;
    let ours_bytes = (used_bytes(&mut connection).await? - before) / count as f64;
    seed.fill("run", 1).await?;
    let before = used_bytes(&mut seed.connection).await?;
    seed.fill("run", count).await?;
    let seed_bytes = (used_bytes(&mut seed.connection).await? - before) / count as f64;
    ours.gate.shutdown().await;
    Ok(vec![Figure::ours("run.bytes_per_item", "B", ours_bytes).beside("the seed", seed_bytes)])
}
