//! The quota of a family of runs: never more than it allows, whoever charges and whatever their clocks show.

use std::time::Duration;

use tidegate::clock::{ManualClock, Timestamp};
use tidegate::limit::{Calendar, LimitOptions, Period, Release};
use tidegate::random::Random;
use tidegate::run::{Quota, QuotaCharge, QuotaKind, QuotaOptions};
use tidegate::store::StoreOptions;
use tidegate::testkit::{Fault, FaultProxy, RedisServer, unique};
use tidegate::{Cost, ErrorKind, Key, Name, Tidegate};

use crate::charges::{behind, insistently};
use crate::kit::{CLUSTER, REDIS};
use crate::log_lines::LogLines;

pub(crate) const HOUR: u64 = 3_600_000;
pub(crate) const MINUTE: u64 = 60_000;

/// 2024-09-17 14:00:00.000 UTC.
pub(crate) const FULL_HOUR_MS: u64 = 1_726_581_600_000;

const KINDS: [QuotaKind; 3] = [QuotaKind::Aligned, QuotaKind::Sliding, QuotaKind::Both];

pub(crate) fn cost(permits: u64) -> Cost {
    Cost::new(permits).unwrap()
}

/// `capacity` calls per hour beside a buffer of 25.
pub(crate) fn options(kind: QuotaKind, capacity: u64) -> QuotaOptions {
    QuotaOptions::new().kind(kind).limit(capacity + 25)
}

/// A store with a clock that a test moves.
pub(crate) struct World {
    pub(crate) on: &'static str,
    url: String,
    pub(crate) namespace: Name,
    pub(crate) clock: ManualClock,
}

impl World {
    pub(crate) fn new(on: &'static str, url: String) -> Self {
        let clock = ManualClock::at(Timestamp::from_millis(FULL_HOUR_MS));
        Self { on, url, namespace: Name::new(&unique("quota")).unwrap(), clock }
    }

    /// One of each kind.
    pub(crate) fn everywhere() -> [Self; 3] {
        [
            Self::new("memory", "memory:".to_owned()),
            Self::new("redis", REDIS.url()),
            Self::new("cluster", CLUSTER.url()),
        ]
    }

    /// Shows so many milliseconds after the full hour.
    pub(crate) fn at(&self, ms: u64) {
        self.clock.set(Timestamp::from_millis(FULL_HOUR_MS + ms));
    }

    /// A process whose own clock is another than the store's.
    pub(crate) async fn process(&self, own: Option<ManualClock>) -> Tidegate {
        let mut options = StoreOptions::default();
        options.clock = self.clock.clone().into();
        options.client_clock = own.map(Into::into);
        options.deadline = Duration::from_secs(10);
        options.namespace = Some(self.namespace.clone());
        if self.on == "cluster" {
            options.partitions = Some(3);
        }
        Tidegate::open_with(&self.url, options).await.unwrap()
    }

    pub(crate) async fn quota(&self, options: QuotaOptions) -> Quota {
        self.process(None).await.quota(options).unwrap()
    }
}

/// What was charged, when: by the store's clock.
#[derive(Default)]
struct History(Vec<(u64, u64)>);

impl History {
    /// The most in any hour of UTC.
    fn fullest_hour(&self) -> u64 {
        let hours = self.0.chunk_by(|one, other| one.0 / HOUR == other.0 / HOUR);
        hours.map(|hour| hour.iter().map(|(_, cost)| cost).sum()).max().unwrap_or(0)
    }

    /// The most in any 60 minutes, wherever they start.
    fn fullest_60_minutes(&self) -> u64 {
        let within = |start: usize| {
            let charges = self.0[start..].iter().take_while(|(at, _)| *at < self.0[start].0 + HOUR);
            charges.map(|(_, cost)| cost).sum()
        };
        (0..self.0.len()).map(within).max().unwrap_or(0)
    }

    fn total(&self) -> u64 {
        self.0.iter().map(|(_, cost)| cost).sum()
    }
}

