//! Our own lines of JSON: a rule each, with the names that the API has for its fields.

use std::io::{self, Write};

use serde::Deserialize;

use super::csv::too_long;
use super::input::{Input, Line};
use super::problem::Problem;
use super::{Entry, History, Item, Source};
use crate::rule::{Code, Query, Terms};

/// A rule with all that it may have. A field whose name is misspelt is not passed over.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, expecting = "an object that is a rule")]
struct Given {
    id: Option<String>,
    host: Option<String>,
    path: String,
    destination: String,
    #[serde(default)]
    code: Code,
    #[serde(default)]
    append_rest: bool,
    #[serde(default)]
    query: Query,
    starts_at: Option<u64>,
    expires_at: Option<u64>,
    max_clicks: Option<u64>,
    fallback: Option<String>,
    max_age: Option<u32>,
    #[serde(default)]
    tags: Vec<String>,
    enabled: Option<bool>,
    #[serde(default)]
    note: String,
    version: Option<u64>,
    created_at: Option<u64>,
    updated_at: Option<u64>,
    clicks: Option<u64>,
}

/// Lines of JSON.
pub(super) struct Jsonl;

impl Source for Jsonl {
    fn next(&mut self, input: &mut Input) -> io::Result<Option<Item>> {
        let mut bytes = Vec::new();
        loop {
            bytes.clear();
            let line = input.line();
            let how = input.read_line(&mut bytes)?;
            return Ok(Some(match how {
                None => return Ok(None),
                Some(Line::TooLong) => Item::Problem(too_long(line)),
                Some(Line::Whole) if bytes.trim_ascii().is_empty() => continue,
                Some(Line::Whole) => match serde_json::from_slice::<Given>(&bytes) {
                    Ok(given) => Item::Rule(given.into_entry(line)),
                    Err(error) => Item::Problem(Problem::new(line, wrong(&error))),
                },
            }));
        }
    }
}

/// What is wrong with some JSON, without where: its line is not the file's.
pub(super) fn wrong(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let end = text.rfind(" at line ").unwrap_or(text.len());
    text[..end].to_owned()
}

impl Given {
    fn into_entry(self, line: u64) -> Entry {
        let mut terms = Terms::new(self.path, self.destination);
        if let Some(host) = self.host {
            terms.host = host;
        }
        terms.code = self.code;
        terms.append_rest = self.append_rest;
        terms.query = self.query;
        terms.starts_at = self.starts_at;
        terms.expires_at = self.expires_at;
        terms.max_clicks = self.max_clicks;
        terms.fallback = self.fallback;
        terms.max_age = self.max_age;
        terms.tags = self.tags;
        terms.enabled = self.enabled.unwrap_or(true);
        terms.note = self.note;
        let mut entry = Entry::new(line, terms);
        entry.draft.id = self.id;
        entry.history = History {
            version: self.version,
            created_at: self.created_at,
            updated_at: self.updated_at,
            clicks: self.clicks,
        };
        entry
    }
}

/// Writes a rule by its canonical JSON, which is all but its clicks.
pub(crate) fn write(into: &mut impl Write, body: &str, clicks: u64) -> io::Result<()> {
    let open =
        body.strip_suffix('}').ok_or_else(|| io::Error::other(format!("a rule is no object: {body}")))?;
    writeln!(into, "{open},\"clicks\":{clicks}}}")
}

#[cfg(test)]
mod tests {
    use super::super::Format;
    use super::super::table::{compare, one, read};
    use super::*;

    #[test]
    fn lines_are_rules() {
        compare(
            Format::Jsonl,
            &[
                (r#"{"path":"/a","destination":"/b"}"#, "* /a 302 off /b"),
                (
                    r#" {"host":"x.example","path":"/a/*","destination":"/b","appendRest":true,"query":"merge","code":308}"#,
                    "x.example /a/* 308 merge /b+rest",
                ),
                (r#"{"path":"/a"}"#, "! missing field `destination`"),
                (r#"{"path":"/a","destination":"/b","expires_at":1}"#, "! unknown field `expires_at`"),
                (r#"{"path":"/a","destination":"/b","code":303}"#, "! 303 is not allowed"),
                (r#"{"path":"/a","destination":"/b"} x"#, "! trailing characters"),
                (r#"{"path":"/a","path":"/c","destination":"/b"}"#, "! duplicate field"),
                ("[]", "! invalid"),
            ],
        );
    }

    #[test]
    fn what_a_rule_has_been_through_is_read() {
        let text = r#"{"id":"a","path":"/a","destination":"/b","enabled":false,"startsAt":null,
            "version":3,"createdAt":4,"updatedAt":5,"clicks":6}"#
            .replace('\n', " ");
        let entry = one(Format::Jsonl, &text);
        let all = History { version: Some(3), created_at: Some(4), updated_at: Some(5), clicks: Some(6) };
        assert_eq!((entry.draft.id.as_deref(), entry.history), (Some("a"), all));
        assert!(!entry.draft.terms.enabled);
    }

    #[test]
    fn empty_lines_count() {
        let items = read(Format::Jsonl, "\n\r\n{\"path\":\"/a\",\"destination\":\"/b\"}\n{");
        assert_eq!(items[0], "3 * /a 302 off /b");
        assert_eq!(items[1], "4! EOF while parsing an object");
    }
}
