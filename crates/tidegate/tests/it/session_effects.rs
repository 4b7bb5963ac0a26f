//! Side effects of orphans: each runs once however long all of them take, no more are
//! claimed than run, and one that takes long keeps its claim. And partitions are visited
//! together.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tidegate::clock::{Clock, ManualClock, monotonic};
use tidegate::session::{Answer, Claim, Reap, Refusal, SessionId, Sessions};
use tidegate::store::StoreOptions;
use tidegate::testkit::{Fault, FaultProxy, RedisServer, unique};
use tidegate::{Name, Tidegate};
use tokio::sync::{Notify, Semaphore};

use crate::kit::REDIS;
use crate::outage::until;
use crate::session::{CLAIM, GRACE, START_MS, Space, key, metric, ms, options};

type Ran = Arc<Mutex<BTreeMap<SessionId, usize>>>;

/// Claims all that can be, runs and acknowledges it.
async fn reap_at_once(sessions: &Sessions, ran: &Ran) {
    for claim in sessions.claim(1000).await.unwrap().claims {
        *ran.lock().entry(claim.id).or_default() += 1;
        sessions.ack(claim.id, claim.generation).await.unwrap().done().unwrap();
    }
}

#[tokio::test]
async fn every_effect_runs_once_though_all_take_longer_than_a_claim() {
    for space in Space::everywhere(|it| it.reap = Reap::Claims).await {
        for number in 0..100 {
            space.left(&format!("b{number}")).await;
        }
        space.pass(GRACE).await;
        let ran = Ran::default();
        let reaped = space.sessions.reap(async |claim: Claim| {
            space.clock.advance_ms(CLAIM / 60);
            *ran.lock().entry(claim.id).or_default() += 1;
            // Another reaper comes when the first claims have long ended.
            if ran.lock().len() == 90 {
                reap_at_once(&space.sessions, &ran).await;
            }
            Ok::<_, Infallible>(())
        });
        let reaped = reaped.await.unwrap();
        let ran = ran.lock().clone();
        assert_eq!(ran.len(), 100, "{}", space.on);
        assert!(ran.values().all(|times| *times == 1), "{}: {ran:?}", space.on);
        assert!((90..=100).contains(&reaped), "{}: {reaped}", space.on);
        assert_eq!(space.sessions.counts().await.unwrap().claimed, 0, "{}", space.on);
    }
}

#[tokio::test]
async fn no_more_are_claimed_than_run() {
    let set = |it: &mut tidegate::session::SessionOptions| {
        (it.reap, it.effects_at_once) = (Reap::Claims, 4);
    };
    for space in Space::everywhere(set).await {
        for number in 0..20 {
            space.left(&format!("b{number}")).await;
        }
        space.pass(GRACE).await;
        let (gate, running) = (Semaphore::new(0), Mutex::new((0_u64, 0_u64)));
        let reaping = space.sessions.reap(async |_: Claim| {
            {
                let mut at = running.lock();
                (at.0, at.1) = (at.0 + 1, at.1.max(at.0 + 1));
            }
            gate.acquire().await.unwrap().forget();
            running.lock().0 -= 1;
            Ok::<_, Infallible>(())
        });
        let watching = async {
            for done in 0..20 {
                let at_once = 4_u64.min(20 - done);
                // Half of them at least are running at any time.
                until("they run", async || (running.lock().0 >= at_once.div_ceil(2)).then_some(())).await;
                let counts = space.sessions.counts().await.unwrap();
                assert!(counts.claimed <= 4, "{}: {counts:?}", space.on);
                gate.add_permits(1);
                let acked = async || {
                    let counts = space.sessions.counts().await.unwrap();
                    (counts.claimed + counts.disconnected == 19 - done).then_some(())
                };
                until("it is acknowledged when it is done", acked).await;
            }
        };
        let (reaped, ()) = tokio::join!(reaping, watching);
        assert_eq!((reaped.unwrap(), running.lock().1), (20, 4), "{}", space.on);
    }
}

