//! From text to a checked value, the same for a file, the environment and a flag.

use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;
use std::time::Duration;

use tidegate::bounds::MAX_COUNT;
use tidegate::limit::{OnLapse, Period, WhenFull};
use tidegate::session::Reap;
use tidegate::store::Declarations;
use tidegate::{AfterLoss, ClosedStatus, Cost, Key, Name, Rate, Share};

use super::names::nearest;
use super::{Listen, LogFormat, Readiness, StoreUrl};

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

/// Values that each have a name.
macro_rules! choices {
    ($($type:ty: $($name:literal $value:ident),+;)+) => {$(
        impl Parse for $type {
            fn parse(text: &str) -> Result<Self, String> {
                choice(text, &[$(($name, Self::$value)),+])
            }
        }
    )+};
}

choices! {
    OutageName: "open" Open, "closed" Closed, "local" Local;
    ClosedStatus: "429" TooManyRequests, "503" ServiceUnavailable;
    AfterLoss: "admit" Admit, "hold" Hold;
    WhenFull: "refuse" Refuse, "share" Share;
    Reap: "cleanup" Cleanup, "claims" Claims;
    Declarations: "replace" Replace, "strict" Strict;
    OnLapse: "spend" Spend, "give_back" GiveBack;
    Readiness: "any" Any, "all" All;
    LogFormat: "text" Text, "json" Json;
}

/// What a page meets for which there is no room.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PageWhenFull(pub(crate) WhenFull);

impl Parse for PageWhenFull {
    fn parse(text: &str) -> Result<Self, String> {
        let choices = [("reject", WhenFull::Refuse), ("replace_coldest", WhenFull::ReplaceColdest)];
        choice(text, &choices).map(Self)
    }
}

/// `a, b and c`.
pub(crate) fn and(names: &[&str]) -> String {
    match names {
        [first @ .., last] if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        names => names.concat(),
    }
}

fn are(count: usize) -> &'static str {
    if count == 1 { "is" } else { "are" }
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

/// Permits, at least one.
impl Parse for Cost {
    fn parse(text: &str) -> Result<Self, String> {
        let permits = text.parse().ok().and_then(|permits| Cost::new(permits).ok());
        permits.ok_or_else(|| format!("{text:?} is not allowed: whole numbers from 1 to {MAX_COUNT} are"))
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

/// How a limit counts, by name; its numbers are settings of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AlgorithmName {
    Sliding,
    Suppressed,
    Smooth,
    Token,
    Calendar,
}

impl AlgorithmName {
    const ALL: [(&str, Self); 5] = [
        ("sliding", Self::Sliding),
        ("suppressed", Self::Suppressed),
        ("smooth", Self::Smooth),
        ("token", Self::Token),
        ("calendar", Self::Calendar),
    ];

    pub(crate) fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(_, known)| *known == self).map_or("", |(name, _)| name)
    }
}

impl Parse for AlgorithmName {
    fn parse(text: &str) -> Result<Self, String> {
        choice(text, &Self::ALL)
    }
}

impl Parse for Period {
    fn parse(text: &str) -> Result<Self, String> {
        choice(text, &[Self::Minute, Self::Hour, Self::Day].map(|period| (period.as_str(), period)))
    }
}

/// Times the capacity of a suppressed limit: what is above that is all declined.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HardLimitFactor(pub(crate) f64);

impl Parse for HardLimitFactor {
    fn parse(text: &str) -> Result<Self, String> {
        let factor: Option<f64> = text.parse().ok();
        let allowed = factor.filter(|factor| (1.0..=1000.0).contains(factor));
        allowed.map(Self).ok_or_else(|| format!("{text:?} is not allowed: numbers from 1 to 1000 are"))
    }
}

/// Permits that are never given out.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SafetyBuffer(pub(crate) u64);

impl Parse for SafetyBuffer {
    fn parse(text: &str) -> Result<Self, String> {
        let permits = text.parse().ok().filter(|permits| *permits <= MAX_COUNT);
        let refused = || format!("{text:?} is not allowed: whole numbers from 0 to {MAX_COUNT} are");
        permits.map(Self).ok_or_else(refused)
    }
}

/// The outage policy's name; its share is a setting of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutageName {
    Open,
    Closed,
    Local,
}

/// How many times faster is a spike.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SpikeRatio(pub(crate) f64);

impl Parse for SpikeRatio {
    fn parse(text: &str) -> Result<Self, String> {
        let ratio = text.parse().ok().filter(|ratio| (1.0..=1000.0).contains(ratio));
        ratio.map(Self).ok_or_else(|| format!("{text:?} is not allowed: numbers from 1 to 1000 are"))
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
