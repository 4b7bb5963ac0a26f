//! Charges by an id, on Redis.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use compact_str::CompactString;
use parking_lot::RwLock;
use smallvec::SmallVec;

use super::super::algorithm::Request;
use super::super::charge::{Identity, Outcome, Release, is_something_else};
use super::super::decision::Quota;
use super::super::hours::{Hour, HourChange, LimitHour};
use super::super::reservation;
use super::all::{decide_all, decide_one, describe_all, run_all};
use super::codes::{ALL_CHARGED, ALL_KNOWN, ALL_NO_ROOM, ALL_OTHER, ALL_REFUSED, ALL_RELEASED, ALL_UNKNOWN};
use super::reply::REPLIES;
use super::scripts::{CHARGE_ALL, HOURS_OF, RELEASE_ALL};
use super::{OnRedis, RECORDS};
use crate::bounds::Cost;
use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::key::Key;
use crate::store::redis::{Call, Fields};

/// The hours of a limit.
const HOURS: &str = "hours";

/// One limit of those that are charged together.
pub(in crate::limit) struct ChargePart<'a> {
    pub(in crate::limit) limit: &'a OnRedis,
    pub(in crate::limit) cost: Cost,
    /// How many ids it remembers of a key.
    pub(in crate::limit) max: usize,
}

fn limits_of<'a>(parts: &[ChargePart<'a>]) -> Vec<&'a OnRedis> {
    parts.iter().map(|part| part.limit).collect()
}

fn requests_of<'a>(parts: &[ChargePart<'a>]) -> Vec<(&'a OnRedis, Request)> {
    parts.iter().map(|part| (part.limit, part.limit.plain(part.cost))).collect()
}

/// What all charges of a quota send along: made once for many, and anew when anything of it has changed.
#[derive(Debug, Default)]
pub(in crate::limit) struct Prepared(RwLock<Option<Sent>>);

#[derive(Debug, Clone)]
struct Sent {
    /// What scripts are told of each limit, and which window comes first.
    of: SmallVec<[(Arc<[CompactString]>, u64); 2]>,
    args: Arc<[CompactString]>,
    keys: Arc<[String]>,
}

