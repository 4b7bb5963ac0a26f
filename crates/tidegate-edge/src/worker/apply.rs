//! Changes of what is in memory: those of the log, in their order, and rules that were fetched.

use super::entry::Entry;
use super::hosts::Folder;
use super::keys::Point;
use super::state::State;
use crate::rule::Rule;
use crate::stream::{Event, Mark};
use crate::truth::{Digest, Place, Position, Resolution, Seq};

/// Why what is here cannot be what the truth has: all rules are to be read anew.
pub(crate) type Difference = String;

/// What became of a rule that was fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    /// It is here now, or is known not to be there.
    Yes,
    /// It is of a place that was not reached here yet.
    NotYet,
    /// It is of another time, or something about it has changed since.
    No,
}

impl State {
    /// Applies one change of the log, which is the next one. If it cannot be what follows on what is here, nothing that is
    /// here is gone by any more.
    pub(crate) fn apply(&mut self, mark: Mark, events: &[Event]) -> Result<(), Difference> {
        let applied = self.check(&mark, events).and_then(|()| self.apply_all(&mark, events));
        self.applied = applied.is_ok().then_some(mark);
        self.fit();
        applied
    }

    /// Whether events are one change: one of them, or a rule that leaves its place for another. What comes alone takes
    /// nothing away: if the digest says that something left, that was not told.
    fn check(&self, mark: &Mark, events: &[Event]) -> Result<(), Difference> {
        let applied = self.applied.as_ref().ok_or("nothing is here that it could follow on")?;
        let is_one = match events {
            [Event::Create { body }] => {
                let rule = read(body)?;
                applied.digest.with(Digest::of(&rule.id, rule.version, body)) == mark.digest
            }
            [Event::Delete { id, .. }, Event::Create { body }] => read(body)?.id == *id,
            events => events.len() == 1,
        };
        if is_one { Ok(()) } else { Err(format!("the change {} did not come as it was sent", mark.seq)) }
    }

    fn apply_all(&mut self, mark: &Mark, events: &[Event]) -> Result<(), Difference> {
        let seq = mark.seq;
        for event in events {
            match event {
                Event::Create { body } => self.create(seq, &read(body)?, body)?,
                Event::Update { body } => self.update(seq, &read(body)?, body)?,
                Event::Delete { place, .. } => self.delete(seq, place)?,
                Event::Sync(_) | Event::Resync { .. } => {}
            }
        }
        self.keys.reached(Point { seq, digest: mark.digest });
        self.recent.reached(seq, mark.digest);
        Ok(())
    }

    fn create(&mut self, seq: Seq, rule: &Rule, body: &str) -> Result<(), Difference> {
        self.count += 1;
        let (host, path) = (&*rule.terms.host, &*rule.terms.path);
        if rule.terms.folder().is_some() {
            return self.put_folder(rule, body, true);
        }
        let host_hash = self.hasher.host(host);
        let id = self.hosts.add_exact(host, host_hash);
        let hash = self.hasher.path(path).of_host(host_hash);
        self.keys.add(hash, seq);
        self.negatives.remove(hash);
        self.recent.push(seq, hash);
        if self.is_owned(path) {
            self.keep(hash, entry(rule, id, body), true);
        }
        Ok(())
    }

    fn update(&mut self, seq: Seq, rule: &Rule, body: &str) -> Result<(), Difference> {
        let (host, path) = (&*rule.terms.host, &*rule.terms.path);
        if rule.terms.folder().is_some() {
            return self.put_folder(rule, body, false);
        }
        let (id, hash) = self.hash_of(host, path).ok_or_else(|| unknown(host, path))?;
        if !self.keys.may_contain(hash) {
            return Err(unknown(host, path));
        }
        self.recent.push(seq, hash);
        if self.is_owned(path) {
            self.keep(hash, entry(rule, id, body), true);
        } else {
            self.forget(hash, id, path);
        }
        Ok(())
    }

    fn put_folder(&mut self, rule: &Rule, body: &str, is_new: bool) -> Result<(), Difference> {
        let folder = rule.terms.folder().unwrap_or_default();
        let (fits, replaced) = self.hosts.insert_folder(
            &rule.terms.host,
            self.hasher.host(&rule.terms.host),
            folder,
            is_new,
            self.bounds.trees,
            |id| entry(rule, id, body),
        );
        self.left_clicks.extend(replaced.iter().filter_map(Folder::take_clicks));
        self.has_fewer_folders |= !is_new;
        if !fits {
            self.has_all_folders = false;
        } else if is_new == replaced.is_some() && self.has_all_folders {
            return Err(unknown(&rule.terms.host, &rule.terms.path));
        }
        Ok(())
    }

