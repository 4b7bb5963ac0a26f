//! Several limits at once, on Redis: one script for all of them.

use std::sync::atomic::Ordering;
use std::sync::{Arc, LazyLock};

use compact_str::{CompactString, ToCompactString as _};
use redis::Value;

use super::super::algorithm::{Algorithm, Request};
use super::super::decision::Decision;
use super::reply::{Reply, reply};
use super::{
    CALENDAR_LUA, OnRedis, RATE, RULES, SLIDING_LUA, SUPPRESSED_LUA, TOKEN_LUA, describe, exact, unexpected,
};
use crate::error::Result;
use crate::key::Key;
use crate::store::redis::{Call, MARKER_TTL, RedisStore, Script};

static TAKE_ALL: LazyLock<Script> = LazyLock::new(|| {
    let algorithms = [RATE, SLIDING_LUA, SUPPRESSED_LUA, TOKEN_LUA, CALENDAR_LUA, RULES];
    Script::new(&[&algorithms[..], &[include_str!("../take_all.lua")]].concat())
});

/// One limit of a take from several.
pub(in crate::limit) struct Part<'a> {
    pub(in crate::limit) limit: &'a OnRedis,
    pub(in crate::limit) request: Request,
}

/// What a script is told of several limits.
fn describe_all(parts: &[Part<'_>], store: &RedisStore, with_overrides: bool) -> Arc<[CompactString]> {
    let common = [store.clock().slack_ms(), MARKER_TTL.as_millis() as u64, u64::from(with_overrides)];
    let common = common.into_iter().chain([parts.len() as u64]).map(|n| n.to_compact_string());
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
    common.chain(limits).collect()
}

/// Charges `key` under all of `parts`, or under none; the decisions by their place,
/// or only that of one that refuses for all.
pub(in crate::limit) async fn take_all(parts: &[Part<'_>], key: Key<'_>) -> Result<Vec<(usize, Decision)>> {
    let Some(Part { limit: one, .. }) = parts.first() else { return Ok(Vec::new()) };
    let mut attempts = 0;
    loop {
        let place = one.store.place(key.as_str());
        let with_override = parts.iter().any(|part| part.limit.has_overrides.load(Ordering::Relaxed));
        let (mut keys, mut own) = (Vec::new(), Vec::new());
        for Part { limit, request } in parts {
            let (its, first) = limit.keys(&place.prefix, key, with_override);
            keys.extend(its);
            let [a, b] = if request.remember { request.terms } else { [0; 2] };
            own.extend([request.cost, a, b].map(|n| n.to_compact_string()));
            own.push(if limit.algorithm.draws() { exact(request.draw) } else { first.to_compact_string() });
        }
        let more_keys = keys.split_off(1);
        let call = Call {
            script: &TAKE_ALL,
            shared_args: describe_all(parts, &one.store, with_override),
            key: keys.swap_remove(0),
            shared_keys: Arc::default(),
            items: 1,
            more_keys,
            item_args: own,
            now_ms: one.store.set_time_ms(),
        };
        let value = one.store.call(place.partition, call).await?;
        attempts += 1;
        let Value::Array(items) = &value else { return Err(unexpected(&value)) };
        let Some((Value::Int(head), answers)) = items.split_first() else { return Err(unexpected(&value)) };
        match (head, answers) {
            // All were judged.
            (-2 | -1, answers) if answers.len() == parts.len() => {
                let decide = |(index, (part, it)): (usize, (&Part<'_>, &Value))| {
                    Ok((index, part.limit.decision(reply(it)?, key, &part.request)?))
                };
                return parts.iter().zip(answers).enumerate().map(decide).collect();
            }
            // One refuses everything after a loss; the others were not asked.
            (index @ 1.., [held]) => {
                let index = *index as usize - 1;
                let part = parts.get(index).ok_or_else(|| unexpected(&value))?;
                return Ok(vec![(index, part.limit.decision(reply(held)?, key, &part.request)?)]);
            }
            (0, [other]) if attempts < 4 => match reply(other)? {
                Reply::Elsewhere(store_ms) => {
                    parts.iter().for_each(|part| part.limit.learn_skew(store_ms));
                }
                _ => parts.iter().for_each(|part| part.limit.has_overrides.store(true, Ordering::Relaxed)),
            },
            _ => return Err(unexpected(&value)),
        }
    }
}
