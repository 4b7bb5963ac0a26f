//! Changes that are made together, in one transaction. What becomes of each is decided here, by what the database has
//! told of the rules they are about: it is the same whichever database that is, and a refused change fails no other.
//!
//! A database is asked for the rules of [`ids`](Group::ids), then for whom the places of [`places`](Group::places)
//! belong to, and then told what to write. No two changes of a group are about one rule: what the second is depends on
//! what becomes of the first, so it waits for the next group.

use std::collections::{HashMap, HashSet};

use serde::Serialize;
use tidegate::random::Random;

use super::digest::Digest;
use super::types::{Change, Condition, LogRow, Logged, Outcome, Patch, Place, Refusal, Seq, Written};
use crate::error::{Error, Result};
use crate::rule::{Draft, Invalid, Rule, Terms, Warning};

/// Letters and digits in an id that is made here: 3.5 million million of them.
const SLUG: usize = 7;

/// Where the rules stand, as far as numbering goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Head {
    pub(crate) seq: Seq,
    pub(crate) count: u64,
    pub(crate) digest: Digest,
}

/// What a database is to write.
#[derive(Debug)]
pub(crate) struct Write {
    /// The rule that was there.
    pub(crate) before: Option<Rule>,
    /// The rule that is.
    pub(crate) after: Option<(Rule, String)>,
    /// The row of the log.
    pub(crate) row: LogRow,
}

/// Changes on their way.
#[derive(Debug)]
pub(crate) struct Group {
    steps: Vec<Step>,
    rules: HashMap<String, Rule>,
    owners: HashMap<Place, String>,
    now_ms: u64,
}

#[derive(Debug)]
struct Step {
    change: Change,
    /// Of which rule: the one that was said, or one that was made here.
    id: String,
    /// What the rule is to say, or why not; none for a deletion.
    wanted: Option<Result<(Terms, Vec<Warning>), Refusal>>,
}

impl Group {
    pub(crate) fn new(changes: Vec<Change>, now_ms: u64, random: &Random) -> Self {
        let mut taken: HashSet<String> = changes.iter().filter_map(Change::id).map(str::to_owned).collect();
        let step = |change: Change| {
            let id = change.id().map_or_else(|| fresh(random, &mut taken), str::to_owned);
            Step { change, id, wanted: None }
        };
        let steps = changes.into_iter().map(step).collect();
        Self { steps, rules: HashMap::new(), owners: HashMap::new(), now_ms }
    }

    /// Forgets what it was told: what was read before a lock was taken is read again, at that time.
    pub(crate) fn begin_anew(&mut self, now_ms: u64) {
        self.rules.clear();
        self.owners.clear();
        self.now_ms = now_ms;
    }

    /// Which rules are to be told.
    pub(crate) fn ids(&self) -> impl Iterator<Item = &str> {
        self.steps.iter().map(|step| step.id.as_str())
    }

    /// What the database has of them.
    pub(crate) fn told_rules(&mut self, rules: impl IntoIterator<Item = Rule>) {
        self.rules.extend(rules.into_iter().map(|rule| (rule.id.clone(), rule)));
        for step in &mut self.steps {
            step.wanted = step.wanted(self.rules.get(&step.id), self.now_ms);
        }
    }

    /// Whose owners are to be told.
    pub(crate) fn places(&self) -> Vec<Place> {
        let wanted = self.steps.iter().filter_map(|step| step.wanted.as_ref()?.as_ref().ok());
        let mut places: Vec<_> = wanted.map(|(terms, _)| Place::of(terms)).collect();
        places.sort();
        places.dedup();
        places
    }

    /// Whom the database has them for.
    pub(crate) fn told_owners(&mut self, owners: impl IntoIterator<Item = (Place, String)>) {
        self.owners.extend(owners);
    }

    /// What becomes of each change, and what is to be written, in the order of their numbers.
    pub(crate) fn decide(mut self, head: &mut Head) -> Result<(Vec<Outcome>, Vec<Write>)> {
        let mut writes = Vec::new();
        let mut outcomes = Vec::with_capacity(self.steps.len());
        for step in std::mem::take(&mut self.steps) {
            outcomes.push(self.decide_one(step, head, &mut writes)?);
        }
        Ok((outcomes, writes))
    }

