//! Values between commas: what any such file is made of, and our own with the fields of rules as columns.
//!
//! A value in quotes may have commas, line ends and, twice, quotes in it. A value that is not there (nothing between two
//! commas) is absent, and `""` is an empty one. A line's number is that of the first line of its record.

use std::io::{self, Write};

use super::input::{Input, Line};
use super::problem::Problem;
use super::{Entry, Item, MAX_RECORD_BYTES, Source};
use crate::rule::{Query, Rule, Terms};

/// One line of values, or several if some of them have line ends.
#[derive(Default)]
pub(super) struct Record {
    pub(super) line: u64,
    raw: Vec<u8>,
    text: String,
    fields: Vec<Field>,
    is_broken: bool,
}

struct Field {
    start: usize,
    end: usize,
}

impl Record {
    /// Reads the next record that has something in it. A quote that is never closed ends the file.
    pub(super) fn read(&mut self, input: &mut Input) -> io::Result<Option<Result<(), Problem>>> {
        loop {
            if self.is_broken {
                return Ok(None);
            }
            self.raw.clear();
            self.fields.clear();
            self.line = input.line();
            match input.read_line(&mut self.raw)? {
                None => return Ok(None),
                Some(Line::TooLong) => return Ok(Some(Err(too_long(self.line)))),
                Some(Line::Whole) if self.raw.is_empty() => continue,
                Some(Line::Whole) => {}
            }
            let mut text = std::mem::take(&mut self.text).into_bytes();
            text.clear();
            let parsed = if self.raw.contains(&b'"') {
                self.parse_quoted(input, &mut text)?
            } else {
                self.parse_plain(&mut text);
                Ok(())
            };
            return Ok(Some(match (parsed, String::from_utf8(text)) {
                (Err(problem), _) => Err(problem),
                (Ok(()), Err(_)) => Err(Problem::new(self.line, "it is not UTF-8")),
                (Ok(()), Ok(text)) => {
                    self.text = text;
                    Ok(())
                }
            }));
        }
    }

    /// Without quotes a value ends at a comma.
    fn parse_plain(&mut self, text: &mut Vec<u8>) {
        std::mem::swap(text, &mut self.raw);
        let mut start = 0;
        for (at, byte) in text.iter().enumerate() {
            if *byte == b',' {
                self.fields.push(Field { start, end: at });
                start = at + 1;
            }
        }
        self.fields.push(Field { start, end: text.len() });
    }

    fn parse_quoted(&mut self, input: &mut Input, text: &mut Vec<u8>) -> io::Result<Result<(), Problem>> {
        let mut at = 0;
        loop {
            let start = text.len();
            let is_quoted = self.raw.get(at) == Some(&b'"');
            if is_quoted {
                at += 1;
                loop {
                    let rest = &self.raw[at..];
                    if let Some(found) = rest.iter().position(|byte| *byte == b'"') {
                        text.extend_from_slice(&rest[..found]);
                        at += found + 1;
                        if self.raw.get(at) != Some(&b'"') {
                            break;
                        }
                        text.push(b'"');
                        at += 1;
                        continue;
                    }
                    text.extend_from_slice(rest);
                    text.push(b'\n');
                    self.raw.clear();
                    at = 0;
                    let line = input.read_line(&mut self.raw)?;
                    if line != Some(Line::Whole) || text.len() + self.raw.len() > MAX_RECORD_BYTES {
                        self.is_broken = true;
                        let message = match line {
                            None => "a quote is opened and not closed".to_owned(),
                            Some(_) => format!(
                                "a quote is opened and not closed within {MAX_RECORD_BYTES} bytes: what follows is not read"
                            ),
                        };
                        return Ok(Err(Problem::new(self.line, message)));
                    }
                }
            } else {
                let rest = &self.raw[at..];
                let end = rest.iter().position(|byte| *byte == b',').unwrap_or(rest.len());
                text.extend_from_slice(&rest[..end]);
                at += end;
            }
            self.fields.push(Field { start, end: text.len() });
            match self.raw.get(at) {
                None => return Ok(Ok(())),
                Some(b',') => at += 1,
                Some(_) => {
                    let message = "something stands behind a closing quote: a comma or the line's end may";
                    return Ok(Err(Problem::new(self.line, message)));
                }
            }
        }
    }

