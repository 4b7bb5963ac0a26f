//! Edges of time, names, bounds, pages of a list, clocks that are wrong.

use std::time::Duration;

use super::{Face, Granted, Kit, START_MS, options};
use crate::clock::Timestamp;
use crate::session::{
    Activated, Claim, Disconnect, Found, Lease, Refusal, Session, SessionId, SessionOptions, State,
};

/// The defaults.
const LEASE: u64 = 45_000;
const GRACE: u64 = 30_000;
const CLAIM: u64 = 60_000;
const TTL: u64 = 24 * 3_600_000;

/// A space in the hands of a case.
struct Subject<F> {
    face: F,
    /// Nobody begins a hold who looks after it as often.
    half_lease_ms: u64,
}

impl<F: Face> Subject<F> {
    async fn new(kit: &impl Kit<Face = F>, set: impl FnOnce(&mut SessionOptions)) -> Self {
        let options = options(set);
        let half_lease_ms = options.holder_lease.as_millis() as u64 / 2;
        Self { face: kit.fresh(options).await, half_lease_ms }
    }

    fn now(&self) -> u64 {
        self.face.clock().now().as_millis()
    }

    /// Sets the clock to `ms` after the start.
    fn at(&self, ms: u64) {
        self.face.clock().set(Timestamp::from_millis(START_MS + ms));
    }

    /// Time passes, and somebody looks after the space: no hold begins.
    async fn pass(&self, ms: u64) {
        let mut left_ms = ms;
        self.face.stamp().await.unwrap();
        while left_ms > 0 {
            let step_ms = left_ms.min(self.half_lease_ms);
            self.face.clock().advance_ms(step_ms);
            self.face.stamp().await.unwrap();
            left_ms -= step_ms;
        }
    }

    /// The same, until `ms` after the start.
    async fn reach(&self, ms: u64) {
        self.pass(START_MS + ms - self.now()).await;
    }

    async fn activate(&self, broadcaster: &str, config: &str, holder: Option<&str>) -> Granted<Activated> {
        self.face.activate(broadcaster, config, holder).await.unwrap()
    }

    /// A session of `broadcaster` that `holder` holds.
    async fn held(&self, broadcaster: &str, holder: &str) -> SessionId {
        self.activate(broadcaster, "{}", Some(holder)).await.unwrap().id
    }

    /// A session of `broadcaster` that was left now.
    async fn left(&self, broadcaster: &str) -> SessionId {
        let id = self.held(broadcaster, "h").await;
        self.disconnect(id, "h").await.unwrap();
        id
    }

    async fn connect(&self, id: SessionId, holder: &str) -> Granted<Lease> {
        self.face.connect(id, (holder, None)).await.unwrap()
    }

    async fn resume(&self, id: SessionId, holder: &str) -> Granted<Lease> {
        self.face.resume(id, (holder, None)).await.unwrap()
    }

    async fn heartbeat(&self, id: SessionId, holder: &str) -> Granted<Lease> {
        self.face.heartbeat(id, (holder, None)).await.unwrap()
    }

    async fn disconnect(&self, id: SessionId, holder: &str) -> Granted<Disconnect> {
        self.face.disconnect(id, (holder, None)).await.unwrap()
    }

    /// A session that must be there.
    async fn get(&self, id: SessionId) -> Session {
        self.face.get(id).await.unwrap().unwrap_or_else(|| panic!("{id} is gone"))
    }

    async fn find(&self, broadcaster: &str) -> Option<Session> {
        self.face.find(broadcaster).await.unwrap()
    }

    async fn claim(&self) -> Vec<Claim> {
        self.face.claim(99).await.unwrap().claims
    }

    async fn cleaned_up(&self) -> u64 {
        self.face.cleanup().await.unwrap().deleted
    }

    async fn orphans(&self) -> Vec<SessionId> {
        let list = self.face.orphans_after(Duration::from_millis(GRACE), None, 9).await.unwrap();
        list.sessions.into_iter().map(|it| it.id).collect()
    }
}

fn ms(after_start: u64) -> Timestamp {
    Timestamp::from_millis(START_MS + after_start)
}

