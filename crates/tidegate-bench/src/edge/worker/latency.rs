//! How long valid links take beside other work: 500 changes a second, and a flood of links that there are not.
//!
//! All rates are fixed, and together at most half of the processor. What is compared is the same server in the same run,
//! with and without the other work, in turns.
//!
//! A click takes from when it is sent until the system has its answer. Who clicks sees it later: on a machine that it shares
//! with all that is done here it waits for a processor, which anybody's work of a tenth of one makes some times longer. That is
//! reported too, and what the same flood of another server does to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use tidegate::clock::monotonic;

use super::clicks::{Links as Clicked, Rate, at_rate, mixed, percentile};
use super::links::{Links, id, terms};
use super::ours;
use crate::http_client::{Connection, request_by};
use crate::report::{Figure, Goal};
use crate::rounds::{Effort, Samples};
use crate::server::Server;
use crate::{cpu, peers, progress};

/// Valid links.
const VALID: Rate = Rate { links: Clicked::Known, per_s: 4000, connections: 64 };

/// The flood.
const FLOOD: Rate = Rate { links: Clicked::Unknown, per_s: 8000, connections: 64 };

const CHANGES_PER_S: u32 = 500;

/// Connections that changes are sent by, in turn.
const WRITERS: usize = 8;

/// Milliseconds at most, of 99 in 100.
const SHARE: f64 = 0.99;

pub(super) async fn under_change(effort: Effort, links: &Links) -> Result<Vec<Figure>> {
    progress("edge.p99_under_change");
    let server = ours::start(links, &[]).await?;
    let mut samples = Samples::new();
    for round in 0..=rounds(effort) {
        let alone = valid(&server, links, effort, round).await?;
        let seq = ours::counted(&server, SEQ).await?;
        let changing = Changing::begin(&server, links.count, round).await?;
        let beside = valid(&server, links, effort, round).await?;
        let sent = changing.end().await?;
        let changed = ours::counted(&server, SEQ).await? - seq;
        ensure!(changed == sent as f64, "{sent} changes were sent, and {changed} were any");
        if round > 0 {
            samples.push([beside.served, alone.served, beside.seen, alone.seen]);
        }
    }
    let [served, served_alone, seen, seen_alone] = samples.medians();
    let figure = |name: &str, beside: f64, alone: f64| {
        let figure = Figure::ours(&format!("edge.p99_under_change{name}"), "ms", beside);
        figure.beside("without changes", alone).goal(Goal::AtMost(1.2))
    };
    Ok(vec![figure("", served, served_alone), figure(".seen", seen, seen_alone)])
}

pub(super) async fn under_flood(effort: Effort, links: &Links) -> Result<Vec<Figure>> {
    progress("edge.flood");
    let server = ours::start(links, &[]).await?;
    // The same flood for somebody else: what it costs who shares a machine with those who flood.
    let elsewhere = Server::announced(&mut std::process::Command::new(peers::fixed_redirect()?), 1)?;
    let elsewhere_rate = Rate { links: Clicked::Fixed, ..FLOOD };
    let clicks = seconds(effort) * FLOOD.per_s as usize;
    let fetched = ours::counted(&server, FETCHES).await?;
    let (mut samples, mut sent) = (Samples::new(), 0);
    for round in 0..=rounds(effort) {
        let alone = valid(&server, links, effort, round).await?;
        let (used, begun) = (cpu_used(&server)?, monotonic());
        let flood = tokio::spawn(at_rate(server.redirects(), FLOOD, mixed(clicks, 100_000_000, round)));
        let beside = valid(&server, links, effort, round).await?;
        flood.await.context("the flood has failed")??;
        let used = cpu_used(&server)?.saturating_sub(used).as_secs_f64();
        let processors = std::thread::available_parallelism()?.get() as f64;
        let share = used / begun.elapsed().as_secs_f64() / processors;
        sent += clicks;
        let order = mixed(clicks, links.count, round);
        let flood = tokio::spawn(at_rate(elsewhere.address(), elsewhere_rate, order));
        let beside_elsewhere = valid(&server, links, effort, round).await?;
        flood.await.context("the flood of somebody else has failed")??;
        if round > 0 {
            let times = [beside.served, alone.served, beside.seen, alone.seen, beside_elsewhere.seen];
            let [served, served_alone, seen, seen_alone, seen_elsewhere] = times;
            samples.push([served, served_alone, seen, seen_alone, seen_elsewhere, share]);
        }
    }
    let fetched = ours::counted(&server, FETCHES).await? - fetched;
    let [served, served_alone, seen, seen_alone, seen_elsewhere, share] = samples.medians();
    let figure = |name: &str, beside: f64| Figure::ours(&format!("edge.flood_p99{name}"), "ms", beside);
    let (alone, goal) = ("without the flood", Goal::AtMost(1.2));
    Ok(vec![
        Figure::ours("edge.flood_to_database", "%", fetched * 100.0 / sent as f64).goal(Goal::AtMost(1.0)),
        figure("", served).beside(alone, served_alone).goal(goal),
        figure(".seen", seen).beside(alone, seen_alone).goal(goal),
        figure(".seen.own", seen).beside("flood of another server", seen_elsewhere),
        Figure::ours("edge.flood_processor", "%", share * 100.0).goal(Goal::AtMost(50.0)),
    ])
}

