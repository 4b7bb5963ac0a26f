//! Settings from the command line.

use super::names::{did_you_mean, known_like, refused};
use super::raw::Node as _;
use super::{Flag, SettingsError};
use crate::parts::RawSettings;

pub(super) fn apply(raw: &mut RawSettings, flags: &[Flag]) -> Result<(), SettingsError> {
    flags.iter().try_for_each(|flag| set(raw, flag))
}

fn set(raw: &mut RawSettings, flag: &Flag) -> Result<(), SettingsError> {
    let Flag { given_as, path, value } = flag;
    let segments: Vec<_> = path.split('.').collect();
    let written = if *given_as == "--set" { format!("--set {path}") } else { (*given_as).to_owned() };
    let unknown = || format!("unknown setting `{path}`{}", did_you_mean(path, known_like(&segments)));
    raw.set(&segments, value).map_err(|it| refused(it, &written, path, unknown))
}
