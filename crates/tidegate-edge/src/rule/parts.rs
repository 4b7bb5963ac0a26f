//! What of a rule its answers are made of, wherever the rule is kept: what is said here of them is said once.

use super::answer::{CacheControl, RedirectRef, State};
use super::{Code, Query};

/// Whether and until when a rule answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Life {
    pub(crate) enabled: bool,
    pub(crate) starts_at: Option<u64>,
    pub(crate) expires_at: Option<u64>,
    pub(crate) max_clicks: Option<u64>,
}

impl Life {
    /// Whether it may end: then no client may remember it for good.
    pub(crate) fn can_end(&self) -> bool {
        self.expires_at.is_some() || self.max_clicks.is_some()
    }

    /// How it is doing at that time, after so many clicks; live at the very millisecond at which it expires. What clicks have
    /// to do with comes last: who does not know of them passes over the same rules as who does.
    pub(crate) fn state(&self, now_ms: u64, clicks: u64) -> State {
        let is_spent = self.max_clicks.is_some_and(|most| clicks >= most);
        match () {
            () if !self.enabled => State::Disabled,
            () if self.starts_at.is_some_and(|it| now_ms < it) => State::Scheduled,
            () if is_spent || self.expires_at.is_some_and(|it| now_ms > it) => State::Ended,
            () => State::Live,
        }
    }
}

/// A rule as far as what it answers goes. Destination and fallback are fit to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Parts<'a> {
    pub(crate) path: &'a str,
    pub(crate) destination: &'a str,
    pub(crate) fallback: Option<&'a str>,
    pub(crate) code: Code,
    pub(crate) append_rest: bool,
    pub(crate) query: Query,
    pub(crate) max_age: Option<u32>,
    pub(crate) life: Life,
}

impl<'a> Parts<'a> {
    /// The folder that it is for, if it is for all below one.
    pub(crate) fn folder(&self) -> Option<&'a str> {
        self.path.strip_suffix("/*")
    }

    /// Where a request is sent whose path, normalised, and query are these.
    pub(crate) fn redirect(&self, path: &str, query: Option<&str>) -> RedirectRef<'a> {
        let can_end = self.life.can_end();
        let code = if can_end { self.code.temporary() } else { self.code };
        let cache_control = match self.max_age {
            // Whoever may end is asked again each time.
            _ if can_end => CacheControl::NoStore,
            Some(seconds) if code.is_permanent() => CacheControl::MaxAge(seconds),
            _ => CacheControl::None,
        };
        RedirectRef { code, location: self.location(path, query), cache_control }
    }

    /// Where it sends when it is over; nowhere if it is just gone.
    pub(crate) fn ended(&self) -> Option<RedirectRef<'a>> {
        let code = self.code.temporary();
        let sent = |fallback: &'a str| RedirectRef {
            code,
            location: fallback.into(),
            cache_control: CacheControl::NoStore,
        };
        self.fallback.map(sent)
    }
}
