//! An import into a file of SQLite: staged in a database of its own beside it, which has no name and ends with the
//! process however that ends, and merged in one transaction.
//!
//! Reading and staging keep nobody waiting. Merging takes the place of the one who writes: changes wait for it, readers do
//! not. A large import takes the indices away and makes them anew, since sorting is much faster than inserting at random.

mod compare;
mod merge;
mod stage;
mod staged;

use std::sync::Arc;

use parking_lot::Mutex;
use rusqlite::{Connection, TransactionBehavior};
use tidegate::clock::Clock;
use tidegate::random::Random;
use tokio::sync::watch;

use super::failure::failed;
use super::{Readers, Writable};
use crate::error::Result;
use crate::formats::Reader;
use crate::truth::import::{ImportOptions, ImportReport, ImportStep, OnProgress, Plan};
use crate::truth::types::Seq;
use crate::truth::writer::tell;

/// Rows that are looked at together.
const TOGETHER: usize = 1000;

/// What imports go by.
#[derive(Debug)]
pub(super) struct Importer {
    pub(super) readers: Arc<Readers>,
    pub(super) writer: Arc<Mutex<Writable>>,
    pub(super) last: watch::Sender<Seq>,
    pub(super) clock: Clock,
    pub(super) random: Random,
    pub(super) max_log: u64,
}

impl Importer {
    /// Reads a file and merges it. The connection is one of its own, with an empty database `staging` attached.
    pub(super) fn run(
        &self,
        connection: &mut Connection,
        mut reader: Reader,
        options: ImportOptions,
        mut progress: OnProgress,
    ) -> Result<ImportReport> {
        let mut plan = Plan::new(options, self.clock.now().as_millis());
        connection.execute_batch(include_str!("staging.sql")).map_err(failed)?;
        stage::stage(connection, &mut plan, &mut reader, &self.random, &mut progress)?;
        progress(plan.at(ImportStep::Checking));
        stage::leave_out_duplicates(connection, &mut plan, &self.random)?;
        if plan.ends_as().is_some() {
            // Whatever becomes of it, nobody waits for it.
            let transaction = connection.transaction().map_err(failed)?;
            compare::compare(&transaction, &mut plan, &self.random)?;
            return Ok(plan.finish(None));
        }
        let written = {
            let mut alone = self.writer.lock();
            alone.open()?;
            plan.now_ms = self.clock.now().as_millis();
            let behavior = TransactionBehavior::Immediate;
            let transaction = connection.transaction_with_behavior(behavior).map_err(failed)?;
            let mut head = compare::compare(&transaction, &mut plan, &self.random)?;
            if plan.ends_as().is_some() {
                return Ok(plan.finish(None));
            }
            progress(plan.at(ImportStep::Writing));
            merge::merge(&transaction, &plan, &mut head, self.max_log)?;
            transaction.commit().map_err(failed)?;
            tell(&self.last, head.seq);
            head
        };
        self.tidy(connection);
        Ok(plan.finish(Some(&written)))
    }

    /// Brings what was written to its place in the file. It is written already: what fails here is done by another.
    fn tidy(&self, connection: &Connection) {
        let checkpoint = |how: &str| {
            let _ = connection.query_row(&format!("PRAGMA main.wal_checkpoint({how})"), [], |_| Ok(()));
        };
        // Keeps nobody waiting.
        checkpoint("PASSIVE");
        // Little is left to do, and whoever reads is not waited for.
        let _alone = self.writer.lock();
        if connection.busy_timeout(std::time::Duration::ZERO).is_ok() {
            checkpoint("TRUNCATE");
        }
    }
}