/// Eight workers whose clocks are up to five minutes wrong, each with a mind of its own, charge three times what the
/// quota allows over three hours; every charge is sent twice.
async fn three_hours_of_too_much(world: &World, kind: QuotaKind) -> History {
    const CAPACITY: u64 = 100;
    let random = Random::seeded(7);
    let mut workers = Vec::new();
    for worker in 0..8_i64 {
        let wrong_ms = (worker - 4) * 75_000 + (worker % 3) * 37_501;
        assert!(wrong_ms.unsigned_abs() <= 5 * MINUTE);
        let own = ManualClock::at(world.clock.now());
        workers.push((
            world.process(Some(own.clone())).await.quota(options(kind, CAPACITY)).unwrap(),
            own,
            wrong_ms,
        ));
    }
    // From a minute before a full hour on.
    let (mut history, mut asked, mut at) = (History::default(), 0, 59 * MINUTE);
    while at < 59 * MINUTE + 3 * HOUR {
        world.at(at);
        let now = world.clock.now().as_millis();
        for (_, own, wrong_ms) in &workers {
            own.set(Timestamp::from_millis(now.strict_add_signed(*wrong_ms)));
        }
        let charges = workers.iter().enumerate().map(|(worker, (quota, ..))| {
            let (amount, id) = (1 + (random.draw() * 3.0) as u64, format!("{worker}-{at}"));
            async move {
                let first = quota.charge(cost(amount), Some(&id)).await.unwrap();
                let again = quota.charge(cost(amount), Some(&id)).await.unwrap();
                let is_new =
                    |charge: &QuotaCharge| matches!(charge, QuotaCharge::Charged { is_new: true, .. });
                assert!(!first.is_admitted() || !is_new(&again), "charged twice");
                // What was refused may fit the second time, if a smaller one made room; it counts then.
                (amount, first.is_admitted() || again.is_admitted())
            }
        });
        for (amount, is_charged) in futures_util::future::join_all(charges).await {
            asked += amount;
            if is_charged {
                history.0.push((now, amount));
            }
        }
        // Every few minutes, and around a full hour every few seconds.
        let to_the_hour = (at + MINUTE) % HOUR;
        at += if to_the_hour < 2 * MINUTE { 5_000 } else { (random.draw() * 4.0 * MINUTE as f64) as u64 + 1 };
    }
    assert!(asked >= 3 * 3 * (CAPACITY + 25), "{asked} were asked for");
    history
}

async fn never_more_than_it_allows(on: &'static str, url: String) {
    for kind in KINDS {
        let world = World::new(on, url.clone());
        let history = three_hours_of_too_much(&world, kind).await;
        let (hour, sixty, total) = (history.fullest_hour(), history.fullest_60_minutes(), history.total());
        let found = format!("{on} {kind:?}: {hour} in an hour, {sixty} in 60 minutes, {total} in all");
        if kind != QuotaKind::Sliding {
            assert!(hour <= 100, "{found}");
        }
        if kind != QuotaKind::Aligned {
            assert!(sixty <= 100, "{found}");
        }
        // And all of that, or it would be no quota.
        assert!(total >= if kind == QuotaKind::Aligned { 390 } else { 270 }, "{found}");
        // What the other kinds are for; and that the check can fail.
        assert!(kind != QuotaKind::Aligned || sixty > 190, "{found}");
        let status = world.quota(options(kind, 100)).await.status().await.unwrap();
        let is_of_now = |at: u64| at / HOUR == status.at.as_millis() / HOUR;
        let last = history.0.iter().filter(|(at, _)| is_of_now(*at)).map(|(_, cost)| cost);
        if let Some(aligned) = status.aligned {
            assert_eq!(aligned.used, last.sum::<u64>(), "{found}: what is shown is what was charged");
        }
        assert!(status.hours.iter().all(|hour| hour.most() <= 100), "{found}: {:?}", status.hours);
    }
}

#[tokio::test]
async fn workers_with_wrong_clocks_never_get_more_than_the_quota_on_redis() {
    never_more_than_it_allows("redis", REDIS.url()).await;
}

#[tokio::test]
async fn workers_with_wrong_clocks_never_get_more_than_the_quota_in_a_cluster() {
    never_more_than_it_allows("cluster", CLUSTER.url()).await;
}

