//! What sessions promise beside what the flaws of the seed are about: edges of time,
//! names, bounds, spaces that do not share. And what all tests of sessions are made of.

use std::time::Duration;

use tidegate::clock::{ManualClock, Timestamp};
use tidegate::session::{
    Answer, Disconnect, Found, Holder, Reap, Refusal, Session, SessionId, SessionOptions, Sessions, State,
};
use tidegate::store::StoreOptions;
use tidegate::testkit::{RedisServer, unique};
use tidegate::{Key, Name, Tidegate};

use crate::kit::{CLUSTER, REDIS};
use crate::session_audit::audit;

pub(crate) const START_MS: u64 = 1_700_000_000_000;
/// The defaults.
pub(crate) const LEASE: u64 = 45_000;
pub(crate) const GRACE: u64 = 30_000;
pub(crate) const CLAIM: u64 = 60_000;
pub(crate) const TTL: u64 = 24 * 3_600_000;

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

/// The defaults, with nothing in the background unless `set` says otherwise.
pub(crate) fn options(set: impl FnOnce(&mut SessionOptions)) -> SessionOptions {
    let mut options = SessionOptions::default();
    options.cleanup_interval = Duration::from_secs(24 * 3600);
    set(&mut options);
    options
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
async fn a_lease_ends_at_its_last_millisecond_and_the_session_with_it() {
    for space in Space::everywhere(|_| {}).await {
        let (on, sessions) = (space.on, &space.sessions);
        let id = space.held("b", "a").await;
        space.reach(START_MS + 1000).await;
        sessions.connect(id, key("b")).await.unwrap().done().unwrap();
        space.reach(START_MS + LEASE - 1).await;
        assert_eq!(space.get(id).await.ref_count, 2, "{on}");
        space.pass(1).await;
        assert_eq!(space.get(id).await.ref_count, 1, "{on}");
        assert_eq!(sessions.heartbeat(id, key("a")).await.unwrap(), Answer::Refused(Refusal::Lapsed), "{on}");
        assert_eq!(
            sessions.heartbeat(id, key("never")).await.unwrap(),
            Answer::Refused(Refusal::Lapsed),
            "{on}"
        );
        space.reach(START_MS + 1000 + LEASE - 1).await;
        assert_eq!(space.get(id).await.state, State::Active, "{on}");
        assert_eq!(sessions.delete(id).await.unwrap(), Answer::Refused(Refusal::Active), "{on}");
        space.pass(1).await;
        assert_eq!(
            sessions.heartbeat(id, key("b")).await.unwrap(),
            Answer::Refused(Refusal::Disconnected),
            "{on}"
        );
        assert_eq!(
            sessions.connect(id, key("b")).await.unwrap(),
            Answer::Refused(Refusal::Disconnected),
            "{on}"
        );
        let session = space.get(id).await;
        assert_eq!(
            (session.state, session.last_disconnect),
            (State::Disconnected, Some(space.clock.now())),
            "{on}"
        );
        assert_eq!(session.last_seen, ms(START_MS + 1000), "{on}");
        let lease = sessions.resume(id, key("b")).await.unwrap().done().unwrap();
        assert_eq!(lease.until, ms(START_MS + 1000 + 2 * LEASE), "{on}");
    }
}

#[tokio::test]
async fn an_orphan_is_due_when_its_grace_is_over_and_not_before() {
    for space in Space::everywhere(|_| {}).await {
        let (on, sessions, grace) = (space.on, &space.sessions, Duration::from_millis(GRACE));
        let id = space.left("b").await;
        space.pass(GRACE - 1).await;
        assert_eq!(sessions.claim(9).await.unwrap(), Default::default(), "{on}");
        assert_eq!(sessions.cleanup().await.unwrap(), Default::default(), "{on}");
        assert_eq!(sessions.orphans(grace, 9).await.unwrap().sessions, [], "{on}");
        assert_eq!(space.get(id).await.state, State::Disconnected, "{on}");
        space.pass(1).await;
        assert_eq!(sessions.orphans(grace, 9).await.unwrap().sessions[0].id, id, "{on}");
        assert_eq!(space.get(id).await.state, State::Orphan, "{on}");
        // Nobody has claimed it: it can still be resumed.
        sessions.resume(id, key("h")).await.unwrap().done().unwrap();
        sessions.disconnect(id, key("h")).await.unwrap().done().unwrap();
        space.pass(GRACE).await;
        let claim = sessions.claim(9).await.unwrap().claims.remove(0);
        assert_eq!((claim.id, claim.generation.get(), claim.attempt), (id, 2, 1), "{on}");
        space.pass(CLAIM - 1).await;
        assert_eq!(sessions.claim(9).await.unwrap().claims, [], "{on}");
        space.pass(1).await;
        assert_eq!(sessions.claim(9).await.unwrap().claims[0].attempt, 2, "{on}");
        // A claim that has ended and was not taken by another is as good as one that holds.
        space.pass(CLAIM).await;
        assert_eq!(sessions.ack(id, claim.generation).await.unwrap(), Answer::Done(()), "{on}");
    }
}

#[tokio::test]
async fn after_its_ttl_a_session_is_gone_for_clients_and_still_there_for_reapers() {
    for space in Space::everywhere(|_| {}).await {
        let (on, sessions) = (space.on, &space.sessions);
        let (id, other) = (space.left("b").await, space.left("other").await);
        space.reach(START_MS + TTL - 1).await;
        // Not a sign of life.
        sessions.update(id, "v", None).await.unwrap().done().unwrap();
        assert_eq!(
            sessions.resume(other, key("h")).await.unwrap().done().unwrap().generation.get(),
            2,
            "{on}"
        );
        space.pass(1).await;
        assert_eq!(sessions.resume(id, key("h")).await.unwrap(), Answer::Refused(Refusal::Gone), "{on}");
        assert_eq!(sessions.update(id, "v", None).await.unwrap(), Answer::Refused(Refusal::Gone), "{on}");
        assert_eq!(sessions.disconnect(id, key("h")).await.unwrap(), Answer::Refused(Refusal::Gone), "{on}");
        let new = sessions.activate(key("b"), "", None).await.unwrap().done().unwrap();
        assert_eq!((new.id == id, new.found), (false, Found::Nothing), "{on}");
        let claims = sessions.claim(9).await.unwrap().claims;
        assert_eq!((claims.len(), claims[0].id), (1, id), "{on}");
        assert_eq!(sessions.find(key("b")).await.unwrap().unwrap().id, new.id, "{on}");
    }
}

#[tokio::test]
async fn an_activated_session_waits_a_lease_for_somebody_to_connect() {
    for space in Space::everywhere(|_| {}).await {
        let (on, sessions) = (space.on, &space.sessions);
        let activated = sessions.activate(key("b"), "one", None).await.unwrap().done().unwrap();
        let id = activated.id;
        assert_eq!((space.get(id).await.state, space.get(id).await.ref_count), (State::Active, 0), "{on}");
        space.pass(LEASE - 1).await;
        sessions.connect(id, key("h")).await.unwrap().done().unwrap();
        // Whoever was expected has come: when they leave nobody is left.
        assert_eq!(
            sessions.disconnect(id, key("h")).await.unwrap(),
            Answer::Done(Disconnect::Disconnected),
            "{on}"
        );
        let again = sessions.activate(key("b"), "two", None).await.unwrap().done().unwrap();
        assert_eq!(
            (again.id, again.found, again.lease.generation.get()),
            (id, Found::Disconnected, 2),
            "{on}"
        );
        let again = sessions.activate(key("b"), "three", Some(key("h"))).await.unwrap().done().unwrap();
        assert_eq!((again.id, again.found, again.lease.generation.get()), (id, Found::Active, 2), "{on}");
        let session = space.get(id).await;
        assert_eq!((&*session.config, &*session.value, session.ref_count), ("three", "", 1), "{on}");
        assert_eq!(session.last_update, ms((START_MS + LEASE - 1) / 1000 * 1000), "{on}");
        let stale = Holder { name: key("h"), generation: Some(activated.lease.generation) };
        assert_eq!(sessions.disconnect(id, stale).await.unwrap(), Answer::Refused(Refusal::Stale), "{on}");
        assert_eq!(
            sessions.update(id, "v", stale.generation).await.unwrap(),
            Answer::Refused(Refusal::Stale),
            "{on}"
        );
        assert_eq!((&*space.get(id).await.value, space.get(id).await.ref_count), ("", 1), "{on}");
    }
}

#[tokio::test]
async fn bounds_on_holders_and_sessions_are_exact() {
    let set = |it: &mut SessionOptions| (it.max_holders, it.max_sessions) = (3, 6);
    for space in [Space::memory(set).await, Space::redis(set).await] {
        let (on, sessions) = (space.on, &space.sessions);
        let id = space.held("b0", "h0").await;
        space.pass(10).await;
        sessions.connect(id, key("h1")).await.unwrap().done().unwrap();
        sessions.connect(id, key("h2")).await.unwrap().done().unwrap();
        for holder in ["h3", "h4"] {
            assert_eq!(
                sessions.connect(id, key(holder)).await.unwrap(),
                Answer::Refused(Refusal::TooManyHolders),
                "{on}"
            );
            assert_eq!(
                sessions.resume(id, key(holder)).await.unwrap(),
                Answer::Refused(Refusal::TooManyHolders),
                "{on}"
            );
        }
        let refused = sessions.activate(key("b0"), "new", Some(key("h3"))).await.unwrap();
        assert_eq!(refused, Answer::Refused(Refusal::TooManyHolders), "{on}");
        assert_eq!(space.get(id).await.config, "{}", "{on}: a refusal changes nothing");
        sessions.connect(id, key("h1")).await.unwrap().done().unwrap();
        // The first one's lease ends: there is room for one.
        space.reach(START_MS + LEASE).await;
        sessions.connect(id, key("h3")).await.unwrap().done().unwrap();
        assert_eq!(
            sessions.connect(id, key("h0")).await.unwrap(),
            Answer::Refused(Refusal::TooManyHolders),
            "{on}"
        );
        assert_eq!(space.get(id).await.ref_count, 3, "{on}");

        for number in 1..6 {
            space.left(&format!("b{number}")).await;
        }
        let full = sessions.activate(key("b6"), "", None).await.unwrap();
        assert_eq!(full, Answer::Refused(Refusal::Full), "{on}");
        assert_eq!(sessions.find(key("b6")).await.unwrap(), None, "{on}");
        space.held("b3", "h").await;
        space.pass(GRACE).await;
        let claims = sessions.claim(9).await.unwrap().claims;
        assert_eq!(
            sessions.activate(key("b6"), "", None).await.unwrap(),
            Answer::Refused(Refusal::Full),
            "{on}: claimed ones count"
        );
        sessions.ack(claims[0].id, claims[0].generation).await.unwrap().done().unwrap();
        sessions.activate(key("b6"), "", None).await.unwrap().done().unwrap();
        assert_eq!(
            sessions.activate(key("b7"), "", None).await.unwrap(),
            Answer::Refused(Refusal::Full),
            "{on}"
        );
    }
    // Each of three partitions has its third.
    let space = Space::cluster(set).await;
    let mut full = 0;
    for number in 0..40 {
        let activated = space.sessions.activate(key(&format!("b{number}")), "", None).await.unwrap();
        full += usize::from(activated == Answer::Refused(Refusal::Full));
    }
    assert_eq!((full, space.sessions.counts().await.unwrap().active), (34, 6));
}

#[tokio::test]
async fn names_may_be_anything_and_meet_nobody_elses() {
    let names = ["{a}", "a", "{a", "ü 漢\n\0", "m", "h:", "s", "value", ":", "session:x", "last_disconnect"];
    for space in Space::everywhere(|_| {}).await {
        let (on, sessions) = (space.on, &space.sessions);
        let mut ids = Vec::new();
        for name in names {
            ids.push(space.held(name, name).await);
        }
        for (name, id) in names.into_iter().zip(&ids) {
            for holder in names {
                sessions.connect(*id, key(holder)).await.unwrap().done().unwrap();
            }
            sessions.update(*id, name, None).await.unwrap().done().unwrap();
            let session = sessions.find(key(name)).await.unwrap().unwrap();
            assert_eq!((session.id, &*session.broadcaster, &*session.value), (*id, name, name), "{on}");
            assert_eq!(session.ref_count, names.len() as u64, "{on}: {name:?}");
            for (count, holder) in names.into_iter().enumerate() {
                let is_last = count + 1 == names.len();
                let expected = if is_last { Disconnect::Disconnected } else { Disconnect::Held };
                assert_eq!(
                    sessions.disconnect(*id, key(holder)).await.unwrap(),
                    Answer::Done(expected),
                    "{on}: {holder:?}"
                );
            }
            let session = space.get(*id).await;
            assert_eq!((&*session.value, session.generation.get()), (name, 1), "{on}");
        }
        space.pass(GRACE).await;
        let mut claimed: Vec<_> =
            sessions.claim(99).await.unwrap().claims.into_iter().map(|it| it.broadcaster).collect();
        claimed.sort_unstable();
        let mut expected = names;
        expected.sort_unstable();
        assert_eq!(claimed, expected, "{on}");
    }
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

/// A list is read page by page, over all partitions, as if it were one.
#[tokio::test]
async fn pages_of_a_list_are_the_list() {
    for space in Space::everywhere(|_| {}).await {
        let mut ids = Vec::new();
        for number in 0..70 {
            ids.push(space.left(&format!("b{number}")).await);
            // Several at the same time.
            space.pass(u64::from(number % 4 == 0)).await;
        }
        let all = space.sessions.list(State::Disconnected, 1000).await.unwrap().sessions;
        assert!(all.len() == 70 && all.is_sorted(), "{}", space.on);
        let mut pages = Vec::new();
        loop {
            let page =
                space.sessions.list_after(State::Disconnected, pages.last().copied(), 9).await.unwrap();
            if page.sessions.is_empty() {
                break;
            }
            pages.extend(page.sessions);
        }
        assert_eq!(pages, all, "{}", space.on);
    }
}

/// A clock that was years ahead for a moment pins nothing, and what it dated begins anew.
#[tokio::test]
async fn a_clock_that_was_absurdly_ahead_holds_nothing_for_ever() {
    for space in Space::everywhere(|_| {}).await {
        let (on, sessions) = (space.on, &space.sessions);
        space.set(START_MS + 10 * 365 * 24 * 3_600_000);
        let (held, left) = (space.held("held", "h").await, space.left("left").await);
        let claimed = space.left("claimed").await;
        space.pass(GRACE).await;
        sessions.resume(left, key("h")).await.unwrap().done().unwrap();
        assert_eq!(sessions.claim(9).await.unwrap().claims[0].id, claimed, "{on}");
        sessions.disconnect(left, key("h")).await.unwrap().done().unwrap();
        space.set(START_MS);
        assert_eq!(
            space.held("now", "h").await,
            sessions.find(key("now")).await.unwrap().unwrap().id,
            "{on}"
        );
        assert_eq!(sessions.claim(9).await.unwrap().claims, [], "{on}");
        assert_eq!(space.get(held).await.last_seen, ms(START_MS), "{on}");
        assert_eq!(space.get(left).await.last_disconnect, Some(ms(START_MS)), "{on}");
        space.reach(START_MS + LEASE - 1).await;
        assert_eq!(sessions.cleanup().await.unwrap().deleted, 0, "{on}: there is a hold");
        space.pass(1).await;
        assert_eq!(sessions.cleanup().await.unwrap().deleted, 1, "{on}: what was left");
        space.reach(START_MS + LEASE + GRACE).await;
        assert_eq!(sessions.cleanup().await.unwrap().deleted, 2, "{on}: what was held");
        space.reach(START_MS + LEASE + CLAIM).await;
        assert_eq!(sessions.cleanup().await.unwrap().deleted, 1, "{on}: what was claimed");
    }
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

/// A clock that was days ahead for a moment stops nothing once it is right again.
#[tokio::test]
async fn a_clock_that_was_ahead_for_a_moment_does_not_stop_a_space() {
    for space in Space::everywhere(|_| {}).await {
        space.set(START_MS + 6 * 24 * 3_600_000);
        space.sessions.counts().await.unwrap();
        space.set(START_MS);
        space.left("b").await;
        space.pass(LEASE).await;
        assert_eq!(space.sessions.counts().await.unwrap().orphans, 1, "{}", space.on);
        assert_eq!(space.sessions.cleanup().await.unwrap().deleted, 1, "{}", space.on);
    }
}
