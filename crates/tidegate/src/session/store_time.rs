//! What time it is for the store, as far as this process knows: until when a call may run.
//!
//! A call that reaps is made for now. If it waits in a socket, because the store or a proxy
//! has stopped, it must not be carried out when they go on: its caller has given up, and what
//! was silent may have returned. So it says until when it is good, by the store's clock.

use std::time::Duration;

use parking_lot::Mutex;

use crate::clock::{Clock, since_boot};

/// The time that the store last said.
#[derive(Debug, Default)]
pub(super) struct StoreTime(Mutex<Option<Reading>>);

#[derive(Debug, Clone, Copy)]
struct Reading {
    store_ms: u64,
    /// When the request was sent, on a clock of ours that never steps.
    requested_ms: u64,
}

impl StoreTime {
    /// The store has said its time to a call that was made at `requested_ms`.
    pub(super) fn note(&self, store_ms: u64, requested_ms: u64) {
        let mut reading = self.0.lock();
        // Answers overtake each other.
        if reading.is_none_or(|reading| reading.requested_ms <= requested_ms) {
            *reading = Some(Reading { store_ms, requested_ms });
        }
    }

    /// Until when a call is good that is made at `requested_ms` and waited for until `deadline`.
    /// Nothing is, before the store has said its time.
    pub(super) fn valid_until(&self, clock: &Clock, requested_ms: u64, deadline: Duration) -> u64 {
        let deadline_ms = deadline.as_millis() as u64;
        match (clock, *self.0.lock()) {
            (Clock::Manual(clock), _) => clock.now().as_millis() + deadline_ms,
            // Since it was asked: the answer took a while.
            (_, Some(reading)) => {
                reading.store_ms + requested_ms.saturating_sub(reading.requested_ms) + deadline_ms
            }
            (_, None) => 0,
        }
    }

    /// Whether the store was asked within the last `lasting` before `now_ms`.
    pub(super) fn is_recent(&self, now_ms: u64, lasting: Duration) -> bool {
        self.0
            .lock()
            .is_some_and(|reading| now_ms.saturating_sub(reading.requested_ms) < lasting.as_millis() as u64)
    }
}

/// A reading of the clock of ours: it goes on while the machine sleeps.
pub(super) fn reading_ms() -> u64 {
    since_boot().as_millis() as u64
}
