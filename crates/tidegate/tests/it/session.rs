//! What sessions promise beside the cases of [`tidegate::testkit::session`]: spaces that do
//! not share, entries that are no ids, partitions. And what all tests of sessions are made of.

use std::time::Duration;

use tidegate::clock::{ManualClock, Timestamp};
use tidegate::session::{Answer, Reap, Refusal, Session, SessionId, SessionOptions, Sessions, State};
use tidegate::store::StoreOptions;
pub(crate) use tidegate::testkit::session::options;
use tidegate::testkit::{RedisServer, unique};
use tidegate::{Key, Name, Tidegate};

use crate::kit::{CLUSTER, REDIS};
use crate::session_audit::audit;

pub(crate) const START_MS: u64 = 1_700_000_000_000;
/// The defaults.
pub(crate) const LEASE: u64 = 45_000;
pub(crate) const GRACE: u64 = 30_000;
pub(crate) const CLAIM: u64 = 60_000;

/// A store in this process in as many partitions as the cluster has.
pub(crate) const SPREAD_MEMORY: &str = "memory:spread";

/// A space of its own on some store, with a clock that the test moves.
pub(crate) struct Space {
    /// The kind of store, for messages.
    pub(crate) on: &'static str,
    pub(crate) url: String,
    pub(crate) namespace: String,
    pub(crate) clock: ManualClock,
    pub(crate) gate: Tidegate,
    pub(crate) sessions: Sessions,
}

/// A gate with everything that tests share: time to answer, and few partitions.
pub(crate) async fn open(url: &str, namespace: &str, clock: Option<&ManualClock>) -> Tidegate {
    let mut options = StoreOptions::default();
    options.deadline = Duration::from_secs(10);
    options.namespace = (!namespace.is_empty()).then(|| Name::new(namespace).unwrap());
    if url.starts_with("redis-cluster") || url == SPREAD_MEMORY {
        options.partitions = Some(3);
    }
    if let Some(clock) = clock {
        options.clock = clock.clone().into();
    }
    Tidegate::open_with(url, options).await.unwrap()
}

impl Space {
    pub(crate) async fn on(on: &'static str, url: &str, options: SessionOptions) -> Self {
        let (namespace, clock) = (unique("s"), ManualClock::at(Timestamp::from_millis(START_MS)));
        let gate = open(url, &namespace, Some(&clock)).await;
        let sessions = gate.sessions("sessions", options).unwrap();
        Self { on, url: url.to_owned(), namespace, clock, gate, sessions }
    }

    pub(crate) async fn memory(set: impl FnOnce(&mut SessionOptions)) -> Self {
        Self::on("memory", "memory:", options(set)).await
    }

    pub(crate) async fn redis(set: impl FnOnce(&mut SessionOptions)) -> Self {
        Self::on("redis", &REDIS.url(), options(set)).await
    }

    pub(crate) async fn cluster(set: impl FnOnce(&mut SessionOptions)) -> Self {
        Self::on("cluster", &CLUSTER.url(), options(set)).await
    }

    /// One on each kind of store.
    pub(crate) async fn everywhere(set: impl Fn(&mut SessionOptions)) -> [Self; 3] {
        [Self::memory(&set).await, Self::redis(&set).await, Self::cluster(&set).await]
    }

    pub(crate) fn set(&self, ms: u64) {
        self.clock.set(Timestamp::from_millis(ms));
    }

    /// Time passes, and somebody looks after the space: no hold begins.
    pub(crate) async fn pass(&self, ms: u64) {
        pass(&self.clock, &self.sessions, ms).await;
    }

    /// Much time passes in which nobody does, then the hold that begins by it.
    pub(crate) async fn skip(&self, ms: u64) {
        self.sessions.stamp().await.unwrap();
        self.clock.advance_ms(ms);
        self.pass(self.sessions.options().holder_lease.as_millis() as u64).await;
    }

