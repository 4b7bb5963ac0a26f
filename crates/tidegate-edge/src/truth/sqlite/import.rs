//! An import into a file of SQLite: staged in a database of its own beside it, which has no name and ends with the
//! process however that ends, and merged in one transaction.
//!
//! Reading and staging keep nobody waiting. Merging takes the place of the one who writes: changes wait for it, readers do
//! not. A large import takes the indices away and makes them anew, since sorting is much faster than inserting at random.

use std::sync::Arc;

use parking_lot::Mutex;
use rusqlite::{Connection, OptionalExtension as _, Transaction, TransactionBehavior, params};
use tidegate::clock::Clock;
use tidegate::random::Random;
use tokio::sync::watch;

use super::Readers;
use super::failure::failed;
use super::read::rule;
use super::write::{advance, head, log};
use crate::error::{Error, ErrorKind, Result};
use crate::formats::{Item, Problem, Reader};
use crate::rule::Rule;
use crate::truth::digest::Digest;
use crate::truth::group::{Head, Write, body, slug};
use crate::truth::import::{
    Candidate, ImportMode, ImportOptions, ImportOutcome, ImportProgress, ImportReport, ImportStep, renamed,
    terms_of,
};
use crate::truth::types::{LogRow, Place, Seq};
use crate::truth::writer::tell;

/// Lines between two reports of progress.
const REPORTED: u64 = 4096;

/// Rows that are looked at together.
const TOGETHER: usize = 1000;

/// Changes from which on indices are made anew, if there are not many more rules than that.
const LARGE: u64 = 10_000;

/// What becomes of a row.
const NEW: u8 = 0;
const SAME: u8 = 1;
const CHANGED: u8 = 2;
const LEFT_OUT: u8 = 3;

/// What imports go by.
#[derive(Debug)]
pub(super) struct Importer {
    pub(super) readers: Arc<Readers>,
    pub(super) writer: Arc<Mutex<Connection>>,
    pub(super) last: watch::Sender<Seq>,
    pub(super) clock: Clock,
    pub(super) random: Random,
    pub(super) max_log: u64,
}

/// An import on its way.
struct Import<'a> {
    importer: &'a Importer,
    options: ImportOptions,
    report: ImportReport,
    now_ms: u64,
}

/// What is told of progress.
pub(super) type OnProgress = Box<dyn FnMut(ImportProgress) + Send>;