    fn delete(&mut self, seq: Seq, place: &Place) -> Result<(), Difference> {
        let Place { host, path } = place;
        self.count = self.count.saturating_sub(1);
        if let Some(folder) = path.strip_suffix("/*") {
            let removed = self.hosts.remove_folder(host, folder);
            self.has_fewer_folders = true;
            if removed.is_none() && self.has_all_folders {
                return Err(unknown(host, path));
            }
            self.left_clicks.extend(removed.iter().filter_map(Folder::take_clicks));
            return Ok(());
        }
        let (id, hash) = self.hash_of(host, path).ok_or_else(|| unknown(host, path))?;
        if !self.keys.may_contain(hash) {
            return Err(unknown(host, path));
        }
        self.keys.remove(hash, seq);
        self.recent.push(seq, hash);
        self.forget(hash, id, path);
        self.hosts.remove_exact(host);
        Ok(())
    }

    /// Keeps what the truth has said of a request, if it is of a place that was reached and still so. It was asked for when
    /// this worker had come to `from`: if that was before the place, the truth may have gone back since, and this worker have
    /// come to another place of that number.
    pub(crate) fn keep_fetched(
        &mut self,
        (host, path): (&str, &str),
        fetched: &Resolution,
        from: Option<Seq>,
        negative_until_ms: u64,
        elapsed_ms: u64,
    ) -> Kept {
        let Resolution { rule, passed, position, .. } = fetched;
        let Some(applied) = &self.applied else { return Kept::No };
        if applied.epoch != position.epoch {
            return Kept::No;
        }
        if applied.seq < position.seq {
            return Kept::NotYet;
        }
        let had_been_there = || from.is_some_and(|from| from >= position.seq);
        if !self.recent.was_so(position.seq, position.digest).unwrap_or_else(had_been_there) {
            return Kept::No;
        }
        let exact = passed.iter().chain(rule).filter(|it| it.terms.folder().is_none());
        let mut kept = Kept::Yes;
        for rule in exact.clone() {
            let terms = &rule.terms;
            // A host that is not known here has lost its rules since.
            let Some((id, hash)) = self.hash_of(&terms.host, &terms.path) else { return Kept::No };
            if !self.recent.is_unchanged(hash, position.seq) {
                kept = Kept::No;
                continue;
            }
            let Ok(body) = crate::truth::body(rule) else { return Kept::No };
            self.keep(hash, entry(rule, id, &body), self.is_owned(&terms.path));
        }
        // What is nearer than what was found, and the filter takes for known, is not there.
        let found: Vec<_> = exact.map(|rule| &*rule.terms.host).collect();
        let last = rule.as_ref().map(|rule| &*rule.terms.host);
        let mut absent = Vec::new();
        for candidate in crate::path::candidates(host) {
            if let Some((_, hash)) = self.hash_of(&candidate, path)
                && !found.contains(&&*candidate)
                && self.keys.may_contain(hash)
            {
                absent.push(hash);
            }
            if last == Some(&*candidate) {
                break;
            }
        }
        for hash in absent {
            if self.recent.is_unchanged(hash, position.seq) {
                self.negatives.insert(hash, negative_until_ms, elapsed_ms);
            } else {
                kept = Kept::No;
            }
        }
        self.fit();
        kept
    }

    /// Whether what is here is what the truth has at the same place.
    pub(crate) fn compare(&self, position: &Position) -> Result<(), Difference> {
        if self.count != position.count {
            return Err(format!("{} rules are here, and {} in the database", self.count, position.count));
        }
        let known = (self.keys.len() + self.hosts.folders()) as u64;
        if self.keys.is_complete() && known != self.count {
            return Err(format!("{known} rules are known here, and {} in the database", self.count));
        }
        Ok(())
    }
}

fn unknown(host: &str, path: &str) -> Difference {
    format!("the rule for {host} {path} is not as it was said to have been")
}

fn read(body: &str) -> Result<Rule, Difference> {
    serde_json::from_str(body).map_err(|error| format!("a rule cannot be read ({error}): {body}"))
}

pub(super) fn entry(rule: &Rule, host: u32, body: &str) -> Entry {
    Entry::new(rule, host, Digest::of(&rule.id, rule.version, body))
}
