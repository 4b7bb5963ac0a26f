//! Runs and failures in this process, page by page.

use std::ops::Bound;

use compact_str::CompactString;

use super::Partition;
use super::entry::Entry;
use crate::hour::Hour;
use crate::key::Key;
use crate::page::{Cursor, Order, Part, texts_of};
use crate::run::types::{Failure, Granted, Listed, RunFailure, RunState};

impl Partition {
    /// Runs that were started before `after`, the newest first.
    pub(in crate::run) fn list(
        &self,
        clock_ms: u64,
        state: Option<RunState>,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Part<Listed> {
        let states = RunState::ALL.into_iter().filter(|it| state.is_none_or(|state| state == *it));
        let end = after.map_or(Bound::Unbounded, Bound::Excluded);
        let listed = |place: &Cursor| {
            let (entry, at) = self.find(clock_ms, Key::raw(&place.member)).ok()?;
            Some((place.clone(), entry.listed(&place.member, &at)?))
        };
        let of_state = |state: RunState| {
            let places = self.started[state as usize].range::<Cursor, _>((Bound::Unbounded, end)).rev();
            places.filter_map(listed).take(limit + 1)
        };
        cut(states.flat_map(of_state).collect(), limit, Order::NewestFirst)
    }

    /// Failures of a run, the latest first.
    pub(in crate::run) fn failures(
        &self,
        clock_ms: u64,
        run: Key<'_>,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Granted<Part<Failure>> {
        let (entry, _) = self.read(clock_ms, run)?;
        let end = after.map(|after| (after.at_ms, after.member.clone()));
        let end = end.map_or(Bound::Unbounded, Bound::Excluded);
        let places = entry.failed_at.range((Bound::Unbounded, end)).rev().take(limit + 1);
        let found = places.filter_map(|place| failure(entry, place)).collect();
        Ok(cut(found, limit, Order::NewestFirst))
    }

    /// Items of a run that failed and were not processed since, the longest ago first.
    pub(in crate::run) fn retry_list(
        &self,
        clock_ms: u64,
        run: Key<'_>,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Granted<Part<Failure>> {
        let (entry, _) = self.read(clock_ms, run)?;
        let start = after.map(|after| (after.at_ms, after.member.clone()));
        let start = start.map_or(Bound::Unbounded, Bound::Excluded);
        let places = entry.to_retry.range((start, Bound::Unbounded)).take(limit + 1);
        let found = places.filter_map(|place| failure(entry, place)).collect();
        Ok(cut(found, limit, Order::OldestFirst))
    }

    /// Items of all runs that failed last in an hour, the latest first.
    pub(in crate::run) fn failures_in_hour(
        &self,
        clock_ms: u64,
        hour: Hour,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Part<RunFailure> {
        let end = Cursor { at_ms: hour.ends_ms(), member: CompactString::default() };
        let end = after.filter(|after| **after < end).unwrap_or(&end);
        let found = self.failed.of(hour, end).rev().filter_map(|place| {
            let (run, item) = texts_of(&place.member)?;
            let (entry, at) = self.read(clock_ms, Key::raw(run)).ok()?;
            let failure = entry.failure(item).filter(|_| place.at_ms + self.bounds.ttl_ms > at.now_ms)?;
            Some((place.clone(), RunFailure { run: run.to_owned(), failure }))
        });
        cut(found.take(limit + 1).collect(), limit, Order::NewestFirst)
    }
}

fn failure(entry: &Entry, (at_ms, item): &(u64, CompactString)) -> Option<(Cursor, Failure)> {
    let place = Cursor { at_ms: *at_ms, member: item.clone() };
    entry.failure(item).map(|failure| (place, failure))
}

/// The first `limit` of what was found.
fn cut<T>(mut found: Vec<(Cursor, T)>, limit: usize, order: Order) -> Part<T> {
    found.sort_by(|one, other| order.compare(&one.0, &other.0));
    let is_more = found.len() > limit;
    found.truncate(limit);
    let looked_to = found.last().filter(|_| is_more).map(|(place, _)| place.clone());
    Part { found, looked_to }
}