    /// How many values there are.
    pub(super) fn len(&self) -> usize {
        self.fields.len()
    }

    /// A value; none if there is nothing between its commas, or quotes: some programs quote everything.
    pub(super) fn get(&self, index: usize) -> Option<&str> {
        let field = self.fields.get(index)?;
        (field.end > field.start).then(|| &self.text[field.start..field.end])
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &str> {
        (0..self.len()).map(|index| self.get(index).unwrap_or_default())
    }
}

pub(super) fn too_long(line: u64) -> Problem {
    Problem::new(line, format!("it is too long for a rule: at most {MAX_RECORD_BYTES} bytes"))
}

/// What a column has, by the names of a rule's fields, in the order that we write them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Column {
    Id,
    Host,
    Path,
    Destination,
    Code,
    AppendRest,
    Query,
    StartsAt,
    ExpiresAt,
    MaxClicks,
    Fallback,
    MaxAge,
    Tags,
    Enabled,
    Note,
    Version,
    CreatedAt,
    UpdatedAt,
    Clicks,
}

const COLUMNS: [(&str, Column); 19] = [
    ("id", Column::Id),
    ("host", Column::Host),
    ("path", Column::Path),
    ("destination", Column::Destination),
    ("code", Column::Code),
    ("appendRest", Column::AppendRest),
    ("query", Column::Query),
    ("startsAt", Column::StartsAt),
    ("expiresAt", Column::ExpiresAt),
    ("maxClicks", Column::MaxClicks),
    ("fallback", Column::Fallback),
    ("maxAge", Column::MaxAge),
    ("tags", Column::Tags),
    ("enabled", Column::Enabled),
    ("note", Column::Note),
    ("version", Column::Version),
    ("createdAt", Column::CreatedAt),
    ("updatedAt", Column::UpdatedAt),
    ("clicks", Column::Clicks),
];

/// Our own CSV.
#[derive(Default)]
pub(super) struct Csv {
    columns: Vec<(&'static str, Column)>,
    record: Record,
    is_over: bool,
}

impl Source for Csv {
    fn next(&mut self, input: &mut Input) -> io::Result<Option<Item>> {
        if self.is_over {
            return Ok(None);
        }
        if self.columns.is_empty() {
            let problem = match self.record.read(input)? {
                None => return Ok(None),
                Some(read) => read.and_then(|()| self.read_header()).err(),
            };
            if let Some(problem) = problem {
                self.is_over = true;
                return Ok(Some(Item::Problem(problem)));
            }
        }
        Ok(self.record.read(input)?.map(|read| match read.and_then(|()| self.entry()) {
            Ok(entry) => Item::Rule(entry),
            Err(problem) => Item::Problem(problem),
        }))
    }
}

impl Csv {
    fn read_header(&mut self) -> Result<(), Problem> {
        let line = self.record.line;
        for name in self.record.values() {
            let Some(column) = COLUMNS.into_iter().find(|(known, _)| *known == name) else {
                let known = COLUMNS.map(|(name, _)| name).join(", ");
                return Err(Problem::new(line, format!("a rule has no column {name:?}: {known} are")));
            };
            if self.columns.contains(&column) {
                return Err(Problem::new(line, format!("the column {name:?} is there twice")));
            }
            self.columns.push(column);
        }
        for needed in ["path", "destination"] {
            if !self.columns.iter().any(|(name, _)| *name == needed) {
                return Err(Problem::new(line, format!("the column {needed:?} is missing")));
            }
        }
        Ok(())
    }

