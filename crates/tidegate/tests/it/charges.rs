//! What charges by an id promise beside the cases of [`tidegate::testkit::limit`]: through a store that is away or
//! does not answer, and in what they leave behind.

use std::time::Duration;

use tidegate::clock::{ManualClock, Timestamp};
use tidegate::limit::{Algorithm, AllCharge, Charge, InProcess, Limit, LimitOptions, Period, Release};
use tidegate::store::StoreOptions;
use tidegate::testkit::limit::{calendar, sliding, token};
use tidegate::testkit::{Fault, FaultProxy, RedisServer};
use tidegate::{Cost, ErrorKind, Key, Result, Tidegate};

use crate::kit::{On, REDIS};

const START_MS: u64 = 1_700_000_040_000;

fn clock() -> ManualClock {
    ManualClock::at(Timestamp::from_millis(START_MS))
}

fn key() -> Key<'static> {
    Key::new("user:{1}").unwrap()
}

fn limits(gate: &Tidegate) -> [Limit; 2] {
    let open =
        |name: &str, algorithm: Algorithm| gate.limit(name, algorithm, LimitOptions::default()).unwrap();
    [open("minute", sliding(10_000, 60, 600).into()), open("hour", calendar(10_000, Period::Hour).into())]
}

/// Sends again until there is an answer, as a client does that retries on a timeout; for a minute at most.
pub(crate) async fn insistently<T>(mut send: impl AsyncFnMut() -> Result<T>) -> T {
    let answer = async {
        loop {
            match send().await {
                Ok(answer) => return answer,
                Err(error) => assert!(error.is_transient(), "{error}"),
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), answer).await.expect("an answer in the end")
}

/// Opens a store through a proxy; a call waits no longer than a moment.
pub(crate) async fn behind(proxy: &FaultProxy, clock: &ManualClock) -> Tidegate {
    let mut options = StoreOptions::default();
    options.clock = clock.clone().into();
    options.deadline = Duration::from_millis(200);
    Tidegate::open_with(&proxy.url(), options).await.unwrap()
}

/// The store does what it is told, and nobody hears of it: sent again, it is charged once, and given back once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_charge_whose_answer_is_lost_is_charged_once() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.port()).await;
    let (clock, mut repeated, mut given_back_before) = (clock(), 0, 0);
    let gate = behind(&proxy, &clock).await;
    let [minute, hour] = limits(&gate);
    let both = [(&minute, Cost::new(3).unwrap()), (&hour, Cost::new(5).unwrap())];
    const CHARGES: u64 = 12;
    for i in 0..CHARGES {
        let id = format!("charge-{i}");
        // Until it arrived: then the answer is swallowed, and somebody else has to say so.
        proxy.set(Fault::SwallowAnswers);
        let lost = gate.charge_all(key(), &both, &id).await.unwrap_err();
        assert!(lost.is_transient(), "{lost}");
        proxy.set(Fault::None);
        proxy.close_connections();
        match insistently(async || gate.charge_all(key(), &both, &id).await).await {
            AllCharge::Charged { is_new, .. } => repeated += u64::from(!is_new),
            other => panic!("{other:?}"),
        }
        if i % 3 == 0 {
            proxy.set(Fault::SwallowAnswers);
            assert!(gate.release_all(key(), &[&minute, &hour], &id).await.is_err());
            proxy.set(Fault::None);
            proxy.close_connections();
            match insistently(async || gate.release_all(key(), &[&minute, &hour], &id).await).await {
                Release::Released { is_new } => given_back_before += u64::from(!is_new),
                Release::Unknown => panic!("{id} is known"),
            }
        }
    }
    let charged = CHARGES - CHARGES / 3;
    assert_eq!(minute.peek(key()).await.unwrap().quota().remaining, 10_000 - 3 * charged);
    assert_eq!(hour.peek(key()).await.unwrap().quota().remaining, 10_000 - 5 * charged);
    // Calls that found the breaker open were never sent; but some were, or it would show nothing.
    assert!(
        repeated > 0 && given_back_before > 0,
        "{repeated} repeated, {given_back_before} given back before"
    );
}

