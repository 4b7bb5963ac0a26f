//! Changes, written in one transaction with their rows of the log, by several servers at once.
//!
//! Whoever writes changes first locks the one row of `state`, and holds it until the transaction has ended. So of all servers
//! one at a time is between that lock and its commit, and numbers come without gaps and in the order of commits: a reader
//! that sees a change sees all before it.
//!
//! Everything that decides is read under that lock, each time by a statement of its own: at READ COMMITTED it sees what was
//! committed before it began, and whoever had the lock before has committed by then. Other servers can change rules only
//! under the lock, so that nothing of it changes until we commit: neither which rules there are, nor whose a place is. What
//! they can change without it are clicks, for which they lock the rule; so do we, all of a group in the order of their
//! ids, as everybody does who locks more than one. Nobody waits for `state` who has locked a rule, and so nobody waits in a
//! circle.
//!
//! The lock is on the way of all servers, so little happens under it. The rules are looked at before, without a lock:
//! that brings them into the server's memory, and says which places patches are about. Then the lock and all questions go
//! out together, and after the decision all that is to be written goes out together with the commit: two round trips.
//! If what was looked at has changed meanwhile so that another place matters, its owner is asked for under the lock.
//!
//! If a connection ends before the commit was sent, nothing was written and all of it is done again. If it ends after
//! that, nobody knows; whoever asked is told, and may ask again, since a change by its id is made once.

use std::collections::HashSet;
use std::pin::Pin;

use futures_util::future::{try_join_all, try_join5};
use tidegate::random::Random;
use tokio_postgres::Row;

use super::budget;
use super::failure::{Failure, Result};
use super::list::indexed;
use super::read::{NOW, Now, can_be, digest_of, rule_of, time_of};
use super::session::Session;
use crate::error::Error;
use crate::rule::Rule;
use crate::truth::group::{Group, Head, Write};
use crate::truth::types::{Change, Outcome, Place, Seq};

/// Rows of the log that leave with one group, at most: a bound that was lowered is reached step by step.
const COMPACTED: u64 = 2000;

/// Where servers tell each other of changes.
pub(super) const CHANNEL: &str = "tidegate_rules";

const LOOK: &str = "SELECT body, clicks FROM tidegate.rules WHERE id = ANY ($1)";

/// Only one at a time is behind this.
pub(super) const LOCK: &str = "SELECT seq, count, digest, log_from FROM tidegate.state FOR UPDATE";

/// Rules whose clicks nobody changes from here on.
pub(super) const RULES: &str =
    "SELECT body, clicks, granted FROM tidegate.rules WHERE id = ANY ($1) ORDER BY id FOR UPDATE";

const OWNERS: &str = "SELECT p.host, p.path, r.id FROM unnest($1::text[], $2::text[]) AS p (host, path)
    JOIN tidegate.rules r ON r.host = p.host AND r.path = p.path";

const UNTAG: &str = "DELETE FROM tidegate.tags USING unnest($1::text[], $2::text[]) AS gone (tag, id)
    WHERE tags.tag = gone.tag AND tags.id = gone.id";

const DELETE: &str = "DELETE FROM tidegate.rules WHERE id = ANY ($1)";

const PUT: &str = "INSERT INTO tidegate.rules (id, host, path, destination, state, next_at, body)
    SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::text[])
    ON CONFLICT (id) DO UPDATE SET host = excluded.host, path = excluded.path, destination = excluded.destination,
        state = excluded.state, next_at = excluded.next_at, body = excluded.body";

const TAG: &str = "INSERT INTO tidegate.tags (tag, id) SELECT * FROM unnest($1::text[], $2::text[])";

const LOG: &str = "INSERT INTO tidegate.log
        (seq, id, before_host, before_path, host, path, body, left_hash, came_hash, digest, count, at_ms)
    SELECT *, $12::bigint FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[],
        $8::bytea[], $9::bytea[], $10::bytea[], $11::bigint[])";

const COMPACT: &str = "DELETE FROM tidegate.log WHERE seq >= $1 AND seq < $2";

