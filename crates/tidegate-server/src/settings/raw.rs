//! What can be set, each setting once: from here come the names that a file, the
//! environment and `--set` know, and the list in `--help`.
//!
//! Everything is optional here. What is absent gets its default, and what
//! depends on two settings is checked, when all sources have spoken.

use std::collections::BTreeMap;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use tidegate::Name;

use super::parse::Parse;
use super::{LogFormat, Readiness, StoreUrl};
use crate::parts::RawSettings;

/// Why a setting could not be set.
#[derive(Debug)]
pub(crate) enum Refused {
    /// There is none of that name.
    Unknown,
    /// There are several below that name.
    Group,
    /// The value is not allowed; the text says what is.
    Value(String),
}

/// A setting, or a group of them.
pub(crate) trait Node {
    /// Sets what is at `path`.
    fn set(&mut self, path: &[&str], value: &str) -> Result<(), Refused>;

    /// The names of parts that are written right below `path`.
    fn names(&self, _path: &[&str]) -> Vec<&String> {
        Vec::new()
    }

    /// Adds what there is below `path`, with what it is for.
    fn list(path: &str, about: &'static str, to: &mut Vec<(String, &'static str)>);
}

/// A single setting.
#[derive(Debug)]
pub(crate) struct Leaf<T>(pub(crate) Option<T>);

impl<T> Default for Leaf<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T> Leaf<T> {
    pub(crate) fn is_set(&self) -> bool {
        self.0.is_some()
    }

    pub(crate) fn or(self, default: T) -> T {
        self.0.unwrap_or(default)
    }
}

impl<T: Parse> Node for Leaf<T> {
    fn set(&mut self, path: &[&str], value: &str) -> Result<(), Refused> {
        if !path.is_empty() {
            return Err(Refused::Unknown);
        }
        self.0 = Some(T::parse(value).map_err(Refused::Value)?);
        Ok(())
    }

    fn list(path: &str, about: &'static str, to: &mut Vec<(String, &'static str)>) {
        to.push((path.to_owned(), about));
    }
}

impl<'de, T: Parse> Deserialize<'de> for Leaf<T> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // As text whatever it looks like: `rate: 5` and `rate: 5/s` are both rates.
        match Option::<String>::deserialize(deserializer)? {
            None => Ok(Self(None)),
            Some(text) => T::parse(&text).map(|value| Self(Some(value))).map_err(|refused| {
                use serde::de::Error as _;
                D::Error::custom(refused)
            }),
        }
    }
}

impl<T: Node + Default> Node for BTreeMap<String, T> {
    fn set(&mut self, path: &[&str], value: &str) -> Result<(), Refused> {
        let Some((name, rest)) = path.split_first() else { return Err(Refused::Group) };
        if let Some(node) = self.get_mut(*name) {
            return node.set(rest, value);
        }
        // Kept only if it was set: a misspelt setting leaves no empty limit.
        let mut node = T::default();
        node.set(rest, value)?;
        self.insert((*name).to_owned(), node);
        Ok(())
    }

    fn names(&self, path: &[&str]) -> Vec<&String> {
        if path.is_empty() { self.keys().collect() } else { Vec::new() }
    }

    fn list(path: &str, about: &'static str, to: &mut Vec<(String, &'static str)>) {
        T::list(&format!("{path}.NAME"), about, to);
    }
}

