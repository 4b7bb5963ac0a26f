//! From text to a checked value, the same for a file, the environment and a flag.

use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;
use std::time::Duration;

use tidegate::{AfterLoss, Key, Name, Rate, Share, limit::WhenFull};

use super::names::nearest;
use super::{Listen, LogFormat, StoreUrl};

/// A value that a setting can have. The error says what is allowed.
pub(crate) trait Parse: Sized {
    fn parse(text: &str) -> Result<Self, String>;
}

/// Picks a value by its name.
fn choice<T: Copy>(text: &str, choices: &[(&'static str, T)]) -> Result<T, String> {
    if let Some((_, value)) = choices.iter().find(|(name, _)| *name == text) {
        return Ok(*value);
    }
    let names: Vec<_> = choices.iter().map(|(name, _)| *name).collect();
    let hint = match nearest(text, names.iter().copied()) {
        Some(name) if names.len() > 1 => format!(" (did you mean `{name}`?)"),
        _ => String::new(),
    };
    Err(format!("{text:?} is not allowed: {} {}{hint}", and(&names), are(names.len())))
}

fn and(names: &[&str]) -> String {
    match names {
        [first @ .., last] if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        names => names.concat(),
    }
}

fn are(count: usize) -> &'static str {
    if count == 1 { "is" } else { "are" }
}

fn whole<T: std::str::FromStr>(text: &str, most: &dyn std::fmt::Display) -> Result<T, String> {
    text.parse().map_err(|_| format!("{text:?} is not allowed: whole numbers from 1 to {most} are"))
}

impl Parse for NonZeroU32 {
    fn parse(text: &str) -> Result<Self, String> {
        whole(text, &u32::MAX)
    }
}

impl Parse for NonZeroUsize {
    fn parse(text: &str) -> Result<Self, String> {
        whole(text, &usize::MAX)
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

impl Parse for Rate {
    fn parse(text: &str) -> Result<Self, String> {
        text.parse().map_err(|error: tidegate::Error| error.to_string())
    }
}

impl Parse for Share {
    fn parse(text: &str) -> Result<Self, String> {
        let fraction = text
            .parse()
            .map_err(|_| format!("{text:?} is not a share: a number above 0 and up to 1 is, like 0.5"))?;
        Share::fraction(fraction).map_err(|error| error.to_string())
    }
}

/// How a limit counts. More will follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Algorithm {
    Sliding,
}

impl Parse for Algorithm {
    fn parse(text: &str) -> Result<Self, String> {
        choice(text, &[("sliding", Self::Sliding)])
    }
}

/// The outage policy's name; its share is a setting of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutageName {
    Open,
    Closed,
    Local,
}

impl Parse for OutageName {
    fn parse(text: &str) -> Result<Self, String> {
        choice(text, &[("open", Self::Open), ("closed", Self::Closed), ("local", Self::Local)])
    }
}

impl Parse for AfterLoss {
    fn parse(text: &str) -> Result<Self, String> {
        choice(text, &[("admit", Self::Admit), ("hold", Self::Hold)])
    }
}

impl Parse for WhenFull {
    fn parse(text: &str) -> Result<Self, String> {
        choice(text, &[("refuse", Self::Refuse), ("share", Self::Share)])
    }
}

/// What a limit's Redis keys start with.
#[derive(Debug, Clone)]
pub(crate) struct Prefix(pub(crate) String);

impl Parse for Prefix {
    fn parse(text: &str) -> Result<Self, String> {
        Key::new(text).map_err(|error| error.to_string().replace("key", "prefix"))?;
        Ok(Self(text.to_owned()))
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

impl Parse for tracing::Level {
    fn parse(text: &str) -> Result<Self, String> {
        use tracing::Level;
        choice(
            text,
            &[
                ("error", Level::ERROR),
                ("warn", Level::WARN),
                ("info", Level::INFO),
                ("debug", Level::DEBUG),
                ("trace", Level::TRACE),
            ],
        )
    }
}

impl Parse for LogFormat {
    fn parse(text: &str) -> Result<Self, String> {
        choice(text, &[("text", Self::Text), ("json", Self::Json)])
    }
}