    fn decide_one(&mut self, step: Step, head: &mut Head, writes: &mut Vec<Write>) -> Result<Outcome> {
        let before = self.rules.get(&step.id).cloned();
        if let Some(refusal) = step.refused(before.as_ref()) {
            return Ok(Err(refusal));
        }
        let (after, warnings) = match (step.wanted, &before) {
            (Some(Err(refusal)), _) => return Ok(Err(refusal)),
            // All is as asked for: a request that came twice.
            (Some(Ok((terms, warnings))), Some(rule)) if rule.terms == terms => {
                return Ok(Ok(Written { rule: rule.clone(), seq: None, is_new: false, warnings }));
            }
            (Some(Ok((terms, warnings))), _) => {
                let place = Place::of(&terms);
                if let Some(owner) = self.owners.get(&place)
                    && *owner != step.id
                {
                    return Ok(Err(Refusal::PathTaken { by: owner.clone() }));
                }
                (Some(self.next(&step.id, before.as_ref(), terms)), warnings)
            }
            (None, _) => (None, Vec::new()),
        };
        if let Some(rule) = &before {
            self.owners.remove(&Place::of(&rule.terms));
        }
        let after = after.map(|rule| body(&rule).map(|body| (rule, body))).transpose()?;
        let hash = |rule: &Rule, body: &str| Digest::of(&rule.id, rule.version, body);
        let left = before.as_ref().map(|rule| body(rule).map(|it| hash(rule, &it))).transpose()?;
        let came = after.as_ref().map(|(rule, body)| hash(rule, body));
        if let Some((rule, _)) = &after {
            self.owners.insert(Place::of(&rule.terms), rule.id.clone());
        }
        head.seq = head.seq.next();
        head.digest = head.digest.without(left.unwrap_or_default()).with(came.unwrap_or_default());
        head.count = head.count + u64::from(after.is_some()) - u64::from(before.is_some());
        let row = LogRow {
            seq: head.seq,
            id: Some(step.id),
            before: before.as_ref().map(|rule| Place::of(&rule.terms)),
            after: after
                .as_ref()
                .map(|(rule, body)| Logged { place: Place::of(&rule.terms), body: body.clone() }),
            left: left.unwrap_or_default(),
            came: came.unwrap_or_default(),
            digest: head.digest,
            count: head.count,
            at_ms: self.now_ms,
        };
        let is_new = before.is_none();
        let rule = after.as_ref().map(|(rule, _)| rule.clone()).or_else(|| before.clone());
        let rule =
            rule.ok_or_else(|| Error::new(crate::ErrorKind::Internal, "a change of nothing was written"))?;
        writes.push(Write { before, after, row });
        Ok(Ok(Written { rule, seq: Some(head.seq), is_new, warnings }))
    }

    /// The next version of a rule.
    fn next(&self, id: &str, before: Option<&Rule>, terms: Terms) -> Rule {
        Rule {
            id: id.to_owned(),
            terms,
            clicks: before.map_or(0, |it| it.clicks),
            version: before.map_or(1, |it| it.version + 1),
            created_at: before.map_or(self.now_ms, |it| it.created_at),
            updated_at: self.now_ms,
        }
    }
}

impl Step {
    /// Whether the change is refused by what there is, whatever it says.
    fn refused(&self, before: Option<&Rule>) -> Option<Refusal> {
        let wanted = self.wanted.as_ref().and_then(|it| it.as_ref().ok()).map(|(terms, _)| terms);
        let is_as_asked = before.is_some_and(|rule| Some(&rule.terms) == wanted);
        let condition = match &self.change {
            // A repeated request finds what it has made; if the id was made here, it has made nothing yet.
            Change::Create(draft) => {
                let is_repeated = is_as_asked && draft.id.is_some();
                return before.filter(|_| !is_repeated).map(|_| Refusal::Exists);
            }
            Change::Replace { condition, .. } => *condition,
            Change::Patch { condition, .. } | Change::Delete { condition, .. } => match condition {
                Condition::None => Condition::Exists,
                other => *other,
            },
        };
        match (condition, before) {
            (Condition::None, _) | (Condition::Exists, Some(_)) | (Condition::Absent, None) => None,
            (Condition::Absent, Some(_)) => Some(Refusal::Exists).filter(|_| !is_as_asked),
            (Condition::Version(version), Some(rule)) if rule.version == version => None,
            // The answer to the first request was lost: it has made this version of that one.
            (Condition::Version(version), Some(rule)) if rule.version == version + 1 && is_as_asked => None,
            (Condition::Version(_), Some(rule)) => Some(Refusal::Changed { version: rule.version }),
            (Condition::Exists | Condition::Version(_), None) => Some(Refusal::Unknown),
        }
    }

