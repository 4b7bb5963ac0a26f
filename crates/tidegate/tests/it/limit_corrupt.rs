//! Keys of a limit that somebody else has written, beside the one that counts: leases,
//! reservations, overrides and the indices of both. What is read of them is told to be corrupt,
//! nothing is done by halves, and a reset repairs it.

use std::num::NonZeroU32;
use std::time::Duration;

use tidegate::clock::{ManualClock, Timestamp};
use tidegate::limit::{Algorithm, LeaseOptions, Limit, LimitOptions, Period, Reserve, Source};
use tidegate::store::StoreOptions;
use tidegate::testkit::limit::{calendar, rate, sliding, token};
use tidegate::testkit::{RedisServer, unique};
use tidegate::{AfterLoss, Cost, Error, ErrorKind, Key, Name, Outage, Tidegate};

use crate::kit::{FEW_KEYS, FEW_KEYS_CLUSTER};

/// Early in an hour: no window ends while a test runs.
const START_MS: u64 = 1_700_002_800_000;

fn key() -> Key<'static> {
    Key::new("a:{b}").unwrap()
}

/// A store, and the servers behind it.
struct On {
    url: String,
    servers: Vec<&'static RedisServer>,
}

impl On {
    fn all() -> [Self; 2] {
        let cluster = FEW_KEYS_CLUSTER.nodes().iter().collect();
        [
            Self { url: FEW_KEYS.url(), servers: vec![&FEW_KEYS] },
            Self { url: FEW_KEYS_CLUSTER.url(), servers: cluster },
        ]
    }

    /// Runs a command where its key is.
    fn run(&self, command: &[&str]) -> redis::Value {
        let answers = self.servers.iter().map(|server| {
            redis::cmd(command[0]).arg(&command[1..]).query::<redis::Value>(&mut server.connection())
        });
        let mut failed = None;
        for answer in answers {
            match answer {
                Ok(value) => return value,
                Err(error) => failed = Some(error),
            }
        }
        panic!("{command:?}: {failed:?}")
    }

    /// The keys that end so.
    fn keys(&self, pattern: &str) -> Vec<String> {
        let of = |server: &&RedisServer| {
            redis::cmd("KEYS").arg(pattern).query::<Vec<String>>(&mut server.connection()).unwrap()
        };
        self.servers.iter().flat_map(of).collect()
    }
}

struct Case<'a> {
    on: &'a On,
    namespace: String,
    gate: Tidegate,
    limit: Limit,
    clock: ManualClock,
}

impl<'a> Case<'a> {
    async fn new(on: &'a On, algorithm: impl Into<Algorithm>, options: LimitOptions) -> Self {
        let (namespace, clock) = (unique("corrupt"), ManualClock::at(Timestamp::from_millis(START_MS)));
        let mut store = StoreOptions::default();
        store.clock = clock.clone().into();
        store.deadline = Duration::from_secs(10);
        store.namespace = Some(Name::new(&namespace).unwrap());
        let gate = Tidegate::open_with(&on.url, store).await.unwrap();
        let limit = gate.limit("api", algorithm.into(), options).unwrap();
        Self { on, namespace, gate, limit, clock }
    }

    async fn take(&self) -> Result<bool, Error> {
        self.limit.take(key(), Cost::ONE).await.map(|it| it.is_admitted())
    }

    async fn reserve(&self, id: &str) -> Result<Reserve, Error> {
        self.limit.reserve(key(), id, Cost::ONE, Duration::from_secs(30)).await
    }

    async fn override_it(&self) -> Result<(), Error> {
        self.limit.set_override(key(), rate("20/m"), Duration::from_secs(30)).await.map(drop)
    }

    fn key_of(&self, family: &str) -> String {
        let found = self.on.keys(&format!("{}:*:api:{family}*", self.namespace));
        let is_it = |key: &&String| key.ends_with(family) || key.contains(&format!(":api:{family}:"));
        found.iter().find(is_it).unwrap_or_else(|| panic!("no {family} among {found:?}")).clone()
    }

