//! Settings that the store declares: for parts that nobody has written down here.

use tidegate::store::{Declaration, DeclaredSettings, Part, PartKind};

use super::{About, Named, PartOptions, PartSettings};
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
        self.each_mut().into_iter().for_each(|settings| settings.retain(&|_, is_implied| !is_implied));
        self.set(declared, |was_implied| was_implied.is_none())?;
        self.adopt_beside(declared, true)
    }

    fn adopt_beside(&mut self, declared: &[Declaration], is_all: bool) -> Result<(), SettingsError> {
        self.each_mut().into_iter().try_for_each(|settings| settings.adopt_beside(declared, is_all))
    }

    /// Whether this version knows all of what is declared.
    pub fn can_read(declared: &Declaration) -> bool {
        let mut none = Self::default();
        let is_part = none.set(std::slice::from_ref(declared), |_| true).is_ok()
            && none.has(declared.kind, declared.name.as_str());
        is_part || none.each().iter().any(|settings| settings.reads_beside(declared))
    }

    /// Sets what is declared, if it shall be: by whether one of the same name is implied.
    fn set(
        &mut self,
        declared: &[Declaration],
        shall_be: impl Fn(Option<bool>) -> bool,
    ) -> Result<(), SettingsError> {
        for settings in self.each_mut() {
            let kind = settings.about().kind;
            for found in declared.iter().filter(|it| it.kind == kind) {
                if shall_be(settings.is_implied(found.name.as_str())) {
                    settings.set(found)?;
                }
            }
        }
        Ok(())
    }

    /// What is written down, as it is declared.
    pub fn written(&self) -> Vec<Part> {
        self.each().iter().flat_map(|settings| settings.written()).collect()
    }

    /// Whether there is such a part.
    pub fn has(&self, kind: PartKind, name: &str) -> bool {
        self.each().iter().any(|it| it.about().kind == kind && it.is_implied(name).is_some())
    }
}

/// What is set of the parts of one kind, whichever that is.
pub(super) trait AnySettings {
    fn about(&self) -> &'static About;

    /// Whether nobody has written down the one called `name`; none if there is none.
    fn is_implied(&self, name: &str) -> Option<bool>;

    /// As it is declared, instead of what it was if it was anything.
    fn set(&mut self, declared: &Declaration) -> Result<(), SettingsError>;

    /// By the name of each, and whether it is implied.
    fn retain(&mut self, is_kept: &dyn Fn(&str, bool) -> bool);

    fn written(&self) -> Vec<Part>;

    /// Whether it is of what comes with such a part, and this version knows all of it.
    fn reads_beside(&self, declared: &Declaration) -> bool;

    fn adopt_beside(&mut self, declared: &[Declaration], is_all: bool) -> Result<(), SettingsError>;

    fn for_one_request(&mut self);
}

impl<O: PartOptions> AnySettings for Vec<Named<O>> {
    fn about(&self) -> &'static About {
        O::ABOUT
    }

    fn is_implied(&self, name: &str) -> Option<bool> {
        self.iter().find(|it| it.is_called(name)).map(|it| it.is_implied)
    }

    fn set(&mut self, declared: &Declaration) -> Result<(), SettingsError> {
        let (group, name) = (O::ABOUT.group, declared.name.as_str());
        let raw = read_declared(&format!("{group}.{name}"), &declared.settings)?;
        let named = Named::read(name, raw, true)?;
        match self.iter_mut().find(|it| it.is_called(name)) {
            Some(was) => *was = named,
            None => self.push(named),
        }
        Ok(())
    }

    fn retain(&mut self, is_kept: &dyn Fn(&str, bool) -> bool) {
        self.retain(|it| is_kept(it.name.as_str(), it.is_implied));
    }

    fn written(&self) -> Vec<Part> {
        let written = self.iter().filter(|it| !it.is_implied);
        let parts =
            |it: &Named<O>| [vec![it.options.declared(&it.name)], it.options.declared_beside()].concat();
        written.flat_map(parts).collect()
    }

    fn reads_beside(&self, declared: &Declaration) -> bool {
        O::reads_beside(declared)
    }

    fn adopt_beside(&mut self, declared: &[Declaration], is_all: bool) -> Result<(), SettingsError> {
        self.iter_mut().try_for_each(|it| it.options.adopt_beside(declared, is_all))
    }

    fn for_one_request(&mut self) {
        self.iter_mut().for_each(|it| it.options.for_one_request());
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
