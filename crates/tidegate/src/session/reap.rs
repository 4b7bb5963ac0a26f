//! What was left behind: claimed and acknowledged by those with side effects, cleaned up
//! for those without.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::options::MAX_BATCH;
use super::redis::MAX_ACKS;
use super::{Answer, Backend, Claim, Claims, Generation, Reap, Refusal, SessionId, Sessions, Swept};
use crate::clock;
use crate::error::{Error, Result};
use crate::reaper::Progress;

/// Steps of a cleanup in a row that find only sessions of a clock that was wrong.
const MAX_FRUITLESS: usize = 1000;

/// How long the background loop waits for a store that was away for a moment before it tries
/// once more: a short stop does not cost a whole interval.
const RETRY: Duration = Duration::from_millis(500);

/// What a sweep looks after.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sweep {
    /// Who has fallen silent.
    Lapsed,
    /// Orphans besides, that nobody has claimed.
    Unclaimed,
    /// And those whose claim has ended.
    All,
}

impl Sessions {
    /// Claims up to `limit` orphans for the length of a claim. Side effects run at least
    /// once for each, with its id and generation as their token; then
    /// [`ack`](Self::ack). What is not acknowledged in time can be claimed again.
    pub async fn claim(&self, limit: usize) -> Result<Claims> {
        let limit = limit.min(MAX_BATCH);
        let mut all = Claims::default();
        match &self.core.backend {
            Backend::Memory { .. } => all = self.in_memory(|it, now_ms| it.claim(now_ms, limit))?,
            Backend::Redis(partitions) => {
                let first = self.core.hand.fetch_add(1, Ordering::Relaxed);
                let mut failed = None;
                for number in 0..partitions.len() {
                    let left = limit - all.claims.len();
                    if left == 0 && limit > 0 {
                        all.swept.is_more = true;
                        break;
                    }
                    let claims = partitions[(first + number) % partitions.len()].claim(left).await;
                    match claims {
                        Ok(claims) => {
                            all.claims.extend(claims.claims);
                            all.swept += claims.swept;
                        }
                        Err(error) => failed = Some(error),
                    }
                }
                if let Some(error) = failed {
                    self.note_swept(&all.swept);
                    // What is claimed is not lost for another partition's sake.
                    if all.claims.is_empty() {
                        return Err(error);
                    }
                    tracing::warn!(%error, "some partitions could not be claimed from");
                    return Ok(all);
                }
            }
        }
        self.note_swept(&all.swept);
        Ok(all)
    }

    /// The side effects of a claim have run: deletes its session, once.
    pub async fn ack(&self, id: SessionId, generation: Generation) -> Result<Answer<()>> {
        let mut acked = self.ack_many(&[(id, generation)]).await?;
        acked.pop().ok_or_else(|| Error::internal("one answer was due"))
    }

    /// Acknowledges many, in one round trip per hundred and partition; what became of
    /// each, in order.
    pub async fn ack_many(&self, claims: &[(SessionId, Generation)]) -> Result<Vec<Answer<()>>> {
        let mut all = vec![Err(Refusal::Gone); claims.len()];
        match &self.core.backend {
            Backend::Memory { clock, partition, .. } => {
                for (answer, (id, generation)) in all.iter_mut().zip(claims) {
                    *answer = partition.lock().ack(clock.now().as_millis(), *id, *generation);
                }
            }
            Backend::Redis(partitions) => {
                let mut by_partition = vec![Vec::new(); partitions.len()];
                for (index, (id, generation)) in claims.iter().enumerate() {
                    by_partition[self.partition(*id)].push((index, (*id, *generation)));
                }
                for (partition, claims) in partitions.iter().zip(by_partition) {
                    for claims in claims.chunks(MAX_ACKS) {
                        let (indices, claims): (Vec<_>, Vec<_>) = claims.iter().copied().unzip();
                        for (index, answer) in indices.into_iter().zip(partition.ack(&claims).await?) {
                            all[index] = answer;
                        }
                    }
                }
            }
        }
        self.core.metrics.deleted.inc_by(all.iter().filter(|it| it.is_ok()).count() as u64);
        Ok(all)
    }

