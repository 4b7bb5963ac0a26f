//! What a take in this process is made of.
//!
//! The parts are timed one by one, each in a loop of its own, so they overlap
//! less than they do within a take: their sum is an upper bound.

use std::hash::{BuildHasher as _, RandomState};
use std::hint::black_box;

use anyhow::Result;
use governor::clock::Clock as _;
use parking_lot::Mutex;
use tidegate::clock::{Clock, ManualClock, Timestamp};
use tidegate::limit::{InProcess, LimitOptions};

use super::memory::take;
use super::{GOVERNOR, generous};
use crate::report::Figure;
use crate::rounds::{Effort, alternate, ns_each};

/// The parts of a take that takes `hot_ns`.
pub(super) fn figures(effort: Effort, hot_ns: f64) -> Result<Vec<Figure>> {
    let operations = effort.pick(500_000, 1_000_000);
    let key = "user_123456".to_owned();
    let (clock, peer_clock) = (Clock::system(), governor::clock::DefaultClock::default());
    let (fold, sip) = (foldhash::fast::RandomState::default(), RandomState::new());
    let lock = Mutex::new(0_u64);
    let [clock_ns, peer_clock_ns, hash_ns, peer_hash_ns, lock_ns] = alternate(
        effort.rounds,
        [
            &mut || Ok(ns_each(operations, |_| _ = black_box(black_box(&clock).now()))),
            &mut || Ok(ns_each(operations, |_| _ = black_box(black_box(&peer_clock).now()))),
            &mut || Ok(ns_each(operations, |_| _ = black_box(fold.hash_one(black_box(&key))))),
            &mut || Ok(ns_each(operations, |_| _ = black_box(sip.hash_one(black_box(&key))))),
            &mut || Ok(ns_each(operations, |_| *black_box(&lock).lock() += 1)),
        ],
    )?;
    let [full_ns, one_ns] = full_window(effort, operations, &key)?;
    let rest_ns = hot_ns - clock_ns - hash_ns - lock_ns;
    Ok(vec![
        Figure::ours("limit.memory.part.clock_ns", "ns", clock_ns).beside(GOVERNOR, peer_clock_ns),
        Figure::ours("limit.memory.part.hash_ns", "ns", hash_ns).beside(GOVERNOR, peer_hash_ns),
        Figure::ours("limit.memory.part.lock_ns", "ns", lock_ns),
        Figure::ours("limit.memory.part.rest_ns", "ns", rest_ns),
        Figure::ours("limit.memory.full_window_ns", "ns", full_ns).beside("one bucket", one_ns),
    ])
}

/// A take of a key with a full window of buckets, and of one with a single
/// bucket, both on a clock that stands still.
fn full_window(effort: Effort, operations: usize, key: &str) -> Result<[f64; 2]> {
    let clock = ManualClock::at(Timestamp::from_millis(1_700_000_000_000));
    let limit = || -> Result<InProcess> {
        Ok(InProcess::with(generous()?, &LimitOptions::new().max_keys(10), Clock::from(clock.clone()))?)
    };
    let (full, one) = (limit()?, limit()?);
    for _ in 0..100 {
        clock.advance_ms(600);
        take(&full, key);
    }
    alternate(
        effort.rounds,
        [&mut || Ok(ns_each(operations, |_| _ = black_box(take(&full, black_box(key))))), &mut || {
            Ok(ns_each(operations, |_| _ = black_box(take(&one, black_box(key)))))
        }],
    )
}