/// The time to come back is exact, by either measure and by both.
#[tokio::test]
async fn a_refused_charge_says_when_it_fits() {
    for world in World::everywhere() {
        for kind in KINDS {
            let prefix = format!("family_{}", kind.as_str());
            let quota = world.quota(options(kind, 10).prefix(prefix)).await;
            world.at(30 * MINUTE);
            assert_eq!(
                quota.charge(cost(8), None).await.unwrap(),
                QuotaCharge::Charged { is_new: true, remaining: 2 }
            );
            let QuotaCharge::Refused(refused) = quota.charge(cost(3), None).await.unwrap() else {
                panic!("it does not fit")
            };
            // A bucket of 36 seconds counts until an hour after its end.
            let wait_ms = if kind == QuotaKind::Aligned { 30 * MINUTE } else { HOUR + 36_000 };
            assert_eq!(
                (refused.remaining, refused.retry_after_ms),
                (2, Some(wait_ms)),
                "{} {kind:?}",
                world.on
            );
            assert_eq!(refused.by, if kind == QuotaKind::Aligned { kind } else { refused.by });
            world.at(30 * MINUTE + wait_ms - 1);
            assert!(!quota.charge(cost(3), Some("a")).await.unwrap().is_admitted(), "{} {kind:?}", world.on);
            world.at(30 * MINUTE + wait_ms);
            assert!(quota.charge(cost(3), Some("a")).await.unwrap().is_admitted(), "{} {kind:?}", world.on);
            let QuotaCharge::Refused(never) = quota.charge(cost(11), None).await.unwrap() else {
                panic!("it never fits")
            };
            assert_eq!(never.retry_after_ms, None);
        }
    }
}

/// Both measures, or neither: what one of them refuses is not charged to the other.
#[tokio::test]
async fn both_are_charged_or_neither() {
    for world in World::everywhere() {
        let quota = world.quota(options(QuotaKind::Both, 10)).await;
        world.at(50 * MINUTE);
        quota.charge(cost(8), Some("a")).await.unwrap();
        world.at(HOUR);
        let QuotaCharge::Refused(refused) = quota.charge(cost(5), Some("b")).await.unwrap() else {
            panic!("the last ten minutes count")
        };
        assert_eq!(refused.by, QuotaKind::Sliding, "{}", world.on);
        let status = quota.status().await.unwrap();
        let used = (status.aligned.unwrap().used, status.sliding.unwrap().used);
        assert_eq!((used, status.remaining), ((0, 8), 2), "{}", world.on);
        assert_eq!(quota.release("a").await.unwrap(), Release::Released { is_new: true });
        let status = quota.status().await.unwrap();
        assert_eq!(status.sliding.unwrap().used, 0, "{}", world.on);
        assert!(quota.charge(cost(10), Some("b")).await.unwrap().is_admitted(), "{}", world.on);
    }
}

