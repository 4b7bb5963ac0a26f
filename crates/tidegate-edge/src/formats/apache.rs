//! Apache: `Redirect`, `RedirectPermanent`, `RedirectTemp`, and of `RedirectMatch` and `RewriteRule` those of one path.
//!
//! `Redirect` is for a path and all below, and appends what is below: so are the rules that come of it. The first that
//! fits wins there. A `RewriteRule` of `^a$` is read as one in the `.htaccess` of a site's root.

use std::io;

use super::csv::too_long;
use super::input::{Input, Line};
use super::literal::{Earlier, decoded, literal, without_slash};
use super::problem::Problem;
use super::{Entry, Item, Source};
use crate::rule::{Code, Query, Terms};

/// Sections in sections, at most.
const MAX_DEPTH: usize = 100;

/// A list in Apache's language.
#[derive(Default)]
pub(super) struct Apache {
    earlier: Earlier,
    /// Sections that are open, whose redirects are read or not, and where they begin.
    sections: Vec<(bool, u64)>,
    /// Where a condition stands that is for the next rule.
    condition: Option<u64>,
    /// Another base than the root.
    has_base: bool,
    is_over: bool,
}

impl Source for Apache {
    fn next(&mut self, input: &mut Input) -> io::Result<Option<Item>> {
        while !self.is_over {
            let line = input.line();
            let text = match directive(input, line)? {
                Some(Ok(text)) => text,
                Some(Err(problem)) => return Ok(Some(Item::Problem(problem))),
                None => {
                    self.is_over = true;
                    let open = self.sections.first().map(|(_, line)| *line);
                    return Ok(
                        open.map(|line| Item::Problem(Problem::new(line, "this section is not closed")))
                    );
                }
            };
            if let Some(item) = self.take(line, text.trim()) {
                return Ok(Some(item.map_or_else(Item::Problem, Item::Rule)));
            }
        }
        Ok(None)
    }
}

/// A line, with those that it goes on in.
fn directive(input: &mut Input, line: u64) -> io::Result<Option<Result<String, Problem>>> {
    let mut bytes = Vec::new();
    loop {
        match input.read_line(&mut bytes)? {
            None if bytes.is_empty() => return Ok(None),
            None | Some(Line::Whole) => {}
            Some(Line::TooLong) => return Ok(Some(Err(too_long(line)))),
        }
        if bytes.ends_with(b"\\") && input.peek()?.is_some() {
            bytes.pop();
            continue;
        }
        let text = String::from_utf8(bytes).map_err(|_| Problem::new(line, "it is not UTF-8"));
        return Ok(Some(text));
    }
}

impl Apache {
    fn take(&mut self, line: u64, text: &str) -> Option<Result<Entry, Problem>> {
        if text.is_empty() || text.starts_with('#') {
            return None;
        }
        let problem = |message: String| Some(Err(Problem::new(line, message)));
        if let Some(section) = text.strip_prefix('<') {
            return self.section(line, section).map(|message| Err(Problem::new(line, message)));
        }
        // Whatever is in a section that was told of is told with it.
        if self.sections.iter().any(|(is_read, _)| !is_read) {
            return None;
        }
        let words = match words(text) {
            Ok(words) => words,
            Err(message) => return problem(message),
        };
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        let (name, arguments) = words.split_first()?;
        let found = match &*name.to_ascii_lowercase() {
            "redirect" => redirect(line, None, arguments),
            "redirectpermanent" => redirect(line, Some(Code::MovedPermanently), arguments),
            "redirecttemp" => redirect(line, Some(Code::Found), arguments),
            "redirectmatch" => redirect_match(line, arguments),
            "rewriterule" => {
                return Some(self.rewrite(line, arguments).map_err(|it| Problem::new(line, it)));
            }
            "rewritecond" => {
                self.condition.get_or_insert(line);
                return None;
            }
            "rewriteengine" if arguments.first().is_some_and(|it| it.eq_ignore_ascii_case("on")) => {
                return None;
            }
            "rewritebase" if arguments == ["/"] => return None,
            "rewritebase" => {
                self.has_base = true;
                Err(format!("{text:?}: only / is read"))
            }
            _ => Err(format!("{name:?} is no redirect")),
        };
        let entry = found.map_err(|message| Problem::new(line, message));
        Some(entry.and_then(|entry| self.earlier.check(line, &entry.draft.terms).map(|()| entry)))
    }

