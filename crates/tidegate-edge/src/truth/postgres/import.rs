//! An import into PostgreSQL: staged in tables of one connection, which end with it however it ends, and merged in one
//! transaction.
//!
//! Reading and staging keep nobody waiting, and no transaction is open while the file is slow: it is copied in pieces, each
//! by itself. Merging is what [`write`](super::write) says of changes: first the lock of `state`, then all that decides is
//! read under it, then the rules that change or go are locked in the order of their ids, since clicks need no other lock.
//! What was staged is compared under the lock, so whatever another server has written meanwhile is judged too. Rules are
//! written with their indices in place: to take those away would keep readers waiting.

mod compare;
mod merge;
mod stage;
mod touched;

use std::sync::Arc;

use super::failure::{Failure, Result};
use super::session::Session;
use super::{ATTEMPTS, Shared, now, read};
use crate::error::{Error, ErrorKind};
use crate::formats::Reader;
use crate::truth::import::{ImportOptions, ImportProgress, ImportReport, ImportStep, OnProgress, Plan};
use crate::truth::writer::tell;

/// Rows that are looked at together.
const TOGETHER: i64 = 500;

/// What the connection of an import is told beside what others are: it reads much, of tables that nobody has statistics of.
const SETTINGS: &str = "
    SET enable_seqscan = on;
    SET enable_sort = on;
    SET work_mem = '64MB';
    SET temp_buffers = '64MB'";

/// What not every server can be told: a statement ends soon after we have, otherwise the lock would be held until it is
/// done; and a connection on which nothing was said for a while, since the file is slow, is not ended for that.
const IF_IT_CAN: [&str; 2] = ["SET client_connection_check_interval = '1s'", "SET idle_session_timeout = 0"];

/// Reads a file and merges it.
pub(super) async fn import(
    shared: Arc<Shared>,
    reader: Reader,
    options: ImportOptions,
    progress: OnProgress,
) -> Result<ImportReport> {
    let session = shared.dial.reconnect().await?.without_limit().await?;
    session.run(SETTINGS).await?;
    for setting in IF_IT_CAN {
        let _ = session.run(setting).await;
    }
    session.run(include_str!("staging.sql")).await?;
    let plan = Plan::new(options, read::now(&session, now(&shared.clock)).await?);
    let (mut plan, mut progress) =
        stage::stage(&session, plan, reader, shared.random.clone(), progress).await?;
    tell_progress(&mut progress, plan.at(ImportStep::Checking)).await?;
    stage::leave_out_duplicates(&session, &mut plan, &shared.random).await?;
    if plan.ends_as().is_some() {
        // Whatever becomes of it, nobody waits for it.
        session.run("BEGIN ISOLATION LEVEL REPEATABLE READ").await?;
        let compared = async {
            let count = read::position(&session, None).await?.count;
            compare::compare(&session, &mut plan, count, &shared.random).await
        };
        let compared = compared.await;
        session.roll_back().await;
        compared?;
        return Ok(plan.finish(None));
    }
    let mut attempts = 0;
    loop {
        // What an attempt has done to what was staged is undone with it.
        let mut planned = plan.clone();
        let merged = merge::merge(&session, &shared, &mut planned, &mut progress).await;
        attempts += 1;
        match merged {
            Err(Failure::Passing(_)) if attempts < ATTEMPTS => {}
            merged => {
                let written = merged?;
                if let Some(head) = &written {
                    tell(&shared.last, head.seq);
                }
                return Ok(planned.finish(written.as_ref()));
            }
        }
    }
}

/// Tells how far it is, where it may take its time.
async fn tell_progress(progress: &mut OnProgress, at: ImportProgress) -> Result<()> {
    let mut told = std::mem::replace(progress, Box::new(|_| ()));
    let telling = tokio::task::spawn_blocking(move || {
        told(at);
        told
    });
    *progress = telling.await.map_err(|error| ended(&error))?;
    Ok(())
}

fn ended(error: &tokio::task::JoinError) -> Error {
    Error::new(ErrorKind::Internal, format!("an import has ended: {error}"))
}