    fn entry(&self) -> Result<Entry, Problem> {
        let line = self.record.line;
        if self.record.len() != self.columns.len() {
            let message =
                format!("it has {} values, and the header {}", self.record.len(), self.columns.len());
            return Err(Problem::new(line, message));
        }
        let mut entry = Entry::new(line, Terms::new("", ""));
        for (index, (name, column)) in self.columns.iter().enumerate() {
            if let Some(value) = self.record.get(index) {
                set(&mut entry, *column, value).map_err(|message| Problem::field(line, name, message))?;
            }
        }
        Ok(entry)
    }
}

fn set(entry: &mut Entry, column: Column, value: &str) -> Result<(), String> {
    let (terms, history) = (&mut entry.draft.terms, &mut entry.history);
    match column {
        Column::Id => entry.draft.id = Some(value.to_owned()),
        Column::Host => value.clone_into(&mut terms.host),
        Column::Path => value.clone_into(&mut terms.path),
        Column::Destination => value.clone_into(&mut terms.destination),
        Column::Code => terms.code = whole::<u16>(value)?.try_into()?,
        Column::AppendRest => terms.append_rest = yes_or_no(value)?,
        Column::Query => {
            terms.query = match value {
                "off" => Query::Off,
                "append" => Query::Append,
                "merge" => Query::Merge,
                _ => return Err(format!("{value:?} is not allowed: off, append and merge are")),
            }
        }
        Column::StartsAt => terms.starts_at = Some(whole(value)?),
        Column::ExpiresAt => terms.expires_at = Some(whole(value)?),
        Column::MaxClicks => terms.max_clicks = Some(whole(value)?),
        Column::Fallback => terms.fallback = Some(value.to_owned()),
        Column::MaxAge => terms.max_age = Some(whole(value)?),
        Column::Tags => terms.tags = tags(value)?,
        Column::Enabled => terms.enabled = yes_or_no(value)?,
        Column::Note => value.clone_into(&mut terms.note),
        Column::Version => history.version = Some(whole(value)?),
        Column::CreatedAt => history.created_at = Some(whole(value)?),
        Column::UpdatedAt => history.updated_at = Some(whole(value)?),
        Column::Clicks => history.clicks = Some(whole(value)?),
    }
    Ok(())
}

pub(super) fn whole<T: std::str::FromStr>(value: &str) -> Result<T, String> {
    value.parse().map_err(|_| format!("{value:?} is no whole number, or too large a one"))
}

/// As spreadsheets write it too.
pub(super) fn yes_or_no(value: &str) -> Result<bool, String> {
    match () {
        () if value.eq_ignore_ascii_case("true") => Ok(true),
        () if value.eq_ignore_ascii_case("false") => Ok(false),
        () => Err(format!("{value:?} is not allowed: true and false are")),
    }
}

/// Tags between commas, or as JSON if one has something in it that would not come back.
fn tags(value: &str) -> Result<Vec<String>, String> {
    if value.starts_with('[') {
        return serde_json::from_str(value).map_err(|error| format!("{value:?} are no tags ({error})"));
    }
    Ok(value.split(',').map(|tag| tag.trim().to_owned()).filter(|tag| !tag.is_empty()).collect())
}

fn written_tags(tags: &[String]) -> Result<String, serde_json::Error> {
    let joined = tags.join(",");
    let comes_back = self::tags(&joined).is_ok_and(|read| read == tags);
    if comes_back { Ok(joined) } else { serde_json::to_string(tags) }
}

/// The first line of what we write.
pub(crate) fn header() -> String {
    COLUMNS.map(|(name, _)| name).join(",") + "\n"
}

/// Writes a rule, in one line unless its note has several.
pub(crate) fn write(into: &mut impl Write, rule: &Rule) -> io::Result<()> {
    let terms = &rule.terms;
    let optional = |number: Option<u64>| number.map(|it| it.to_string()).unwrap_or_default();
    for (index, (_, column)) in COLUMNS.into_iter().enumerate() {
        if index > 0 {
            into.write_all(b",")?;
        }
        match column {
            Column::Id => write_text(into, &rule.id),
            Column::Host => write_text(into, &terms.host),
            Column::Path => write_text(into, &terms.path),
            Column::Destination => write_text(into, &terms.destination),
            Column::Code => write!(into, "{}", terms.code.as_u16()),
            Column::AppendRest => write!(into, "{}", terms.append_rest),
            Column::Query => into.write_all(match terms.query {
                Query::Off => b"off",
                Query::Append => b"append",
                Query::Merge => b"merge",
            }),
            Column::StartsAt => write_text(into, &optional(terms.starts_at)),
            Column::ExpiresAt => write_text(into, &optional(terms.expires_at)),
            Column::MaxClicks => write_text(into, &optional(terms.max_clicks)),
            Column::Fallback => write_text(into, terms.fallback.as_deref().unwrap_or_default()),
            Column::MaxAge => write_text(into, &optional(terms.max_age.map(u64::from))),
            Column::Tags => write_text(into, &written_tags(&terms.tags)?),
            Column::Enabled => write!(into, "{}", terms.enabled),
            Column::Note => write_text(into, &terms.note),
            Column::Version => write!(into, "{}", rule.version),
            Column::CreatedAt => write!(into, "{}", rule.created_at),
            Column::UpdatedAt => write!(into, "{}", rule.updated_at),
            Column::Clicks => write!(into, "{}", rule.clicks),
        }?;
    }
    into.write_all(b"\n")
}

fn write_text(into: &mut impl Write, text: &str) -> io::Result<()> {
    if !text.contains([',', '"', '\n', '\r']) {
        return into.write_all(text.as_bytes());
    }
    into.write_all(b"\"")?;
    into.write_all(text.replace('"', "\"\"").as_bytes())?;
    into.write_all(b"\"")
}

#[cfg(test)]
mod tests {
    use super::super::table::{items, one, read};
    use super::super::{Format, Item};
    use super::*;
    use crate::rule::Code;

