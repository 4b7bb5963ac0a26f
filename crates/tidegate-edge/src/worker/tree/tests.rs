use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::path;

/// What a tree promises, the naive way.
#[derive(Default)]
struct Naive(BTreeMap<String, u32>);

impl Naive {
    fn matches(&self, path: &str) -> Vec<u32> {
        let in_it = self.0.iter().filter(|(folder, _)| path::path_matches(&format!("{folder}/*"), path));
        let mut found: Vec<_> = in_it.map(|(folder, value)| (folder.len(), *value)).collect();
        found.sort_by_key(|(len, _)| std::cmp::Reverse(*len));
        found.into_iter().map(|(_, value)| value).collect()
    }
}

impl<V> Tree<V> {
    /// Everything that a tree is to be, beside what it answers.
    fn check(&self) {
        assert_eq!(self.nodes.iter().filter(|it| it.value.is_some()).count(), self.values);
        let elsewhere =
            |it: &Node<V>| allocated::<u8>(it.label.len()) + allocated::<Child>(it.children.len());
        assert_eq!(self.nodes.iter().map(elsewhere).sum::<usize>(), self.elsewhere);
        assert!(self.nodes.len() <= 2 * self.values, "{} nodes for {} values", self.nodes.len(), self.values);
        let mut children = 0;
        for (at, it) in self.nodes.iter().enumerate() {
            assert_eq!(it.label.is_empty(), at == 0);
            assert!(at == 0 || it.value.is_some() || it.children.len() >= 2, "a node for nothing");
            assert!(it.children.is_sorted_by_key(|it| it.first));
            children += it.children.len();
            for child in &it.children {
                let node = self.node(child.node);
                assert_eq!((node.parent as usize, node.label[0]), (at, child.first));
            }
        }
        assert_eq!(
            children,
            self.nodes.len().saturating_sub(1),
            "every node but the root is somebody's child"
        );
    }
}

fn matches(tree: &Tree<u32>, path: &str) -> Vec<u32> {
    tree.matches(path).copied().collect()
}

#[test]
fn a_folder_is_itself_and_all_below_it() {
    let mut tree = Tree::new();
    for (value, folder) in
        ["", "/do", "/docs", "/docsx", "/docs/a", "/docs/", "/", "/docs//"].into_iter().enumerate()
    {
        assert_eq!(tree.insert(folder, value as u32), None);
        tree.check();
    }
    for (path, expected) in [
        ("/", &[6, 0][..]),
        ("//", &[6, 0]),
        ("/a", &[0]),
        ("/d", &[0]),
        ("/do", &[1, 0]),
        ("/doc", &[0]),
        ("/docs", &[2, 0]),
        ("/docs/", &[5, 2, 0]),
        ("/docs//", &[7, 5, 2, 0]),
        ("/docs///", &[7, 5, 2, 0]),
        ("/docs/a", &[4, 2, 0]),
        ("/docs/ab", &[2, 0]),
        ("/docs/a/b", &[4, 2, 0]),
        ("/docsx/a", &[3, 0]),
        ("/Docs", &[0]),
    ] {
        assert_eq!(matches(&tree, path), expected, "{path}");
    }
    assert_eq!(tree.get("/docs"), Some(&2));
    assert_eq!(tree.get("/doc"), None, "a node, but no folder");
    assert_eq!(tree.insert("/docs", 9), Some(2));
    assert_eq!(tree.remove("/docs"), Some(9));
    assert_eq!(tree.remove("/docs"), None);
    assert_eq!(matches(&tree, "/docs/b"), [5, 0][1..]);
    assert_eq!(tree.len(), 7);
}

/// Folders and paths of few letters, so that they begin alike, in and between segments.
fn texts() -> impl Strategy<Value = String> {
    let piece = select(vec!["/", "/", "/", "d", "do", "docs", "x", "a", "b", "%2F", "."]);
    vec(piece, 0..8).prop_map(|pieces| {
        let path = path::normalised(&format!("/{}", pieces.concat())).unwrap().into_owned();
        path.strip_suffix("/*").unwrap_or(&path).to_owned()
    })
}

