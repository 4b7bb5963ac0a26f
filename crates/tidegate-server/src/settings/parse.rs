//! From text to a checked value, the same for a file, the environment and a flag.

use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;
use std::time::Duration;

use tidegate::bounds::MAX_COUNT;
use tidegate::store::Declarations;
use tidegate::{Key, Name};

use super::names::nearest;
use super::{Listen, LogFormat, Readiness, RulesUrl, StoreUrl};

/// A value that a setting can have. The error says what is allowed.
pub(crate) trait Parse: Sized {
    fn parse(text: &str) -> Result<Self, String>;
}

/// Picks a value by its name.
pub(crate) fn choice<T: Copy>(text: &str, choices: &[(&'static str, T)]) -> Result<T, String> {
    if let Some((_, value)) = choices.iter().find(|(name, _)| *name == text) {
        return Ok(*value);
    }
    let names: Vec<_> = choices.iter().map(|(name, _)| *name).collect();
    let hint = match nearest(text, names.iter().copied()) {
        Some(name) if names.len() > 1 => format!(" (did you mean `{name}`?)"),
        _ => String::new(),
    };
    let are = if names.len() == 1 { "is" } else { "are" };
    Err(format!("{text:?} is not allowed: {} {are}{hint}", and(&names)))
}

/// Values that each have a name.
macro_rules! choices {
    ($($type:ty: $($name:literal $value:ident),+;)+) => {$(
        impl $crate::settings::parse::Parse for $type {
            fn parse(text: &str) -> Result<Self, String> {
                $crate::settings::parse::choice(text, &[$(($name, Self::$value)),+])
            }
        }
    )+};
}
pub(crate) use choices;

choices! {
    Declarations: "replace" Replace, "strict" Strict;
    Readiness: "any" Any, "all" All;
    LogFormat: "text" Text, "json" Json;
    tracing::Level: "error" ERROR, "warn" WARN, "info" INFO, "debug" DEBUG, "trace" TRACE;
}

/// `a, b and c`.
pub(crate) fn and(names: &[&str]) -> String {
    match names {
        [first @ .., last] if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        names => names.concat(),
    }
}

/// Up to what depends on the setting: that is said by whoever checks it.
fn from_one<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| match !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit()) {
        true if text.bytes().any(|it| it != b'0') => format!("{text:?} is not allowed: it is too large"),
        _ => format!("{text:?} is not allowed: whole numbers from 1 on are"),
    })
}

impl Parse for NonZeroU32 {
    fn parse(text: &str) -> Result<Self, String> {
        from_one(text)
    }
}

impl Parse for NonZeroUsize {
    fn parse(text: &str) -> Result<Self, String> {
        from_one(text)
    }
}

/// Permits or calls, as many as there may be.
impl Parse for u64 {
    fn parse(text: &str) -> Result<Self, String> {
        let number = text.parse().ok().filter(|number| *number <= MAX_COUNT && !text.starts_with('+'));
        number.ok_or_else(|| format!("{text:?} is not allowed: whole numbers from 0 to {MAX_COUNT} are"))
    }
}

/// How many, or none at all.
impl Parse for usize {
    fn parse(text: &str) -> Result<Self, String> {
        let count = text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()));
        count.ok_or_else(|| format!("{text:?} is not allowed: whole numbers from 0 on are"))
    }
}

impl Parse for bool {
    fn parse(text: &str) -> Result<Self, String> {
        choice(text, &[("true", true), ("false", false)])
    }
}

impl Parse for Duration {
    fn parse(text: &str) -> Result<Self, String> {
        humantime::parse_duration(text).map_err(|_| {
            format!("{text:?} is not a length of time: a number with a unit is, like 500ms, 5s or 2m")
        })
    }
}

impl Parse for PathBuf {
    fn parse(text: &str) -> Result<Self, String> {
        match text {
            "" => Err("a path must not be empty".to_owned()),
            text => Ok(text.into()),
        }
    }
}

impl Parse for Name {
    fn parse(text: &str) -> Result<Self, String> {
        Name::new(text).map_err(|error| error.to_string())
    }
}

/// How many times as much, or as fast.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Factor(f64);

impl Parse for Factor {
    fn parse(text: &str) -> Result<Self, String> {
        let factor = text.parse().ok().filter(|factor| (1.0..=1000.0).contains(factor));
        factor.map(Self).ok_or_else(|| format!("{text:?} is not allowed: numbers from 1 to 1000 are"))
    }
}

impl From<Factor> for f64 {
    fn from(Factor(factor): Factor) -> Self {
        factor
    }
}

/// What the Redis keys of a part start with.
#[derive(Debug, Clone)]
pub(crate) struct Prefix(pub(crate) String);

impl Parse for Prefix {
    fn parse(text: &str) -> Result<Self, String> {
        Key::new(text).map_err(|error| error.to_string().replace("key", "prefix"))?;
        Ok(Self(text.to_owned()))
    }
}

impl From<Prefix> for String {
    fn from(Prefix(prefix): Prefix) -> Self {
        prefix
    }
}

impl Parse for Listen {
    fn parse(text: &str) -> Result<Self, String> {
        let port = |(host, port): (&str, &str)| !host.is_empty() && port.parse::<u16>().is_ok();
        // `::1:80` reads as an address with a port and is none: it has brackets.
        let fits = text.parse::<std::net::SocketAddr>().is_ok()
            || (text.matches(':').count() == 1 && text.rsplit_once(':').is_some_and(port));
        match fits {
            true => Ok(Self(text.to_owned())),
            false => Err(format!(
                "{text:?} is not an address to listen on: host:port is, like 127.0.0.1:8080 or [::1]:0"
            )),
        }
    }
}

impl Parse for StoreUrl {
    fn parse(text: &str) -> Result<Self, String> {
        // The library checks it when it opens it, and knows what may be repeated.
        Ok(Self(text.to_owned()))
    }
}

impl Parse for RulesUrl {
    fn parse(text: &str) -> Result<Self, String> {
        // Checked by what opens it.
        Ok(Self(text.to_owned()))
    }
}