    /// As [`pass`](Self::pass), until then.
    pub(crate) async fn reach(&self, ms: u64) {
        self.pass(ms - self.clock.now().as_millis()).await;
    }

    /// A session of `broadcaster` that `holder` holds.
    pub(crate) async fn held(&self, broadcaster: &str, holder: &str) -> SessionId {
        self.sessions.activate(key(broadcaster), "{}", Some(key(holder))).await.unwrap().done().unwrap().id
    }

    /// A session of `broadcaster` that was left now.
    pub(crate) async fn left(&self, broadcaster: &str) -> SessionId {
        let id = self.held(broadcaster, "h").await;
        self.sessions.disconnect(id, key("h")).await.unwrap().done().unwrap();
        id
    }

    /// A session that must be there.
    pub(crate) async fn get(&self, id: SessionId) -> Session {
        self.sessions.get(id).await.unwrap().unwrap_or_else(|| panic!("{}: {id} is gone", self.on))
    }

    pub(crate) fn metric(&self, name: &str) -> u64 {
        metric(&self.gate, name)
    }
}

/// Time passes, and somebody looks after the sessions.
pub(crate) async fn pass(clock: &ManualClock, sessions: &Sessions, ms: u64) {
    let most_ms = sessions.options().holder_lease.as_millis() as u64 / 2;
    let mut left_ms = ms;
    sessions.stamp().await.unwrap();
    while left_ms > 0 {
        let step_ms = left_ms.min(most_ms);
        clock.advance_ms(step_ms);
        sessions.stamp().await.unwrap();
        left_ms -= step_ms;
    }
}

/// A metric of the space `sessions`, of which only whole numbers are asked.
pub(crate) fn metric(gate: &Tidegate, name: &str) -> u64 {
    let (text, start) = (gate.metrics(), format!("{name}{{space=\"sessions\"}} "));
    let value = text.lines().find_map(|line| line.strip_prefix(&start));
    value.unwrap_or_else(|| panic!("no {name} in\n{text}")).parse::<f64>().unwrap() as u64
}

pub(crate) fn key(text: &str) -> Key<'_> {
    Key::new(text).unwrap()
}

pub(crate) fn ms(ms: u64) -> Timestamp {
    Timestamp::from_millis(ms)
}

#[tokio::test]
async fn spaces_and_namespaces_do_not_share() {
    for space in Space::everywhere(|_| {}).await {
        let on = space.on;
        let other = space.gate.sessions("others", options(|_| {})).unwrap();
        let id = space.left("b").await;
        assert_eq!(other.get(id).await.unwrap(), None, "{on}");
        assert_eq!(other.find(key("b")).await.unwrap(), None, "{on}");
        let theirs = other.activate(key("b"), "", None).await.unwrap().done().unwrap().id;
        assert_ne!(theirs, id, "{on}");
        let elsewhere = open(&space.url, &unique("s"), Some(&space.clock)).await;
        let elsewhere = elsewhere.sessions("sessions", options(|_| {})).unwrap();
        assert_eq!(elsewhere.resume(id, key("h")).await.unwrap(), Answer::Refused(Refusal::Gone), "{on}");
        space.pass(GRACE).await;
        assert_eq!(
            (other.cleanup().await.unwrap().deleted, elsewhere.cleanup().await.unwrap().deleted),
            (0, 0)
        );
        assert_eq!(elsewhere.reconcile().finish().await.unwrap().faults(), 0, "{on}");
        assert_eq!(space.sessions.cleanup().await.unwrap().deleted, 1, "{on}");
        assert_eq!(other.counts().await.unwrap().active, 1, "{on}");
        assert_eq!(
            space.gate.sessions("others", options(|_| {})).unwrap().counts().await.unwrap().active,
            1,
            "{on}"
        );
    }
}