    fn section(&mut self, line: u64, text: &str) -> Option<String> {
        if text.starts_with('/') {
            return self.sections.pop().is_none().then(|| format!("<{text} closes nothing"));
        }
        if self.sections.len() == MAX_DEPTH {
            self.is_over = true;
            return Some(format!("more than {MAX_DEPTH} sections are open: what follows is not read"));
        }
        let is_read = text.to_ascii_lowercase().starts_with("ifmodule");
        let is_inside = self.sections.iter().any(|(is_read, _)| !is_read);
        self.sections.push((is_read, line));
        (!is_read && !is_inside).then(|| format!("<{text} is a condition: what is in it is not read"))
    }

    fn rewrite(&mut self, line: u64, arguments: &[&str]) -> Result<Entry, String> {
        let condition = self.condition.take();
        let (pattern, to, flags) = match arguments {
            [pattern, to] => (*pattern, *to, ""),
            [pattern, to, flags] if flags.starts_with('[') && flags.ends_with(']') => {
                (*pattern, *to, &flags[1..flags.len() - 1])
            }
            _ => {
                return Err(format!(
                    "RewriteRule {} is not a pattern, an address and flags",
                    arguments.join(" ")
                ));
            }
        };
        if let Some(condition) = condition {
            return Err(format!("it is under a condition (line {condition}): that has no counterpart"));
        }
        let is_elsewhere = to.starts_with("http://") || to.starts_with("https://");
        let (mut code, mut drops, mut appends) = (is_elsewhere.then_some(Code::Found), false, false);
        for flag in flags.split(',').map(str::trim).filter(|it| !it.is_empty()) {
            let (name, value) = flag.split_once('=').unwrap_or((flag, ""));
            match (&*name.to_ascii_lowercase(), value) {
                ("r" | "redirect", "") => code = Some(Code::Found),
                ("r" | "redirect", value) => code = Some(status(value)?),
                ("l" | "last" | "end" | "ne" | "noescape", "") => {}
                ("qsd" | "qsdiscard", "") => drops = true,
                ("qsa" | "qsappend", "") => appends = true,
                ("nc" | "nocase", "") => {
                    return Err("it ignores upper and lower case, which differ here".to_owned());
                }
                _ => return Err(format!("the flag {flag:?} has no counterpart")),
            }
        }
        let Some(code) = code else { return Err("it is no redirect, but goes on inside Apache".to_owned()) };
        if to.contains(['$', '%']) {
            return Err(format!("{to:?} has a placeholder or an escape in it"));
        }
        let path = literal(pattern)?;
        let path = match path.strip_prefix('/') {
            Some(_) => path,
            None if self.has_base => return Err(format!("{pattern:?} is below a base that is not /")),
            None => format!("/{path}"),
        };
        // The address's own query replaces the request's, unless both are asked for.
        let query = match (drops, to.contains('?')) {
            (true, _) => Query::Off,
            (false, true) if !appends => Query::Off,
            (false, _) => Query::Append,
        };
        let to = to.strip_suffix('?').unwrap_or(to);
        let mut terms = Terms::new(decoded(&path)?, to);
        (terms.code, terms.query) = (code, query);
        Ok(Entry::new(line, terms))
    }
}

fn status(text: &str) -> Result<Code, String> {
    match &*text.to_ascii_lowercase() {
        "permanent" => Ok(Code::MovedPermanently),
        "temp" => Ok(Code::Found),
        "seeother" => Code::try_from(303),
        "gone" => Err("410 goes nowhere: that has no counterpart".to_owned()),
        number => match number.parse::<u16>() {
            Ok(number) => Code::try_from(number),
            Err(_) => Err(format!("{text:?} is no status of a redirect")),
        },
    }
}