/// Who does not know whether a charge was made, and gives it back, is not charged by what was still on its way: the
/// release took another way and was faster.
#[tokio::test]
async fn a_charge_that_comes_after_its_release_is_not_made() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.port()).await;
    let clock = clock();
    let options = StoreOptions::new().clock(clock.clone().into()).deadline(Duration::from_secs(10));
    let direct = Tidegate::open_with(&server.url(), options).await.unwrap();
    let slow = behind(&proxy, &clock).await;
    let ([minute, hour], [other_minute, other_hour]) = (limits(&slow), limits(&direct));
    let both = [(&minute, Cost::ONE), (&hour, Cost::ONE)];
    proxy.set(Fault::Freeze);
    assert!(slow.charge_all(key(), &both, "late").await.unwrap_err().is_transient());
    let released = direct.release_all(key(), &[&other_minute, &other_hour], "late").await.unwrap();
    assert_eq!(released, Release::Unknown);
    proxy.set(Fault::None);
    // What waited comes first, on the same connection or before the next one is there.
    let answer = insistently(async || slow.charge_all(key(), &both, "late").await).await;
    assert_eq!(answer, AllCharge::Released);
    assert_eq!(other_minute.peek(key()).await.unwrap().quota().remaining, 10_000);
    assert_eq!(other_hour.peek(key()).await.unwrap().quota().remaining, 10_000);
    assert_eq!(server.keys_without_ttl(), Vec::<String>::new());
}

/// Nothing is guessed while the store is away, whatever the policies of the limits are: who does not know whether a
/// charge was made sends it again.
#[tokio::test]
async fn an_absent_store_is_an_error_within_the_deadline() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.port()).await;
    let gate = behind(&proxy, &clock()).await;
    let [minute, hour] = limits(&gate);
    proxy.set(Fault::Freeze);
    let both = [(&minute, Cost::ONE), (&hour, Cost::ONE)];
    let started = tidegate::clock::monotonic();
    let error = gate.charge_all(key(), &both, "a").await.unwrap_err();
    assert!(error.is_transient(), "{error}");
    let error = gate.release_all(key(), &[&minute, &hour], "a").await.unwrap_err();
    assert!(error.is_transient(), "{error}");
    assert!(started.elapsed() < Duration::from_secs(10));
    proxy.set(Fault::None);
    insistently(async || gate.charge_all(key(), &both, "a").await).await;
    assert_eq!(
        hour.peek(key()).await.unwrap().quota().remaining,
        9_999,
        "what waited in the socket was the same"
    );
}

/// Scripts that are gone, and a server that was restarted with nothing, are nothing to a charge.
#[tokio::test]
async fn a_flushed_script_is_sent_again() {
    let server = RedisServer::start();
    let gate = On::url(server.url()).open(clock(), 1).await;
    let [minute, hour] = limits(&gate);
    let both = [(&minute, Cost::ONE), (&hour, Cost::ONE)];
    for i in 0..3 {
        redis::cmd("SCRIPT").arg("FLUSH").exec(&mut server.connection()).unwrap();
        gate.charge_all(key(), &both, &format!("c{i}")).await.unwrap();
        redis::cmd("SCRIPT").arg("FLUSH").exec(&mut server.connection()).unwrap();
        let released = gate.release_all(key(), &[&minute, &hour], &format!("c{i}")).await.unwrap();
        assert_eq!(released, Release::Released { is_new: true });
    }
    assert_eq!(server.keys_without_ttl(), Vec::<String>::new());
}

/// What stands in the way of one limit is found before any of them is charged.
#[tokio::test]
async fn what_is_corrupt_charges_nothing() {
    let server = RedisServer::start();
    let gate = On::url(server.url()).open(clock(), 1).await;
    let [minute, hour] = limits(&gate);
    let both = [(&minute, Cost::ONE), (&hour, Cost::ONE)];
    let mut redis = server.connection();
    for planted in ["reservations", "reservations_due"] {
        minute.reset(key()).await.unwrap();
        gate.charge_all(key(), &both, planted).await.unwrap();
        let pattern = format!("*:hour:{planted}:*");
        let stored: Vec<String> = redis::cmd("KEYS").arg(&pattern).query(&mut redis).unwrap();
        redis::cmd("SET").arg(&stored[0]).arg("nonsense").arg("KEEPTTL").exec(&mut redis).unwrap();
        let error = gate.charge_all(key(), &both, "other").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{planted}: {error}");
        let error = gate.release_all(key(), &[&minute, &hour], planted).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{planted}: {error}");
        assert_eq!(minute.peek(key()).await.unwrap().quota().remaining, 9_999, "{planted}");
        hour.reset(key()).await.unwrap();
    }
    gate.charge_all(key(), &both, "after the reset").await.unwrap();
}

