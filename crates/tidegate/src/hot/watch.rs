//! Events as they happen: each is written down in the step that makes it happen, so
//! it is there once however many servers look.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::watch::Receiver;

use super::edit::Event;
use super::feed::{BATCH, Feed, Next, PAUSE, Place};
use super::handle::Hot;
use super::position::{Happened, News, Position, PositionStatus};
use crate::error::{Error, Result};
use crate::store::partitions;

/// A position among the events of a space.
#[derive(Debug)]
pub struct Watch {
    hot: Hot,
    feed: Arc<Feed>,
    changes: Receiver<()>,
    /// By partition, what has been read.
    places: Vec<Place>,
    /// By partition, what has been delivered.
    delivered: Vec<Position>,
    /// Read from the store and not told yet.
    news: VecDeque<(usize, Arc<Happened>)>,
    /// The partition that is asked first.
    turn: usize,
}

impl Watch {
    pub(super) async fn new(hot: Hot, cursor: Option<&str>) -> Result<Self> {
        let of = hot.options().partitions as usize;
        let given = cursor.map(|cursor| positions(cursor, of)).transpose()?;
        // First this, then what has been until now: nothing falls in between.
        let feed = hot.feed();
        let changes = feed.changes();
        let first = |number: usize| {
            let (hot, feed, given) = (&hot, &feed, given.as_ref().map(|given| given[number]));
            async move {
                match given {
                    Some(position) if feed.covers(number, position) => Ok((position, None)),
                    Some(position) => {
                        let news = hot.events(number, Some(position), BATCH).await?;
                        if news.status == PositionStatus::Impossible {
                            return Err(Error::invalid(format!(
                                "the position {position} is ahead of the store's clock: the id of an event is never"
                            )));
                        }
                        Ok((position, Some(news)))
                    }
                    None => Ok((hot.events(number, None, 0).await?.from, None)),
                }
            }
        };
        let found = partitions::all((0..of).map(first)).await?;
        let delivered: Vec<_> = found.iter().map(|(position, _)| *position).collect();
        let places = delivered.iter().copied().map(Place::at).collect();
        let mut watch = Self { hot, feed, changes, places, delivered, news: VecDeque::new(), turn: 0 };
        for (number, (_, news)) in found.into_iter().enumerate() {
            let Some(news) = news else { continue };
            if news.status == PositionStatus::Known && news.events.is_empty() {
                // The same place, of this life.
                watch.delivered[number] = news.from;
            }
            watch.keep(number, news);
        }
        Ok(watch)
    }

    /// Where it stands: to go on from, also before the first event has come.
    pub fn cursor(&self) -> String {
        let parts: Vec<_> = self.delivered.iter().map(Position::to_string).collect();
        parts.join(",")
    }

    /// The next event, whenever it happens. While the store is away it waits.
    pub async fn next(&mut self) -> Result<Event> {
        loop {
            self.changes.borrow_and_update();
            if let Some((number, happened)) = self.news.pop_front() {
                return Ok(self.tell(number, &happened));
            }
            let (partitions, mut behind) = (self.places.len(), None);
            for turn in 0..partitions {
                let number = (self.turn + turn) % partitions;
                match self.feed.next(number, &mut self.places[number])? {
                    Next::Event(happened) => {
                        self.turn = (number + 1) % partitions;
                        return Ok(self.tell(number, &happened));
                    }
                    Next::Behind => behind = Some(number),
                    Next::Nothing => {}
                }
            }
            match behind {
                None => drop(self.changes.changed().await),
                Some(number) if self.catch_up(number).await? => {}
                // The store is away, or the reader has yet to begin.
                Some(_) => drop(tokio::time::timeout(PAUSE, self.changes.changed()).await),
            }
        }
    }

    /// Asks the store for what comes next in a partition; whether there is anything.
    async fn catch_up(&mut self, number: usize) -> Result<bool> {
        match self.hot.events(number, Some(self.places[number].position), BATCH).await {
            Ok(news) => {
                self.keep(number, news);
                Ok(!self.news.is_empty())
            }
            Err(error) if error.is_transient() => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn keep(&mut self, number: usize, news: News) {
        self.places[number] = Place::at(news.end());
        let gap = news.gap();
        let happened = gap.into_iter().chain(news.events).map(|it| (number, Arc::new(it)));
        self.news.extend(happened);
    }

    fn tell(&mut self, number: usize, happened: &Happened) -> Event {
        self.delivered[number] = happened.position;
        let Happened { kind, page, edits, at, .. } = happened;
        Event { cursor: self.cursor(), kind: *kind, page: page.clone(), edits: *edits, at: *at }
    }
}

/// One for each partition.
fn positions(cursor: &str, partitions: usize) -> Result<Vec<Position>> {
    let positions: Option<Vec<_>> = cursor.split(',').map(Position::parse).collect();
    positions.filter(|it| it.len() == partitions).ok_or_else(|| {
        let shown: String = cursor.chars().take(60).collect();
        let oldest = vec![Position::OLDEST.to_string(); partitions].join(",");
        Error::invalid(format!(
            "{shown:?} is not a position among these events: the id of one is, and {oldest}"
        ))
    })
}
