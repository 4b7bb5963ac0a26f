//! Looks after one lane: reaches its server, notices when that goes away, and tries
//! again until it is back.
//!
//! The end of a connection wakes it at once. A server that is silently gone is noticed
//! by asking: every few seconds, however much others ask.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::oneshot;

use super::connection::Connection;
use super::lane::FarEnd;
use crate::clock;
use crate::error::Result;

/// Pauses between attempts to reach a server.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

impl FarEnd {
    /// Keeps the lane for as long as it lives. `first` hears of the first attempt.
    pub(super) async fn keep(self: Arc<Self>, first: oneshot::Sender<Result<()>>) {
        let mut first = Some(first);
        loop {
            let connection = self.probe(&mut first).await;
            self.watch(connection).await;
        }
    }

    /// Tries to reach the server, with backoff and jitter, until it answers.
    async fn probe(&self, first: &mut Option<oneshot::Sender<Result<()>>>) -> Connection {
        let mut pause = FIRST_PAUSE;
        loop {
            let reached = self.shared.renew(self.partition).await;
            match &reached {
                Ok(_) => self.breaker.close(),
                Err(error) => {
                    self.breaker.open(error, || self.server());
                }
            }
            let (told, connection) = match reached {
                Ok(connection) => (Ok(()), Some(connection)),
                Err(error) => (Err(error), None),
            };
            if let Some(first) = first.take() {
                // Nobody may be waiting any more.
                let _ = first.send(told);
            }
            if let Some(connection) = connection {
                return connection;
            }
            tokio::time::sleep(self.shared.jitter(pause)).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Returns when the server is away.
    async fn watch(&self, connection: Connection) {
        // None once it has ended: the next call makes another.
        let mut connection = Some(connection);
        let mut check_at = self.next_check();
        loop {
            let ended = async {
                match &connection {
                    Some(connection) => connection.ended().await,
                    None => std::future::pending().await,
                }
            };
            let must_reconnect = tokio::select! {
                () = self.breaker.opened.notified() => false,
                // Where nobody called since it was made, it is left to who calls next:
                // a server that closes idle connections would only close the next too.
                () = ended => match self.was_used.swap(false, Ordering::Relaxed) {
                    true => true,
                    false => {
                        connection = None;
                        continue;
                    }
                },
                () = tokio::time::sleep_until(check_at) => true,
            };
            if self.breaker.is_open() {
                return;
            }
            if must_reconnect {
                match self.shared.renew(self.partition).await {
                    Ok(current) => connection = Some(current),
                    Err(error) => {
                        self.breaker.open(&error, || self.server());
                        return;
                    }
                }
                check_at = self.next_check();
            }
        }
    }

    fn next_check(&self) -> tokio::time::Instant {
        clock::deadline(self.shared.jitter(self.shared.check_interval))
    }
}
