//! What a worker has in memory: exactly the truth's rules at one place of the log, as far as they are here.
//!
//! Everything that is here is of the place `applied`. What is fetched is of a place of its own, and gets in only when that
//! was reached and nothing about it has changed since: a rule of one place beside a filter or a tree of another could
//! answer what was never so.

use super::answer::Source;
use super::cache::{Cache, Clicked, Hit};
use super::entry::{Entry, View};
use super::filter::Filter;
use super::hosts::{Folder, Hosts};
use super::key::KeyHasher;
use super::keys::{KeyBounds, Keys};
use super::negatives::Negatives;
use super::owner::{Owners, owner_hash};
use super::recent::Recent;
use super::trace::{Found, Trace};
use super::truth_time::TruthTime;
use crate::rule::State as RuleState;
use crate::stream::Mark;
use crate::truth::Seq;

/// All of it. Lookups read it; changes, rules that were fetched and what makes room write it.
#[derive(Debug)]
pub(crate) struct State {
    pub(super) hasher: KeyHasher,
    /// None until all keys were read once.
    pub(super) applied: Option<Mark>,
    /// How often they were. What was asked for before the last time may be of a database that has gone back since, which
    /// its epoch need not say.
    pub(super) reads: u64,
    /// Rules in the database at that place.
    pub(super) count: u64,
    pub(super) hosts: Hosts,
    pub(super) keys: Keys,
    pub(super) cache: Cache,
    /// Rules that another worker keeps.
    pub(super) foreign: Option<(Ownership, Cache)>,
    pub(super) negatives: Negatives,
    pub(super) recent: Recent,
    pub(super) time: TruthTime,
    /// Whether all rules for folders are in their trees.
    pub(super) has_all_folders: bool,
    /// Whether a rule for a folder has left or changed since all were read.
    pub(super) has_fewer_folders: bool,
    pub(super) bounds: Bounds,
    /// Clicks of rules that have left since they were last told of.
    pub(super) left_clicks: Vec<Clicked>,
    /// The most that it had after any change.
    pub(super) peak_bytes: usize,
}

/// Of what there is room for, what rules may have that another worker keeps.
const FOREIGN_PART: usize = 20;

/// Which rules this worker keeps, of several that share them.
#[derive(Debug, Clone)]
pub(crate) struct Ownership {
    pub(crate) owners: Owners,
    pub(crate) name: String,
}

impl Ownership {
    /// By its path alone: who sends requests to owners knows the request's host, and not the rule's.
    fn is_own(&self, path: &str) -> bool {
        self.owners.is_owner(&self.name, owner_hash("*", path))
    }
}

/// Of what there is room for, what each of those may have that are only noted for a while: keys beside a filter, changes while
/// one is made, changes of late, keys without a rule.
const NOTES_PART: usize = 16;

/// What there is room for, in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// In all.
    pub(crate) all: usize,
    /// Trees of rules for folders: a part of that.
    pub(crate) trees: usize,
    /// The filter, of which there are two while another is made: a part of that too.
    pub(crate) filter: usize,
    /// What is needed beside: fetches, clicks and permits, and what is being read.
    pub(crate) beside: usize,
}

impl Bounds {
    /// What is noted of one kind may have so many.
    pub(super) fn notes(&self) -> usize {
        self.all / NOTES_PART
    }

    pub(super) fn keys(&self) -> KeyBounds {
        KeyBounds { filter: self.filter, notes: self.notes() }
    }
}

/// The rule that answers.
#[derive(Debug)]
pub(crate) enum Answering<'a> {
    /// For exactly this path.
    Exact(Hit<'a>),
    /// For a folder.
    Folder(&'a Folder),
}

impl Answering<'_> {
    pub(crate) fn rule(&self) -> View<'_> {
        match self {
            Self::Exact(hit) => *hit.view(),
            Self::Folder(folder) => folder.entry.view(),
        }
    }

    pub(crate) fn source(&self) -> Source {
        match self {
            Self::Exact(_) => Source::Cache,
            Self::Folder(_) => Source::Prefix,
        }
    }

    /// Counts a redirect.
    pub(crate) fn click(&self) {
        match self {
            Self::Exact(hit) => hit.click(),
            Self::Folder(folder) => folder.click(),
        }
    }
}

