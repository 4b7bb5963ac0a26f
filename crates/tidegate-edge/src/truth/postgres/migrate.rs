//! Brings a database to this version, when it is opened.
//!
//! All tables are in a schema called `tidegate`: the database may be somebody else's too. Whoever may not make one is
//! given it by who may (`CREATE SCHEMA tidegate AUTHORIZATION …`).

use tidegate::random::Random;

use super::epoch;
use super::failure::Result;
use super::session::Session;
use crate::error::Error;
use crate::truth::digest::Digest;

/// What makes each version of the one before.
const MIGRATIONS: [&str; 1] = [include_str!("schema.sql")];

/// Servers that start at once wait for each other by this number: `tidegate`, as text.
const LOCK: i64 = 0x7469_6465_6761_7465;

/// Brings the database to this version, all of it or nothing.
pub(super) async fn migrate(session: &Session, place: &str, random: &Random) -> Result<()> {
    let row = session.row("SELECT current_setting('server_encoding')", &[]).await?;
    let encoding: String = row.map_or(Ok(String::new()), |row| row.try_get(0))?;
    if encoding != "UTF8" {
        return Err(Error::config(format!(
            "{place} is encoded as {encoding}, and rules need UTF8: make another"
        ))
        .into());
    }
    session.begin().await?;
    let migrated = migrate_in(session, place, random).await;
    session.end(migrated).await
}

async fn migrate_in(session: &Session, place: &str, random: &Random) -> Result<()> {
    session.rows("SELECT pg_advisory_xact_lock($1)", &[&LOCK]).await?;
    let from = match version(session).await? {
        Some(version) => version,
        None => {
            begin(session, place).await?;
            0
        }
    };
    let known = MIGRATIONS.len() as i64;
    if from > known {
        return Err(Error::config(format!(
            "{place} has rules of version {from}, and this program knows {known}: they were written by a newer one"
        ))
        .into());
    }
    for (version, migration) in (1_i64..).zip(MIGRATIONS).skip(from as usize) {
        session.run(migration).await?;
        session.execute("INSERT INTO tidegate.migrations (version) VALUES ($1)", &[&version]).await?;
    }
    if from == 0 {
        session
            .execute(
                "INSERT INTO tidegate.state (one, epoch, seq, count, digest, log_from) VALUES (1, $1, 0, 0, $2, 1)",
                &[&epoch::new_text(random), &&Digest::default().to_bytes()[..]],
            )
            .await?;
    }
    Ok(())
}

/// The version that there is; none if there is nothing.
async fn version(session: &Session) -> Result<Option<i64>> {
    let exists = "SELECT to_regclass('tidegate.migrations') IS NOT NULL";
    let row = session.row(exists, &[]).await?;
    if !row.map_or(Ok(false), |row| row.try_get(0))? {
        return Ok(None);
    }
    let row = session.row("SELECT max(version) FROM tidegate.migrations", &[]).await?;
    let version: Option<i64> = row.map_or(Ok(None), |row| row.try_get(0))?;
    Ok(Some(version.unwrap_or(0)))
}

/// Makes room for the first version.
async fn begin(session: &Session, place: &str) -> Result<()> {
    let tables = "SELECT count(c.oid) FROM pg_namespace n LEFT JOIN pg_class c ON c.relnamespace = n.oid
        WHERE n.nspname = 'tidegate' GROUP BY n.oid";
    let tables: Option<i64> = session.row(tables, &[]).await?.map(|row| row.try_get(0)).transpose()?;
    match tables {
        None => session.run("CREATE SCHEMA tidegate").await?,
        Some(0) => {}
        Some(_) => {
            let text = format!("{place} has a schema `tidegate` with something else in it");
            return Err(Error::config(text).into());
        }
    }
    session
        .run(
            "CREATE TABLE tidegate.migrations (
                 version bigint PRIMARY KEY,
                 at timestamptz NOT NULL DEFAULT now()
             )",
        )
        .await
}
