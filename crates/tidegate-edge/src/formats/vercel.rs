//! Vercel: bulk redirects as a JSON array, or the `redirects` of a `vercel.json`.
//!
//! The two differ: bulk redirects are of one path each, ignore upper and lower case unless they say otherwise (here they
//! differ, of which the first such one warns), drop queries unless they say otherwise, and are temporary by default.
//! Those of a `vercel.json` have patterns, pass queries on and are permanent by default.

use std::io;

use serde::Deserialize;

use super::elements::Elements;
use super::input::Input;
use super::jsonl::wrong;
use super::literal::exact;
use super::problem::Problem;
use super::{Entry, Item, Source};
use crate::rule::{Code, Query, Terms};

/// A list of Vercel's.
#[derive(Default)]
pub(super) struct Vercel {
    elements: Elements,
    has_warned: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, expecting = "an object that is a redirect")]
struct Given {
    source: String,
    destination: String,
    permanent: Option<bool>,
    status_code: Option<u16>,
    case_sensitive: Option<bool>,
    #[serde(alias = "preserveQueryParams")]
    query: Option<bool>,
    #[serde(default)]
    has: Vec<serde_json::Value>,
    #[serde(default)]
    missing: Vec<serde_json::Value>,
}

impl Source for Vercel {
    fn next(&mut self, input: &mut Input) -> io::Result<Option<Item>> {
        let Some(element) = self.elements.next(input, &["redirects"])? else { return Ok(None) };
        let item = element.and_then(|(line, bytes)| {
            let given = serde_json::from_slice::<Given>(&bytes).map_err(|error| wrong(&error));
            let entry = given.and_then(|given| self.entry(line, given));
            entry
                .map_err(|message| Problem::new(line, format!("redirect {}: {message}", self.elements.count)))
        });
        Ok(Some(item.map_or_else(Item::Problem, Item::Rule)))
    }
}

impl Vercel {
    fn entry(&mut self, line: u64, given: Given) -> Result<Entry, String> {
        let is_bulk = self.elements.is_bare;
        if !given.has.is_empty() || !given.missing.is_empty() {
            return Err("it is under a condition (has, missing): that has no counterpart".to_owned());
        }
        let code = match (given.status_code, given.permanent.unwrap_or(!is_bulk)) {
            (Some(number), _) => Code::try_from(number)?,
            (None, true) => Code::PermanentRedirect,
            (None, false) => Code::TemporaryRedirect,
        };
        let mut terms = if is_bulk {
            Terms::new(exact(&given.source)?, given.destination)
        } else {
            let (path, destination, append_rest) = patterns(&given.source, &given.destination)?;
            let mut terms = Terms::new(path, destination);
            terms.append_rest = append_rest;
            terms
        };
        terms.code = code;
        terms.query = if given.query.unwrap_or(!is_bulk) { Query::Append } else { Query::Off };
        let mut entry = Entry::new(line, terms);
        if is_bulk && given.case_sensitive != Some(true) && !self.has_warned {
            self.has_warned = true;
            entry
                .warnings
                .push("it ignored upper and lower case, as all such ones: here they differ".to_owned());
        }
        Ok(entry)
    }
}

/// The path, where to, and whether what is below is appended.
fn patterns(source: &str, destination: &str) -> Result<(String, String, bool), String> {
    let is_pattern = |text: &str| text.contains([':', '(', ')', '*', '+', '?', '{', '}', '\\']);
    let (scheme, rest) = match destination.split_once("://") {
        Some((scheme, rest)) => (format!("{scheme}://"), rest),
        None => (String::new(), destination),
    };
    // The last part may stand for all below.
    let all = source.rsplit_once("/:").and_then(|(front, name)| Some((front, name.strip_suffix('*')?)));
    if let Some((front, name)) = all
        && !is_pattern(front)
        && !is_pattern(name)
        && let Some(before) = rest.strip_suffix(&format!("/:{name}*"))
        && !before.contains([':', '?', '#'])
    {
        return Ok((format!("{front}/*"), format!("{scheme}{before}/"), true));
    }
    if is_pattern(source) {
        return Err(format!("{source:?} is a pattern: only /path and /path/:rest* to /…/:rest* are read"));
    }
    let has_place = rest.split(['/', '?', '&', '=', '#', '.', '-']).any(|part| part.starts_with(':'));
    if has_place || rest.contains('$') {
        return Err(format!("{destination:?} has a placeholder in it"));
    }
    Ok((source.to_owned(), destination.to_owned(), false))
}

