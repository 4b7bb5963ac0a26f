//! What a limit or a space is, as it is declared in the store.
//!
//! Everybody who opens a part says by which settings, in a field of the first partition's
//! marker: so that whoever comes with others can say so, and a command line needs no
//! settings of its own. The settings are texts by the names that a configuration has for
//! them, exact enough to open the part again.
//!
//! This module knows the text and who may change it; [`declarer`](super::declarer) talks
//! to the store.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::PartKind;
use super::default_space::DEFAULT_SPACE;
use crate::clock::Timestamp;
use crate::key::Name;

/// What to do when a part is declared with other settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Declarations {
    /// Say so, and replace the declaration.
    #[default]
    Replace,
    /// Leave it: [`Tidegate::declare`](crate::Tidegate::declare) fails.
    Strict,
    /// Leave it, and declare nothing: for who only has a question.
    ReadOnly,
}

/// Settings by name, as text.
pub type DeclaredSettings = BTreeMap<String, String>;

/// A limit or a space, and what it is.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Part {
    /// What it is.
    pub kind: PartKind,
    /// Its name.
    pub name: Name,
    /// Those of its settings that all who share it must agree about.
    pub settings: DeclaredSettings,
}

impl Part {
    pub(crate) fn new<const N: usize>(
        kind: PartKind,
        name: &Name,
        settings: [(&'static str, String); N],
    ) -> Self {
        let settings = settings.into_iter().map(|(setting, value)| (setting.to_owned(), value)).collect();
        Self { kind, name: name.clone(), settings }
    }

    /// The field of the marker.
    pub(super) fn field(&self) -> String {
        format!("{FIELDS}{}:{}", self.kind.as_str(), self.kind.stored_name(self.name.as_str()))
    }

    /// Whether a field is about a space that was called `main` when that was a name like others.
    pub(super) fn is_former_main(field: &str) -> bool {
        let of = |kind: &PartKind| format!("{FIELDS}{}:{DEFAULT_SPACE}", kind.as_str());
        PartKind::ALL.iter().any(|kind| kind.name_of(DEFAULT_SPACE).is_none() && field == of(kind))
    }

    /// The two of a field's name.
    pub(super) fn of_field(field: &str) -> Option<(PartKind, Name)> {
        let (kind, name) = field.strip_prefix(FIELDS)?.split_once(':')?;
        let kind = PartKind::ALL.into_iter().find(|it| it.as_str() == kind)?;
        Some((kind, Name::new(kind.name_of(name)?).ok()?))
    }
}

/// What fields with declarations start with.
pub(super) const FIELDS: &str = "declared:";

/// The form of the text; a later one may have more to say.
const VERSION: u64 = 1;

/// Who has other settings than the declared ones counts for so long after the last sign.
const OTHERS_LAST: Duration = Duration::from_secs(3600);

/// Who has other settings gives that sign so often.
const OTHERS_SIGN: Duration = Duration::from_secs(600);

/// A declaration is marked as used so often.
const USED_EVERY: Duration = Duration::from_secs(24 * 3600);

/// A declaration that nobody has used for so long leaves.
pub(super) const UNUSED: Duration = Duration::from_secs(90 * 24 * 3600);

/// Settings other than the declared ones that are remembered, at most.
const MAX_OTHERS: usize = 4;

/// A part as the store knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Declaration {
    /// What it is.
    pub kind: PartKind,
    /// Its name.
    pub name: Name,
    /// By what settings.
    pub settings: DeclaredSettings,
    /// Who declared it: host and process.
    pub by: String,
    /// When.
    pub at: Timestamp,
    /// When it was last known to be in use, give or take a day.
    pub used: Timestamp,
    /// Who has it open with other settings, as far as they have told within the hour.
    pub others: Vec<Other>,
}

/// Settings other than the declared ones that somebody uses.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Other {
    /// The settings.
    pub settings: DeclaredSettings,
    /// Whose.
    pub by: String,
    /// When they were last known to be in use.
    pub used: Timestamp,
}

impl Declaration {
    fn new(part: &Part, by: &str, now: Timestamp, others: Vec<Other>) -> Self {
        let Part { kind, name, settings } = part.clone();
        Self { kind, name, settings, by: by.to_owned(), at: now, used: now, others }
    }

    pub(super) fn parse(kind: PartKind, name: Name, text: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(text).ok()?;
        let others = value["others"].as_array().map(Vec::as_slice).unwrap_or_default();
        Some(Self {
            kind,
            name,
            settings: settings(&value["settings"])?,
            by: value["by"].as_str()?.to_owned(),
            at: moment(&value["at_ms"])?,
            used: moment(&value["used_ms"])?,
            others: others.iter().map(other).collect::<Option<_>>()?,
        })
    }

    pub(super) fn text(&self) -> String {
        let other =
            |it: &Other| json!({"settings": it.settings, "by": it.by, "used_ms": it.used.as_millis()});
        let mut value = json!({
            "version": VERSION,
            "settings": self.settings,
            "by": self.by,
            "at_ms": self.at.as_millis(),
            "used_ms": self.used.as_millis(),
        });
        if !self.others.is_empty() {
            value["others"] = self.others.iter().map(other).collect();
        }
        value.to_string()
    }