impl Importer {
    /// Reads a file and merges it. The connection is one of its own, with an empty database `staging` attached.
    pub(super) fn run(
        &self,
        connection: &mut Connection,
        mut reader: Reader,
        options: ImportOptions,
        mut progress: OnProgress,
    ) -> Result<ImportReport> {
        let now_ms = self.clock.now().as_millis();
        let mut import = Import { importer: self, options, report: ImportReport::new(), now_ms };
        connection.execute_batch(include_str!("staging.sql")).map_err(failed)?;
        import.stage(connection, &mut reader, &mut progress)?;
        let (lines, bytes) = (reader.lines(), reader.bytes());
        (import.report.lines, import.report.bytes) = (lines, bytes);
        let mut step = |step| progress(ImportProgress { step, lines, bytes });
        step(ImportStep::Checking);
        import.index(connection)?;
        let is_refused = import.report.problems.count > 0 && !options.partial;
        if options.dry_run || is_refused {
            // Whatever becomes of it, nobody waits for it.
            let transaction = connection.transaction().map_err(failed)?;
            import.compare(&transaction)?;
            return Ok(import.finish(if options.dry_run {
                ImportOutcome::DryRun
            } else {
                ImportOutcome::Refused
            }));
        }
        let outcome = {
            let _alone = self.writer.lock();
            import.now_ms = self.clock.now().as_millis();
            let behavior = TransactionBehavior::Immediate;
            let transaction = connection.transaction_with_behavior(behavior).map_err(failed)?;
            let (left, came) = import.compare(&transaction)?;
            let report = &mut import.report;
            match () {
                () if report.problems.count > 0 && !options.partial => ImportOutcome::Refused,
                () if report.created + report.changed + report.deleted == 0 => ImportOutcome::Unchanged,
                () => {
                    step(ImportStep::Writing);
                    let seq = import.merge(&transaction, left, came)?;
                    transaction.commit().map_err(failed)?;
                    import.report.seq = Some(seq);
                    tell(&self.last, seq);
                    ImportOutcome::Written
                }
            }
        };
        if outcome == ImportOutcome::Written {
            self.tidy(connection);
        }
        Ok(import.finish(outcome))
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

impl Import<'_> {
    fn finish(mut self, outcome: ImportOutcome) -> ImportReport {
        self.report.problems.sort();
        self.report.warnings.sort();
        self.report.outcome = outcome;
        self.report
    }

    /// Reads all lines, checks each by itself, and keeps those that may be.
    fn stage(
        &mut self,
        connection: &mut Connection,
        reader: &mut Reader,
        progress: &mut OnProgress,
    ) -> Result<()> {
        let transaction = connection.transaction().map_err(failed)?;
        let mut insert = transaction
            .prepare(
                "INSERT INTO staging.staged (n, line, id, is_made, version, host, path, destination, state, next_at,
                                             body, hash, clicks, action)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, 0)",
            )
            .map_err(failed)?;
        let mut insert_tag = transaction
            .prepare("INSERT INTO staging.staged_tags (n, tag) VALUES (?1, ?2)")
            .map_err(failed)?;
        let mut reported = 0;
        while let Some(item) = reader.next() {
            let item = item.map_err(|error| {
                Error::new(ErrorKind::Unreadable, format!("what is imported cannot be read: {error}"))
            })?;
            if reader.lines() >= reported + REPORTED {
                reported = reader.lines();
                let (step, lines, bytes) = (ImportStep::Reading, reader.lines(), reader.bytes());
                progress(ImportProgress { step, lines, bytes });
            }
            let candidate = match item {
                Item::Problem(problem) => Err(problem),
                Item::Rule(entry) => {
                    Candidate::of(entry, self.now_ms, &self.importer.random, &mut self.report.warnings)?
                }
            };
            let Candidate { line, is_made, rule, body, hash } = match candidate {
                Ok(candidate) => candidate,
                Err(problem) => {
                    self.report.problems.push(problem);
                    continue;
                }
            };
            self.report.rules += 1;
            let (n, terms) = (self.report.rules, &rule.terms);
            insert
                .execute(params![
                    n,
                    line,
                    rule.id,
                    is_made,
                    rule.version,
                    terms.host,
                    terms.path,
                    terms.destination,
                    rule.state(self.now_ms).as_str(),
                    rule.next_at(self.now_ms),
                    body,
                    hash.to_bytes(),
                    rule.clicks,
                ])
                .map_err(failed)?;
            for tag in &terms.tags {
                insert_tag.execute(params![n, tag]).map_err(failed)?;
            }
        }
        drop((insert, insert_tag));
        transaction.commit().map_err(failed)?;
        if self.options.mode == ImportMode::Replace && self.report.rules == 0 {
            let message = "there is no rule in the file: all rules would be deleted";
            self.report.problems.push(Problem::new(reader.lines().max(1), message));
        }
        Ok(())
    }

    /// Finds lines that are about one rule, or about one place.
    fn index(&mut self, connection: &mut Connection) -> Result<()> {
        let transaction = connection.transaction().map_err(failed)?;
        transaction
            .execute_batch(
                "CREATE INDEX staging.staged_by_id ON staged (id);
                 CREATE INDEX staging.staged_by_place ON staged (host, path);",
            )
            .map_err(failed)?;
        self.duplicates(
            &transaction,
            "SELECT id, '' FROM staging.staged WHERE id > ?1 AND ?2 = ?2
             GROUP BY id HAVING count(*) > 1 ORDER BY id LIMIT ?3",
            "SELECT n, line, is_made FROM staging.staged WHERE id = ?1 AND ?2 = ?2 ORDER BY n",
            |id, _| format!("the id {id:?}"),
        )?;
        self.duplicates(
            &transaction,
            "SELECT host, path FROM staging.staged WHERE (host, path) > (?1, ?2)
             GROUP BY host, path HAVING count(*) > 1 ORDER BY host, path LIMIT ?3",
            "SELECT n, line, 0 FROM staging.staged WHERE host = ?1 AND path = ?2 AND action = 0 ORDER BY n",
            |host, path| format!("the host {host} and the path {path:?}"),
        )?;
        transaction.commit().map_err(failed)
    }

    /// Leaves out all but the first of those that have something in common.
    fn duplicates(
        &mut self,
        transaction: &Transaction<'_>,
        several: &str,
        all: &str,
        what: impl Fn(&str, &str) -> String,
    ) -> Result<()> {
        let mut several = transaction.prepare(several).map_err(failed)?;
        let mut all = transaction.prepare(all).map_err(failed)?;
        let mut last = (String::new(), String::new());
        loop {
            let keys =
                several.query_map(params![last.0, last.1, TOGETHER], |row| Ok((row.get(0)?, row.get(1)?)));
            let keys: Vec<(String, String)> = keys.and_then(Iterator::collect).map_err(failed)?;
            let Some(key) = keys.last() else { return Ok(()) };
            last.clone_from(key);
            for (one, two) in keys {
                let lines = all.query_map([&one, &two], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
                let lines: Vec<(u64, u64, bool)> = lines.and_then(Iterator::collect).map_err(failed)?;
                let mut first = None;
                for (n, line, is_made) in lines {
                    match first {
                        // Chance has made an id twice, or one that somebody has thought of.
                        _ if is_made => self.make_anew(transaction, n)?,
                        None => first = Some(line),
                        Some(first) => {
                            let message = format!("{} is that of line {first} too", what(&one, &two));
                            self.leave_out(transaction, n, line, Some(first), message)?;
                        }
                    }
                }
            }
        }
    }

    fn leave_out(
        &mut self,
        transaction: &Transaction<'_>,
        n: u64,
        line: u64,
        other_line: Option<u64>,
        message: String,
    ) -> Result<()> {
        set_action(transaction, n, LEFT_OUT)?;
        self.report.problems.push(Problem { other_line, ..Problem::new(line, message) });
        self.report.rules -= 1;
        Ok(())
    }

    /// Gives a row an id that nobody has.
    fn make_anew(&self, transaction: &Transaction<'_>, n: u64) -> Result<()> {
        let mut find = transaction
            .prepare_cached(
                "SELECT 1 FROM staging.staged WHERE id = ?1 UNION ALL SELECT 1 FROM main.rules WHERE id = ?1",
            )
            .map_err(failed)?;
        loop {
            let id = slug(&self.importer.random);
            if !find.exists([&id]).map_err(failed)? {
                return rename(transaction, n, &id, true);
            }
        }
    }

    /// Compares what was staged with what there is. The hashes of what leaves and of what comes.
    fn compare(&mut self, transaction: &Transaction<'_>) -> Result<(Digest, Digest)> {
        let head = head(transaction)?;
        let mut left = Digest::default();
        if head.count > 0 {
            self.find_by_place(transaction)?;
            self.compare_rules(transaction)?;
            match self.options.mode {
                ImportMode::Merge => self.find_taken(transaction)?,
                ImportMode::Replace => left = self.find_leaving(transaction)?,
            }
        }
        let mut came = Digest::default();
        let mut select = transaction
            .prepare("SELECT action, hash, left_hash FROM staging.staged WHERE action != ?1")
            .map_err(failed)?;
        let mut rows = select.query([LEFT_OUT]).map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            let hash = |index: usize| {
                let bytes = row.get_ref(index).and_then(|it| Ok(it.as_blob()?)).map_err(failed)?;
                Digest::from_bytes(bytes)
                    .ok_or_else(|| Error::new(ErrorKind::Internal, "a staged hash is none"))
            };
            match row.get::<_, u8>(0).map_err(failed)? {
                NEW => {
                    self.report.created += 1;
                    came = came.with(hash(1)?);
                }
                CHANGED => {
                    self.report.changed += 1;
                    came = came.with(hash(1)?);
                    left = left.with(hash(2)?);
                }
                _ => self.report.unchanged += 1,
            }
        }
        Ok((left, came))
    }

    /// Rows without an id are the rule of their host and path, unless the file names that itself.
    fn find_by_place(&self, transaction: &Transaction<'_>) -> Result<()> {
        let mut select = transaction
            .prepare(
                "SELECT staged.n, rules.id FROM staging.staged AS staged
                 CROSS JOIN main.rules AS rules ON rules.host = staged.host AND rules.path = staged.path
                 WHERE staged.n > ?1 AND staged.is_made = 1 AND staged.action = 0 AND NOT EXISTS
                     (SELECT 1 FROM staging.staged AS other WHERE other.id = rules.id AND other.action = 0)
                 ORDER BY staged.n LIMIT ?2",
            )
            .map_err(failed)?;
        let mut last = 0;
        loop {
            let found = select.query_map(params![last, TOGETHER], |row| Ok((row.get(0)?, row.get(1)?)));
            let found: Vec<(u64, String)> = found.and_then(Iterator::collect).map_err(failed)?;
            let Some((n, _)) = found.last() else { break };
            last = *n;
            for (n, id) in found {
                rename(transaction, n, &id, false)?;
            }
        }
        let mut taken = transaction
            .prepare(
                "SELECT staged.n FROM staging.staged AS staged CROSS JOIN main.rules AS rules ON rules.id = staged.id
                 WHERE staged.is_made = 1 AND staged.action = 0",
            )
            .map_err(failed)?;
        let taken = taken.query_map([], |row| row.get(0));
        let taken: Vec<u64> = taken.and_then(Iterator::collect).map_err(failed)?;
        taken.into_iter().try_for_each(|n| self.make_anew(transaction, n))
    }

    /// What is in the database already is left alone, or is the next version.
    fn compare_rules(&self, transaction: &Transaction<'_>) -> Result<()> {
        struct Pair {
            n: u64,
            id: String,
            wanted: String,
            there: String,
            clicks: u64,
        }
        let mut select = transaction
            .prepare(
                "SELECT staged.n, staged.id, staged.body, rules.body, rules.clicks FROM staging.staged AS staged
                 CROSS JOIN main.rules AS rules ON rules.id = staged.id
                 WHERE staged.id > ?1 AND staged.action = 0 ORDER BY staged.id LIMIT ?2",
            )
            .map_err(failed)?;
        // In the order that rules are in.
        let mut last = String::new();
        loop {
            let pairs = select.query_map(params![last, TOGETHER], |row| {
                let (wanted, there) = (row.get(2)?, row.get(3)?);
                Ok(Pair { n: row.get(0)?, id: row.get(1)?, wanted, there, clicks: row.get(4)? })
            });
            let pairs: Vec<Pair> = pairs.and_then(Iterator::collect).map_err(failed)?;
            let Some(pair) = pairs.last() else { return Ok(()) };
            last.clone_from(&pair.id);
            for Pair { n, id, wanted, there, clicks } in pairs {
                let is_same =
                    terms_of(&wanted, &id).is_some_and(|terms| terms_of(&there, &id) == Some(terms));
                if is_same {
                    set_action(transaction, n, SAME)?;
                    continue;
                }
                let (wanted, before) = (rule(&wanted, clicks)?, rule(&there, clicks)?);
                if wanted.terms == before.terms {
                    set_action(transaction, n, SAME)?;
                } else {
                    self.change(transaction, n, &there, &before, wanted)?;
                }
            }
        }
    }

    fn change(
        &self,
        transaction: &Transaction<'_>,
        n: u64,
        there: &str,
        before: &Rule,
        wanted: Rule,
    ) -> Result<()> {
        let is_moved = Place::of(&before.terms) != Place::of(&wanted.terms);
        let after = Rule {
            version: before.version + 1,
            created_at: before.created_at,
            updated_at: self.now_ms,
            ..wanted
        };
        let body = body(&after)?;
        transaction
            .prepare_cached(
                "UPDATE staging.staged SET action = ?2, body = ?3, hash = ?4, left_hash = ?5, is_moved = ?6,
                     state = ?7, next_at = ?8, version = ?9
                 WHERE n = ?1",
            )
            .and_then(|mut it| {
                it.execute(params![
                    n,
                    CHANGED,
                    body,
                    Digest::of(&after.id, after.version, &body).to_bytes(),
                    Digest::of(&before.id, before.version, there).to_bytes(),
                    is_moved,
                    after.state(self.now_ms).as_str(),
                    after.next_at(self.now_ms),
                    after.version,
                ])
            })
            .map_err(failed)?;
        leave_tags(transaction, before)
    }

    /// A place belongs to a rule that the file does not have, or that stays where it is because its own line is left
    /// out: which may be why another stays too.
    fn find_taken(&mut self, transaction: &Transaction<'_>) -> Result<()> {
        let mut select = transaction
            .prepare(
                "SELECT staged.n, staged.line, staged.id, rules.id FROM staging.staged AS staged
                 CROSS JOIN main.rules AS rules ON rules.host = staged.host AND rules.path = staged.path
                 WHERE staged.n > ?1 AND staged.action IN (0, 2) AND rules.id != staged.id AND NOT EXISTS
                     (SELECT 1 FROM staging.staged AS other WHERE other.id = rules.id AND other.action != 3)
                 ORDER BY staged.n LIMIT ?2",
            )
            .map_err(failed)?;
        let mut waits = transaction
            .prepare(
                "SELECT staged.n, staged.line, staged.id FROM main.rules AS rules
                 CROSS JOIN staging.staged AS staged ON staged.host = rules.host AND staged.path = rules.path
                 WHERE rules.id = ?1 AND staged.action IN (0, 2) AND staged.id != rules.id",
            )
            .map_err(failed)?;
        let mut last = 0;
        loop {
            let taken = select.query_map(params![last, TOGETHER], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
            });
            let taken: Vec<(u64, u64, String, String)> = taken.and_then(Iterator::collect).map_err(failed)?;
            let Some((n, ..)) = taken.last() else { return Ok(()) };
            last = *n;
            for (n, line, id, owner) in taken {
                let mut stays = Some((n, line, id, owner));
                while let Some((n, line, id, owner)) = stays {
                    if action(transaction, n)? == LEFT_OUT {
                        break;
                    }
                    let message = format!("the rule {owner:?} is for that host and path already");
                    self.leave_out(transaction, n, line, None, message)?;
                    let found = waits.query_row([&id], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
                    let found: Option<(u64, u64, String)> = found.optional().map_err(failed)?;
                    stays = found.map(|(n, line, next)| (n, line, next, id));
                }
            }
        }
    }

    /// Rules that the file does not have.
    fn find_leaving(&mut self, transaction: &Transaction<'_>) -> Result<Digest> {
        let mut select = transaction
            .prepare(
                "SELECT rules.id, rules.body FROM main.rules AS rules WHERE rules.id > ?1 AND NOT EXISTS
                     (SELECT 1 FROM staging.staged AS staged WHERE staged.id = rules.id AND staged.action != 3)
                 ORDER BY rules.id LIMIT ?2",
            )
            .map_err(failed)?;
        let mut insert =
            transaction.prepare("INSERT INTO staging.leaving (id) VALUES (?1)").map_err(failed)?;
        let (mut left, mut last) = (Digest::default(), String::new());
        loop {
            let leaving = select.query_map(params![last, TOGETHER], |row| Ok((row.get(0)?, row.get(1)?)));
            let leaving: Vec<(String, String)> = leaving.and_then(Iterator::collect).map_err(failed)?;
            let Some((id, _)) = leaving.last() else { return Ok(left) };
            last.clone_from(id);
            for (id, body) in leaving {
                let rule = rule(&body, 0)?;
                left = left.with(Digest::of(&id, rule.version, &body));
                insert.execute([&id]).map_err(failed)?;
                leave_tags(transaction, &rule)?;
                self.report.deleted += 1;
            }
        }
    }

    /// Writes all that is new or says something else, as one change.
    fn merge(&self, transaction: &Transaction<'_>, left: Digest, came: Digest) -> Result<Seq> {
        let mut head: Head = head(transaction)?;
        let changes = self.report.created + self.report.changed + self.report.deleted;
        let indices = match changes >= LARGE && changes * 3 > head.count {
            true => take_indices(transaction)?,
            false => Vec::new(),
        };
        transaction
            .execute_batch(
                "DELETE FROM main.tags WHERE (tag, id) IN (SELECT tag, id FROM staging.left_tags);
                 DELETE FROM main.rules WHERE id IN (SELECT id FROM staging.leaving);
                 DELETE FROM main.blocks WHERE rule IN (SELECT id FROM staging.leaving);
                 DELETE FROM main.days WHERE rule IN (SELECT id FROM staging.leaving);",
            )
            .map_err(failed)?;
        if self.report.changed > 0 && indices.is_empty() {
            // No place is like this: what two rules exchange is nobody's for a moment. Without indices nobody looks.
            let away = "UPDATE main.rules SET path = char(0) || id
                WHERE id IN (SELECT id FROM staging.staged WHERE action = ?1 AND is_moved = 1)";
            transaction.execute(away, [CHANGED]).map_err(failed)?;
        }
        // What was spent elsewhere is spent; what was spent here stays.
        transaction
            .execute(
                "INSERT INTO main.rules (id, host, path, destination, state, next_at, body, clicks, granted)
                 SELECT id, host, path, destination, state, next_at, body, clicks, clicks FROM staging.staged
                 WHERE action IN (?1, ?2) ORDER BY id
                 ON CONFLICT (id) DO UPDATE SET host = excluded.host, path = excluded.path,
                     destination = excluded.destination, state = excluded.state, next_at = excluded.next_at,
                     body = excluded.body",
                [NEW, CHANGED],
            )
            .map_err(failed)?;
        transaction
            .execute(
                "INSERT INTO main.tags (tag, id)
                 SELECT tags.tag, staged.id FROM staging.staged_tags AS tags
                 CROSS JOIN staging.staged AS staged ON staged.n = tags.n
                 WHERE staged.action IN (?1, ?2) ORDER BY tags.tag, staged.id",
                [NEW, CHANGED],
            )
            .map_err(failed)?;
        for index in indices {
            transaction.execute_batch(&index).map_err(failed)?;
        }
        head.seq = head.seq.next();
        head.digest = head.digest.without(left).with(came);
        head.count = head.count + self.report.created - self.report.deleted;
        let row = LogRow {
            seq: head.seq,
            id: None,
            before: None,
            after: None,
            left,
            came,
            digest: head.digest,
            count: head.count,
            at_ms: self.now_ms,
        };
        log(transaction, &[Write { before: None, after: None, row }])?;
        advance(transaction, &head, self.importer.max_log)?;
        Ok(head.seq)
    }
}