/// What a lookup came to.
#[derive(Debug)]
pub(crate) enum Looked<'a> {
    /// This rule answers.
    Rule(Answering<'a>),
    /// None does.
    Nothing,
    /// That has to be asked for.
    Unknown,
}

impl State {
    pub(crate) fn new(
        hasher: KeyHasher,
        cache: Cache,
        foreign: Option<(Ownership, Cache)>,
        bounds: Bounds,
    ) -> Self {
        Self {
            hasher,
            applied: None,
            reads: 0,
            count: 0,
            hosts: Hosts::default(),
            keys: Keys::of(Filter::with_capacity(0), bounds.keys()),
            cache,
            foreign,
            negatives: Negatives::within(bounds.notes()),
            recent: Recent::since(Seq(0), bounds.notes()),
            time: TruthTime::default(),
            has_all_folders: true,
            has_fewer_folders: false,
            bounds,
            left_clicks: Vec::new(),
            peak_bytes: 0,
        }
    }

    /// What is here may not be the truth's: nothing of it answers until all keys were read anew.
    pub(crate) fn distrust(&mut self) {
        self.applied = None;
    }

    /// The rule that answers a request for a host and a path, both normalised.
    #[inline]
    pub(crate) fn look<'a>(
        &'a self,
        host: &'a str,
        path: &str,
        now_ms: u64,
        elapsed_ms: u64,
        trace: &mut impl Trace,
    ) -> Looked<'a> {
        if self.applied.is_none() || !self.time.is_known() {
            trace.found(Found::NothingRead, None);
            return Looked::Unknown;
        }
        let is_passed_over =
            |rule: &View<'_>| matches!(rule.state(now_ms), RuleState::Disabled | RuleState::Scheduled);
        let path_hash = self.hasher.path(path);
        for host in self.hosts.candidates(host) {
            if host.exact > 0 {
                let hash = path_hash.of_host(host.hash);
                // The filter first: it is small, and most that are not there end with it.
                let resident = self.keys.may_contain(hash).then(|| self.resident(hash, host.id, path));
                match resident {
                    None => trace.found(Found::Absent, None),
                    Some(Some(hit)) if is_passed_over(hit.view()) => {
                        trace.found(Found::PassedOver, Some(hit.view()));
                    }
                    Some(Some(hit)) => {
                        trace.found(Found::Resident, Some(hit.view()));
                        return Looked::Rule(Answering::Exact(hit));
                    }
                    Some(None) if self.negatives.contains(hash, elapsed_ms) => {
                        trace.found(Found::KnownAbsent, None)
                    }
                    Some(None) => {
                        trace.found(Found::NotResident, None);
                        return Looked::Unknown;
                    }
                }
            }
            if host.folders == 0 {
                continue;
            }
            if !self.has_all_folders {
                trace.found(Found::FoldersMissing, None);
                return Looked::Unknown;
            }
            for folder in host.tree.matches(path) {
                let rule = folder.entry.view();
                if !is_passed_over(&rule) {
                    trace.found(Found::Folder, Some(&rule));
                    return Looked::Rule(Answering::Folder(folder));
                }
                trace.found(Found::PassedOver, Some(&rule));
            }
        }
        Looked::Nothing
    }

    /// Why not all keys and all rules for folders are here although all were read.
    pub(super) fn lacks_room(&self) -> Option<&'static str> {
        self.applied.as_ref()?;
        match () {
            () if !self.has_all_folders => Some("rules for folders do not fit into their part of the memory"),
            () if self.keys.lacks_room() => {
                Some("the filter over all rules does not fit into half of the memory")
            }
            () => None,
        }
    }

    /// Whether what did not fit is to be tried again.
    pub(super) fn may_have_room_again(&self) -> bool {
        !self.has_all_folders && self.has_fewer_folders || self.keys.has_room_again(self.count)
    }

    /// The hash of a rule's key, if its host has rules.
    pub(super) fn hash_of(&self, host: &str, path: &str) -> Option<(u32, u64)> {
        let host = self.hosts.find(host)?;
        Some((host.id, self.hasher.path(path).of_host(host.hash)))
    }

    #[inline]
    fn resident(&self, hash: u64, host: u32, path: &str) -> Option<Hit<'_>> {
        let own = self.cache.get(hash, host, path);
        own.or_else(|| self.foreign.as_ref().and_then(|(_, cache)| cache.get(hash, host, path)))
    }

    /// Whether this worker keeps a rule for one path.
    pub(super) fn is_owned(&self, path: &str) -> bool {
        self.foreign.as_ref().is_none_or(|(ownership, _)| ownership.is_own(path))
    }

    /// Keeps a rule for one path, and makes room for it.
    pub(super) fn keep(&mut self, hash: u64, entry: Entry, is_owned: bool) {
        self.fit();
        let cache = match &mut self.foreign {
            Some((_, foreign)) if !is_owned => foreign,
            _ => &mut self.cache,
        };
        let inserted = cache.insert(hash, &entry, self.time.last_ms());
        self.left(inserted.clicks);
    }

    /// Does not keep a rule any longer.
    pub(super) fn forget(&mut self, hash: u64, host: u32, path: &str) {
        let foreign = self.foreign.as_mut().and_then(|(_, cache)| cache.remove(hash, host, path));
        let own = self.cache.remove(hash, host, path);
        self.left(own.into_iter().chain(foreign));
    }

    /// Notes clicks of rules that have left.
    pub(super) fn left(&mut self, clicks: impl IntoIterator<Item = Clicked>) {
        self.left_clicks.extend(clicks.into_iter().filter(|it| it.clicks > 0));
    }

    /// Gives the cache what all else leaves it.
    pub(super) fn fit(&mut self) {
        let left = self.bounds.all.saturating_sub(self.bytes_beside_cache());
        let now_ms = self.time.last_ms();
        let (mut clicks, mut foreign_bytes) = (Vec::new(), 0);
        if let Some((_, foreign)) = &mut self.foreign {
            foreign_bytes = left / FOREIGN_PART;
            clicks = foreign.set_bound_bytes(foreign_bytes, now_ms);
        }
        clicks.extend(self.cache.set_bound_bytes(left - foreign_bytes, now_ms));
        self.left(clicks);
    }

    /// Rules that had to leave so far.
    pub(super) fn evicted(&self) -> u64 {
        self.caches().map(|cache| cache.stats().evicted).sum()
    }

    /// Lets go of rules that have ended, at most so many; how many.
    pub(super) fn sweep(&mut self, now_ms: u64, limit: usize) -> usize {
        let mut swept = self.cache.sweep(now_ms, limit);
        if let Some((_, foreign)) = &mut self.foreign {
            let more = foreign.sweep(now_ms, limit - swept.removed.min(limit));
            swept.removed += more.removed;
            swept.clicks.extend(more.clicks);
        }
        self.left(swept.clicks);
        swept.removed
    }

    fn bytes_beside_cache(&self) -> usize {
        self.keys.bytes()
            + self.hosts.bytes()
            + self.hosts.tree_bytes()
            + self.negatives.bytes()
            + self.recent.bytes()
            + self.bounds.beside
    }

    /// Bytes of all that is here.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes_beside_cache() + self.caches().map(Cache::bytes).sum::<usize>()
    }

    /// Of this worker's own rules, and of others'.
    pub(super) fn caches(&self) -> impl Iterator<Item = &Cache> {
        [&self.cache].into_iter().chain(self.foreign.as_ref().map(|(_, cache)| cache))
    }

    pub(super) fn caches_mut(&mut self) -> impl Iterator<Item = &mut Cache> {
        [&mut self.cache].into_iter().chain(self.foreign.as_mut().map(|(_, cache)| cache))
    }
}
