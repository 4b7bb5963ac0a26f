//! What suppression lets through under a steady load, counted.

use tidegate::clock::{ManualClock, Timestamp};
use tidegate::limit::{Algorithm, Decision, InProcess, LimitOptions, Suppressed};
use tidegate::testkit::history::operations;
use tidegate::testkit::limit::sliding;
use tidegate::{Cost, Key};

use crate::kit::On;

const CAPACITY: u32 = 10_000;

/// A steady load on one key, `load` times its capacity.
struct Steady {
    limit: InProcess,
    clock: ManualClock,
    window_ms: u64,
    cost: Cost,
    /// Calls per window.
    per_window: u64,
    calls: u64,
}

impl Steady {
    async fn new(algorithm: impl Into<Algorithm>, window_s: u64, load: f64, cost: u64) -> Self {
        let clock = ManualClock::at(Timestamp::from_millis(1_700_000_040_000));
        let gate = On::url("memory:").open(clock.clone(), 11).await;
        let limit = gate.limit("api", algorithm, LimitOptions::default()).unwrap();
        let per_window = (f64::from(CAPACITY) * load).round() as u64 / cost;
        let limit = limit.in_process().unwrap().clone();
        let cost = Cost::new(cost).unwrap();
        Self { limit, clock, window_ms: window_s * 1000, cost, per_window, calls: 0 }
    }

    fn call(&mut self) -> Decision {
        let at = 1_700_000_040_000 + self.calls * self.window_ms / self.per_window;
        self.calls += 1;
        self.clock.set(Timestamp::from_millis(at));
        self.limit.take(Key::new("k").unwrap(), self.cost).unwrap()
    }

    /// How much of so many calls is let through.
    fn admitted(&mut self, calls: u64) -> u64 {
        (0..calls).map(|_| if self.call().is_admitted() { self.cost.get() } else { 0 }).sum()
    }
}

/// What the formula makes of a steady load. Between the limits as many pass as meet
/// the soft one; above the hard limit all do until the soft one is met, and then
/// none until a bucket goes, which counts a little longer than the window.
fn share(load: f64, hard_limit_factor: f64, coalesce: f64) -> f64 {
    if load < hard_limit_factor { 1.0 / load } else { 1.0 / (load * (1.0 + coalesce)) }
}

#[tokio::test]
async fn suppressed_admits_the_share_that_the_formula_says() {
    for (load, window_s) in [(1.2, 1), (1.5, 60), (1.9, 1), (1.9, 60), (3.0, 1), (3.0, 60)] {
        let limit = Suppressed::new(sliding(CAPACITY, window_s, window_s * 10), 2.0).unwrap();
        let mut steady = Steady::new(limit, window_s, load, 1).await;
        steady.admitted(steady.per_window * 3);
        // Above the hard limit they come in bursts: whole ones are counted.
        let burst = steady.per_window * 101 / 100;
        let draws = 100_000_u64.next_multiple_of(burst);
        let (mut admitted, mut likely) = (0, 0.0);
        for _ in 0..draws {
            let decision = steady.call();
            admitted += u64::from(decision.is_admitted());
            likely += match decision {
                Decision::Suppressed(suppression) => 1.0 - suppression.suppression_factor,
                _ => 1.0,
            };
        }
        let (admitted, draws) = (admitted as f64, draws as f64);
        let expected = share(load, 2.0, 0.01) * draws;
        assert!(
            (admitted / expected - 1.0).abs() < 0.01,
            "{load} × in {window_s} s: {admitted} for {expected}"
        );
        assert!((admitted / likely - 1.0).abs() < 0.01, "{load} × in {window_s} s: {admitted} for {likely}");
    }
}

/// Around the capacity in every window but the first ones, whatever is offered, and
/// in the mean from the very first call.
async fn smooth_stays_near_the_capacity(window_s: u64) {
    // A long run takes permits one by one.
    let is_long = operations() >= 1_000_000;
    for (load, cost) in [(1.2, 2), (2.0, 4), (5.0, 10), (20.0, 20)] {
        let limit = Suppressed::smooth(sliding(CAPACITY, window_s, window_s * 10));
        let mut steady = Steady::new(limit, window_s, load, if is_long { 1 } else { cost }).await;
        let windows: Vec<u64> = (0..105).map(|_| steady.admitted(steady.per_window)).collect();
        let capacity = f64::from(CAPACITY);
        let mean = |windows: &[u64]| windows.iter().sum::<u64>() as f64 / windows.len() as f64 / capacity;
        for (what, mean) in [("from the start", mean(&windows[..100])), ("warm", mean(&windows[5..]))] {
            assert!((mean - 1.0).abs() < 0.02, "{load} × in {window_s} s, {what}: {mean}, {windows:?}");
        }
        let near = |from: usize, off: f64| {
            let shares = windows[from..].iter().map(|admitted| *admitted as f64 / capacity);
            shares.into_iter().all(|share| (share - 1.0).abs() < off)
        };
        // A flood from nothing is seen only once it is there.
        assert!(near(0, 1.0) && near(1, 0.3) && near(5, 0.1), "{load} × in {window_s} s: {windows:?}");
    }
}

#[tokio::test]
async fn smooth_stays_near_the_capacity_of_a_second() {
    smooth_stays_near_the_capacity(1).await;
}

#[tokio::test]
async fn smooth_stays_near_the_capacity_of_a_minute() {
    smooth_stays_near_the_capacity(60).await;
}

/// Few calls that each ask for a lot, some for several times the limit: not even one
/// after the other do they get much more than it in the mean.
#[tokio::test]
async fn smooth_keeps_the_mean_whatever_a_call_costs() {
    for (load, cost, windows, most) in [
        (2.0, 100, 300, 1.02),
        (2.0, 1000, 2000, 1.02),
        (3.0, 5000, 10_000, 1.1),
        (4.0, 20_000, 30_000, 1.1),
        (20.0, 100_000, 50_000, 2.0),
    ] {
        let mut steady = Steady::new(Suppressed::smooth(sliding(CAPACITY, 1, 10)), 1, load, cost).await;
        steady.admitted(steady.per_window * 5);
        let mean = steady.admitted(steady.per_window * windows) as f64 / windows as f64 / f64::from(CAPACITY);
        assert!((0.9..most).contains(&mean), "{load} × in calls of {cost}: {mean}");
    }
}
