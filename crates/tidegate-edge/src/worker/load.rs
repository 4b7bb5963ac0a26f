//! All rules read anew: what is made of a snapshot, and how it takes the place of what is here.
//!
//! Until then what is here answers as of the place it is of. Rules in the cache stay if the snapshot has the same.

use serde::Deserialize;

use super::apply::{Difference, entry};
use super::cache::{Cache, Clicked, Seen};
use super::entry::Entry;
use super::filter::Filter;
use super::hosts::{Folder, Hosts};
use super::key::KeyHasher;
use super::keys::{Keys, filter_bytes, filter_keys};
use super::recent::Recent;
use super::state::{Bounds, State};
use crate::rule::Rule;
use crate::stream::Mark;
use crate::truth::{Digest, Fields, Position};

/// Rules that are compared with those that are here in one step: who changes something waits for no more.
const COMPARED_TOGETHER: usize = 64;

/// A snapshot that is being read, line by line.
#[derive(Debug)]
pub(crate) struct Loading {
    hasher: KeyHasher,
    bounds: Bounds,
    fields: Fields,
    /// Whether all that is wanted is a larger filter, for what was read that often.
    is_for_growth: bool,
    reads: u64,
    position: Option<Position>,
    hosts: Hosts,
    /// None if there is no room for it.
    filter: Option<Filter>,
    digest: Digest,
    count: u64,
    has_all_folders: bool,
    /// Rules for one path that were not compared yet, with their bodies if those came along and there is room for them.
    read: Vec<(Seen, Option<Entry>)>,
    /// Bodies: where they stay, if nothing was kept before; otherwise those of rules that are not in memory.
    cache: Option<Cache>,
    bodies: Vec<Body>,
    body_bytes: usize,
    room: usize,
}

/// A rule for one path, by the hash of its key.
pub(crate) type Body = (u64, Entry);

/// What was here before all rules were read.
#[derive(Debug)]
pub(crate) struct Replaced {
    hosts: Hosts,
    keys: Keys,
    cache: Option<Cache>,
}

#[derive(Deserialize)]
struct Key<'a> {
    #[serde(borrow)]
    host: std::borrow::Cow<'a, str>,
    #[serde(borrow)]
    path: std::borrow::Cow<'a, str>,
    hash: Digest,
}

impl Loading {
    /// For what is here.
    pub(crate) fn begin(state: &State, fields: Fields) -> Self {
        Self {
            hosts: state.hosts.empty_with_ids(),
            cache: (fields == Fields::All).then(|| state.cache.unused()).flatten(),
            is_for_growth: false,
            ..Self::for_growth(state, fields)
        }
    }

    /// For a larger filter alone.
    pub(crate) fn begin_growth(state: &State) -> Self {
        Self::for_growth(state, Fields::Keys)
    }

    fn for_growth(state: &State, fields: Fields) -> Self {
        Self {
            hasher: state.hasher.clone(),
            bounds: state.bounds,
            fields,
            is_for_growth: true,
            reads: state.reads,
            position: None,
            hosts: Hosts::default(),
            filter: None,
            digest: Digest::default(),
            count: 0,
            has_all_folders: true,
            read: Vec::new(),
            cache: None,
            bodies: Vec::new(),
            body_bytes: 0,
            // What is here stays until all was read.
            room: state.bounds.all.saturating_sub(state.bytes()),
        }
    }

    /// Takes the first line, which says how many there are; bytes of the filter over them, if it may be so large.
    pub(crate) fn first_line(&mut self, line: &str) -> Result<Option<usize>, Difference> {
        let position: Position = serde_json::from_str(line).map_err(|error| wrong(&error, line))?;
        let bytes = filter_bytes(position.count);
        self.position = Some(position);
        Ok(Some(bytes).filter(|&bytes| bytes <= self.bounds.filter))
    }

    /// There is room for the filter.
    pub(crate) fn make_filter(&mut self) {
        let keys = self.position.as_ref().map_or(0, |position| position.count);
        self.filter = Some(Filter::with_capacity(filter_keys(keys)));
    }

    /// Where the rules are of, once the first line was taken.
    pub(crate) fn position(&self) -> Option<&Position> {
        self.position.as_ref()
    }

    pub(crate) fn is_for_growth(&self) -> bool {
        self.is_for_growth
    }

    /// Whether anybody still waits for it.
    pub(crate) fn is_wanted(&self, state: &State) -> bool {
        !self.is_for_growth || self.reads == state.reads && state.keys.is_growing()
    }