/// The code, the path and the address of `[status] path address`.
fn parts<'a>(code: Option<Code>, arguments: &[&'a str]) -> Result<(Code, &'a str, &'a str), String> {
    match (code, arguments) {
        (Some(code), [path, to]) => Ok((code, path, to)),
        (None, [path, to]) if path.starts_with(['/', '^']) => Ok((Code::Found, path, to)),
        (None, [code, path, to]) => Ok((status(code)?, path, to)),
        (None, [code, ..]) => match status(code) {
            Err(message) if code.eq_ignore_ascii_case("gone") || *code == "410" => Err(message),
            _ => Err("it does not say from where to where".to_owned()),
        },
        _ => Err("it does not say from where to where".to_owned()),
    }
}

fn redirect(line: u64, code: Option<Code>, arguments: &[&str]) -> Result<Entry, String> {
    let (code, path, to) = parts(code, arguments)?;
    let path = decoded(path)?;
    if to.contains(['?', '#']) {
        return Err(format!(
            "{to:?} has a query or a fragment, and what is below {path:?} comes behind it there"
        ));
    }
    let folder = path.strip_suffix('/').unwrap_or(path);
    let mut warnings = Vec::new();
    match (path.ends_with('/'), to.ends_with('/')) {
        (true, false) => {
            return Err(format!("{to:?} is followed by what is below {path:?} without a / between them"));
        }
        (true, true) if path.len() > 1 => warnings.push(without_slash(path)),
        (false, true) => {
            warnings.push(format!("what is below {path} came behind two slashes: here behind one"))
        }
        _ => {}
    }
    let mut terms = Terms::new(format!("{folder}/*"), to);
    (terms.code, terms.query, terms.append_rest) = (code, Query::Append, true);
    let mut entry = Entry::new(line, terms);
    entry.warnings = warnings;
    Ok(entry)
}

fn redirect_match(line: u64, arguments: &[&str]) -> Result<Entry, String> {
    let (code, pattern, to) = parts(None, arguments)?;
    let path = literal(pattern)?;
    if to.contains('$') {
        return Err(format!("{to:?} has a placeholder in it"));
    }
    let mut terms = Terms::new(decoded(&path)?, to);
    terms.code = code;
    terms.query = if to.contains('?') { Query::Off } else { Query::Append };
    Ok(Entry::new(line, terms))
}