/// Takes away what only makes finding fast; how it is made anew.
fn take_indices(transaction: &Transaction<'_>) -> Result<Vec<String>> {
    let mut select = transaction
        .prepare(
            "SELECT name, sql FROM main.sqlite_schema
             WHERE type = 'index' AND tbl_name = 'rules' AND sql IS NOT NULL ORDER BY name",
        )
        .map_err(failed)?;
    let indices = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
    let indices: Vec<(String, String)> = indices.and_then(Iterator::collect).map_err(failed)?;
    drop(select);
    for (name, _) in &indices {
        transaction.execute_batch(&format!("DROP INDEX main.\"{name}\"")).map_err(failed)?;
    }
    Ok(indices.into_iter().map(|(_, sql)| sql).collect())
}

fn set_action(transaction: &Transaction<'_>, n: u64, action: u8) -> Result<()> {
    transaction
        .prepare_cached("UPDATE staging.staged SET action = ?2 WHERE n = ?1")
        .and_then(|mut it| it.execute(params![n, action]))
        .map_err(failed)
        .map(drop)
}

fn action(transaction: &Transaction<'_>, n: u64) -> Result<u8> {
    transaction
        .prepare_cached("SELECT action FROM staging.staged WHERE n = ?1")
        .and_then(|mut it| it.query_row([n], |row| row.get(0)))
        .map_err(failed)
}