    /// There is no room for what came along unasked for, by so many bytes: it goes. Whether there was something.
    pub(crate) fn give_up_bodies(&mut self, excess: usize) -> bool {
        let before = self.bytes();
        (self.room, self.body_bytes) = (0, 0);
        self.bodies = Vec::new();
        self.read.iter_mut().for_each(|(_, body)| *body = None);
        if let Some(cache) = &mut self.cache {
            // Nobody has clicked.
            let _ = cache.set_bound_bytes(cache.bytes().saturating_sub(excess), 0);
        }
        self.bytes() < before
    }

    /// Bytes of what was made so far.
    pub(crate) fn bytes(&self) -> usize {
        let lists = self.read.capacity() * size_of::<(Seen, Option<Entry>)>()
            + self.bodies.capacity() * size_of::<Body>();
        let filter = self.filter.as_ref().map_or(0, Filter::bytes);
        let cache = self.cache.as_ref().map_or(0, Cache::bytes);
        lists + self.body_bytes + filter + cache + self.hosts.bytes() + self.hosts.tree_bytes()
    }

    /// Which snapshot it is read from.
    pub(crate) fn fields(&self) -> Fields {
        self.fields
    }

    /// Compares some of the rules for one path that were read with those in memory: who is there needs no body. Whether
    /// there are more.
    pub(crate) fn compare(&mut self, state: &State) -> bool {
        let first = self.read.len().saturating_sub(COMPARED_TOGETHER);
        for (seen, body) in self.read.drain(first..) {
            let is_there = state.caches().any(|cache| cache.note_seen(&seen));
            match body {
                Some(body) if is_there => self.body_bytes -= body.bytes(),
                Some(body) => self.bodies.push((seen.key, body)),
                None => {}
            }
        }
        first > 0
    }

    /// Takes the next line.
    pub(crate) fn line(&mut self, line: &str) -> Result<(), Difference> {
        let position = self.position.as_ref().ok_or("a snapshot without a first line")?;
        let time_ms = position.time_ms;
        self.count += 1;
        if self.count > position.count {
            return Err("a snapshot has more rules than it says".to_owned());
        }
        if self.fields == Fields::Keys
            && let Ok(Key { host, path, hash }) = serde_json::from_str::<Key<'_>>(line)
        {
            self.digest = self.digest.with(hash);
            return self.exact(&host, &path, hash, |_, _| None);
        }
        let rule: Rule = serde_json::from_str(line).map_err(|error| wrong(&error, line))?;
        let hash = Digest::of(&rule.id, rule.version, line);
        self.digest = self.digest.with(hash);
        let terms = &rule.terms;
        let Some(folder) = terms.folder() else {
            return self.exact(&terms.host, &terms.path, hash, |loading, seen| {
                let entry = entry(&rule, seen.host, line);
                if loading.bytes() + entry.bytes() + size_of::<Body>() > loading.room {
                    return None;
                }
                let Some(cache) = &mut loading.cache else {
                    loading.body_bytes += entry.bytes();
                    return Some(entry);
                };
                if cache.has_room_for(seen.key, &entry) {
                    // Nobody leaves, and nobody has clicked.
                    let _ = cache.insert(seen.key, &entry, time_ms);
                }
                None
            });
        };
        if self.is_for_growth {
            return Ok(());
        }
        let (fits, _) = self.hosts.insert_folder(
            &terms.host,
            self.hasher.host(&terms.host),
            folder,
            true,
            self.bounds.trees,
            |id| entry(&rule, id, line),
        );
        self.has_all_folders &= fits;
        Ok(())
    }

    fn exact(
        &mut self,
        host: &str,
        path: &str,
        hash: Digest,
        body: impl FnOnce(&mut Self, &Seen) -> Option<Entry>,
    ) -> Result<(), Difference> {
        let host_hash = self.hasher.host(host);
        let key = self.hasher.path(path).of_host(host_hash);
        if let Some(filter) = &mut self.filter {
            // There is room for all of them; eight with the same bits are no chance.
            filter.insert(key).map_err(|_| format!("the filter has no room for {host} {path}"))?;
        }
        if !self.is_for_growth {
            let host = self.hosts.add_exact(host, host_hash);
            let seen = Seen { key, host, version: hash.first_half() };
            let body = body(self, &seen);
            self.read.push((seen, body));
        }
        Ok(())
    }

    /// It is all: whether it is what it says it is.
    pub(crate) fn finish(&mut self) -> Result<Position, Difference> {
        self.hosts.forget_empty();
        let position = self.position.as_ref().ok_or("a snapshot without a first line")?;
        match () {
            () if self.count < position.count => {
                Err(format!("a snapshot ends after {} of {} rules", self.count, position.count))
            }
            () if self.digest != position.digest => {
                Err("a snapshot's rules are not those of its digest".to_owned())
            }
            () => Ok(position.clone()),
        }
    }

