//! Several limits at once, on Redis: one script for all of them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use compact_str::{CompactString, ToCompactString as _};

use super::super::algorithm::{Algorithm, Request};
use super::super::decision::Decision;
use super::codes::{ALL_CHARGED, ALL_REFUSED, TRY_AGAIN};
use super::reply::{REPLIES, Reply};
use super::scripts::TAKE_ALL;
use super::{OnRedis, describe, exact};
use crate::error::Result;
use crate::key::Key;
use crate::store::redis::{Call, MARKER_TTL, RedisStore};

/// One limit of a take from several.
pub(in crate::limit) struct Part<'a> {
    pub(in crate::limit) limit: &'a OnRedis,
    pub(in crate::limit) request: Request,
}

/// What a script is told of several limits.
fn describe_all(parts: &[Part<'_>], store: &RedisStore, with_overrides: bool) -> Arc<[CompactString]> {
    let (slack_ms, ttl_ms) = (store.clock().slack_ms(), MARKER_TTL.as_millis() as u64);
    let numbers = [slack_ms, ttl_ms, u64::from(with_overrides), parts.len() as u64];
    let limits = parts.iter().flat_map(|Part { limit, .. }| {
        let name = match limit.algorithm {
            Algorithm::Suppressed(_) => "suppressed",
            other => other.name(),
        };
        let longest = limit.description.read().longest;
        let described = describe(&limit.algorithm, &limit.root, limit.hold, longest);
        // Beside its numbers it is described by four more.
        [name.into(), (described.len() - 4).to_compact_string()].into_iter().chain(described)
    });
    numbers.map(|n| n.to_compact_string()).into_iter().chain(limits).collect()
}

/// Charges `key` under all of `parts`, or under none; the decisions by their place,
/// or only that of one that refuses for all.
pub(in crate::limit) async fn take_all(parts: &[Part<'_>], key: Key<'_>) -> Result<Vec<(usize, Decision)>> {
    let Some(Part { limit: one, .. }) = parts.first() else { return Ok(Vec::new()) };
    let mut attempts = 0;
    loop {
        let place = one.store.place(key.as_str());
        let with_override = parts.iter().any(|part| part.limit.has_overrides.load(Ordering::Relaxed));
        let mut call = Call::new(&TAKE_ALL).shared_args(describe_all(parts, &one.store, with_override));
        for Part { limit, request } in parts {
            let (keys, first) = limit.keys(&place.prefix, key, with_override);
            let [a, b] = if request.remember { request.terms } else { [0; 2] };
            let extra = if limit.algorithm.draws() { exact(request.draw) } else { first.to_compact_string() };
            call = call.keys(keys).arg(request.cost).arg(a).arg(b).args([extra]);
        }
        let value = one.store.call(place.partition, call).await?;
        attempts += 1;
        let mut fields = REPLIES.list(&value)?;
        match fields.integer()? {
            ALL_CHARGED | ALL_REFUSED if fields.len() == parts.len() => {
                let decide = |(index, part): (usize, &Part<'_>)| {
                    Ok((index, part.limit.decision(Reply::read(fields.field()?)?, key, &part.request)?))
                };
                return parts.iter().enumerate().map(decide).collect();
            }
            TRY_AGAIN if attempts < 4 => match Reply::read(fields.field()?)? {
                Reply::Elsewhere(store_ms) => {
                    parts.iter().for_each(|part| part.limit.learn_skew(store_ms));
                }
                _ => parts.iter().for_each(|part| part.limit.has_overrides.store(true, Ordering::Relaxed)),
            },
            // One refuses everything after a loss; the others were not judged.
            number @ 1.. => {
                let index = number as usize - 1;
                let part = parts.get(index).ok_or_else(|| fields.unexpected())?;
                let held = Reply::read(fields.field()?)?;
                return Ok(vec![(index, part.limit.decision(held, key, &part.request)?)]);
            }
            _ => return Err(fields.unexpected()),
        }
    }
}
