//! Bytes per key and per bucket in this process.
//!
//! Tables double, so what a key takes swings by a factor of two with the number
//! of keys: the mean over a whole doubling stands beside the figure at a round
//! number. Both are what the allocator takes for it; `asked` leaves out its
//! rounding and bookkeeping, which small allocations pay most for.

use std::time::Duration;

use anyhow::{Result, ensure};
use tidegate::clock::{Clock, ManualClock, Timestamp};
use tidegate::limit::{InProcess, LimitOptions, Sliding};

use super::keys::keys;
use super::memory::{generous_governor, take};
use super::{GOVERNOR, generous};
use crate::heap::{Growth, growth};
use crate::progress;
use crate::report::{Figure, Goal};
use crate::rounds::Effort;

pub(super) fn figures(effort: Effort) -> Result<Vec<Figure>> {
    progress("limit.memory: bytes");
    let names = keys(effort.pick(100_000, 1_000_000));
    let (ours, peer) = per_key(&names)?;
    let (mut mean, mut mean_peer) = (0.0, 0.0);
    const STEPS: usize = 8;
    for step in 0..STEPS {
        // From half the keys to all of them, by equal factors.
        let count = names.len() as f64 * 0.5 * 2_f64.powf((step + 1) as f64 / STEPS as f64);
        let (ours, peer) = per_key(&names[..count as usize])?;
        mean += ours.taken / STEPS as f64;
        mean_peer += peer.taken / STEPS as f64;
    }
    let figure = |name, ours, peer| Figure::ours(name, "B", ours).beside(GOVERNOR, peer);
    Ok(vec![
        figure("limit.memory.bytes_per_key", ours.taken, peer.taken).goal(Goal::AtMost(1.0)),
        figure("limit.memory.bytes_per_key.asked", ours.asked, peer.asked),
        figure("limit.memory.bytes_per_key.mean", mean, mean_peer),
        Figure::ours("limit.memory.bytes_per_bucket", "B", per_bucket()?).goal(Goal::AtMost(12.0)),
    ])
}

/// Bytes per key with one live bucket each, ours and the peer's.
fn per_key(names: &[String]) -> Result<(Growth, Growth)> {
    let count = names.len() as f64;
    let each = |growth: Growth| Growth { asked: growth.asked / count, taken: growth.taken / count };
    let clock = Clock::from(ManualClock::at(Timestamp::from_millis(1_700_000_000_000)));
    let sliding = generous()?;
    let (ours, our_growth) = growth(|| {
        let limit = InProcess::with(sliding, &LimitOptions::new().max_keys(names.len()), clock)?;
        let admitted = names.iter().filter(|key| take(&limit, key)).count();
        anyhow::Ok((limit, admitted))
    });
    let ours = ours?;
    ensure!(ours.1 == names.len() && ours.0.keys() == names.len(), "not all keys are held");
    drop(ours);
    let (peer, peer_growth) = growth(|| {
        let limit = generous_governor();
        let admitted =
            limit.as_ref().map_or(0, |limit| names.iter().filter(|key| limit.check_key(key).is_ok()).count());
        (limit, admitted)
    });
    ensure!(peer.1 == names.len() && peer.0?.len() == names.len(), "the peer lacks keys");
    Ok((each(our_growth), each(peer_growth)))
}

/// Bytes per live bucket beyond a key's first, a hundred to the key.
fn per_bucket() -> Result<f64> {
    const KEYS: usize = 5_000;
    const BUCKETS: usize = 100;
    let names = keys(KEYS);
    let clock = ManualClock::at(Timestamp::from_millis(1_700_000_000_000));
    let sliding = Sliding::new(tidegate::Rate::per_second(1_000), Duration::from_secs(60))?;
    let limit = InProcess::with(sliding, &LimitOptions::new().max_keys(KEYS), Clock::from(clock.clone()))?;
    let mut admitted = names.iter().filter(|key| take(&limit, key)).count();
    let ((), more) = growth(|| {
        for _ in 1..BUCKETS {
            clock.advance_ms(600);
            admitted += names.iter().filter(|key| take(&limit, key)).count();
        }
    });
    ensure!(admitted == KEYS * BUCKETS, "only {admitted} takes were admitted");
    Ok(more.taken / (KEYS * (BUCKETS - 1)) as f64)
}
