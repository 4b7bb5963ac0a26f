//! Overrides hold a rate: whatever becomes of the window, the period, the burst or the
//! algorithm of their limit while they live, a key is judged by that rate.

use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tidegate::clock::{ManualClock, Timestamp};
use tidegate::limit::{Algorithm, Calendar, Limit, LimitOptions, Period, Sliding, Suppressed, Token};
use tidegate::store::StoreOptions;
use tidegate::testkit::unique;
use tidegate::{Cost, Key, Name, Rate, Tidegate};

use crate::kit::{CLUSTER, REDIS};

const START_MS: u64 = 1_700_000_040_000;
const HOUR: Duration = Duration::from_secs(3600);

/// A deployment of one limit: each `now_is` is a server with other settings.
struct Deployed {
    url: String,
    namespace: Name,
    clock: ManualClock,
}

impl Deployed {
    fn on(url: &str) -> Self {
        let clock = ManualClock::at(Timestamp::from_millis(START_MS));
        Self { url: url.to_owned(), namespace: Name::new(&unique("r")).unwrap(), clock }
    }

    async fn now_is(&self, algorithm: Algorithm) -> Limit {
        let mut options = StoreOptions::default();
        options.clock = self.clock.clone().into();
        options.namespace = Some(self.namespace.clone());
        options.deadline = Duration::from_secs(10);
        let gate = Tidegate::open_with(&self.url, options).await.unwrap();
        let mut options = LimitOptions::default();
        options.prefix = Some("same".to_owned());
        gate.limit("api", algorithm, options).unwrap()
    }
}

fn rate(text: &str) -> Rate {
    text.parse().unwrap()
}

fn sliding(rate_text: &str, window_s: u64) -> Algorithm {
    Sliding::new(rate(rate_text), Duration::from_secs(window_s)).unwrap().into()
}

fn suppressed(rate_text: &str, window_s: u64, factor: f64) -> Algorithm {
    let sliding = Sliding::new(rate(rate_text), Duration::from_secs(window_s)).unwrap();
    Suppressed::new(sliding, factor).unwrap().into()
}

fn token(rate_text: &str, burst: u64) -> Algorithm {
    Token::new(rate(rate_text), Cost::new(burst).unwrap()).unwrap().into()
}

fn calendar(limit: u64, period: Period) -> Algorithm {
    Calendar::new(limit, period).unwrap().into()
}

async fn capacity(limit: &Limit, key: Key<'_>) -> u64 {
    limit.peek(key).await.unwrap().quota().capacity
}

/// How many can be taken at once.
async fn at_once(limit: &Limit, key: Key<'_>) -> u64 {
    let mut taken = 0;
    while limit.take(key, Cost::ONE).await.unwrap().is_admitted() {
        taken += 1;
    }
    limit.reset(key).await.unwrap();
    taken
}

async fn follows_the_window(url: &str) {
    let deployed = Deployed::on(url);
    let key = Key::new("k").unwrap();
    let eight = deployed.now_is(sliding("5/s", 8)).await;
    eight.set_override(key, rate("10/s"), HOUR).await.unwrap();
    assert_eq!(at_once(&eight, key).await, 80);
    let four = deployed.now_is(sliding("5/s", 4)).await;
    assert_eq!(at_once(&four, key).await, 40, "10/s over 4 s");
    assert_eq!(capacity(&four, key).await, 40);
    assert_eq!(four.get_override(key).await.unwrap().unwrap().rate, rate("10/s"));
    // The other still runs.
    assert_eq!(at_once(&eight, key).await, 80);
    let thinned = deployed.now_is(suppressed("5/s", 2, 1.0)).await;
    assert_eq!(at_once(&thinned, key).await, 20);
    let burst = deployed.now_is(token("1/s", 5)).await;
    assert_eq!(at_once(&burst, key).await, 5, "the burst is the limit's own");
    burst.take(key, Cost::new(5).unwrap()).await.unwrap();
    let wait = burst.take(key, Cost::ONE).await.unwrap().wait().unwrap();
    assert_eq!(wait.retry_after_ms, 100, "10/s");
}