/// A rule's path ends in `/*`; what is before that is a folder, and may be nothing.
fn folders() -> impl Strategy<Value = String> {
    prop_oneof![1 => Just(String::new()), 20 => texts()]
}

#[derive(Debug, Clone)]
enum Op {
    Insert(String, u32),
    Remove(prop::sample::Index),
    RemoveAbsent(String),
}

fn ops() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (folders(), any::<u32>()).prop_map(|(folder, value)| Op::Insert(folder, value)),
        3 => any::<prop::sample::Index>().prop_map(Op::Remove),
        1 => folders().prop_map(Op::RemoveAbsent),
    ]
}

proptest! {
    #[test]
    fn it_answers_as_a_list_of_folders_does(ops in vec(ops(), 1..120), paths in vec(texts(), 1..24)) {
        let (mut tree, mut naive) = (Tree::new(), Naive::default());
        let start = tree.bytes();
        for op in ops {
            match op {
                Op::Insert(folder, value) => {
                    prop_assert_eq!(tree.insert(&folder, value), naive.0.insert(folder, value));
                }
                Op::Remove(_) if naive.0.is_empty() => {}
                Op::Remove(which) => {
                    let folder = naive.0.keys().nth(which.index(naive.0.len())).unwrap().clone();
                    prop_assert_eq!(tree.remove(&folder), naive.0.remove(&folder));
                }
                Op::RemoveAbsent(folder) => prop_assert_eq!(tree.remove(&folder), naive.0.remove(&folder)),
            }
            tree.check();
            prop_assert_eq!(tree.len(), naive.0.len());
            for path in paths.iter().chain(naive.0.keys()) {
                prop_assert_eq!(matches(&tree, path), naive.matches(path), "{}", path);
                prop_assert_eq!(tree.get(path), naive.0.get(path));
            }
        }
        for (folder, value) in &naive.0 {
            prop_assert_eq!(tree.remove(folder), Some(*value));
            tree.check();
        }
        prop_assert!(tree.nodes.is_empty());
        prop_assert_eq!(tree.bytes(), start);
    }
}

/// Time is not asserted: what is quadratic takes minutes here, and what recurses has no stack for it.
#[test]
fn hostile_paths_cost_their_length() {
    const LONG: usize = 64 * 1024;
    const APART: usize = 64;
    let (slashes, letters) = ("/".repeat(LONG), format!("/{}", "a".repeat(LONG)));
    let mut tree = Tree::new();
    for end in (0..LONG).step_by(APART) {
        tree.insert(&slashes[..end], end as u32);
        tree.insert(&letters[..=end], end as u32);
    }
    tree.check();
    for _ in 0..200 {
        assert_eq!(tree.matches(&slashes).count(), LONG / APART + 1, "and a single slash");
        assert_eq!(tree.insert(&letters, 1), None);
        assert_eq!(matches(&tree, &letters), [1, 0], "of all that begin alike two are folders of it");
        assert_eq!(tree.remove(&letters), Some(1));
    }
    for end in (0..LONG).step_by(APART) {
        tree.remove(&slashes[..end]);
        tree.remove(&letters[..=end]);
    }
    assert_eq!(tree.bytes(), Tree::<u32>::new().bytes());
}

#[test]
fn memory_follows_what_is_there() {
    let mut tree = Tree::new();
    let folder = |it: u32| format!("/{}/{it}", it % 100);
    for it in 0..10_000 {
        tree.insert(&folder(it), it);
    }
    let full = tree.bytes();
    for it in 0..9_000 {
        tree.remove(&folder(it));
    }
    tree.check();
    println!("{} bytes per folder, then {} of a tenth", full / 10_000, tree.bytes() / 1_000);
    assert!(tree.bytes() < full / 4, "{} of {full} bytes for a tenth of the folders", tree.bytes());
}
