//! All rules with all they have, as a file that can be imported.

use tokio_postgres::Row;

use super::failure::Result;
use super::read::rule_of;
use super::spool::Lines;
use crate::error::Error;
use crate::formats::{ExportFormat, csv, jsonl};
use crate::truth::types::Position;

/// An export of that format.
pub(super) struct Export(pub(super) ExportFormat);

impl Lines for Export {
    const NAME: &str = "an export";

    const SELECT: &str = "SELECT body, clicks FROM tidegate.rules ORDER BY id";

    fn first(&mut self, _: &Position) -> Result<Vec<u8>> {
        Ok(match self.0 {
            ExportFormat::Csv => csv::header().into_bytes(),
            ExportFormat::Jsonl => Vec::new(),
        })
    }

    fn line(&mut self, into: &mut Vec<u8>, row: &Row) -> Result<()> {
        let written = match self.0 {
            ExportFormat::Csv => csv::write(into, &rule_of(row)?),
            ExportFormat::Jsonl => jsonl::write(into, row.try_get(0)?, row.try_get::<_, i64>(1)? as u64),
        };
        Ok(written.map_err(|error| Error::unwritable(Self::NAME, &error))?)
    }
}