    /// That of a field of the first marker, if it is one that can be read.
    pub(crate) fn of_field(field: &str, text: &str) -> Option<Self> {
        let (kind, name) = Part::of_field(field)?;
        Self::parse(kind, name, text)
    }

    /// All settings that somebody uses, other than `own`.
    pub(crate) fn beside(&self, own: &DeclaredSettings, now: Timestamp) -> Vec<DeclaredSettings> {
        let others = self.others.iter().filter(|it| it.is_used(now)).map(|it| &it.settings);
        [&self.settings].into_iter().chain(others).filter(|it| *it != own).cloned().collect()
    }

    /// Those who are still there, without the ones of `settings`.
    fn others_but(&self, settings: &DeclaredSettings, now: Timestamp) -> Vec<Other> {
        let stays = |it: &&Other| it.is_used(now) && it.settings != *settings;
        self.others.iter().filter(stays).cloned().collect()
    }
}

impl Other {
    pub(crate) fn is_used(&self, now: Timestamp) -> bool {
        is_within(self.used, now, OTHERS_LAST)
    }
}

/// Whether `then` was no longer ago than that. A time ahead is from a clock that was wrong,
/// and counts.
fn is_within(then: Timestamp, now: Timestamp, lasting: Duration) -> bool {
    now.as_millis().saturating_sub(then.as_millis()) < lasting.as_millis() as u64
}

fn settings(value: &Value) -> Option<DeclaredSettings> {
    let text = |(name, value): (&String, &Value)| Some((name.clone(), value.as_str()?.to_owned()));
    value.as_object().into_iter().flat_map(Map::iter).map(text).collect()
}

fn moment(value: &Value) -> Option<Timestamp> {
    value.as_u64().map(Timestamp::from_millis)
}

fn other(value: &Value) -> Option<Other> {
    Some(Other {
        settings: settings(&value["settings"])?,
        by: value["by"].as_str()?.to_owned(),
        used: moment(&value["used_ms"])?,
    })
}

/// What whoever has a part open makes of what is declared.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing is to be written.
    Agreed,
    /// Others have replaced it, or it must not be replaced.
    Differs,
    /// This is to be written: because there is nothing, or as a sign of use.
    Note(Declaration),
    /// This replaces what is there.
    Replace(Declaration),
}

/// The next step for `part`, which was just opened or is open already.
pub(super) fn step(
    part: &Part,
    declared: Option<&Declaration>,
    policy: Declarations,
    is_new: bool,
    by: &str,
    now: Timestamp,
) -> Step {
    let is_read_only = policy == Declarations::ReadOnly;
    let Some(declared) = declared else {
        return if is_read_only {
            Step::Agreed
        } else {
            Step::Note(Declaration::new(part, by, now, Vec::new()))
        };
    };
    if declared.settings == part.settings {
        if is_read_only || is_within(declared.used, now, USED_EVERY) {
            return Step::Agreed;
        }
        let others = declared.others_but(&part.settings, now);
        return Step::Note(Declaration { used: now, others, ..declared.clone() });
    }
    if is_read_only {
        return Step::Differs;
    }
    if is_new && policy == Declarations::Replace {
        let mut others = declared.others_but(&part.settings, now);
        let theirs = declared.settings.clone();
        others.insert(0, Other { settings: theirs, by: declared.by.clone(), used: now });
        others.truncate(MAX_OTHERS);
        return Step::Replace(Declaration::new(part, by, now, others));
    }
    // A server that runs does not write its settings back: it only says that it is there.
    let own = declared.others.iter().find(|it| it.settings == part.settings);
    if own.is_some_and(|own| is_within(own.used, now, OTHERS_SIGN)) {
        return Step::Differs;
    }
    let mut others = declared.others_but(&part.settings, now);
    others.insert(0, Other { settings: part.settings.clone(), by: by.to_owned(), used: now });
    others.truncate(MAX_OTHERS);
    Step::Note(Declaration { others, ..declared.clone() })
}

/// What replaces `declared` because somebody asked for it.
pub(super) fn replacement(part: &Part, declared: Option<&Declaration>, by: &str, now: Timestamp) -> Step {
    match declared {
        Some(declared) if declared.settings == part.settings => Step::Agreed,
        declared => match step(part, declared, Declarations::Replace, true, by, now) {
            Step::Note(it) => Step::Replace(it),
            step => step,
        },
    }
}

/// How two differ, for people: `window 4s instead of 2s`.
pub struct Differences<'a> {
    /// What is declared.
    pub declared: &'a DeclaredSettings,
    /// What differs from it.
    pub own: &'a DeclaredSettings,
}

impl fmt::Display for Differences<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: std::collections::BTreeSet<_> = self.declared.keys().chain(self.own.keys()).collect();
        let mut comma = "";
        for name in names {
            let (declared, own) = (self.declared.get(name), self.own.get(name));
            if declared != own {
                let text = |it: Option<&String>| it.map_or("none", String::as_str).to_owned();
                write!(f, "{comma}{name} {} declared, {} here", text(declared), text(own))?;
                comma = "; ";
            }
        }
        Ok(())
    }
}

