//! All rules at one place of the log, a line each behind one that says which place.

use tokio_postgres::Row;

use super::failure::Result;
use super::spool::Lines;
use crate::error::Error;
use crate::truth::snapshot::{Fields, key_line, position_line};
use crate::truth::types::Position;

/// A snapshot with those fields.
pub(super) struct Snapshot(pub(super) Fields);

impl Lines for Snapshot {
    const NAME: &str = "a snapshot";

    const SELECT: &str = "SELECT id, host, path, body FROM tidegate.rules ORDER BY id";

    fn first(&mut self, position: &Position) -> Result<Vec<u8>> {
        Ok(position_line(position)?.into_bytes())
    }

    fn line(&mut self, into: &mut Vec<u8>, row: &Row) -> Result<()> {
        let body: &str = row.try_get(3)?;
        match self.0 {
            Fields::Keys => {
                let (id, host, path) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
                let written = key_line(into, id, host, path, body);
                written.map_err(|error| Error::unwritable(Self::NAME, &error))?;
            }
            Fields::All => {
                into.extend_from_slice(body.as_bytes());
                into.push(b'\n');
            }
        }
        Ok(())
    }
}
