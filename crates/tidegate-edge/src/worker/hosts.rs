//! Hosts that have rules: what a request's host is looked up in before anything else. Of a host that is not here nothing
//! has to be hashed or asked for.

use std::sync::atomic::{AtomicU32, Ordering};

use hashbrown::HashMap;

use super::cache::Clicked;
use super::entry::Entry;
use super::key::HostHash;
use super::tree::Tree;
use crate::path::parents;

/// A rule for a folder. It is always resident.
#[derive(Debug)]
pub(crate) struct Folder {
    pub(crate) entry: Entry,
    clicks: AtomicU32,
}

impl Folder {
    pub(crate) fn new(entry: Entry) -> Self {
        Self { entry, clicks: AtomicU32::new(0) }
    }

    /// Counts a redirect.
    pub(crate) fn click(&self) {
        self.clicks.fetch_add(1, Ordering::Relaxed);
    }

    /// Redirects since they were last taken, if there were some.
    pub(crate) fn take_clicks(&self) -> Option<Clicked> {
        let clicks = u64::from(self.clicks.swap(0, Ordering::Relaxed));
        (clicks > 0).then(|| Clicked::by(&self.entry.view(), clicks))
    }
}

/// A host, as rules have it.
#[derive(Debug)]
pub(crate) struct Host {
    /// Its number here.
    pub(crate) id: u32,
    /// What its keys are hashed with.
    pub(crate) hash: HostHash,
    name: Box<str>,
    /// Rules for one path.
    pub(crate) exact: u32,
    /// Rules for a folder, in the tree or not.
    pub(crate) folders: u32,
    pub(crate) tree: Tree<Folder>,
    entry_bytes: usize,
}

impl Host {
    fn put(&mut self, folder: &str, rule: Folder) -> Option<Folder> {
        self.entry_bytes += rule.entry.bytes();
        let replaced = self.tree.insert(folder, rule);
        self.entry_bytes -= replaced.as_ref().map_or(0, |it| it.entry.bytes());
        replaced
    }

    fn take(&mut self, folder: &str) -> Option<Folder> {
        let taken = self.tree.remove(folder);
        self.entry_bytes -= taken.as_ref().map_or(0, |it| it.entry.bytes());
        taken
    }

    fn tree_bytes(&self) -> usize {
        self.tree.bytes() + self.entry_bytes
    }

    fn is_empty(&self) -> bool {
        self.exact == 0 && self.folders == 0
    }
}

/// All hosts that have rules.
#[derive(Debug, Default)]
pub(crate) struct Hosts {
    names: HashMap<Box<str>, u32>,
    /// `*.example.com`, by `example.com`.
    wildcards: HashMap<Box<str>, u32>,
    /// `*`.
    any: Option<u32>,
    all: Vec<Option<Host>>,
    free: Vec<u32>,
    name_bytes: usize,
    tree_bytes: usize,
    folders: usize,
}

/// Bytes of a name or a parent in a map, about: what is stored, and its share of the table.
const MAP_BYTES: usize = (size_of::<(Box<str>, u32)>() + 1) * 8 / 7;

impl Hosts {
    /// Those whose rules may answer a request to a host, nearest first.
    #[inline]
    pub(crate) fn candidates<'a>(&'a self, host: &'a str) -> impl Iterator<Item = &'a Host> {
        let own = self.names.get(host).copied();
        let wildcards = (!self.wildcards.is_empty())
            .then(|| parents(host).filter_map(|parent| self.wildcards.get(parent).copied()))
            .into_iter()
            .flatten();
        own.into_iter().chain(wildcards).chain(self.any).filter_map(|id| self.get(id))
    }

    #[inline]
    fn get(&self, id: u32) -> Option<&Host> {
        self.all.get(id as usize)?.as_ref()
    }

    /// The host of that name, as rules have it.
    pub(crate) fn find(&self, name: &str) -> Option<&Host> {
        self.id_of(name).and_then(|id| self.get(id))
    }

    fn id_of(&self, name: &str) -> Option<u32> {
        match name.strip_prefix("*.") {
            Some(parent) => self.wildcards.get(parent).copied(),
            None if name == "*" => self.any,
            None => self.names.get(name).copied(),
        }
    }

    fn set_id(&mut self, name: &str, id: Option<u32>) {
        let (map, name) = match name.strip_prefix("*.") {
            Some(parent) => (&mut self.wildcards, parent),
            None if name == "*" => {
                self.any = id;
                return;
            }
            None => (&mut self.names, name),
        };
        match id {
            Some(id) => drop(map.insert(name.into(), id)),
            None => drop(map.remove(name)),
        }
    }

    /// The host of that name, new if it has to be.
    fn add(&mut self, name: &str, hash: HostHash) -> &mut Host {
        let id = self.id_of(name).unwrap_or_else(|| {
            let id = self.free.pop().unwrap_or_else(|| {
                self.all.push(None);
                (self.all.len() - 1) as u32
            });
            self.set_id(name, Some(id));
            self.name_bytes += 2 * name.len() + MAP_BYTES;
            id
        });
        let tree_bytes = &mut self.tree_bytes;
        self.all[id as usize].get_or_insert_with(|| {
            let tree = Tree::new();
            *tree_bytes += tree.bytes();
            Host { id, hash, name: name.into(), exact: 0, folders: 0, tree, entry_bytes: 0 }
        })
    }