/// Words between spaces, or in quotes.
fn words(text: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let mut word = String::new();
        let end;
        if first == '"' || first == '\'' {
            let mut chars = rest[1..].char_indices();
            end = loop {
                match chars.next() {
                    None => return Err("a quote is opened and not closed".to_owned()),
                    Some((at, c)) if c == first => break at + 2,
                    Some((at, '\\')) if rest[at + 2..].starts_with([first, '\\']) => {
                        word.extend(chars.next().map(|(_, c)| c));
                    }
                    Some((_, c)) => word.push(c),
                }
            };
        } else {
            end = rest.find(char::is_whitespace).unwrap_or(rest.len());
            word.push_str(&rest[..end]);
        }
        words.push(word);
        rest = rest[end..].trim_start();
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::super::Format;
    use super::super::table::{compare, one, read};

    #[test]
    fn directives_become_rules_or_problems() {
        compare(
            Format::Apache,
            &[
                ("Redirect /a https://x.example/b", "* /a/* 302 append https://x.example/b+rest"),
                ("redirect 301 /a /b", "* /a/* 301 append /b+rest"),
                ("Redirect permanent \"/a b\" /b", "* /a b/* 301 append /b+rest"),
                ("Redirect temp / https://x.example/", "* /* 302 append https://x.example/+rest"),
                ("RedirectPermanent /a/ /b/", "* /a/* 301 append /b/+rest"),
                ("RedirectTemp /a /b", "* /a/* 302 append /b+rest"),
                ("Redirect 301 /a \\\n  /b", "* /a/* 301 append /b+rest"),
                ("Redirect seeother /a /b", "! 303 is not allowed"),
                ("Redirect gone /a", "! 410"),
                ("Redirect 410 /a", "! 410"),
                ("Redirect /a", "! from where to where"),
                ("Redirect often /a /b", "! no status"),
                ("Redirect /a /b?c", "! has a query"),
                ("Redirect /a/ /b", "! without a / between"),
                ("Redirect /a%20b /c", "! decoded"),
                ("Redirect \"/a /b", "! quote"),
                ("RedirectMatch 301 ^/a$ /b", "* /a 301 append /b"),
                ("RedirectMatch ^/a\\.html$ /b?c", "* /a.html 302 off /b?c"),
                ("RedirectMatch 301 ^/a/(.*)$ /b/$1", "! regular expression"),
                ("RedirectMatch /a$ /b", "! regular expression"),
                ("RewriteRule ^/a$ /b [R=301,L]", "* /a 301 append /b"),
                ("RewriteRule ^a$ https://x.example/b [L]", "* /a 302 append https://x.example/b"),
                ("RewriteRule ^a$ /b? [R=permanent]", "* /a 301 off /b"),
                ("RewriteRule ^a$ /b?c=d [R]", "* /a 302 off /b?c=d"),
                ("RewriteRule ^a$ /b?c=d [R,QSA,NE,END]", "* /a 302 append /b?c=d"),
                ("RewriteRule ^a$ /b [R=308,QSD]", "* /a 308 off /b"),
                ("RewriteRule ^a$ /b [L]", "! goes on inside Apache"),
                ("RewriteRule ^a$ /b [R,NC]", "! upper and lower case"),
                ("RewriteRule ^a$ /b [R,C]", "! the flag \"C\""),
                ("RewriteRule ^a/?$ /b [R]", "! regular expression"),
                ("RewriteRule ^a$ /b/$1 [R]", "! placeholder"),
                ("RewriteRule ^a$ /%{REQUEST_URI} [R]", "! placeholder"),
                ("RewriteRule ^a$", "! not a pattern"),
                ("RewriteCond %{HTTPS} off\nRewriteRule ^a$ /b [R]", "! a condition (line 1)"),
                ("RewriteEngine On\n# c\n\nRedirect /a /b", "* /a/* 302 append /b+rest"),
                ("<IfModule mod_alias.c>\nRedirect /a /b\n</IfModule>", "* /a/* 302 append /b+rest"),
                ("<VirtualHost *:80>\nRedirect /a /b\n</VirtualHost>", "! <VirtualHost *:80> is a condition"),
                ("</IfModule>", "! closes nothing"),
                ("Options -Indexes", "! \"Options\" is no redirect"),
            ],
        );
    }

    #[test]
    fn the_first_that_fits_wins_there_and_not_here() {
        let items =
            read(Format::Apache, "Redirect /a /x\nRedirectMatch ^/a/b$ /y\nRewriteRule ^a/c$ /z [R]\n");
        assert!(items[1].starts_with("2! it is never reached: line 1"), "{items:?}");
        assert_eq!(items[2], "3 * /a/c 302 append /z", "rewriting comes first");
    }

    #[test]
    fn sections_and_bases_are_named() {
        let items = read(Format::Apache, "RewriteBase /x\nRewriteRule ^a$ /b [R]\n<If 1>\n<If 2>\n");
        assert_eq!(items.len(), 4, "{items:?}");
        assert!(
            items[1].contains("a base that is not /") && items[3].starts_with("3! this section"),
            "{items:?}"
        );
    }

    #[test]
    fn sections_in_sections_are_bounded() {
        let items = read(Format::Apache, &"<IfModule x>\n".repeat(1000));
        assert!(items.len() == 1 && items[0].starts_with("101! more than 100 sections"), "{items:?}");
    }

    #[test]
    fn what_is_a_little_different_is_said() {
        let warnings = |text: &str| one(Format::Apache, text).warnings.len();
        assert_eq!(warnings("Redirect /a /b"), 0);
        assert_eq!(warnings("Redirect / https://x.example/"), 0);
        assert_eq!(warnings("Redirect /a/ /b/"), 1);
        assert_eq!(warnings("Redirect /a /b/"), 1);
    }
}
