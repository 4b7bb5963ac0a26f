//! Families of keys that are written to Redis: what their keys are called, of what type they are and which index lists
//! them. Each room has its own in its keys.rs.
//!
//! They are what `tidegate doctor` knows keys by, and `docs/redis-keys.md` is compared with them by a test. Nothing else
//! goes by them: rooms make their keys themselves.

use crate::PartKind;

/// Keys of one form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Family {
    /// One word, by which scripts know it.
    pub name: &'static str,
    /// The form of its keys behind namespace and hash tag, and behind `spaces:<space>:` for spaces
    /// that are not the default one. What is between angle brackets differs from key to key.
    pub pattern: &'static str,
    /// What `TYPE` answers for them.
    pub key_type: &'static str,
    /// The families that list them.
    pub listed_in: &'static [&'static str],
    /// Whether what is in such a key is looked at entry by entry, and how.
    pub(crate) entries: Option<&'static str>,
    /// Whether a key of no subject may have the number of a partition behind it.
    pub(crate) is_numbered: bool,
}

/// All of them: those of every kind of part, and the marker.
pub fn families() -> impl Iterator<Item = &'static Family> {
    // Those of a quota are limits'.
    let kinds = PartKind::ALL.iter().filter(|kind| **kind != PartKind::Quota);
    kinds.flat_map(|kind| kind.keys().families()).chain([&MARKER])
}

/// The one that is of no part.
pub(crate) static MARKER: Family = Family::new("marker", "tidegate:marker", "hash", &[]);

impl Family {
    pub(crate) const fn new(
        name: &'static str,
        pattern: &'static str,
        key_type: &'static str,
        listed_in: &'static [&'static str],
    ) -> Self {
        Self { name, pattern, key_type, listed_in, entries: None, is_numbered: false }
    }

    /// One that lists others, by a number each.
    pub(crate) const fn index(name: &'static str, pattern: &'static str) -> Self {
        Self::new(name, pattern, "zset", &[]).with_entries("ZSCAN")
    }

    pub(crate) const fn with_entries(self, command: &'static str) -> Self {
        Self { entries: Some(command), ..self }
    }

    pub(crate) const fn numbered(self) -> Self {
        Self { is_numbered: true, ..self }
    }

    /// Of what kind of part they are; none for the marker.
    pub fn kind(&self) -> Option<PartKind> {
        let has = |kind: &PartKind| kind.keys().families().iter().any(|it| it.name == self.name);
        PartKind::ALL.into_iter().find(has)
    }

    /// What a key is of, if it is of this family: the text in place of what differs, from the first
    /// on. `root` is what patterns of its kind start with, and `rest` the key behind that.
    pub(crate) fn subject<'a>(&self, root: &str, rest: &'a str) -> Option<&'a str> {
        let pattern = self.pattern.strip_prefix(root)?;
        let Some(differs) = pattern.find('<') else {
            let number = rest.strip_prefix(pattern)?;
            let is_number =
                || self.is_numbered && number.strip_prefix(':').is_some_and(|it| it.parse::<u32>().is_ok());
            return (number.is_empty() || is_number()).then_some(number);
        };
        let subject = rest.strip_prefix(&pattern[..differs])?;
        matches(&pattern[differs..], subject).then_some(subject)
    }
}

/// Whether a text has the form of the end of a pattern.
fn matches(pattern: &str, text: &str) -> bool {
    let (first, more) = pattern.split_once(">:").map_or((pattern, None), |(first, more)| (first, Some(more)));
    let first = first.trim_start_matches('<').trim_end_matches('>');
    let (text, rest) = match more {
        None => (text, None),
        // All but the last are escaped, and so have no colon.
        Some(_) => match text.split_once(':') {
            Some((text, rest)) => (text, Some(rest)),
            None => return false,
        },
    };
    let fits = match first {
        "window" => is_moment(text),
        "hour" => text.len() == "2024-09-17_14".len() && is_moment(text),
        "state" => crate::run::RunState::ALL.iter().any(|state| state.as_str() == text),
        _ => true,
    };
    fits && more.zip(rest).is_none_or(|(pattern, rest)| matches(pattern, rest))
}

/// A day, an hour or a minute, as a calendar limit calls it.
fn is_moment(text: &str) -> bool {
    let form = "dddd-dd-dd_dd-dd";
    let fits = |(c, form): (char, char)| if form == 'd' { c.is_ascii_digit() } else { c == form };
    [10, 13, 16].contains(&text.len()) && text.chars().zip(form.chars()).all(fits)
}

#[cfg(test)]
mod tests {
    use PartKind::{Hot, Limit, Runs, Sessions};

    use super::*;

    fn found(kind: PartKind, rest: &str) -> Vec<(&'static str, &str)> {
        let keys = kind.keys();
        keys.families().iter().filter_map(|it| Some((it.name, it.subject(keys.root(), rest)?))).collect()
    }

    #[test]
    fn a_key_is_of_one_family_whatever_its_subject_is_called() {
        for (kind, rest, name, subject) in [
            (Limit, "absolute:h:a:b", "absolute", "a:b"),
            (Limit, "absolute:h:", "absolute", ""),
            (Limit, "2024-09-17_14", "calendar", "2024-09-17_14"),
            (Limit, "2024-09-17:token:x", "calendar_of_key", "2024-09-17:token:x"),
            (Limit, "beside:2024-09-17_14-30:", "beside", "2024-09-17_14-30:"),
            (Limit, "overrides", "overrides", ""),
            (Limit, "override:overrides", "override", "overrides"),
            (Hot, "activity:hot:rank", "activity", "hot:rank"),
            (Hot, "hot:rank", "rank", ""),
            (Hot, "hot:rank:3", "rank", ":3"),
            (Hot, "hot:window:hot:rank", "window", "hot:rank"),
            (Sessions, "session:", "session", ""),
            (Runs, "pipeline:a:b", "pipeline", "a:b"),
            (Runs, "task_start:a%3Ab:c:d", "task_start", "a%3Ab:c:d"),
            (Runs, "failed:2024-09-17_14", "failed", "2024-09-17_14"),
            (Runs, "runs:paused", "runs", "paused"),
        ] {
            assert_eq!(found(kind, rest), [(name, subject)], "{rest}");
        }
        for (kind, rest) in [
            (Limit, "absolute:x"),
            (Limit, "2024-09-17_1"),
            (Limit, "2024"),
            (Limit, "overrides:a"),
            (Hot, "hot:rank:x"),
            (Hot, "hot:ranks"),
            (Sessions, "active_sessions:1"),
            (Runs, "runs:deleted"),
            (Runs, "failed:2024-09-17"),
            (Runs, "task_start:a"),
        ] {
            assert_eq!(found(kind, rest), [], "{rest}");
        }
        assert_eq!(MARKER.subject("", "tidegate:marker"), Some(""));
    }

    #[test]
    fn families_have_names_of_their_own_and_are_listed_where_there_is_something() {
        let all: Vec<_> = families().collect();
        for (i, family) in all.iter().enumerate() {
            assert!(all[i + 1..].iter().all(|it| it.name != family.name), "{}", family.name);
            for listing in family.listed_in {
                assert!(all.iter().any(|it| it.pattern == *listing), "{listing}");
            }
        }
        for keys in PartKind::ALL.map(PartKind::keys) {
            assert!(keys.families().iter().all(|it| it.pattern.starts_with(keys.root())));
        }
    }
}