/// A length of time with the largest unit that has a whole number of it.
pub(crate) fn duration_text(duration: Duration) -> String {
    let nanos = duration.as_nanos();
    let units = [
        ("d", 86_400_000_000_000),
        ("h", 3_600_000_000_000),
        ("m", 60_000_000_000),
        ("s", 1_000_000_000),
        ("ms", 1_000_000),
        ("us", 1000),
    ];
    match units.into_iter().find(|(_, unit)| nanos > 0 && nanos.is_multiple_of(*unit)) {
        Some((name, unit)) => format!("{}{name}", nanos / unit),
        None => format!("{nanos}ns"),
    }
}

/// The length of time of such a text.
pub(crate) fn duration_of(text: &str) -> Option<Duration> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().ok()?;
    let of = |nanos: u64| number.checked_mul(nanos).map(Duration::from_nanos);
    match unit {
        "d" => of(86_400_000_000_000),
        "h" => of(3_600_000_000_000),
        "m" => of(60_000_000_000),
        "s" => of(1_000_000_000),
        "ms" => of(1_000_000),
        "us" => of(1000),
        "ns" => of(1),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600_000;

    fn part(window: &str) -> Part {
        Part::new(PartKind::Hot, &Name::new("pages").unwrap(), [("window_duration", window.to_owned())])
    }

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_millis(1_700_000_000_000 + ms)
    }

    fn written(step: Step) -> Declaration {
        match step {
            Step::Note(it) | Step::Replace(it) => it,
            step => panic!("{step:?}"),
        }
    }

    #[test]
    fn a_declaration_is_read_as_it_was_written() {
        let mut declared = Declaration::new(&part("1h"), "host:7", at(5), Vec::new());
        declared.others = vec![Other { settings: part("2h").settings, by: "a\"b".to_owned(), used: at(3) }];
        let read = Declaration::parse(declared.kind, declared.name.clone(), &declared.text());
        assert_eq!(read, Some(declared));
        let (kind, name) = Part::of_field(&part("1h").field()).unwrap();
        assert_eq!((kind, name.as_str()), (PartKind::Hot, "main"), "whoever wrote it, by either name");
    }

    #[test]
    fn who_comes_with_others_replaces_once_and_who_runs_only_gives_a_sign() {
        let (old, new, policy) = (part("24h"), part("1h"), Declarations::Replace);
        let first = written(step(&old, None, policy, true, "a:1", at(0)));
        assert_eq!(step(&old, Some(&first), policy, true, "a:2", at(1)), Step::Agreed);
        let second = written(step(&new, Some(&first), policy, true, "b:1", at(1000)));
        assert_eq!((&second.settings, second.by.as_str()), (&new.settings, "b:1"));
        // The one that was counts as used from then on, and says so itself after a while.
        assert_eq!(step(&old, Some(&second), policy, false, "a:1", at(2000)), Step::Differs);
        let sign = written(step(&old, Some(&second), policy, false, "a:1", at(HOUR / 2)));
        assert_eq!(sign.settings, new.settings, "it does not write back");
        assert_eq!(sign.beside(&new.settings, at(HOUR)), std::slice::from_ref(&old.settings));
        assert_eq!(sign.beside(&new.settings, at(2 * HOUR)), [], "who is gone for an hour does not count");
    }

    #[test]
    fn strict_and_read_only_leave_what_is_declared() {
        let first = written(step(&part("24h"), None, Declarations::Strict, true, "a:1", at(0)));
        let sign = written(step(&part("1h"), Some(&first), Declarations::Strict, true, "b:1", at(0)));
        assert_eq!(sign.settings, first.settings);
        assert_eq!(step(&part("1h"), Some(&first), Declarations::ReadOnly, true, "b", at(0)), Step::Differs);
        assert_eq!(step(&part("1h"), None, Declarations::ReadOnly, true, "b", at(0)), Step::Agreed);
    }

    #[test]
    fn use_is_noted_once_a_day() {
        let first = written(step(&part("1h"), None, Declarations::Replace, true, "a:1", at(0)));
        let next = |ms| step(&part("1h"), Some(&first), Declarations::Replace, false, "b:1", at(ms));
        assert_eq!(next(23 * HOUR), Step::Agreed);
        let noted = written(next(24 * HOUR));
        assert_eq!((noted.used, noted.at, noted.by.as_str()), (at(24 * HOUR), at(0), "a:1"));
    }

    #[test]
    fn lengths_of_time_are_read_as_they_were_written() {
        for ms in [0, 1, 999, 1000, 60_000, 90_000, 3_600_000, 86_400_000, 86_400_001] {
            let duration = Duration::from_millis(ms);
            assert_eq!(duration_of(&duration_text(duration)), Some(duration), "{ms}");
        }
        assert_eq!(duration_text(Duration::from_secs(90)), "90s");
    }
}
