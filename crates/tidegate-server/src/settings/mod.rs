//! Settings: defaults, then a YAML file, then the environment, then flags. The
//! later one wins.
//!
//! All four become one checked [`Settings`]; nothing behind it checks again. A
//! setting is a path, `limits.api.rate`. In the environment it is
//! `TIDEGATE_LIMITS__API__RATE`, as a flag `--set limits.api.rate=5/s`. A name
//! that does not exist is an error everywhere, and names the nearest that does.

mod environment;
mod file;
mod flags;
mod names;
pub(crate) mod parse;
pub(crate) mod raw;
mod validate;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use tidegate::clock::Clock;
use tidegate::store::{Declarations, StoreOptions};
use tidegate::{Name, Tidegate};

use crate::parts::{PartSettings, RawSettings};
pub use crate::readiness::Readiness;

/// All settings, checked.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where to listen.
    pub listen: Listen,
    /// Where state is kept.
    pub store: StoreSettings,
    /// The limits and the spaces; never none of a kind.
    pub parts: PartSettings,
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

/// Where state is kept.
#[derive(Debug, Clone)]
pub struct StoreSettings {
    /// The store.
    pub url: StoreUrl,
    /// A prefix of every Redis key.
    pub namespace: Option<Name>,
    /// How many partitions keys are spread over.
    pub partitions: Option<u32>,
    /// How long a call may take.
    pub deadline: Duration,
    /// How long connecting may take.
    pub connect_timeout: Duration,
    /// Whether small packets are sent at once.
    pub nodelay: bool,
    /// Idle time of a connection after which the system looks whether the other side is
    /// still there.
    pub keepalive: Option<Duration>,
    /// How often it is checked that the store is still there.
    pub check_interval: Duration,
    /// The file with the authority to trust.
    pub tls_ca: Option<PathBuf>,
    /// What to do when a limit or a space is declared with other settings.
    pub declarations: Declarations,
}

impl StoreSettings {
    /// Opens the store. One that is away is no error.
    pub async fn open(&self) -> Result<Tidegate, SettingsError> {
        self.open_with(StoreOptions::default()).await
    }

    /// The same, by a clock of the caller's, with markers that end so long after their last renewal.
    pub(crate) async fn open_for(
        &self,
        clock: Clock,
        marker_ttl: Duration,
    ) -> Result<Tidegate, SettingsError> {
        let mut options = StoreOptions::default();
        options.clock = clock;
        options.marker_ttl = marker_ttl;
        self.open_with(options).await
    }

    /// The same, to look at it and write nothing.
    pub async fn open_read_only(&self) -> Result<Tidegate, SettingsError> {
        let mut options = StoreOptions::default();
        options.read_only = true;
        self.open_with(options).await
    }

    async fn open_with(&self, options: StoreOptions) -> Result<Tidegate, SettingsError> {
        Tidegate::open_with(self.url.as_str(), self.options_from(options)?)
            .await
            .map_err(|error| SettingsError(format!("`store`: {error}")))
    }

    /// By which options it is opened.
    pub(crate) fn options(&self) -> Result<StoreOptions, SettingsError> {
        self.options_from(StoreOptions::default())
    }

    fn options_from(&self, mut options: StoreOptions) -> Result<StoreOptions, SettingsError> {
        options.namespace = self.namespace.clone();
        options.partitions = self.partitions;
        options.deadline = self.deadline;
        options.connect_timeout = self.connect_timeout;
        options.nodelay = self.nodelay;
        options.declarations = self.declarations;
        options.keepalive = self.keepalive;
        options.check_interval = self.check_interval;
        options.tls_ca = match &self.tls_ca {
            None => None,
            Some(path) => Some(std::fs::read(path).map_err(|error| {
                SettingsError(format!("`store.tls_ca`: cannot read {}: {error}", path.display()))
            })?),
        };
        Ok(options)
    }
}

/// Bounds on connections and requests.
#[derive(Debug, Clone)]
pub struct HttpSettings {
    /// How long a request's head may take.
    pub header_timeout: Duration,
    /// How long a connection may be idle between requests.
    pub idle_timeout: Duration,
    /// How long a request may take, its body included.
    pub request_timeout: Duration,
    /// How long edits sent in bulk may take, however many.
    pub bulk_timeout: Duration,
    /// How long a client of events may take nothing of what waits for it.
    pub stall_timeout: Duration,
    /// The longest body of a request other than that.
    pub max_body_bytes: usize,
    /// The most connections at a time; more wait to be accepted.
    pub max_connections: usize,
    /// How long requests in flight may take once the server shall stop.
    pub shutdown_deadline: Duration,
    /// How long the server says that it is not ready, and takes requests all the same,
    /// before it stops.
    pub drain_delay: Duration,
    /// When it says that it is ready.
    pub readiness: Readiness,
    /// Whether all who can reach the server may use it: without, it listens on loopback alone.
    pub trusted_network: bool,
    /// How many connections may wait to be accepted.
    pub backlog: u32,
    /// Whether every answer is logged.
    pub access_log: bool,
}

impl Default for HttpSettings {
    fn default() -> Self {
        Self {
            header_timeout: Duration::from_secs(5),
            idle_timeout: Duration::from_secs(75),
            request_timeout: Duration::from_secs(10),
            bulk_timeout: Duration::from_secs(600),
            stall_timeout: Duration::from_secs(60),
            max_body_bytes: 65_536,
            max_connections: 10_000,
            shutdown_deadline: Duration::from_secs(10),
            drain_delay: Duration::ZERO,
            readiness: Readiness::default(),
            trusted_network: false,
            backlog: 1024,
            access_log: false,
        }
    }
}

/// What is said on standard error.
#[derive(Debug, Clone)]
pub struct LogSettings {
    /// The least important that is said.
    pub level: tracing::Level,
    /// For people or for machines.
    pub format: LogFormat,
}

/// How a line of the log is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// For machines, an object per line.
    Json,
}

/// Where settings come from, least important first.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// The file, if one was named; else `TIDEGATE_CONFIG` may name it.
    pub file: Option<PathBuf>,
    /// The environment.
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
        let named = sources.environment.get(environment::CONFIG).map(PathBuf::from);
        let mut raw = match sources.file.as_ref().or(named.as_ref()) {
            Some(path) => file::read(path)?,
            None => RawSettings::default(),
        };
        environment::apply(&mut raw, &sources.environment)?;
        flags::apply(&mut raw, &sources.flags)?;
        validate::settings(raw)
    }

    /// The setting that each path names, with what it is for. The name of a limit or
    /// a space is written `NAME`.
    pub fn list() -> Vec<(String, &'static str)> {
        raw::list()
    }
}
