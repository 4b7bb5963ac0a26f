//! Processor time that a changed link costs, of all processes: ours from the PUT until it redirects elsewhere, beside
//! `nginx -s reload`, which reads all links, until it does there.

use std::time::Duration;

use anyhow::{Result, ensure};
use tidegate::clock::monotonic;

use super::links::{Links, destination, id, path, terms};
use super::nginx::{NGINX, NO_NGINX, Nginx, location};
use super::ours;
use crate::http_client::{Connection, request_by};
use crate::report::{Figure, Goal};
use crate::rounds::Effort;
use crate::{cpu, progress};

const NAME: &str = "edge.change_cpu_vs_nginx_reload";

const PATIENCE: Duration = Duration::from_secs(10);

pub(super) async fn figures(effort: Effort, links: &Links) -> Result<Vec<Figure>> {
    progress(NAME);
    let ours_ms = ours_ms(effort, links).await?;
    let figure = |name: &str| Figure::ours(&format!("{NAME}{name}"), "ms", ours_ms);
    let goal = Goal::AtMost(0.0001);
    if !Nginx::is_installed() {
        return Ok(vec![figure("").without(NO_NGINX, goal)]);
    }
    let (command_ms, reload_ms) = theirs_ms(links)?;
    Ok(vec![
        figure("").beside("nginx -s reload", command_ms + reload_ms).goal(goal),
        // What it would be if the command did not read all links too.
        figure(".signal").beside(NGINX, reload_ms),
    ])
}

/// One change after the other, so that none shares a transaction with another.
async fn ours_ms(effort: Effort, links: &Links) -> Result<f64> {
    let server = ours::start(links, &[]).await?;
    let mut connection = Connection::open(server.address()).await?;
    let changes = effort.pick(500, 3000);
    let mut used = Duration::ZERO;
    for round in 0..=changes {
        // The first one warms up.
        if round == 1 {
            used = cpu::used_by(server.pid())?;
        }
        let number = round * 7919 % links.count;
        let to = format!("https://www.example.com/changed/{round}");
        let path = format!("/v1/rules/{}", id(number));
        connection.ok(&request_by("PUT", server.address(), &path, &terms(number, &to))).await?;
    }
    // When the last one is applied all are.
    let (last, to) = (changes * 7919 % links.count, format!("https://www.example.com/changed/{changes}"));
    let answered = monotonic();
    while location(server.redirects(), last)? != to {
        ensure!(answered.elapsed() < PATIENCE, "{} is not applied within {PATIENCE:?}", path(last));
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let used = cpu::used_by(server.pid())?.saturating_sub(used);
    Ok(used.as_secs_f64() * 1e3 / changes as f64)
}

/// What the command uses, and what the server does.
fn theirs_ms(links: &Links) -> Result<(f64, f64)> {
    let mut nginx = Nginx::start(links)?;
    let map = std::fs::read_to_string(links.map())?;
    let to = "https://www.example.com/landing/changed0";
    std::fs::write(links.map(), map.replacen(&destination(0), to, 1))?;
    let used = nginx.used()?;
    let command = nginx.reload()?;
    nginx.wait_until(0, to)?;
    // Those who served before end when they have nothing left to do.
    let ended = monotonic();
    while nginx.pids()?.len() > 2 {
        ensure!(ended.elapsed() < PATIENCE, "the worker before does not end");
        std::thread::sleep(Duration::from_millis(10));
    }
    let reload = nginx.used()?.saturating_sub(used);
    std::fs::write(links.map(), map)?;
    Ok((command.as_secs_f64() * 1e3, reload.as_secs_f64() * 1e3))
}