/// What was computed for a window of 8 s is not what one of 4 s may take.
#[tokio::test]
async fn an_override_follows_the_window_and_the_algorithm() {
    follows_the_window(&REDIS.url()).await;
}

#[tokio::test]
async fn an_override_follows_the_window_and_the_algorithm_in_a_cluster() {
    follows_the_window(&CLUSTER.url()).await;
}

/// 10 a minute are 600 an hour, and when the period is a minute they are 10 again.
#[tokio::test]
async fn an_override_follows_the_period() {
    let deployed = Deployed::on(&REDIS.url());
    let key = Key::new("k").unwrap();
    let hourly = deployed.now_is(calendar(5, Period::Hour)).await;
    hourly.set_override(key, rate("10/m"), HOUR).await.unwrap();
    assert_eq!(capacity(&hourly, key).await, 600);
    let minutely = deployed.now_is(calendar(5, Period::Minute)).await;
    assert_eq!(at_once(&minutely, key).await, 10);
    let daily = deployed.now_is(calendar(5, Period::Day)).await;
    assert_eq!(capacity(&daily, key).await, 14_400);
    let buffered = Calendar::new(50, Period::Minute).unwrap().with_safety_buffer(4).unwrap();
    assert_eq!(capacity(&deployed.now_is(buffered.into()).await, key).await, 6, "less the safety buffer");
    let buffered = Calendar::new(50, Period::Minute).unwrap().with_safety_buffer(40).unwrap();
    assert_eq!(capacity(&deployed.now_is(buffered.into()).await, key).await, 1, "at least one");
}

/// The hard limit of a suppressed one follows too: at factor 2 all of 2 × 10 pass if
/// chance wants it, and no more.
#[tokio::test]
async fn an_overridden_hard_limit_follows_the_window() {
    let deployed = Deployed::on(&REDIS.url());
    let key = Key::new("k").unwrap();
    let long = deployed.now_is(suppressed("5/s", 10, 1.5)).await;
    long.set_override(key, rate("10/s"), HOUR).await.unwrap();
    let short = deployed.now_is(suppressed("5/s", 1, 1.5)).await;
    let cost = |n| Cost::new(n).unwrap();
    assert!(short.take(key, cost(10)).await.unwrap().is_admitted());
    assert!(!short.take(key, cost(6)).await.unwrap().is_admitted(), "above 15");
    assert!(short.take(key, cost(5)).await.unwrap().is_admitted(), "15 is the hard limit");
    assert!(!short.take(key, cost(1)).await.unwrap().is_admitted());
}

/// Reservations, leases' grants and takes from several go by the same rate.
#[tokio::test]
async fn reservations_and_takes_from_several_follow_too() {
    let deployed = Deployed::on(&REDIS.url());
    let key = Key::new("k").unwrap();
    let eight = deployed.now_is(sliding("5/s", 8)).await;
    eight.set_override(key, rate("10/s"), HOUR).await.unwrap();
    let four = deployed.now_is(sliding("5/s", 4)).await;
    let (second, cost) = (Duration::from_secs(1), |n| Cost::new(n).unwrap());
    let refused = four.reserve(key, "a", cost(41), second).await.unwrap();
    assert!(matches!(refused, tidegate::limit::Reserve::Refused(_)), "{refused:?}");
    let held = four.reserve(key, "b", cost(40), second).await.unwrap();
    assert!(matches!(held, tidegate::limit::Reserve::Held(_)), "{held:?}");
}