const STATE: &str = "UPDATE tidegate.state SET seq = $1, count = $2, digest = $3, log_from = $4";

const NOTIFY: &str = "SELECT pg_notify($1, $2)";

/// All of them: what is sent together must be prepared before.
const ALL: [&str; 15] = [
    LOOK,
    LOCK,
    NOW,
    RULES,
    OWNERS,
    UNTAG,
    DELETE,
    PUT,
    TAG,
    LOG,
    COMPACT,
    STATE,
    NOTIFY,
    budget::FORGET_BLOCKS,
    budget::FORGET_DAYS,
];

/// Makes changes, all that are not refused in one transaction.
pub(super) async fn commit(
    session: &Session,
    changes: Vec<Change>,
    now: Now,
    max_log: u64,
    random: &Random,
) -> Result<Vec<Outcome>> {
    prepare(session).await?;
    // Which places matter does not depend on the time.
    let mut group = Group::new(changes, 0, random);
    let ids: Vec<_> = group.ids().filter(|id| can_be(id)).map(str::to_owned).collect();
    let seen = session.rows(LOOK, &[&ids]).await?;
    group.told_rules(seen.iter().map(rule_of).collect::<Result<Vec<_>>>()?);
    let decided = decide(session, group, &ids, now).await;
    end(session, decided, max_log).await
}

/// Ends a transaction that has the lock: writes what was decided under it and commits, or ends with nothing written.
pub(super) async fn end<T>(
    session: &Session,
    decided: Result<(T, Option<Decided>)>,
    max_log: u64,
) -> Result<T> {
    match decided {
        Ok((answer, Some(decided))) => {
            let written = decided.write(session, max_log).await.map_err(Failure::of_commit);
            if written.is_err() {
                session.roll_back().await;
            }
            written.map(|()| answer)
        }
        other => {
            session.roll_back().await;
            other.map(|(answer, _)| answer)
        }
    }
}

/// Prepares what is sent together, for whoever has something decided.
pub(super) async fn prepare(session: &Session) -> Result<()> {
    session.prepare(&ALL).await
}

/// What is to be written, under the lock.
pub(super) struct Decided {
    pub(super) writes: Vec<Write>,
    /// Where the rules stand then.
    pub(super) head: Head,
    /// Where the log begins now.
    pub(super) log_from: u64,
    pub(super) now_ms: u64,
}

/// Begins a transaction, takes the lock and decides.
async fn decide(
    session: &Session,
    mut group: Group,
    ids: &[String],
    now: Now,
) -> Result<(Vec<Outcome>, Option<Decided>)> {
    let guessed = group.places();
    let (hosts, paths) = columns(&guessed);
    let ((), locked, time, rules, owners) = try_join5(
        session.begin(),
        session.row(LOCK, &[]),
        session.row(NOW, &[&now]),
        session.rows(RULES, &[&ids]),
        session.rows(OWNERS, &[&hosts, &paths]),
    )
    .await?;
    let now_ms = time_of(time.as_ref())?;
    let (mut head, log_from) = head(locked.as_ref())?;
    group.begin_anew(now_ms);
    group.told_rules(rules.iter().map(rule_of).collect::<Result<Vec<_>>>()?);
    group.told_owners(owners.iter().map(owner_of).collect::<Result<Vec<_>>>()?);
    let known: HashSet<_> = guessed.into_iter().collect();
    let others: Vec<_> = group.places().into_iter().filter(|place| !known.contains(place)).collect();
    if !others.is_empty() {
        let (hosts, paths) = columns(&others);
        let owners = session.rows(OWNERS, &[&hosts, &paths]).await?;
        group.told_owners(owners.iter().map(owner_of).collect::<Result<Vec<_>>>()?);
    }
    let (outcomes, writes) = group.decide(&mut head)?;
    let decided = Decided { writes, head, log_from, now_ms };
    Ok((outcomes, Some(decided).filter(|it| !it.writes.is_empty())))
}

