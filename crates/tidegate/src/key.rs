//! Names: what a user calls a thing, and what Redis calls it.
//!
//! In a Redis key exactly one component is the user's own text, and it is the
//! last; all others are escaped. So two different inputs never make the same
//! key, and nothing a user writes can choose a cluster slot.

use std::fmt::Write as _;

use crate::error::{Error, Result};

/// The subject of a call: a user, an address, a page. Not empty, at most 255
/// bytes; colons and braces are fine.
///
/// ```
/// use tidegate::Key;
/// assert!(Key::new("user:{42}").is_ok());
/// assert!(Key::new("").is_err());
/// assert!(Key::new(&"x".repeat(256)).is_err());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key<'a>(&'a str);

/// The longest key, in bytes.
pub const MAX_KEY_BYTES: usize = 255;

impl<'a> Key<'a> {
    /// No subject at all: what everyone shares.
    pub const EVERYONE: Key<'static> = Key("");

    /// Checks `text`.
    #[inline]
    pub fn new(text: &'a str) -> Result<Self> {
        if text.is_empty() || text.len() > MAX_KEY_BYTES {
            return Err(refused(text));
        }
        Ok(Self(text))
    }

    /// A text that has been a key before.
    pub(crate) fn raw(text: &'a str) -> Self {
        Self(text)
    }

    /// The text.
    #[inline]
    pub fn as_str(self) -> &'a str {
        self.0
    }
}

#[cold]
fn refused(text: &str) -> Error {
    if text.is_empty() {
        return Error::invalid("a key must not be empty: 1 to 255 bytes are allowed");
    }
    let start: String = text.chars().take(20).collect();
    Error::invalid(format!(
        "the key starting with {start:?} has {} bytes: 1 to {MAX_KEY_BYTES} are allowed",
        text.len()
    ))
}

/// The name of a limit, a space, a namespace: it becomes part of Redis keys,
/// URLs, metric labels and environment variables.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(String);

impl Name {
    /// Checks `text`: 1 to 64 of `a-z`, `0-9`, `_` and `-`, starting with a letter.
    pub fn new(text: &str) -> Result<Self> {
        let fits = (1..=64).contains(&text.len())
            && text.starts_with(|c: char| c.is_ascii_lowercase())
            && text.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-'));
        if !fits {
            return Err(Error::invalid(format!(
                "the name {text:?} is not allowed: 1 to 64 of a-z, 0-9, _ and -, starting with a letter"
            )));
        }
        Ok(Self(text.to_owned()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What keys without a namespace start with, of all rooms: limits by their default prefixes,
/// hot pages, sessions and markers. A namespace of that name would make the same keys as
/// somebody's own text, and so would a prefix.
pub(crate) const FAMILIES: [&str; 14] = [
    "trypema",
    "tidegate",
    "courtlistener",
    "activity",
    "hot",
    "spaces",
    "session",
    "broadcaster",
    "ref_count",
    "sessions",
    "active_sessions",
    "disconnected_sessions",
    "claimed_sessions",
    "dead_sessions",
];

/// Those of them that limits may have: as prefixes they are limits' own.
const PREFIXES: [&str; 3] = ["trypema", "tidegate", "courtlistener"];

/// Refuses a namespace that is the start of other keys.
pub(crate) fn check_namespace(namespace: &Name) -> Result<()> {
    if !FAMILIES.contains(&namespace.as_str()) {
        return Ok(());
    }
    Err(Error::config(format!(
        "the namespace {:?} is what keys start with: all names but {} are allowed",
        namespace.as_str(),
        FAMILIES.join(", ")
    )))
}

/// Refuses a prefix of a limit that is the start of keys of another room.
pub(crate) fn check_prefix(prefix: &str) -> Result<()> {
    if PREFIXES.contains(&prefix) || !FAMILIES.contains(&prefix) {
        return Ok(());
    }
    let others: Vec<_> = FAMILIES.into_iter().filter(|it| !PREFIXES.contains(it)).collect();
    Err(Error::invalid(format!(
        "the prefix {prefix:?} is what keys of hot pages or sessions start with: all but {} are allowed",
        others.join(", ")
    )))
}

/// Escapes a component that is not the last of a Redis key: what separates
/// (`:`), what chooses a slot (`{`, `}`) and what escapes (`%`).
pub(crate) fn escape(component: &str) -> String {
    let mut escaped = String::with_capacity(component.len());
    for c in component.chars() {
        match c {
            ':' | '{' | '}' | '%' => {
                // Writing to a String cannot fail.
                let _ = write!(escaped, "%{:02X}", c as u32);
            }
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escaped_components_cannot_separate_or_choose_a_slot() {
        assert_eq!(escape("a:{b}%"), "a%3A%7Bb%7D%25");
        assert_ne!(escape("a:b"), escape("a%3Ab"));
    }

    #[test]
    fn names_fit_everywhere_they_are_used() {
        for good in ["api", "a", "per-minute", "a_1"] {
            assert!(Name::new(good).is_ok(), "{good}");
        }
        for bad in ["", "1a", "Api", "a:b", "a{b", "ä", &"a".repeat(65)] {
            assert!(Name::new(bad).is_err(), "{bad}");
        }
    }
}