    /// Claims orphans until none are due, runs `effect` for each and acknowledges those
    /// for which it succeeded; how many that were.
    pub async fn reap<F, E>(&self, mut effect: impl FnMut(Claim) -> F) -> Result<u64>
    where
        F: Future<Output = std::result::Result<(), E>>,
        E: std::fmt::Display,
    {
        let mut reaped = 0;
        loop {
            let found = self.claim(self.core.options.batch).await?;
            let mut done = Vec::new();
            let progress = found.swept.items() + found.claims.len() as u64;
            for claim in found.claims {
                let token = (claim.id, claim.generation);
                match effect(claim).await {
                    Ok(()) => done.push(token),
                    Err(error) => tracing::warn!(session = %token.0, %error, "a side effect failed"),
                }
            }
            reaped += self.ack_many(&done).await?.iter().filter(|it| it.is_ok()).count() as u64;
            if !found.swept.is_more || progress == 0 {
                return Ok(reaped);
            }
        }
    }

    /// Deletes all orphans, without side effects.
    pub async fn cleanup(&self) -> Result<Swept> {
        let started = clock::monotonic();
        let (mut all, mut fruitless) = (Swept::default(), 0);
        loop {
            let (swept, failed) = self.sweep(self.core.options.batch, Sweep::All).await?;
            failed?;
            all += swept;
            all.is_more = false;
            // One that changes nothing would go on for ever.
            fruitless = if swept.items() == 0 { fruitless + 1 } else { 0 };
            if !swept.is_more || fruitless == MAX_FRUITLESS {
                self.core.metrics.seconds.observe(started.elapsed().as_secs_f64());
                return Ok(all);
            }
        }
    }

    /// Looks after up to `limit` sessions of each partition.
    /// What became of them, and of the partitions that could not be reached; if none could,
    /// an error.
    async fn sweep(&self, limit: usize, sweep: Sweep) -> Result<(Swept, Result<()>)> {
        let mut all = Swept::default();
        let (mut failed, mut reached) = (Ok(()), 0);
        let is_claiming = sweep == Sweep::All;
        match &self.core.backend {
            Backend::Memory { .. } => {
                all = self.in_memory(|it, now_ms| match sweep {
                    Sweep::Lapsed => it.lapse(now_ms, limit),
                    _ => it.cleanup(now_ms, limit, is_claiming),
                })?;
                reached = 1;
            }
            Backend::Redis(partitions) => {
                // One that cannot be reached does not keep the others from it.
                for partition in partitions {
                    let swept = match sweep {
                        Sweep::Lapsed => partition.lapse(limit).await,
                        _ => partition.cleanup(limit, is_claiming).await,
                    };
                    match swept {
                        Ok(swept) => {
                            all += swept;
                            reached += 1;
                        }
                        Err(error) => failed = Err(error),
                    }
                }
            }
        }
        self.note_swept(&all);
        match reached {
            0 => failed.map(|()| (all, Ok(()))),
            _ => Ok((all, failed)),
        }
    }

    fn note_swept(&self, swept: &Swept) {
        let metrics = &self.core.metrics;
        metrics.deleted.inc_by(swept.deleted);
        metrics.lapsed.inc_by(swept.lapsed);
        metrics.buried.inc_by(swept.buried);
        metrics.missing.inc_by(swept.missing);
        metrics.invalid.inc_by(swept.invalid);
        metrics.lag_seconds.set(swept.lag_ms as f64 / 1000.0);
        if swept.invalid > 0 {
            let (count, space) = (swept.invalid, self.space().as_str());
            tracing::warn!(count, space, "entries of the index that are no session ids were removed");
        }
    }

    /// One run of the background loop.
    pub(crate) async fn run(&self, batch: usize) -> Result<Progress> {
        let started = clock::monotonic();
        let sweep = match self.core.options.reap {
            Reap::Cleanup => Sweep::Unclaimed,
            Reap::Claims => Sweep::Lapsed,
        };
        let first = self.sweep(batch, sweep).await;
        let (swept, failed) = match first {
            Err(error) if error.is_transient() => {
                tokio::time::sleep(RETRY).await;
                self.sweep(batch, sweep).await?
            }
            first => first?,
        };
        self.core.metrics.seconds.observe(started.elapsed().as_secs_f64());
        let is_more = swept.is_more && swept.items() > 0;
        if !is_more {
            // Those that can be reached have caught up: now is the time to say who cannot.
            failed?;
            self.counts().await?;
            // Not how late they are now, but how late they were.
            self.core.metrics.lag_seconds.set(swept.lag_ms as f64 / 1000.0);
        }
        Ok(Progress { items: swept.items() as usize, is_more })
    }
}
