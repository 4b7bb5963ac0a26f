//! What all links take in memory, those of ours with the database's part of the process.

use anyhow::{Result, ensure};
use tokio::time::{Duration, sleep};

use super::links::Links;
use super::nginx::{NGINX, NO_NGINX, Nginx};
use super::ours;
use crate::report::{Figure, Goal};
use crate::rounds::Effort;
use crate::server::Server;
use crate::{cpu, http_client, progress};

const NAME: &str = "edge.rss_1m";

/// How long processes are given to hand back what they needed to start.
const SETTLED: Duration = Duration::from_secs(15);

pub(super) async fn figures(effort: Effort, links: &Links) -> Result<Vec<Figure>> {
    progress(NAME);
    let nginx = Nginx::is_installed().then(|| Nginx::start(links)).transpose()?;
    let ours = ours::start(links, &[]).await?;
    ensure!(resident(&ours).await? == links.count, "not all links are in memory");
    sleep(effort.pick(SETTLED / 3, SETTLED)).await;
    const MB: f64 = 1e6;
    let figure = Figure::ours(NAME, "MB", cpu::pss_bytes(ours.pid())? / MB);
    let goal = Goal::AtMost(0.5);
    Ok(vec![match nginx {
        None => figure.without(NO_NGINX, goal),
        Some(nginx) => {
            let theirs: f64 = nginx.pids()?.into_iter().map(cpu::pss_bytes).sum::<Result<_>>()?;
            figure.beside(NGINX, theirs / MB).goal(goal)
        }
    }])
}

/// Rules in memory.
async fn resident(server: &Server) -> Result<usize> {
    let mut connection = http_client::Connection::open(server.address()).await?;
    let request = http_client::request_by("GET", server.address(), "/v1/edge/cache", "");
    let report: serde_json::Value = serde_json::from_slice(connection.ok(&request).await?)?;
    Ok(report["items"].as_u64().unwrap_or_default() as usize)
}
