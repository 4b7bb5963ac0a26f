//! What a rule may be. What is refused says which field, why, and what is allowed.

use std::fmt;

use url::Url;

use super::{
    Draft, MAX_DESTINATION_BYTES, MAX_ID_BYTES, MAX_NOTE_BYTES, MAX_PATH_BYTES, MAX_TAG_BYTES, MAX_TAGS,
    Terms,
};
use crate::path::{host_matches, normalised, normalised_host, path_matches};

/// Numbers stay below this: they are exact in every client's JSON.
const MAX_NUMBER: u64 = 1 << 53;

/// A year: clients do not believe more.
const MAX_AGE_SECONDS: u32 = 366 * 24 * 3600;

/// Why a rule is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invalid {
    /// The field, by its name in JSON.
    pub field: &'static str,
    /// What is wrong, and what is allowed.
    pub reason: String,
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.reason)
    }
}

impl std::error::Error for Invalid {}

/// What is allowed, and probably not meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Warning {
    /// It has ended already.
    ExpiresInThePast,
    /// It redirects, or does when it has ended, to its own path on a host that may be served by it too.
    MayLoop,
    /// It asks for a permanent redirect and can end: it is sent as a temporary one.
    SentAsTemporary,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ExpiresInThePast => "expiresAt is in the past: it has ended already",
            Self::MayLoop => {
                "it is for any host and redirects to its own path: on that host it would be a loop"
            }
            Self::SentAsTemporary => "it can end, so it is sent as a temporary redirect (302 or 307)",
        })
    }
}

fn invalid(field: &'static str, reason: impl Into<String>) -> Invalid {
    Invalid { field, reason: reason.into() }
}

impl Draft {
    /// The same with host, path and tags in their one form, or why it is refused. `now_ms` is only what times are
    /// compared with that make a warning.
    pub fn check(mut self, now_ms: u64) -> Result<(Self, Vec<Warning>), Invalid> {
        if let Some(id) = &self.id {
            text("id", id, MAX_ID_BYTES)?;
            if id.is_empty() {
                return Err(invalid("id", "it is empty; leave it out to have one made"));
            }
        }
        let warnings = self.terms.check(now_ms)?;
        Ok((self, warnings))
    }
}

impl Terms {
    fn check(&mut self, now_ms: u64) -> Result<Vec<Warning>, Invalid> {
        self.host = host(&self.host)?;
        self.path = path(&self.path)?;
        let destination = target("destination", &self.destination)?;
        let mut warnings = Vec::new();
        if self.append_rest && self.folder().is_none() {
            return Err(invalid(
                "appendRest",
                format!("{:?} has nothing below it: only /…/* does", self.path),
            ));
        }
        if self.loops("destination", &destination)? {
            warnings.push(Warning::MayLoop);
        }
        if let Some(fallback) = &self.fallback {
            let fallback = target("fallback", fallback)?;
            if self.loops("fallback", &fallback)? && !warnings.contains(&Warning::MayLoop) {
                warnings.push(Warning::MayLoop);
            }
            if !self.can_end() {
                return Err(invalid(
                    "fallback",
                    "the rule cannot end: it has neither expiresAt nor maxClicks",
                ));
            }
        }
        self.times(now_ms, &mut warnings)?;
        if let Some(max_age) = self.max_age
            && max_age > MAX_AGE_SECONDS
        {
            return Err(invalid("maxAge", format!("{max_age} seconds are too many: 0 to {MAX_AGE_SECONDS}")));
        }
        if self.can_end() && self.code.is_permanent() {
            warnings.push(Warning::SentAsTemporary);
        }
        self.words()?;
        Ok(warnings)
    }

    fn times(&self, now_ms: u64, warnings: &mut Vec<Warning>) -> Result<(), Invalid> {
        for (field, number) in
            [("startsAt", self.starts_at), ("expiresAt", self.expires_at), ("maxClicks", self.max_clicks)]
        {
            if number.is_some_and(|it| it >= MAX_NUMBER) {
                return Err(invalid(field, format!("it is too large: less than {MAX_NUMBER} is allowed")));
            }
        }
        if let (Some(starts), Some(expires)) = (self.starts_at, self.expires_at)
            && starts > expires
        {
            return Err(invalid("expiresAt", format!("{expires} is before startsAt, {starts}")));
        }
        if self.max_clicks == Some(0) {
            return Err(invalid(
                "maxClicks",
                "0 would never redirect: 1 or more; enabled: false turns it off",
            ));
        }
        if self.expires_at.is_some_and(|it| it < now_ms) {
            warnings.push(Warning::ExpiresInThePast);
        }
        Ok(())
    }

