//! Where a request is sent to: the header `Location`, made of a rule's destination and of what the request brought.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt::Write as _;

use url::form_urlencoded;

use super::Query;
use super::parts::Parts;
use crate::path::rest_below;

impl<'a> Parts<'a> {
    /// Borrowed unless something of the request is appended.
    pub(super) fn location(&self, path: &str, query: Option<&str>) -> Cow<'a, str> {
        let rest = match self.folder() {
            Some(folder) if self.append_rest => rest_below(folder, path).unwrap_or_default(),
            _ => "",
        };
        // However many slashes it starts with: it comes behind one, and so cannot be an authority.
        let rest = rest.trim_start_matches('/');
        let query = query.filter(|it| self.query != Query::Off && !it.is_empty());
        if rest.is_empty() && query.is_none() {
            return Cow::Borrowed(self.destination);
        }
        let (address, fragment) = split(self.destination, '#');
        let (base, own_query) = split(address, '?');
        let mut location = String::with_capacity(self.destination.len() + path.len() + 16);
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
        Cow::Owned(location)
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
pub(crate) fn escaped(text: &str) -> Cow<'_, str> {
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