/// A lease ends at its last millisecond, and the session with the last of them.
pub async fn a_lease_ends_at_its_last_millisecond_and_the_session_with_it(kit: &impl Kit) {
    let s = Subject::new(kit, |_| {}).await;
    let id = s.held("b", "a").await;
    s.reach(1000).await;
    s.connect(id, "b").await.unwrap();
    s.reach(LEASE - 1).await;
    assert_eq!(s.get(id).await.ref_count, 2);
    s.pass(1).await;
    assert_eq!(s.get(id).await.ref_count, 1);
    assert_eq!(s.heartbeat(id, "a").await, Err(Refusal::Lapsed));
    assert_eq!(s.heartbeat(id, "never").await, Err(Refusal::Lapsed));
    s.reach(1000 + LEASE - 1).await;
    assert_eq!(s.get(id).await.state, State::Active);
    assert_eq!(s.face.delete(id).await.unwrap(), Err(Refusal::Active));
    s.pass(1).await;
    assert_eq!(s.heartbeat(id, "b").await, Err(Refusal::Disconnected));
    assert_eq!(s.connect(id, "b").await, Err(Refusal::Disconnected));
    let session = s.get(id).await;
    assert_eq!((session.state, session.last_disconnect), (State::Disconnected, Some(ms(1000 + LEASE))));
    assert_eq!(session.last_seen, ms(1000));
    assert_eq!(s.resume(id, "b").await.unwrap().until, ms(1000 + 2 * LEASE));
}

/// An orphan is due when its grace is over, and not before.
pub async fn an_orphan_is_due_when_its_grace_is_over_and_not_before(kit: &impl Kit) {
    let s = Subject::new(kit, |_| {}).await;
    let id = s.left("b").await;
    s.pass(GRACE - 1).await;
    assert_eq!(s.face.claim(9).await.unwrap(), Default::default());
    assert_eq!(s.face.cleanup().await.unwrap(), Default::default());
    assert_eq!(s.orphans().await, []);
    assert_eq!(s.get(id).await.state, State::Disconnected);
    s.pass(1).await;
    assert_eq!(s.orphans().await, [id]);
    assert_eq!(s.get(id).await.state, State::Orphan);
    // Nobody has claimed it: it can still be resumed.
    s.resume(id, "h").await.unwrap();
    s.disconnect(id, "h").await.unwrap();
    s.pass(GRACE).await;
    let claim = s.claim().await.remove(0);
    assert_eq!((claim.id, claim.generation.get(), claim.attempt), (id, 2, 1));
    s.pass(CLAIM - 1).await;
    assert_eq!(s.claim().await, []);
    s.pass(1).await;
    assert_eq!(s.claim().await[0].attempt, 2);
    // A claim that has ended and was not taken by another is as good as one that holds.
    s.pass(CLAIM).await;
    assert_eq!(s.face.ack_many(&[(id, claim.generation)]).await.unwrap(), [Ok(())]);
}

/// After its ttl a session is gone for clients, and still there for reapers.
pub async fn after_its_ttl_a_session_is_gone_for_clients_and_still_there_for_reapers(kit: &impl Kit) {
    let s = Subject::new(kit, |_| {}).await;
    let (id, other) = (s.left("b").await, s.left("other").await);
    s.reach(TTL - 1).await;
    // Not a sign of life.
    s.face.update(id, "v", None).await.unwrap().unwrap();
    assert_eq!(s.resume(other, "h").await.unwrap().generation.get(), 2);
    s.pass(1).await;
    assert_eq!(s.resume(id, "h").await, Err(Refusal::Gone));
    assert_eq!(s.face.update(id, "v", None).await.unwrap(), Err(Refusal::Gone));
    assert_eq!(s.disconnect(id, "h").await, Err(Refusal::Gone));
    let new = s.activate("b", "{}", None).await.unwrap();
    assert_eq!((new.id == id, new.found), (false, Found::Nothing));
    let claims = s.claim().await;
    assert_eq!((claims.len(), claims[0].id), (1, id));
    assert_eq!(s.find("b").await.map(|it| it.id), Some(new.id));
}

