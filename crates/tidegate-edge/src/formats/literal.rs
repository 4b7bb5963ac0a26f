//! What formats of others have in common: patterns that are one path, addresses, and lists whose order counts.

use std::collections::HashMap;

use super::problem::Problem;
use crate::rule::{Draft, Terms};

/// Folders of a list that are remembered for what comes behind them.
const MAX_FOLDERS: usize = 10_000;

/// The one text that a regular expression matches, if it is only one.
pub(super) fn literal(pattern: &str) -> Result<String, String> {
    let expression =
        || format!("{pattern:?} is a regular expression: only that of one path (^/path$) is read");
    let inner = pattern.strip_prefix('^').and_then(|it| it.strip_suffix('$')).ok_or_else(expression)?;
    let mut text = String::with_capacity(inner.len());
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                // A letter behind it would be a class.
                Some(c) if !c.is_alphanumeric() => text.push(c),
                _ => return Err(expression()),
            },
            '.' => {
                return Err(format!(
                    "{pattern:?} is a regular expression: . is any character, and \\. a point"
                ));
            }
            '[' | ']' | '(' | ')' | '{' | '}' | '|' | '+' | '*' | '?' | '^' | '$' => return Err(expression()),
            c => text.push(c),
        }
    }
    Ok(text)
}

/// A path that others mean as it stands. Here a star at its end would be all below.
pub(super) fn exact(path: &str) -> Result<&str, String> {
    match path.contains('*') {
        true => Err(format!("{path:?} has a * in it that is meant as it stands, which no path here has")),
        false => Ok(path),
    }
}

/// A path that others compare with what a request's is when it is decoded.
pub(super) fn decoded(path: &str) -> Result<&str, String> {
    match path.contains('%') {
        true => {
            Err(format!("{path:?} has a % in it: there paths are compared decoded, so it stands for itself"))
        }
        false => exact(path),
    }
}

/// An address that redirects are for.
pub(super) struct From<'a> {
    pub(super) scheme: Option<&'a str>,
    pub(super) host: &'a str,
    pub(super) path: &'a str,
}

/// The parts of `https://example.com/path`, with or without a scheme.
pub(super) fn address(text: &str) -> From<'_> {
    let (scheme, rest) = match text.split_once("://") {
        Some((scheme, rest)) if scheme.bytes().all(|it| it.is_ascii_alphabetic()) => (Some(scheme), rest),
        _ => (None, text),
    };
    let end = rest.find('/').unwrap_or(rest.len());
    let path = if end == rest.len() { "/" } else { &rest[end..] };
    From { scheme, host: &rest[..end], path }
}

/// Of a rule that was for one scheme only.
pub(super) fn both_schemes(scheme: &str) -> String {
    format!("it was for {scheme} only: here it is for http and https")
}

/// Of a rule that was for a folder without what it is called.
pub(super) fn without_slash(path: &str) -> String {
    format!("it was for {path} and all below: here it is for {} too", path.trim_end_matches('/'))
}

/// A list in which the first line that fits wins. Here the nearest does: a line behind one that is for all above it
/// would come to life.
#[derive(Default)]
pub(super) struct Earlier(HashMap<(String, String), u64>);

impl Earlier {
    /// Whether a line is reached at all.
    pub(super) fn check(&mut self, line: u64, terms: &Terms) -> Result<(), Problem> {
        // What is no rule is told of by whoever checks it.
        let Ok((draft, _)) = Draft::new(terms.clone()).check(0) else { return Ok(()) };
        let Terms { host, path, .. } = draft.terms;
        let own = path.strip_suffix("/*");
        let below = own.unwrap_or(&path);
        let mut above: Vec<_> = below.rmatch_indices('/').map(|(at, _)| &below[..at]).collect();
        if own.is_none() {
            above.push(below);
        }
        for folder in above {
            for host in [&*host, "*"] {
                if let Some(other) = self.0.get(&(host.to_owned(), folder.to_owned())) {
                    let message = format!(
                        "it is never reached: line {other} is for {folder}/* and there the first that fits wins, here \
                         the nearest would"
                    );
                    return Err(Problem { other_line: Some(*other), ..Problem::new(line, message) });
                }
            }
        }
        if let Some(folder) = own {
            if self.0.len() == MAX_FOLDERS {
                let message =
                    format!("there are more than {MAX_FOLDERS} folders in a list whose order counts");
                return Err(Problem::new(line, message));
            }
            self.0.entry((host, folder.to_owned())).or_insert(line);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_literal_is_one_path() {
        for (pattern, expected) in [
            ("^/a$", Some("/a")),
            ("^/a\\.html$", Some("/a.html")),
            ("^/a\\-b\\/c$", Some("/a-b/c")),
            ("^/a b$", Some("/a b")),
            ("^/a.html$", None),
            ("^/a", None),
            ("/a$", None),
            ("^/a\\$", None),
            ("^/a\\d$", None),
            ("^/a/?$", None),
            ("^/(a|b)$", None),
            ("^/a[bc]$", None),
            ("^/a+$", None),
            ("^", None),
        ] {
            assert_eq!(literal(pattern).ok().as_deref(), expected, "{pattern}");
        }
    }

    #[test]
    fn what_is_never_reached_is_named_with_what_is_before_it() {
        let mut earlier = Earlier::default();
        let mut check = |line, host: &str, path: &str| {
            let mut terms = Terms::new(path, "https://example.org/");
            terms.host = host.to_owned();
            earlier.check(line, &terms).map_err(|problem| problem.other_line)
        };
        assert_eq!(check(1, "*", "/a/b"), Ok(()));
        assert_eq!(check(2, "*", "/a/*"), Ok(()));
        assert_eq!(check(3, "*", "/a/c"), Err(Some(2)));
        assert_eq!(check(4, "*", "/%61"), Err(Some(2)));
        assert_eq!(check(5, "*", "/a/b/*"), Err(Some(2)));
        assert_eq!(check(6, "*", "/ab"), Ok(()));
        assert_eq!(check(7, "x.example", "/a/b"), Err(Some(2)));
        assert_eq!(check(8, "*", "/a/*"), Ok(()), "that is a duplicate, of which others tell");
        assert_eq!(check(9, "x.example", "/*"), Ok(()));
        assert_eq!(check(10, "x.example", "/z"), Err(Some(9)));
        assert_eq!(check(11, "y.example", "/z"), Ok(()));
    }
}