    fn words(&mut self) -> Result<(), Invalid> {
        for tag in &self.tags {
            text("tags", tag, MAX_TAG_BYTES)?;
            if tag.is_empty() {
                return Err(invalid("tags", "one is empty"));
            }
        }
        self.tags.sort();
        self.tags.dedup();
        if self.tags.len() > MAX_TAGS {
            return Err(invalid("tags", format!("there are {}: at most {MAX_TAGS}", self.tags.len())));
        }
        // People write lines.
        if let Some(c) = self.note.chars().find(|c| c.is_control() && !matches!(c, '\n' | '\t')) {
            return Err(invalid("note", format!("the control character {c:?} is not allowed")));
        }
        bytes("note", &self.note, MAX_NOTE_BYTES)
    }

    /// Refuses what would send a request back to this rule; whether it may, on a host of which we do not know.
    fn loops(&self, field: &'static str, target: &Target) -> Result<bool, Invalid> {
        let Some(path) = normalised(target.path()) else { return Ok(false) };
        if !path_matches(&self.path, &path) {
            return Ok(false);
        }
        let host = match target {
            Target::Path(_) => None,
            Target::Url(url) => match url.host_str().and_then(normalised_host) {
                Some(host) => Some(host.into_owned()),
                None => return Ok(false),
            },
        };
        match host {
            Some(_) if self.host == "*" => Ok(true),
            Some(host) if !host_matches(&self.host, &host) => Ok(false),
            _ => {
                Err(invalid(field, "it is what the rule is for: a request would be sent back to it for ever"))
            }
        }
    }
}

/// Where to: somewhere, or on the host that was asked.
pub(super) enum Target {
    Url(Url),
    Path(String),
}

impl Target {
    fn path(&self) -> &str {
        match self {
            Self::Url(url) => url.path(),
            Self::Path(text) => text.split(['?', '#']).next().unwrap_or_default(),
        }
    }
}

fn host(given: &str) -> Result<String, Invalid> {
    if given == "*" {
        return Ok(given.to_owned());
    }
    let (wildcard, name) = given.strip_prefix("*.").map_or(("", given), |name| ("*.", name));
    let not_one = || {
        let allowed = "example.com, *.example.com for it and all below, or * for any";
        invalid("host", format!("{given:?} is not allowed: {allowed}"))
    };
    let name = normalised_host(name).ok_or_else(not_one)?;
    let is_address = name.starts_with('[') || name.parse::<std::net::Ipv4Addr>().is_ok();
    if given.contains(':') && !name.starts_with('[') || is_address && !wildcard.is_empty() {
        return Err(not_one());
    }
    Ok(format!("{wildcard}{name}"))
}

fn path(given: &str) -> Result<String, Invalid> {
    bytes("path", given, MAX_PATH_BYTES)?;
    if let Some(c) = given.chars().find(|c| c.is_control()) {
        return Err(invalid("path", format!("the control character {c:?} is not allowed")));
    }
    if let Some(c) = given.chars().find(|c| matches!(c, '?' | '#')) {
        let as_text = if c == '?' { "%3F" } else { "%23" };
        return Err(invalid("path", format!("{c:?} ends a path: without it, or {as_text} if it is meant")));
    }
    let (folder, is_folder) = given.strip_suffix("/*").map_or((given, false), |folder| (folder, true));
    if folder.contains('*') {
        return Err(invalid("path", format!("{given:?} is not allowed: * only stands at the end, behind /")));
    }
    // Something stands below a folder while its dots are resolved.
    let below = if is_folder { "/x" } else { "" };
    let whole = format!("{folder}{below}");
    let path =
        normalised(&whole).ok_or_else(|| invalid("path", format!("{given:?} does not start with /")))?;
    bytes("path", &path, MAX_PATH_BYTES)?;
    Ok(match path.strip_suffix(below) {
        Some(folder) if is_folder => format!("{folder}/*"),
        _ => path.into_owned(),
    })
}

