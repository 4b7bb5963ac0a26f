//! Errors that name a range name the real one: both its ends are taken, and nothing beyond.

use std::time::Duration;

use tidegate::hot::HotOptions;
use tidegate::limit::{Calendar, LeaseOptions, LimitOptions, Period, Sliding, Suppressed};
use tidegate::session::SessionOptions;
use tidegate::{Cost, Key, Result, Tidegate};

use crate::kit::REDIS;

const MS: u128 = 1_000_000;
const SECOND: u128 = 1000 * MS;
const DAY: u128 = 86_400 * SECOND;

/// One setting, as its error calls it. Times are in nanoseconds.
struct Setting<O> {
    name: &'static str,
    set: fn(&mut O, u128),
    /// The smallest step that counts.
    step: u128,
}

fn lasting(ns: u128) -> Duration {
    Duration::from_nanos(u64::try_from(ns).unwrap())
}

macro_rules! times {
    ($options:ty: $($name:literal $field:ident),*) => {
        vec![$(Setting::<$options> { name: $name, set: |it, ns| it.$field = lasting(ns), step: MS }),*]
    };
}

macro_rules! counts {
    ($options:ty: $($name:literal $field:ident),*) => {
        vec![$(Setting::<$options> { name: $name, set: |it, n| it.$field = n.try_into().unwrap(), step: 1 }),*]
    };
}

/// A number, or a time in nanoseconds.
fn end(text: &str) -> u128 {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = match unit.trim() {
        "" | "ns" => 1.0,
        "ms" => MS as f64,
        "s" => SECOND as f64,
        "day" | "days" => DAY as f64,
        other => panic!("{other:?} in {text:?}"),
    };
    (number.parse::<f64>().unwrap_or_else(|_| panic!("{text:?}")) * unit).round() as u128
}

/// What an error calls the setting, and from where to where it says that it may be.
fn named(error: &str) -> (String, u128, Option<u128>) {
    let (what, allowed) = error
        .split_once(" is not allowed: ")
        .or_else(|| error.split_once(" are not allowed: "))
        .unwrap_or_else(|| panic!("{error:?}"));
    let name = what.rsplit_once(" of ").map_or(what, |it| it.0).to_owned();
    if let Some(least) = allowed.strip_prefix("at least ") {
        return (name, end(least.split_once(" is").unwrap().0), None);
    }
    let allowed = allowed.strip_suffix(" are").unwrap_or_else(|| panic!("{error:?}"));
    if let Some(most) = allowed.strip_prefix("up to ") {
        return (name, 0, Some(end(most)));
    }
    let allowed = allowed.strip_prefix("whole seconds from ").unwrap_or(allowed);
    let (least, most) = allowed.split_once(" to ").unwrap_or_else(|| panic!("{error:?}"));
    let most = most.strip_prefix("the window, ").unwrap_or(most).trim_end_matches(',');
    (name, end(least), Some(end(most)))
}

/// Sets each to values from far too small to far too large, alone and in pairs.
fn try_all<O: Clone + Default>(all: &[Setting<O>], check: fn(&O) -> Result<()>, values: &[u128]) -> usize {
    let mut refused = 0;
    for one in all {
        for value in values {
            let mut options = O::default();
            (one.set)(&mut options, *value);
            let Err(error) = check(&options) else { continue };
            refused += 1;
            let error = error.to_string();
            let (name, least, most) = named(&error);
            let setting =
                all.iter().find(|it| it.name == name).unwrap_or_else(|| panic!("who is {name:?}? {error}"));
            assert_eq!(setting.name, one.name, "whoever was set is named: {error}");
            let with = |value: u128| {
                let mut options = options.clone();
                (setting.set)(&mut options, value);
                check(&options)
            };
            with(least).unwrap_or_else(|refused| panic!("{error}; but at {least}: {refused}"));
            assert!(least < setting.step || with(least - setting.step).is_err(), "{error}: and below?");
            if let Some(most) = most {
                with(most).unwrap_or_else(|refused| panic!("{error}; but at {most}: {refused}"));
                assert!(with(most + setting.step).is_err(), "{error}: and above?");
            }
        }
    }
    // Whoever does what errors say is done soon, whatever there was.
    for (first, one) in all.iter().enumerate() {
        for other in &all[first + 1..] {
            for values in values.iter().flat_map(|one| values.iter().map(move |other| [*one, *other])) {
                let mut options = O::default();
                (one.set)(&mut options, values[0]);
                (other.set)(&mut options, values[1]);
                for step in 0.. {
                    let Err(error) = check(&options) else { break };
                    assert!(step < 6, "{} {values:?} {}: {error}", one.name, other.name);
                    let (name, least, _) = named(&error.to_string());
                    let setting = all.iter().find(|it| it.name == name).unwrap();
                    (setting.set)(&mut options, least);
                }
            }
        }
    }
    refused
}

const TIMES: [u128; 14] = [
    0,
    MS,
    99 * MS,
    999 * MS,
    SECOND,
    30 * SECOND,
    59 * SECOND,
    3600 * SECOND,
    DAY - 10 * SECOND,
    DAY,
    DAY + MS,
    7 * DAY + MS,
    60 * DAY + MS,
    1000 * DAY,
];

const NUMBERS: [u128; 12] =
    [0, 1, 2, 4, 65, 101, 1001, 4001, 10_001, 1_000_001, 100_000_001, u32::MAX as u128];

