//! What happened, in a ring.

use std::collections::VecDeque;
use std::sync::Arc;

use super::page::NAME;
use super::{ALLOCATION, MAX_EVENTS};
use crate::clock::Timestamp;
use crate::hot::edit::{Event, EventKind};

#[derive(Debug)]
struct Told {
    number: u64,
    kind: EventKind,
    page: Arc<str>,
    edits: u64,
    at_ms: u64,
}

#[derive(Debug, Default)]
pub(super) struct Events {
    ring: VecDeque<Told>,
    number: u64,
    /// The latest that is no longer there.
    forgotten: u64,
    bytes: usize,
}

fn bytes_of(page: &str) -> usize {
    size_of::<Told>() + page.len() + NAME + ALLOCATION
}

impl Events {
    pub(super) fn tell(&mut self, now_ms: u64, kind: EventKind, page: Arc<str>, edits: u64) {
        // By the time, so that a process that is started again goes on from there.
        self.number = now_ms.max(self.number + 1);
        if self.ring.len() >= MAX_EVENTS
            && let Some(oldest) = self.ring.pop_front()
        {
            self.forgotten = oldest.number;
            self.bytes -= bytes_of(&oldest.page);
        }
        self.bytes += bytes_of(&page);
        self.ring.push_back(Told { number: self.number, kind, page, edits, at_ms: now_ms });
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Events after `cursor`, or none and the latest cursor if it is not given; and
    /// whether some between are gone.
    pub(super) fn after(&self, cursor: Option<&str>, limit: usize) -> (Vec<Event>, String, bool) {
        let Some(cursor) = cursor else { return (Vec::new(), named(self.number), false) };
        let after = cursor.split('-').next().and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
        let start = self.ring.partition_point(|it| it.number <= after);
        let event = |it: &Told| Event {
            cursor: named(it.number),
            kind: it.kind,
            page: it.page.to_string(),
            edits: it.edits,
            at: Timestamp::from_millis(it.at_ms),
        };
        let news: Vec<_> = self.ring.range(start..).take(limit).map(event).collect();
        let last = news.last().map_or_else(|| named(after), |event| event.cursor.clone());
        (news, last, after < self.forgotten)
    }

    #[cfg(test)]
    pub(super) fn recount(&self) -> usize {
        self.ring.iter().map(|it| bytes_of(&it.page)).sum()
    }
}

fn named(number: u64) -> String {
    format!("{number}-0")
}