    /// Changes the host of that name, and forgets it if it has no rules then.
    fn change<R>(&mut self, name: &str, change: impl FnOnce(&mut Host) -> R) -> Option<R> {
        let id = self.id_of(name)?;
        let host = self.all.get_mut(id as usize)?.as_mut()?;
        let before = host.tree_bytes();
        let result = change(host);
        self.tree_bytes = self.tree_bytes + host.tree_bytes() - before;
        if host.is_empty() {
            self.tree_bytes -= host.tree_bytes();
            self.name_bytes -= 2 * name.len() + MAP_BYTES;
            self.all[id as usize] = None;
            self.set_id(name, None);
            self.free.push(id);
        }
        Some(result)
    }

    /// There is one more rule for one path of that host. The host's number.
    pub(crate) fn add_exact(&mut self, name: &str, hash: HostHash) -> u32 {
        let host = self.add(name, hash);
        host.exact += 1;
        host.id
    }

    /// There is one fewer.
    pub(crate) fn remove_exact(&mut self, name: &str) {
        self.change(name, |host| host.exact = host.exact.saturating_sub(1));
    }

    /// Puts a rule for a folder into its tree, if the trees have no more than `max_bytes` then; whether they have not. The
    /// one that was there is what is returned.
    pub(crate) fn insert_folder(
        &mut self,
        name: &str,
        hash: HostHash,
        folder: &str,
        is_new: bool,
        max_bytes: usize,
        entry: impl FnOnce(u32) -> Entry,
    ) -> (bool, Option<Folder>) {
        let left = max_bytes.saturating_sub(self.tree_bytes);
        self.folders += usize::from(is_new);
        let host = self.add(name, hash);
        host.folders += u32::from(is_new);
        let id = host.id;
        let inserted = self.change(name, |host| {
            let before = host.tree_bytes();
            let replaced = host.put(folder, Folder::new(entry(id)));
            if host.tree_bytes() <= before + left {
                return (true, replaced);
            }
            // What does not fit is not kept: what is in the tree is then known not to be all.
            host.take(folder);
            (false, replaced)
        });
        inserted.unwrap_or((false, None))
    }

    /// A rule for a folder is gone.
    pub(crate) fn remove_folder(&mut self, name: &str, folder: &str) -> Option<Folder> {
        self.folders = self.folders.saturating_sub(1);
        self.change(name, |host| {
            host.folders = host.folders.saturating_sub(1);
            host.take(folder)
        })
        .flatten()
    }

    /// Every rule for a folder that is in a tree.
    pub(crate) fn each_folder(&self) -> impl Iterator<Item = &Folder> {
        self.all.iter().flatten().flat_map(|host| host.tree.values())
    }

    /// One without rules, in which hosts have the numbers that they have here.
    pub(crate) fn empty_with_ids(&self) -> Self {
        let mut hosts = Self::default();
        hosts.all.resize_with(self.all.len(), || None);
        let taken: Vec<_> = self.all.iter().map(Option::is_some).collect();
        for host in self.all.iter().flatten() {
            hosts.set_id(&host.name, Some(host.id));
            hosts.name_bytes += 2 * host.name.len() + MAP_BYTES;
        }
        hosts.free = (0..taken.len() as u32).filter(|id| !taken[*id as usize]).collect();
        hosts
    }

    /// Forgets hosts that got no rules since [`empty_with_ids`](Self::empty_with_ids).
    pub(crate) fn forget_empty(&mut self) {
        let is_empty = |all: &[Option<Host>], id: u32| all.get(id as usize).is_none_or(Option::is_none);
        let (all, free) = (&self.all, &mut self.free);
        for (map, extra) in [(&mut self.names, 0), (&mut self.wildcards, 2)] {
            map.retain(|name, id| {
                let is_kept = !is_empty(all, *id);
                if !is_kept {
                    free.push(*id);
                    self.name_bytes -= 2 * (name.len() + extra) + MAP_BYTES;
                }
                is_kept
            });
        }
        if let Some(id) = self.any.filter(|id| is_empty(all, *id)) {
            self.any = None;
            self.free.push(id);
            self.name_bytes -= 2 + MAP_BYTES;
        }
    }

    /// Rules for folders.
    pub(crate) fn folders(&self) -> usize {
        self.folders
    }

    pub(crate) fn tree_bytes(&self) -> usize {
        self.tree_bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.names.is_empty() && self.wildcards.is_empty() && self.any.is_none()
    }

    /// Without the trees.
    pub(crate) fn bytes(&self) -> usize {
        self.name_bytes + self.all.capacity() * size_of::<Option<Host>>() + self.free.capacity() * 4
    }
}
