//! Which time between two goings back of the database it is.
//!
//! PostgreSQL knows most of it: each cluster has an id, and a standby that is promoted begins a new timeline, as does a
//! server that is recovered from a backup. The timeline is that of the file that is written to, since what a control file says
//! of the last checkpoint is old after a promotion. What PostgreSQL cannot know is in the database: a text that
//! somebody changes who knows better. A dump that is restored into the same cluster changes nothing of that; there it is
//! the digest that differs.
//!
//! All of it is read by the statement that reads where the rules stand, on its connection: nothing is remembered, so that
//! what is read of one server is never said to be of another.

use tidegate::random::Random;
use tokio_postgres::Row;

use super::failure::Result;
use super::read::position;
use super::session::Session;
use crate::error::Error;

/// The columns that [`of`] reads, of `tidegate.state s CROSS JOIN pg_control_system() c`.
macro_rules! columns {
    () => {
        "c.system_identifier, pg_walfile_name(pg_current_wal_lsn()), s.epoch"
    };
}
pub(super) use columns;

/// The epoch of the first three columns.
pub(super) fn of(row: &Row) -> Result<String> {
    let (system, file, text): (i64, String, String) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
    // Its name begins with the timeline, as eight hexadecimal digits.
    let timeline = file.get(..8).and_then(|digits| u32::from_str_radix(digits, 16).ok());
    let timeline = timeline.ok_or_else(|| Error::corrupt(format!("{file:?} has no timeline")))?;
    Ok(format!("{:016x}-{timeline}-{text}", system as u64))
}

/// A name for the time from now until somebody says that the database has gone back.
pub(super) fn new_text(random: &Random) -> String {
    format!("{:016x}", random.bits())
}

/// Says that the database may have gone back.
pub(super) async fn begin(session: &Session, text: &str) -> Result<String> {
    session.begin().await?;
    let begun = begin_in(session, text).await;
    session.end(begun).await
}

async fn begin_in(session: &Session, text: &str) -> Result<String> {
    session.execute("UPDATE tidegate.state SET epoch = $1", &[&text]).await?;
    Ok(position(session, None).await?.epoch)
}
