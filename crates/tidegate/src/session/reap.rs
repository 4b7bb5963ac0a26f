//! What was left behind: claimed and acknowledged by those with side effects, cleaned up
//! for those without.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::memory::DryRunPlace;
use super::options::MAX_BATCH;
use super::redis::{MAX_ACKS, OnRedis};
use super::{Answer, Backend, Claims, Generation, Reap, Refusal, SessionId, Sessions, Swept};
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
        let limit = limit.min(MAX_BATCH);
        let (all, failed) = match &self.core.backend {
            Backend::Memory { .. } => (self.in_memory(|it, now_ms| it.claim(now_ms, limit))?, Ok(())),
            Backend::Redis(partitions) => self.claim_from(partitions, limit).await?,
        };
        self.note_swept(&all.swept);
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
    async fn claim_from(&self, of: &[OnRedis], limit: usize) -> Result<(Claims, Result<()>)> {
        let first = self.core.hand.fetch_add(1, Ordering::Relaxed);
        let mut asked: Vec<_> = (0..of.len()).map(|number| (first + number) % of.len()).collect();
        let (mut all, mut is_more, mut failed) = (Claims::default(), false, Ok(()));
        for _ in 0..MAX_ROUNDS {
            let left = limit - all.claims.len();
            let part = |place: usize| left / asked.len() + usize::from(place < left % asked.len());
            let question = |(place, number): (usize, &usize)| {
                let (number, part) = (*number, part(place));
                async move { Ok((part, number, of[number].claim(part, limit).await?)) }
            };
            let (answers, away) =
                match partitions::reached(asked.iter().enumerate().map(question).collect()).await {
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
        match &self.core.backend {
            Backend::Memory { clock, partition, .. } => {
                Ok(partition.lock().renew(clock.now().as_millis(), id, generation, attempt))
            }
            Backend::Redis(partitions) => partitions[self.partition(id)].renew(id, generation, attempt).await,
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
        let mut all = vec![Err(Refusal::Gone); claims.len()];
        let mut away = Ok(());
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
                let mut questions = Vec::new();
                for (partition, claims) in partitions.iter().zip(&by_partition) {
                    for claims in claims.chunks(MAX_ACKS) {
                        let (indices, claims): (Vec<_>, Vec<_>) = claims.iter().copied().unzip();
                        questions.push(async move { Ok((indices, partition.ack(&claims).await?)) });
                    }
                }
                let (acked, failed) = partitions::reached(questions).await?;
                for (index, answer) in
                    acked.into_iter().flat_map(|(indices, acked)| indices.into_iter().zip(acked))
                {
                    all[index] = answer;
                }
                away = failed;
            }
        }
        self.core.metrics.deleted.inc_by(all.iter().filter(|it| it.is_ok()).count() as u64);
        away.map(|()| all)
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

    /// What a [`cleanup`](Self::cleanup) would do, by the same judgement, in steps of as many
    /// sessions. Nothing is changed; what happens meanwhile may be seen or not. While a hold runs
    /// it is what is due already: a cleanup waits for the end of it.
    pub async fn cleanup_dry_run(&self) -> Result<Swept> {
        let (mut all, limit) = (Swept::default(), self.core.options.batch);
        match &self.core.backend {
            Backend::Memory { .. } => {
                let mut from = Some(DryRunPlace::default());
                while let Some(place) = from {
                    let (swept, next) =
                        self.in_memory(|it, now_ms| it.cleanup_dry_run(now_ms, place, limit))?;
                    all += swept;
                    from = next;
                }
            }
            Backend::Redis(partitions) => {
                let questions = partitions.iter().map(|it| it.cleanup_dry_run(limit)).collect();
                partitions::all(questions).await?.into_iter().for_each(|swept| all += swept);
            }
        }
        all.is_more = false;
        Ok(all)
    }

    /// Looks after up to `limit` sessions of each partition.
    /// What became of them, and of the partitions that could not be reached; if none could,
    /// an error.
    async fn sweep(&self, limit: usize, sweep: Sweep) -> Result<(Swept, Result<()>)> {
        let mut all = Swept::default();
        let mut failed = Ok(());
        let is_claiming = sweep == Sweep::All;
        match &self.core.backend {
            Backend::Memory { .. } => {
                all = self.in_memory(|it, now_ms| match sweep {
                    Sweep::Lapsed => it.lapse(now_ms, limit),
                    _ => it.cleanup(now_ms, limit, is_claiming),
                })?;
            }
            Backend::Redis(partitions) => {
                let question = async |partition: &OnRedis| match sweep {
                    Sweep::Lapsed => partition.lapse(limit).await,
                    _ => partition.cleanup(limit, is_claiming).await,
                };
                let (answers, away) = partitions::reached(partitions.iter().map(question).collect()).await?;
                answers.into_iter().for_each(|swept| all += swept);
                failed = away;
            }
        }
        self.note_swept(&all);
        Ok((all, failed))
    }

    fn note_swept(&self, swept: &Swept) {
        let metrics = &self.core.metrics;
        metrics.deleted.inc_by(swept.deleted);
        metrics.lapsed.inc_by(swept.lapsed);
        metrics.buried.inc_by(swept.buried);
        metrics.missing.inc_by(swept.missing);
        metrics.invalid.inc_by(swept.invalid);
        metrics.lag_seconds.set(swept.lag_ms as f64 / 1000.0);
    }

    /// One run of the background loop.
    pub(crate) async fn run(&self, batch: usize) -> Result<Progress> {
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
            self.core.metrics.lag_seconds.set(swept.lag_ms as f64 / 1000.0);
        }
        Ok(Progress { items: swept.items() as usize, is_more })
    }
}
