//! What happened to sessions as their clients saw it, and a checker of it that knows nothing of
//! how sessions are kept: only what is promised.
//!
//! Every call has a bracket: when it was begun and when its answer was there, on one clock. It was
//! carried out at some moment in between, so a lease that it gave ends no earlier than the
//! beginning and a lease, and what it did was done by its end. What is reported is a violation
//! wherever in their brackets the calls were carried out.

use std::collections::{BTreeMap, BTreeSet};

/// What a call did, as far as its caller knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    /// A holder was given its lease: activated, connected, resumed, renewed.
    Held { generation: u64 },
    /// A heartbeat was refused.
    Refused,
    /// A holder was sent away, whatever came of it. It never comes back under its name.
    Left,
    /// It was claimed.
    Claimed { generation: u64 },
    /// An acknowledgement has deleted it.
    Deleted,
}

/// One call on one session.
#[derive(Debug, Clone)]
pub(crate) struct Event {
    pub(crate) session: String,
    pub(crate) holder: String,
    pub(crate) call: Call,
    pub(crate) begun_ms: u64,
    pub(crate) ended_ms: u64,
}

/// What is promised.
#[derive(Debug, Clone)]
pub(crate) struct Promise {
    pub(crate) lease_ms: u64,
    pub(crate) grace_ms: u64,
    /// From when to when the store, or all who use it, were certainly stopped.
    pub(crate) outages: Vec<(u64, u64)>,
}

/// Whole milliseconds are rounded down.
const ROUNDED_MS: u64 = 2;

impl Promise {
    /// All that was broken.
    pub(crate) fn violations(&self, history: &[Event]) -> Vec<String> {
        let mut by_session = BTreeMap::<_, Vec<_>>::new();
        for event in history {
            by_session.entry(&event.session).or_default().push(event);
        }
        by_session.values().flat_map(|events| self.of_one(events)).collect()
    }

    fn of_one(&self, events: &[&Event]) -> Vec<String> {
        let mut found = Vec::new();
        let deletions = events.iter().filter(|it| it.call == Call::Deleted).count();
        if deletions > 1 {
            found.push(format!("deleted {deletions} times: {:?}", events[0].session));
        }
        for event in events {
            match event.call {
                Call::Claimed { .. } => {
                    found.extend(self.claimed_too_early(events, event));
                    found.extend(held_after(events, event));
                }
                Call::Deleted => found.extend(held_after(events, event)),
                Call::Refused => found.extend(self.refused_in_its_lease(events, event)),
                Call::Held { .. } | Call::Left => {}
            }
        }
        let generation = |it: &Event| match it.call {
            Call::Held { generation } | Call::Claimed { generation } => Some(generation),
            _ => None,
        };
        for (first, number) in events.iter().filter_map(|it| Some((it, generation(it)?))) {
            let later = events.iter().filter(|it| it.begun_ms > first.ended_ms);
            let before = later.filter_map(|it| Some((it, generation(it)?))).find(|it| it.1 < number);
            found.extend(before.map(|(it, _)| format!("a generation that was over: {first:?}, then {it:?}")));
        }
        found
    }

    /// Until when the lease that `held` gave certainly lasts, seen at `at_ms`: a lease from its
    /// beginning, or until the holder left; and if it had not ended when all were stopped for
    /// longer than half a lease, a lease from when they were not.
    fn lasts_until(&self, events: &[&Event], held: &Event, at_ms: u64) -> u64 {
        let mut until_ms = held.begun_ms + self.lease_ms;
        for (from_ms, to_ms) in &self.outages {
            let is_long = 2 * (to_ms - from_ms) > self.lease_ms;
            if is_long && held.ended_ms <= *from_ms && until_ms > *from_ms && *to_ms <= at_ms {
                until_ms = until_ms.max(to_ms + self.lease_ms);
            }
        }
        let left = events.iter().filter(|it| it.call == Call::Left && it.holder == held.holder);
        left.map(|it| it.begun_ms).chain([until_ms]).min().unwrap_or(until_ms)
    }

    fn given<'a>(events: &[&'a Event], before_ms: u64) -> impl Iterator<Item = &'a Event> {
        let given = events.iter().copied().filter(|it| matches!(it.call, Call::Held { .. }));
        given.filter(move |it| it.ended_ms <= before_ms).collect::<Vec<_>>().into_iter()
    }

    /// A session is an orphan when its last lease has ended and the grace has passed.
    fn claimed_too_early(&self, events: &[&Event], claim: &Event) -> Option<String> {
        let orphaned_ms = |held: &Event| self.lasts_until(events, held, claim.begun_ms) + self.grace_ms;
        let is_early = |held: &&Event| claim.ended_ms + ROUNDED_MS < orphaned_ms(held);
        let held = Self::given(events, claim.begun_ms).find(|held| is_early(held))?;
        Some(format!("claimed before its lease and grace were over: {held:?}, then {claim:?}"))
    }

    fn refused_in_its_lease(&self, events: &[&Event], refused: &Event) -> Option<String> {
        let own = Self::given(events, refused.begun_ms).filter(|it| it.holder == refused.holder);
        let is_held =
            |held: &Event| refused.ended_ms + ROUNDED_MS < self.lasts_until(events, held, refused.begun_ms);
        let held = own.into_iter().find(|held| is_held(held))?;
        Some(format!("refused though its lease had not ended: {held:?}, then {refused:?}"))
    }
}