/// An activated session waits a lease for somebody to connect.
pub async fn an_activated_session_waits_a_lease_for_somebody_to_connect(kit: &impl Kit) {
    let s = Subject::new(kit, |_| {}).await;
    let activated = s.activate("b", "one", None).await.unwrap();
    let id = activated.id;
    assert_eq!((s.get(id).await.state, s.get(id).await.ref_count), (State::Active, 0));
    s.pass(LEASE - 1).await;
    s.connect(id, "h").await.unwrap();
    // Whoever was expected has come: when they leave nobody is left.
    assert_eq!(s.disconnect(id, "h").await, Ok(Disconnect::Disconnected));
    let again = s.activate("b", "two", None).await.unwrap();
    assert_eq!((again.id, again.found, again.lease.generation.get()), (id, Found::Disconnected, 2));
    let again = s.activate("b", "three", Some("h")).await.unwrap();
    assert_eq!((again.id, again.found, again.lease.generation.get()), (id, Found::Active, 2));
    let session = s.get(id).await;
    assert_eq!((&*session.config, &*session.value, session.ref_count), ("three", "", 1));
    assert_eq!(session.last_update, ms((LEASE - 1) / 1000 * 1000));
    let first = Some(activated.lease.generation);
    assert_eq!(s.face.disconnect(id, ("h", first)).await.unwrap(), Err(Refusal::Stale));
    assert_eq!(s.face.update(id, "v", first).await.unwrap(), Err(Refusal::Stale));
    assert_eq!((&*s.get(id).await.value, s.get(id).await.ref_count), ("", 1));
}

/// Bounds on holders and sessions are exact; each partition has its part of those on sessions.
pub async fn bounds_on_holders_and_sessions_are_exact(kit: &impl Kit) {
    let s = Subject::new(kit, |it| (it.max_holders, it.max_sessions) = (3, 6)).await;
    let id = s.held("b0", "h0").await;
    s.pass(10).await;
    s.connect(id, "h1").await.unwrap();
    s.connect(id, "h2").await.unwrap();
    for holder in ["h3", "h4"] {
        assert_eq!(s.connect(id, holder).await, Err(Refusal::TooManyHolders));
        assert_eq!(s.resume(id, holder).await, Err(Refusal::TooManyHolders));
    }
    assert_eq!(s.activate("b0", "new", Some("h3")).await, Err(Refusal::TooManyHolders));
    assert_eq!(s.get(id).await.config, "{}", "a refusal changes nothing");
    s.connect(id, "h1").await.unwrap();
    // The first one's lease ends: there is room for one.
    s.reach(LEASE).await;
    s.connect(id, "h3").await.unwrap();
    assert_eq!(s.connect(id, "h0").await, Err(Refusal::TooManyHolders));
    assert_eq!(s.get(id).await.ref_count, 3);

    if kit.is_partitioned() {
        let mut full = 0;
        for number in 0..40 {
            full += usize::from(s.activate(&format!("b{number}"), "{}", None).await == Err(Refusal::Full));
        }
        assert_eq!((full, s.face.counts().await.unwrap().active), (34, 6));
        return;
    }
    for number in 1..6 {
        s.left(&format!("b{number}")).await;
    }
    assert_eq!(s.activate("b6", "{}", None).await, Err(Refusal::Full));
    assert_eq!(s.find("b6").await, None);
    s.held("b3", "h").await;
    s.pass(GRACE).await;
    let claims = s.claim().await;
    assert_eq!(s.activate("b6", "{}", None).await, Err(Refusal::Full), "claimed ones count");
    let acked = s.face.ack_many(&[(claims[0].id, claims[0].generation)]).await.unwrap();
    assert_eq!(acked, [Ok(())]);
    s.activate("b6", "{}", None).await.unwrap();
    assert_eq!(s.activate("b7", "{}", None).await, Err(Refusal::Full));
}

