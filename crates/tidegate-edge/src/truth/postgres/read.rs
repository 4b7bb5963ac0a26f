//! Questions, each answered by one statement, and so from one state of the database.

use tokio_postgres::Row;

use super::epoch;
use super::failure::Result;
use super::session::Session;
use crate::error::Error;
use crate::path::{candidates, folders};
use crate::rule::{Rule, State};
use crate::truth::digest::Digest;
use crate::truth::group::rule;
use crate::truth::types::{LogRow, Logged, Place, Position, Resolution, Seq};

/// The time in milliseconds: the database's, or that of a test, which goes along as the first parameter.
macro_rules! now {
    () => {
        "coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint)"
    };
}

/// What [`position_of`] reads.
macro_rules! position {
    () => {
        concat!(epoch::columns!(), ", s.seq, s.count, s.digest, ", now!())
    };
}

/// Columns of a position.
const POSITION_COLUMNS: usize = 7;

pub(super) const NOW: &str = concat!("SELECT ", now!());

/// A time that goes along, if there is one.
pub(super) type Now = Option<i64>;

/// A rule of the first two columns, `body` and `clicks`.
pub(super) fn rule_of(row: &Row) -> Result<Rule> {
    Ok(rule(row.try_get(0)?, row.try_get::<_, i64>(1)? as u64)?)
}

pub(super) fn digest_of(bytes: &[u8]) -> Result<Digest> {
    let digest = Digest::from_bytes(bytes);
    Ok(digest.ok_or_else(|| Error::corrupt("a digest in the rules' database is none"))?)
}

/// Whether there can be such a text: PostgreSQL has none with a zero in it, and so nothing that is called so.
pub(super) fn can_be(text: &str) -> bool {
    !text.contains('\0')
}

pub(super) async fn now(session: &Session, now: Now) -> Result<u64> {
    let row = session.row(NOW, &[&now]).await?;
    time_of(row.as_ref())
}

/// What [`NOW`] has answered.
pub(super) fn time_of(row: Option<&Row>) -> Result<u64> {
    let time: i64 = row.ok_or_else(|| Error::corrupt("there is no time"))?.try_get(0)?;
    Ok(time as u64)
}

pub(super) async fn get(session: &Session, id: &str) -> Result<Option<Rule>> {
    if !can_be(id) {
        return Ok(None);
    }
    let row = session.row("SELECT body, clicks FROM tidegate.rules WHERE id = $1", &[&id]).await?;
    row.as_ref().map(rule_of).transpose()
}

pub(super) async fn position(session: &Session, now: Now) -> Result<Position> {
    let statement =
        concat!("SELECT ", position!(), " FROM tidegate.state s CROSS JOIN pg_control_system() c");
    let row = session.row(statement, &[&now]).await?;
    position_of(&row.ok_or_else(nowhere)?)
}

fn nowhere() -> Error {
    Error::corrupt("the rules' database does not know where it stands: its table `state` is empty")
}

fn position_of(row: &Row) -> Result<Position> {
    let (seq, count, time): (i64, i64, i64) = (row.try_get(3)?, row.try_get(4)?, row.try_get(6)?);
    Ok(Position {
        epoch: epoch::of(row)?,
        seq: Seq(seq as u64),
        count: count as u64,
        digest: digest_of(row.try_get(5)?)?,
        time_ms: time as u64,
    })
}

/// Whether time has changed the state of some rule.
pub(super) async fn is_due(session: &Session, now: Now) -> Result<bool> {
    let statement = concat!(
        "SELECT EXISTS (SELECT 1 FROM tidegate.rules WHERE next_at <= (SELECT ",
        now!(),
        ")) OR EXISTS (SELECT 1 FROM tidegate.blocks WHERE standing = 0 AND deadline_ms <= (SELECT ",
        now!(),
        "))"
    );
    let row = session.row(statement, &[&now]).await?;
    Ok(row.map_or(Ok(false), |row| row.try_get(0))?)
}