fn columns(places: &[Place]) -> (Vec<&str>, Vec<&str>) {
    places.iter().map(|place| (&*place.host, &*place.path)).unzip()
}

fn owner_of(row: &Row) -> Result<(Place, String)> {
    Ok((Place { host: row.try_get(0)?, path: row.try_get(1)? }, row.try_get(2)?))
}

/// What [`LOCK`] has answered: where the rules stand, and where the log begins.
pub(super) fn head(row: Option<&Row>) -> Result<(Head, u64)> {
    let row = row.ok_or_else(|| Error::corrupt("the rules' database does not know where it stands"))?;
    let (seq, count, log_from): (i64, i64, i64) = (row.try_get(0)?, row.try_get(1)?, row.try_get(3)?);
    let digest = digest_of(row.try_get(2)?)?;
    Ok((Head { seq: Seq(seq as u64), count: count as u64, digest }, log_from as u64))
}

impl Decided {
    /// Writes all of it and commits.
    async fn write(&self, session: &Session, max_log: u64) -> Result<()> {
        let left = self.writes.iter().filter_map(|write| write.before.as_ref());
        let came: Vec<_> = self.writes.iter().filter_map(|write| write.after.as_ref()).collect();
        let untagged = tags(left);
        let tagged = tags(came.iter().map(|(rule, _)| rule));
        let deleted: Vec<_> = self.writes.iter().filter(|it| it.after.is_none()).collect();
        let deleted: Vec<_> = deleted.iter().filter_map(|it| Some(it.before.as_ref()?.id.as_str())).collect();
        let rules = Rules::of(&came, self.now_ms);
        let log = Log::of(&self.writes);
        let now_ms = self.now_ms as i64;
        let oldest = self.head.seq.0.saturating_sub(max_log) + 1;
        let log_from = oldest.clamp(self.log_from, self.log_from + COMPACTED);
        let (seq, count) = (self.head.seq.0 as i64, self.head.count as i64);
        let digest = self.head.digest.to_bytes();
        let (from, until) = (self.log_from as i64, log_from as i64);
        let told = self.head.seq.to_string();

        type Step<'a> = Pin<Box<dyn Future<Output = Result<()>> + Send + 'a>>;
        let mut steps: Vec<Step<'_>> = Vec::new();
        if !untagged.0.is_empty() {
            steps.push(Box::pin(async { session.execute(UNTAG, &[&untagged.0, &untagged.1]).await }));
        }
        if !deleted.is_empty() {
            for statement in [DELETE, budget::FORGET_BLOCKS, budget::FORGET_DAYS] {
                let deleted = &deleted;
                steps.push(Box::pin(async move { session.execute(statement, &[deleted]).await }));
            }
        }
        if !came.is_empty() {
            steps.push(Box::pin(rules.put(session)));
        }
        if !tagged.0.is_empty() {
            steps.push(Box::pin(async { session.execute(TAG, &[&tagged.0, &tagged.1]).await }));
        }
        steps.push(Box::pin(log.write(session, now_ms)));
        if until > from {
            steps.push(Box::pin(async { session.execute(COMPACT, &[&from, &until]).await }));
        }
        steps.push(Box::pin(async { session.execute(STATE, &[&seq, &count, &&digest[..], &until]).await }));
        steps.push(Box::pin(async { session.execute(NOTIFY, &[&CHANNEL, &told]).await }));
        // If anything before it has failed, it commits nothing, and the failure is what is told.
        steps.push(Box::pin(session.run("COMMIT")));
        try_join_all(steps).await.map(drop)
    }
}

/// Tags of rules, and of which each is.
fn tags<'a>(rules: impl Iterator<Item = &'a Rule>) -> (Vec<&'a str>, Vec<&'a str>) {
    rules.flat_map(|rule| rule.terms.tags.iter().map(|tag| (tag.as_str(), rule.id.as_str()))).unzip()
}

/// Rules that come, column by column.
#[derive(Default)]
struct Rules<'a> {
    ids: Vec<&'a str>,
    hosts: Vec<&'a str>,
    paths: Vec<&'a str>,
    destinations: Vec<&'a str>,
    states: Vec<&'static str>,
    next_at: Vec<Option<i64>>,
    bodies: Vec<&'a str>,
}