/// Names may be anything, and meet nobody else's.
pub async fn names_may_be_anything_and_meet_nobody_elses(kit: &impl Kit) {
    let names = ["{a}", "a", "{a", "ü 漢\n\0", "m", "h:", "s", "value", ":", "session:x", "last_disconnect"];
    let s = Subject::new(kit, |_| {}).await;
    let mut ids = Vec::new();
    for name in names {
        ids.push(s.held(name, name).await);
    }
    for (name, id) in names.into_iter().zip(&ids) {
        for holder in names {
            s.connect(*id, holder).await.unwrap();
        }
        s.face.update(*id, name, None).await.unwrap().unwrap();
        let session = s.find(name).await.unwrap();
        assert_eq!((session.id, &*session.broadcaster, &*session.value), (*id, name, name));
        assert_eq!(session.ref_count, names.len() as u64, "{name:?}");
        for (count, holder) in names.into_iter().enumerate() {
            let is_last = count + 1 == names.len();
            let expected = if is_last { Disconnect::Disconnected } else { Disconnect::Held };
            assert_eq!(s.disconnect(*id, holder).await, Ok(expected), "{holder:?}");
        }
        let session = s.get(*id).await;
        assert_eq!((&*session.value, session.generation.get()), (name, 1));
    }
    s.pass(GRACE).await;
    let mut claimed: Vec<_> = s.claim().await.into_iter().map(|it| it.broadcaster).collect();
    claimed.sort_unstable();
    let mut expected = names;
    expected.sort_unstable();
    assert_eq!(claimed, expected);
}

/// A list is read page by page, over all partitions, as if it were one.
pub async fn pages_of_a_list_are_the_list(kit: &impl Kit) {
    let s = Subject::new(kit, |_| {}).await;
    for number in 0..70 {
        s.left(&format!("b{number}")).await;
        // Several at the same time.
        s.pass(u64::from(number % 4 == 0)).await;
    }
    let page =
        async |after, limit| s.face.list_after(State::Disconnected, after, limit).await.unwrap().sessions;
    let all = page(None, 1000).await;
    assert!(all.len() == 70 && all.is_sorted());
    let mut pages = Vec::new();
    loop {
        let page = page(pages.last().copied(), 9).await;
        if page.is_empty() {
            break;
        }
        pages.extend(page);
    }
    assert_eq!(pages, all);
}

/// A clock that was years ahead for a moment pins nothing, and what it dated begins anew.
pub async fn a_clock_that_was_absurdly_ahead_holds_nothing_for_ever(kit: &impl Kit) {
    let s = Subject::new(kit, |_| {}).await;
    s.at(10 * 365 * 24 * 3_600_000);
    let (held, left) = (s.held("held", "h").await, s.left("left").await);
    let claimed = s.left("claimed").await;
    s.pass(GRACE).await;
    s.resume(left, "h").await.unwrap();
    assert_eq!(s.claim().await[0].id, claimed);
    s.disconnect(left, "h").await.unwrap();
    s.at(0);
    let now = s.held("now", "h").await;
    assert_eq!(s.find("now").await.map(|it| it.id), Some(now));
    assert_eq!(s.claim().await, []);
    assert_eq!(s.get(held).await.last_seen, ms(0));
    assert_eq!(s.get(left).await.last_disconnect, Some(ms(0)));
    s.reach(LEASE - 1).await;
    assert_eq!(s.cleaned_up().await, 0, "there is a hold");
    s.pass(1).await;
    assert_eq!(s.cleaned_up().await, 1, "what was left");
    s.reach(LEASE + GRACE).await;
    assert_eq!(s.cleaned_up().await, 2, "what was held");
    s.reach(LEASE + CLAIM).await;
    assert_eq!(s.cleaned_up().await, 1, "what was claimed");
}

/// A clock that was days ahead for a moment stops nothing once it is right again.
pub async fn a_clock_that_was_ahead_for_a_moment_does_not_stop_a_space(kit: &impl Kit) {
    let s = Subject::new(kit, |_| {}).await;
    s.at(6 * 24 * 3_600_000);
    s.face.counts().await.unwrap();
    s.at(0);
    s.left("b").await;
    s.pass(LEASE).await;
    assert_eq!(s.face.counts().await.unwrap().orphans, 1);
    assert_eq!(s.cleaned_up().await, 1);
}
