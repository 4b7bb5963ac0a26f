//! Settings: defaults, then a YAML file, then the environment, then flags. The
//! later one wins.
//!
//! All four become one checked [`Settings`]; nothing behind it checks again. A
//! setting is a path, `limits.api.rate`. In the environment it is
//! `TIDEGATE_LIMITS__API__RATE`, as a flag `--set limits.api.rate=5/s`. A name
//! that does not exist is an error everywhere, and names the nearest that does.

mod environment;
mod file;
mod names;
pub(crate) mod parse;
pub(crate) mod raw;
pub(crate) mod validate;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use tidegate::Tidegate;
use tidegate::store::StoreOptions;

pub use self::raw::{HttpSettings, LogSettings};
use crate::parts::{EdgeSettings, PartSettings, RawSettings, RulesSettings};
pub use crate::readiness::Readiness;

/// All settings, checked.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where to listen.
    pub listen: Listen,
    /// Whether anybody has said so.
    pub is_listen_set: bool,
    /// Where state is kept.
    pub store: StoreSettings,
    /// The limits and the spaces; never none of a kind.
    pub parts: PartSettings,
    /// Where the rules of redirects are kept; none if there are to be none.
    pub rules: Option<RulesSettings>,
    /// How redirects are served; none if they are not to be.
    pub edge: Option<EdgeSettings>,
    /// Bounds on connections and requests.
    pub http: HttpSettings,
    /// What is said on standard error.
    pub log: LogSettings,
}

/// A host and a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listen(pub(crate) String);

impl Listen {
    /// As `host:port`.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A store's URL. It may hold a password, so it is not shown.
#[derive(Clone, PartialEq, Eq)]
pub struct StoreUrl(pub(crate) String);

impl StoreUrl {
    /// The URL.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What may be shown of it.
    pub fn scheme(&self) -> &str {
        self.0.split(':').next().unwrap_or_default()
    }
}

impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:…", self.scheme())
    }
}

/// The URL of a database of rules. It may hold a password, so it is not shown.
#[derive(Clone, PartialEq, Eq)]
pub struct RulesUrl(pub(crate) String);

impl RulesUrl {
    /// The URL.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for RulesUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:…", self.0.split(':').next().unwrap_or_default())
    }
}

/// Where state is kept.
#[derive(Debug, Clone)]
pub struct StoreSettings {
    /// The store.
    pub url: StoreUrl,
    /// How it is used.
    pub options: StoreOptions,
    /// The file with the authority to trust.
    pub tls_ca: Option<PathBuf>,
}

impl StoreSettings {
    /// Opens the store. One that is away is no error.
    pub async fn open(&self) -> Result<Tidegate, SettingsError> {
        Tidegate::open_with(self.url.as_str(), self.whole_options()?)
            .await
            .map_err(|error| SettingsError(format!("`store`: {error}")))
    }

    /// How it is used, with what is in files.
    pub(crate) fn whole_options(&self) -> Result<StoreOptions, SettingsError> {
        let mut options = self.options.clone();
        if let Some(path) = &self.tls_ca {
            options.tls_ca = Some(std::fs::read(path).map_err(|error| {
                SettingsError(format!("`store.tls_ca`: cannot read {}: {error}", path.display()))
            })?);
        }
        Ok(options)
    }
}

parse::named! {
    /// How a line of the log is written.
    pub enum LogFormat {
        /// For people.
        Text = "text",
        /// For machines, an object per line.
        Json = "json",
    }
}

/// Where settings come from, least important first.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// The file, if one was named; else `TIDEGATE_CONFIG` may name it.
    pub file: Option<PathBuf>,
    /// The environment. A variable that is empty says nothing.
    pub environment: BTreeMap<String, String>,
    /// Flags: how each was written, the setting and the value.
    pub flags: Vec<Flag>,
}

/// A setting given by a flag.
#[derive(Debug, Clone)]
pub struct Flag {
    /// How it was given, for messages: `--listen`, `--set`.
    pub given_as: &'static str,
    /// The setting's path.
    pub path: String,
    /// The value.
    pub value: String,
}

/// What is wrong with the settings, for people: which one, where, what is allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingsError(pub(crate) String);

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SettingsError {}

impl Settings {
    /// Reads all sources.
    pub fn load(sources: &Sources) -> Result<Self, SettingsError> {
        let environment = environment::said(&sources.environment);
        let named = environment.get(environment::CONFIG).map(PathBuf::from);
        let mut raw = match sources.file.as_ref().or(named.as_ref()) {
            Some(path) => file::read(path)?,
            None => RawSettings::default(),
        };
        let apply = |raw: &mut RawSettings| {
            environment::apply(raw, &environment)?;
            sources.flags.iter().try_for_each(|flag| flag.apply(raw))
        };
        apply(&mut raw)?;
        // Our own names go before those of others, which are of all parts that those name.
        if environment::apply_names_of_others(&mut raw, &environment)? {
            apply(&mut raw)?;
        }
        validate::settings(raw)
    }

    /// The setting that each path names, with what it is for. The name of a limit or
    /// a space is written `NAME`.
    pub fn list() -> Vec<(String, &'static str)> {
        raw::list()
    }
}