/// A counter that somebody else has written to, so that nothing can be added to it, is found before any other is
/// charged: by charges, takes and releases of several limits, whichever comes first.
#[tokio::test]
async fn a_counter_that_is_no_number_charges_no_other_limit() {
    let server = RedisServer::start();
    let gate = On::url(server.url()).open(clock(), 1).await;
    let [minute, hour] = limits(&gate);
    let mut redis = server.connection();
    let (mut in_order, mut other) = ([(&minute, Cost::ONE), (&hour, Cost::ONE)], 0);
    gate.charge_all(key(), &in_order, "before").await.unwrap();
    let counter: Vec<String> = redis::cmd("KEYS").arg("*:hour:20*").query(&mut redis).unwrap();
    for text in ["text", "", "007", "1e1", "12.5", " 5", "5 ", "0x10", "-0", "nan", "-inf"] {
        redis::cmd("SET").arg(&counter[0]).arg(text).arg("KEEPTTL").exec(&mut redis).unwrap();
        for _ in 0..2 {
            in_order.reverse();
            other += 1;
            let charged = gate.charge_all(key(), &in_order, &other.to_string()).await.unwrap_err();
            let taken = gate.take_all(key(), &in_order).await.unwrap_err();
            for error in [charged, taken] {
                assert_eq!(error.kind(), ErrorKind::Corrupt, "{text:?}: {error}");
                assert!(error.to_string().contains(&counter[0]), "{text:?}: {error}");
            }
            assert_eq!(minute.peek(key()).await.unwrap().quota().remaining, 9_999, "{text:?}");
            // Nothing is known of it either.
            let ids = [&minute, &hour];
            let released = gate.release_all(key(), &ids, &other.to_string()).await.unwrap();
            assert_eq!(released, Release::Unknown, "{text:?}");
        }
    }
    // What was charged before can be given back: to the one it still counts in, and nothing to the other.
    redis::cmd("SET").arg(&counter[0]).arg("1e1").arg("KEEPTTL").exec(&mut redis).unwrap();
    let released = gate.release_all(key(), &[&minute, &hour], "before").await.unwrap();
    assert_eq!(released, Release::Released { is_new: true });
    assert_eq!(minute.peek(key()).await.unwrap().quota().remaining, 10_000);
    let left: String = redis::cmd("GET").arg(&counter[0]).query(&mut redis).unwrap();
    assert_eq!(left, "1e1");
    hour.reset(key()).await.unwrap();
    gate.charge_all(key(), &in_order, "after the reset").await.unwrap();
    // Of another type it gives nothing back by halves.
    redis::cmd("DEL").arg(&counter[0]).exec(&mut redis).unwrap();
    redis::cmd("RPUSH").arg(&counter[0]).arg("x").exec(&mut redis).unwrap();
    for _ in 0..2 {
        let error = gate.release_all(key(), &[&minute, &hour], "after the reset").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        assert_eq!(minute.peek(key()).await.unwrap().quota().remaining, 9_999);
    }
}

/// The same of a bucket of a sliding limit that is held for later: the charge that comes to it would add to it.
#[tokio::test]
async fn a_bucket_that_is_no_number_charges_no_other_limit() {
    let (server, clock) = (RedisServer::start(), clock());
    let gate = On::url(server.url()).open(clock.clone(), 1).await;
    let [minute, hour] = limits(&gate);
    let mut redis = server.connection();
    let both = [(&hour, Cost::ONE), (&minute, Cost::ONE)];
    minute.reserve(key(), "held", Cost::ONE, Duration::from_secs(30)).await.unwrap();
    let stored: Vec<String> = redis::cmd("KEYS").arg("*:minute:absolute:h:*").query(&mut redis).unwrap();
    let fields: Vec<String> = redis::cmd("HKEYS").arg(&stored[0]).query(&mut redis).unwrap();
    let bucket = fields.iter().find(|field| field.parse::<u64>().is_ok()).expect("a bucket ahead");
    redis::cmd("HSET").arg(&stored[0]).arg(bucket).arg("text").exec(&mut redis).unwrap();
    // When that bucket begins.
    clock.set(Timestamp::from_millis(bucket.parse::<u64>().unwrap() * 600));
    for id in ["a", "b"] {
        let error = gate.charge_all(key(), &both, id).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        let error = gate.take_all(key(), &both).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        assert_eq!(hour.peek(key()).await.unwrap().quota().remaining, 10_000);
    }
}

