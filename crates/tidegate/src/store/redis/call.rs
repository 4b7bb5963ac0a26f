//! One call of a script, put together piece by piece.

use std::sync::Arc;

use compact_str::{CompactString, ToCompactString};
use smallvec::SmallVec;

use super::items::Joining;
use super::script::Script;

/// What most calls have of each needs no allocation: one key, as many numbers as a take sends.
pub(crate) type Keys = SmallVec<[String; 1]>;
pub(crate) type Args = SmallVec<[CompactString; 3]>;

/// A script run for one item, or for several. Calls of one item travel together with others of
/// their kind; one of several items travels alone and is answered as a list.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(super) script: &'static Script,
    /// What all items of all calls of a kind share.
    pub(super) shared_keys: Arc<[String]>,
    pub(super) shared_args: Arc<[CompactString]>,
    pub(super) items: usize,
    /// Whether it has as many arguments as it likes, and so no company.
    pub(super) is_alone: bool,
    /// How it becomes one item with others on the same keys, if it does.
    pub(super) joining: Option<&'static Joining>,
    /// Those of each item, one item after the other; as many for each.
    pub(super) item_keys: Keys,
    pub(super) item_args: Args,
    /// The time a test set.
    pub(super) now_ms: Option<u64>,
}

impl Call {
    /// A call for one item, of which nothing is known yet.
    pub(crate) fn new(script: &'static Script) -> Self {
        Self {
            script,
            shared_keys: Arc::default(),
            shared_args: Arc::default(),
            items: 1,
            is_alone: false,
            joining: None,
            item_keys: Keys::new(),
            item_args: Args::new(),
            now_ms: None,
        }
    }

    pub(crate) fn shared_keys(mut self, keys: Arc<[String]>) -> Self {
        self.shared_keys = keys;
        self
    }

    pub(crate) fn shared_args(mut self, args: Arc<[CompactString]>) -> Self {
        self.shared_args = args;
        self
    }

    /// How many items the keys and arguments that follow are of.
    pub(crate) fn items(mut self, items: usize) -> Self {
        self.items = items;
        self
    }

    /// Its arguments are as many as they are: other calls of its kind may have more or fewer, so it
    /// travels without them.
    pub(crate) fn alone(mut self) -> Self {
        self.is_alone = true;
        self
    }

    /// Of several on the same keys that wait together one item is made.
    pub(crate) fn joining(mut self, joining: &'static Joining) -> Self {
        self.joining = Some(joining);
        self
    }

    pub(crate) fn key(mut self, key: String) -> Self {
        self.item_keys.push(key);
        self
    }

    pub(crate) fn keys(mut self, keys: impl IntoIterator<Item = String>) -> Self {
        self.item_keys.extend(keys);
        self
    }

    pub(crate) fn arg(mut self, arg: impl ToCompactString) -> Self {
        self.item_args.push(arg.to_compact_string());
        self
    }

    pub(crate) fn args(mut self, args: impl IntoIterator<Item = CompactString>) -> Self {
        self.item_args.extend(args);
        self
    }

    pub(super) fn travels_with(&self, other: &Self) -> bool {
        self.items == 1
            && other.items == 1
            && !self.is_alone
            && !other.is_alone
            && std::ptr::eq(self.script, other.script)
            // Mostly the same allocation.
            && (Arc::ptr_eq(&self.shared_args, &other.shared_args) || self.shared_args == other.shared_args)
            && (Arc::ptr_eq(&self.shared_keys, &other.shared_keys) || self.shared_keys == other.shared_keys)
            && self.now_ms == other.now_ms
    }

    /// Whether the two are one item: they travel together anyway.
    pub(super) fn is_joined_with(&self, other: &Self) -> bool {
        let is_same = |(one, other): (&Joining, &Joining)| std::ptr::eq(one, other);
        self.joining.zip(other.joining).is_some_and(is_same) && self.item_keys == other.item_keys
    }

    /// The keys of the call as people may look for them: the first, and what is beside it. Of
    /// several items only the first is named, which is made of the same names.
    pub(super) fn named_keys(&self) -> String {
        let count = if self.items == 1 { self.item_keys.len() } else { 1 };
        let mut keys = self.item_keys.iter().take(count).chain(self.shared_keys.iter());
        let first = keys.next().map_or("", String::as_str);
        let beside: Vec<_> = keys.map(|key| format!("{key:?}")).collect();
        let with = if beside.is_empty() { "" } else { " with " };
        format!("{first:?}{with}{}", beside.join(", "))
    }
}
