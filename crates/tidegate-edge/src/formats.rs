//! Lists of redirects as others write them, and our own: bytes in, drafts and problems out, a line at a time.
//!
//! What has no counterpart here (a regular expression, a condition, a placeholder, a proxy) is a [`Problem`] with its
//! line; it is never turned into something similar. Where a rule comes out a little wider or narrower than it was (a
//! source that named a scheme, say), its [`Entry`] has a warning.
//!
//! Nothing here knows a database, or whether a draft is one that a database would take: [`Draft::check`] does.
//!
//! ```
//! use tidegate_edge::formats::{Format, Item, Reader};
//!
//! let list = "/old /new\n/blog/:year /archive 301\n";
//! let items: Vec<_> = Reader::new(Format::Netlify, list.as_bytes()).map(Result::unwrap).collect();
//! let [Item::Rule(rule), Item::Problem(problem)] = &items[..] else { panic!("{items:?}") };
//! assert_eq!((&*rule.draft.terms.path, &*rule.draft.terms.destination), ("/old", "/new"));
//! assert_eq!(problem.line, 2);
//! ```

mod apache;
mod cloudflare;
mod columns;
pub(crate) mod csv;
mod elements;
mod input;
pub(crate) mod jsonl;
mod literal;
mod netlify;
mod nginx;
mod problem;
mod shlink;
#[cfg(test)]
mod table;
mod vercel;
mod yourls;

use std::fmt;
use std::io::{self, Read};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use self::input::Input;
pub use self::problem::{MAX_PROBLEMS, Problem, Problems};
use crate::rule::{Draft, Terms};

/// Bytes that one rule may have in a file: several times what the longest rule needs, however it is escaped.
pub const MAX_RECORD_BYTES: usize = 128 << 10;

/// How a list of redirects is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Format {
    /// Our own, with a header: columns are called what a rule's fields are called in JSON, in any order.
    Csv,
    /// Our own: a rule per line, as JSON.
    Jsonl,
    /// nginx: `rewrite`, `location = … { return … }` and `map $uri`.
    Nginx,
    /// Apache: `Redirect` and its kin, `RedirectMatch` and `RewriteRule` of one path.
    Apache,
    /// Netlify's `_redirects`.
    Netlify,
    /// Cloudflare's Bulk Redirects as CSV.
    Cloudflare,
    /// Vercel's bulk redirects as a JSON array, or the `redirects` of a `vercel.json`.
    Vercel,
    /// What Shlink's web client exports as CSV.
    Shlink,
    /// What YOURLS exports, as CSV or as JSON.
    Yourls,
}

impl Format {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Csv,
        Self::Jsonl,
        Self::Nginx,
        Self::Apache,
        Self::Netlify,
        Self::Cloudflare,
        Self::Vercel,
        Self::Shlink,
        Self::Yourls,
    ];

    /// What it is called.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::Jsonl => "jsonl",
            Self::Nginx => "nginx",
            Self::Apache => "apache",
            Self::Netlify => "netlify",
            Self::Cloudflare => "cloudflare",
            Self::Vercel => "vercel",
            Self::Shlink => "shlink",
            Self::Yourls => "yourls",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|it| it.as_str() == text);
        found.ok_or_else(|| {
            let all = Self::ALL.map(Self::as_str).join(", ");
            format!("{text:?} is no format of lists of redirects: {all} are")
        })
    }
}

/// How rules are written to a file: either is read again as it is, with versions, times and clicks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ExportFormat {
    /// [`Format::Csv`].
    #[default]
    Csv,
    /// [`Format::Jsonl`].
    Jsonl,
}

/// A rule in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// Its first line, from 1 on.
    pub line: u64,
    /// What it says. Not checked.
    pub draft: Draft,
    /// What it has been through, as far as the file tells.
    pub history: History,
    /// What is a little different here, for people.
    pub warnings: Vec<String>,
}

impl Entry {
    fn new(line: u64, terms: Terms) -> Self {
        Self { line, draft: Draft::new(terms), history: History::default(), warnings: Vec::new() }
    }
}

/// What a rule has been through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct History {
    /// Which version of it this is.
    pub version: Option<u64>,
    /// When it was made, in milliseconds.
    pub created_at: Option<u64>,
    /// When it was last changed.
    pub updated_at: Option<u64>,
    /// Redirects so far.
    pub clicks: Option<u64>,
}

/// What comes out of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "nobody keeps many, and most are rules")]
pub enum Item {
    /// A rule.
    Rule(Entry),
    /// Something that is none here.
    Problem(Problem),
}