    /// Puts something else in the place of a family's key; its name.
    fn plant(&self, family: &str, name: Option<String>, plant: &[&str]) -> String {
        let name = name.unwrap_or_else(|| self.key_of(family));
        self.on.run(&["DEL", &name]);
        self.on.run(&[&[plant[0], name.as_str()], &plant[1..]].concat());
        name
    }

    /// Everything that can be asked of the key, by name.
    async fn everything(&self) -> Vec<(&'static str, Result<(), Error>)> {
        let (limit, second) = (&self.limit, Duration::from_secs(30));
        let cost = Cost::ONE;
        let mut all = vec![
            ("take", limit.take(key(), cost).await.map(drop)),
            ("take_all", self.gate.take_all(key(), &[(limit, cost)]).await.map(drop)),
            ("peek", limit.peek(key()).await.map(drop)),
            ("get_override", limit.get_override(key()).await.map(drop)),
            ("overrides", limit.overrides(None, 10).await.map(drop)),
        ];
        if limit.algorithm().name() != "token" {
            all.extend([
                ("see", limit.reservation(key(), "one").await.map(drop)),
                ("reserve", limit.reserve(key(), &unique("id"), cost, second).await.map(drop)),
                ("commit", limit.commit(key(), "one").await.map(drop)),
                ("release", limit.release(key(), "two").await.map(drop)),
                ("reservations", limit.reservations(None, 10).await.map(drop)),
            ]);
        }
        all.push(("set_override", limit.set_override(key(), rate("20/m"), second).await.map(drop)));
        all.push(("clear_override", limit.clear_override(key()).await.map(drop)));
        all
    }
}

#[track_caller]
fn assert_names(error: &Error, key: &str) {
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    assert!(error.to_string().contains(&format!("{key:?}")), "{key} is not named: {error}");
}

const PLANTS: [&[&str]; 5] =
    [&["SET", "x"], &["RPUSH", "x"], &["SADD", "x"], &["HSET", "h", "x"], &["ZADD", "1", "x"]];

/// Whatever is in the place of a family's key, calls that read it say so and name it, the others
/// go on, and after a reset nobody is disturbed any more.
async fn is_reported_and_repaired(algorithm: Algorithm, families: &[&str]) {
    for on in On::all() {
        for family in families {
            for plant in PLANTS {
                let s = Case::new(&on, algorithm, LimitOptions::default()).await;
                s.override_it().await.unwrap();
                if algorithm.name() != "token" {
                    s.reserve("one").await.unwrap();
                    s.reserve("two").await.unwrap();
                }
                let name = s.plant(family, None, plant);
                let what = format!("{plant:?} at {name}");
                for (call, answer) in s.everything().await {
                    if let Err(error) = answer {
                        assert_eq!(error.kind(), ErrorKind::Corrupt, "{what}, {call}: {error}");
                        assert!(error.to_string().contains(&format!("{name:?}")), "{what}, {call}: {error}");
                    }
                }
                s.plant(family, Some(name.clone()), plant);
                s.limit.reset(key()).await.unwrap_or_else(|error| panic!("{what}: {error}"));
                for (call, answer) in s.everything().await {
                    answer.unwrap_or_else(|error| panic!("{what}, {call} after a reset: {error}"));
                }
            }
        }
    }
}

#[tokio::test]
async fn what_is_beside_a_sliding_key_is_reported_and_repaired() {
    let families = ["reservations", "reservations_due", "override", "pending", "overrides"];
    is_reported_and_repaired(sliding(1000, 60, 600).into(), &families).await;
}

#[tokio::test]
async fn what_is_beside_a_calendar_key_is_reported_and_repaired() {
    let families = ["reservations", "reservations_due", "override", "pending", "overrides"];
    is_reported_and_repaired(calendar(1000, Period::Hour).into(), &families).await;
}