/// One that this limit cannot have is the nearest that it can: a permit at least.
#[tokio::test]
async fn an_override_below_one_permit_is_one_permit() {
    let deployed = Deployed::on(&REDIS.url());
    let key = Key::new("k").unwrap();
    let minute = deployed.now_is(sliding("5/s", 60)).await;
    minute.set_override(key, rate("0.1/s"), HOUR).await.unwrap();
    let second = deployed.now_is(sliding("5/s", 1)).await;
    assert_eq!(at_once(&second, key).await, 1);
    // A rate of many digits with a burst of one, then of a hundred: rounded, not refused.
    let one = deployed.now_is(token("1/s", 1)).await;
    one.set_override(key, rate("0.123456789/s"), HOUR).await.unwrap();
    let hundred = deployed.now_is(token("1/s", 100)).await;
    assert_eq!(at_once(&hundred, key).await, 100);
    hundred.take(key, Cost::new(100).unwrap()).await.unwrap();
    let wait = hundred.take(key, Cost::ONE).await.unwrap().wait().unwrap();
    assert!((8100..=8101).contains(&wait.retry_after_ms), "{wait:?}: 1 / 0.123456789 s");
    // One that would take years to fill.
    let key = Key::new("slow").unwrap();
    let month = deployed.now_is(sliding("5/s", 31 * 86_400)).await;
    month.set_override(key, rate("2/d"), HOUR).await.unwrap();
    let slow = deployed.now_is(token("1/s", 1000)).await;
    assert!(slow.take(key, Cost::new(1000).unwrap()).await.unwrap().is_admitted());
    let wait = slow.take(key, Cost::ONE).await.unwrap().wait().unwrap();
    assert_eq!(wait.retry_after_ms, 31 * 86_400_000 / 1000, "a bucket fills within 31 days");
}

/// Overrides as they were stored before: three numbers and the rate. They are read by
/// their rate.
#[tokio::test]
async fn overrides_of_the_older_form_count_until_they_end() {
    let deployed = Deployed::on(&REDIS.url());
    let key = Key::new("old").unwrap();
    let older = |until_ms: u64, a: f64, b: f64, rate: &str| {
        let mut stored: Vec<u8> =
            [until_ms as f64, a, b].iter().flat_map(|number| number.to_le_bytes()).collect();
        stored.extend(rate.as_bytes());
        let stored_at = format!("{}:same:api:override:old", deployed.namespace.as_str());
        let mut connection = REDIS.connection();
        let () = redis::cmd("SET")
            .arg(&stored_at)
            .arg(stored)
            .arg("PX")
            .arg(3_600_000)
            .query(&mut connection)
            .unwrap();
        let marker = format!("{}:tidegate:marker", deployed.namespace.as_str());
        let () =
            redis::cmd("HSET").arg(marker).arg("o:same:api:").arg(until_ms).query(&mut connection).unwrap();
    };
    let until_ms = START_MS + 60_000;
    // Set under a window of 8 s.
    older(until_ms, 80.0, 0.0, "10/s");
    let four = deployed.now_is(sliding("5/s", 4)).await;
    assert_eq!(at_once(&four, key).await, 40);
    let current = four.get_override(key).await.unwrap().unwrap();
    assert_eq!((current.rate, current.lasting), (rate("10/s"), Duration::from_secs(60)));
    let burst = deployed.now_is(token("1/s", 5)).await;
    assert_eq!(at_once(&burst, key).await, 5, "no 500, whatever the numbers were for");
    // One of a token limit: ticks of a permit and how many leave per microsecond.
    older(until_ms, 100_000.0, 1.0, "10/s");
    burst.take(key, Cost::new(5).unwrap()).await.unwrap();
    assert_eq!(burst.take(key, Cost::ONE).await.unwrap().wait().unwrap().retry_after_ms, 100);
    assert_eq!(at_once(&deployed.now_is(sliding("5/s", 1)).await, key).await, 10);
    deployed.clock.advance_ms(60_000);
    assert_eq!(capacity(&four, key).await, 20, "it has ended");
    assert_eq!(four.get_override(key).await.unwrap(), None);
}

/// A rate with its exact value: `digits / (10^decimals × unit_ms)` per millisecond.
#[derive(Debug, Clone)]
struct Exact {
    text: String,
    digits: u128,
    scale_ms: u128,
}