/// One limit alone has the same, on any store and in this process.
#[tokio::test]
async fn one_limit_alone_charges_by_an_id_too() {
    for on in [On::url("memory:"), On::url(REDIS.url()), On::cluster()] {
        let gate = on.open(clock(), 1).await;
        let [_, hour] = limits(&gate);
        let three = Cost::new(3).unwrap();
        for is_first in [true, false] {
            let charged = hour.charge(key(), "a", three).await.unwrap();
            let Charge::Charged { is_new, quota } = charged else { panic!("{charged:?}") };
            assert_eq!((is_new, quota.remaining), (is_first, 9_997));
        }
        assert_eq!(hour.charge(key(), "a", Cost::ONE).await.unwrap_err().kind(), ErrorKind::Conflict);
        let refused = hour.charge(key(), "b", Cost::new(9_998).unwrap()).await.unwrap();
        assert!(matches!(refused, Charge::Refused(decision) if !decision.is_admitted()), "{refused:?}");
        assert_eq!(hour.release_charge(key(), "a").await.unwrap(), Release::Released { is_new: true });
        assert_eq!(hour.charge(key(), "a", three).await.unwrap(), Charge::Released);
        // As one of one, it is the same charge.
        let again = gate.charge_all(key(), &[(&hour, three)], "a").await.unwrap();
        assert_eq!(again, AllCharge::Released);
    }
    let here = InProcess::with(calendar(10, Period::Hour), &LimitOptions::default(), clock().into()).unwrap();
    let charge = || here.charge(key(), "a", Cost::ONE).unwrap();
    assert!(matches!(charge(), Charge::Charged { is_new: true, .. }));
    assert!(matches!(charge(), Charge::Charged { is_new: false, .. }));
    assert_eq!(here.release_charge(key(), "a").unwrap(), Release::Released { is_new: true });
    assert_eq!(here.release_charge(key(), "b").unwrap(), Release::Unknown);
    assert_eq!(here.peek(key()).unwrap().quota().remaining, 10);
    let bucket = InProcess::new(token("1/s", 5));
    assert_eq!(bucket.charge(key(), "a", Cost::ONE).unwrap_err().kind(), ErrorKind::Invalid);
}

/// Keys beyond the cap are refused, and not charged to what they share: that could not be given back.
#[tokio::test]
async fn a_key_for_which_there_is_no_room_is_refused() {
    let options = LimitOptions::new().max_keys(1).when_full(tidegate::limit::WhenFull::Share);
    let here = InProcess::with(calendar(10, Period::Hour), &options, clock().into()).unwrap();
    here.take(Key::new("first").unwrap(), Cost::ONE).unwrap();
    let refused = here.charge(key(), "a", Cost::ONE).unwrap();
    assert!(
        matches!(refused, Charge::Refused(it) if it.cause() == tidegate::limit::Cause::TooManyKeys),
        "{refused:?}"
    );
    assert_eq!(here.release_charge(key(), "a").unwrap(), Release::Unknown);
}

/// Limits of two stores cannot be charged in one step, and are not.
#[tokio::test]
async fn limits_of_two_stores_are_not_charged_together() {
    let (one, other) =
        (On::url("memory:").open(clock(), 1).await, On::url(REDIS.url()).open(clock(), 1).await);
    let ([minute, _], [_, hour]) = (limits(&one), limits(&other));
    for both in [[(&minute, Cost::ONE), (&hour, Cost::ONE)], [(&hour, Cost::ONE), (&minute, Cost::ONE)]] {
        assert_eq!(one.charge_all(key(), &both, "a").await.unwrap_err().kind(), ErrorKind::Invalid);
    }
    assert_eq!(minute.peek(key()).await.unwrap().quota().remaining, 10_000);
    assert_eq!(hour.peek(key()).await.unwrap().quota().remaining, 10_000);
}
