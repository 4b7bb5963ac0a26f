//! How long a change takes from one server to those who follow another.
//!
//! Two processes of our server share a PostgreSQL. Changes are sent to the first at a steady rate, over HTTP; ten follow the
//! second over HTTP, read each event and apply it to their rules. A change has arrived when the last of them has applied
//! it. When exactly it was committed is known to nobody outside: it is counted from when it was sent, which is before,
//! with all that writing it takes. Beside it stands what it is from when the answer was there, which is after.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, ensure};
use tidegate::clock::monotonic;
use tidegate_edge::stream::Mark;
use tidegate_edge::truth::Position;

use super::rules::{draft, filled};
use super::stream::Following;
use crate::http_client::{Connection, request_by};
use crate::postgres_server::PostgresServer;
use crate::report::{Figure, Goal};
use crate::rounds::Effort;
use crate::server::Server;
use crate::{peers, progress};

/// Changes per second.
const RATE: u32 = 500;

const FOLLOWERS: usize = 10;

/// Connections that changes are sent by, in turn.
const WRITERS: usize = 32;

/// Rules that are changed, again and again.
const RULES: usize = 1000;

/// How much longer than planned sending may take for the rate to be called that.
const LATE: f64 = 1.05;

/// When each change was sent and answered, in nanoseconds from a start.
struct Times {
    start: Instant,
    sent: Vec<AtomicU64>,
    answered: Vec<AtomicU64>,
}

impl Times {
    fn new(count: usize) -> Self {
        let none = || (0..count).map(|_| AtomicU64::new(0)).collect();
        Self { start: monotonic(), sent: none(), answered: none() }
    }

    fn now_ns(&self) -> u64 {
        monotonic().saturating_duration_since(self.start).as_nanos() as u64
    }
}

/// Milliseconds, at the median and at the slow end.
pub(super) async fn figures(effort: Effort) -> Result<Vec<Figure>> {
    progress("edge.propagation_ms");
    let binary = peers::tidegate()?;
    let database = PostgresServer::start()?;
    let url = database.database("rules").await?;
    // The last one is another.
    drop(filled(&url, RULES + 1).await?);
    let server = || Server::tidegate(&binary, &[("rules.url", &url)]);
    let (first, second) = (server()?, server()?);
    let mark = position(&second).await?;
    let count = effort.pick(4, 30) * RATE as usize;
    let times = Arc::new(Times::new(count));
    let mut followers = Vec::new();
    for _ in 0..FOLLOWERS {
        let following = Following::begin(second.address(), mark.clone()).await?;
        followers.push(tokio::spawn(follow(following, Arc::clone(&times))));
    }
    let begun_ns = times.now_ns();
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| tokio::spawn(write(first.address(), writer, begun_ns, Arc::clone(&times))))
        .collect();
    for writer in writers {
        writer.await??;
    }
    let taken_s = Duration::from_nanos(times.now_ns() - begun_ns).as_secs_f64();
    let planned_s = count as f64 / f64::from(RATE);
    ensure!(
        taken_s < planned_s * LATE,
        "{count} changes took {taken_s:.1} s, and were to take {planned_s:.1}"
    );
    let mut arrived = vec![0; count];
    for follower in followers {
        for (last, at) in arrived.iter_mut().zip(follower.await??) {
            *last = at.max(*last);
        }
    }
    let since = |from: &[AtomicU64]| {
        let pairs = arrived.iter().zip(from);
        let ms = pairs.map(|(at, from)| at.saturating_sub(from.load(Ordering::Relaxed)) as f64 / 1e6);
        let mut ms: Vec<f64> = ms.collect();
        ms.sort_by(f64::total_cmp);
        move |share: f64| ms[((ms.len() - 1) as f64 * share) as usize]
    };
    let (sent, answered) = (since(&times.sent), since(&times.answered));
    let figure = |name: &str, ms: f64| Figure::ours(&format!("edge.propagation_ms_{name}"), "ms", ms);
    Ok(vec![
        figure("p99", sent(0.99)).goal(Goal::AtMost(20.0)),
        figure("p99.from_answer", answered(0.99)),
        figure("median", sent(0.5)),
        figure("median.from_answer", answered(0.5)),
    ])
}

/// Where a server's database stands.
async fn position(server: &Server) -> Result<Mark> {
    let mut connection = Connection::open(server.address()).await?;
    let answer = connection.ok(&request_by("GET", server.address(), "/v1/rules/position", "")).await?;
    let position: Position = serde_json::from_slice(answer)?;
    Ok(Mark::from(&position))
}

/// Sends one's share of the changes, each at its time, whatever became of the one before.
async fn write(address: std::net::SocketAddr, writer: usize, begun_ns: u64, times: Arc<Times>) -> Result<()> {
    let mut connection = Connection::open(address).await?;
    let begun = times.start + Duration::from_nanos(begun_ns);
    for number in (writer..times.sent.len()).step_by(WRITERS) {
        let mut draft = draft(number % RULES, false);
        draft.terms.destination = format!("{DESTINATION}{number}");
        let path = format!("/v1/rules/{}", draft.id.unwrap_or_default());
        let request = request_by("PUT", address, &path, &serde_json::to_string(&draft.terms)?);
        tokio::time::sleep_until((begun + Duration::from_secs(1) * number as u32 / RATE).into()).await;
        times.sent[number].store(times.now_ns(), Ordering::Relaxed);
        connection.ok(&request).await?;
        times.answered[number].store(times.now_ns(), Ordering::Relaxed);
    }
    Ok(())
}

/// How the destination of a change begins; its number stands behind it.
const DESTINATION: &str = "https://example.com/change/";

/// When each change was applied.
async fn follow(mut following: Following, times: Arc<Times>) -> Result<Vec<u64>> {
    let mut applied = vec![0; times.sent.len()];
    for _ in 0..applied.len() {
        let rule = following.next().await?;
        let (_, behind) = rule.split_once(DESTINATION).context("a change of somebody else")?;
        let (number, _) = behind.split_once('"').context("a destination does not end")?;
        let number: usize = number.parse()?;
        let at = applied.get_mut(number).ok_or_else(|| anyhow!("there is no change {number}"))?;
        ensure!(*at == 0, "change {number} has come twice");
        *at = times.now_ns();
    }
    Ok(applied)
}
