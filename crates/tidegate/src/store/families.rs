//! Every family of keys that is written to Redis: what its keys are called, of what type they are
//! and which index lists them.
//!
//! This table is what `tidegate doctor` knows keys by, and `docs/redis-keys.md` is compared with it
//! by a test. Nothing else goes by it: rooms make their keys themselves.

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
    /// Of what kind of part they are; none for the marker.
    pub kind: Option<PartKind>,
    /// What `TYPE` answers for them.
    pub key_type: &'static str,
    /// The families that list them.
    pub listed_in: &'static [&'static str],
    /// Whether what is in such a key is looked at entry by entry, and how.
    pub(crate) entries: Option<&'static str>,
}

/// What keys of a kind of part start with, in patterns.
const fn root(kind: Option<PartKind>) -> &'static str {
    match kind {
        Some(PartKind::Limit) => "<prefix>:<limit>:",
        Some(PartKind::Runs) => "<run prefix>:",
        _ => "",
    }
}

const fn family(
    kind: PartKind,
    name: &'static str,
    pattern: &'static str,
    key_type: &'static str,
    listed_in: &'static [&'static str],
) -> Family {
    Family { name, pattern, kind: Some(kind), key_type, listed_in, entries: None }
}

/// One that lists others.
const fn index(kind: PartKind, name: &'static str, pattern: &'static str) -> Family {
    Family { entries: Some("ZSCAN"), ..family(kind, name, pattern, "zset", &[]) }
}

use PartKind::{Hot, Limit, Runs, Sessions};

const SETS: &[&str] = &["active_sessions", "disconnected_sessions", "claimed_sessions", "dead_sessions"];
const PAGES: &[&str] = &["hot:rank", "hot:due"];
const OF_RUN: &[&str] = &["<run prefix>:pipeline:<run>"];

/// All of them.
pub const FAMILIES: &[Family] = &[
    family(Limit, "absolute", "<prefix>:<limit>:absolute:h:<key>", "hash", &[]),
    family(Limit, "suppressed", "<prefix>:<limit>:suppressed:h:<key>", "hash", &[]),
    family(Limit, "token", "<prefix>:<limit>:token:<key>", "string", &[]),
    family(Limit, "calendar", "<prefix>:<limit>:<window>", "string", &[]),
    family(Limit, "calendar_of_key", "<prefix>:<limit>:<window>:<key>", "string", &[]),
    family(Limit, "beside", "<prefix>:<limit>:beside:<window>:<key>", "hash", &[]),
    family(Limit, "override", "<prefix>:<limit>:override:<key>", "string", &["<prefix>:<limit>:overrides"]),
    index(Limit, "overrides", "<prefix>:<limit>:overrides"),
    index(Limit, "pending", "<prefix>:<limit>:pending"),
    Family {
        entries: Some("HSCAN"),
        ..family(
            Limit,
            "reservations",
            "<prefix>:<limit>:reservations:<key>",
            "hash",
            &["<prefix>:<limit>:reservations_due:<key>", "<prefix>:<limit>:pending"],
        )
    },
    index(Limit, "reservations_due", "<prefix>:<limit>:reservations_due:<key>"),
    family(Limit, "hours", "<prefix>:<limit>:hours", "hash", &[]),
    family(Limit, "leases", "<prefix>:<limit>:leases:<key>", "hash", &[]),
    family(Hot, "activity", "activity:<page>", "string", &["hot:activities"]),
    family(Hot, "window", "hot:window:<page>", "zset", PAGES),
    family(Hot, "meta", "hot:meta:<page>", "hash", PAGES),
    family(Hot, "editors", "hot:editors:<page>", "list", PAGES),
    family(Hot, "hot_state", "hot:state", "hash", &[]),
    index(Hot, "activities", "hot:activities"),
    index(Hot, "due", "hot:due"),
    index(Hot, "rank", "hot:rank"),
    family(Hot, "events", "hot:events", "stream", &[]),
    family(Sessions, "session", "session:<uuid>", "hash", SETS),
    family(Sessions, "broadcaster", "broadcaster:<broadcaster>", "string", &[]),
    index(Sessions, "active", "active_sessions"),
    index(Sessions, "disconnected", "disconnected_sessions"),
    index(Sessions, "claimed", "claimed_sessions"),
    index(Sessions, "dead", "dead_sessions"),
    family(Sessions, "sessions_state", "sessions:state", "hash", &[]),
    family(Sessions, "ref_count", "ref_count:<uuid>", "string", &[]),
    family(
        Runs,
        "pipeline",
        "<run prefix>:pipeline:<run>",
        "hash",
        &["<run prefix>:runs:<state>", "<run prefix>:runs_due"],
    ),
    family(Runs, "fields", "<run prefix>:fields:<run>", "hash", OF_RUN),
    family(Runs, "processed", "<run prefix>:processed:<run>", "set", OF_RUN),
    family(Runs, "failures", "<run prefix>:failures:<run>", "hash", OF_RUN),
    family(Runs, "failed_at", "<run prefix>:failed_at:<run>", "zset", OF_RUN),
    family(Runs, "to_retry", "<run prefix>:to_retry:<run>", "zset", OF_RUN),
    family(Runs, "tasks", "<run prefix>:tasks:<run>", "hash", OF_RUN),
    family(
        Runs,
        "task_start",
        "<run prefix>:task_start:<run, escaped>:<task>",
        "string",
        &["<run prefix>:tasks:<run>"],
    ),
    family(Runs, "failed", "<run prefix>:failed:<hour>", "zset", &[]),
    index(Runs, "runs", "<run prefix>:runs:<state>"),
    index(Runs, "runs_due", "<run prefix>:runs_due"),
    Family {
        name: "marker",
        pattern: "tidegate:marker",
        kind: None,
        key_type: "hash",
        listed_in: &[],
        entries: None,
    },
];

impl Family {
    /// What a key is of, if it is of this family: the text in place of what differs, from the first
    /// on. `rest` is the key behind what all keys of its part start with.
    pub(crate) fn subject<'a>(&self, rest: &'a str) -> Option<&'a str> {
        let pattern = self.pattern.strip_prefix(root(self.kind)).unwrap_or(self.pattern);
        let Some(differs) = pattern.find('<') else {
            // Those of a space of hot pages that is spread have a number behind them.
            let number = rest.strip_prefix(pattern)?;
            let is_numbered = self.kind == Some(Hot)
                && number.strip_prefix(':').is_some_and(|it| it.parse::<u32>().is_ok());
            return (number.is_empty() || is_numbered).then_some(number);
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
    use super::*;

    fn found(kind: Option<PartKind>, rest: &str) -> Vec<(&'static str, &str)> {
        let of_kind = FAMILIES.iter().filter(|it| it.kind == kind);
        of_kind.filter_map(|it| Some((it.name, it.subject(rest)?))).collect()
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
            assert_eq!(found(Some(kind), rest), [(name, subject)], "{rest}");
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
            assert_eq!(found(Some(kind), rest), [], "{rest}");
        }
        assert_eq!(found(None, "tidegate:marker"), [("marker", "")]);
    }

    #[test]
    fn families_have_names_of_their_own_and_are_listed_where_there_is_something() {
        for (i, family) in FAMILIES.iter().enumerate() {
            assert!(FAMILIES[i + 1..].iter().all(|it| it.name != family.name), "{}", family.name);
            for listing in family.listed_in {
                assert!(FAMILIES.iter().any(|it| it.pattern == *listing), "{listing}");
            }
            assert!(family.pattern.starts_with(root(family.kind)), "{}", family.pattern);
        }
    }
}