/// Changes behind `after`, at most so many; none if the log does not go back so far.
pub(super) async fn log(session: &Session, after: Seq, limit: usize) -> Result<Option<Vec<LogRow>>> {
    let statement =
        "SELECT l.seq, l.id, l.before_host, l.before_path, l.host, l.path, l.body, l.left_hash, l.came_hash,
            l.digest, l.count, l.at_ms, s.seq
        FROM tidegate.state s LEFT JOIN LATERAL
            (SELECT * FROM tidegate.log WHERE log.seq > $1 ORDER BY log.seq LIMIT $2) l ON true";
    // Nothing is behind a number that no change has yet.
    let Ok(behind) = i64::try_from(after.0) else { return Ok(None) };
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let rows = session.rows(statement, &[&behind, &limit]).await?;
    let last: i64 = rows.first().ok_or_else(nowhere)?.try_get(12)?;
    if behind >= last {
        return Ok((behind == last).then(Vec::new));
    }
    let is_there = |row: &&Row| row.try_get::<_, Option<i64>>(0).is_ok_and(|seq| seq.is_some());
    let rows = rows.iter().filter(is_there).map(log_row).collect::<Result<Vec<_>>>()?;
    let is_whole = rows.first().is_some_and(|row| row.seq == after.next());
    Ok(is_whole.then_some(rows))
}

fn log_row(row: &Row) -> Result<LogRow> {
    let place =
        |host: Option<String>, path: Option<String>| host.zip(path).map(|(host, path)| Place { host, path });
    let number = |index: usize| Ok::<_, tokio_postgres::Error>(row.try_get::<_, i64>(index)? as u64);
    let body: Option<String> = row.try_get(6)?;
    let after = place(row.try_get(4)?, row.try_get(5)?).zip(body).map(|(place, body)| Logged { place, body });
    Ok(LogRow {
        seq: Seq(number(0)?),
        id: row.try_get(1)?,
        before: place(row.try_get(2)?, row.try_get(3)?),
        after,
        left: digest_of(row.try_get(7)?)?,
        came: digest_of(row.try_get(8)?)?,
        digest: digest_of(row.try_get(9)?)?,
        count: number(10)?,
        at_ms: number(11)?,
    })
}

/// The rule that answers a request for a host and a path, both normalised: of the nearest host that has one, the exact one,
/// or else that of the longest folder.
pub(super) async fn resolve(session: &Session, host: &str, path: &str, now: Now) -> Result<Resolution> {
    // A host without rules is not looked up for every folder.
    let statement = concat!(
        "SELECT ",
        position!(),
        ", r.host, r.path, r.body, r.clicks
         FROM tidegate.state s CROSS JOIN pg_control_system() c LEFT JOIN LATERAL (
             SELECT rules.host, rules.path, rules.body, rules.clicks
             FROM unnest($2::text[]) AS h (host) JOIN tidegate.rules ON rules.host = h.host
             WHERE (SELECT true FROM tidegate.rules one WHERE one.host = h.host LIMIT 1)
                 AND rules.path = ANY ($3::text[])
         ) r ON true"
    );
    if !can_be(host) || !can_be(path) {
        return Ok(Resolution { rule: None, passed: Vec::new(), position: position(session, now).await? });
    }
    let hosts: Vec<_> = candidates(host).collect();
    let paths: Vec<_> = std::iter::once(path.to_owned()).chain(folders(path)).collect();
    let rows = session.rows(statement, &[&now, &hosts, &paths]).await?;
    let position = position_of(rows.first().ok_or_else(nowhere)?)?;
    let mut found = Vec::new();
    for row in &rows {
        let Some(host) = row.try_get::<_, Option<&str>>(POSITION_COLUMNS)? else { continue };
        let path: &str = row.try_get(POSITION_COLUMNS + 1)?;
        let rank = (hosts.iter().position(|it| it == host), paths.iter().position(|it| it == path));
        let clicks: i64 = row.try_get(POSITION_COLUMNS + 3)?;
        let rule = rule(row.try_get(POSITION_COLUMNS + 2)?, clicks as u64)?;
        found.push((rank, rule));
    }
    found.sort_by_key(|(rank, _)| *rank);
    let mut passed = Vec::new();
    for (_, rule) in found {
        if !matches!(rule.state(position.time_ms), State::Disabled | State::Scheduled) {
            return Ok(Resolution { rule: Some(rule), passed, position });
        }
        passed.push(rule);
    }
    Ok(Resolution { rule: None, passed, position })
}
