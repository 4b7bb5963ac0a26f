//! Hears of changes as they are committed, by whichever server. Nobody relies on it: what is told while nobody listens is
//! lost, and whoever follows the log looks by itself too.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio_postgres::{AsyncMessage, Connection, Socket};

use super::failure::{Failure, Result};
use super::open::Dial;
use super::tls::Stream;
use super::write::CHANNEL;
use crate::truth::types::Seq;

/// How long after a connection has ended another is tried.
const AGAIN: Duration = Duration::from_secs(1);

/// Connecting takes no longer, nor does the first answer.
const BEGIN: Duration = Duration::from_secs(30);

/// Listens for ever, on one connection after the other.
pub(super) async fn listen(dial: Arc<Dial>, last: watch::Sender<Seq>) {
    loop {
        // Why it ended is told to whoever asks the database something.
        let _ = listen_once(&dial, &last).await;
        tokio::time::sleep(AGAIN).await;
    }
}

async fn listen_once(dial: &Dial, last: &watch::Sender<Seq>) -> Result<()> {
    let begin = async {
        let (client, connection) = dial.dial().await?;
        let hearing = tokio::spawn(hear(connection, last.clone()));
        client.batch_execute(&format!("LISTEN {CHANNEL}")).await?;
        // What was told before is not heard again.
        let row = client.query_one("SELECT seq FROM tidegate.state", &[]).await?;
        let seq: i64 = row.try_get(0)?;
        tell(last, seq as u64);
        Ok::<_, Failure>((client, hearing))
    };
    let begun = tokio::time::timeout(BEGIN, begin).await;
    let (_client, hearing) = begun.unwrap_or_else(|_| Err(Failure::timeout()))?;
    // It ends with its client, and so with whoever waits here.
    let _ = hearing.await;
    Ok(())
}

async fn hear(mut connection: Connection<Socket, Stream<Socket>>, last: watch::Sender<Seq>) {
    while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
        if let AsyncMessage::Notification(told) = message
            && let Ok(seq) = told.payload().parse()
        {
            tell(&last, seq);
        }
    }
}

/// Tells of a change, unless its own writer was faster.
fn tell(last: &watch::Sender<Seq>, seq: u64) {
    last.send_if_modified(|last| {
        let is_new = seq > last.0;
        if is_new {
            *last = Seq(seq);
        }
        is_new
    });
}