/// What reads one format.
trait Source: Send {
    /// What comes next; none at the end.
    fn next(&mut self, input: &mut Input) -> io::Result<Option<Item>>;
}

/// Reads a file, item by item, in memory for one of them. An error of the file ends it, also one behind the last item: a
/// file is read to its end.
pub struct Reader {
    input: Input,
    source: Box<dyn Source>,
    host: Option<String>,
    is_over: bool,
}

impl Reader {
    /// Reads a file of that format. Reading may block.
    pub fn new(format: Format, from: impl Read + Send + 'static) -> Self {
        let source: Box<dyn Source> = match format {
            Format::Csv => Box::new(csv::Csv::default()),
            Format::Jsonl => Box::new(jsonl::Jsonl),
            Format::Nginx => Box::new(nginx::Nginx::default()),
            Format::Apache => Box::new(apache::Apache::default()),
            Format::Netlify => Box::new(netlify::Netlify::default()),
            Format::Cloudflare => Box::new(cloudflare::Cloudflare),
            Format::Vercel => Box::new(vercel::Vercel::default()),
            Format::Shlink => Box::new(shlink::Shlink::default()),
            Format::Yourls => Box::new(yourls::Yourls::default()),
        };
        Self { input: Input::new(Box::new(from)), source, host: None, is_over: false }
    }

    /// The host of rules that are for any host: most of these lists name none.
    #[must_use]
    pub fn host(mut self, host: impl Into<String>) -> Self {
        self.host = Some(host.into());
        self
    }

    /// Lines that were read.
    pub fn lines(&self) -> u64 {
        self.input.lines()
    }

    /// Bytes that were read.
    pub fn bytes(&self) -> u64 {
        self.input.bytes()
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").field("lines", &self.lines()).finish_non_exhaustive()
    }
}

impl Iterator for Reader {
    type Item = io::Result<Item>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let mut item = self.source.next(&mut self.input).transpose();
        if item.is_none() {
            item = self.input.finish().err().map(Err);
        }
        self.is_over = !matches!(item, Some(Ok(_)));
        if let (Some(Ok(Item::Rule(entry))), Some(host)) = (&mut item, &self.host)
            && entry.draft.terms.host == "*"
        {
            entry.draft.terms.host.clone_from(host);
        }
        item
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_found_by_their_names() {
        for format in Format::ALL {
            assert_eq!(format.as_str().parse(), Ok(format));
            assert_eq!(serde_json::to_value(format).unwrap(), format.as_str());
        }
        let error = "excel".parse::<Format>().unwrap_err();
        assert!(error.contains("excel") && error.contains("netlify"), "{error}");
    }

    #[test]
    fn a_file_without_hosts_can_be_given_one() {
        let list = "/a /b\nhttp://own.example/c /d\n";
        let items: Vec<_> = Reader::new(Format::Netlify, list.as_bytes()).host("x.example").collect();
        let hosts: Vec<_> = items
            .iter()
            .map(|item| match item {
                Ok(Item::Rule(entry)) => entry.draft.terms.host.clone(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(hosts, ["x.example", "own.example"]);
    }

    struct Broken;

    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("gone"))
        }
    }

    #[test]
    fn what_cannot_be_read_ends_it() {
        for format in Format::ALL {
            let mut reader = Reader::new(format, b"\n".chain(Broken));
            let items: Vec<_> = reader.by_ref().collect();
            assert_eq!(items.len(), 1, "{format}: {items:?}");
            assert!(items[0].is_err(), "{format}: {items:?}");
        }
    }

    /// Where a list ends before its file, it may have lost more than is missed.
    #[test]
    fn a_file_that_breaks_off_behind_its_list_has_broken_off() {
        for (format, list) in [
            (Format::Vercel, r#"[{"source":"/a","destination":"/b"}]"#),
            (Format::Yourls, r#"{"links":{}}"#),
            (Format::Csv, "no,header\n"),
            (Format::Csv, "path,destination\n\"/a"),
            (Format::Shlink, "nothing,known\n"),
            (Format::Nginx, "rewrite \"^/a"),
        ] {
            let items: Vec<_> = Reader::new(format, list.as_bytes().chain(Broken)).collect();
            assert!(items.last().is_some_and(Result::is_err), "{format}: {items:?}");
            assert!(items.iter().rev().skip(1).all(Result::is_ok), "{format}: {items:?}");
        }
    }

    #[test]
    fn an_empty_file_has_nothing() {
        for format in Format::ALL {
            let items: Vec<_> = Reader::new(format, io::empty()).collect();
            assert!(items.is_empty(), "{format}: {items:?}");
        }
    }
}
