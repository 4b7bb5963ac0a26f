//! What the log says of holds: that one began and why, once for a space, and that it is over.

use std::time::Duration;

use tidegate::clock::{ManualClock, Timestamp};
use tidegate::session::Sessions;
use tidegate::store::StoreOptions;
use tidegate::testkit::RedisServer;
use tidegate::{OutageReason, Tidegate};
use tracing::Level;

use crate::full_memory::{fill, free};
use crate::log_lines::LogLines;
use crate::session::{LEASE, START_MS, Space, key, metric, options, pass};

/// What every line that tells of the beginning of a hold has.
const BEGUN: &str = "no session is reaped";
const UNSEEN: &str = "nobody was there for half a lease";
const REFUSED: &str = "takes no writes";
const OVER: &str = "the hold is over";

/// A space that is spread over several partitions of one server, each with a session.
async fn spread(server: &RedisServer) -> (Tidegate, Sessions, ManualClock) {
    let clock = ManualClock::at(Timestamp::from_millis(START_MS));
    let mut store = StoreOptions::default();
    (store.deadline, store.partitions) = (Duration::from_secs(10), Some(8));
    store.clock = clock.clone().into();
    let gate = Tidegate::open_with(&server.url(), store).await.unwrap();
    let sessions = gate.sessions("sessions", options(|_| {})).unwrap();
    for number in 0..40 {
        let name = format!("b{number}");
        sessions.activate(key(&name), "", Some(key("h"))).await.unwrap().done().unwrap();
    }
    sessions.stamp().await.unwrap();
    (gate, sessions, clock)
}

/// All that is done in the background, and by whoever looks.
async fn look(sessions: &Sessions) {
    assert!(sessions.stamp().await.unwrap().is_some());
    assert!(sessions.counts().await.unwrap().held_until.is_some());
    assert!(sessions.claim(9).await.unwrap().swept.held_until.is_some());
    assert!(sessions.cleanup().await.unwrap().held_until.is_some());
}

/// Each refused stamp moves the end of the hold, in every partition: that was a warning each, and
/// said that nobody had been there.
#[tokio::test]
async fn a_full_server_is_logged_once_for_all_its_time_and_by_name() {
    let server = RedisServer::start();
    let (gate, sessions, clock) = spread(&server).await;
    let log = LogLines::default();
    let _guard = tracing::subscriber::set_default(log.clone());
    fill(&server);
    for _ in 0..30 {
        clock.advance_ms(LEASE / 9);
        look(&sessions).await;
    }
    let begun = log.take(BEGUN);
    assert_eq!(begun.len(), 1, "{begun:?}");
    assert_eq!(begun[0].level, Level::WARN);
    assert!(begun[0].message.contains(REFUSED), "{begun:?}");
    assert_eq!(begun[0].fields["reason"], OutageReason::OutOfMemory.as_str());
    assert_eq!(begun[0].fields["space"], "sessions");
    assert_eq!(log.take(OVER).len(), 0);
    assert_eq!(metric(&gate, "tidegate_session_held_partitions"), 8);
    assert_eq!(metric(&gate, "tidegate_session_holds_total"), 1);

    // There is room again: holders have the time of a lease yet, and that is the same hold.
    free(&server);
    look(&sessions).await;
    assert_eq!((log.take(BEGUN).len(), log.take(OVER).len()), (0, 0));
    pass(&clock, &sessions, LEASE).await;
    let over = log.take(OVER);
    assert_eq!((over.len(), log.take(BEGUN).len()), (1, 0), "{over:?}");
    assert_eq!(over[0].level, Level::INFO);
    assert_eq!(metric(&gate, "tidegate_session_held_partitions"), 0);
}

/// At the edge some writes get through and the next does not.
#[tokio::test]
async fn a_server_that_is_full_now_and_then_is_logged_once_a_minute() {
    let server = RedisServer::start();
    let (_gate, sessions, clock) = spread(&server).await;
    let log = LogLines::default();
    let _guard = tracing::subscriber::set_default(log.clone());
    for minute in 1..=2 {
        for second in 0..30 {
            fill(&server);
            clock.advance_ms(1000);
            look(&sessions).await;
            free(&server);
            clock.advance_ms(1000);
            assert_eq!(sessions.stamp().await.unwrap(), None, "too short for a hold that lasts");
            let logged = (log.take(REFUSED).len(), log.take(OVER).len());
            let is_first = usize::from(second == 0);
            assert_eq!(logged, (is_first, is_first), "{minute}:{second}");
        }
    }
    assert_eq!(log.take(BEGUN).len(), 0);
}

/// One that is found, and found again while it runs, is one; and the next is another.
#[tokio::test]
async fn a_hold_is_logged_when_it_begins_and_when_it_is_over() {
    for space in Space::everywhere(|_| {}).await {
        let (on, sessions) = (space.on, &space.sessions);
        let log = LogLines::default();
        for number in 0..9 {
            space.held(&format!("b{number}"), "h").await;
        }
        sessions.stamp().await.unwrap();
        let _guard = tracing::subscriber::set_default(log.clone());
        for times in 1..=2 {
            for _ in 0..3 {
                space.clock.advance_ms(LEASE * 2 / 3);
                look(sessions).await;
            }
            let begun = log.take(BEGUN);
            assert_eq!(begun.len(), 1, "{on}: {begun:?}");
            assert!(begun[0].level == Level::WARN && begun[0].message.contains(UNSEEN), "{on}: {begun:?}");
            assert_eq!(begun[0].fields["lasts_ms"], LEASE.to_string(), "{on}");
            assert_eq!(log.take(OVER).len(), 0, "{on}");
            space.pass(LEASE).await;
            assert_eq!((log.take(OVER).len(), log.take(BEGUN).len()), (1, 0), "{on}");
            assert_eq!(space.metric("tidegate_session_holds_total"), times, "{on}");
        }
    }
}

/// A server that comes back without room: another reason, which is told too.
#[tokio::test]
async fn a_hold_that_goes_on_for_another_reason_says_so() {
    let server = RedisServer::start();
    let (_gate, sessions, clock) = spread(&server).await;
    let log = LogLines::default();
    let _guard = tracing::subscriber::set_default(log.clone());
    clock.advance_ms(LEASE);
    look(&sessions).await;
    assert_eq!((log.take(UNSEEN).len(), log.take(BEGUN).len()), (1, 0));
    fill(&server);
    for _ in 0..9 {
        clock.advance_ms(LEASE / 9);
        look(&sessions).await;
    }
    assert_eq!((log.take(REFUSED).len(), log.take(BEGUN).len()), (1, 0));
    free(&server);
    pass(&clock, &sessions, LEASE).await;
    assert_eq!((log.take(OVER).len(), log.take(BEGUN).len()), (1, 0));
}