    #[test]
    fn columns_come_in_any_order_and_what_is_empty_is_absent() {
        let text = "destination,note,path,fallback,host,tags\r\n/b,\"a \"\"b\"\",\n\nc\",/a,,,\"x, y\"\r\n";
        let entry = one(Format::Csv, text);
        let terms = &entry.draft.terms;
        assert_eq!((&*terms.path, &*terms.destination, &*terms.host), ("/a", "/b", "*"));
        assert_eq!((&*terms.note, &terms.fallback), ("a \"b\",\n\nc", &None));
        assert_eq!((&terms.tags[..], entry.line), (&["x".to_owned(), "y".to_owned()][..], 2));
        let quoted = |text: &str| text.split(',').map(|it| format!("\"{it}\"")).collect::<Vec<_>>().join(",");
        let (header, row) = (header(), "i,*,/a,/b,302,false,off,,,,,,,true,,1,2,3,0");
        let quoted = one(Format::Csv, &format!("{}\n{}\n", quoted(header.trim_end()), quoted(row)));
        assert_eq!(quoted, one(Format::Csv, &format!("{header}{row}\n")));
    }

    #[test]
    fn all_columns_are_read() {
        let row = "i,h.example,/p/*,/d,308,true,merge,1,2,3,/f,4,t,FALSE,n,5,6,7,8";
        let entry = one(Format::Csv, &format!("{}{row}", header()));
        let terms = &entry.draft.terms;
        assert_eq!((entry.draft.id.as_deref(), &*terms.host, &*terms.path), (Some("i"), "h.example", "/p/*"));
        assert_eq!(
            (terms.code, terms.append_rest, terms.query),
            (Code::PermanentRedirect, true, Query::Merge)
        );
        assert_eq!((terms.starts_at, terms.expires_at, terms.max_clicks), (Some(1), Some(2), Some(3)));
        assert_eq!((terms.fallback.as_deref(), terms.max_age, terms.enabled), (Some("/f"), Some(4), false));
        assert_eq!((&*terms.note, &terms.tags[..]), ("n", &["t".to_owned()][..]));
        let history = entry.history;
        assert_eq!((history.version, history.created_at), (Some(5), Some(6)));
        assert_eq!((history.updated_at, history.clicks), (Some(7), Some(8)));
    }