/// Whoever comes first in an hour notes it, once, and says so; what was used at most stays known for a day.
#[tokio::test]
async fn the_first_charge_of_an_hour_is_noted_once() {
    for world in World::everywhere() {
        let lines = LogLines::default();
        let _log = tracing::subscriber::set_default(lines.clone());
        let (one, other) = match world.on {
            // A store in this process is nobody else's.
            "memory" => {
                let gate = world.process(None).await;
                let open = || gate.quota(options(QuotaKind::Both, 100)).unwrap();
                (open(), open())
            }
            _ => (
                world.quota(options(QuotaKind::Both, 100)).await,
                world.quota(options(QuotaKind::Both, 100)).await,
            ),
        };
        for hour in 0..30_u64 {
            world.at(hour * HOUR + 7 * MINUTE);
            let charges = (0..8).map(|worker| {
                let quota = if worker % 2 == 0 { &one } else { &other };
                async move { quota.charge(cost(2), Some(&format!("{hour}-{worker}"))).await.unwrap() }
            });
            let charged = futures_util::future::join_all(charges).await;
            assert!(charged.iter().all(QuotaCharge::is_admitted));
            // A repeat and what is given back change nothing of what was used at most.
            other.charge(cost(2), Some(&format!("{hour}-0"))).await.unwrap();
            one.release(&format!("{hour}-0")).await.unwrap();
            world.at(hour * HOUR + 9 * MINUTE);
            one.charge(cost(1), None).await.unwrap();
            let said = lines.take("the quota counts a new hour");
            assert_eq!(said.len(), 1, "{}, hour {hour}: {said:?}", world.on);
            let fields = &said[0].fields;
            assert_eq!(fields["family"], "courtlistener");
            assert_eq!(fields["quota"], "100");
            let used = fields.get("used").map(String::as_str);
            // The most by either measure: of the 60 minutes before, what was not given back still counts.
            let most = [None, Some("16"), Some("31")][hour.min(2) as usize];
            assert_eq!(used, most, "{}, hour {hour}", world.on);
        }
        let status = one.status().await.unwrap();
        assert_eq!(status.hours.len(), 24, "{}", world.on);
        for (back, hour) in status.hours.iter().enumerate() {
            let starts_ms = FULL_HOUR_MS + (29 - back as u64) * HOUR;
            assert_eq!(hour.hour.starts_at().as_millis(), starts_ms);
            assert_eq!(hour.first_charge_at.as_millis(), starts_ms + 7 * MINUTE);
            assert_eq!((hour.most_aligned, hour.most_sliding), (Some(16), Some(31)), "{}", world.on);
        }
        assert_eq!(status.hours[0].hour.to_string(), "2024-09-18_19");
        assert_eq!(status.peak().unwrap().hour, status.hours[0].hour, "of equals the last");
        assert_eq!(status.aligned.unwrap().used, 15, "{}", world.on);
        assert_eq!(status.aligned.unwrap().resets_in_ms, 51 * MINUTE);
        // A day without a charge later nothing is left to tell.
        world.at(54 * HOUR);
        let status = one.status().await.unwrap();
        assert_eq!((status.hours.len(), status.remaining), (0, 100), "{}", world.on);
        assert_eq!(status.aligned.unwrap().resets_in_ms, HOUR);
    }
}

/// The counter is that of the calendar limit of the same name: whoever takes from one sees it in the other.
#[tokio::test]
async fn a_limit_of_the_same_name_shares_the_counter() {
    for world in World::everywhere() {
        for limit_first in [true, false] {
            let gate = world.process(None).await;
            let hourly = Calendar::new(125, Period::Hour).unwrap().with_safety_buffer(25).unwrap();
            let limit = || gate.limit("rate_limit", hourly, LimitOptions::default()).unwrap();
            let early = limit_first.then(limit);
            let quota = gate.quota(options(QuotaKind::Aligned, 100)).unwrap();
            let limit = early.unwrap_or_else(limit);
            limit.reset(Key::EVERYONE).await.unwrap();
            assert!(limit.take(Key::EVERYONE, cost(30)).await.unwrap().is_admitted());
            assert_eq!(
                quota.charge(cost(50), Some("a")).await.unwrap(),
                QuotaCharge::Charged { is_new: true, remaining: 20 },
                "{}, {limit_first}",
                world.on
            );
            assert!(!limit.take(Key::EVERYONE, cost(21)).await.unwrap().is_admitted(), "{}", world.on);
            quota.release("a").await.unwrap();
            assert_eq!(limit.peek(Key::EVERYONE).await.unwrap().quota().remaining, 70, "{}", world.on);
            // With other numbers it would be two quotas on one counter.
            let error = gate.quota(options(QuotaKind::Aligned, 101)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid);
        }
    }
    let world = World::new("memory", "memory:".to_owned());
    let gate = world.process(None).await;
    let hourly = Calendar::new(99, Period::Hour).unwrap();
    gate.limit("rate_limit", hourly, LimitOptions::default()).unwrap();
    let error = gate.quota(options(QuotaKind::Aligned, 100)).unwrap_err();
    assert!(error.to_string().contains("other numbers"), "{error}");
}

/// Families are apart; one asked for again is the same.
#[tokio::test]
async fn families_are_apart() {
    for world in World::everywhere() {
        let gate = world.process(None).await;
        let open = |prefix: &str| gate.quota(options(QuotaKind::Both, 10).prefix(prefix.to_owned())).unwrap();
        let (one, again, other) = (open("one"), open("one"), open("other"));
        one.charge(cost(9), Some("a")).await.unwrap();
        assert_eq!(again.status().await.unwrap().remaining, 1, "{}", world.on);
        assert_eq!(other.status().await.unwrap().remaining, 10, "{}", world.on);
        assert!(other.charge(cost(9), Some("a")).await.unwrap().is_admitted(), "{}", world.on);
        let error = gate.quota(options(QuotaKind::Aligned, 10).prefix("one".to_owned())).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    }
}

