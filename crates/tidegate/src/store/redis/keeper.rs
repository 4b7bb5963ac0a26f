//! Looks after one lane: reaches its server, notices when that goes away, and tries
//! again until it is back.
//!
//! The end of a connection wakes it at once, and it makes the next one: a call that comes
//! then finds it ready, also where a new connection takes longer than the call may. A server
//! that is silently gone is noticed by asking: every few seconds, however much others ask.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::connection::Connection;
use super::lane::Worker;
use super::marker::Renewed;
use crate::clock;
use crate::error::Result;
use crate::outage::OutageReason;

/// Pauses between attempts to reach a server, and at least from one connection that nobody
/// used to the next. A server that closes what was idle for a second or more is met at once
/// each time: that is one connection and one script per close, no more than a caller a
/// second would cost. One that closes sooner, or at once, sees no more of us than that.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

impl Worker {
    /// Keeps the lane for as long as it lives. `first` hears of the first attempt.
    pub(super) async fn keep(self: Arc<Self>, first: oneshot::Sender<Result<()>>) {
        let mut first = Some(first);
        let mut pause = FIRST_PAUSE;
        loop {
            let connection = self.probe(&mut first, &mut pause).await;
            self.watch(connection, &mut pause).await;
        }
    }

    /// Tries to reach the server, with backoff and jitter, until it answers and takes writes.
    async fn probe(
        &self,
        first: &mut Option<oneshot::Sender<Result<()>>>,
        pause: &mut Duration,
    ) -> Connection {
        loop {
            let reached = self.shared.renew(self.partition).await;
            let mut tell = |reached: Result<()>| {
                if let Some(first) = first.take() {
                    // Nobody may be waiting any more.
                    let _ = first.send(reached);
                }
            };
            match reached {
                Ok(Renewed { connection, refusal: None }) => {
                    self.breaker.close();
                    tell(Ok(()));
                    return connection;
                }
                Ok(Renewed { refusal: Some(refusal), .. }) => {
                    self.breaker.was_missed();
                    self.breaker.open(&refusal, || self.server());
                    tell(Ok(()));
                    // Calls are not kept waiting for it, and a memory that is full now and
                    // not the next moment is one outage.
                    *pause = LONGEST_PAUSE;
                }
                Err(error) => {
                    self.breaker.was_missed();
                    self.breaker.open(&error, || self.server());
                    tell(Err(error));
                }
            }
            tokio::time::sleep(self.shared.jitter(*pause)).await;
            *pause = (*pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Returns when the server is away, or takes no writes. The next pause is a short one,
    /// unless the last connection was of no use.
    async fn watch(&self, mut connection: Connection, pause: &mut Duration) {
        let mut check_at = self.next_check();
        let mut made_at = Instant::from_std(clock::monotonic());
        // When to replace a connection that has ended, and whether somebody needs it.
        let (mut reconnect_at, mut is_used) = (None, false);
        loop {
            tokio::select! {
                () = self.breaker.opened.notified() => {
                    // It may have been known before.
                    if self.breaker.outage().is_none() {
                        continue;
                    }
                    if reconnect_at.is_none() {
                        *pause = FIRST_PAUSE;
                    }
                }
                () = connection.ended(), if reconnect_at.is_none() => {
                    is_used = self.was_used.swap(false, Ordering::Relaxed);
                    let is_of_use = is_used || made_at.elapsed() >= LONGEST_PAUSE;
                    (reconnect_at, *pause) = match is_of_use {
                        true => (Some(made_at), FIRST_PAUSE),
                        false => (Some(made_at + *pause), (*pause * 2).min(LONGEST_PAUSE)),
                    };
                    continue;
                }
                () = self.shared.losses[self.partition as usize].wait(), if reconnect_at.is_none() => {}
                () = tokio::time::sleep_until(reconnect_at.unwrap_or(check_at).min(check_at)) => {}
            }
            if self.breaker.outage().is_some() {
                return;
            }
            let renewed = match reconnect_at {
                Some(_) if !is_used => self.shared.reconnect(self.partition).await,
                _ => self.shared.renew(self.partition).await,
            };
            match &renewed {
                Ok(Renewed { refusal: None, .. }) => self.breaker.was_reached(),
                _ => self.breaker.was_missed(),
            }
            connection = match renewed {
                Ok(Renewed { connection, refusal: None }) => connection,
                // Cut once more: that says nothing of the next one, for a while.
                Err(error)
                    if reconnect_at.is_some()
                        && error.reason() == Some(OutageReason::Cut)
                        && *pause < LONGEST_PAUSE =>
                {
                    reconnect_at = Some(Instant::from_std(clock::monotonic()) + *pause);
                    *pause = (*pause * 2).min(LONGEST_PAUSE);
                    continue;
                }
                Ok(Renewed { refusal: Some(error), .. }) | Err(error) => {
                    self.breaker.open(&error, || self.server());
                    return;
                }
            };
            if reconnect_at.take().is_some() {
                made_at = clock::monotonic().into();
            }
            check_at = self.next_check();
        }
    }

    fn next_check(&self) -> Instant {
        clock::deadline(self.shared.jitter(self.shared.check_interval))
    }
}