    /// Bodies that are to be kept once this was put in its place, and their bytes.
    pub(crate) fn take_bodies(&mut self) -> (Vec<Body>, usize) {
        let bytes = self.body_bytes + self.bodies.capacity() * size_of::<Body>();
        (std::mem::take(&mut self.bodies), bytes)
    }

    /// For a filter that has become too small. None if there is no room for it.
    pub(crate) fn into_filter(self) -> Option<Filter> {
        self.filter
    }
}

fn wrong(error: &serde_json::Error, line: &str) -> Difference {
    format!("a line of a snapshot cannot be read ({error}): {line}")
}

impl Replaced {
    pub(crate) fn bytes(&self) -> usize {
        let cache = self.cache.as_ref().map_or(0, Cache::bytes);
        self.hosts.bytes() + self.hosts.tree_bytes() + self.keys.bytes() + cache
    }

    /// What was clicked of it and not told of yet. Nobody counts there any more.
    pub(crate) fn take_clicks(&self) -> Vec<Clicked> {
        let mut clicks: Vec<_> = self.hosts.each_folder().filter_map(Folder::take_clicks).collect();
        clicks.extend(self.cache.iter().flat_map(|cache| cache.take_clicks(usize::MAX)));
        clicks
    }
}

impl State {
    /// Puts what was loaded and checked in the place of what is here, which is to be dropped elsewhere: lookups wait.
    pub(crate) fn replace(&mut self, loaded: Loading, position: &Position) -> Replaced {
        let bounds = self.bounds.keys();
        let keys = match loaded.filter {
            Some(filter) => Keys::of(filter, bounds),
            None => Keys::without_filter(bounds),
        };
        let keys = std::mem::replace(&mut self.keys, keys);
        let hosts = std::mem::replace(&mut self.hosts, loaded.hosts);
        let cache = loaded.cache.map(|cache| std::mem::replace(&mut self.cache, cache));
        // One that is new has nothing else.
        if cache.is_none() {
            self.cache.keep_seen();
        }
        if let Some((_, foreign)) = &mut self.foreign {
            foreign.keep_seen();
        }
        self.negatives.clear();
        self.recent = Recent::since(position.seq, self.bounds.notes());
        self.recent.reached(position.seq, position.digest);
        self.count = loaded.count;
        self.has_all_folders = loaded.has_all_folders;
        self.has_fewer_folders = false;
        self.applied = Some(Mark::from(position));
        self.reads += 1;
        Replaced { hosts, keys, cache }
    }

    /// There is no room for what is here beside what is being read: it answers nothing any more, and is to be dropped elsewhere.
    /// None if there is nothing.
    pub(crate) fn let_go(&mut self) -> Option<Replaced> {
        self.applied = None;
        if self.hosts.is_empty() {
            return None;
        }
        let keys = Keys::without_filter(self.bounds.keys());
        let keys = std::mem::replace(&mut self.keys, keys);
        Some(Replaced { hosts: std::mem::take(&mut self.hosts), keys, cache: None })
    }

    /// None was seen any more, of so many from a place on; the place behind them, until that was all.
    pub(crate) fn forget_seen(&self, (cache, shard): (usize, usize), limit: usize) -> Option<(usize, usize)> {
        let next = self.caches().nth(cache)?.forget_seen(shard, limit);
        Some(next.map_or((cache + 1, 0), |shard| (cache, shard)))
    }

    /// Lets go of rules that were not seen when all were last read, of about so many that are looked at. Whether all have left.
    pub(crate) fn drop_unseen(&mut self, limit: usize) -> bool {
        let dropped: Vec<_> = self.caches_mut().map(|cache| cache.drop_unseen(limit)).collect();
        let are_all = dropped.iter().all(|(is_all, _)| *is_all);
        self.left(dropped.into_iter().flat_map(|(_, clicks)| clicks));
        are_all
    }

    /// Keeps rules that came along when all were read, while there is room for them. Whether there still is.
    pub(crate) fn keep_loaded(&mut self, bodies: impl Iterator<Item = Body>) -> bool {
        self.fit();
        for (key, entry) in bodies {
            if !self.cache.has_room_for(key, &entry) {
                return false;
            }
            let inserted = self.cache.insert(key, &entry, self.time.last_ms());
            self.left(inserted.clicks);
        }
        true
    }
}
