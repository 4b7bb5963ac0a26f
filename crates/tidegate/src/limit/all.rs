//! Several limits at once: all of them are charged, or none.

use super::algorithm::Request;
use super::decision::{Decision, Source, Wait};
use super::handle::{Backend, Limit};
use super::{memory, redis};
use crate::bounds::Cost;
use crate::error::{Error, Result};
use crate::key::{Key, Name};
use crate::store::{self, Store};

/// The most limits of one take.
pub const MAX_LIMITS: usize = 16;

/// The answer to a take from several limits.
#[derive(Debug, Clone, PartialEq)]
pub struct AllDecision {
    decisions: Vec<(Name, Decision)>,
}

impl AllDecision {
    pub(super) fn new(decisions: Vec<(Name, Decision)>) -> Self {
        Self { decisions }
    }

    /// Whether to go ahead: all limits have been charged.
    pub fn is_admitted(&self) -> bool {
        self.decisions.iter().all(|(_, decision)| decision.is_admitted())
    }

    /// The first limit that refused.
    pub fn refused_by(&self) -> Option<&Name> {
        self.refusals().next().map(|(name, _)| name)
    }

    /// The limits that refused.
    pub fn refusals(&self) -> impl Iterator<Item = (&Name, &Decision)> {
        self.decisions().filter(|(_, decision)| !decision.is_admitted())
    }

    /// What each limit says, in the order they were given. If one refused, the
    /// others tell whether they would have admitted, and have charged nothing. After
    /// a loss a limit may refuse for all: then it is the only one.
    pub fn decisions(&self) -> impl Iterator<Item = (&Name, &Decision)> {
        self.decisions.iter().map(|(name, decision)| (name, decision))
    }

    /// When to come back: when the last of those that refused would admit. None if
    /// nothing was refused, or waiting cannot help.
    pub fn retry_after_ms(&self) -> Option<u64> {
        let waits = self.refusals().map(|(_, decision)| decision.wait());
        waits.map(|wait| wait.map(|Wait { retry_after_ms, .. }| retry_after_ms)).max_by_key(|wait| {
            // None is for ever.
            wait.unwrap_or(u64::MAX)
        })?
    }
}

/// What limits decided, by their place in the list.
type Decided = Vec<(usize, Decision)>;

/// Charges `key` under all of `limits`, which are of `store`, or under none.
pub(crate) async fn take_all(store: &Store, key: Key<'_>, limits: &[(&Limit, Cost)]) -> Result<AllDecision> {
    check(limits)?;
    let requests: Vec<Request> = limits.iter().map(|(limit, cost)| limit.plain(*cost)).collect();
    let decided = match store.backend() {
        store::Backend::Memory(store) => {
            let parts = limits.iter().zip(&requests).map(|((limit, _), request)| match &limit.core.backend {
                Backend::Memory(limit) => Ok(memory::Part { limit, request: *request }),
                Backend::Redis(_) => Err(elsewhere(limit)),
            });
            let parts: Vec<_> = parts.collect::<Result<_>>()?;
            memory::take_all(&parts, key, store.clock.now()).into_iter().enumerate().collect()
        }
        store::Backend::Redis(store) => {
            let parts = limits.iter().zip(&requests).map(|((limit, _), request)| match &limit.core.backend {
                Backend::Redis(on) if on.is_on(store) => Ok(redis::Part { limit: on, request: *request }),
                _ => Err(elsewhere(limit)),
            });
            let parts: Vec<_> = parts.collect::<Result<_>>()?;
            let decided = match redis::take_all(&parts, key).await {
                Err(error) if error.is_transient() => without_the_store(key, limits, &requests),
                decided => decided?,
            };
            let is_admitted = decided.iter().all(|(_, decision)| decision.is_admitted());
            for (index, decision) in &decided {
                limits[*index].0.core.tallies.count(is_admitted, decision.source());
            }
            decided
        }
    };
    let named = |(index, decision): (usize, Decision)| (limits[index].0.name().clone(), decision);
    Ok(AllDecision { decisions: decided.into_iter().map(named).collect() })
}

pub(super) fn check(limits: &[(&Limit, Cost)]) -> Result<()> {
    if limits.is_empty() || limits.len() > MAX_LIMITS {
        return Err(Error::invalid(format!(
            "{} limits at once are not allowed: 1 to {MAX_LIMITS} are",
            limits.len()
        )));
    }
    for (index, (limit, _)) in limits.iter().enumerate() {
        if limits[..index].iter().any(|(other, _)| other.name() == limit.name()) {
            let name = limit.name().as_str();
            return Err(Error::invalid(format!("the limit {name:?} is named twice: add its costs")));
        }
    }
    Ok(())
}

pub(super) fn elsewhere(limit: &Limit) -> Error {
    Error::invalid(format!("the limit {:?} is on another store", limit.name().as_str()))
}

/// By the policies of all: who refuses refuses for all, and who decides in this
/// process does so together.
fn without_the_store(key: Key<'_>, limits: &[(&Limit, Cost)], requests: &[Request]) -> Decided {
    let requested =
        || limits.iter().zip(requests).map(|((limit, _), request)| (*limit, *request)).enumerate();
    let is_local = |limit: &Limit, request| limit.local_share(request).is_some();
    // Those that decide without counting.
    let decided: Decided = requested()
        .filter(|(_, (limit, request))| !is_local(limit, *request))
        .map(|(index, (limit, request))| (index, limit.without_the_store(key, request)))
        .collect();
    let locals: Vec<_> = requested().filter(|(_, (limit, request))| is_local(limit, *request)).collect();
    let may_charge = decided.iter().all(|(_, decision)| decision.is_admitted());
    let mut all = decided;
    let parts: Vec<_> = locals
        .iter()
        .filter_map(|(_, (limit, request))| limit.local_share(*request))
        .map(|(limit, request)| memory::Part { limit, request })
        .collect();
    let Some(clock) = parts.first().map(|part| part.limit.clock().now()) else { return all };
    let charged: Vec<Decision> = match may_charge {
        true => memory::take_all(&parts, key, clock),
        false => parts.iter().map(|part| part.limit.peek_by(key, part.request)).collect(),
    };
    let indices = locals.iter().map(|(index, _)| *index);
    all.extend(indices.zip(charged).map(|(index, decision)| (index, decision.decided_by(Source::Local))));
    all.sort_by_key(|(index, _)| *index);
    all
}