/// What is not an id is skipped and counted, and removed by whoever reaps.
#[tokio::test]
async fn entries_that_are_no_ids_are_in_nobodys_way() {
    let space = Space::redis(|_| {}).await;
    let (sessions, mut connection) = (&space.sessions, REDIS.connection());
    let id = space.left("b").await;
    let junk: Vec<String> = (0..300).map(|number| format!("junk-{number}")).collect();
    for set in ["disconnected_sessions", "active_sessions", "claimed_sessions", "dead_sessions"] {
        let mut add = redis::cmd("ZADD");
        add.arg(format!("{}:{set}", space.namespace));
        for entry in &junk {
            add.arg(5).arg(entry);
        }
        // Another way to write an id is not an id.
        add.arg(6).arg(id.to_string().to_uppercase()).exec(&mut connection).unwrap();
    }
    space.pass(GRACE).await;
    let list = sessions.orphans(Duration::ZERO, 10).await.unwrap();
    assert_eq!(list.sessions.iter().map(|it| it.id).collect::<Vec<_>>(), [id]);
    assert_eq!(list.invalid, 2 * 301);
    assert_eq!(sessions.list(State::Dead, 10).await.unwrap().sessions, []);
    let (mut claimed, mut invalid) = (Vec::new(), 0);
    for _ in 0..100 {
        let found = sessions.claim(10).await.unwrap();
        claimed.extend(found.claims.iter().map(|it| it.id));
        invalid += found.swept.invalid;
        if !found.swept.is_more {
            break;
        }
    }
    assert_eq!((claimed, invalid), (vec![id], 3 * 301));
    assert_eq!(space.metric("tidegate_session_invalid_entries_total"), 3 * 301);
    assert_eq!(sessions.reconcile().finish().await.unwrap().unindexed, 301, "the dead ones");
    assert_eq!(sessions.list(State::Dead, 10).await.unwrap(), Default::default());
}

/// On Redis keys end by themselves; here the loop lets go of what nobody has claimed.
#[tokio::test]
async fn memory_lets_go_of_what_is_not_reaped_for_longer_than_anything_is_kept() {
    let space = Space::memory(|it| it.reap = Reap::Claims).await;
    let id = space.left("b").await;
    let kept = space.sessions.options().retention.as_millis() as u64 + 3_600_000;
    space.reach(START_MS + kept).await;
    space.sessions.claim(0).await.unwrap();
    assert_eq!(space.get(id).await.state, State::Orphan);
    space.pass(1).await;
    space.sessions.claim(1).await.unwrap();
    assert_eq!(space.sessions.get(id).await.unwrap(), None);
    assert_eq!(space.sessions.counts().await.unwrap(), Default::default());
}

/// A session is in the partition of its broadcaster, and the broadcasters are in all.
#[tokio::test]
async fn partitions_share_the_sessions() {
    let space = Space::cluster(|_| {}).await;
    for number in 0..60 {
        space.held(&format!("b{number}"), "h").await;
    }
    let connections = || CLUSTER.nodes().iter().map(RedisServer::connection).collect::<Vec<_>>();
    assert_eq!(audit(connections(), &format!("{}:", space.namespace)), 60);
    let sets = connections().into_iter().flat_map(|mut connection| -> Vec<String> {
        redis::cmd("KEYS")
            .arg(format!("{}:*active_sessions", space.namespace))
            .query(&mut connection)
            .unwrap()
    });
    assert_eq!(sets.count(), 3);
    assert_eq!(space.sessions.list(State::Active, 1000).await.unwrap().sessions.len(), 60);
    space.pass(LEASE + GRACE).await;
    let first = space.sessions.claim(10).await.unwrap();
    assert_eq!((first.claims.len(), first.swept.is_more), (10, true));
    // Whichever partition is asked first, the others are not forgotten.
    let reaped = space.sessions.reap(|_| std::future::ready(Ok::<_, Refusal>(()))).await.unwrap();
    assert_eq!(reaped, 50);
    assert_eq!(space.sessions.reconcile().finish().await.unwrap().faults(), 0);
}