impl<'a> Rules<'a> {
    fn of(came: &[&'a (Rule, String)], now_ms: u64) -> Self {
        let mut rules = Self::default();
        for (rule, body) in came {
            rules.ids.push(&rule.id);
            rules.hosts.push(&rule.terms.host);
            rules.paths.push(&rule.terms.path);
            rules.destinations.push(indexed(&rule.terms.destination));
            rules.states.push(rule.state(now_ms).as_str());
            rules.next_at.push(rule.next_at(now_ms).map(|at| at as i64));
            rules.bodies.push(body);
        }
        rules
    }

    async fn put(&self, session: &Session) -> Result<()> {
        let Self { ids, hosts, paths, destinations, states, next_at, bodies } = self;
        session.execute(PUT, &[ids, hosts, paths, destinations, states, next_at, bodies]).await
    }
}

/// Rows of the log, column by column.
#[derive(Default)]
struct Log<'a> {
    seqs: Vec<i64>,
    ids: Vec<Option<&'a str>>,
    before: (Vec<Option<&'a str>>, Vec<Option<&'a str>>),
    after: (Vec<Option<&'a str>>, Vec<Option<&'a str>>),
    bodies: Vec<Option<&'a str>>,
    left: Vec<Vec<u8>>,
    came: Vec<Vec<u8>>,
    digests: Vec<Vec<u8>>,
    counts: Vec<i64>,
}

impl<'a> Log<'a> {
    fn of(writes: &'a [Write]) -> Self {
        let mut log = Self::default();
        for Write { row, .. } in writes {
            let (before, after) = (row.before.as_ref(), row.after.as_ref());
            log.seqs.push(row.seq.0 as i64);
            log.ids.push(row.id.as_deref());
            log.before.0.push(before.map(|it| it.host.as_str()));
            log.before.1.push(before.map(|it| it.path.as_str()));
            log.after.0.push(after.map(|it| it.place.host.as_str()));
            log.after.1.push(after.map(|it| it.place.path.as_str()));
            log.bodies.push(after.map(|it| it.body.as_str()));
            log.left.push(row.left.to_bytes().to_vec());
            log.came.push(row.came.to_bytes().to_vec());
            log.digests.push(row.digest.to_bytes().to_vec());
            log.counts.push(row.count as i64);
        }
        log
    }

    async fn write(&self, session: &Session, now_ms: i64) -> Result<()> {
        let Self { seqs, ids, before, after, bodies, left, came, digests, counts } = self;
        session
            .execute(
                LOG,
                &[
                    seqs, ids, &before.0, &before.1, &after.0, &after.1, bodies, left, came, digests, counts,
                    &now_ms,
                ],
            )
            .await
    }
}

/// Brings the states of rules up to date that time has changed, at most so many.
pub(super) async fn settle(session: &Session, now: Now, limit: i64) -> Result<()> {
    session.begin().await?;
    let settled = settle_in(session, now, limit).await;
    session.end(settled).await
}

async fn settle_in(session: &Session, now: Now, limit: i64) -> Result<()> {
    // Two who find the same to be due do not both write it.
    session.rows(LOCK, &[]).await?;
    let now_ms = super::read::now(session, now).await?;
    let due = "(SELECT id FROM tidegate.rules WHERE next_at <= $1 LIMIT $2)
        UNION (SELECT rule FROM tidegate.blocks WHERE standing = 0 AND deadline_ms <= $1 LIMIT $2)";
    let due = session.rows(due, &[&(now_ms as i64), &limit]).await?;
    let ids = due.iter().map(|row| Ok(row.try_get(0)?)).collect::<Result<Vec<String>>>()?;
    let mut rules = budget::lock(session, &ids).await?;
    budget::lose(session, &ids, &mut rules, now_ms).await?;
    let rules: Vec<_> = rules.into_values().collect();
    budget::count(session, &rules, None, now_ms).await
}
