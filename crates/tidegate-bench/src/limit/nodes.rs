//! What several nodes admit together, in any window.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use tidegate::clock::monotonic;
use tokio::task::JoinSet;

/// One of several that share a limit.
pub(super) trait Node: Send + 'static {
    /// Takes a permit; whether there was one.
    fn take(&self) -> impl Future<Output = Result<bool>> + Send;
}

/// How much is asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Demand {
    pub(super) window: Duration,
    pub(super) windows: u32,
    /// Of all nodes together.
    pub(super) per_window: u64,
}

/// What was admitted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Admitted {
    /// In a window, wherever it starts.
    pub(super) most: usize,
    /// In a window of those that follow each other from the start.
    pub(super) least: usize,
}

/// How often a node asks, as many times at once as its share is.
const TICK: Duration = Duration::from_millis(5);

/// Lets all nodes ask as much as `demand` says: what is due in a first window all at
/// once, as after a restart, then evenly.
pub(super) async fn admitted_by<N: Node>(nodes: Vec<N>, demand: Demand) -> Result<Admitted> {
    let per_node = demand.per_window as f64 / nodes.len() as f64;
    let at_once = per_node.ceil() as usize;
    let per_tick = (per_node * TICK.as_secs_f64() / demand.window.as_secs_f64()).ceil() as usize;
    let start = monotonic();
    let end = start + demand.window * demand.windows;
    let mut tasks = JoinSet::new();
    for node in nodes {
        tasks.spawn(async move {
            let (mut calls, mut count) = (Vec::new(), at_once);
            let mut ticks = tokio::time::interval(TICK);
            while monotonic() < end {
                ticks.tick().await;
                for _ in 0..std::mem::replace(&mut count, per_tick) {
                    let asked = monotonic();
                    if node.take().await? {
                        calls.push(Call { asked, answered: monotonic() });
                    }
                }
            }
            anyhow::Ok(calls)
        });
    }
    let mut calls = Vec::new();
    while let Some(ended) = tasks.join_next().await {
        calls.extend(ended.context("a node failed")??);
    }
    Ok(count(&calls, start, end, demand.window))
}

/// A call that was admitted at some moment in between.
#[derive(Debug, Clone, Copy)]
struct Call {
    asked: Instant,
    answered: Instant,
}

/// Counts only what is certainly inside a window for the most, and all that may be
/// for the least: neither is made worse by a task that had to wait for a processor.
fn count(calls: &[Call], start: Instant, end: Instant, window: Duration) -> Admitted {
    let sorted = |mut instants: Vec<Instant>| {
        instants.sort_unstable();
        instants
    };
    let asked = sorted(calls.iter().map(|call| call.asked).collect());
    let answered = sorted(calls.iter().map(|call| call.answered).collect());
    // As long as no call takes a window, what was asked before it was answered before
    // its end.
    let before = |instants: &[Instant], moment| instants.partition_point(|instant| *instant < moment);
    let inside = |from: Instant| before(&answered, from + window).saturating_sub(before(&asked, from));
    let touching = |from: Instant| before(&asked, from + window).saturating_sub(before(&answered, from));
    let most = asked.iter().map(|from| inside(*from)).max().unwrap_or(0);
    let starts = (0..).map(|at| start + window * at).take_while(|from| *from + window <= end);
    Admitted { most, least: starts.map(touching).min().unwrap_or(0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_counted_wherever_it_starts() {
        let (start, ms) = (monotonic(), Duration::from_millis);
        let calls: Vec<Call> = [10, 90, 95, 105, 110, 250]
            .map(|at| Call { asked: start + ms(at), answered: start + ms(at + 1) })
            .into();
        let counted = count(&calls, start, start + ms(300), ms(100));
        assert_eq!((counted.most, counted.least), (4, 1));
    }
}
