//! Several limits at once, on Redis: one script for all of them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use compact_str::{CompactString, ToCompactString as _};

use redis::Value;

use super::super::algorithm::{Algorithm, Request};
use super::super::decision::Decision;
use super::codes::{ALL_CHARGED, ALL_REFUSED, TRY_AGAIN};
use super::reply::{REPLIES, Reply};
use super::scripts::TAKE_ALL;
use super::{OnRedis, describe, exact};
use crate::error::{Error, Result};
use crate::key::Key;
use crate::store::redis::{Call, Fields, MARKER_TTL};

/// One limit of a take from several.
pub(in crate::limit) struct Part<'a> {
    pub(in crate::limit) limit: &'a OnRedis,
    pub(in crate::limit) request: Request,
}

/// What a script is told of several limits, and behind that.
pub(super) fn describe_all(
    limits: &[&OnRedis],
    with_overrides: bool,
    behind: impl IntoIterator<Item = u64>,
) -> Arc<[CompactString]> {
    let slack_ms = limits.first().map_or(0, |limit| limit.store.clock().slack_ms());
    let numbers = [slack_ms, MARKER_TTL.as_millis() as u64, u64::from(with_overrides), limits.len() as u64];
    let limits = limits.iter().flat_map(|limit| {
        let name = match limit.algorithm {
            Algorithm::Suppressed(_) => "suppressed",
            other => other.name(),
        };
        let longest = limit.description.read().longest;
        let described = describe(&limit.algorithm, &limit.root, limit.hold, longest);
        // Beside its numbers it is described by four more.
        [name.into(), (described.len() - 4).to_compact_string()].into_iter().chain(described)
    });
    let behind = behind.into_iter().map(|n| n.to_compact_string());
    numbers.map(|n| n.to_compact_string()).into_iter().chain(limits).chain(behind).collect()
}

/// Runs a script for `key` under several limits. `make` makes the call, for keys that start with a prefix, and with
/// those of overrides or not. Asks again if the script needs other keys: it has done nothing then.
pub(super) async fn run_all(
    limits: &[&OnRedis],
    key: Key<'_>,
    make: impl Fn(&str, bool) -> Call,
) -> Result<Value> {
    let Some(one) = limits.first() else { return Err(Error::internal("no limit is asked")) };
    let mut attempts = 0;
    loop {
        let place = one.store.place(key.as_str());
        let with_override = limits.iter().any(|limit| limit.has_overrides.load(Ordering::Relaxed));
        let value = one.store.call(place.partition, make(&place.prefix, with_override)).await?;
        attempts += 1;
        let mut fields = REPLIES.list(&value)?;
        if fields.integer()? != TRY_AGAIN || attempts == 4 {
            return Ok(value);
        }
        match Reply::read(fields.field()?)? {
            Reply::Elsewhere(store_ms) => limits.iter().for_each(|limit| limit.learn_skew(store_ms)),
            _ => limits.iter().for_each(|limit| limit.has_overrides.store(true, Ordering::Relaxed)),
        }
    }
}

/// Charges `key` under all of `parts`, or under none; the decisions by their place,
/// or only that of one that refuses for all.
pub(in crate::limit) async fn take_all(parts: &[Part<'_>], key: Key<'_>) -> Result<Vec<(usize, Decision)>> {
    let limits: Vec<_> = parts.iter().map(|part| part.limit).collect();
    let value = run_all(&limits, key, |prefix, with_override| {
        let mut call = Call::new(&TAKE_ALL).shared_args(describe_all(&limits, with_override, []));
        for Part { limit, request } in parts {
            let (keys, first) = limit.keys(prefix, key, with_override);
            let [a, b] = if request.remember { request.terms } else { [0; 2] };
            let extra = if limit.algorithm.draws() { exact(request.draw) } else { first.to_compact_string() };
            call = call.keys(keys).arg(request.cost).arg(a).arg(b).args([extra]);
        }
        call
    });
    let value = value.await?;
    let requests: Vec<_> = parts.iter().map(|part| (part.limit, part.request)).collect();
    let mut fields = REPLIES.list(&value)?;
    match fields.integer()? {
        ALL_CHARGED | ALL_REFUSED => decide_all(&requests, key, &mut fields),
        number => decide_one(&requests, key, number, &mut fields),
    }
}

/// What each limit answers.
pub(super) fn decide_all(
    requests: &[(&OnRedis, Request)],
    key: Key<'_>,
    fields: &mut Fields<'_>,
) -> Result<Vec<(usize, Decision)>> {
    let decide = |(index, (limit, request)): (usize, &(&OnRedis, Request))| {
        Ok((index, limit.decision(Reply::read(fields.field()?)?, key, request)?))
    };
    requests.iter().enumerate().map(decide).collect()
}

/// What the one of that number answers, which refuses everything after a loss; the others were not judged.
pub(super) fn decide_one(
    requests: &[(&OnRedis, Request)],
    key: Key<'_>,
    number: i64,
    fields: &mut Fields<'_>,
) -> Result<Vec<(usize, Decision)>> {
    let index = usize::try_from(number - 1).map_err(|_| fields.unexpected())?;
    let (limit, request) = requests.get(index).ok_or_else(|| fields.unexpected())?;
    let held = Reply::read(fields.field()?)?;
    Ok(vec![(index, limit.decision(held, key, request)?)])
}