fn exact_rates() -> impl Strategy<Value = Exact> {
    let units =
        prop_oneof![Just(('s', 1000)), Just(('m', 60_000)), Just(('h', 3_600_000)), Just(('d', 86_400_000))];
    let wholes = prop_oneof![0..100_u64, 0..1_000_000_u64, 0..9_000_000_000_000_000_u64];
    let numbers = (wholes, 0..1_000_000_000_u64, 0..=9_u32, units);
    // A rate has at most 64 bits of digits.
    numbers
        .prop_filter("digits", |(whole, _, decimals, _)| *decimals <= 3 || *whole < 1_000_000_000)
        .prop_map(|(whole, part, decimals, (unit, unit_ms))| {
            let part = part % 10_u64.pow(decimals);
            let text = match decimals {
                0 => format!("{whole}/{unit}"),
                _ => format!("{whole}.{part:0width$}/{unit}", width = decimals as usize),
            };
            let scale = 10_u128.pow(decimals);
            Exact { text, digits: u128::from(whole) * scale + u128::from(part), scale_ms: scale * unit_ms }
        })
}

/// A limit that counts by windows, and how many millionths of its rate a key gets at once.
#[derive(Debug, Clone, Copy)]
enum Windowed {
    Sliding(u64),
    Suppressed(u64),
    Calendar(Period, u64),
}

impl Windowed {
    fn algorithm(self) -> Algorithm {
        match self {
            Self::Sliding(seconds) => sliding("5/s", seconds),
            Self::Suppressed(seconds) => suppressed("5/s", seconds, 1.25),
            Self::Calendar(period, buffer) => {
                Calendar::new(1000, period).unwrap().with_safety_buffer(buffer).unwrap().into()
            }
        }
    }

    /// The same with no regard for doubles.
    fn capacity(self, rate: &Exact) -> u64 {
        let (window_ms, buffer) = match self {
            Self::Sliding(seconds) | Self::Suppressed(seconds) => (seconds * 1000, 0),
            Self::Calendar(period, buffer) => (period.as_millis(), buffer),
        };
        let permits = rate.digits * u128::from(window_ms) / rate.scale_ms;
        // Chance counts what it declines too, and has half of the room.
        let most = if matches!(self, Self::Suppressed(_)) { 1 << 52 } else { 1 << 53 };
        let permits = permits.min(most - 1) as u64;
        permits.saturating_sub(buffer).max(1)
    }
}

fn windowed() -> impl Strategy<Value = Windowed> {
    let seconds = prop_oneof![1..100_u64, 1..=2_678_400_u64];
    let periods = prop_oneof![Just(Period::Minute), Just(Period::Hour), Just(Period::Day)];
    prop_oneof![
        3 => seconds.clone().prop_map(Windowed::Sliding),
        1 => seconds.prop_map(Windowed::Suppressed),
        2 => (periods, 0..20_u64).prop_map(|(period, buffer)| Windowed::Calendar(period, buffer)),
    ]
}

/// Whatever the limit was when the override was set and whatever it is now, the capacity
/// is exactly the rate over the present window.
#[test]
fn whatever_a_limit_becomes_its_overrides_are_exact() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let cases = (tidegate::testkit::history::operations() / 2000).max(30) as u32;
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let lives = prop::collection::vec(windowed(), 2..5);
    runner
        .run(&(prop::collection::vec(exact_rates(), 4), lives), |(rates, lives)| {
            runtime.block_on(async {
                let deployed = Deployed::on(&REDIS.url());
                let mut set = Vec::new();
                for (at, life) in lives.iter().enumerate() {
                    let limit = deployed.now_is(life.algorithm()).await;
                    let name = format!("key{at}");
                    for (key, exact) in rates.iter().enumerate() {
                        let name = format!("{name}_{key}");
                        let key = Key::new(&name).unwrap();
                        // One that this limit cannot have is refused here.
                        if limit.set_override(key, rate(&exact.text), HOUR).await.is_ok() {
                            set.push((name, exact));
                        }
                    }
                    for (name, exact) in &set {
                        let said = capacity(&limit, Key::new(name).unwrap()).await;
                        prop_assert_eq!(said, life.capacity(exact), "{:?} {:?} of {:?}", exact, life, lives);
                    }
                }
                Ok(())
            })
        })
        .unwrap();
}