/// A group of settings: its fields, each with what is said of it in the list of all. Those of a
/// group `for` some options have the names of theirs, but for those `beside` them; a group that `makes` a type says also what
/// its fields are, and their defaults.
macro_rules! group {
    ($name:ident makes $made:ident {
        $(#[doc = $about:literal] $field:ident: $type:ty as $checked:ty = $default:expr,)*
    }) => {
        $crate::settings::raw::group!($name for $made { $(#[doc = $about] $field: $type,)* });

        /// A group of settings, checked.
        #[derive(Debug, Clone)]
        pub struct $made {
            $(#[doc = $about] pub $field: $checked,)*
        }

        impl Default for $made {
            fn default() -> Self {
                Self { $($field: $default,)* }
            }
        }
    };
    ($name:ident for $options:ty { $(#[doc = $about:literal] $field:ident: $type:ty,)* } $(beside {
        $(#[doc = $other_about:literal] $other:ident: $other_type:ty,)*
    })?) => {
        $crate::settings::raw::group!($name {
            $(#[doc = $about] $field: $type,)*
            $($(#[doc = $other_about] $other: $other_type,)*)?
        });

        impl $name {
            /// `options`, but for what is set.
            pub(crate) fn over(self, mut options: $options) -> $options {
                $(if let Some(set) = self.$field.0 {
                    options.$field = set.into();
                })*
                options
            }
        }
    };
    ($name:ident { $(#[doc = $about:literal] $field:ident: $type:ty,)* }) => {
        #[derive(Debug, Default, serde::Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub(crate) struct $name {
            $(#[doc = $about] pub(crate) $field: $type,)*
        }

        impl $crate::settings::raw::Node for $name {
            fn set(&mut self, path: &[&str], value: &str) -> Result<(), $crate::settings::raw::Refused> {
                use $crate::settings::raw::Refused;
                let Some((first, rest)) = path.split_first() else { return Err(Refused::Group) };
                $(if *first == stringify!($field) {
                    return self.$field.set(rest, value);
                })*
                Err(Refused::Unknown)
            }

            fn names(&self, path: &[&str]) -> Vec<&String> {
                let Some((first, rest)) = path.split_first() else { return Vec::new() };
                $(if *first == stringify!($field) {
                    return self.$field.names(rest);
                })*
                Vec::new()
            }

            fn list(path: &str, _: &'static str, to: &mut Vec<(String, &'static str)>) {
                let dot = if path.is_empty() { "" } else { "." };
                $(<$type as $crate::settings::raw::Node>::list(
                    &format!("{path}{dot}{}", stringify!($field)),
                    $about.trim_ascii(),
                    to,
                );)*
            }
        }
    };
}
pub(crate) use group;

group!(RawStore {
    /// memory:, redis://, rediss://, redis-cluster:// or rediss-cluster:// (memory:)
    url: Leaf<StoreUrl>,
    /// prefix of every Redis key (none)
    namespace: Leaf<Name>,
    /// how many partitions keys are spread over (1, in a cluster 64)
    partitions: Leaf<NonZeroU32>,
    /// how long a call may take (100ms)
    deadline: Leaf<Duration>,
    /// how long connecting may take (500ms)
    connect_timeout: Leaf<Duration>,
    /// send small packets at once (true)
    nodelay: Leaf<bool>,
    /// idle time of a connection after which the system looks whether the other side is there; 0s: never (30s)
    keepalive: Leaf<Duration>,
    /// how often it is checked that the store is still there (5s)
    check_interval: Leaf<Duration>,
    /// failures in a row to reach a server after which the store is unhealthy (3)
    unhealthy_after: Leaf<NonZeroU32>,
    /// PEM file of the authority to trust for rediss:// (the system's)
    tls_ca: Leaf<PathBuf>,
});

group!(RawHttp makes HttpSettings {
    /// how long a request's head may take (5s)
    header_timeout: Leaf<Duration> as Duration = Duration::from_secs(5),
    /// how long a connection may be idle between requests (75s)
    idle_timeout: Leaf<Duration> as Duration = Duration::from_secs(75),
    /// how long a request may take, its body included (10s)
    request_timeout: Leaf<Duration> as Duration = Duration::from_secs(10),
    /// how long edits sent in bulk may take, however many (10m)
    bulk_timeout: Leaf<Duration> as Duration = Duration::from_secs(600),
    /// how long a client of events may take nothing of what waits for it (1m)
    stall_timeout: Leaf<Duration> as Duration = Duration::from_secs(60),
    /// longest request body, other than of edits in bulk (65536)
    max_body_bytes: Leaf<NonZeroUsize> as usize = 65_536,
    /// most connections at a time; more wait to be accepted (10000)
    max_connections: Leaf<NonZeroUsize> as usize = 10_000,
    /// how long requests in flight may take after SIGTERM (10s)
    shutdown_deadline: Leaf<Duration> as Duration = Duration::from_secs(10),
    /// how long after SIGTERM /readyz says 503 while requests are still taken (0s)
    drain_delay: Leaf<Duration> as Duration = Duration::ZERO,
    /// when /readyz says 200: any (something can be answered) or all (every partition is reached) (any)
    readiness: Leaf<Readiness> as Readiness = Readiness::default(),
    /// listen on addresses that other machines reach: whoever does may do everything (false)
    trusted_network: Leaf<bool> as bool = false,
    /// most connections that wait to be accepted, up to 65535; the system may have less (1024)
    backlog: Leaf<NonZeroUsize> as usize = 1024,
    /// log every answer at level info: from whom, what, the status and how long it took (false)
    access_log: Leaf<bool> as bool = false,
});

group!(RawLog makes LogSettings {
    /// error, warn, info, debug or trace (info)
    level: Leaf<tracing::Level> as tracing::Level = tracing::Level::INFO,
    /// text or json (text)
    format: Leaf<LogFormat> as LogFormat = LogFormat::Text,
});

/// Every setting with what it is for; the name of a limit or a space is `NAME`.
pub(crate) fn list() -> Vec<(String, &'static str)> {
    let mut all = Vec::new();
    RawSettings::list("", "", &mut all);
    all
}