/// Gives a row another id.
fn rename(transaction: &Transaction<'_>, n: u64, id: &str, is_made: bool) -> Result<()> {
    let (old, body, version): (String, String, u64) = transaction
        .prepare_cached("SELECT id, body, version FROM staging.staged WHERE n = ?1")
        .and_then(|mut it| it.query_row([n], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))))
        .map_err(failed)?;
    let body = renamed(&body, &old, id)
        .ok_or_else(|| Error::new(ErrorKind::Internal, "a staged rule does not begin with its id"))?;
    let hash = Digest::of(id, version, &body).to_bytes();
    transaction
        .prepare_cached("UPDATE staging.staged SET id = ?2, body = ?3, hash = ?4, is_made = ?5 WHERE n = ?1")
        .and_then(|mut it| it.execute(params![n, id, body, hash, is_made]))
        .map_err(failed)
        .map(drop)
}

/// Notes which tags of a rule are to go.
fn leave_tags(transaction: &Transaction<'_>, rule: &Rule) -> Result<()> {
    if rule.terms.tags.is_empty() {
        return Ok(());
    }
    let mut insert = transaction
        .prepare_cached("INSERT INTO staging.left_tags (tag, id) VALUES (?1, ?2)")
        .map_err(failed)?;
    rule.terms.tags.iter().try_for_each(|tag| insert.execute([tag, &rule.id]).map(drop).map_err(failed))
}
