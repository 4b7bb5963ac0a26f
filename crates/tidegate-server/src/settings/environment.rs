//! Settings from the environment: `TIDEGATE_`, the path in capitals, `__` between
//! its levels; and names that older programs have for some of them.

use std::collections::BTreeMap;

use super::SettingsError;
use super::names::{did_you_mean, known_like, refused};
use super::raw::{Node as _, Refused};
use crate::parts::{About, EdgeSettings, RawSettings, SingleOptions as _, Variable};

const PREFIX: &str = "TIDEGATE_";

/// Names the file; a source and no setting.
pub(super) const CONFIG: &str = "TIDEGATE_CONFIG";

/// Short for the settings that are set most.
const SHORT: [(&str, &str); 2] = [("TIDEGATE_STORE", "store__url"), ("TIDEGATE_RULES", "rules__url")];

/// The variables of an environment that say something, by name. An empty one is as good as none: so a file of Compose, or a
/// shell, says that nothing was given.
pub(super) fn said(environment: &BTreeMap<String, String>) -> BTreeMap<&str, &str> {
    environment
        .iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| (&**name, &**value))
        .collect()
}

pub(super) fn apply(raw: &mut RawSettings, environment: &BTreeMap<&str, &str>) -> Result<(), SettingsError> {
    for (&variable, &value) in environment {
        let Some(name) = variable.strip_prefix(PREFIX) else { continue };
        if variable == CONFIG || is_of_kubernetes(name, value) {
            continue;
        }
        let short = SHORT.iter().find(|(short, _)| variable == *short);
        let lower = short.map_or_else(|| name.to_lowercase(), |(_, path)| (*path).to_owned());
        let mut path: Vec<_> = lower.split("__").collect();
        let name = spelt_as_configured(raw, &path);
        if let Some(name) = &name {
            path[1] = name;
        }
        let unknown = || {
            let known = known_like(&path).iter().map(|path| variable_of(path)).collect();
            format!("unknown setting `{variable}` in the environment{}", did_you_mean(variable, known))
        };
        raw.set(&path, value).map_err(|it| refused(it, variable, &path.join("."), unknown))?;
    }
    Ok(())
}

/// What older programs have in their environment: of all parts of a kind that are written down
/// anywhere, or of the one that there is if none are. Whether there was any.
pub(super) fn apply_names_of_others(
    raw: &mut RawSettings,
    environment: &BTreeMap<&str, &str>,
) -> Result<bool, SettingsError> {
    let mut is_any = false;
    for About { group, implied, environment: known, .. } in About::all() {
        for Variable { name, setting, unit } in *known {
            let Some(value) = environment.get(*name) else { continue };
            is_any = true;
            let mut parts: Vec<String> = raw.names(&[group]).into_iter().cloned().collect();
            if parts.is_empty() {
                parts.push((*implied).to_owned());
            }
            for part in &parts {
                let path = [group, part.as_str()].into_iter().chain(setting.split('.'));
                set_by_name_of_others(raw, name, &path.collect::<Vec<_>>(), &format!("{value}{unit}"))?;
            }
        }
    }
    // Any program may have such names: they are those of a worker only if there is one.
    let of_edge = if raw.edge.listen.is_set() { EdgeSettings::ENVIRONMENT } else { &[] };
    for Variable { name, setting, unit } in of_edge {
        let Some(value) = environment.get(*name) else { continue };
        is_any = true;
        set_by_name_of_others(raw, name, &[EdgeSettings::GROUP, setting], &format!("{value}{unit}"))?;
    }
    Ok(is_any)
}

fn set_by_name_of_others(
    raw: &mut RawSettings,
    name: &str,
    path: &[&str],
    value: &str,
) -> Result<(), SettingsError> {
    raw.set(path, value).map_err(|refused| {
        let reason = match refused {
            Refused::Value(reason) => reason,
            Refused::Group | Refused::Unknown => format!("there is no setting {}", path.join(".")),
        };
        SettingsError(format!("`{name}`: {reason}"))
    })
}

fn variable_of(path: &str) -> String {
    format!("{PREFIX}{}", path.replace('.', "__").replace('-', "_").to_uppercase())
}

/// A variable's name has no `-`: a limit or a space that is written with one is meant
/// by `_`, unless another is written so.
fn spelt_as_configured(raw: &RawSettings, path: &[&str]) -> Option<String> {
    let [group, name, ..] = *path else { return None };
    let known = raw.names(&[group]);
    if known.iter().any(|known| *known == name) {
        return None;
    }
    known.into_iter().find(|known| known.replace('-', "_") == name).cloned()
}

/// Beside a service called `tidegate`, Kubernetes gives every container
/// `TIDEGATE_PORT=tcp://…` and its relatives. They are no misspelt settings.
fn is_of_kubernetes(name: &str, value: &str) -> bool {
    name == "SERVICE_HOST"
        || name.starts_with("SERVICE_PORT")
        || (name == "PORT" && value.contains("://"))
        || name.strip_prefix("PORT_").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}
