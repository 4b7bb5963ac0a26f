//! Side effects of what was left behind: several at a time, each acknowledged when it is
//! done, and none claimed before there is somebody to run it.

use std::collections::BTreeMap;

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokio::time::MissedTickBehavior;

use super::handle::Sessions;
use super::types::{Claim, Generation, SessionId};
use crate::clock;
use crate::error::Result;
use crate::log;

impl Sessions {
    /// Claims orphans until none are due, runs `effect` for each and acknowledges those
    /// for which it succeeded; how many that were.
    ///
    /// [`effects_at_once`](super::SessionOptions::effects_at_once) run at a time, and no
    /// more are claimed. A claim whose effect takes long is renewed until it is done.
    pub async fn reap<F, E>(&self, mut effect: impl FnMut(Claim) -> F) -> Result<u64>
    where
        F: Future<Output = std::result::Result<(), E>>,
        E: std::fmt::Display,
    {
        let options = &self.core.options;
        let (at_once, pause) = (options.effects_at_once, options.claim_lease / 3);
        let mut renew_at = tokio::time::interval_at(clock::deadline(pause), pause);
        renew_at.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut running, mut claiming) = (FuturesUnordered::new(), FuturesUnordered::new());
        let mut renewing = FuturesUnordered::new();
        let mut claimed = BTreeMap::new();
        let (mut reaped, mut is_more, mut failed) = (0, true, Ok(()));
        loop {
            // Not one by one: a claim is a round trip.
            if is_more && claiming.is_empty() && 2 * running.len() <= at_once {
                claiming.push(self.claim(at_once - running.len()));
            }
            tokio::select! {
                Some(found) = claiming.next() => match found {
                    Ok(found) => {
                        is_more = found.swept.is_more && found.swept.items() + found.claims.len() as u64 > 0;
                        for claim in found.claims {
                            let (id, generation) = (claim.id, claim.generation);
                            claimed.insert(id, (generation, claim.attempt));
                            running.push(self.acknowledged(id, generation, effect(claim)));
                        }
                    }
                    Err(error) => (is_more, failed) = (false, Err(error)),
                },
                Some((id, done)) = running.next() => {
                    claimed.remove(&id);
                    match done {
                        Ok(is_acked) => reaped += u64::from(is_acked),
                        // Its partition is away: others are not.
                        Err(error) => failed = Err(error),
                    }
                }
                Some(renewed) = renewing.next() => {
                    let (id, is_ours): (SessionId, bool) = renewed;
                    if !is_ours {
                        claimed.remove(&id);
                    }
                }
                _ = renew_at.tick(), if !claimed.is_empty() && renewing.is_empty() => {
                    for (id, (generation, attempt)) in &claimed {
                        renewing.push(self.renewed(*id, *generation, *attempt));
                    }
                }
                else => return failed.map(|()| reaped),
            }
        }
    }

    /// Runs an effect and acknowledges it; whether that counted.
    async fn acknowledged<E: std::fmt::Display>(
        &self,
        id: SessionId,
        generation: Generation,
        effect: impl Future<Output = std::result::Result<(), E>>,
    ) -> (SessionId, Result<bool>) {
        if let Err(error) = effect.await {
            log::warn!(session = %id, %error, "a side effect failed");
            return (id, Ok(false));
        }
        (id, self.ack(id, generation).await.map(|answer| answer.is_done()))
    }

    /// Renews a claim; whether it is still ours, as far as is known.
    async fn renewed(&self, id: SessionId, generation: Generation, attempt: u64) -> (SessionId, bool) {
        match self.renew(id, generation, attempt).await {
            Ok(answer) => (id, answer.is_done()),
            Err(error) => {
                log::warn!(session = %id, %error, "a claim could not be renewed");
                (id, true)
            }
        }
    }
}