/// Questions to the database, as the server counts them.
const FETCHES: &str = "tidegate_edge_fetches_total";

/// The last change, as the server says it.
const SEQ: &str = "tidegate_rules_seq";

/// How much fewer changes than planned there may be for their rate to be called that.
const FEWER: f64 = 0.95;

/// Of the server and of those who click.
fn cpu_used(server: &Server) -> Result<Duration> {
    Ok(cpu::used_by(server.pid())? + cpu::used_by(std::process::id())?)
}

fn rounds(effort: Effort) -> usize {
    effort.pick(5, 15)
}

/// Seconds of a turn.
fn seconds(effort: Effort) -> usize {
    effort.pick(1, 3)
}

/// The slow end of valid links.
struct Slowest {
    served: f64,
    seen: f64,
}

async fn valid(server: &Server, links: &Links, effort: Effort, round: usize) -> Result<Slowest> {
    let order = mixed(seconds(effort) * VALID.per_s as usize, links.count, round);
    let took = at_rate(server.redirects(), VALID, order).await?;
    Ok(Slowest { served: percentile(took.served, SHARE), seen: percentile(took.seen, SHARE) })
}

/// Somebody who changes links, at a rate, until told otherwise.
struct Changing {
    is_over: Arc<AtomicBool>,
    begun: Instant,
    writers: Vec<tokio::task::JoinHandle<Result<usize>>>,
}

impl Changing {
    async fn begin(server: &Server, count: usize, round: usize) -> Result<Self> {
        let is_over = Arc::new(AtomicBool::new(false));
        let mut writers = Vec::new();
        let (address, begun) = (server.address(), monotonic());
        for writer in 0..WRITERS {
            let (mut connection, is_over) = (Connection::open(address).await?, Arc::clone(&is_over));
            writers.push(tokio::spawn(async move {
                let mut sent = 0;
                for turn in (writer..).step_by(WRITERS) {
                    let due = begun + Duration::from_secs(1) * turn as u32 / CHANGES_PER_S;
                    tokio::time::sleep_until(due.into()).await;
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                    // They lead where they did: what is clicked is checked. The note makes it a change, in each round.
                    let number = turn * 7919 % count;
                    let terms = terms(number, &super::links::destination(number));
                    let terms = terms.replacen('{', &format!("{{\"note\":\"{round} {turn}\","), 1);
                    let path = format!("/v1/rules/{}", id(number));
                    connection.ok(&request_by("PUT", address, &path, &terms)).await?;
                    sent += 1;
                }
                Ok(sent)
            }));
        }
        Ok(Self { is_over, begun, writers })
    }

    /// How many changes were made.
    async fn end(self) -> Result<usize> {
        let planned = self.begun.elapsed().as_secs_f64() * f64::from(CHANGES_PER_S);
        self.is_over.store(true, Ordering::Relaxed);
        let mut sent = 0;
        for writer in self.writers {
            sent += writer.await.context("a writer has failed")??;
        }
        ensure!(sent as f64 >= planned * FEWER, "{sent} changes were made, and were to be {planned:.0}");
        Ok(sent)
    }
}