#[test]
fn ranges_of_sessions_are_real() {
    let times = times!(SessionOptions: "a holder_lease" holder_lease, "a grace" grace, "a session_ttl" session_ttl,
        "a retention" retention, "a migration_lease" migration_lease, "a claim_lease" claim_lease,
        "a cleanup_interval" cleanup_interval, "a reconcile_interval" reconcile_interval);
    assert!(try_all(&times, SessionOptions::check, &TIMES) > 40);
    let counts = counts!(SessionOptions: "a batch" batch, "effects_at_once" effects_at_once,
        "max_attempts" max_attempts, "max_holders" max_holders, "max_sessions" max_sessions);
    assert!(try_all(&counts, SessionOptions::check, &NUMBERS) > 15);
}

#[test]
fn ranges_of_hot_pages_are_real() {
    let times =
        times!(HotOptions: "a window_duration" window_duration, "a cleanup_interval" cleanup_interval);
    assert!(try_all(&times, HotOptions::check, &TIMES) > 8);
    let counts = counts!(HotOptions: "a hot_threshold" hot_threshold, "a promotion_threshold" promotion_threshold,
        "a max_members_per_page" max_members_per_page, "a max_tracked" max_tracked, "a max_activity" max_activity,
        "a number of partitions" partitions, "a max_bytes" max_bytes, "a spike_minimum" spike_minimum,
        "a number of count_slots" count_slots);
    assert!(try_all(&counts, HotOptions::check, &NUMBERS) > 30);
    let ratio = |ratio: f64| {
        let mut options = HotOptions::default();
        options.spike_ratio = ratio;
        options.check()
    };
    let (_, least, most) = named(&ratio(0.0).unwrap_err().to_string());
    let (least, most) = (least as f64, most.unwrap() as f64);
    assert!(ratio(least).is_ok() && ratio(most).is_ok());
    assert!(ratio(least - 1e-9).is_err() && ratio(most + 1e-9).is_err());
}

/// One value of a limit: refused at both `wrong`, taken at both ends of what is told.
async fn try_one<F: Future<Output = Result<()>>>(
    what: &str,
    step: u128,
    wrong: [u128; 2],
    with: impl Fn(u128) -> F,
) {
    for wrong in wrong {
        let error = with(wrong).await.expect_err(what).to_string();
        let (_, least, most) = named(&error);
        let most = most.unwrap();
        for right in [least, most] {
            with(right).await.unwrap_or_else(|refused| panic!("{what}: {error}; but at {right}: {refused}"));
        }
        assert!(least < step || with(least - step).await.is_err(), "{what}: {error}: and below?");
        assert!(with(most + step).await.is_err(), "{what}: {error}: and above?");
    }
}

#[tokio::test]
async fn ranges_of_limits_are_real() {
    let rate = || "2/s".parse().unwrap();
    let sliding = || Sliding::new(rate(), Duration::from_secs(60)).unwrap();
    let window = async |ns| Sliding::new(rate(), lasting(ns)).map(drop);
    try_one("window", SECOND, [0, 32 * DAY], window).await;
    try_one("coalesce", MS, [0, 61 * SECOND], async |ns| sliding().with_coalesce(lasting(ns)).map(drop))
        .await;
    let factor = async |millionths: u128| Suppressed::new(sliding(), millionths as f64 / 1e6).map(drop);
    for wrong in [0, 2_000_000_000] {
        let (_, least, most) = named(&factor(wrong).await.unwrap_err().to_string());
        let (least, most) = (least * 1_000_000, most.unwrap() * 1_000_000);
        assert!(factor(least).await.is_ok() && factor(most).await.is_ok());
        assert!(factor(least - 1).await.is_err() && factor(most + 1).await.is_err());
    }
    let calendar = |limit: u128| Calendar::new(limit as u64, Period::Hour);
    // What it calls the setting is the number itself.
    try_one("limit", 1, [0, u64::MAX.into()], async |limit| calendar(limit).map(drop)).await;
    try_one("counter_ttl", MS, [32 * DAY; 2], async |ns| {
        calendar(5)?.with_counter_ttl(lasting(ns)).map(drop)
    })
    .await;
    try_one("cost", 1, [0, u64::MAX.into()], async |cost| Cost::new(cost as u64).map(drop)).await;

    let memory = Tidegate::open("memory:").await.unwrap();
    let limit = memory.limit("api", sliding(), LimitOptions::default()).unwrap();
    let key = Key::new("k").unwrap();
    let over = async |ns| limit.set_override(key, rate(), lasting(ns)).await.map(drop);
    try_one("override", MS, [0, 91 * DAY], over).await;
    let ids = std::sync::atomic::AtomicUsize::new(0);
    let reserve = async |ns| {
        let id = ids.fetch_add(1, std::sync::atomic::Ordering::Relaxed).to_string();
        limit.reserve(key, &id, Cost::ONE, lasting(ns)).await.map(drop)
    };
    try_one("reservation", MS, [0, 61 * SECOND], reserve).await;
    let shared = Tidegate::open(&REDIS.url()).await.unwrap();
    let names = std::sync::atomic::AtomicUsize::new(0);
    let lease = async |ns| {
        let mut options = LimitOptions::default();
        let mut leased = LeaseOptions::default();
        leased.duration = Some(lasting(ns));
        options.lease = Some(leased);
        let name = format!("ranges-{}", names.fetch_add(1, std::sync::atomic::Ordering::Relaxed));
        shared.limit(&name, Sliding::new("100000/s".parse()?, Duration::from_secs(60))?, options).map(drop)
    };
    try_one("lease", MS, [0, 61 * SECOND], lease).await;
    shared.shutdown().await;
}