#[cfg(test)]
mod tests {
    use super::super::Format;
    use super::super::table::{compare, one, read};

    #[test]
    fn bulk_redirects_become_rules_or_problems() {
        compare(
            Format::Vercel,
            &[
                (r#"[{"source":"/a","destination":"/b"}]"#, "* /a 307 off /b"),
                (r#"[{"source":"/a","destination":"/b","permanent":true}]"#, "* /a 308 off /b"),
                (
                    r#"[{"source":"/a","destination":"https://x.example/","permanent":true,"statusCode":301,"query":true}]"#,
                    "* /a 301 append https://x.example/",
                ),
                (r#"[{"source":"/a","destination":"/b","preserveQueryParams":true}]"#, "* /a 307 append /b"),
                (r#"[{"source":"/a:b","destination":"/b"}]"#, "* /a:b 307 off /b"),
                (r#"[{"source":"/a/*","destination":"/b"}]"#, "! has a * in it"),
                (r#"[{"source":"/a","destination":"/b","statusCode":303}]"#, "! 303 is not allowed"),
                (r#"[{"source":"/a"}]"#, "! missing field `destination`"),
                (r#"[{"source":"/a","destination":"/b","when":1}]"#, "! unknown field `when`"),
                ("[5]", "! redirect 1: invalid type: integer `5`, expected an object that is a redirect"),
                ("{", "! ends inside"),
            ],
        );
    }

    #[test]
    fn redirects_of_a_project_become_rules_or_problems() {
        let rows = [
            (r#"{"source":"/a","destination":"/b"}"#, "* /a 308 append /b"),
            (r#"{"source":"/a","destination":"/b","permanent":false}"#, "* /a 307 append /b"),
            (
                r#"{"source":"/a/:all*","destination":"https://x.example/b/:all*"}"#,
                "* /a/* 308 append https://x.example/b/+rest",
            ),
            (
                r#"{"source":"/:all*","destination":"https://x.example/:all*"}"#,
                "* /* 308 append https://x.example/+rest",
            ),
            (r#"{"source":"/a/:all*","destination":"/b"}"#, "! is a pattern"),
            (r#"{"source":"/a/:id","destination":"/b/:id"}"#, "! is a pattern"),
            (r#"{"source":"/a/(.*)","destination":"/b/$1"}"#, "! is a pattern"),
            (r#"{"source":"/a","destination":"/b/:id"}"#, "! placeholder"),
            (r#"{"source":"/a","destination":"/b","has":[{"type":"host","value":"x"}]}"#, "! a condition"),
        ];
        let files = rows.map(|(text, expected)| {
            (
                format!(r#"{{"cleanUrls": true, "headers": [{{"source": "/x"}}], "redirects": [{text}]}}"#),
                expected,
            )
        });
        let files = files.each_ref().map(|(text, expected)| (&**text, *expected));
        compare(Format::Vercel, &files);
    }

    #[test]
    fn lines_are_those_of_the_elements() {
        let text = "[\n {\n  \"source\": \"/a\",\n  \"destination\": \"/b\"\n },\n {}\n]";
        assert_eq!(
            read(Format::Vercel, text),
            ["2 * /a 307 off /b", "6! redirect 2: missing field `source`"]
        );
        assert_eq!(one(Format::Vercel, r#"[{"source":"/a","destination":"/b"}]"#).warnings.len(), 1);
        let exact = r#"[{"source":"/a","destination":"/b","caseSensitive":true}]"#;
        assert_eq!(one(Format::Vercel, exact).warnings.len(), 0);
    }
}
