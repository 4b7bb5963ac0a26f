//! What was staged, compared with what there is.
//!
//! What is compared is taken away from what was staged: what is left in the end is new.

use std::pin::pin;

use futures_util::TryStreamExt as _;
use tidegate::random::Random;
use tokio_postgres::Row;

use super::stage::{is_so, make_anew};
use super::touched::{Touched, note};
use super::{Session, TOGETHER};
use crate::truth::import::{ImportMode, Plan};
use crate::truth::postgres::failure::Result;
use crate::truth::postgres::read::digest_of;

/// Chance has made an id that a rule has already.
const MADE_AND_TAKEN: &str = "SELECT s.n, s.id, s.version, s.hash, s.body FROM pg_temp.staged s
    WHERE s.is_made AND EXISTS (SELECT 1 FROM tidegate.rules r WHERE r.id = s.id)";

/// Rows without an id are the rule of their host and path, unless the file names that itself.
const FIND_BY_PLACE: &str = "UPDATE pg_temp.staged SET id = r.id, is_made = false FROM tidegate.rules r
    WHERE staged.is_made AND r.host = staged.host AND r.path = staged.path
        AND NOT EXISTS (SELECT 1 FROM pg_temp.staged o WHERE o.id = r.id)";

/// A place belongs to a rule that the file does not have.
macro_rules! taken {
    () => {
        "SELECT s.id, r.id AS owner FROM pg_temp.staged s JOIN tidegate.rules r ON r.host = s.host AND r.path = s.path
         WHERE r.id <> s.id AND NOT EXISTS (SELECT 1 FROM pg_temp.staged o WHERE o.id = r.id)"
    };
}

const IS_TAKEN: &str = concat!("SELECT EXISTS (", taken!(), ")");

const INDEX: &str = "CREATE INDEX staged_by_place ON pg_temp.staged (host, path)";

/// A rule stays where it is because its own line is left out: which may be why another stays too.
const TAKEN: &str = concat!(
    "WITH RECURSIVE stays AS (",
    taken!(),
    " UNION ALL
        SELECT next.id, stays.id FROM stays CROSS JOIN LATERAL
            (SELECT s.id FROM tidegate.rules r JOIN pg_temp.staged s ON s.host = r.host AND s.path = r.path
             WHERE r.id = stays.id AND s.id <> r.id LIMIT 1) next
    )
    DELETE FROM pg_temp.staged USING stays WHERE staged.id = stays.id
    RETURNING staged.line, staged.hash, stays.owner"
);

const LEAVING: &str = "SELECT r.id, r.body FROM tidegate.rules r
    WHERE r.id > $1 AND NOT EXISTS (SELECT 1 FROM pg_temp.staged s WHERE s.id = r.id) ORDER BY r.id LIMIT $2";

/// Rules are looked up for what was staged, and never the other way round: there may be many more of them.
const PAIRS: &str = "SELECT s.id, s.body, s.hash, r.body, r.clicks FROM pg_temp.staged s
    CROSS JOIN LATERAL (SELECT body, clicks FROM tidegate.rules WHERE rules.id = s.id OFFSET 0) r
    WHERE s.id > $1 ORDER BY s.id LIMIT $2";

const COMPARED: &str = "DELETE FROM pg_temp.staged WHERE id = ANY ($1)";

/// Compares all of it with so many rules.
pub(super) async fn compare(session: &Session, plan: &mut Plan, count: u64, random: &Random) -> Result<()> {
    if count == 0 {
        return Ok(());
    }
    if plan.has_made_ids() {
        make_anew(session, plan, MADE_AND_TAKEN, random).await?;
        session.execute(FIND_BY_PLACE, &[]).await?;
    }
    match plan.mode() {
        ImportMode::Merge => leave_out_taken(session, plan).await?,
        ImportMode::Replace => find_leaving(session, plan).await?,
    }
    compare_rules(session, plan).await
}

async fn leave_out_taken(session: &Session, plan: &mut Plan) -> Result<()> {
    if !is_so(session, IS_TAKEN).await? {
        return Ok(());
    }
    session.run(INDEX).await?;
    let mut rows = pin!(session.stream(TAKEN).await?);
    while let Some(row) = session.in_time(rows.try_next()).await? {
        let line: i64 = row.try_get(0)?;
        plan.is_taken(line as u64, digest_of(row.try_get(1)?)?, row.try_get(2)?);
    }
    Ok(())
}

/// Rules that the file does not have.
async fn find_leaving(session: &Session, plan: &mut Plan) -> Result<()> {
    let mut last = String::new();
    loop {
        let rows = session.rows(LEAVING, &[&last, &TOGETHER]).await?;
        let Some(row) = rows.last() else { return Ok(()) };
        last = row.try_get(0)?;
        let gone = |row: &Row| Ok(Touched::gone(plan.lacks(row.try_get(1)?)?));
        note(session, &rows.iter().map(gone).collect::<Result<Vec<_>>>()?).await?;
    }
}

/// What is in the database already is left alone, or is the next version.
async fn compare_rules(session: &Session, plan: &mut Plan) -> Result<()> {
    let mut last = String::new();
    loop {
        let rows = session.rows(PAIRS, &[&last, &TOGETHER]).await?;
        let Some(row) = rows.last() else { return Ok(()) };
        last = row.try_get(0)?;
        let (mut ids, mut changed) = (Vec::new(), Vec::new());
        for row in &rows {
            let (hash, clicks) = (digest_of(row.try_get(2)?)?, row.try_get::<_, i64>(4)? as u64);
            let compared = plan.compare(row.try_get(1)?, hash, row.try_get(3)?, clicks)?;
            changed.extend(compared.map(|it| Touched::changed(it, plan.now_ms)));
            ids.push(row.try_get::<_, &str>(0)?);
        }
        note(session, &changed).await?;
        session.execute(COMPARED, &[&ids]).await?;
    }
}
