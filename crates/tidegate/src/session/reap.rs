//! What was left behind: claimed and acknowledged by those with side effects, cleaned up
//! for those without.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::options::MAX_BATCH;
use super::redis::MAX_ACKS;
use super::{Answer, Backend, Claims, Generation, Reap, SessionId, Sessions, Swept};
use crate::clock::{self, Timestamp};
use crate::error::{Error, Result};
use crate::reaper::Progress;
use crate::store::partitions;

/// Steps of a cleanup in a row that find only sessions of a clock that was wrong.
const MAX_FRUITLESS: usize = 1000;

/// How often a claim goes on to those that have more.
const MAX_ROUNDS: usize = 8;

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
        let (all, failed) = self.claim_some(limit.min(MAX_BATCH)).await?;
        self.note_swept(&all.swept);
        self.note_lag(&all.swept);
        match failed {
            // What is claimed is not lost for another partition's sake.
            Err(error) if !all.claims.is_empty() => {
                tracing::warn!(%error, "some partitions could not be claimed from");
                Ok(all)
            }
            failed => failed.map(|()| all),
        }
    }

    /// Claims from all partitions at once, from each its part of `limit`; then what some did
    /// not have from those that have more.
    async fn claim_some(&self, limit: usize) -> Result<(Claims, Result<()>)> {
        let (of, first) = (self.numbers().len(), self.core.hand.fetch_add(1, Ordering::Relaxed));
        let mut asked: Vec<_> = self.numbers().map(|number| (first + number) % of).collect();
        let (mut all, mut is_more, mut failed) = (Claims::default(), false, Ok(()));
        for _ in 0..MAX_ROUNDS {
            let left = limit - all.claims.len();
            let part = |place: usize| left / asked.len() + usize::from(place < left % asked.len());
            let claim = async |part: usize, number: usize| {
                let claims: Result<Claims> = on_partition!(self, number, claim(part, limit));
                Ok((part, number, claims?))
            };
            let claims = asked.iter().enumerate().map(|(place, number)| claim(part(place), *number));
            let (answers, away) = match partitions::reached(claims).await {
                Ok(reached) => reached,
                Err(error) if all.claims.is_empty() => return Err(error),
                Err(error) => (Vec::new(), Err(error)),
            };
            let mut more = Vec::new();
            for (part, number, claims) in answers {
                // Only its part keeps it from giving more, or it has to look at others first.
                match claims.swept.is_more && claims.claims.len() == part && part < limit {
                    true => more.push((part, number)),
                    false => is_more |= claims.swept.is_more,
                }
                all.claims.extend(claims.claims);
                all.swept += claims.swept;
            }
            failed = failed.and(away);
            all.swept.is_more = is_more || !more.is_empty();
            if all.claims.len() >= limit || more.is_empty() {
                break;
            }
            // Those that were asked for the least come first.
            more.sort_unstable();
            asked = more.into_iter().map(|(_, number)| number).collect();
        }
        Ok((all, failed))
    }

    /// A claim whose side effects are not done yet holds for longer, unless somebody has
    /// claimed its session since; until when. `attempt` is the claim's.
    pub async fn renew(
        &self,
        id: SessionId,
        generation: Generation,
        attempt: u64,
    ) -> Result<Answer<Timestamp>> {
        on_session!(self, id, renew(generation, attempt))
    }

    /// The side effects of a claim have run: deletes its session, once.
    pub async fn ack(&self, id: SessionId, generation: Generation) -> Result<Answer<()>> {
        let mut acked = self.ack_many(&[(id, generation)]).await?;
        acked.pop().ok_or_else(|| Error::internal("one answer was due"))
    }

    /// Acknowledges many, in one round trip per hundred and partition; what became of
    /// each, in order.
    pub async fn ack_many(&self, claims: &[(SessionId, Generation)]) -> Result<Vec<Answer<()>>> {
        let ack = |number, claims| self.ack_on(number, claims);
        let of = self.numbers().len();
        let acked = partitions::split(claims, of, |(id, _)| self.partition(*id), ack).await;
        let deleted = acked.iter().filter(|it| matches!(it, Ok(Ok(())))).count();
        self.core.metrics.deleted.inc_by(deleted as u64);
        let (answers, failed) = partitions::apart(acked);
        failed.map(|()| answers)
    }

    /// Acknowledges those of one partition.
    async fn ack_on(&self, number: usize, claims: Vec<(SessionId, Generation)>) -> Vec<Result<Answer<()>>> {
        match &self.core.backend {
            Backend::Memory { clock, partitions } => {
                let (mut partition, now_ms) = (partitions[number].partition.lock(), clock.now().as_millis());
                claims.iter().map(|(id, generation)| Ok(partition.ack(now_ms, *id, *generation))).collect()
            }
            Backend::Redis(partitions) => {
                let ack = async |claims: &[_]| match partitions[number].ack(claims).await {
                    Ok(acked) => acked.into_iter().map(Ok).collect(),
                    Err(error) => vec![Err(error); claims.len()],
                };
                partitions::each(claims.chunks(MAX_ACKS).map(ack)).await.concat()
            }
        }
    }

    /// Deletes all orphans, without side effects. A partition that is away keeps no other from
    /// being cleaned up: it is an error when they are.
    pub async fn cleanup(&self) -> Result<Swept> {
        let started = clock::monotonic();
        let clean = |number| self.clean_one(number);
        let (all, failed) = self.sum_up(partitions::reached(self.numbers().map(clean)).await?);
        failed?;
        self.core.metrics.seconds.observe(started.elapsed().as_secs_f64());
        Ok(all)
    }

    /// Deletes all orphans of a partition.
    async fn clean_one(&self, number: usize) -> Result<Swept> {
        let (mut all, mut fruitless) = (Swept::default(), 0);
        loop {
            let swept = self.sweep_one(number, self.core.options.batch, Sweep::All).await?;
            all += swept;
            all.is_more = false;
            // One that changes nothing would go on for ever.
            fruitless = if swept.items() == 0 { fruitless + 1 } else { 0 };
            if !swept.is_more || fruitless == MAX_FRUITLESS {
                return Ok(all);
            }
        }
    }

    /// Looks after up to `limit` sessions of each partition.
    /// What became of them, and of the partitions that could not be reached; if none could,
    /// an error.
    async fn sweep(&self, limit: usize, sweep: Sweep) -> Result<(Swept, Result<()>)> {
        let sweep = |number| self.sweep_one(number, limit, sweep);
        Ok(self.sum_up(partitions::reached(self.numbers().map(sweep)).await?))
    }

    async fn sweep_one(&self, number: usize, limit: usize, sweep: Sweep) -> Result<Swept> {
        let swept: Result<Swept> = match sweep {
            Sweep::Lapsed => on_partition!(self, number, lapse(limit)),
            _ => on_partition!(self, number, cleanup(limit, sweep == Sweep::All)),
        };
        let swept = swept?;
        self.note_swept(&swept);
        Ok(swept)
    }

    /// What became of sessions in all partitions that could be reached.
    fn sum_up(&self, (swept, failed): (Vec<Swept>, Result<()>)) -> (Swept, Result<()>) {
        let mut all = Swept::default();
        swept.into_iter().for_each(|swept| all += swept);
        self.note_lag(&all);
        (all, failed)
    }

    fn note_swept(&self, swept: &Swept) {
        let metrics = &self.core.metrics;
        metrics.deleted.inc_by(swept.deleted);
        metrics.lapsed.inc_by(swept.lapsed);
        metrics.buried.inc_by(swept.buried);
        metrics.missing.inc_by(swept.missing);
        metrics.invalid.inc_by(swept.invalid);
    }

    fn note_lag(&self, swept: &Swept) {
        self.core.metrics.lag_seconds.set(swept.lag_ms as f64 / 1000.0);
    }

    /// One run of the background loop.
    pub(super) async fn run(&self, batch: usize) -> Result<Progress> {
        let sweep = match self.core.options.reap {
            Reap::Cleanup => Sweep::Unclaimed,
            Reap::Claims => Sweep::Lapsed,
        };
        // A cleanup is as many batches as it takes.
        let started = *self.core.cleaning_since.lock().get_or_insert_with(clock::monotonic);
        let first = self.sweep(batch, sweep).await;
        let swept = match first {
            Err(error) if error.is_transient() => {
                tokio::time::sleep(RETRY).await;
                self.sweep(batch, sweep).await
            }
            first => first,
        };
        let is_more = matches!(&swept, Ok((swept, _)) if swept.is_more && swept.items() > 0);
        if !is_more {
            *self.core.cleaning_since.lock() = None;
        }
        let (swept, failed) = swept?;
        if !is_more {
            self.core.metrics.seconds.observe(started.elapsed().as_secs_f64());
            // Those that can be reached have caught up: now is the time to say who cannot.
            failed?;
            self.counts().await?;
            // Not how late they are now, but how late they were.
            self.note_lag(&swept);
        }
        Ok(Progress { items: swept.items() as usize, is_more })
    }
}
