//! A radix tree of folders: which rules for whole folders a path is in, the longest folder first.
//!
//! One host's. A folder is a rule's path without the `/*` at its end: that of `/docs/*` is `/docs`, and that of `/*` is
//! the empty text. Nodes are in one list and know each other by their places in it, and the list has no holes: what is
//! left after a removal is what would be there if the folder had never been added. Nothing here recurses, and a path
//! costs its length, whatever is in it.

use std::iter;

#[cfg(test)]
mod tests;

/// What an allocation costs beside what was asked for.
const ALLOCATION: usize = 16;

/// Where a tree begins.
const ROOT: u32 = 0;

/// Values by folder.
///
/// ```
/// use tidegate_edge::worker::tree::Tree;
///
/// let mut tree = Tree::new();
/// tree.insert("", "all");
/// tree.insert("/docs", "docs");
/// assert_eq!(tree.matches("/docs/a").collect::<Vec<_>>(), [&"docs", &"all"]);
/// assert_eq!(tree.matches("/docsx").collect::<Vec<_>>(), [&"all"]);
/// ```
#[derive(Debug)]
pub struct Tree<V> {
    /// The root is the first, if there is anything. Every other has a value, or two children at least.
    nodes: Vec<Node<V>>,
    /// How many nodes have a value.
    values: usize,
    /// What labels and lists of children take.
    elsewhere: usize,
}

#[derive(Debug)]
struct Node<V> {
    /// What the folder has behind that of the parent. Empty for the root alone.
    label: Box<[u8]>,
    /// By the first byte of their labels, which all differ.
    children: Box<[Child]>,
    parent: u32,
    value: Option<V>,
}

#[derive(Debug, Clone, Copy)]
struct Child {
    first: u8,
    node: u32,
}

impl<V> Default for Tree<V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<V> Tree<V> {
    /// Without any folder, and without an allocation.
    pub const fn new() -> Self {
        Self { nodes: Vec::new(), values: 0, elsewhere: 0 }
    }

    /// How many folders there are.
    pub fn len(&self) -> usize {
        self.values
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.values == 0
    }