    #[test]
    fn a_wrong_header_is_the_only_problem() {
        for (header, message) in [
            ("path,destination,expires_at", "no column \"expires_at\""),
            ("path;destination", "no column"),
            ("path,path,destination", "twice"),
            ("path,id", "\"destination\" is missing"),
            ("\"path,destination", "not closed"),
        ] {
            let items = read(Format::Csv, &format!("{header}\n/a,/b,1\n"));
            assert!(items.len() == 1 && items[0].contains(message), "{header}: {items:?}");
        }
    }

    #[test]
    fn a_wrong_line_is_named_and_the_next_is_read() {
        let head = "path,destination,code,enabled,maxClicks,query,tags\n";
        for (line, field, message) in [
            ("/a,/b", None, "2 values, and the header 7"),
            ("/a,/b,303,,,,", Some("code"), "303 is not allowed"),
            ("/a,/b,x,,,,", Some("code"), "no whole number"),
            ("/a,/b,,yes,,,", Some("enabled"), "true and false are"),
            ("/a,/b,,,-1,,", Some("maxClicks"), "\"-1\""),
            ("/a,/b,,,,both,", Some("query"), "merge"),
            ("/a,/b,,,,,[1]", Some("tags"), "no tags"),
            ("\"/a\"x,/b,,,,,", None, "closing quote"),
        ] {
            let items = items(Format::Csv, &format!("{head}\n{line}\n/c,/d,,,,,\n"));
            let [Item::Problem(problem), Item::Rule(entry)] = &items[..] else { panic!("{line}: {items:?}") };
            assert!(problem.message.contains(message), "{line}: {problem:?}");
            assert_eq!((problem.line, problem.field.as_deref(), entry.line), (3, field, 4));
        }
    }

    #[test]
    fn what_is_not_text_or_too_long_is_named() {
        let mut bytes = b"path,destination\n/\xff,/b\n".to_vec();
        bytes.extend(b"/".repeat(MAX_RECORD_BYTES + 1));
        bytes.extend(b"\n/c,/d\n\"/e\n");
        let items: Vec<_> =
            super::super::Reader::new(Format::Csv, io::Cursor::new(bytes)).map(Result::unwrap).collect();
        let [Item::Problem(text), Item::Problem(long), Item::Rule(rule), Item::Problem(quote)] = &items[..]
        else {
            panic!("{items:?}")
        };
        assert!(text.message.contains("UTF-8") && long.message.contains("too long"), "{items:?}");
        assert_eq!((text.line, long.line, rule.line, quote.line), (2, 3, 4, 5));
        let open = format!("path,destination\n\"/a\n{}/c,/d\n", "x\n".repeat(MAX_RECORD_BYTES));
        let items = read(Format::Csv, &open);
        assert!(items.len() == 1 && items[0].contains("not read"), "{items:?}");
    }

    #[test]
    fn tags_come_back_whatever_is_in_them() {
        for list in [&["a", "b"][..], &["a,b"], &["[a"], &[" a"], &["a\""], &["[]"], &["ü;", "x y"], &[]] {
            let list: Vec<_> = list.iter().map(|it| (*it).to_owned()).collect();
            let written = written_tags(&list).unwrap();
            assert_eq!(tags(&written), Ok(list), "{written}");
        }
        assert_eq!(written_tags(&["a".to_owned(), "b".to_owned()]).unwrap(), "a,b");
    }
}