#[tokio::test]
async fn what_is_beside_a_token_key_is_reported_and_repaired() {
    is_reported_and_repaired(token("10/s", 100).into(), &["override", "overrides"]).await;
}

/// A call that fails because of an index has done nothing: no charge, no override.
#[tokio::test]
async fn what_fails_for_an_index_is_not_done_by_halves() {
    for on in On::all() {
        let s = Case::new(&on, sliding(1000, 60, 600), LimitOptions::default()).await;
        for id in ["one", "two"] {
            s.reserve(id).await.unwrap();
        }
        s.override_it().await.unwrap();
        let (pending, overrides) = (s.key_of("pending"), s.key_of("overrides"));
        let override_key = s.key_of("override");
        s.limit.clear_override(key()).await.unwrap();
        let used = async || 1000 - s.limit.peek(key()).await.unwrap().quota().remaining;
        assert_eq!(used().await, 2);
        s.plant("pending", Some(pending.clone()), &["SET", "x"]);
        s.plant("overrides", Some(overrides.clone()), &["SET", "x"]);
        assert_names(&s.reserve("three").await.unwrap_err(), &pending);
        assert_names(&s.limit.commit(key(), "one").await.unwrap_err(), &pending);
        assert_names(&s.limit.release(key(), "two").await.unwrap_err(), &pending);
        assert_names(&s.override_it().await.unwrap_err(), &overrides);
        assert_names(&s.limit.overrides(None, 5).await.unwrap_err(), &overrides);
        assert_names(&s.limit.reservations(None, 5).await.unwrap_err(), &pending);
        assert_eq!(used().await, 2, "{}", on.url);
        assert_eq!(s.on.run(&["EXISTS", &override_key]), redis::Value::Int(0));
        for id in ["one", "two"] {
            let seen = s.limit.reservation(key(), id).await.unwrap().unwrap();
            assert_eq!(seen.state.as_str(), "pending");
        }
        assert_eq!(s.limit.reservation(key(), "three").await.unwrap(), None);
    }
}

/// A record that cannot be read, in a key of the right type; and one key of many does not keep
/// the others from being listed.
#[tokio::test]
async fn a_broken_record_hides_no_other_key() {
    for on in On::all() {
        let s = Case::new(&on, sliding(1000, 60, 600), LimitOptions::default()).await;
        s.reserve("one").await.unwrap();
        s.override_it().await.unwrap();
        let (records, override_key) = (s.key_of("reservations"), s.key_of("override"));
        let other = Key::new("other").unwrap();
        s.limit.reserve(other, "one", Cost::ONE, Duration::from_secs(60)).await.unwrap();
        s.limit.set_override(other, rate("20/m"), Duration::from_secs(60)).await.unwrap();
        on.run(&["HSET", &records, "one", "x"]);
        s.plant("override", Some(override_key.clone()), &["SADD", "x"]);
        assert_names(&s.limit.reservation(key(), "one").await.unwrap_err(), &records);
        assert_names(&s.take().await.unwrap_err(), &override_key);
        let error = s.gate.take_all(key(), &[(&s.limit, Cost::ONE)]).await.unwrap_err();
        assert_names(&error, &override_key);
        let overrides = s.limit.overrides(None, 10).await.unwrap();
        let reservations = s.limit.reservations(None, 10).await.unwrap();
        assert_eq!(overrides.items.iter().map(|it| it.key.as_str()).collect::<Vec<_>>(), ["other"]);
        assert_eq!(reservations.items.iter().map(|it| it.key.as_str()).collect::<Vec<_>>(), ["other"]);
        s.limit.reset(key()).await.unwrap();
        assert!(s.take().await.unwrap());
        assert!(matches!(s.reserve("one").await.unwrap(), Reserve::Held(it) if it.is_new));
        // What others have is not the reset's business.
        assert!(s.limit.get_override(other).await.unwrap().is_some());
        assert_eq!(s.limit.reservations(None, 10).await.unwrap().items.len(), 2);
    }
}