    /// All memory that it takes, less what values have elsewhere.
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + allocated::<Node<V>>(self.nodes.capacity()) + self.elsewhere
    }

    /// Puts a value at a folder, and gives back the one that was there.
    pub fn insert(&mut self, folder: &str, value: V) -> Option<V> {
        if self.nodes.is_empty() {
            self.push(Box::default(), ROOT);
        }
        let node = self.make(folder.as_bytes());
        let before = self.node_mut(node).value.replace(value);
        self.values += usize::from(before.is_none());
        before
    }

    /// Takes the value of a folder out.
    pub fn remove(&mut self, folder: &str) -> Option<V> {
        let node = self.find(folder.as_bytes())?;
        let value = self.node_mut(node).value.take()?;
        self.values -= 1;
        self.prune(node);
        Some(value)
    }

    /// The value of just this folder.
    pub fn get(&self, folder: &str) -> Option<&V> {
        self.node(self.find(folder.as_bytes())?).value.as_ref()
    }

    /// The values of all folders, in no order.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.nodes.iter().filter_map(|node| node.value.as_ref())
    }

    /// The values of all folders that a path is in, which is to be normalised, the longest folder first.
    pub fn matches<'a>(&'a self, path: &str) -> impl Iterator<Item = &'a V> {
        let path = path.as_bytes();
        let is_folder = move |end: usize| matches!(path.get(end), None | Some(b'/'));
        let mut next = self.deepest(path, is_folder);
        iter::from_fn(move || {
            while let Some((node, end)) = next {
                let it = self.node(node);
                next = (node != ROOT).then(|| (it.parent, end - it.label.len()));
                if let Some(value) = it.value.as_ref().filter(|_| is_folder(end)) {
                    return Some(value);
                }
            }
            None
        })
    }

    /// The last node on a path that has a value and ends where a folder may, and where that is.
    fn deepest(&self, path: &[u8], is_folder: impl Fn(usize) -> bool) -> Option<(u32, usize)> {
        let (mut node, mut end) = (ROOT, 0);
        let mut deepest = None;
        let mut it = self.nodes.first()?;
        loop {
            if it.value.is_some() && is_folder(end) {
                deepest = Some((node, end));
            }
            let Some(child) = it.child(&path[end..]) else { return deepest };
            it = self.node(child);
            if !path[end..].starts_with(&it.label) {
                return deepest;
            }
            (node, end) = (child, end + it.label.len());
        }
    }

    /// The node of just this folder, with a value or without.
    fn find(&self, mut folder: &[u8]) -> Option<u32> {
        let mut node = ROOT;
        let mut it = self.nodes.first()?;
        while !folder.is_empty() {
            node = it.child(folder)?;
            it = self.node(node);
            folder = folder.strip_prefix(&*it.label)?;
        }
        Some(node)
    }

    /// The node of just this folder, made if there is none.
    fn make(&mut self, mut folder: &[u8]) -> u32 {
        let mut node = ROOT;
        while let Some(first) = folder.first() {
            let Some(child) = self.node(node).child(folder) else {
                let leaf = self.push(folder.into(), node);
                self.adopt(node, Child { first: *first, node: leaf });
                return leaf;
            };
            let label = &*self.node(child).label;
            if let Some(rest) = folder.strip_prefix(label) {
                (node, folder) = (child, rest);
            } else {
                let common = label.iter().zip(folder).take_while(|(a, b)| a == b).count();
                node = self.split(child, common);
                folder = &folder[common..];
            }
        }
        node
    }

    /// Puts a node in front of another, with so much of its label, and says where it is.
    fn split(&mut self, node: u32, at: usize) -> u32 {
        let (front, back) = self.node(node).label.split_at(at);
        let (front, back): (Box<[u8]>, Box<[u8]>) = (front.into(), back.into());
        let child = Child { first: back[0], node };
        let parent = self.node(node).parent;
        let middle = self.push(front, parent);
        self.replace_child(parent, node, middle);
        self.set_label(node, back);
        self.node_mut(node).parent = middle;
        self.set_children(middle, [child].into());
        middle
    }

    /// Makes the tree as small as it can be around a node that has lost its value.
    fn prune(&mut self, node: u32) {
        if self.values == 0 {
            *self = Self::new();
            return;
        }
        match self.node(node).children.len() {
            _ if node == ROOT => {}
            0 => {
                let parent = self.node(node).parent;
                self.disown(parent, node);
                // Whatever is last takes the place of what leaves: that may be the parent.
                let parent = if self.release(node) == Some(parent) { node } else { parent };
                if parent != ROOT && self.node(parent).value.is_none() {
                    self.merge(parent);
                }
            }
            _ => self.merge(node),
        }
    }

    /// Takes a node without a value out from between its parent and its child, if that is its only one.
    fn merge(&mut self, node: u32) {
        let it = self.node(node);
        let [Child { node: child, .. }] = *it.children else { return };
        let parent = it.parent;
        let label = [&*it.label, &*self.node(child).label].concat();
        self.set_label(child, label.into());
        self.node_mut(child).parent = parent;
        self.replace_child(parent, node, child);
        self.release(node);
    }

    /// Takes a node, which nobody knows any more, out of the list. The last one takes its place; says which that was.
    fn release(&mut self, node: u32) -> Option<u32> {
        self.set_label(node, Box::default());
        self.set_children(node, Box::default());
        self.nodes.swap_remove(node as usize);
        if self.nodes.len() < self.nodes.capacity() / 2 {
            // With some room, so that the next insert does not copy all of them again.
            self.nodes.shrink_to(self.nodes.len() * 3 / 2);
        }
        let last = self.nodes.len() as u32;
        if last == node {
            return None;
        }
        self.replace_child(self.node(node).parent, last, node);
        for at in 0..self.node(node).children.len() {
            let child = self.node(node).children[at].node;
            self.node_mut(child).parent = node;
        }
        Some(last)
    }

    /// Places are 32 bits: more nodes than that would take hundreds of gigabytes.
    fn push(&mut self, label: Box<[u8]>, parent: u32) -> u32 {
        self.elsewhere += allocated::<u8>(label.len());
        self.nodes.push(Node { label, children: Box::default(), parent, value: None });
        self.nodes.len() as u32 - 1
    }

    fn adopt(&mut self, parent: u32, child: Child) {
        let mut children = Vec::with_capacity(self.node(parent).children.len() + 1);
        children.extend_from_slice(&self.node(parent).children);
        let at = children.partition_point(|it| it.first < child.first);
        children.insert(at, child);
        self.set_children(parent, children.into());
    }

    fn disown(&mut self, parent: u32, child: u32) {
        let left = self.node(parent).children.iter().filter(|it| it.node != child).copied().collect();
        self.set_children(parent, left);
    }

    fn replace_child(&mut self, parent: u32, child: u32, by: u32) {
        for it in &mut self.node_mut(parent).children {
            if it.node == child {
                it.node = by;
            }
        }
    }

    fn set_label(&mut self, node: u32, label: Box<[u8]>) {
        self.elsewhere += allocated::<u8>(label.len());
        let before = std::mem::replace(&mut self.node_mut(node).label, label);
        self.elsewhere -= allocated::<u8>(before.len());
    }

    fn set_children(&mut self, node: u32, children: Box<[Child]>) {
        self.elsewhere += allocated::<Child>(children.len());
        let before = std::mem::replace(&mut self.node_mut(node).children, children);
        self.elsewhere -= allocated::<Child>(before.len());
    }

    #[inline]
    fn node(&self, node: u32) -> &Node<V> {
        &self.nodes[node as usize]
    }

    fn node_mut(&mut self, node: u32) -> &mut Node<V> {
        &mut self.nodes[node as usize]
    }
}

impl<V> Node<V> {
    /// The child whose label may begin what is left of a path.
    #[inline]
    fn child(&self, rest: &[u8]) -> Option<u32> {
        let first = rest.first()?;
        let at = self.children.binary_search_by_key(first, |it| it.first).ok()?;
        Some(self.children[at].node)
    }
}

/// What so many items take in an allocation of their own.
const fn allocated<T>(items: usize) -> usize {
    if items == 0 { 0 } else { items * size_of::<T>() + ALLOCATION }
}
