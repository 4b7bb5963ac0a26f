//! What becomes of a file's rules: decided here, by what a database has told of those that it has, and the same whichever
//! database that is.
//!
//! A file is [read](Plan::read) first, and each of its rules counts as new. What is left out after that, or is found to be
//! there already, is taken away again; so what is in the database and not in the file need not be looked at, nor what is new.

use tidegate::random::Random;

use super::body::{renamed, terms_of};
use super::candidate::Candidate;
use super::{ImportMode, ImportOptions, ImportOutcome, ImportProgress, ImportReport, ImportStep, OnProgress};
use crate::error::{Error, ErrorKind, Result};
use crate::formats::{Item, Problem, Reader};
use crate::rule::Rule;
use crate::truth::digest::Digest;
use crate::truth::group::{Head, Write, body, rule};
use crate::truth::types::LogRow;

/// Lines between two reports of progress.
const REPORTED: u64 = 4096;

/// An import on its way.
#[derive(Debug, Clone)]
pub(in crate::truth) struct Plan {
    options: ImportOptions,
    report: ImportReport,
    has_made_ids: bool,
    /// The time: first when the file is begun, then when it is merged.
    pub(in crate::truth) now_ms: u64,
    /// The hashes of what leaves, and of what comes.
    left: Digest,
    came: Digest,
}

/// A rule that says something else.
#[derive(Debug)]
pub(in crate::truth) struct Changed {
    pub(in crate::truth) before: Rule,
    pub(in crate::truth) after: Rule,
    /// What it is from now on.
    pub(in crate::truth) body: String,
}

impl Plan {
    pub(in crate::truth) fn new(options: ImportOptions, now_ms: u64) -> Self {
        let (left, came) = (Digest::default(), Digest::default());
        Self { options, report: ImportReport::new(), has_made_ids: false, now_ms, left, came }
    }

    pub(in crate::truth) fn mode(&self) -> ImportMode {
        self.options.mode
    }

    /// Whether there are rules in the file without an id.
    pub(in crate::truth) fn has_made_ids(&self) -> bool {
        self.has_made_ids
    }

    pub(in crate::truth) fn report(&self) -> &ImportReport {
        &self.report
    }

    /// How far it is, having read all of it.
    pub(in crate::truth) fn at(&self, step: ImportStep) -> ImportProgress {
        ImportProgress { step, lines: self.report.lines, bytes: self.report.bytes }
    }