/// A destination: `http:`, `https:`, or a path on the same host. It is kept as it was given.
pub(super) fn target(field: &'static str, given: &str) -> Result<Target, Invalid> {
    text(field, given, MAX_DESTINATION_BYTES)?;
    let allowed = "https://…, http://… or a path that starts with / are";
    // Clients strip what is around an address, and read `\` as `/`: what is checked must be what they see.
    if given.contains(['\\', ' ']) {
        let c = if given.contains('\\') { "\\" } else { " " };
        return Err(invalid(field, format!("{given:?} has {c:?} in it: escape it (%5C, %20)")));
    }
    if given.starts_with('/') {
        return match given.starts_with("//") {
            true => Err(invalid(field, format!("{given:?} has no scheme: {allowed} allowed"))),
            false => Ok(Target::Path(given.to_owned())),
        };
    }
    let url = Url::parse(given)
        .map_err(|error| invalid(field, format!("{given:?} is no address ({error}): {allowed}")))?;
    // Without the slashes clients read it as a path, if they have come by the same scheme.
    let has_slashes = given.get(url.scheme().len()..).is_some_and(|rest| rest.starts_with("://"));
    match url.scheme() {
        "http" | "https" if has_slashes => Ok(Target::Url(url)),
        scheme => Err(invalid(field, format!("{given:?} is a {scheme:?} address: {allowed} allowed"))),
    }
}

fn text(field: &'static str, given: &str, most: usize) -> Result<(), Invalid> {
    if let Some(c) = given.chars().find(|c| c.is_control()) {
        return Err(invalid(field, format!("the control character {c:?} is not allowed")));
    }
    bytes(field, given, most)
}

