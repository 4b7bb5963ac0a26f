//! Settings that the store declares: for parts that nobody has written down here.

use tidegate::store::{Declaration, Part, PartKind};

use super::raw::{Node, RawHot, RawLimit, RawSessions, Refused};
use super::{HotSettings, LimitSettings, SessionSettings, Settings, SettingsError, hot, limit, sessions};

impl Settings {
    /// What nobody has written down here, and others have declared, is as they declare it.
    pub fn adopt(&mut self, declared: &[Declaration]) -> Result<(), SettingsError> {
        let find = |kind: PartKind, name: &tidegate::Name| {
            declared.iter().find(|it| it.kind == kind && kind.is_same(it.name.as_str(), name.as_str()))
        };
        for limit in self.limits.iter_mut().filter(|it| it.is_implied) {
            if let Some(found) = find(PartKind::Limit, &limit.name) {
                *limit = limit_of(found)?;
            }
        }
        for space in self.hot.iter_mut().filter(|it| it.is_implied) {
            if let Some(found) = find(PartKind::Hot, &space.name) {
                *space = hot_of(found)?;
            }
        }
        for space in self.sessions.iter_mut().filter(|it| it.is_implied) {
            if let Some(found) = find(PartKind::Sessions, &space.name) {
                *space = sessions_of(found)?;
            }
        }
        Ok(())
    }

    /// What is written down here, and beside it only what is declared.
    pub fn only_declared(&mut self, declared: &[Declaration]) -> Result<(), SettingsError> {
        self.limits.retain(|it| !it.is_implied);
        self.hot.retain(|it| !it.is_implied);
        self.sessions.retain(|it| !it.is_implied);
        for found in declared {
            if self.has(found.kind, found.name.as_str()) {
                continue;
            }
            match found.kind {
                PartKind::Limit => self.limits.push(limit_of(found)?),
                PartKind::Hot => self.hot.push(hot_of(found)?),
                PartKind::Sessions => self.sessions.push(sessions_of(found)?),
                _ => {}
            }
        }
        Ok(())
    }

    /// Whether this version knows all of what is declared.
    pub fn can_read(declared: &Declaration) -> bool {
        match declared.kind {
            PartKind::Limit => limit_of(declared).is_ok(),
            PartKind::Hot => hot_of(declared).is_ok(),
            PartKind::Sessions => sessions_of(declared).is_ok(),
            _ => false,
        }
    }

    /// What is written down, as it is declared.
    pub fn written(&self) -> Vec<Part> {
        let limits = self.limits.iter().filter(|it| !it.is_implied);
        let spaces = self.hot.iter().filter(|it| !it.is_implied);
        let sessions = self.sessions.iter().filter(|it| !it.is_implied);
        let limits = limits.map(|it| it.options.declared(&it.name, &it.algorithm));
        let spaces = spaces.map(|it| it.options.declared(&it.name));
        limits.chain(spaces).chain(sessions.map(|it| it.options.declared(&it.name))).collect()
    }

    /// Whether there is such a part.
    pub fn has(&self, kind: PartKind, name: &str) -> bool {
        match kind {
            PartKind::Limit => self.limits.iter().any(|it| it.name.as_str() == name),
            PartKind::Hot => self.hot.iter().any(|it| kind.is_same(it.name.as_str(), name)),
            PartKind::Sessions => self.sessions.iter().any(|it| kind.is_same(it.name.as_str(), name)),
            _ => false,
        }
    }
}

/// What settings of such a part are below.
pub(crate) fn group_of(kind: PartKind) -> &'static str {
    match kind {
        PartKind::Limit => "limits",
        PartKind::Hot => "hot",
        _ => "sessions",
    }
}

fn limit_of(declared: &Declaration) -> Result<LimitSettings, SettingsError> {
    limit::limit(declared.name.as_str().to_owned(), &raw::<RawLimit>(declared)?, true)
}

fn hot_of(declared: &Declaration) -> Result<HotSettings, SettingsError> {
    hot::hot(declared.name.as_str().to_owned(), raw::<RawHot>(declared)?, true)
}

fn sessions_of(declared: &Declaration) -> Result<SessionSettings, SettingsError> {
    sessions::sessions(declared.name.as_str().to_owned(), raw::<RawSessions>(declared)?, true)
}

/// What is declared, set like settings of any other source.
fn raw<T: Node + Default>(declared: &Declaration) -> Result<T, SettingsError> {
    let mut raw = T::default();
    for (setting, value) in &declared.settings {
        raw.set(&[setting], value).map_err(|refused| {
            let (group, name) = (group_of(declared.kind), declared.name.as_str());
            let reason = match refused {
                Refused::Value(reason) => reason,
                Refused::Unknown | Refused::Group => {
                    format!("{value:?} is declared, and this version has no such setting")
                }
            };
            SettingsError(format!("`{group}.{name}.{setting}`, as the store declares it: {reason}"))
        })?;
    }
    Ok(raw)
}