    /// Reads all lines, checks each by itself, and hands on those that may be.
    pub(in crate::truth) fn read(
        &mut self,
        reader: &mut Reader,
        random: &Random,
        progress: &mut OnProgress,
        mut keep: impl FnMut(Candidate) -> Result<()>,
    ) -> Result<()> {
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
            let (n, warnings) = (self.report.rules + 1, &mut self.report.warnings);
            let candidate = match item {
                Item::Problem(problem) => Err(problem),
                Item::Rule(entry) => Candidate::of(n, entry, self.now_ms, random, warnings)?,
            };
            match candidate {
                Ok(candidate) => {
                    self.report.rules += 1;
                    self.report.created += 1;
                    self.has_made_ids |= candidate.is_made;
                    self.came = self.came.with(candidate.hash);
                    keep(candidate)?;
                }
                Err(problem) => self.report.problems.push(problem),
            }
        }
        (self.report.lines, self.report.bytes) = (reader.lines(), reader.bytes());
        if self.options.mode == ImportMode::Replace && self.report.rules == 0 {
            let message = "there is no rule in the file: all rules would be deleted";
            self.report.problems.push(Problem::new(reader.lines().max(1), message));
        }
        Ok(())
    }

    /// A line is about the rule that an earlier one is about.
    pub(in crate::truth) fn has_id_of(&mut self, first: u64, line: u64, hash: Digest, id: &str) {
        self.is_like(first, line, hash, format!("the id {id:?}"));
    }

    /// A line is about the place that an earlier one is about.
    pub(in crate::truth) fn has_place_of(
        &mut self,
        first: u64,
        line: u64,
        hash: Digest,
        host: &str,
        path: &str,
    ) {
        self.is_like(first, line, hash, format!("the host {host} and the path {path:?}"));
    }

    fn is_like(&mut self, first: u64, line: u64, hash: Digest, what: String) {
        let problem = Problem::new(line, format!("{what} is that of line {first} too"));
        self.leave_out(hash, Problem { other_line: Some(first), ..problem });
    }

    /// A line's place belongs to a rule that stays there.
    pub(in crate::truth) fn is_taken(&mut self, line: u64, hash: Digest, owner: &str) {
        let message = format!("the rule {owner:?} is for that host and path already");
        self.leave_out(hash, Problem::new(line, message));
    }

    fn leave_out(&mut self, hash: Digest, problem: Problem) {
        self.came = self.came.without(hash);
        self.report.rules -= 1;
        self.report.created -= 1;
        self.report.problems.push(problem);
    }

    /// Gives a rule of the file another id: its JSON with it, and the hash of that.
    pub(in crate::truth) fn rename(
        &mut self,
        body: &str,
        version: u64,
        hash: Digest,
        id: &str,
    ) -> Result<(String, Digest)> {
        let body = renamed(body, id)
            .ok_or_else(|| Error::new(ErrorKind::Internal, "a staged rule does not begin with its id"))?;
        let renamed = Digest::of(id, version, &body);
        self.came = self.came.without(hash).with(renamed);
        Ok((body, renamed))
    }

    /// A rule of the file, by its JSON and the hash of that, is in the database, with so many clicks. None if it says
    /// the same there: then it is left alone.
    pub(in crate::truth) fn compare(
        &mut self,
        wanted: &str,
        hash: Digest,
        there: &str,
        clicks: u64,
    ) -> Result<Option<Changed>> {
        self.came = self.came.without(hash);
        self.report.created -= 1;
        let is_same = terms_of(wanted).is_some_and(|terms| terms_of(there) == Some(terms));
        if is_same {
            self.report.unchanged += 1;
            return Ok(None);
        }
        let (wanted, before) = (rule(wanted, 0)?, rule(there, clicks)?);
        // It may be written in another way.
        if wanted.terms == before.terms {
            self.report.unchanged += 1;
            return Ok(None);
        }
        let after = Rule {
            id: before.id.clone(),
            terms: wanted.terms,
            clicks,
            version: before.version + 1,
            created_at: before.created_at,
            updated_at: self.now_ms,
        };
        let body = body(&after)?;
        self.left = self.left.with(Digest::of(&before.id, before.version, there));
        self.came = self.came.with(Digest::of(&after.id, after.version, &body));
        self.report.changed += 1;
        Ok(Some(Changed { before, after, body }))
    }

    /// The file does not have a rule that is to be deleted then.
    pub(in crate::truth) fn lacks(&mut self, there: &str) -> Result<Rule> {
        let rule = rule(there, 0)?;
        self.left = self.left.with(Digest::of(&rule.id, rule.version, there));
        self.report.deleted += 1;
        Ok(rule)
    }

    /// What has become of it if nothing is written; none if something is to be. Before it was compared, none says that it
    /// may be.
    pub(in crate::truth) fn ends_as(&self) -> Option<ImportOutcome> {
        let ImportReport { created, changed, deleted, .. } = self.report;
        match () {
            () if self.options.dry_run => Some(ImportOutcome::DryRun),
            () if self.report.problems.count > 0 && !self.options.partial => Some(ImportOutcome::Refused),
            () if created + changed + deleted == 0 => Some(ImportOutcome::Unchanged),
            () => None,
        }
    }

    /// What goes into the log: all of it is one change.
    pub(in crate::truth) fn write(&self, head: &mut Head) -> Write {
        head.seq = head.seq.next();
        head.digest = head.digest.without(self.left).with(self.came);
        head.count = head.count + self.report.created - self.report.deleted;
        let row = LogRow {
            seq: head.seq,
            id: None,
            before: None,
            after: None,
            left: self.left,
            came: self.came,
            digest: head.digest,
            count: head.count,
            at_ms: self.now_ms,
        };
        Write { before: None, after: None, row }
    }

    /// What is told of it; it was written as that change.
    pub(in crate::truth) fn finish(mut self, written: Option<&Head>) -> ImportReport {
        self.report.outcome = self.ends_as().unwrap_or(ImportOutcome::Written);
        self.report.seq = written.map(|head| head.seq);
        self.report.problems.sort();
        self.report.warnings.sort();
        self.report
    }
}
