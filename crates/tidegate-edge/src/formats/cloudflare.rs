//! Cloudflare's Bulk Redirects: CSV without a header, of source, target, code, and whether the query is kept,
//! subdomains are included, paths below are matched, and what is below is kept.

use std::io;

use super::csv::{Record, whole, yes_or_no};
use super::input::Input;
use super::literal::{address, both_schemes, exact, without_slash};
use super::problem::Problem;
use super::{Entry, Item, Source};
use crate::rule::{Code, Query, Terms};

/// A list of Bulk Redirects.
pub(super) struct Cloudflare;

impl Source for Cloudflare {
    fn next(&mut self, input: &mut Input) -> io::Result<Option<Item>> {
        let mut record = Record::default();
        let Some(read) = record.read(input)? else { return Ok(None) };
        let entry = read.and_then(|()| entry(&record).map_err(|message| Problem::new(record.line, message)));
        Ok(Some(entry.map_or_else(Item::Problem, Item::Rule)))
    }
}

fn entry(record: &Record) -> Result<Entry, String> {
    if record.len() > 7 {
        return Err(format!("it has {} values: at most 7", record.len()));
    }
    let (Some(source), Some(target)) = (record.get(0), record.get(1)) else {
        return Err("it needs a source and a target".to_owned());
    };
    let code = record.get(2).map_or(Ok(301), whole::<u16>)?;
    let flag = |index: usize| record.get(index).map_or(Ok(false), yes_or_no);
    let (keeps_query, has_subdomains, is_folder, keeps_rest) = (flag(3)?, flag(4)?, flag(5)?, flag(6)?);
    let from = address(source);
    exact(from.path)?;
    if keeps_query && target.contains('?') {
        return Err(format!(
            "{target:?} has a query, and the request's is to be kept: that has no counterpart"
        ));
    }
    let mut warnings: Vec<_> = from.scheme.map(both_schemes).into_iter().collect();
    let path = if is_folder {
        if from.path.len() > 1 && from.path.ends_with('/') {
            warnings.push(without_slash(from.path));
        }
        format!("{}/*", from.path.strip_suffix('/').unwrap_or(from.path))
    } else {
        from.path.to_owned()
    };
    let mut terms = Terms::new(path, target);
    terms.host = if has_subdomains { format!("*.{}", from.host) } else { from.host.to_owned() };
    terms.code = Code::try_from(code)?;
    terms.query = if keeps_query { Query::Append } else { Query::Off };
    terms.append_rest = is_folder && keeps_rest;
    let mut entry = Entry::new(record.line, terms);
    entry.warnings = warnings;
    Ok(entry)
}

#[cfg(test)]
mod tests {
    use super::super::Format;
    use super::super::table::{compare, one};

    #[test]
    fn lines_become_rules_or_problems() {
        compare(
            Format::Cloudflare,
            &[
                ("x.example/a,https://y.example/b", "x.example /a 301 off https://y.example/b"),
                ("https://x.example/a,https://y.example/b,302", "x.example /a 302 off https://y.example/b"),
                ("x.example,https://y.example/b,,TRUE,,,", "x.example / 301 append https://y.example/b"),
                (
                    "x.example/a,https://y.example/b,308,false,true",
                    "*.x.example /a 308 off https://y.example/b",
                ),
                ("x.example/a,https://y.example/b,,,,TRUE,", "x.example /a/* 301 off https://y.example/b"),
                (
                    "x.example/a,https://y.example/b,,,,TRUE,TRUE",
                    "x.example /a/* 301 off https://y.example/b+rest",
                ),
                (
                    "x.example/a/,https://y.example/,,,,true,true",
                    "x.example /a/* 301 off https://y.example/+rest",
                ),
                ("x.example,https://y.example/,,,,true,true", "x.example /* 301 off https://y.example/+rest"),
                ("\"x.example/a,b\",\"https://y.example/\"", "x.example /a,b 301 off https://y.example/"),
                ("x.example/a,https://y.example/,,,,,true", "x.example /a 301 off https://y.example/"),
                ("x.example/a", "! a source and a target"),
                ("x.example/a,https://y.example/,303", "! 303 is not allowed"),
                ("x.example/a,https://y.example/,,yes", "! true and false"),
                ("x.example/a,https://y.example/?b,,true", "! no counterpart"),
                ("x.example/*,https://y.example/", "! has a * in it"),
                ("x.example/a,https://y.example/,,,,,,", "! at most 7"),
            ],
        );
    }

    #[test]
    fn what_is_a_little_different_is_said() {
        let warnings = |text: &str| one(Format::Cloudflare, text).warnings;
        assert_eq!(warnings("x.example/a,/b,,,,true"), [] as [&str; 0]);
        assert_eq!(warnings("http://x.example/a,/b").len(), 1);
        assert_eq!(warnings("https://x.example/a/,/b,,,,true").len(), 2);
        assert_eq!(warnings("x.example/,/b,,,,true").len(), 0);
    }
}
