//! What a request is answered by a rule.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::location::escaped;
use super::parts::{Life, Parts};
use super::{Code, Rule, Terms};

/// How a rule is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum State {
    /// It redirects.
    Live,
    /// It was turned off: as if it were not there.
    Disabled,
    /// It is not time yet: as if it were not there.
    Scheduled,
    /// Its time or its clicks are over: it says so, or sends to its fallback.
    Ended,
}

impl State {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Disabled => "disabled",
            Self::Scheduled => "scheduled",
            Self::Ended => "ended",
        }
    }
}

/// What a request is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// As if the rule were not there: others may answer.
    None,
    /// It is sent on.
    Redirect(Redirect),
    /// It is gone, and no other rule answers.
    Gone,
}

/// Where a request is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redirect {
    /// The status as it is sent.
    pub code: Code,
    /// The header `Location`, fit to be sent.
    pub location: String,
    /// The header `Cache-Control`, if there is one.
    pub cache_control: Option<String>,
}

/// Where a request is sent, borrowed from where the rule is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedirectRef<'a> {
    /// The status as it is sent.
    pub code: Code,
    /// The header `Location`, fit to be sent. Owned only if something of the request was appended.
    pub location: Cow<'a, str>,
    /// The header `Cache-Control`.
    pub cache_control: CacheControl,
}

impl RedirectRef<'_> {
    /// The same, on its own.
    pub fn into_owned(self) -> Redirect {
        Redirect {
            code: self.code,
            location: self.location.into_owned(),
            cache_control: self.cache_control.text().map(Cow::into_owned),
        }
    }
}

/// For how long a client may remember a redirect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CacheControl {
    /// Nothing is said of it.
    None,
    /// Not at all.
    NoStore,
    /// For so many seconds.
    MaxAge(u32),
}

impl CacheControl {
    /// The header's value, if there is one.
    pub fn text(self) -> Option<Cow<'static, str>> {
        match self {
            Self::None => None,
            Self::NoStore => Some(Cow::Borrowed("no-store")),
            Self::MaxAge(seconds) => Some(Cow::Owned(format!("max-age={seconds}"))),
        }
    }
}

impl Rule {
    /// How it is doing at that time; live at the very millisecond at which it expires.
    pub fn state(&self, now_ms: u64) -> State {
        self.terms.life().state(now_ms, self.clicks)
    }

    /// When that is over by itself, if it ever is.
    pub fn next_at(&self, now_ms: u64) -> Option<u64> {
        match self.state(now_ms) {
            State::Scheduled => self.terms.starts_at,
            State::Live => self.terms.expires_at.map(|it| it + 1),
            State::Disabled | State::Ended => None,
        }
    }

    /// What a request is answered whose path, normalised, and query are these.
    pub fn answer(&self, path: &str, query: Option<&str>, now_ms: u64) -> Answer {
        match self.state(now_ms) {
            State::Disabled | State::Scheduled => Answer::None,
            State::Live => Answer::Redirect(self.terms.redirect(path, query)),
            State::Ended => self.terms.ended(),
        }
    }
}

impl Terms {
    /// Where a request is sent whose path, normalised, and query are these.
    pub fn redirect(&self, path: &str, query: Option<&str>) -> Redirect {
        self.prepared(|parts| parts.redirect(path, query).into_owned())
    }

    /// What is answered when it is over.
    pub fn ended(&self) -> Answer {
        let redirect = self.prepared(|parts| parts.ended().map(RedirectRef::into_owned));
        redirect.map_or(Answer::Gone, Answer::Redirect)
    }

    pub(crate) fn life(&self) -> Life {
        Life {
            enabled: self.enabled,
            starts_at: self.starts_at,
            expires_at: self.expires_at,
            max_clicks: self.max_clicks,
        }
    }

