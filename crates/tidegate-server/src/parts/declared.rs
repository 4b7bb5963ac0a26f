//! Settings that the store declares: for parts that nobody has written down here.

use tidegate::store::{Declaration, DeclaredSettings, Part};

use super::{Named, PartOptions, PartSettings};
use crate::settings::SettingsError;
use crate::settings::raw::{Node, Refused};

impl PartSettings {
    /// What nobody has written down here, and others have declared, is as they declare it.
    pub fn adopt(&mut self, declared: &[Declaration]) -> Result<(), SettingsError> {
        self.set(declared, |was_implied| was_implied == Some(true))?;
        self.adopt_beside(declared, false)
    }

    /// What is written down here, and beside it only what is declared.
    pub fn only_declared(&mut self, declared: &[Declaration]) -> Result<(), SettingsError> {
        self.retain(|_, _, is_implied| !is_implied);
        self.set(declared, |was_implied| was_implied.is_none())?;
        self.adopt_beside(declared, true)
    }

    /// Whether this version knows all of what is declared.
    pub fn can_read(declared: &Declaration) -> bool {
        let mut none = Self::default();
        let is_part = none.set(std::slice::from_ref(declared), |_| true).is_ok()
            && none.has(declared.kind, declared.name.as_str());
        is_part || Self::reads_beside(declared)
    }
}

#[allow(private_bounds, reason = "only this crate makes kinds of parts")]
impl<O: PartOptions> Named<O> {
    /// Sets what is declared of such parts, if it shall be: by whether one of the same name is implied.
    pub(super) fn set(
        all: &mut Vec<Self>,
        declared: &[Declaration],
        shall_be: impl Fn(Option<bool>) -> bool,
    ) -> Result<(), SettingsError> {
        for declared in declared.iter().filter(|it| it.kind == O::ABOUT.kind) {
            let (group, name) = (O::ABOUT.group, declared.name.as_str());
            let was = all.iter().position(|it| it.is_called(name));
            if !shall_be(was.map(|at| all[at].is_implied)) {
                continue;
            }
            let raw = read_declared(&format!("{group}.{name}"), &declared.settings)?;
            let named = Self::read(name, raw, true)?;
            match was {
                Some(at) => all[at] = named,
                None => all.push(named),
            }
        }
        Ok(())
    }

    /// What is written down of such parts, as it is declared.
    pub(super) fn written(all: &[Self]) -> Vec<Part> {
        let written = all.iter().filter(|it| !it.is_implied);
        let parts = |it: &Self| [vec![it.options.declared(&it.name)], it.options.declared_beside()].concat();
        written.flat_map(parts).collect()
    }
}

/// Settings of a group as they are declared: like those of any other source.
pub(crate) fn read_declared<R: Node + Default>(
    path: &str,
    settings: &DeclaredSettings,
) -> Result<R, SettingsError> {
    let mut raw = R::default();
    for (setting, value) in settings {
        raw.set(&[setting], value).map_err(|refused| {
            let reason = match refused {
                Refused::Value(reason) => reason,
                Refused::Unknown | Refused::Group => {
                    format!("{value:?} is declared, and this version has no such setting")
                }
            };
            SettingsError(format!("`{path}.{setting}`, as the store declares it: {reason}"))
        })?;
    }
    Ok(raw)
}
