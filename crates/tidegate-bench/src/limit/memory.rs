//! Time per take in this process.

use std::hint::black_box;
use std::num::NonZeroU32;
use std::sync::Barrier;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use governor::{DefaultKeyedRateLimiter, Quota};
use tidegate::clock::monotonic;
use tidegate::limit::{Algorithm, InProcess, Sliding, Token};
use tidegate::{Cost, Key};

use super::keys::{keys, mixed};
use super::{GOVERNOR, generous, generous_token, parts};
use crate::progress;
use crate::report::{Figure, Goal};
use crate::rounds::{Effort, alternate, ns_each, time};

/// How many keys "many" are.
const MANY: usize = 100_000;

pub(super) fn figures(effort: Effort) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    progress("limit.memory: one hot key");
    let hot = hot_allow(effort, generous()?)?;
    figures.push(versus("limit.memory.hot_allow_ns", hot).goal(Goal::AtMost(1.0)));
    let ten_an_hour = Sliding::new("10/h".parse()?, Duration::from_secs(3600))?;
    let reject = hot_reject(effort, ten_an_hour)?;
    figures.push(versus("limit.memory.hot_reject_ns", reject).goal(Goal::AtMost(1.0)));
    figures.extend(parts::figures(effort, hot[0])?);
    progress("limit.token: one hot key");
    let hot = hot_allow(effort, generous_token()?)?;
    figures.push(versus("limit.token.hot_ns", hot).goal(Goal::AtMost(1.0)));
    let reject = hot_reject(effort, Token::new("1/h".parse()?, Cost::ONE)?)?;
    figures.push(versus("limit.token.hot_reject_ns", reject));
    progress("limit.memory: 100,000 keys");
    figures.extend(many_keys(effort)?);
    Ok(figures)
}

fn versus(figure: &str, [ours, peer]: [f64; 2]) -> Figure {
    Figure::ours(figure, "ns", ours).beside(GOVERNOR, peer)
}

/// A peer that admits everything: a thousand million a second.
pub(super) fn generous_governor() -> Result<DefaultKeyedRateLimiter<String>> {
    let rate = NonZeroU32::new(1_000_000_000).context("not zero")?;
    Ok(DefaultKeyedRateLimiter::keyed(Quota::per_second(rate)))
}

/// One take of ours, as a caller writes it: the key is checked each time.
#[inline]
pub(super) fn take(limit: &InProcess, key: &str) -> bool {
    let decision = Key::new(key).and_then(|key| limit.take(key, Cost::ONE));
    matches!(black_box(&decision), Ok(decision) if decision.is_admitted())
}

#[inline]
fn check(limit: &DefaultKeyedRateLimiter<String>, key: &String) -> bool {
    black_box(&limit.check_key(key)).is_ok()
}

/// Repeats `work` until the buckets of ours have moved on twice: a key that has
/// seen only one is smaller than one in use, and cheaper.
fn warm_up(mut work: impl FnMut()) -> Result<()> {
    let end = monotonic() + generous()?.coalesce() * 2;
    while monotonic() < end {
        work();
    }
    Ok(())
}

fn hot_allow(effort: Effort, ours: impl Into<Algorithm>) -> Result<[f64; 2]> {
    let operations = effort.pick(500_000, 1_000_000);
    let key = "user_123456".to_owned();
    let (ours, peer) = (InProcess::new(ours), generous_governor()?);
    warm_up(|| _ = (take(&ours, &key), check(&peer, &key)))?;
    let mut wrong = 0_usize;
    let mut wrong_peer = 0_usize;
    let medians = alternate(
        effort.rounds,
        [
            &mut || Ok(ns_each(operations, |_| wrong += usize::from(!take(&ours, black_box(&key))))),
            &mut || Ok(ns_each(operations, |_| wrong_peer += usize::from(!check(&peer, black_box(&key))))),
        ],
    )?;
    ensure!(wrong + wrong_peer == 0, "{wrong} and {wrong_peer} takes of a hot key were refused");
    Ok(medians)
}

fn hot_reject(effort: Effort, ours: impl Into<Algorithm>) -> Result<[f64; 2]> {
    let operations = effort.pick(500_000, 1_000_000);
    let key = "user_123456".to_owned();
    let ours = InProcess::new(ours);
    let one = NonZeroU32::new(1).context("not zero")?;
    let peer = DefaultKeyedRateLimiter::keyed(Quota::per_hour(one));
    while take(&ours, &key) {}
    while check(&peer, &key) {}
    let mut wrong = 0_usize;
    let mut wrong_peer = 0_usize;
    let medians = alternate(
        effort.rounds,
        [
            &mut || Ok(ns_each(operations, |_| wrong += usize::from(take(&ours, black_box(&key))))),
            &mut || Ok(ns_each(operations, |_| wrong_peer += usize::from(check(&peer, black_box(&key))))),
        ],
    )?;
    ensure!(wrong + wrong_peer == 0, "{wrong} and {wrong_peer} takes were admitted beyond the limit");
    Ok(medians)
}

fn many_keys(effort: Effort) -> Result<[Figure; 2]> {
    let (ours, peer) = (InProcess::new(generous()?), generous_governor()?);
    let keys = keys(MANY);
    for key in &keys {
        ensure!(take(&ours, key) && check(&peer, key), "{key} was refused");
    }
    let order = mixed(effort.pick(300_000, 1_000_000), MANY);
    let take_all = |order: &[u32]| {
        order.iter().for_each(|at| {
            black_box(take(&ours, &keys[*at as usize]));
        })
    };
    let check_all = |order: &[u32]| {
        order.iter().for_each(|at| {
            black_box(check(&peer, &keys[*at as usize]));
        })
    };
    warm_up(|| {
        take_all(&order);
        check_all(&order);
    })?;
    let ns_each = |taken: Duration| Ok(taken.as_nanos() as f64 / order.len() as f64);
    let alone = alternate(
        effort.rounds,
        [&mut || ns_each(time(|| take_all(&order))), &mut || ns_each(time(|| check_all(&order)))],
    )?;
    progress("limit.memory: 100,000 keys, two threads");
    let per_second = |taken: Duration| Ok(order.len() as f64 / taken.as_secs_f64());
    let [ops, peer_ops] = alternate(
        effort.rounds,
        [&mut || per_second(by_two(&order, &take_all)), &mut || per_second(by_two(&order, &check_all))],
    )?;
    Ok([
        versus("limit.memory.keys100k_ns", alone).goal(Goal::AtMost(0.8)),
        Figure::ours("limit.memory.threads2_ops", "ops/s", ops)
            .beside(GOVERNOR, peer_ops)
            .goal(Goal::AtLeast(1.0)),
    ])
}

/// How long two threads take, each with one half of `order`.
fn by_two(order: &[u32], work: &(impl Fn(&[u32]) + Sync)) -> Duration {
    let (first, second) = order.split_at(order.len() / 2);
    let start = Barrier::new(2);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            start.wait();
            work(second);
        });
        start.wait();
        let begun = monotonic();
        work(first);
        begun
    })
    .elapsed()
}
