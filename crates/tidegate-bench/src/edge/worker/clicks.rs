//! Somebody who clicks links, over connections that are kept: as cheap as can be, and the same whoever is asked.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use tidegate::clock::monotonic;
use tokio::task::JoinSet;

use super::links::{HOST, destination, path};
use super::pace::Pace;
use crate::http_client::{Connection, find};
use crate::{arrival, cpu};

/// Connections, each with one request at a time.
const CONNECTIONS: usize = 32;

/// Clicks until the system has begun to note when answers come, at most.
const TRIES: usize = 1000;

/// How much longer than planned clicking may take for its rate to be called that.
const LATE: f64 = 1.05;

/// Which link comes when, and what comes of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Links {
    /// One that leads where it should.
    Known,
    /// One that leads to the same place whichever it is.
    Fixed,
    /// One that there is not.
    Unknown,
}

impl Links {
    fn request(self, number: usize) -> Vec<u8> {
        let path = path(number);
        let path = if self == Self::Unknown { path.replace("promo", "none!") } else { path };
        format!("GET {path} HTTP/1.1\r\nhost: {HOST}\r\n\r\n").into_bytes()
    }

    async fn click(self, connection: &mut Connection, number: usize) -> Result<()> {
        let (status, head) = connection.status(&self.request(number)).await?;
        let is_right = match self {
            Self::Unknown => status == 404,
            Self::Fixed => status == 302,
            Self::Known => status == 302 && find(head, destination(number).as_bytes()).is_some(),
        };
        ensure!(is_right, "link {number} was answered {:?}", String::from_utf8_lossy(head));
        Ok(())
    }
}

/// Numbers below `count`, in no order, the same each time.
pub(super) fn mixed(clicks: usize, count: usize, seed: usize) -> Arc<[u32]> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(seed as u64 * 2 + 1);
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (((state >> 32) * count as u64) >> 32) as u32
    };
    (0..clicks).map(|_| next()).collect()
}

/// Runs on a thread of its own: who clicks shall not share one with those who wait.
async fn alone<T: Send + 'static>(work: impl Future<Output = Result<T>> + Send + 'static) -> Result<T> {
    let alone = move || tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work);
    tokio::task::spawn_blocking(alone).await.context("a client has failed")?
}

async fn connect(address: SocketAddr, connections: usize, links: Links) -> Result<Vec<Connection>> {
    let mut open = Vec::new();
    for _ in 0..connections {
        let mut connection = Connection::open(address).await?;
        // A connection is not part of a click.
        links.click(&mut connection, 0).await?;
        open.push(connection);
    }
    Ok(open)
}

/// Clicks links in an order, each connection as fast as it is answered: microseconds of processor time of these processes
/// per click.
pub(super) async fn cpu_us_each(
    address: SocketAddr,
    pids: Vec<u32>,
    links: Links,
    order: Arc<[u32]>,
) -> Result<f64> {
    alone(async move {
        let used = || pids.iter().map(|pid| cpu::used_by(*pid)).sum::<Result<Duration>>();
        let open = connect(address, CONNECTIONS, links).await?;
        let before = used()?;
        let mut tasks = JoinSet::new();
        for (task, mut connection) in open.into_iter().enumerate() {
            let order = Arc::clone(&order);
            tasks.spawn(async move {
                for number in order.iter().skip(task).step_by(CONNECTIONS) {
                    links.click(&mut connection, *number as usize).await?;
                }
                anyhow::Ok(connection)
            });
        }
        // Kept until all is counted: closing one is not part of a click either.
        let ended: Result<Vec<_>> = tasks.join_all().await.into_iter().collect();
        let used = used()?.saturating_sub(before);
        drop(ended?);
        Ok(used.as_secs_f64() * 1e6 / order.len() as f64)
    })
    .await
}

/// So many clicks a second, whatever becomes of them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rate {
    pub(super) links: Links,
    pub(super) per_s: u32,
    pub(super) connections: usize,
}

/// Milliseconds that clicks took.
#[derive(Debug, Default)]
pub(super) struct Took {
    /// Until the answer was there: what the server and the system took.
    pub(super) served: Vec<f64>,
    /// Until who had clicked came to read it: the same, and what it waited for a processor.
    pub(super) seen: Vec<f64>,
}

/// Clicks links at a rate and at even distances, over connections of which each has time enough: what each click took.
pub(super) async fn at_rate(address: SocketAddr, rate: Rate, order: Arc<[u32]>) -> Result<Took> {
    let Rate { links, per_s, connections } = rate;
    alone(async move {
        let mut idle = VecDeque::from(connect(address, connections, links).await?);
        for connection in &mut idle {
            connection.note_arrivals()?;
            for _ in 0..TRIES {
                links.click(connection, 0).await?;
                if connection.arrived().is_ok() {
                    break;
                }
            }
        }
        let (pace, begun) = (Pace::new(per_s)?, monotonic());
        let (mut due, mut took) = (0, Took::default());
        let mut under_way = JoinSet::new();
        let mut numbers = order.iter().copied();
        while took.seen.len() < order.len() {
            while due > 0
                && let Some(mut connection) = idle.pop_front()
            {
                due -= 1;
                let Some(number) = numbers.next() else { break };
                under_way.spawn(async move {
                    let (sent, sent_at) = (monotonic(), arrival::now());
                    links.click(&mut connection, number as usize).await?;
                    let seen = sent.elapsed();
                    let served = connection.arrived()?.saturating_sub(sent_at);
                    anyhow::Ok((connection, served, seen))
                });
            }
            tokio::select! {
                ticks = pace.ticks() => due += ticks?,
                Some(ended) = under_way.join_next() => {
                    let (connection, served, seen) = ended.context("a click has failed")??;
                    idle.push_back(connection);
                    took.served.push(served.as_secs_f64() * 1e3);
                    took.seen.push(seen.as_secs_f64() * 1e3);
                }
            }
        }
        let (took_s, planned_s) = (begun.elapsed().as_secs_f64(), order.len() as f64 / f64::from(per_s));
        if took_s > planned_s * LATE + 0.05 {
            bail!("{} clicks took {took_s:.2} s, and were to take {planned_s:.2}", order.len());
        }
        Ok(took)
    })
    .await
}

/// What so many of these are no longer than.
pub(super) fn percentile(mut ms: Vec<f64>, share: f64) -> f64 {
    ms.sort_by(f64::total_cmp);
    ms[((ms.len() - 1) as f64 * share) as usize]
}
