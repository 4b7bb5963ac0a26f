//! From text to a checked value, the same for a file, the environment and a flag.

use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;
use std::time::Duration;

use tidegate::bounds::MAX_COUNT;
use tidegate::store::Declarations;
use tidegate::{Key, Name};

use super::names::nearest;
use super::{Listen, RulesUrl, StoreUrl};

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

/// Kinds of something, each by its name.
macro_rules! named {
    ($(
        $(#[$about:meta])*
        $visibility:vis enum $type:ident { $($(#[$value_about:meta])* $value:ident = $name:literal,)+ }
    )+) => {$(
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        $visibility enum $type { $($(#[$value_about])* $value,)+ }

        impl $type {
            /// As the settings name it.
            #[allow(dead_code, reason = "not all of them are shown")]
            $visibility fn as_str(self) -> &'static str {
                match self { $(Self::$value => $name,)+ }
            }
        }

        $crate::settings::parse::choices! { $type: $($name $value),+; }
    )+};
}
pub(crate) use named;

/// Values that are read by a function of their own.
macro_rules! read_by {
    ($($(#[doc = $about:literal])* $type:ty: $read:expr;)+) => {$(
        $(#[doc = $about])*
        impl $crate::settings::parse::Parse for $type {
            fn parse(text: &str) -> Result<Self, String> {
                let read: fn(&str) -> Result<Self, String> = $read;
                read(text)
            }
        }
    )+};
}
pub(crate) use read_by;

choices! {
    Declarations: "replace" Replace, "strict" Strict;
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

/// What its parser has to say, if it reads none.
pub(crate) fn from_str<T: std::str::FromStr<Err = tidegate::Error>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error: tidegate::Error| error.to_string())
}

/// A number, as far as it is allowed.
pub(crate) fn number<T: std::str::FromStr>(
    text: &str,
    is_allowed: impl FnOnce(&T) -> bool,
    allowed: impl std::fmt::Display,
) -> Result<T, String> {
    let number = text.parse().ok().filter(is_allowed);
    number.ok_or_else(|| format!("{text:?} is not allowed: {allowed} are"))
}

read_by! {
    NonZeroU32: from_one;
    NonZeroUsize: from_one;
    /// Permits or calls, as many as there may be.
    u64: |text| {
        let is_allowed = |number: &u64| *number <= MAX_COUNT && !text.starts_with('+');
        number(text, is_allowed, format_args!("whole numbers from 0 to {MAX_COUNT}"))
    };
    /// How many, or none at all.
    usize: |text| number(text, |_| text.bytes().all(|byte| byte.is_ascii_digit()), "whole numbers from 0 on");
    /// How many times as much, or as fast.
    f64: |text| number(text, |factor| (1.0..=1000.0).contains(factor), "numbers from 1 to 1000");
    bool: |text| choice(text, &[("true", true), ("false", false)]);
    Duration: |text| {
        let why = "is not a length of time: a number with a unit is, like 500ms, 5s or 2m";
        humantime::parse_duration(text).map_err(|_| format!("{text:?} {why}"))
    };
    PathBuf: |text| match text {
        "" => Err("a path must not be empty".to_owned()),
        text => Ok(text.into()),
    };
    Name: |text| Name::new(text).map_err(|error| error.to_string());
    Prefix: |text| {
        Key::new(text).map_err(|error| error.to_string().replace("key", "prefix"))?;
        Ok(Prefix(text.to_owned()))
    };
    Listen: |text| {
        let port = |(host, port): (&str, &str)| !host.is_empty() && port.parse::<u16>().is_ok();
        // `::1:80` reads as an address with a port and is none: it has brackets.
        let fits = text.parse::<std::net::SocketAddr>().is_ok()
            || (text.matches(':').count() == 1 && text.rsplit_once(':').is_some_and(port));
        let why = "is not an address to listen on: host:port is, like 127.0.0.1:8080 or [::1]:0";
        if fits { Ok(Listen(text.to_owned())) } else { Err(format!("{text:?} {why}")) }
    };
    /// The library checks it when it opens it, and knows what may be repeated.
    StoreUrl: |text| Ok(StoreUrl(text.to_owned()));
    /// Checked by what opens it.
    RulesUrl: |text| Ok(RulesUrl(text.to_owned()));
}

/// What the Redis keys of a part start with.
#[derive(Debug, Clone)]
pub(crate) struct Prefix(pub(crate) String);

impl From<Prefix> for String {
    fn from(Prefix(prefix): Prefix) -> Self {
        prefix
    }
}