fn bytes(field: &'static str, given: &str, most: usize) -> Result<(), Invalid> {
    match given.len() {
        len if len > most => Err(invalid(field, format!("it has {len} bytes: at most {most}"))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::Code;

    const NOW: u64 = 1_700_000_000_000;

    fn with(change: impl FnOnce(&mut Terms)) -> Result<(Terms, Vec<Warning>), Invalid> {
        let mut terms = Terms::new("/a", "https://example.com/b");
        change(&mut terms);
        Draft::new(terms).check(NOW).map(|(draft, warnings)| (draft.terms, warnings))
    }

    fn refused(change: impl FnOnce(&mut Terms)) -> &'static str {
        with(change).expect_err("it is refused").field
    }

    #[test]
    fn host_path_and_tags_have_one_form() {
        let (terms, warnings) = with(|it| {
            it.host = "*.Bücher.example.".to_owned();
            it.path = "/%64ocs/./x/%2f/*".to_owned();
            it.tags = ["b", "a", "b"].map(str::to_owned).to_vec();
        })
        .unwrap();
        assert_eq!((&*terms.host, &*terms.path), ("*.xn--bcher-kva.example", "/docs/x/%2F/*"));
        assert_eq!(terms.tags, ["a", "b"]);
        assert_eq!(warnings, []);
        for (given, path) in [("/*", "/*"), ("//*", "//*"), ("/a/../*", "/*"), ("/a/", "/a/"), ("/", "/")] {
            assert_eq!(with(|it| it.path = given.to_owned()).map(|it| it.0.path).as_deref(), Ok(path));
        }
    }

    #[test]
    fn what_is_no_host_or_path_is_refused() {
        for host in ["", "a b", "example.com:80", "*.*.com", "a.*", "**", "*.127.0.0.1", "http://a", "a/b"] {
            assert_eq!(refused(|it| it.host = host.to_owned()), "host", "{host}");
        }
        for path in ["", "a", "/a?b", "/a#b", "/a*", "/*/a", "/a\n", "*", &format!("/{}", "a".repeat(2048))] {
            assert_eq!(refused(|it| it.path = path.to_owned()), "path", "{path}");
        }
        assert_eq!(refused(|it| it.path = format!("/{}", "ü".repeat(1000))), "path", "longer than it looks");
    }

    #[test]
    fn a_destination_is_an_address_of_the_web() {
        for destination in [
            "",
            "example.com",
            "javascript:alert(1)",
            "data:text/html,x",
            "ftp://example.com/",
            "//example.com/",
            "/\\example.com",
            "https:example.com",
            "https:b?u=http://x",
            "HTTP:/b#://",
            "https://",
            "https://exa mple.com/",
            "https://example.com/\r\nX: y",
            " https://example.com/",
            &format!("https://example.com/{}", "a".repeat(4096)),
        ] {
            assert_eq!(
                refused(|it| it.destination = destination.to_owned()),
                "destination",
                "{destination:?}"
            );
        }
        for destination in [
            "https://example.com",
            "HTTPS://example.com/?u=http:x",
            "http://[::1]:8080/?a#b",
            "/b?c=d#e",
            "https://u:p@example.com/ü",
        ] {
            assert!(with(|it| it.destination = destination.to_owned()).is_ok(), "{destination}");
        }
    }

    #[test]
    fn what_leads_back_to_itself_is_refused() {
        let both = |host: &str, path: &str, destination: &str| {
            with(|it| (it.host, it.path, it.destination) = (host.into(), path.into(), destination.into()))
        };
        for (host, path, destination) in [
            ("*", "/a", "/a"),
            ("*", "/a", "/%61?x"),
            ("*", "/a/*", "/a/b"),
            ("*", "/*", "/b"),
            ("example.com", "/a", "https://EXAMPLE.com:8443/b/../a#c"),
            ("*.example.com", "/*", "https://www.example.com"),
        ] {
            let error = both(host, path, destination).expect_err(destination);
            assert_eq!(error.field, "destination", "{error}");
        }
        for (host, path, destination) in [
            ("*", "/a", "/a/"),
            ("example.com", "/a", "https://www.example.com/a"),
            ("*.example.com", "/*", "https://example.org/"),
            ("example.com", "/a/*", "/ab"),
        ] {
            assert_eq!(both(host, path, destination).map(|it| it.1), Ok(vec![]), "{destination}");
        }
        let moved = both("*", "/*", "https://new.example/");
        assert_eq!(moved.map(|it| it.1), Ok(vec![Warning::MayLoop]), "how a whole site moves");
        let fallback = with(|it| (it.fallback, it.max_clicks) = (Some("/a".into()), Some(1)));
        assert_eq!(fallback.expect_err("a loop").field, "fallback");
        let to = |destination: &str| {
            let fallback = Some("https://new.example/a".to_owned());
            with(|it| (it.destination, it.fallback, it.max_clicks) = (destination.into(), fallback, Some(1)))
        };
        for destination in ["/b", "https://old.example/a"] {
            assert_eq!(to(destination).map(|it| it.1), Ok(vec![Warning::MayLoop]), "{destination}");
        }
    }

    #[test]
    fn numbers_have_bounds_and_the_past_is_allowed() {
        assert_eq!(refused(|it| it.max_clicks = Some(0)), "maxClicks");
        assert_eq!(refused(|it| it.max_clicks = Some(1 << 53)), "maxClicks");
        assert_eq!(refused(|it| it.starts_at = Some(u64::MAX)), "startsAt");
        assert_eq!(refused(|it| (it.starts_at, it.expires_at) = (Some(2), Some(1))), "expiresAt");
        assert_eq!(refused(|it| it.max_age = Some(u32::MAX)), "maxAge");
        assert_eq!(refused(|it| it.fallback = Some("/b".into())), "fallback");
        assert_eq!(refused(|it| it.append_rest = true), "appendRest");
        assert_eq!(refused(|it| it.note = "a\u{7}".into()), "note");
        assert_eq!(refused(|it| it.note = "a".repeat(1025)), "note");
        assert_eq!(refused(|it| it.tags = vec![String::new()]), "tags");
        assert_eq!(refused(|it| it.tags = (0..33).map(|it| it.to_string()).collect()), "tags");
        let past = with(|it| (it.expires_at, it.code) = (Some(NOW - 1), Code::MovedPermanently)).unwrap();
        assert_eq!(past.1, [Warning::ExpiresInThePast, Warning::SentAsTemporary]);
        assert_eq!(with(|it| it.expires_at = Some(NOW)).unwrap().1, []);
    }

    #[test]
    fn ids_are_text_without_control_characters() {
        let check = |id: &str| {
            let draft = Draft { id: Some(id.to_owned()), terms: Terms::new("/a", "/b") };
            draft.check(NOW).map(|it| it.0.id)
        };
        assert_eq!(check("007 \"ü\":/"), Ok(Some("007 \"ü\":/".to_owned())));
        for id in ["", "a\n", &"a".repeat(129)] {
            assert_eq!(check(id).expect_err("refused").field, "id");
        }
    }

    #[test]
    fn a_misspelt_field_is_refused() {
        let draft = |json: &str| serde_json::from_str::<Draft>(json);
        let error = draft(r#"{"path": "/a", "destination": "/b", "expires_at": 5}"#).unwrap_err();
        assert!(error.to_string().contains("\"expires_at\""), "{error}");
        assert!(draft(r#"{"path": "/a", "destination": "/b", "code": 303}"#).is_err());
        assert!(draft(r#"{"path": "/a", "destination": "/b", "code": 308, "query": "merge"}"#).is_ok());
    }
}