#[tokio::test]
async fn an_effect_that_takes_long_keeps_its_claim() {
    let lease = Duration::from_secs(1);
    for url in ["memory:".to_owned(), REDIS.url()] {
        let clock = ManualClock::at(ms(START_MS));
        let gate = crate::session::open(&url, &unique("s"), Some(&clock)).await;
        let set = options(|it| (it.reap, it.claim_lease) = (Reap::Claims, lease));
        let sessions = gate.sessions("sessions", set).unwrap();
        let id = sessions.activate(key("b"), "{}", Some(key("h"))).await.unwrap().done().unwrap().id;
        sessions.disconnect(id, key("h")).await.unwrap().done().unwrap();
        crate::session::pass(&clock, &sessions, GRACE).await;
        let (done, running) = (Notify::new(), Notify::new());
        let reaping = sessions.reap(async |_: Claim| {
            running.notify_one();
            done.notified().await;
            Ok::<_, Infallible>(())
        });
        let other = async {
            running.notified().await;
            let claimed_until =
                async || sessions.list(tidegate::session::State::Claimed, 1).await.unwrap().sessions[0].at;
            // Long before each end comes the next renewal.
            for _ in 0..4 {
                let before = claimed_until().await;
                clock.advance_ms(900);
                until("it is renewed", async || (claimed_until().await > before).then_some(())).await;
                assert_eq!(sessions.claim(10).await.unwrap().claims, [], "{url}");
            }
            done.notify_one();
        };
        let (reaped, ()) = tokio::join!(reaping, other);
        assert_eq!(reaped.unwrap(), 1, "{url}");
    }
}

/// Who has lost a claim to somebody else does not take it back.
#[tokio::test]
async fn a_claim_is_renewed_by_whoever_has_it() {
    for space in Space::everywhere(|it| it.reap = Reap::Claims).await {
        let on = space.on;
        let id = space.left("b").await;
        space.sessions.update(id, "v", None).await.unwrap().done().unwrap();
        space.pass(GRACE).await;
        let claim = space.sessions.claim(1).await.unwrap().claims.remove(0);
        assert_eq!((&*claim.config, &*claim.value), ("{}", "v"), "{on}");
        assert_eq!(claim.until, ms(START_MS + GRACE + CLAIM), "{on}");
        let renew = async |attempt| space.sessions.renew(id, claim.generation, attempt).await.unwrap();
        space.pass(CLAIM - 1).await;
        assert_eq!(renew(1).await, Answer::Done(ms(START_MS + GRACE + 2 * CLAIM - 1)), "{on}");
        assert_eq!(renew(2).await, Answer::Refused(Refusal::NotClaimed), "{on}");
        space.pass(CLAIM - 1).await;
        assert_eq!(space.sessions.claim(1).await.unwrap().claims, [], "{on}");
        space.pass(1).await;
        assert_eq!(space.sessions.claim(1).await.unwrap().claims[0].attempt, 2, "{on}");
        assert_eq!(renew(1).await, Answer::Refused(Refusal::NotClaimed), "{on}");
        let stale = tidegate::session::Generation::new(7);
        assert_eq!(
            space.sessions.renew(id, stale, 2).await.unwrap(),
            Answer::Refused(Refusal::Stale),
            "{on}"
        );
        space.sessions.ack(id, claim.generation).await.unwrap().done().unwrap();
        assert_eq!(renew(2).await, Answer::Refused(Refusal::Gone), "{on}");
    }
}

/// Each partition that is visited after another would add its delay.
#[tokio::test]
async fn partitions_are_visited_together() {
    const PARTITIONS: u32 = 16;
    let (server, delay) = (RedisServer::start(), Duration::from_millis(50));
    let proxy = FaultProxy::start(server.port()).await;
    let mut set = StoreOptions::default();
    (set.deadline, set.partitions) = (Duration::from_secs(10), Some(PARTITIONS));
    set.namespace = Some(Name::new(&unique("p")).unwrap());
    set.clock = Clock::from(ManualClock::at(ms(START_MS)));
    let gate = Tidegate::open_with(&proxy.url(), set).await.unwrap();
    let sessions = gate.sessions("sessions", options(|_| {})).unwrap();
    sessions.cleanup().await.unwrap();
    proxy.set(Fault::Delay(delay));
    // As long as it takes now, whatever else the machine does.
    let started = monotonic();
    for _ in 0..PARTITIONS {
        sessions.find(key("nobody")).await.unwrap();
    }
    let one_by_one = monotonic().duration_since(started);
    let started = monotonic();
    sessions.cleanup().await.unwrap();
    sessions.claim(100).await.unwrap();
    sessions.counts().await.unwrap();
    let took = monotonic().duration_since(started);
    assert!(took < one_by_one * 3 / 2, "{took:?} for three, and {one_by_one:?} for {PARTITIONS} calls");
    assert_eq!(metric(&gate, "orphan_cleanup_duration_seconds_count"), 2);
    proxy.set(Fault::None);
}