fn leased() -> LimitOptions {
    let mut options = LimitOptions::default();
    let mut lease = LeaseOptions::default();
    lease.nodes = NonZeroU32::new(1).unwrap();
    options.lease = Some(lease);
    options.outage = Outage::Open;
    options
}

/// Leases that cannot be read are no outage: nobody is let through by policy for it.
#[tokio::test]
async fn corrupt_leases_are_reported_and_a_reset_repairs_them() {
    for on in On::all() {
        for plant in [&["SET", "x"][..], &["ZADD", "1", "x"], &["HSET", "h", "x"]] {
            let s = Case::new(&on, sliding(100_000, 60, 600), leased()).await;
            assert!(s.take().await.unwrap());
            let name = s.key_of("leases");
            let s = Case { limit: reopened(&s, &on).await, ..s };
            s.plant("leases", Some(name.clone()), plant);
            for _ in 0..3 {
                assert_names(&s.take().await.unwrap_err(), &name);
                s.clock.advance_ms(150);
            }
            s.limit.reset(key()).await.unwrap();
            let decision = s.limit.take(key(), Cost::ONE).await.unwrap();
            assert_eq!((decision.is_admitted(), decision.source()), (true, Source::Lease), "{plant:?}");
        }
    }
}

/// The limit on another node, which holds nothing yet.
async fn reopened(s: &Case<'_>, on: &On) -> Limit {
    let mut store = StoreOptions::default();
    store.clock = s.clock.clone().into();
    store.deadline = Duration::from_secs(10);
    store.namespace = Some(Name::new(&s.namespace).unwrap());
    let gate = Tidegate::open_with(&on.url, store).await.unwrap();
    gate.limit("api", sliding(100_000, 60, 600), leased()).unwrap()
}

/// A reset charges anew what nodes may still spend, though the record of one cannot be read.
#[tokio::test]
async fn a_reset_charges_the_leases_that_can_be_read() {
    for on in On::all() {
        let s = Case::new(&on, sliding(100_000, 60, 600), leased()).await;
        assert!(s.take().await.unwrap());
        let name = s.key_of("leases");
        // On either side of the one that is whole, whatever the order is.
        for field in ["0", "8888888888888888", "zz"] {
            on.run(&["HSET", &name, field, "x"]);
        }
        s.limit.reset(key()).await.unwrap();
        let held = 100_000 - s.limit.peek(key()).await.unwrap().quota().remaining;
        assert_eq!(held, 16, "the first block is what the node may spend: {}", on.url);
        assert_eq!(on.run(&["HLEN", &name]), redis::Value::Int(1));
    }
}

/// Reservations that a reset voids leave the index of pending ones.
#[tokio::test]
async fn a_reset_takes_its_reservations_out_of_the_index() {
    for on in On::all() {
        for algorithm in [sliding(5000, 60, 600).into(), Algorithm::from(calendar(5000, Period::Hour))] {
            let s = Case::new(&on, algorithm, LimitOptions::default()).await;
            let ids: Vec<String> = (0..1203).map(|number| format!("id:{number}")).collect();
            futures_util::future::join_all(ids.iter().map(|id| s.reserve(id))).await;
            s.limit.commit(key(), "id:7").await.unwrap();
            let near = Key::new("near").unwrap();
            s.limit.reserve(near, "id:7", Cost::ONE, Duration::from_secs(31)).await.unwrap();
            let pending: i64 =
                on.keys(&format!("{}:*:api:pending", s.namespace)).iter().map(|key| zcard(&on, key)).sum();
            assert_eq!(pending, 1203);
            s.limit.reset(key()).await.unwrap();
            let left: i64 =
                on.keys(&format!("{}:*:api:pending", s.namespace)).iter().map(|key| zcard(&on, key)).sum();
            assert_eq!(left, 1, "{}", on.url);
            let page = s.limit.reservations(None, 1).await.unwrap();
            assert_eq!((page.items.len(), page.items[0].key.as_str()), (1, "near"));
            // An id of before may be used again.
            s.reserve("id:7").await.unwrap();
            assert_eq!(s.limit.reservations(None, 10).await.unwrap().items.len(), 2);
        }
    }
}

