//! One part as it is set: its name and its options.

use std::collections::BTreeMap;

use tidegate::store::PartKind;
use tidegate::{Name, Tidegate};

use super::{About, PartOptions, Unknown};
use crate::settings::SettingsError;

/// A limit or a space, as it is set.
#[derive(Debug, Clone)]
pub struct Named<O> {
    /// Its name.
    pub name: Name,
    /// What it is.
    pub options: O,
    /// Whether nobody has written it down.
    pub is_implied: bool,
}

#[allow(private_bounds, reason = "only this crate makes kinds of parts")]
impl<O: PartOptions> Named<O> {
    /// All of a kind; the implied one if there are none.
    pub(super) fn read_all(mut raw: BTreeMap<String, O::Raw>) -> Result<Vec<Self>, SettingsError> {
        let is_implied = raw.is_empty();
        if is_implied {
            raw.insert(O::ABOUT.implied.to_owned(), O::Raw::default());
        }
        one_name_each(O::ABOUT, &raw)?;
        raw.into_iter().map(|(name, raw)| Self::read(&name, raw, is_implied)).collect()
    }

    pub(super) fn read(name: &str, raw: O::Raw, is_implied: bool) -> Result<Self, SettingsError> {
        let group = O::ABOUT.group;
        let checked = Name::new(name).map_err(|error| SettingsError(format!("`{group}`: {error}")))?;
        Ok(Self { name: checked, options: O::read(name, raw)?, is_implied })
    }

    /// The one of `all` that is called `name`.
    pub(crate) fn find<'a>(all: &'a [Self], name: &str) -> Result<&'a Self, Unknown> {
        let unknown = || Unknown::new(O::ABOUT, name, all.iter().map(|it| it.name.as_str()));
        all.iter().find(|it| it.is_called(name)).ok_or_else(unknown)
    }

    pub(super) fn kind(&self) -> PartKind {
        O::ABOUT.kind
    }

    /// Whether it is called `name`, by either name if it has two.
    pub(crate) fn is_called(&self, name: &str) -> bool {
        O::ABOUT.kind.is_same(self.name.as_str(), name)
    }

    /// The part, on an open store.
    pub(crate) fn open(&self, gate: &Tidegate) -> Result<O::Open, SettingsError> {
        let (group, name) = (O::ABOUT.group, self.name.as_str());
        let opened = self.options.open(gate, name);
        opened.map_err(|error| SettingsError(format!("`{group}.{name}`: {error}")))
    }
}

/// Refuses a space that is written down twice, by either of its names: which of the two is
/// meant nobody could know.
fn one_name_each<T>(about: &About, spaces: &BTreeMap<String, T>) -> Result<(), SettingsError> {
    let About { kind, group, .. } = about;
    let twice = spaces
        .keys()
        .find_map(|name| spaces.get_key_value(kind.alias(name)?).map(|(other, _)| (name, other)));
    let Some((name, other)) = twice else { return Ok(()) };
    Err(SettingsError(format!(
        "`{group}.{name}` and `{group}.{other}` are one space by two names, on the same keys: write down one of them"
    )))
}
