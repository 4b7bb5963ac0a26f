//! Calendar windows and a client whose own clock is wrong. It only guesses which
//! windows' keys to send along; the store's clock decides.

use tidegate::clock::{ManualClock, Timestamp};
use tidegate::limit::{Limit, LimitOptions, Period, Reserve};
use tidegate::store::{Declarations, StoreOptions};
use tidegate::testkit::limit::{calendar, sliding};
use tidegate::testkit::{RedisServer, unique};
use tidegate::{Cost, Key, Name, Tidegate};

use crate::kit::{CLUSTER, REDIS};

/// 2024-09-17 14:00:00.000 UTC.
const HOUR_MS: u64 = 1_726_581_600_000;
const MINUTES: [i64; 5] = [0, 5, -5, 61, -1440];

/// One store, two clients: the clock of one is right.
struct Skewed {
    store: ManualClock,
    client: ManualClock,
    gate: Tidegate,
    right: Limit,
    wrong: Limit,
    other: Limit,
}

impl Skewed {
    async fn new(url: &str, period: Period) -> Self {
        let store = ManualClock::at(Timestamp::from_millis(HOUR_MS));
        let client = ManualClock::at(Timestamp::from_millis(HOUR_MS));
        let mut options = StoreOptions::default();
        options.clock = store.clone().into();
        options.namespace = Some(Name::new(&unique("skew")).unwrap());
        options.deadline = std::time::Duration::from_secs(10);
        // No calls but those of the test.
        options.declarations = Declarations::ReadOnly;
        let limit =
            |gate: &Tidegate| gate.limit("api", calendar(10, period), LimitOptions::default()).unwrap();
        let right = limit(&Tidegate::open_with(url, options.clone()).await.unwrap());
        options.client_clock = Some(client.clone().into());
        let gate = Tidegate::open_with(url, options).await.unwrap();
        let other = gate.limit("second", sliding(1000, 1, 10), LimitOptions::default()).unwrap();
        Self { store, client, right, wrong: limit(&gate), other, gate }
    }

    /// The store shows `ms` after the hour, and the client is `minutes` ahead of it.
    fn at(&self, ms: u64, minutes: i64) {
        self.store.set(Timestamp::from_millis(HOUR_MS + ms));
        self.client.set(Timestamp::from_millis((HOUR_MS + ms).strict_add_signed(minutes * 60_000)));
    }
}

/// Every call of the client with the wrong clock is in the store's window, to the
/// millisecond.
async fn changes_nothing(url: &str) {
    let key = Key::new("k").unwrap();
    for (period, ms) in [(Period::Minute, 60_000), (Period::Hour, 3_600_000), (Period::Day, 86_400_000)] {
        for minutes in MINUTES {
            let s = Skewed::new(url, period).await;
            // Right before the store's window ends, and right after.
            let start = if period == Period::Day { 10 * 3_600_000 } else { ms };
            s.at(start - 1, minutes);
            let four = Cost::new(4).unwrap();
            let receipt = s.wrong.take(key, four).await.unwrap().receipt().unwrap();
            assert!(s.right.take(key, four).await.unwrap().is_admitted());
            let refused = s.wrong.take(key, four).await.unwrap();
            assert_eq!(refused.wait().unwrap().retry_after_ms, 1, "{period:?}, {minutes} minutes off");
            assert_eq!(s.wrong.peek(key).await.unwrap(), s.right.peek(key).await.unwrap());
            s.at(start, minutes);
            assert_eq!(s.wrong.peek(key).await.unwrap().quota().remaining, 10);
            let taken = s.wrong.take(key, Cost::new(10).unwrap()).await.unwrap();
            assert_eq!(taken.quota().reset_after_ms, ms, "{period:?}, {minutes} minutes off");
            assert!(!s.right.take(key, Cost::ONE).await.unwrap().is_admitted());
            assert_eq!(s.wrong.refund(key, receipt).await.unwrap(), 0, "its window is over");
            s.at(start - 1, minutes);
            assert_eq!(s.wrong.refund(key, receipt).await.unwrap(), 4, "it is there");
            assert_eq!(s.right.peek(key).await.unwrap().quota().remaining, 6);
            s.wrong.reset(key).await.unwrap();
            assert_eq!(s.right.peek(key).await.unwrap().quota().remaining, 10);
        }
    }
}