impl Sent {
    fn new(
        parts: &[ChargePart<'_>],
        key: Key<'_>,
        identity: &Identity<'_>,
        is_quota: bool,
        prefix: &str,
        with_override: bool,
    ) -> Self {
        let (mut of, mut keys) = (SmallVec::new(), Vec::new());
        let mut behind = vec![identity.remembered_ms, u64::from(is_quota), identity.together];
        for ChargePart { limit, max, .. } in parts {
            let (of_limit, first) = limit.keys(prefix, key, with_override);
            keys.extend(of_limit);
            keys.extend(RECORDS.map(|family| limit.beside(prefix, family, key)));
            behind.extend([first, *max as u64]);
            of.push((limit.described(with_override), first));
        }
        if let Some(first) = parts.first().filter(|_| is_quota) {
            keys.push(first.limit.index(prefix, HOURS));
        }
        Self { of, args: describe_all(&limits_of(parts), with_override, behind), keys: keys.into() }
    }

    /// Whether it would be made the same now.
    fn is_current(&self, parts: &[ChargePart<'_>], with_override: bool) -> bool {
        self.of.iter().zip(parts).all(|((described, first), ChargePart { limit, .. })| {
            Arc::ptr_eq(described, &limit.described(with_override)) && *first == limit.first_window()
        })
    }
}

impl Prepared {
    fn get(&self, parts: &[ChargePart<'_>], with_override: bool, make: impl FnOnce() -> Sent) -> Sent {
        if let Some(sent) = self.0.read().as_ref().filter(|sent| sent.is_current(parts, with_override)) {
            return sent.clone();
        }
        let made = make();
        *self.0.write() = Some(made.clone());
        made
    }
}

/// Charges `key` under all of `parts`, or under none. A quota has what its charges send along `prepared`: it is all without
/// a subject, and the first charge of an hour is told.
pub(in crate::limit) async fn charge_all(
    parts: &[ChargePart<'_>],
    key: Key<'_>,
    identity: &Identity<'_>,
    prepared: Option<&Prepared>,
) -> Result<(Outcome, Option<HourChange>)> {
    let (id, is_quota) = (identity.id.unwrap_or(""), prepared.is_some());
    let limits = limits_of(parts);
    let value = run_all(&limits, key, |prefix, with_override| {
        let make = || Sent::new(parts, key, identity, is_quota, prefix, with_override);
        let call = Call::new(&CHARGE_ALL);
        let call = match prepared {
            Some(prepared) => {
                let Sent { args, keys, .. } = prepared.get(parts, with_override, make);
                call.shared_args(args).shared_keys(keys)
            }
            None => {
                let Sent { args, keys, .. } = make();
                call.shared_args(args).keys(keys.iter().cloned())
            }
        };
        parts.iter().fold(call.arg(id), |call, part| call.arg(part.cost.get()))
    });
    let value = value.await?;
    let requests = requests_of(parts);
    let mut fields = REPLIES.list(&value)?;
    let outcome = match fields.integer()? {
        code @ (ALL_CHARGED | ALL_KNOWN) => {
            let decisions = decide_all(&requests, key, &mut fields)?;
            let quotas = decisions.iter().map(|(_, decision)| *decision.quota()).collect();
            Outcome::Charged { is_new: code == ALL_CHARGED, quotas }
        }
        ALL_RELEASED => Outcome::Released,
        ALL_REFUSED => Outcome::Refused(decide_all(&requests, key, &mut fields)?),
        ALL_OTHER => {
            let [number, cost] = fields.numbers()?;
            return Err(match (parts.get((number as usize).wrapping_sub(1)), cost) {
                (Some(part), 1..) => reservation::conflict(id, part.cost.get(), cost),
                _ => is_something_else(id),
            });
        }
        ALL_NO_ROOM => {
            let part = parts.get((fields.number()? as usize).wrapping_sub(1));
            return Err(reservation::too_many(part.map_or(0, |part| part.max)));
        }
        number => Outcome::Refused(decide_one(&requests, key, number, &mut fields)?),
    };
    let change = match outcome {
        // The fast path is not there for the first of an hour.
        Outcome::Charged { is_new: true, .. } if is_quota && !fields.is_empty() => {
            Some(read_change(&mut fields.list()?)?)
        }
        _ => None,
    };
    Ok((outcome, change))
}

/// Gives back what was charged by an id, where it still counts.
pub(in crate::limit) async fn release_all(
    parts: &[ChargePart<'_>],
    key: Key<'_>,
    identity: &Identity<'_>,
) -> Result<Release> {
    let id = identity.id.unwrap_or("");
    let limits = limits_of(parts);
    let value = run_all(&limits, key, |prefix, with_override| {
        let args = describe_all(&limits, with_override, [identity.remembered_ms]);
        let mut call = Call::new(&RELEASE_ALL).shared_args(args).arg(id).arg(identity.together);
        for ChargePart { limit, max, .. } in parts {
            let (keys, first) = limit.keys(prefix, key, with_override);
            let records = RECORDS.map(|family| limit.beside(prefix, family, key));
            call = call.keys(keys).keys(records).arg(first).arg(*max);
        }
        call
    });
    let value = value.await?;
    let mut fields = REPLIES.list(&value)?;
    match fields.integer()? {
        ALL_RELEASED => Ok(Release::Released { is_new: fields.flag()? }),
        ALL_UNKNOWN => Ok(Release::Unknown),
        ALL_OTHER => Err(is_something_else(id)),
        number => {
            // After a loss nothing is known, and it is not guessed.
            decide_one(&requests_of(parts), key, number, &mut fields)?;
            Err(Error::unavailable("the store lost writes: charges cannot be released for a window"))
        }
    }
}

/// Where `key` stands, and the hours of a day, the last first.
pub(in crate::limit) async fn hours_of(
    parts: &[ChargePart<'_>],
    key: Key<'_>,
) -> Result<(Timestamp, Vec<Quota>, Vec<Hour>)> {
    let limits = limits_of(parts);
    let value = run_all(&limits, key, |prefix, with_override| {
        let mut call = Call::new(&HOURS_OF).shared_args(describe_all(&limits, with_override, []));
        for ChargePart { limit, .. } in parts {
            let (keys, first) = limit.keys(prefix, key, with_override);
            call = call.keys(keys).arg(first);
        }
        call
    });
    let value = value.await?;
    let mut fields = REPLIES.list(&value)?;
    if fields.integer()? != ALL_KNOWN {
        return Err(fields.unexpected());
    }
    let decisions = decide_all(&requests_of(parts), key, &mut fields)?;
    let quotas = decisions.iter().map(|(_, decision)| *decision.quota()).collect();
    let now = fields.time()?;
    let of_limit = |fields: &mut Fields<'_>| {
        fields.list()?.each(|fields| Ok(read_hour(fields.number()?, &fields.text()?)))
    };
    let hours: Vec<_> = parts.iter().map(|_| of_limit(&mut fields)).collect::<Result<_>>()?;
    Ok((now, quotas, Hour::of_all(&hours)))
}

/// What is said of the first charge of an hour.
fn read_change(fields: &mut Fields<'_>) -> Result<HourChange> {
    let previous = fields.each(|fields| {
        let (number, noted) = (fields.integer()?, fields.text()?);
        Ok(u64::try_from(number).ok().map(|number| read_hour(number, &noted)))
    })?;
    Ok(HourChange::after(&previous))
}

/// An hour, as it was noted. What others wrote there counts as nothing.
fn read_hour(number: u64, noted: &str) -> LimitHour {
    let mut numbers = noted.split_whitespace().map(|number| number.parse().unwrap_or(0));
    let first_charge = Timestamp::from_millis(numbers.next().unwrap_or(0));
    LimitHour { number, first_charge, most: numbers.next().unwrap_or(0) }
}
