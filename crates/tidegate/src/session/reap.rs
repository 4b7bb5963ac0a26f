//! What was left behind: claimed and acknowledged by those with side effects, cleaned up
//! for those without.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::handle::{Backend, Sessions};
use super::memory::Sweep;
use super::options::{MAX_BATCH, Reap};
use super::reaped::{Claiming, Cleanup};
use super::redis::{MAX_ACKS, OnRedis};
use super::types::{Answer, Claims, Generation, SessionId, Swept};
use crate::clock::{self, Timestamp};
use crate::error::{Error, Result};
use crate::log;
use crate::reaper::Progress;
use crate::store::partitions;

/// How long the background loop waits for a store that was away for a moment before it tries
/// once more: a short stop does not cost a whole interval.
const RETRY: Duration = Duration::from_millis(500);

impl Sessions {
    /// Claims up to `limit` orphans for the length of a claim. Side effects run at least
    /// once for each, with its id and generation as their token; then
    /// [`ack`](Self::ack). What is not acknowledged in time can be claimed again.
    pub async fn claim(&self, limit: usize) -> Result<Claims> {
        let partitions = match &self.core.backend {
            Backend::Memory(space) => return Ok(space.claim(limit)),
            Backend::Redis(partitions) => partitions,
        };
        let (all, failed) = self.claim_from(partitions, limit.min(MAX_BATCH)).await?;
        self.core.metrics.swept(&all.swept);
        self.core.metrics.lagged(&all.swept);
        match failed {
            // What is claimed is not lost for another partition's sake.
            Err(error) if !all.claims.is_empty() => {
                log::warn!(%error, "some partitions could not be claimed from");
                Ok(all)
            }
            failed => failed.map(|()| all),
        }
    }

    /// Claims from all partitions that can be reached.
    async fn claim_from(&self, of: &[OnRedis], limit: usize) -> Result<(Claims, Result<()>)> {
        let first = self.core.hand.fetch_add(1, Ordering::Relaxed);
        let mut claiming = Claiming::new(limit, of.len(), first);
        let claim = async |(part, number): (usize, usize)| {
            of[number].claim(part, limit).await.map(|claims| (part, number, claims))
        };
        let mut failed = Ok(());
        loop {
            let (answers, away) = match partitions::reached(claiming.next().into_iter().map(&claim)).await {
                Ok(reached) => reached,
                Err(error) if claiming.is_empty() => return Err(error),
                Err(error) => (Vec::new(), Err(error)),
            };
            failed = failed.and(away);
            if !claiming.goes_on_after(answers) {
                return Ok((claiming.claims(), failed));
            }
        }
    }

    /// A claim whose side effects are not done yet holds for longer, unless somebody has
    /// claimed its session since; until when. `attempt` is the claim's.
    pub async fn renew(
        &self,
        id: SessionId,
        generation: Generation,
        attempt: u64,
    ) -> Result<Answer<Timestamp>> {
        match &self.core.backend {
            Backend::Memory(space) => Ok(space.renew(id, generation, attempt)),
            Backend::Redis(partitions) => {
                let renewed = partitions[self.partition(id)].renew(id, generation, attempt).await;
                renewed.map(Answer::from)
            }
        }
    }

    /// The side effects of a claim have run: deletes its session, once.
    pub async fn ack(&self, id: SessionId, generation: Generation) -> Result<Answer<()>> {
        let mut acked = self.ack_many(&[(id, generation)]).await?;
        acked.pop().ok_or_else(|| Error::internal("one answer was due"))
    }

