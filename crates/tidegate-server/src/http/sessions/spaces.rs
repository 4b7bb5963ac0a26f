//! The spaces of sessions of a server, open or not yet.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use tidegate::Tidegate;
use tidegate::session::{SessionOptions, Sessions};
use tidegate::store::PartKind;

use crate::http::problem::Problem;
use crate::settings::{SessionSettings, SettingsError};

/// By name. What is open looks after its sessions in the background, so a space that
/// nobody has written down is opened by its first use.
#[derive(Debug, Default)]
pub(in crate::http) struct Spaces(BTreeMap<String, Space>);

#[derive(Debug)]
struct Space {
    options: SessionOptions,
    open: OnceLock<Sessions>,
}

impl Spaces {
    pub(in crate::http) fn open(gate: &Tidegate, all: &[SessionSettings]) -> Result<Self, SettingsError> {
        let space = |settings: &SessionSettings| {
            let open = match settings.is_implied {
                true => OnceLock::new(),
                false => settings.open(gate)?.into(),
            };
            Ok((settings.name.as_str().to_owned(), Space { options: settings.options.clone(), open }))
        };
        all.iter().map(space).collect::<Result<_, _>>().map(Self)
    }

    pub(in crate::http) fn get(&self, gate: &Tidegate, name: &str) -> Result<&Sessions, Problem> {
        let unknown = || Problem::unknown_space(name, self.0.keys().map(String::as_str));
        let find = |name: &str| self.0.get_key_value(name);
        let found = find(name).or_else(|| find(PartKind::Sessions.alias(name)?));
        let (name, space) = found.ok_or_else(unknown)?;
        if let Some(open) = space.open.get() {
            return Ok(open);
        }
        // Opened twice at once it is the same space.
        let opened = gate.sessions(name, space.options.clone())?;
        Ok(space.open.get_or_init(|| opened))
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (&str, &SessionOptions)> {
        self.0.iter().map(|(name, space)| (name.as_str(), &space.options))
    }
}
