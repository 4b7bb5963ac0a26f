//! Declared limits and spaces, as far as their keys are concerned.

use super::declared::Declared;
use super::part_keys::{Bounds, PartKeys};
use crate::key::escape;
use crate::store::keyspace::Keyspace;
use crate::store::redis::Script;
use crate::store::{Declaration, Family};

/// A limit or a space, under one of the prefixes that it is used with.
pub(super) struct Part {
    keys: &'static dyn PartKeys,
    /// What its keys start with, behind what those of their partition do.
    root: String,
    bounds: Bounds,
    /// Over how many partitions of its own it is spread, if it is a space of hot pages.
    spread: u32,
}

/// What a key is.
pub(super) struct Known<'a> {
    pub(super) part: usize,
    pub(super) family: &'static Family,
    pub(super) subject: &'a str,
}

/// Which part a key is of, and which family: `rest` is what is behind that of its partition.
pub(super) fn find<'a>(parts: &[Part], rest: &'a str) -> Option<Known<'a>> {
    parts.iter().enumerate().find_map(|(number, part)| {
        let rest = rest.strip_prefix(&part.root)?;
        let root = part.keys.root();
        let mut families = part.keys.families().iter();
        let (family, subject) = families.find_map(|family| Some((family, family.subject(root, rest)?)))?;
        Some(Known { part: number, family, subject })
    })
}

impl Part {
    /// All that a declaration is about: one, or one for each prefix that somebody uses.
    pub(super) fn all(declaration: &Declaration, partitions: u32, slack_ms: u64) -> Vec<Self> {
        let declared = Declared::new(declaration, partitions, slack_ms);
        let keys = declaration.kind.keys();
        let prefixes = declared.settings.iter().map(|it| it.get("prefix").map(|it| escape(it)));
        let mut roots: Vec<_> =
            prefixes.flat_map(|it| keys.roots(&declaration.name, &it.unwrap_or_default())).collect();
        roots.sort();
        roots.dedup();
        let spread = declared.greatest("partitions").clamp(1, 64) as u32;
        roots.into_iter().map(|root| Self { keys, root, bounds: keys.bounds(&declared), spread }).collect()
    }

    /// What it is looked at by.
    pub(super) fn script(&self) -> &'static Script {
        self.keys.script()
    }

    /// What the indices end in that a key of it is in.
    pub(super) fn suffix(&self, family: &Family, subject: &str) -> String {
        self.keys.suffix(self.spread, family, subject)
    }

    /// What a script that looks at it is told: the keys that all items share, and the arguments in
    /// front of what is to be done.
    pub(super) fn call(
        &self,
        keyspace: &Keyspace,
        partition: u32,
        suffix: &str,
        time: String,
        is_mending: bool,
    ) -> (Vec<String>, Vec<String>) {
        let root = format!("{}{}", keyspace.prefix(partition), self.root);
        let (shared, texts) = self.keys.shared(&root);
        let mut keys = vec![keyspace.marker(partition)];
        keys.extend(shared);
        let Bounds { life_ms, span_ms, numbers } = &self.bounds;
        let mut args = vec![time];
        args.extend(numbers.iter().map(u64::to_string));
        args.extend(texts);
        let is_mending = if is_mending { "1" } else { "0" };
        args.extend([
            is_mending.to_owned(),
            life_ms.to_string(),
            root,
            suffix.to_owned(),
            span_ms.to_string(),
        ]);
        (keys, args)
    }
}