fn zcard(on: &On, key: &str) -> i64 {
    match on.run(&["ZCARD", key]) {
        redis::Value::Int(count) => count,
        other => panic!("{other:?}"),
    }
}

/// In this process the index is not to be seen, but a page that looks at what is void is empty.
#[tokio::test]
async fn a_reset_takes_its_reservations_out_of_the_index_in_memory() {
    let clock = ManualClock::at(Timestamp::from_millis(START_MS));
    let mut options = StoreOptions::default();
    options.clock = clock.clone().into();
    let gate = Tidegate::open_with("memory:", options).await.unwrap();
    for (name, algorithm) in
        [("s", Algorithm::from(sliding(50, 60, 600))), ("c", calendar(50, Period::Hour).into())]
    {
        let limit = gate.limit(name, algorithm, LimitOptions::default()).unwrap();
        for id in ["1", "2", "3"] {
            limit.reserve(key(), id, Cost::ONE, Duration::from_secs(30)).await.unwrap();
        }
        let near = Key::new("near").unwrap();
        limit.reserve(near, "1", Cost::ONE, Duration::from_secs(31)).await.unwrap();
        limit.reset(key()).await.unwrap();
        let page = limit.reservations(None, 1).await.unwrap();
        assert_eq!((page.items.len(), page.next), (1, None));
        assert_eq!(page.items[0].key, "near");
    }
}

/// A leased limit that is held after a loss says so, for as long as it is, as one without a
/// lease does.
#[tokio::test]
async fn a_leased_limit_under_a_hold_says_that_the_store_lost_writes() {
    let redis = RedisServer::start();
    let server: &'static RedisServer = Box::leak(Box::new(redis));
    let on = On { url: server.url(), servers: vec![server] };
    let mut options = leased();
    options.after_loss = AfterLoss::Hold;
    let s = Case::new(&on, sliding(1_000_000, 600, 6000), options).await;
    assert!(s.take().await.unwrap());
    on.run(&["FLUSHALL"]);
    let mut plain = LimitOptions::default();
    plain.after_loss = AfterLoss::Hold;
    let plain = s.gate.limit("plain", sliding(1_000_000, 600, 6000), plain).unwrap();
    let other = Key::new("not held here").unwrap();
    for waited_ms in [0, 59_000, 61_000, 300_000] {
        s.clock.set(Timestamp::from_millis(START_MS + waited_ms));
        let refused = s.limit.take(other, Cost::ONE).await.unwrap();
        let expected = plain.take(other, Cost::ONE).await.unwrap();
        let tidegate::limit::Decision::Rejected(held) = refused else { panic!("{refused:?}") };
        let tidegate::limit::Decision::Rejected(plainly) = expected else { panic!("{expected:?}") };
        assert_eq!((held.cause, held.source), (plainly.cause, plainly.source), "after {waited_ms} ms");
        // What was set aside before the loss may be spent for a lease longer.
        let (wait, plain_wait) = (held.wait.unwrap(), plainly.wait.unwrap());
        assert_eq!(wait.retry_after_ms, plain_wait.retry_after_ms + 5000, "after {waited_ms} ms");
        assert_eq!(wait.remaining_after_waiting, plain_wait.remaining_after_waiting);
    }
    s.clock.set(Timestamp::from_millis(START_MS + 605_000));
    assert!(s.limit.take(other, Cost::ONE).await.unwrap().is_admitted());
}