/// What is not allowed is an error that says what is.
#[tokio::test]
async fn options_are_checked() {
    let gate = Tidegate::open("memory:").await.unwrap();
    let bad = [
        (options(QuotaKind::Both, 1).limit(0), "0 per hour"),
        (options(QuotaKind::Sliding, 1).limit(25), "leaves nothing of a limit of 25"),
        (options(QuotaKind::Aligned, 1).counter_ttl(Duration::from_secs(32 * 86_400)), "up to 31 days"),
        (options(QuotaKind::Aligned, 1).max_charges(0), "remembers 0 charges"),
        (options(QuotaKind::Aligned, 1).prefix("session".to_owned()), "the prefix \"session\""),
    ];
    for (options, why) in bad {
        let error = gate.quota(options).unwrap_err();
        assert!(error.kind() == ErrorKind::Invalid && error.to_string().contains(why), "{error}");
    }
    let quota = gate.quota(QuotaOptions::new()).unwrap();
    assert_eq!(quota.options().capacity(), 4975);
    assert_eq!(quota.charge(Cost::ONE, Some("")).await.unwrap_err().kind(), ErrorKind::Invalid);
    let reused = async {
        quota.charge(cost(2), Some("a")).await.unwrap();
        quota.charge(cost(3), Some("a")).await
    };
    assert_eq!(reused.await.unwrap_err().kind(), ErrorKind::Conflict);
}

/// A client that sends again on a timeout, behind a proxy that swallows answers: all is charged once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_charge_sent_twice_is_counted_once() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.port()).await;
    let clock = ManualClock::at(Timestamp::from_millis(FULL_HOUR_MS));
    let quota = behind(&proxy, &clock).await.quota(options(QuotaKind::Both, 1000)).unwrap();
    let mut repeated = 0;
    for i in 0..10_u64 {
        let id = format!("docket-{i}");
        proxy.set(Fault::SwallowAnswers);
        assert!(quota.charge(cost(i + 1), Some(&id)).await.unwrap_err().is_transient());
        proxy.set(Fault::None);
        proxy.close_connections();
        for _ in 0..2 {
            match insistently(async || quota.charge(cost(i + 1), Some(&id)).await).await {
                QuotaCharge::Charged { is_new, .. } => repeated += u64::from(!is_new),
                other => panic!("{other:?}"),
            }
        }
    }
    let status = insistently(async || quota.status().await).await;
    assert_eq!((status.aligned.unwrap().used, status.sliding.unwrap().used), (55, 55));
    assert!(repeated > 10, "some were charged though nobody heard of it: {repeated}");
    let stored: u64 = redis::cmd("GET")
        .arg("courtlistener:rate_limit:2024-09-17_14")
        .query(&mut server.connection())
        .unwrap();
    assert_eq!(stored, 55);
}

/// A restarted server has forgotten all, a frozen one does not answer: an error within the deadline, or done.
#[tokio::test]
async fn a_server_that_is_away_is_an_error_and_not_a_guess() {
    let mut server = RedisServer::start();
    let mut store = StoreOptions::default();
    store.deadline = Duration::from_millis(300);
    let quota = Tidegate::open_with(&server.url(), store)
        .await
        .unwrap()
        .quota(options(QuotaKind::Both, 100))
        .unwrap();
    assert!(quota.charge(cost(1), Some("a")).await.unwrap().is_admitted());
    server.freeze();
    let error = quota.charge(cost(1), Some("b")).await.unwrap_err();
    assert!(error.is_transient(), "{error}");
    assert!(quota.status().await.unwrap_err().is_transient());
    server.thaw();
    insistently(async || quota.charge(cost(1), Some("b")).await).await;
    assert_eq!(quota.status().await.unwrap().remaining, 98, "the one that waited in the socket is the same");
    server.kill();
    assert!(quota.charge(cost(1), Some("c")).await.unwrap_err().is_transient());
    server.restart();
    insistently(async || quota.charge(cost(1), Some("c")).await).await;
    assert_eq!(server.keys_without_ttl(), Vec::<String>::new());
}
