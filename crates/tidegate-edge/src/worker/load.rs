//! All rules read anew: what is made of a snapshot, and how it takes the place of what is here.
//!
//! Until then what is here answers as of the place it is of. Rules in the cache stay if the snapshot has the same.

use hashbrown::HashSet;
use serde::Deserialize;

use super::apply::{Difference, entry};
use super::cache::Cache;
use super::entry::Entry;
use super::filter::Filter;
use super::hosts::Hosts;
use super::key::KeyHasher;
use super::keys::Keys;
use super::recent::Recent;
use super::state::{Bounds, State};
use crate::rule::Rule;
use crate::stream::Mark;
use crate::truth::{Digest, Fields, Position};

/// A snapshot that is being read, line by line.
#[derive(Debug)]
pub(crate) struct Loading {
    hasher: KeyHasher,
    bounds: Bounds,
    fields: Fields,
    position: Option<Position>,
    hosts: Hosts,
    filter: Filter,
    digest: Digest,
    count: u64,
    has_all_folders: bool,
    /// Which versions of rules the cache had when this began, and which of them are still so.
    resident: HashSet<u64>,
    same: HashSet<u64>,
    /// Bodies that came along, while there is room for them: where they stay, if nothing was kept before.
    cache: Option<Cache>,
    bodies: Vec<(u64, Entry)>,
    room: usize,
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
            hasher: state.hasher.clone(),
            bounds: state.bounds,
            fields,
            position: None,
            hosts: state.hosts.empty_with_ids(),
            filter: Filter::with_capacity(0),
            digest: Digest::default(),
            count: 0,
            has_all_folders: true,
            resident: state.resident_hashes().collect(),
            same: HashSet::new(),
            cache: (fields == Fields::All).then(|| state.cache.unused()).flatten(),
            bodies: Vec::new(),
            // What is here stays until all was read.
            room: state.bounds.all.saturating_sub(state.bytes()),
        }
    }

    /// Takes the next line.
    pub(crate) fn line(&mut self, line: &str) -> Result<(), Difference> {
        let wrong =
            |error: serde_json::Error| format!("a line of a snapshot cannot be read ({error}): {line}");
        let Some(position) = &self.position else {
            let position: Position = serde_json::from_str(line).map_err(wrong)?;
            // Somewhat larger than it has to be: what comes next does not make it grow.
            let keys = usize::try_from(position.count).unwrap_or(usize::MAX);
            self.filter = Filter::with_capacity(keys.saturating_add(1));
            self.room = self.room.saturating_sub(self.filter.bytes());
            self.position = Some(position);
            return Ok(());
        };
        let time_ms = position.time_ms;
        self.count += 1;
        if self.count > position.count {
            return Err("a snapshot has more rules than it says".to_owned());
        }
        if self.fields == Fields::Keys
            && let Ok(Key { host, path, hash }) = serde_json::from_str::<Key<'_>>(line)
        {
            self.digest = self.digest.with(hash);
            return self.exact(&host, &path, hash).map(drop);
        }
        let rule: Rule = serde_json::from_str(line).map_err(wrong)?;
        let hash = Digest::of(&rule.id, rule.version, line);
        self.digest = self.digest.with(hash);
        let terms = &rule.terms;
        let Some(folder) = terms.folder() else {
            let (id, key) = self.exact(&terms.host, &terms.path, hash)?;
            let entry = entry(&rule, id, line);
            if let Some(cache) = &mut self.cache {
                let beside = self.hosts.bytes() + self.hosts.tree_bytes();
                if cache.has_room_for(key, &entry) && cache.bytes() + beside + entry.bytes() <= self.room {
                    // Nobody leaves, and nobody has clicked.
                    let _ = cache.insert(key, &entry, time_ms);
                }
                return Ok(());
            }
            let bytes = entry.bytes() + size_of::<(u64, Entry)>();
            if let Some(room) = self.room.checked_sub(bytes) {
                self.room = room;
                self.bodies.push((key, entry));
            }
            return Ok(());
        };
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

    fn exact(&mut self, host: &str, path: &str, hash: Digest) -> Result<(u32, u64), Difference> {
        let host_hash = self.hasher.host(host);
        let id = self.hosts.add_exact(host, host_hash);
        let key = self.hasher.path(path).of_host(host_hash);
        // There is room for all of them; eight with the same bits are no chance.
        self.filter.insert(key).map_err(|_| format!("the filter has no room for {host} {path}"))?;
        if self.resident.contains(&hash.first_half()) {
            self.same.insert(hash.first_half());
        }
        Ok((id, key))
    }

    /// It is all: whether it is what it says it is.
    pub(crate) fn check(&self) -> Result<&Position, Difference> {
        let position = self.position.as_ref().ok_or("a snapshot without a first line")?;
        match () {
            () if self.count < position.count => {
                Err(format!("a snapshot ends after {} of {} rules", self.count, position.count))
            }
            () if self.digest != position.digest => {
                Err("a snapshot's rules are not those of its digest".to_owned())
            }
            () => Ok(position),
        }
    }

    /// Only the filter: for one that has become too small.
    pub(crate) fn into_filter(self) -> Filter {
        self.filter
    }
}

impl State {
    /// Puts what was loaded and checked in the place of what is here.
    pub(crate) fn replace(&mut self, mut loaded: Loading, position: &Position) {
        loaded.hosts.forget_empty();
        for folder in self.hosts.each_folder() {
            self.left_clicks.extend(folder.take_clicks());
        }
        self.hosts = loaded.hosts;
        self.keys = Keys::of(loaded.filter, self.bounds.notes());
        self.negatives.clear();
        self.recent = Recent::since(position.seq, self.bounds.notes());
        self.count = loaded.count;
        self.has_all_folders = loaded.has_all_folders;
        self.applied = Some(Mark::from(position));
        self.reads += 1;
        let same = loaded.same;
        let removed = match loaded.cache {
            Some(cache) => std::mem::replace(&mut self.cache, cache).retain(|_| false),
            None => self.cache.retain(|rule| same.contains(&rule.hash())),
        };
        self.left(removed);
        if let Some((_, foreign)) = &mut self.foreign {
            let removed = foreign.retain(|rule| same.contains(&rule.hash()));
            self.left(removed);
        }
        self.fit();
        for (key, entry) in loaded.bodies {
            if !self.cache.has_room_for(key, &entry) {
                break;
            }
            let inserted = self.cache.insert(key, &entry, position.time_ms);
            self.left(inserted.clicks);
        }
    }
}
