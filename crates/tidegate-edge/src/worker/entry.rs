//! A rule as the worker keeps it: one text, and nothing else on the heap.
//!
//! Half a million to a million of them are what a worker's memory goes to, so all of a rule that answers do not need
//! (tags, note, versions, the time of the last change) is left out, and numbers take as many bytes as they have digits. The
//! text is valid UTF-8 whatever numbers are in it, so what is sent is a slice of it that nobody has to look through.

mod digits;
mod view;

use std::fmt;

pub use self::view::View;
use self::view::{Flags, Numbers};
use super::size_class::size_class;
use crate::rule::Rule;
use crate::truth::Digest;

/// A rule, prepared to answer.
#[derive(Clone, PartialEq, Eq)]
pub struct Entry(Box<str>);

impl Entry {
    /// A rule of the host that the worker knows by that number. `hash` is that of its version.
    pub fn new(rule: &Rule, host: u32, hash: Digest) -> Self {
        rule.terms.prepared(|parts| {
            let numbers = Numbers {
                flags: Flags::of(parts),
                host,
                path_len: parts.path.len(),
                destination_len: parts.destination.len(),
                id_len: rule.id.len(),
                fallback_len: parts.fallback.map_or(0, str::len),
                starts_at: parts.life.starts_at.unwrap_or_default(),
                expires_at: parts.life.expires_at.unwrap_or_default(),
                max_clicks: parts.life.max_clicks.unwrap_or_default(),
                max_age: parts.max_age.unwrap_or_default(),
            };
            let front = numbers.to_text();
            let mut behind = String::with_capacity(2 * digits::MAX_LEN);
            digits::push(&mut behind, hash.first_half());
            digits::push(&mut behind, rule.created_at);
            let texts = [
                &*front,
                parts.path,
                parts.destination,
                parts.fallback.unwrap_or_default(),
                &rule.id,
                &behind,
            ];
            // To the byte: with room to spare the allocator would be asked for more than is accounted for.
            let mut text = String::with_capacity(texts.iter().map(|it| it.len()).sum());
            texts.iter().for_each(|it| text.push_str(it));
            Self(text.into_boxed_str())
        })
    }

    /// All of it, to be read.
    #[inline]
    pub fn view(&self) -> View<'_> {
        View::of(&self.0)
    }

    pub(crate) fn text(&self) -> &str {
        &self.0
    }

    /// What it takes on the heap, as the allocator rounds it.
    #[inline]
    pub fn bytes(&self) -> usize {
        size_class(self.0.len())
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.view().fmt(f)
    }
}

#[cfg(test)]
mod tests;
