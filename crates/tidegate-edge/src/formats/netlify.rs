//! Netlify's `_redirects`: `from to code conditions` in a line each, the first that fits wins.
//!
//! Queries are passed on. A line for `/a` is also for `/a/` there, and here it is not, of which the first such line
//! warns.

use std::io;

use super::csv::too_long;
use super::input::{Input, Line};
use super::literal::{Earlier, address, both_schemes, exact};
use super::problem::Problem;
use super::{Entry, Item, Source};
use crate::rule::{Code, Query, Terms};

/// A `_redirects` file.
#[derive(Default)]
pub(super) struct Netlify {
    earlier: Earlier,
    has_warned: bool,
}

impl Source for Netlify {
    fn next(&mut self, input: &mut Input) -> io::Result<Option<Item>> {
        let mut bytes = Vec::new();
        loop {
            bytes.clear();
            let line = input.line();
            let Some(how) = input.read_line(&mut bytes)? else { return Ok(None) };
            if how == Line::TooLong {
                return Ok(Some(Item::Problem(too_long(line))));
            }
            let Ok(text) = str::from_utf8(&bytes) else {
                return Ok(Some(Item::Problem(Problem::new(line, "it is not UTF-8"))));
            };
            let words: Vec<_> = text.split_whitespace().take_while(|word| !word.starts_with('#')).collect();
            if words.is_empty() {
                continue;
            }
            let entry = read(line, &words).map_err(|message| Problem::new(line, message));
            let entry = entry.and_then(|mut entry| {
                self.earlier.check(line, &entry.draft.terms)?;
                if !self.has_warned && entry.draft.terms.folder().is_none() {
                    self.has_warned = true;
                    let path = &entry.draft.terms.path;
                    let other = path.strip_suffix('/').map_or_else(|| format!("{path}/"), str::to_owned);
                    let message =
                        format!("it was for {other} too, as all such lines: here those are two paths");
                    entry.warnings.push(message);
                }
                Ok(entry)
            });
            return Ok(Some(entry.map_or_else(Item::Problem, Item::Rule)));
        }
    }
}

fn read(line: u64, words: &[&str]) -> Result<Entry, String> {
    let from = words[0];
    // Parameters stand between the two addresses.
    let is_address = |word: &&str| word.starts_with('/') || word.contains("://");
    let to = words[1..].iter().position(is_address).map(|at| at + 1);
    let Some(to) = to else { return Err(format!("{:?} does not say where to", words.join(" "))) };
    if to > 1 {
        return Err(format!("it goes by the query ({}): that has no counterpart", words[1..to].join(" ")));
    }
    let mut code = Code::MovedPermanently;
    for (index, word) in words[to + 1..].iter().enumerate() {
        // ! says that it is so even where there is a file.
        let number = word.strip_suffix('!').unwrap_or(word).parse::<u16>();
        match number {
            Ok(200) => return Err("200 is a rewrite or a proxy, no redirect".to_owned()),
            Ok(404) => return Err("404 is a page for what is not found, no redirect".to_owned()),
            Ok(number) if index == 0 => code = Code::try_from(number)?,
            _ => return Err(format!("{word:?} is a condition: that has no counterpart")),
        }
    }
    let (host, path, warning) = if from.starts_with('/') {
        ("*", from, None)
    } else {
        let from = address(from);
        (from.host, from.path, from.scheme.map(both_schemes))
    };
    if path.split('/').any(|segment| segment.starts_with(':')) {
        return Err(format!("{path:?} has a placeholder in it"));
    }
    let folder = path.strip_suffix("/*");
    exact(folder.unwrap_or(path))?;
    let to = words[to];
    let (destination, append_rest) = match to.strip_suffix("/:splat") {
        Some(front) if folder.is_some() => (format!("{front}/"), true),
        _ => (to.to_owned(), false),
    };
    if destination.split(['/', '?', '&', '=', '#']).any(|part| part.starts_with(':')) {
        return Err(format!("{to:?} has a placeholder in it"));
    }
    if append_rest && destination.contains(['?', '#']) {
        return Err(format!("{to:?} has a placeholder in its query"));
    }
    let mut terms = Terms::new(path, destination);
    host.clone_into(&mut terms.host);
    (terms.code, terms.query, terms.append_rest) = (code, Query::Append, append_rest);
    let mut entry = Entry::new(line, terms);
    entry.warnings.extend(warning);
    Ok(entry)
}

#[cfg(test)]
mod tests {
    use super::super::Format;
    use super::super::table::{compare, one, read};

    #[test]
    fn lines_become_rules_or_problems() {
        compare(
            Format::Netlify,
            &[
                ("/a /b", "* /a 301 append /b"),
                ("  /a\t https://x.example/b  302 # why", "* /a 302 append https://x.example/b"),
                ("/a /b 301!", "* /a 301 append /b"),
                ("/a/* /b", "* /a/* 301 append /b"),
                ("/a/* /b/:splat 302", "* /a/* 302 append /b/+rest"),
                ("/a/* https://x.example/:splat", "* /a/* 301 append https://x.example/+rest"),
                (
                    "http://x.example/a/* https://y.example/:splat",
                    "x.example /a/* 301 append https://y.example/+rest",
                ),
                ("https://x.example /b", "x.example / 301 append /b"),
                ("/a/* /b?x=:splat", "! placeholder"),
                ("/a/* /b/:splat/c", "! placeholder"),
                ("/a/:id /b/:id", "! placeholder"),
                ("/a/*/b /c", "! has a * in it"),
                ("/a /b/:splat", "! placeholder"),
                ("/a id=:id /b/:id 301", "! goes by the query"),
                ("/a /b 200", "! rewrite or a proxy"),
                ("/a /b 404", "! not found"),
                ("/a /b 303", "! 303 is not allowed"),
                ("/a /b 302 Country=de", "! \"Country=de\" is a condition"),
                ("/a /b Language=de", "! condition"),
                ("/a /b 301 302", "! condition"),
                ("/a", "! where to"),
                ("/a 404", "! where to"),
            ],
        );
    }

    #[test]
    fn the_first_that_fits_wins_there_and_not_here() {
        let items = read(Format::Netlify, "# list\n\n/a/b /x\n/a/* /y\n/a/c /z\n");
        assert_eq!(items[..2], ["3 * /a/b 301 append /x", "4 * /a/* 301 append /y"]);
        assert!(items[2].starts_with("5! it is never reached: line 4"), "{items:?}");
    }

    #[test]
    fn what_is_a_little_different_is_said() {
        let warnings = |text: &str| one(Format::Netlify, text).warnings;
        assert_eq!(warnings("/a/* /b"), [] as [&str; 0]);
        assert!(warnings("/a /b")[0].contains("/a/"));
        assert!(warnings("http://x.example/* https://y.example")[0].contains("http only"));
    }
}
