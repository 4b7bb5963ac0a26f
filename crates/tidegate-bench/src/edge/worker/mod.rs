//! What answers from memory: a million links, beside nginx with the same, beside hyper with none, and beside what one would
//! write by hand.

mod change;
mod clicks;
mod cold_start;
mod cpu;
mod hit_rate;
mod latency;
mod links;
mod lookup;
mod lru;
mod memory;
mod nginx;
mod ours;
mod pace;

use anyhow::Result;

use self::links::Links;
use crate::report::Figure;
use crate::rounds::Effort;

/// The figures that need all links.
const WITH_LINKS: [&str; 7] = [
    "edge.lookup",
    "edge.cold_start_ms",
    "edge.rss_1m",
    "edge.cpu_per_redirect",
    "edge.p99_under_change",
    "edge.flood",
    "edge.change_cpu_vs_nginx_reload",
];

pub(super) async fn figures(effort: Effort, wants: impl Fn(&str) -> bool) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    if wants("edge.hit_rate_vs_lru") {
        figures.extend(hit_rate::figures(effort)?);
    }
    if !WITH_LINKS.iter().any(|name| wants(name)) {
        return Ok(figures);
    }
    let links = Links::make(effort.pick(100_000, 1_000_000)).await?;
    for name in WITH_LINKS.into_iter().filter(|name| wants(name)) {
        figures.extend(match name {
            "edge.lookup" => lookup::figures(effort, &links).await?,
            "edge.cold_start_ms" => cold_start::figures(effort, &links).await?,
            "edge.rss_1m" => memory::figures(effort, &links).await?,
            "edge.cpu_per_redirect" => cpu::figures(effort, &links).await?,
            "edge.p99_under_change" => latency::under_change(effort, &links).await?,
            "edge.flood" => latency::under_flood(effort, &links).await?,
            _ => change::figures(effort, &links).await?,
        });
    }
    Ok(figures)
}
