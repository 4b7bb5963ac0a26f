//! YOURLS: its table or its export plugin as CSV, and what its API answers as JSON.
//!
//! Redirects are 301 and queries are dropped, as YOURLS does. Times are not read: they do not say of which time zone.

use std::io;

use serde::Deserialize;
use serde_json::Value;

use super::columns::{Columns, Names};
use super::csv::whole;
use super::elements::Elements;
use super::input::Input;
use super::jsonl::wrong;
use super::literal::{address, exact};
use super::problem::Problem;
use super::{Entry, Item, Source};
use crate::rule::{Code, Terms};

const NAMES: Names = &[
    &["keyword", "source", "shorturl"],
    &["url", "target", "longurl"],
    &["title"],
    &["timestamp"],
    &["ip"],
    &["clicks", "hits"],
];

/// An export of YOURLS'.
#[derive(Default)]
pub(super) enum Yourls {
    #[default]
    Start,
    Csv(Box<Columns>),
    Json(Elements),
}

#[derive(Deserialize)]
struct Given {
    #[serde(alias = "shorturl")]
    keyword: String,
    url: String,
    #[serde(default)]
    title: Option<String>,
    #[serde(default)]
    clicks: Value,
}

impl Source for Yourls {
    fn next(&mut self, input: &mut Input) -> io::Result<Option<Item>> {
        loop {
            let entry = match self {
                Self::Start => {
                    match input.peek()? {
                        None => return Ok(None),
                        Some(b' ' | b'\t' | b'\r' | b'\n') => {
                            input.byte()?;
                        }
                        Some(b'{' | b'[') => *self = Self::Json(Elements::default()),
                        Some(_) => *self = Self::Csv(Box::default()),
                    }
                    continue;
                }
                Self::Csv(columns) => {
                    let Some(read) = columns.read(input, NAMES, &[&["keyword"], &["url"]])? else {
                        return Ok(None);
                    };
                    read.and_then(|line| {
                        let get = |name| columns.get(NAMES, name);
                        let entry = entry(
                            line,
                            get("keyword"),
                            get("url"),
                            get("title"),
                            get("clicks").unwrap_or("0"),
                        );
                        entry.map_err(|message| Problem::new(line, message))
                    })
                }
                Self::Json(elements) => {
                    let Some(element) = elements.next(input, &["links", "result"])? else { return Ok(None) };
                    element.and_then(|(line, bytes)| {
                        let given = serde_json::from_slice::<Given>(&bytes);
                        let given = given.map_err(|error| Problem::new(line, wrong(&error)))?;
                        let clicks = match &given.clicks {
                            Value::Null => "0".to_owned(),
                            Value::String(text) => text.clone(),
                            other => other.to_string(),
                        };
                        let entry = entry(
                            line,
                            Some(&given.keyword),
                            Some(&given.url),
                            given.title.as_deref(),
                            &clicks,
                        );
                        entry.map_err(|message| Problem::new(line, message))
                    })
                }
            };
            return Ok(Some(entry.map_or_else(Item::Problem, Item::Rule)));
        }
    }
}

fn entry(
    line: u64,
    keyword: Option<&str>,
    url: Option<&str>,
    title: Option<&str>,
    clicks: &str,
) -> Result<Entry, String> {
    let (Some(keyword), Some(url)) = (keyword, url) else {
        return Err("it needs a keyword and a url".to_owned());
    };
    let (host, path) = if keyword.contains("://") {
        let short = address(keyword);
        (short.host, short.path.to_owned())
    } else {
        // The plugin writes slashes around it.
        ("*", format!("/{}", keyword.trim_matches('/')))
    };
    let mut terms = Terms::new(exact(&path)?, url);
    host.clone_into(&mut terms.host);
    terms.code = Code::MovedPermanently;
    terms.note = title.unwrap_or_default().to_owned();
    let mut entry = Entry::new(line, terms);
    entry.history.clicks = Some(whole(clicks)?);
    Ok(entry)
}

#[cfg(test)]
mod tests {
    use super::super::Format;
    use super::super::table::{compare, one, read};

    #[test]
    fn exports_become_rules_or_problems() {
        compare(
            Format::Yourls,
            &[
                (
                    "keyword,url,title,timestamp,ip,clicks\nabc,https://x.example/,,,,",
                    "* /abc 301 off https://x.example/",
                ),
                ("source,target,hits\n/abc/,https://x.example/,3", "* /abc 301 off https://x.example/"),
                (
                    "shorturl,url\nhttp://s.example/abc,https://x.example/",
                    "s.example /abc 301 off https://x.example/",
                ),
                ("keyword,url\n,https://x.example/", "! a keyword and a url"),
                ("keyword,url,hits\nabc,https://x.example/,many", "! no whole number"),
                ("keyword,owner\n", "! \"owner\" is not known"),
                ("keyword,title\n", "! \"url\" is missing"),
                (r#"[{"keyword":"abc","url":"https://x.example/"}]"#, "* /abc 301 off https://x.example/"),
                (
                    r#" {"result":[{"shorturl":"http://s.example/abc","url":"https://x.example/","clicks":"7"}],"total":1}"#,
                    "s.example /abc 301 off https://x.example/",
                ),
                (r#"{"links":{"link_1":{"shorturl":"http://s.example/abc"}}}"#, "! missing field `url`"),
                (r#"[{"keyword":"abc","url":"https://x.example/","clicks":-1}]"#, "! no whole number"),
            ],
        );
    }

    #[test]
    fn titles_and_clicks_are_kept_and_lines_are_the_files() {
        let csv =
            one(Format::Yourls, "\nkeyword,url,title,clicks\nabc,https://x.example/,\"A \"\"b\"\"\",12\n");
        let json = "{\"stats\":{},\n\"links\":{\"link_1\":\n{\"shorturl\":\"http://s.example/abc\",\
                    \"url\":\"https://x.example/\",\"title\":\"A \\\"b\\\"\",\"timestamp\":\"x\",\"ip\":\"\",\"clicks\":\"12\"}}}";
        let json = one(Format::Yourls, json);
        for entry in [&csv, &json] {
            assert_eq!((&*entry.draft.terms.note, entry.history.clicks), ("A \"b\"", Some(12)));
            assert_eq!((entry.line, entry.history.created_at), (3, None));
        }
        assert_eq!(read(Format::Yourls, "  \n"), [] as [&str; 0]);
    }
}
