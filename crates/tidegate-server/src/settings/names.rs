//! The names of settings, as flags have them, and what may have been meant by a wrong one.

use super::raw::{self, Node as _, Refused};
use super::{Flag, SettingsError};
use crate::parts::{About, RawSettings};

impl Flag {
    pub(super) fn apply(&self, raw: &mut RawSettings) -> Result<(), SettingsError> {
        let Self { given_as, path, value } = self;
        let segments: Vec<_> = path.split('.').collect();
        let written = if *given_as == "--set" { format!("--set {path}") } else { (*given_as).to_owned() };
        let unknown = || format!("unknown setting `{path}`{}", did_you_mean(path, known_like(&segments)));
        raw.set(&segments, value).map_err(|it| refused(it, &written, path, unknown))
    }
}

/// What to say where a group was set and not a setting in it.
fn group(path: &str) -> String {
    let below = match path {
        "limits" => "limits.api.rate".to_owned(),
        path => {
            let known = known_like(&path.split('.').collect::<Vec<_>>());
            let inside = format!("{path}.");
            known.into_iter().find(|name| name.starts_with(&inside)).unwrap_or_default()
        }
    };
    format!("that is a group of settings: name one of them, like `{below}`")
}

/// What to say of a setting, given as `written`, that could not be set at `path`; `unknown` if there is none.
pub(super) fn refused(
    refused: Refused,
    written: &str,
    path: &str,
    unknown: impl Fn() -> String,
) -> SettingsError {
    SettingsError(match refused {
        Refused::Value(reason) => format!("`{written}`: {reason}"),
        Refused::Group => format!("`{written}`: {}", group(path)),
        Refused::Unknown => unknown(),
    })
}

/// All paths, with the limit or the space that `segments` name where one is named.
pub(super) fn known_like(segments: &[&str]) -> Vec<String> {
    let named = |family: &str, default: &'static str| match segments {
        [first, name, ..] if *first == family && !name.is_empty() => (*name).to_owned(),
        _ => default.to_owned(),
    };
    let names: Vec<_> = About::all()
        .map(|About { group, implied, .. }| {
            (format!("{group}.NAME."), format!("{group}.{}.", named(group, implied)))
        })
        .collect();
    let with_name =
        |path: String| names.iter().fold(path, |path, (general, own)| path.replacen(general, own, 1));
    raw::list().into_iter().map(|(path, _)| with_name(path)).collect()
}

pub(super) fn did_you_mean(wrong: &str, known: Vec<String>) -> String {
    nearest(wrong, known.iter().map(String::as_str))
        .map(|near| format!(": did you mean `{near}`?"))
        .unwrap_or_default()
}

/// The most similar of `known`.
pub(super) fn nearest<'a>(wrong: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known.into_iter().min_by_key(|name| strsim::osa_distance(wrong, name))
}
