//! What happens, read once for all who watch.
//!
//! While somebody watches a space, the latest of each partition is kept in a ring: on Redis one
//! reader per partition asks the store for news, in process whoever makes something happen puts
//! it there. Whoever watches has a position of its own and takes from the ring what comes after
//! it; only who comes back from further behind asks the store, until it has caught up. So a
//! hundred who watch cost the store what one does.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::edit::EventKind;
use super::handle::Hot;
use super::in_process::InProcess;
use super::position::{Happened, News, Position};
use crate::error::{Error, Result};

/// How often a store is asked for news.
pub(super) const PAUSE: Duration = Duration::from_millis(200);

/// Events asked for at a time.
pub(super) const BATCH: usize = 200;

/// Events in a ring: as many as a store keeps. Who is further behind has missed some.
const RING: usize = 1000;

/// What feeds those who watch a space. It ends with the last who holds it.
#[derive(Debug)]
pub(super) struct Feed {
    shared: Arc<Shared>,
    /// None in process.
    readers: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    /// By partition.
    rings: Box<[Mutex<Ring>]>,
    /// Tells of every change.
    changed: watch::Sender<()>,
}

impl Feed {
    /// Starts reading.
    pub(super) fn start(hot: &Hot) -> Self {
        let partitions = hot.options().partitions as usize;
        let rings = (0..partitions).map(|_| Mutex::default()).collect();
        let shared = Arc::new(Shared { rings, changed: watch::channel(()).0 });
        let reader = |number| tokio::spawn(shared.clone().read(hot.clone(), number));
        let numbers = 0..partitions;
        let space = hot.in_process();
        let readers = if space.is_some() { Vec::new() } else { numbers.clone().map(reader).collect() };
        let feed = Self { shared, readers };
        if let Some(space) = space {
            numbers.for_each(|number| feed.take_from(space, number));
        }
        feed
    }

    /// Takes what has happened in a partition in this process since it last did. So nobody misses
    /// anything that the ring still has, however fast it comes.
    pub(super) fn take_from(&self, space: &InProcess, number: usize) {
        let mut ring = self.shared.rings[number].lock();
        let mut is_changed = false;
        loop {
            let news = space.events(number, ring.last(), BATCH);
            let is_more = news.events.len() >= BATCH;
            is_changed |= ring.take(news);
            if !is_more {
                break;
            }
        }
        drop(ring);
        if is_changed {
            self.shared.changed.send_replace(());
        }
    }

    /// Whether it still reads.
    pub(super) fn is_alive(&self) -> bool {
        self.readers.iter().all(|reader| !reader.is_finished())
    }

    pub(super) fn changes(&self) -> watch::Receiver<()> {
        self.shared.changed.subscribe()
    }

    /// The next for `place` of a partition.
    pub(super) fn next(&self, number: usize, place: &mut Place) -> Result<Next> {
        self.shared.rings[number].lock().next(place)
    }

    /// Whether a partition has all that came after `position`, and something did or it is the
    /// last: then the store need not be asked about it.
    pub(super) fn covers(&self, number: usize, position: Position) -> bool {
        self.shared.rings[number].lock().covers(position)
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.readers.iter().for_each(JoinHandle::abort);
    }
}

impl Shared {
    /// Reads a partition for as long as it can be read.
    async fn read(self: Arc<Self>, hot: Hot, number: usize) {
        let mut position = None;
        loop {
            let pause = match hot.events(number, position, BATCH).await {
                Ok(news) => {
                    let is_more = news.events.len() >= BATCH;
                    position = Some(news.end());
                    let is_changed = self.rings[number].lock().take(news);
                    if is_changed {
                        self.changed.send_replace(());
                    }
                    if is_more { Duration::ZERO } else { PAUSE }
                }
                // Nobody is told: what happens meanwhile is told when it is back.
                Err(error) if error.is_transient() => PAUSE,
                Err(error) => {
                    self.rings[number].lock().failed = Some(error);
                    self.changed.send_replace(());
                    return;
                }
            };
            tokio::time::sleep(pause).await;
        }
    }
}

/// How far one who watches is in a partition.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) position: Position,
    /// The number of its next in the ring, once it takes from there.
    next: Option<u64>,
}

impl Place {
    pub(super) fn at(position: Position) -> Self {
        Self { position, next: None }
    }
}

/// What comes next for one who watches.
#[derive(Debug)]
pub(super) enum Next {
    Event(Arc<Happened>),
    /// Nothing yet.
    Nothing,
    /// It is further behind than the ring: the store may know.
    Behind,
}

/// The latest events of a partition.
#[derive(Debug, Default)]
struct Ring {
    events: VecDeque<Arc<Happened>>,
    /// The number of the first of them.
    first: u64,
    /// The last that has left for want of room.
    left: Option<Position>,
    /// The position since which, and the number from which on, nothing is missing.
    whole: Option<(Position, u64)>,
    failed: Option<Error>,
}

impl Ring {
    fn end(&self) -> u64 {
        self.first + self.events.len() as u64
    }

    /// Adds what the reader has read; whether that changes anything.
    fn take(&mut self, news: News) -> bool {
        let is_first = self.whole.is_none();
        let gap = news.gap();
        if is_first || gap.is_some() {
            let is_gap = gap.is_some();
            if let Some(gap) = gap.filter(|_| !is_first) {
                self.push(gap);
            }
            self.whole = Some((news.from, self.end()));
            if news.events.is_empty() {
                return is_gap || is_first;
            }
        }
        let is_changed = !news.events.is_empty();
        news.events.into_iter().for_each(|event| self.push(event));
        is_changed
    }

    fn push(&mut self, event: Happened) {
        if self.events.len() >= RING
            && let Some(oldest) = self.events.pop_front()
        {
            self.first += 1;
            self.left = Some(oldest.position);
            if let Some(whole) = &mut self.whole
                && whole.1 < self.first
            {
                *whole = (oldest.position, self.first);
            }
        }
        self.events.push_back(Arc::new(event));
    }

    /// The last position that is known.
    fn last(&self) -> Option<Position> {
        self.events.back().map(|last| last.position).or(self.whole.map(|(since, _)| since))
    }

    fn covers(&self, position: Position) -> bool {
        self.whole.zip(self.last()).is_some_and(|((since, _), last)| {
            position.life == since.life && (since.order()..=last.order()).contains(&position.order())
        })
    }

    fn next(&self, place: &mut Place) -> Result<Next> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let mut number = match (place.next, self.whole) {
            (Some(number), _) => number,
            (None, Some((since, number)))
                if since.life == place.position.life && since.order() <= place.position.order() =>
            {
                number
            }
            _ => return Ok(Next::Behind),
        };
        if number < self.first {
            // Too slow: it goes on with the oldest that is left.
            let count = self.first - number;
            let (at, position) = (self.events.front(), self.left.unwrap_or(place.position));
            let at = at.map_or_else(Default::default, |oldest| oldest.at);
            *place = Place { position, next: Some(self.first) };
            return Ok(Next::Event(Arc::new(Happened::missed(position, count, at))));
        }
        while let Some(event) = self.events.get((number - self.first) as usize) {
            number += 1;
            place.next = Some(number);
            let is_seen = event.kind != EventKind::Missed
                && event.position.life == place.position.life
                && event.position.order() <= place.position.order();
            if !is_seen {
                place.position = event.position;
                return Ok(Next::Event(event.clone()));
            }
        }
        place.next = Some(number);
        Ok(Next::Nothing)
    }
}

#[cfg(test)]
mod tests;