#[tokio::test]
async fn a_client_whose_clock_is_wrong_changes_nothing() {
    changes_nothing(&REDIS.url()).await;
}

#[tokio::test]
async fn a_client_whose_clock_is_wrong_changes_nothing_in_a_cluster() {
    changes_nothing(&CLUSTER.url()).await;
}

/// The client's clock is set while it runs, again and again; takes from several
/// limits included.
#[tokio::test]
async fn a_clock_that_is_set_while_running_changes_nothing() {
    let s = Skewed::new(&REDIS.url(), Period::Minute).await;
    let key = Key::new("k").unwrap();
    let mut admitted = [0; 20];
    for turn in 0..200_u64 {
        // Every 6 seconds, so ten to a minute; each step another error.
        let minutes = MINUTES[turn as usize * 7 % MINUTES.len()] + (turn as i64 * 13 % 11) - 5;
        s.at(turn * 6000, minutes);
        let both = [(&s.other, Cost::ONE), (&s.wrong, Cost::ONE)];
        let is_admitted = match turn % 3 {
            0 => s.gate.take_all(key, &both).await.unwrap().is_admitted(),
            1 => s.wrong.take(key, Cost::ONE).await.unwrap().is_admitted(),
            _ => s.right.take(key, Cost::ONE).await.unwrap().is_admitted(),
        };
        admitted[turn as usize / 10] += u32::from(is_admitted);
        // The eleventh of each minute is refused, whoever asks.
        if turn % 10 == 9 {
            s.at(turn * 6000 + 5999, -minutes);
            assert!(!s.wrong.take(key, Cost::ONE).await.unwrap().is_admitted());
            assert!(!s.gate.take_all(key, &both).await.unwrap().is_admitted());
        }
    }
    assert_eq!(admitted, [10; 20]);
}

/// A wrong clock costs one more round trip when it is found out, not with every call.
#[tokio::test]
async fn a_wrong_clock_is_found_out_once() {
    let server = RedisServer::start();
    let s = Skewed::new(&server.url(), Period::Minute).await;
    s.at(0, 5);
    let scripts = || {
        let stats: String = redis::cmd("INFO").arg("commandstats").query(&mut server.connection()).unwrap();
        let line = stats.lines().find(|line| line.starts_with("cmdstat_evalsha:")).unwrap_or_default();
        line.split(['=', ',']).nth(1).map_or(0, |calls| calls.parse::<u64>().unwrap())
    };
    let key = Key::new("k").unwrap();
    s.wrong.take(key, Cost::ONE).await.unwrap();
    let before = scripts();
    for turn in 0..20 {
        s.at(turn * 1000, 5);
        s.wrong.take(key, Cost::ONE).await.unwrap();
    }
    assert_eq!(scripts() - before, 20);
}

/// A reservation that reaches into the next hour is settled in both, whatever the
/// client's clock shows.
#[tokio::test]
async fn a_reservation_across_the_hour_is_settled_in_both_hours() {
    let key = Key::new("k").unwrap();
    for (minutes, is_commit) in MINUTES.into_iter().flat_map(|it| [(it, true), (it, false)]) {
        let s = Skewed::new(&REDIS.url(), Period::Hour).await;
        s.at(120_000, minutes);
        let lasting = std::time::Duration::from_millis(3_590_000);
        let reserved = s.right.reserve(key, "a", Cost::new(10).unwrap(), lasting).await.unwrap();
        assert!(matches!(reserved, Reserve::Held(_)));
        let settled = match is_commit {
            true => s.wrong.commit(key, "a").await,
            false => s.wrong.release(key, "a").await,
        };
        assert!(settled.unwrap().is_some());
        let remaining = async || s.right.peek(key).await.unwrap().quota().remaining;
        assert_eq!(remaining().await, if is_commit { 0 } else { 10 }, "{minutes} min, commit {is_commit}");
        s.at(3_600_000, minutes);
        assert_eq!(remaining().await, 10, "{minutes} min, commit {is_commit}");
    }
}
