//! How long it takes to find where a link leads, in this process: our worker, beside a map of owned texts.
//!
//! One lookup begins when the one before has ended. The map is used as one would by hand for the same requests: behind a lock,
//! since it changes; host and path normalised by the same functions; hosts in the same order (a name, names above it, any);
//! a link that has ended is none, and a click is counted. Beside it, without a goal, the bare map, which is given host and path
//! as it has them and does nothing else.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Result, ensure};
use hashbrown::HashMap;
use parking_lot::RwLock;
use tidegate::clock::{Clock, monotonic};
use tidegate_edge::path::{normalised, normalised_host};
use tidegate_edge::stream::{Snapshots, StreamOptions, Tail, Workers};
use tidegate_edge::worker::{Hydrate, Local, Outcome, Request, Worker, WorkerOptions};

use super::links::{EXPIRES_AT_MS, HOST, Links, destination, path};
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
    let map = RwLock::new(Map::of(count));
    let lookups = effort.pick(100_000, 300_000);
    let (hit, not_found) = tokio::task::block_in_place(|| {
        let ours = |path: &str| {
            let request = Request { host: HOST, path, query: None, is_head: false };
            let answered = worker.try_answer(&request, |outcome, _| match outcome {
                Outcome::Redirect(to) => usize::from(to.location.as_bytes()[10]),
                _ => 0,
            });
            answered.unwrap_or(0)
        };
        let by_hand = |path: &str| {
            let Some((host, path)) = normalised_host(HOST).zip(normalised(path)) else { return 0 };
            let now_ms = begun.elapsed().as_millis() as u64;
            map.read().find(&host, &path).filter(|it| it.expires_at_ms >= now_ms).map_or(0, |it| {
                it.clicks.fetch_add(1, Ordering::Relaxed);
                usize::from(it.to.as_bytes()[10])
            })
        };
        let bare = map.read();
        let bare = |path: &str| bare.find(HOST, path).map_or(0, |it| usize::from(it.to.as_bytes()[10]));
        let measure = |is_known: bool| {
            alternate(
                effort.rounds,
                [
                    &mut || ns_each(lookups, count, is_known, ours),
                    &mut || ns_each(lookups, count, is_known, by_hand),
                    &mut || ns_each(lookups, count, is_known, bare),
                ],
            )
        };
        (measure(true), measure(false))
    });
    let figures = |name: &str, [ours, by_hand, bare]: [f64; 3]| {
        let figure = |name: &str| Figure::ours(name, "ns", ours);
        [
            figure(name).beside("hashbrown, the same by hand", by_hand).goal(Goal::AtMost(1.2)),
            figure(&format!("{name}.bare")).beside("hashbrown alone", bare),
        ]
    };
    let (hit, not_found) = (figures("edge.lookup_hit_ns", hit?), figures("edge.lookup_404_ns", not_found?));
    Ok(hit.into_iter().chain(not_found).collect())
}

/// Nanoseconds of a lookup of a random path; whether it is found is checked.
fn ns_each(lookups: usize, count: usize, is_known: bool, look: impl Fn(&str) -> usize) -> Result<f64> {
    let (mut state, mut last) = (1_u64, 0);
    let mut found = 0;
    let start = monotonic();
    for _ in 0..lookups {
        // From what was found before: as with requests, none begins before the one before has ended.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407 + last);
        let number = ((state >> 32) * count as u64) >> 32;
        let mut text = if is_known { *b"/promo/2026/00000000" } else { *b"/nowhere/16/00000000" };
        let mut rest = number;
        for digit in text[12..].iter_mut().rev() {
            *digit += (rest % 10) as u8;
            rest /= 10;
        }
        let seen = look(black_box(std::str::from_utf8(&text)?));
        found += usize::from(seen != 0);
        last = black_box(seen as u64 >> 32);
    }
    let taken = start.elapsed();
    ensure!(found == if is_known { lookups } else { 0 }, "{found} of {lookups} links were found");
    Ok(taken.as_nanos() as f64 / lookups as f64)
}

type Paths = HashMap<String, Target>;

struct Target {
    to: String,
    expires_at_ms: u64,
    clicks: AtomicU64,
}

/// Rules as one would keep them by hand.
struct Map {
    hosts: HashMap<String, Paths>,
    /// Of a name and all below it.
    wildcards: HashMap<String, Paths>,
    any: Paths,
}

impl Map {
    fn of(count: usize) -> Self {
        let target = |number| {
            let (to, clicks) = (destination(number), AtomicU64::new(0));
            Target { to, expires_at_ms: EXPIRES_AT_MS, clicks }
        };
        let paths = (0..count).map(|number| (path(number), target(number))).collect();
        let hosts = [(HOST.to_owned(), paths)].into_iter().collect();
        Self { hosts, wildcards: HashMap::new(), any: HashMap::new() }
    }

    fn find(&self, host: &str, path: &str) -> Option<&Target> {
        let own = self.hosts.get(host).and_then(|paths| paths.get(path));
        let above = || {
            let mut names = std::iter::successors(Some(host), |it| Some(it.split_once('.')?.1));
            names.find_map(|name| self.wildcards.get(name)?.get(path))
        };
        own.or_else(above).or_else(|| self.any.get(path))
    }
}