    /// What the rule is to say after it.
    fn wanted(&self, before: Option<&Rule>, now_ms: u64) -> Option<Result<(Terms, Vec<Warning>), Refusal>> {
        let terms = match &self.change {
            Change::Delete { .. } => return None,
            Change::Replace { terms, .. } => terms.clone(),
            Change::Create(draft) => {
                let mut terms = draft.terms.clone();
                // A link that is only to be short.
                if terms.path.is_empty() && draft.id.is_none() {
                    terms.path = format!("/{}", self.id);
                }
                terms
            }
            Change::Patch { patch, .. } => match before.map(|rule| patched(&rule.terms, patch)) {
                Some(Ok(terms)) => terms,
                Some(Err(invalid)) => return Some(Err(Refusal::Invalid(invalid))),
                None => return Some(Err(Refusal::Unknown)),
            },
        };
        let draft = Draft { id: Some(self.id.clone()), terms };
        let checked = draft.check(now_ms).map(|(draft, warnings)| (draft.terms, warnings));
        Some(checked.map_err(Refusal::Invalid))
    }
}

/// Terms with some of them changed.
fn patched(terms: &Terms, patch: &Patch) -> std::result::Result<Terms, Invalid> {
    let invalid = |error: serde_json::Error| Invalid { field: "patch", reason: error.to_string() };
    let serde_json::Value::Object(mut all) = serde_json::to_value(terms).map_err(invalid)? else {
        return Err(Invalid { field: "patch", reason: "a rule is no object".to_owned() });
    };
    for (name, value) in patch {
        if name == "id" {
            return Err(Invalid {
                field: "id",
                reason: "it is the rule's identity and cannot be changed".to_owned(),
            });
        }
        match value {
            serde_json::Value::Null => all.remove(name),
            value => all.insert(name.clone(), value.clone()),
        };
    }
    let draft: Draft = serde_json::from_value(serde_json::Value::Object(all)).map_err(invalid)?;
    Ok(draft.terms)
}

/// The canonical JSON of a rule: all but clicks, which make no version.
pub(crate) fn body(rule: &Rule) -> Result<String> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Body<'a> {
        id: &'a str,
        #[serde(flatten)]
        terms: &'a Terms,
        version: u64,
        created_at: u64,
        updated_at: u64,
    }
    let Rule { id, terms, version, created_at, updated_at, .. } = rule;
    let body = Body { id, terms, version: *version, created_at: *created_at, updated_at: *updated_at };
    serde_json::to_string(&body)
        .map_err(|error| Error::new(crate::ErrorKind::Internal, format!("a rule cannot be written: {error}")))
}

/// A rule by its canonical JSON, and its clicks.
pub(crate) fn rule(body: &str, clicks: u64) -> Result<Rule> {
    let read = serde_json::from_str::<Rule>(body);
    read.map(|rule| Rule { clicks, ..rule })
        .map_err(|error| Error::corrupt(format!("a rule cannot be read ({error}): {body}")))
}

/// An id that no other change of the group has: chance makes one twice sooner or later, and no two changes are about one
/// rule.
fn fresh(random: &Random, taken: &mut HashSet<String>) -> String {
    loop {
        let id = slug(random);
        if taken.insert(id.clone()) {
            return id;
        }
    }
}

/// An id that nobody has thought of.
pub(crate) fn slug(random: &Random) -> String {
    const LETTERS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut bits = random.bits();
    // 62^7 is far below 2^64: none is much likelier than another.
    let letters = (0..SLUG).map(|_| {
        let letter = LETTERS[(bits % 62) as usize];
        bits /= 62;
        char::from(letter)
    });
    letters.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_that_is_made_is_no_other_of_the_group() {
        let made = slug(&Random::seeded(7));
        let mut thought_of = Draft::new(Terms::new("/a", "/b"));
        thought_of.id = Some(made.clone());
        let changes = vec![Change::Create(Draft::new(Terms::new("", "/b"))), Change::Create(thought_of)];
        let group = Group::new(changes, 0, &Random::seeded(7));
        let ids: Vec<_> = group.ids().collect();
        assert!(ids[0] != made && ids[1] == made, "{ids:?}");
    }
}
