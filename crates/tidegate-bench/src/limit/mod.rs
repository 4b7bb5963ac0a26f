//! The area `limit`: in this process beside governor, on Redis beside trypema and
//! a bare script, over HTTP beside throttlecrab-server, and leases beside trypema's
//! hybrid.

mod gcra;
mod growth;
mod http;
mod keys;
mod lease;
mod memory;
mod nodes;
mod parts;
mod redis;
mod size;
mod takers;

use std::time::Duration;

use anyhow::Result;
use tidegate::limit::{Sliding, Token};
use tidegate::{Cost, Rate};

use crate::progress;
use crate::redis_server::RedisServer;
use crate::report::{Figure, is_wanted};
use crate::rounds::Effort;
use crate::until::measured;

const GOVERNOR: &str = "governor";
const TRYPEMA: &str = "trypema";
const TRYPEMA_HYBRID: &str = "trypema hybrid";

/// Of every suppressed limit: far enough that some pass and some do not.
const HARD_LIMIT_FACTOR: f64 = 100.0;

/// The figures of the area, or those of the groups that `only` names.
pub(crate) fn figures(effort: Effort, only: &str) -> Result<Vec<Figure>> {
    let wants = |group: &str| is_wanted(group, only);
    let mut figures = Vec::new();
    if wants("limit.memory") || wants("limit.token") {
        figures.extend(memory::figures(effort)?);
    }
    if wants("limit.memory") {
        figures.extend(size::figures(effort)?);
    }
    figures.extend(measured(only, with_servers(effort, wants))?);
    figures.retain(|figure| figure.is_called(only));
    Ok(figures)
}

/// The figures that need servers, which stop with this future.
async fn with_servers(effort: Effort, wants: impl Fn(&str) -> bool) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    if ["limit.redis", "limit.suppressed", "limit.token", "limit.calendar"].into_iter().any(&wants) {
        figures.extend(redis::figures(&RedisServer::start()?, effort).await?);
    }
    if wants("limit.redis") {
        figures.extend(growth::figures(&RedisServer::start()?, effort).await?);
    }
    if wants("limit.lease") {
        figures.extend(lease::figures(effort).await?);
    }
    if wants("limit.http") {
        // It takes a peer that has to be built, from the network: not everyone can.
        match http::figures(effort).await {
            Ok(measured) => figures.extend(measured),
            Err(error) => progress(&format!("limit.http is left out: {error:#}")),
        }
    }
    Ok(figures)
}

/// Some 250 thousand million permits a minute: everything is admitted.
fn generous() -> Result<Sliding> {
    Ok(Sliding::new(Rate::per_second(u32::MAX), Duration::from_secs(60))?)
}

/// A thousand million permits a second and as many at once, like the peer's.
fn generous_token() -> Result<Token> {
    Ok(Token::new(Rate::per_second(1_000_000_000), Cost::new(1_000_000_000)?)?)
}