/// Side effects may have run: it never comes back.
fn held_after(events: &[&Event], end: &Event) -> Option<String> {
    let held = events.iter().filter(|it| matches!(it.call, Call::Held { .. }));
    let after = held.clone().find(|it| it.begun_ms > end.ended_ms)?;
    Some(format!("held after its end: {end:?}, then {after:?}"))
}

/// Sessions that somebody was given.
pub(crate) fn sessions(history: &[Event]) -> usize {
    history.iter().map(|it| &it.session).collect::<BTreeSet<_>>().len()
}

mod tests {
    use super::*;

    fn event(holder: &str, call: Call, begun_ms: u64, ended_ms: u64) -> Event {
        Event { session: "s".to_owned(), holder: holder.to_owned(), call, begun_ms, ended_ms }
    }

    const HELD: Call = Call::Held { generation: 1 };
    const CLAIMED: Call = Call::Claimed { generation: 1 };

    fn found(outages: &[(u64, u64)], history: &[Event]) -> usize {
        let promise = Promise { lease_ms: 1000, grace_ms: 500, outages: outages.to_vec() };
        promise.violations(history).len()
    }

    #[test]
    fn a_checker_that_finds_nothing_would_not_be_one() {
        let held = event("a", HELD, 100, 120);
        // A lease from 100 on, and the grace: 1600. The claim was carried out by its end.
        assert_eq!(found(&[], &[held.clone(), event("", CLAIMED, 1500, 1590)]), 1);
        assert_eq!(found(&[], &[held.clone(), event("", CLAIMED, 1500, 1610)]), 0);
        // Whether the lease was given before is not known.
        assert_eq!(found(&[], &[held.clone(), event("", CLAIMED, 110, 130)]), 0);
        // Who has left has left, and its grace runs.
        let left = event("a", Call::Left, 300, 400);
        assert_eq!(found(&[], &[held.clone(), left.clone(), event("", CLAIMED, 700, 790)]), 1);
        assert_eq!(found(&[], &[held.clone(), left.clone(), event("", CLAIMED, 700, 810)]), 0);
        // Another holds it still.
        let other = event("b", HELD, 250, 260);
        assert_eq!(found(&[], &[held.clone(), left, other, event("", CLAIMED, 900, 1200)]), 1);
        // After its end it is over.
        let ended = [event("", CLAIMED, 1600, 1610), event("", Call::Deleted, 1700, 1710)];
        assert_eq!(found(&[], &[std::slice::from_ref(&held), &ended[..]].concat()), 0);
        assert_eq!(found(&[], &[std::slice::from_ref(&held), &ended[..], &ended[1..]].concat()), 1);
        let again = event("a", Call::Held { generation: 2 }, 1650, 1660);
        assert_eq!(found(&[], &[&[held.clone(), again], &ended[..]].concat()), 1);
        let again = event("a", Call::Held { generation: 2 }, 1605, 1660);
        assert_eq!(found(&[], &[held.clone(), again, ended[0].clone()]), 0, "in between, perhaps before");
        // A generation never goes back.
        let (second, first) = (Call::Held { generation: 2 }, HELD);
        assert_eq!(found(&[], &[event("a", second, 100, 110), event("a", first, 120, 130)]), 1);
        assert_eq!(found(&[], &[event("a", second, 100, 110), event("a", first, 105, 130)]), 0);
    }

    #[test]
    fn an_outage_gives_a_lease_to_those_who_had_one() {
        let held = event("a", HELD, 100, 120);
        let refused = |begun, ended| event("a", Call::Refused, begun, ended);
        assert_eq!(found(&[], &[held.clone(), refused(900, 1090)]), 1);
        assert_eq!(found(&[], &[held.clone(), refused(900, 1110)]), 0);
        // From 1000 to 3000: until 4000, and the grace.
        let outage = [(1000, 3000)];
        assert_eq!(found(&outage, &[held.clone(), refused(3100, 3990)]), 1);
        assert_eq!(found(&outage, &[held.clone(), refused(3100, 4010)]), 0);
        assert_eq!(found(&outage, &[held.clone(), event("", CLAIMED, 3100, 4490)]), 1);
        assert_eq!(found(&outage, &[held.clone(), event("", CLAIMED, 3100, 4510)]), 0);
        // Its lease had ended before, or the outage was too short, or not over yet.
        assert_eq!(found(&[(1200, 3000)], &[held.clone(), refused(3100, 3200)]), 0);
        assert_eq!(found(&[(1000, 1400)], &[held.clone(), refused(1450, 1460)]), 0);
        assert_eq!(found(&outage, &[held, event("", CLAIMED, 2900, 3900)]), 0);
    }
}
