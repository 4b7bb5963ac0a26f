//! The address that is asked about.

use tidegate_edge::path::{normalised, normalised_host};

use crate::api::pattern;
use crate::http::{FromQuery, Parameter, Problem, Query, Result};

/// `?url=…`, taken apart as a worker does.
#[derive(Debug)]
pub(crate) struct OfUrl {
    pub(super) host: String,
    pub(super) path: String,
    pub(super) query: Option<String>,
}

impl FromQuery for OfUrl {
    const PARAMETERS: &'static [Parameter] = &[Parameter::text(
        "url",
        pattern::ANY,
        "https://www.example.com/docs/start",
        "an address; what is in front of its host and behind a `#` does not matter",
    )
    .required()];

    fn from_query(query: &Query) -> Result<Self> {
        let url = query.read("url", Self::parse)?;
        url.ok_or_else(|| Problem::invalid("the parameter `url` is missing".to_owned()))
    }
}

impl OfUrl {
    fn parse(url: &str) -> Result<Self, String> {
        let bare = url.split_once("://").map_or(url, |(_, bare)| bare);
        // What is behind `#` no server is sent.
        let bare = bare.split('#').next().unwrap_or_default();
        let (bare, query) = bare.split_once('?').map_or((bare, None), |(bare, query)| (bare, Some(query)));
        let (host, path) = bare.find('/').map_or((bare, "/"), |at| bare.split_at(at));
        let (Some(host), Some(path)) = (normalised_host(host), normalised(path)) else {
            let shown: String = url.chars().take(60).collect();
            return Err(format!("{shown:?} has no host: one like https://www.example.com/docs does"));
        };
        Ok(Self { host: host.into_owned(), path: path.into_owned(), query: query.map(str::to_owned) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_taken_apart() {
        for (url, host, path, query) in [
            ("https://A.example:81/b/../c?d=e&f#g", "a.example", "/c", Some("d=e&f")),
            ("a.example", "a.example", "/", None),
            ("a.example?b", "a.example", "/", Some("b")),
            ("http://[::1]:80//", "[::1]", "//", None),
        ] {
            let it = OfUrl::parse(url).unwrap();
            assert_eq!((&*it.host, &*it.path, it.query.as_deref()), (host, path, query), "{url}");
        }
        for wrong in ["", "/docs", "https://", "http://a b/"] {
            assert!(OfUrl::parse(wrong).is_err(), "{wrong}");
        }
    }
}