    /// What `work` makes of its parts, with what is sent escaped.
    pub(crate) fn prepared<R>(&self, work: impl FnOnce(&Parts<'_>) -> R) -> R {
        let destination = escaped(&self.destination);
        let fallback = self.fallback.as_deref().map(escaped);
        work(&Parts {
            path: &self.path,
            destination: &destination,
            fallback: fallback.as_deref(),
            code: self.code,
            append_rest: self.append_rest,
            query: self.query,
            max_age: self.max_age,
            life: self.life(),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::rule::Query;

    fn rule(change: impl FnOnce(&mut Terms)) -> Rule {
        let mut terms = Terms::new("/docs/*", "https://example.com/d?a=1#top");
        change(&mut terms);
        Rule { id: "a".into(), terms, clicks: 0, version: 1, created_at: 0, updated_at: 0 }
    }

    fn location(change: impl FnOnce(&mut Terms), path: &str, query: Option<&str>) -> String {
        rule(change).terms.redirect(path, query).location
    }

    #[test]
    fn it_is_live_from_its_start_to_its_end_both_included() {
        let mut rule =
            rule(|it| (it.starts_at, it.expires_at, it.max_clicks) = (Some(10), Some(20), Some(3)));
        let states = [9, 10, 20, 21].map(|now| rule.state(now));
        assert_eq!(states, [State::Scheduled, State::Live, State::Live, State::Ended]);
        rule.clicks = 2;
        assert_eq!(rule.state(15), State::Live);
        rule.clicks = 3;
        assert_eq!(rule.state(15), State::Ended);
        assert_eq!(
            (rule.state(9), rule.next_at(9)),
            (State::Scheduled, Some(10)),
            "it ends no sooner than it starts"
        );
        rule.terms.enabled = false;
        assert_eq!([9, 15, 21].map(|now| rule.state(now)), [State::Disabled; 3]);
        assert_eq!(rule.answer("/docs", None, 15), Answer::None);
    }

    #[test]
    fn who_can_end_is_never_sent_for_good() {
        let sent = |code: Code, change: fn(&mut Terms)| {
            let redirect = rule(|it| {
                (it.code, it.max_age) = (code, Some(60));
                change(it);
            });
            let redirect = redirect.terms.redirect("/docs", None);
            (redirect.code.as_u16(), redirect.cache_control)
        };
        for (code, for_now) in [(Code::MovedPermanently, 302), (Code::PermanentRedirect, 307)] {
            let no_store = Some("no-store".to_owned());
            assert_eq!(sent(code, |it| it.expires_at = Some(1)), (for_now, no_store.clone()));
            assert_eq!(sent(code, |it| it.max_clicks = Some(1)), (for_now, no_store));
            assert_eq!(sent(code, |_| ()), (code.as_u16(), Some("max-age=60".to_owned())));
        }
        assert_eq!(sent(Code::Found, |_| ()), (302, None));
    }

    #[test]
    fn ended_ones_are_gone_or_send_elsewhere() {
        let ended = |fallback: Option<&str>| {
            let fallback = fallback.map(str::to_owned);
            rule(|it| (it.expires_at, it.fallback) = (Some(1), fallback)).answer("/docs/x", Some("q"), 2)
        };
        assert_eq!(ended(None), Answer::Gone);
        let Answer::Redirect(redirect) = ended(Some("/over")) else { panic!("it has a fallback") };
        assert_eq!((redirect.code, &*redirect.location), (Code::Found, "/over"));
    }

    #[test]
    fn the_rest_comes_behind_one_slash() {
        for (destination, path, expected) in [
            ("https://example.com", "/docs/a/b", "https://example.com/a/b"),
            ("https://example.com/", "/docs/a", "https://example.com/a"),
            ("https://example.com/x?q#f", "/docs/a/", "https://example.com/x/a/?q#f"),
            ("https://example.com", "/docs//evil.example/", "https://example.com/evil.example/"),
            ("/", "/docs//evil.example", "/evil.example"),
            ("/", "/docs/", "/"),
            ("https://example.com", "/docs", "https://example.com"),
        ] {
            let change = |it: &mut Terms| (it.destination, it.append_rest) = (destination.to_owned(), true);
            assert_eq!(location(change, path, None), expected);
        }
        assert_eq!(
            location(|_| (), "/docs/a", None),
            "https://example.com/d?a=1#top",
            "only if it is asked for"
        );
    }

    #[test]
    fn the_query_is_dropped_appended_or_merged() {
        let with = |query: Query, given: &str| location(|it| it.query = query, "/docs", Some(given));
        let to = |query: &str| format!("https://example.com/d{query}#top");
        assert_eq!(with(Query::Off, "a=2"), to("?a=1"));
        assert_eq!(with(Query::Append, "a=2&b"), to("?a=1&a=2&b"));
        assert_eq!(with(Query::Merge, "a=2&b"), to("?a=2&b"));
        assert_eq!(with(Query::Merge, "%61=2"), to("?%61=2"), "names are compared as they are meant");
        assert_eq!(with(Query::Merge, "b=2"), to("?a=1&b=2"));
        assert_eq!(with(Query::Append, ""), to("?a=1"));
        assert_eq!(with(Query::Append, "x=a b\r\n\"ü"), to("?a=1&x=a%20b%0D%0A%22%C3%BC"));
    }

    proptest! {
        #[test]
        fn no_request_changes_the_authority(
            path in "/docs[/a-c@:.%\\\\]{0,16}",
            query in proptest::option::of("[ -~ü\\r\\n]{0,16}"),
            query_mode in 0..3_usize,
            destination in "(https://example\\.com(:81)?(/[a-c/]{0,4})?|/[a-c][a-c/]{0,4}|/)(\\?[a-c=&]{0,6})?(#[a-c]{0,3})?",
        ) {
            let path = crate::path::normalised(&path).unwrap().into_owned();
            let query_mode = [Query::Off, Query::Append, Query::Merge][query_mode];
            let change = |it: &mut Terms| {
                (it.destination, it.append_rest, it.query) = (destination.clone(), true, query_mode);
            };
            let location = location(change, &path, query.as_deref());
            let asked = url::Url::parse("https://asked.example/docs/").unwrap();
            let (meant, sent) = (asked.join(&destination).unwrap(), asked.join(&location).unwrap());
            prop_assert_eq!(sent.origin(), meant.origin(), "{}", location);
            prop_assert_eq!(sent.username(), "");
            prop_assert!(sent.path().starts_with(meant.path().trim_end_matches('/')), "{}", location);
            prop_assert_eq!(sent.fragment(), meant.fragment());
            prop_assert!(location.bytes().all(|byte| byte.is_ascii_graphic()), "{:?}", location);
        }
    }
}