    /// Acknowledges many, in one round trip per hundred and partition; what became of
    /// each, in order.
    pub async fn ack_many(&self, claims: &[(SessionId, Generation)]) -> Result<Vec<Answer<()>>> {
        let partitions = match &self.core.backend {
            Backend::Memory(space) => {
                return Ok(claims.iter().map(|(id, generation)| space.ack(*id, *generation)).collect());
            }
            Backend::Redis(partitions) => partitions,
        };
        let ack = async |number: usize, claims: Vec<_>| {
            let chunk = async |claims: &[_]| match partitions[number].ack(claims).await {
                Ok(acked) => acked.into_iter().map(|it| Ok(Answer::from(it))).collect(),
                Err(error) => vec![Err(error); claims.len()],
            };
            partitions::each(claims.chunks(MAX_ACKS).map(chunk)).await.concat()
        };
        let acked = partitions::split(claims, partitions.len(), |(id, _)| self.partition(*id), ack).await;
        let deleted = acked.iter().filter(|it| matches!(it, Ok(Answer::Done(())))).count();
        self.core.metrics.deleted.inc_by(deleted as u64);
        let (answers, failed) = partitions::apart(acked);
        failed.map(|()| answers)
    }

    /// Deletes all orphans, without side effects. A partition that is away keeps no other from
    /// being cleaned up: it is an error when they are.
    pub async fn cleanup(&self) -> Result<Swept> {
        let partitions = match &self.core.backend {
            Backend::Memory(space) => return Ok(space.cleanup()),
            Backend::Redis(partitions) => partitions,
        };
        let started = clock::monotonic();
        // Twice each: while one waits for an answer, the store works for the other.
        let cleaned = partitions.iter().chain(partitions).map(|it| self.clean_one(it));
        let (all, failed) = self.sum_up(partitions::reached(cleaned).await?);
        failed?;
        self.core.metrics.seconds.observe(started.elapsed().as_secs_f64());
        Ok(all)
    }

    /// Deletes orphans of a partition until none is left.
    async fn clean_one(&self, partition: &OnRedis) -> Result<Swept> {
        let mut cleanup = Cleanup::default();
        while cleanup.goes_on_after(self.sweep_one(partition, self.core.options.batch, Sweep::All).await?) {}
        Ok(cleanup.swept())
    }

    /// What a [`cleanup`](Self::cleanup) would do, by the same judgement, in steps of as many
    /// sessions. Nothing is changed; what happens meanwhile may be seen or not. While a hold runs
    /// it is what is due already: a cleanup waits for the end of it.
    pub async fn cleanup_dry_run(&self) -> Result<Swept> {
        let partitions = match &self.core.backend {
            Backend::Memory(space) => return Ok(space.cleanup_dry_run()),
            Backend::Redis(partitions) => partitions,
        };
        let (mut all, limit) = (Swept::default(), self.core.options.batch);
        let looked_at = partitions::all(partitions.iter().map(|it| it.cleanup_dry_run(limit))).await?;
        looked_at.into_iter().for_each(|swept| all += swept);
        Ok(Swept { is_more: false, ..all })
    }

    /// Looks after up to `limit` sessions of each partition.
    /// What became of them, and of the partitions that could not be reached; if none could,
    /// an error.
    async fn sweep(&self, limit: usize, sweep: Sweep) -> Result<(Swept, Result<()>)> {
        let partitions = match &self.core.backend {
            Backend::Memory(space) => return Ok((space.sweep(limit, sweep), Ok(()))),
            Backend::Redis(partitions) => partitions,
        };
        let sweep = |partition| self.sweep_one(partition, limit, sweep);
        Ok(self.sum_up(partitions::reached(partitions.iter().map(sweep)).await?))
    }

    async fn sweep_one(&self, partition: &OnRedis, limit: usize, sweep: Sweep) -> Result<Swept> {
        let swept = match sweep {
            Sweep::Lapsed => partition.lapse(limit).await?,
            Sweep::Unclaimed => partition.cleanup(limit, false).await?,
            Sweep::All => partition.cleanup(limit, true).await?,
        };
        self.core.metrics.swept(&swept);
        Ok(swept)
    }

    /// What became of sessions in all partitions that could be reached.
    fn sum_up(&self, (swept, failed): (Vec<Swept>, Result<()>)) -> (Swept, Result<()>) {
        let mut all = Swept::default();
        swept.into_iter().for_each(|swept| all += swept);
        self.core.metrics.lagged(&all);
        (all, failed)
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
            self.core.metrics.lagged(&swept);
        }
        Ok(Progress { items: swept.items() as usize, is_more })
    }
}
