//! What happened, in a ring.

use std::collections::VecDeque;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;

use super::page::NAME;
use super::{ALLOCATION, MAX_EVENTS};
use crate::clock::Timestamp;
use crate::hot::edit::{EventCounts, EventKind};
use crate::hot::position::{AHEAD_MS, Happened, News, Position, PositionStatus};

#[derive(Debug)]
struct Entry {
    /// Of the position.
    ms: u64,
    number: u64,
    kind: EventKind,
    page: Arc<str>,
    edits: u64,
    at_ms: u64,
}

#[derive(Debug)]
pub(super) struct Events {
    ring: VecDeque<Entry>,
    /// A process that is started again has another.
    life: u64,
    /// Of the latest position.
    last: (u64, u64),
    /// The latest that is no longer there.
    forgotten: (u64, u64),
    bytes: usize,
    /// Told since somebody counted them.
    counts: EventCounts,
    is_counted: bool,
}

fn bytes_of(page: &str) -> usize {
    size_of::<Entry>() + page.len() + NAME + ALLOCATION
}

impl Events {
    pub(super) fn new() -> Self {
        // Never 0, which is the life of none.
        let life = RandomState::new().hash_one("events") >> 16 | 1;
        Self {
            ring: VecDeque::new(),
            life,
            last: (0, 0),
            forgotten: (0, 0),
            bytes: 0,
            counts: EventCounts::default(),
            is_counted: true,
        }
    }

    /// Notes what happened at `now_ms`, the time that decides, while the clock says `clock_ms`.
    /// Positions go by the clock, so that none is ahead of it, whatever the rate.
    pub(super) fn tell(&mut self, clock_ms: u64, now_ms: u64, kind: EventKind, page: Arc<str>, edits: u64) {
        if let Some(number) = EventKind::OF_PAGES.iter().position(|it| *it == kind) {
            self.counts[number] += 1;
            self.is_counted = false;
        }
        self.last = if clock_ms > self.last.0 { (clock_ms, 0) } else { (self.last.0, self.last.1 + 1) };
        if self.ring.len() >= MAX_EVENTS
            && let Some(oldest) = self.ring.pop_front()
        {
            self.forgotten = (oldest.ms, oldest.number);
            self.bytes -= bytes_of(&oldest.page);
        }
        self.bytes += bytes_of(&page);
        let (ms, number) = self.last;
        self.ring.push_back(Entry { ms, number, kind, page, edits, at_ms: now_ms });
    }

    /// What was told since the last time.
    #[inline]
    pub(super) fn count(&mut self) -> Option<Box<EventCounts>> {
        if self.is_counted {
            return None;
        }
        self.is_counted = true;
        Some(Box::new(std::mem::take(&mut self.counts)))
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    fn position(&self, (ms, number): (u64, u64)) -> Position {
        Position { life: self.life, ms, number }
    }

    /// What happened after a position, or none of it and the latest position.
    pub(super) fn after(&self, clock_ms: u64, position: Option<Position>, limit: usize) -> News {
        let Some(given) = position else {
            return News {
                status: PositionStatus::Known,
                from: self.position(self.last),
                events: Vec::new(),
            };
        };
        let (status, from) = if given.order() > self.last && given.ms > clock_ms.max(self.last.0) + AHEAD_MS {
            (PositionStatus::Impossible, self.last)
        } else if given == Position::OLDEST {
            (PositionStatus::Known, given.order())
        } else if given.life != self.life || given.order() < self.forgotten {
            (PositionStatus::Missed, self.forgotten)
        } else {
            (PositionStatus::Known, given.order())
        };
        let start = self.ring.partition_point(|it| (it.ms, it.number) <= from);
        let happened = |it: &Entry| Happened {
            position: self.position((it.ms, it.number)),
            kind: it.kind,
            page: it.page.to_string(),
            edits: it.edits,
            at: Timestamp::from_millis(it.at_ms),
        };
        let events = self.ring.range(start..).take(limit).map(happened).collect();
        News { status, from: self.position(from), events }
    }

    #[cfg(test)]
    pub(super) fn recount(&self) -> usize {
        self.ring.iter().map(|it| bytes_of(&it.page)).sum()
    }
}
