//! What a request is answered by a rule.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use url::form_urlencoded;

use super::{Code, Query, Rule, Terms};
use crate::path::rest_below;

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

impl Rule {
    /// How it is doing at that time; live at the very millisecond at which it expires.
    pub fn state(&self, now_ms: u64) -> State {
        let terms = &self.terms;
        let is_spent = terms.max_clicks.is_some_and(|most| self.clicks >= most);
        match () {
            () if !terms.enabled => State::Disabled,
            () if is_spent || terms.expires_at.is_some_and(|it| now_ms > it) => State::Ended,
            () if terms.starts_at.is_some_and(|it| now_ms < it) => State::Scheduled,
            () => State::Live,
        }
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
        let code = if self.can_end() { self.code.temporary() } else { self.code };
        let cache_control = match self.max_age {
            // Whoever may end is asked again each time.
            _ if self.can_end() => Some("no-store".to_owned()),
            Some(seconds) if code.is_permanent() => Some(format!("max-age={seconds}")),
            _ => None,
        };
        Redirect { code, location: self.location(path, query), cache_control }
    }

    /// What is answered when it is over.
    pub fn ended(&self) -> Answer {
        let Some(fallback) = &self.fallback else { return Answer::Gone };
        Answer::Redirect(Redirect {
            code: self.code.temporary(),
            location: escaped(fallback).into_owned(),
            cache_control: Some("no-store".to_owned()),
        })
    }

    fn location(&self, path: &str, query: Option<&str>) -> String {
        let destination = escaped(&self.destination);
        let rest = match self.folder() {
            Some(folder) if self.append_rest => rest_below(folder, path).unwrap_or_default(),
            _ => "",
        };
        // However many slashes it starts with: it comes behind one, and so cannot be an authority.
        let rest = rest.trim_start_matches('/');
        let query = query.filter(|it| self.query != Query::Off && !it.is_empty());
        if rest.is_empty() && query.is_none() {
            return destination.into_owned();
        }
        let (address, fragment) = split(&destination, '#');
        let (base, own_query) = split(address, '?');
        let mut location = String::with_capacity(destination.len() + path.len() + 16);
        location.push_str(base);
        if !rest.is_empty() {
            if !location.ends_with('/') {
                location.push('/');
            }
            location.push_str(rest);
        }
        let kept = match (own_query, query) {
            (Some(own), Some(query)) if self.query == Query::Merge => without(own, query),
            (own, _) => Cow::Borrowed(own.unwrap_or_default()),
        };
        let mut between = '?';
        // A query ends at `#`, and what a client sent behind one is part of it.
        let query = escaped(query.unwrap_or_default()).replace('#', "%23");
        for query in [&*kept, &*query] {
            if !query.is_empty() {
                location.push(between);
                location.push_str(query);
                between = '&';
            }
        }
        if let Some(fragment) = fragment {
            location.push('#');
            location.push_str(fragment);
        }
        location
    }
}

fn split(text: &str, at: char) -> (&str, Option<&str>) {
    text.split_once(at).map_or((text, None), |(front, behind)| (front, Some(behind)))
}

/// What of a query another does not name.
fn without<'a>(own: &'a str, other: &str) -> Cow<'a, str> {
    let named: BTreeSet<_> = form_urlencoded::parse(other.as_bytes()).map(|(name, _)| name).collect();
    let is_named = |pair: &&str| {
        form_urlencoded::parse(pair.as_bytes()).next().is_some_and(|(name, _)| named.contains(&name))
    };
    if !own.split('&').any(|pair| is_named(&pair)) {
        return Cow::Borrowed(own);
    }
    Cow::Owned(own.split('&').filter(|pair| !is_named(pair)).collect::<Vec<_>>().join("&"))
}

/// Escapes what no header may have in it: all but what is seen of ASCII.
fn escaped(text: &str) -> Cow<'_, str> {
    let is_fit =
        |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'<' | b'>' | b'\\' | b'^' | b'`');
    if text.bytes().all(is_fit) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for byte in text.bytes() {
        if is_fit(byte) {
            escaped.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(escaped, "%{byte:02X}");
        }
    }
    Cow::Owned(escaped)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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
