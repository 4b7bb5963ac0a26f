//! Several limits at once, in this process.

use std::sync::Arc;

use super::super::algorithm::Request;
use super::super::decision::{Decision, Source};
use super::super::rule::Rule;
use super::super::verdict::Verdict;
use super::{Counted, Engine, InProcess};
use crate::bounds::WhenFull;
use crate::clock::Timestamp;
use crate::key::Key;
use crate::store::memory::Lookup;

/// One limit of a take from several.
pub(in crate::limit) struct Part<'a> {
    pub(in crate::limit) limit: &'a InProcess,
    pub(in crate::limit) request: Request,
}

/// What becomes of a key for which there is no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Overflow {
    /// By the setting of its limit.
    AsSet,
    /// It is refused: what it shares with others could not be given back.
    Refuse,
}

/// What is asked of all of them.
struct Asked<'a> {
    parts: &'a [Part<'a>],
    key: Key<'a>,
    now: Timestamp,
    overflow: Overflow,
}

/// Charges `key` under all of `parts`, or under none; the decision of each, in
/// order. All states are locked at once, in an order that all callers keep.
pub(in crate::limit) fn take_all(parts: &[Part<'_>], key: Key<'_>, now: Timestamp) -> Vec<Decision> {
    take_all_or(parts, key, now, Overflow::AsSet)
}

/// The same, where a key without room gets what `overflow` says.
pub(super) fn take_all_or(
    parts: &[Part<'_>],
    key: Key<'_>,
    now: Timestamp,
    overflow: Overflow,
) -> Vec<Decision> {
    let mut order: Vec<usize> = (0..parts.len()).collect();
    order.sort_by_key(|index| Arc::as_ptr(&parts[*index].limit.shared) as usize);
    let mut decisions = vec![None; parts.len()];
    descend(&Asked { parts, key, now, overflow }, &order, true, &mut decisions);
    let decisions: Vec<_> = decisions.into_iter().flatten().collect();
    if decisions.iter().all(Decision::is_admitted) {
        parts.iter().zip(&decisions).for_each(|(part, decision)| part.limit.note(key, now, decision));
    }
    decisions
}

/// Judges the first limit of `order`, then the rest with its state still locked;
/// charges it if all of them fit. Whether they do.
fn descend(
    asked: &Asked<'_>,
    order: &[usize],
    fits_so_far: bool,
    decisions: &mut [Option<Decision>],
) -> bool {
    let Some((index, rest)) = order.split_first() else { return fits_so_far };
    let Asked { parts, key, now, overflow: overflowing } = *asked;
    let Part { limit, request } = &parts[*index];
    let request = limit.by_override(key, now, *request);
    with!(&limit.shared.engine, counted => {
        let Counted { rule, table, overflow } = counted;
        let now_ms = now.as_millis();
        let seconds = limit.window_seconds_of(request.terms);
        let charge = |state: &mut _, fits: bool, rest: bool| -> Option<Verdict> {
            // By chance and refused: recorded all the same.
            (rest || !fits && records_all(rule)).then(|| rule.take(state, now_ms, request))
        };
        let mut go_on = |fits| descend(asked, rest, fits_so_far && fits, decisions);
        let entry = rule.entry(key.as_str(), now_ms);
        let found = table.upsert(&entry, now, rule, |state, subject, tally| {
            let judged = rule.peek(state, now_ms, request);
            let all_fit = go_on(judged.is_admitted());
            let charged = charge(state, judged.is_admitted(), all_fit);
            tally.count(all_fit);
            ((charged.unwrap_or(judged), subject, all_fit), charged.is_some())
        });
        let (decision, all_fit) = match found {
            Lookup::Found((verdict, subject, all_fit)) => (verdict.into_decision(request.cost, subject, seconds), all_fit),
            Lookup::Full
                if overflowing == Overflow::Refuse || limit.shared.when_full == WhenFull::Refuse =>
            {
                go_on(false);
                limit.shared.overflow.count(false);
                (limit.no_room(counted, now, request), false)
            }
            Lookup::Full => {
                let mut state = overflow.lock();
                let judged = rule.peek(&state, now_ms, request);
                let all_fit = go_on(judged.is_admitted());
                let verdict = charge(&mut state, judged.is_admitted(), all_fit).unwrap_or(judged);
                limit.shared.overflow.count(all_fit);
                (verdict.into_decision(request.cost, 0, seconds).decided_by(Source::Policy), all_fit)
            }
        };
        decisions[*index] = Some(decision);
        all_fit
    })
}

fn records_all<R: Rule>(_: &R) -> bool {
    R::RECORDS_ALL
}
