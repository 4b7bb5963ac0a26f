//! Counts of pages, in spaces that keep no edits: one at a time, and many at once.

use std::time::Duration;

use super::batch::{MAX_EDITS, in_order_of_coming, summed};
use super::edit::{Count, Recorded, check_kind};
use super::handle::{Backend, Hot};
use super::memory::Effects;
use crate::error::{Error, Result};
use crate::key::Key;
use crate::store::partitions;

impl Hot {
    /// Counts `count` more of `page`, now, in a space that [only counts](super::HotOptions::only_counts); or has it
    /// [gathered](Recorded::Gathered) with others, where they are. While the store is away
    /// they are [dropped](Recorded::Dropped); of some that it was sent and did not answer nobody
    /// [knows](Recorded::Unknown), and sent again they may count twice.
    pub async fn count(&self, page: Key<'_>, count: u64) -> Result<Recorded> {
        if let Backend::Memory(space) = &self.core.backend {
            return space.count(page, count);
        }
        let count = Count::new(page, count);
        check_kind(self.options(), true)?;
        count.check()?;
        if self.core.gatherer.is_some()
            && let Some(gathered) = self.gathered(count, self.room_until(None)).await
        {
            return Ok(gathered);
        }
        let counted = self.counted_on(self.partition(page), &[(count, 1)], None).await;
        counted.into_iter().next().unwrap_or(Ok(Recorded::Unknown))
    }

    /// Counts many, in one round trip per five hundred pages and partition; what became of each, in order. Those of a page
    /// are counted together and meet the same. A page that cannot be read stops no other: its counts are
    /// [corrupt](Recorded::Corrupt), and the log has the key.
    pub async fn count_many(&self, counts: &[Count<'_>]) -> Result<Vec<Recorded>> {
        self.count_all(counts, None).await
    }

    /// The same, for who can wait: a round trip may take `deadline` instead of the store's, so a store that is busy drops
    /// nothing. One that is away does, at once.
    pub async fn count_many_within(&self, counts: &[Count<'_>], deadline: Duration) -> Result<Vec<Recorded>> {
        self.count_all(counts, Some(deadline)).await
    }

    async fn count_all(&self, counts: &[Count<'_>], deadline: Option<Duration>) -> Result<Vec<Recorded>> {
        if let Backend::Memory(space) = &self.core.backend {
            return space.count_many(counts);
        }
        check_kind(self.options(), true)?;
        counts.iter().try_for_each(Count::check)?;
        if self.core.gatherer.is_some() {
            return self.gather_all(counts, deadline).await;
        }
        self.count_at_once(counts, deadline).await
    }

    async fn gather_all(&self, counts: &[Count<'_>], deadline: Option<Duration>) -> Result<Vec<Recorded>> {
        let mut met = Vec::with_capacity(counts.len());
        let until = self.room_until(deadline);
        for (number, count) in counts.iter().enumerate() {
            match self.gathered(*count, until).await {
                Some(gathered) => met.push(gathered),
                None => {
                    met.extend(self.count_at_once(&counts[number..], deadline).await?);
                    break;
                }
            }
        }
        Ok(met)
    }

    async fn count_at_once(&self, counts: &[Count<'_>], deadline: Option<Duration>) -> Result<Vec<Recorded>> {
        let (pages, numbers) = summed(counts);
        let pages: Vec<_> = pages.into_iter().zip(numbers.iter().map(Vec::len)).collect();
        let send = async |number, pages: Vec<(Count<'_>, usize)>| {
            let mut done = Vec::with_capacity(pages.len());
            for some in pages.chunks(MAX_EDITS) {
                let counted = self.counted_on(number, some, deadline).await;
                done.extend(counted.into_iter().map(|it| it.or_else(|error| self.corrupt(error))));
            }
            done
        };
        let of = self.options().partitions as usize;
        let done: Result<Vec<Recorded>> =
            partitions::split(&pages, of, |(sum, _)| self.partition(sum.page), send)
                .await
                .into_iter()
                .collect();
        // What a page met, all of its counts did.
        let each = done?.into_iter().zip(&numbers).flat_map(|(it, its)| its.iter().map(move |_| it.clone()));
        let each = each.collect();
        Ok(in_order_of_coming(numbers, each))
    }

    /// What became of sums of counts of different pages of one partition, and of how many counts each is; an outage drops
    /// them instead of failing.
    async fn counted_on(
        &self,
        number: usize,
        pages: &[(Count<'_>, usize)],
        deadline: Option<Duration>,
    ) -> Vec<Result<Recorded>> {
        let sums: Vec<Count<'_>> = pages.iter().map(|(sum, _)| *sum).collect();
        // Whatever went wrong before, they were not sent.
        let counted = match self.on_redis(number).await.map_err(Error::undone) {
            Ok(partition) => partition.count(&sums, deadline).await,
            Err(error) => Err(error),
        };
        let each = counted.unwrap_or_else(|error| vec![Err(error); pages.len()]);
        let one = |(answer, (_, counts)): (_, &(_, usize))| match answer {
            Ok((recorded, effects)) => {
                let effects: Effects = effects;
                self.core.notes.note(&effects.of_counts(*counts), || self.core.now_ms());
                Ok(recorded)
            }
            Err(error) => self.lost(error, *counts as u64),
        };
        each.into_iter().zip(pages).map(one).collect()
    }
}
