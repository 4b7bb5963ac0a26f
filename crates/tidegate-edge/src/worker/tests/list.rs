//! The rules as a plain list with all its past, and what it says of requests.

use std::sync::Arc;

use crate::rule::{Answer, Rule, State};
use crate::stream::{Event, Mark};
use crate::truth::{Digest, Place, Position, Resolution, Seq, body};

/// All rules after one change.
#[derive(Debug, Clone)]
pub(super) struct Moment {
    pub(super) rules: Arc<Vec<Arc<Rule>>>,
    pub(super) digest: Digest,
}

/// A change.
#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) events: Vec<Event>,
}

/// A time between two goings back.
#[derive(Debug, Clone)]
pub(super) struct Epoch {
    pub(super) name: String,
    /// The number of the first moment.
    pub(super) first: u64,
    pub(super) moments: Vec<Moment>,
    /// What led to each moment but the first.
    pub(super) rows: Vec<Row>,
}

/// What a request sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Seen {
    Redirect(String),
    Gone,
    NotFound,
    Unavailable,
}

fn hash(rule: &Rule) -> Digest {
    Digest::of(&rule.id, rule.version, &body(rule).unwrap())
}

impl Epoch {
    pub(super) fn new(name: String, first: u64, moment: Moment) -> Self {
        Self { name, first, moments: vec![moment], rows: Vec::new() }
    }

    pub(super) fn head(&self) -> Seq {
        Seq(self.first + self.rows.len() as u64)
    }

    pub(super) fn at(&self, seq: Seq) -> Option<&Moment> {
        self.moments.get(usize::try_from(seq.0.checked_sub(self.first)?).unwrap())
    }

    pub(super) fn now(&self) -> &Moment {
        self.moments.last().unwrap()
    }

    pub(super) fn mark(&self, seq: Seq) -> Option<Mark> {
        Some(Mark { epoch: self.name.clone(), seq, digest: self.at(seq)?.digest })
    }

    pub(super) fn position(&self, seq: Seq, time_ms: u64) -> Position {
        let moment = self.at(seq).unwrap();
        let count = moment.rules.len() as u64;
        Position { epoch: self.name.clone(), seq, count, digest: moment.digest, time_ms }
    }

    /// Puts a rule in the place of the one of its id, or takes that away.
    pub(super) fn change(&mut self, id: &str, after: Option<Rule>) {
        let mut rules = (*self.now().rules).clone();
        let before = rules.iter().position(|it| it.id == id).map(|at| rules.remove(at));
        let place = |rule: &Rule| Place::of(&rule.terms);
        let deleted = |rule: &Rule| Event::Delete { id: id.to_owned(), place: place(rule) };
        let text = |rule: &Rule| body(rule).unwrap();
        let events = match (&before, &after) {
            (None, None) => return,
            (None, Some(after)) => vec![Event::Create { body: text(after) }],
            (Some(before), Some(after)) if place(before) == place(after) => {
                vec![Event::Update { body: text(after) }]
            }
            (Some(before), Some(after)) => vec![deleted(before), Event::Create { body: text(after) }],
            (Some(before), None) => vec![deleted(before)],
        };
        let mut digest = self.now().digest;
        digest = before.iter().fold(digest, |digest, it| digest.without(hash(it)));
        digest = after.iter().fold(digest, |digest, it| digest.with(hash(it)));
        rules.extend(after.map(Arc::new));
        self.rows.push(Row { events });
        self.moments.push(Moment { rules: Arc::new(rules), digest });
    }
}

impl Moment {
    pub(super) fn has_place(&self, host: &str, path: &str) -> bool {
        self.rules.iter().any(|it| it.terms.host == host && it.terms.path == path)
    }

    /// Rules that are for a request, the nearest first.
    fn matching(&self, host: &str, path: &str) -> Vec<&Rule> {
        let host_rank = |rule: &str| match rule.strip_prefix("*.") {
            _ if rule == host => Some(0),
            Some(parent)
                if host.strip_suffix(parent).is_some_and(|it| it.is_empty() || it.ends_with('.')) =>
            {
                Some(1000 - parent.len())
            }
            _ if rule == "*" => Some(1000),
            _ => None,
        };
        let path_rank = |rule: &str| match rule.strip_suffix("/*") {
            None => (rule == path).then_some(0),
            Some(folder)
                if path.strip_prefix(folder).is_some_and(|it| it.is_empty() || it.starts_with('/')) =>
            {
                Some(1000 - folder.len())
            }
            Some(_) => None,
        };
        let rank = |rule: &Rule| {
            let path = path_rank(&rule.terms.path)?;
            host_rank(&rule.terms.host).map(|host| (host, path))
        };
        let mut all: Vec<_> =
            self.rules.iter().filter_map(|rule| rank(rule).map(|rank| (rank, &**rule))).collect();
        all.sort_by_key(|(rank, _)| *rank);
        all.into_iter().map(|(_, rule)| rule).collect()
    }

    pub(super) fn resolve(&self, host: &str, path: &str, position: Position) -> Resolution {
        let is_passed_over =
            |rule: &&Rule| matches!(rule.state(position.time_ms), State::Disabled | State::Scheduled);
        let all = self.matching(host, path);
        let passed = all.iter().take_while(|rule| is_passed_over(rule)).map(|rule| (*rule).clone()).collect();
        let rule = all.iter().find(|rule| !is_passed_over(rule)).map(|rule| (*rule).clone());
        Resolution { rule, passed, position }
    }

    /// Times between two, both included, that differ to the rules for a request.
    pub(super) fn times(&self, host: &str, path: &str, began_ms: u64, ended_ms: u64) -> Vec<u64> {
        let turns = |rule: &Rule| [rule.terms.starts_at, rule.terms.expires_at.map(|it| it + 1)];
        let turns = self.matching(host, path).into_iter().flat_map(turns).flatten();
        let within = turns.filter(|at| (began_ms..=ended_ms).contains(at));
        [began_ms, ended_ms].into_iter().chain(within).collect()
    }

    /// What a request may see at that time, and of which rule: one with so many clicks may be over if it may be spent, and
    /// out of permits.
    pub(super) fn may_see(
        &self,
        host: &str,
        path: &str,
        now_ms: u64,
        may_be_spent: impl Fn(&Rule) -> bool,
    ) -> (Vec<Seen>, Option<&Rule>) {
        for rule in self.matching(host, path) {
            let seen = match rule.answer(path, None, now_ms) {
                Answer::None => continue,
                Answer::Gone => Seen::Gone,
                Answer::Redirect(redirect) => Seen::Redirect(redirect.location),
            };
            return match rule.terms.max_clicks {
                Some(_) if may_be_spent(rule) => (vec![seen, Seen::Gone, Seen::Unavailable], Some(rule)),
                Some(_) => (vec![seen, Seen::Unavailable], Some(rule)),
                None => (vec![seen], Some(rule)),
            };
        }
        (vec![Seen::NotFound], None)
    }
}
