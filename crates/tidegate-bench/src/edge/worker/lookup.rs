//! How long it takes to find where a link leads, in this process: our worker with all that it does for a request, beside a map of
//! owned texts that does nothing else.
//!
//! Ours normalises host and path, looks at the time, and counts the click. The map is given host and path as it has them;
//! it looks at hosts in the same order: a name, names above it, any.

use std::hint::black_box;

use anyhow::{Result, ensure};
use hashbrown::HashMap;
use tidegate::clock::{Clock, monotonic};
use tidegate_edge::stream::{Snapshots, StreamOptions, Tail, Workers};
use tidegate_edge::worker::{Hydrate, Local, Outcome, Request, Worker, WorkerOptions};

use super::links::{HOST, Links, destination, path};
use crate::progress;
use crate::report::{Figure, Goal};
use crate::rounds::{Effort, alternate};

pub(super) async fn figures(effort: Effort, links: &Links) -> Result<Vec<Figure>> {
    progress("edge.lookup");
    let truth = links.open().await?;
    let local = Local {
        tail: Tail::start(&truth, StreamOptions::default()),
        snapshots: Snapshots::of(&truth),
        workers: Workers::default(),
        clock: Clock::default(),
        truth,
    };
    let mut options = WorkerOptions::new("bench");
    options.hydrate = Hydrate::Bodies;
    let worker = Worker::start(local, options);
    let begun = monotonic();
    while worker.report().items < links.count as u64 {
        ensure!(begun.elapsed().as_secs() < 120, "not all links are in memory");
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    let count = links.count;
    let map = Map::of(count);
    let lookups = effort.pick(100_000, 1_000_000);
    let (hit, not_found) = tokio::task::block_in_place(|| {
        let ours = |path: &str| {
            let request = Request { host: HOST, path, query: None, is_head: false };
            let answered = worker.try_answer(&request, |outcome, _| match outcome {
                Outcome::Redirect(to) => usize::from(to.location.as_bytes()[10]),
                _ => 0,
            });
            answered.unwrap_or(0)
        };
        let theirs = |path: &str| map.find(HOST, path).map_or(0, |to| usize::from(to.as_bytes()[10]));
        let measure = |is_known: bool| {
            alternate(
                effort.rounds,
                [&mut || ns_each(lookups, count, is_known, ours), &mut || {
                    ns_each(lookups, count, is_known, theirs)
                }],
            )
        };
        (measure(true), measure(false))
    });
    let figure = |name: &str, [ours, theirs]: [f64; 2]| {
        Figure::ours(name, "ns", ours).beside("hashbrown of owned texts", theirs).goal(Goal::AtMost(1.2))
    };
    let figures = vec![figure("edge.lookup_hit_ns", hit?), figure("edge.lookup_404_ns", not_found?)];
    worker.stop().await;
    Ok(figures)
}

/// Nanoseconds of a lookup of a random path; whether it is found is checked.
fn ns_each(lookups: usize, count: usize, is_known: bool, look: impl Fn(&str) -> usize) -> Result<f64> {
    let mut state = 1_u64;
    let mut found = 0;
    let start = monotonic();
    for _ in 0..lookups {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let number = ((state >> 32) * count as u64) >> 32;
        let mut text = if is_known { *b"/promo/2026/00000000" } else { *b"/nowhere/16/00000000" };
        let mut rest = number;
        for digit in text[12..].iter_mut().rev() {
            *digit += (rest % 10) as u8;
            rest /= 10;
        }
        found += usize::from(look(black_box(std::str::from_utf8(&text)?)) != 0);
    }
    let taken = start.elapsed();
    ensure!(found == if is_known { lookups } else { 0 }, "{found} of {lookups} links were found");
    Ok(taken.as_nanos() as f64 / lookups as f64)
}

type Paths = HashMap<String, String>;

/// Rules as one would keep them by hand.
struct Map {
    hosts: HashMap<String, Paths>,
    /// Of a name and all below it.
    wildcards: HashMap<String, Paths>,
    any: Paths,
}

impl Map {
    fn of(count: usize) -> Self {
        let paths = (0..count).map(|number| (path(number), destination(number))).collect();
        let hosts = [(HOST.to_owned(), paths)].into_iter().collect();
        Self { hosts, wildcards: HashMap::new(), any: HashMap::new() }
    }

    fn find(&self, host: &str, path: &str) -> Option<&str> {
        let own = self.hosts.get(host).and_then(|paths| paths.get(path));
        let above = || {
            let mut names = std::iter::successors(Some(host), |it| Some(it.split_once('.')?.1));
            names.find_map(|name| self.wildcards.get(name)?.get(path))
        };
        own.or_else(above).or_else(|| self.any.get(path)).map(String::as_str)
    }
}
