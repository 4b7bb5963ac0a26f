//! nginx: `rewrite` of one path, `location = /x { return … }`, and maps of `$uri`.
//!
//! A map does not say by which code its addresses are answered: they become 302. It ignores upper and lower case, which
//! here differ, of which the first address of a file's maps warns. nginx compares decoded paths, so one with a `%` in it is a problem.

use std::collections::VecDeque;
use std::io;

use super::input::Input;
use super::literal::{decoded, literal};
use super::problem::Problem;
use super::{Entry, Item, MAX_RECORD_BYTES, Source};
use crate::rule::{Code, Query, Terms};

/// Blocks in blocks, at most.
const MAX_DEPTH: usize = 100;

/// A list in nginx's language.
#[derive(Default)]
pub(super) struct Nginx {
    blocks: Vec<Block>,
    items: VecDeque<Item>,
    has_warned: bool,
    is_over: bool,
}

enum Block {
    /// What is in it is as if it were outside.
    Http(u64),
    Location(Box<Location>),
    Map(u64),
    /// Was told of.
    Skipped(u64),
}

/// `location = /x`, until its end.
struct Location {
    line: u64,
    path: String,
    entry: Option<Entry>,
    is_wrong: bool,
}

/// Words until `;` or `{`, or a `}`.
struct Statement {
    line: u64,
    words: Vec<String>,
    end: End,
}

#[derive(PartialEq)]
enum End {
    Semicolon,
    Open,
    Close,
    File,
}

impl Source for Nginx {
    fn next(&mut self, input: &mut Input) -> io::Result<Option<Item>> {
        loop {
            if let Some(item) = self.items.pop_front() {
                return Ok(Some(item));
            }
            if self.is_over {
                return Ok(None);
            }
            match statement(input)? {
                Ok(statement) => self.take(statement),
                Err(problem) => {
                    self.is_over = true;
                    return Ok(Some(Item::Problem(problem)));
                }
            }
        }
    }
}

impl Nginx {
    fn problem(&mut self, line: u64, message: impl Into<String>) {
        self.items.push_back(Item::Problem(Problem::new(line, message)));
    }

    fn take(&mut self, statement: Statement) {
        let Statement { line, words, end } = statement;
        if matches!(end, End::Close | End::File) && !words.is_empty() {
            self.problem(line, format!("{:?} is not ended by ;", words.join(" ")));
            if let Some(Block::Location(location)) = self.blocks.last_mut() {
                location.is_wrong = true;
            }
        }
        match end {
            End::File => {
                self.is_over = true;
                if let Some(Block::Http(line) | Block::Map(line) | Block::Skipped(line)) = self.blocks.first()
                {
                    self.problem(*line, "what is opened here is not closed");
                } else if let Some(Block::Location(location)) = self.blocks.first() {
                    self.problem(location.line, "what is opened here is not closed");
                }
            }
            End::Close => self.close(line),
            End::Open => self.open(line, &words),
            End::Semicolon => self.line(line, &words),
        }
    }

    fn close(&mut self, line: u64) {
        match self.blocks.pop() {
            None => self.problem(line, "} closes nothing"),
            Some(Block::Location(location)) if !location.is_wrong => match location.entry {
                Some(entry) => self.items.push_back(Item::Rule(entry)),
                None => {
                    self.problem(location.line, format!("location = {} redirects nowhere", location.path))
                }
            },
            Some(_) => {}
        }
    }

    fn open(&mut self, line: u64, words: &[String]) {
        if self.blocks.len() == MAX_DEPTH {
            self.is_over = true;
            return self
                .problem(line, format!("more than {MAX_DEPTH} blocks are open: what follows is not read"));
        }
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        let block = match (self.blocks.last_mut(), &words[..]) {
            (Some(Block::Skipped(_)), _) => Block::Skipped(line),
            (None | Some(Block::Http(_)), ["http"]) => Block::Http(line),
            (None | Some(Block::Http(_)), ["map", "$uri", _]) => Block::Map(line),
            (None | Some(Block::Http(_)), ["location", "=", path]) => match decoded(path) {
                Ok(path) => {
                    let path = path.to_owned();
                    Block::Location(Box::new(Location { line, path, entry: None, is_wrong: false }))
                }
                Err(message) => {
                    self.problem(line, message);
                    Block::Skipped(line)
                }
            },
            (inside, words) => {
                if let Some(Block::Location(location)) = inside {
                    location.is_wrong = true;
                }
                let message = match words {
                    ["map", of, ..] => format!("a map of {of}: only one of $uri is read"),
                    ["location", ..] => {
                        format!(
                            "{:?} is for more than one path: only location = /path is read",
                            words.join(" ")
                        )
                    }
                    ["if", ..] => "a condition has no counterpart".to_owned(),
                    ["server", ..] => {
                        "a server has its own names: its redirects are read without it".to_owned()
                    }
                    _ => format!("{:?} has no counterpart", words.join(" ")),
                };
                self.problem(line, message);
                Block::Skipped(line)
            }
        };
        self.blocks.push(block);
    }

    fn line(&mut self, line: u64, words: &[String]) {
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        match self.blocks.last_mut() {
            Some(Block::Skipped(_)) => {}
            None | Some(Block::Http(_)) => self.items.push_back(match &words[..] {
                ["rewrite", pattern, to, flags @ ..] => item(line, rewrite(line, pattern, to, flags)),
                ["return", ..] => item(line, Err("it is for every path of its server".to_owned())),
                ["include", file] => item(line, Err(format!("{file:?} is another file, which is not read"))),
                words => item(line, Err(format!("{:?} is no redirect", words.join(" ")))),
            }),
            Some(Block::Map(_)) => match mapped(line, &words) {
                Ok(Some(mut entry)) => {
                    if !std::mem::replace(&mut self.has_warned, true) {
                        let narrower = "it ignored upper and lower case, as all of a map: here they differ";
                        entry.warnings.push(narrower.to_owned());
                    }
                    self.items.push_back(Item::Rule(entry));
                }
                Ok(None) => {}
                Err(message) => self.problem(line, message),
            },
            Some(Block::Location(location)) => {
                let found = match &words[..] {
                    // What is written down of a request is nothing to whom is redirected.
                    ["access_log" | "log_not_found", ..] => return,
                    _ if location.is_wrong => return,
                    ["return", ..] if location.entry.is_some() => Err("it has two returns".to_owned()),
                    ["return", words @ ..] => returned(location.line, &location.path, words),
                    words => Err(format!("{:?} has no counterpart inside a location", words.join(" "))),
                };
                match found {
                    Ok(entry) => location.entry = Some(entry),
                    Err(message) => {
                        location.is_wrong = true;
                        self.problem(line, message);
                    }
                }
            }
        }
    }
}

fn item(line: u64, found: Result<Entry, String>) -> Item {
    found.map_or_else(|message| Item::Problem(Problem::new(line, message)), Item::Rule)
}

fn rewrite(line: u64, pattern: &str, to: &str, flags: &[&str]) -> Result<Entry, String> {
    let path = literal(pattern)?;
    let code = match flags {
        ["permanent"] => Code::MovedPermanently,
        ["redirect"] => Code::Found,
        [] | ["last" | "break"] if to.starts_with("http://") || to.starts_with("https://") => Code::Found,
        [] | ["last" | "break"] => return Err("it is no redirect, but goes on inside nginx".to_owned()),
        _ => return Err(format!("{:?} is no flag of a rewrite", flags.join(" "))),
    };
    // The request's query is appended, unless the address ends in ?.
    let (destination, query) = match to.strip_suffix('?') {
        Some(to) => (to, Query::Off),
        None => (to, Query::Append),
    };
    entry(line, decoded(&path)?, destination, code, query)
}

fn returned(line: u64, path: &str, words: &[&str]) -> Result<Entry, String> {
    let (code, to) = match words {
        [to] if to.starts_with("http://") || to.starts_with("https://") => (Code::Found, *to),
        [code, to] => {
            let code: u16 = code.parse().map_err(|_| format!("{code:?} is no code"))?;
            (Code::try_from(code)?, *to)
        }
        _ => return Err(format!("return {} is no redirect", words.join(" "))),
    };
    // The way to write what a rewrite does.
    match to.strip_suffix("$is_args$args").or_else(|| to.strip_suffix("$is_args$query_string")) {
        Some(to) if !to.contains('?') => entry(line, path, to, code, Query::Append),
        _ => entry(line, path, to, code, Query::Off),
    }
}

fn mapped(line: u64, words: &[&str]) -> Result<Option<Entry>, String> {
    match words {
        ["volatile"] | ["default", ""] => Ok(None),
        ["hostnames"] => Err("a map of hosts has no counterpart".to_owned()),
        ["default", to] => {
            Err(format!("all other paths are sent to {to:?}: that has no counterpart in a map"))
        }
        ["include", file] => Err(format!("{file:?} is another file, which is not read")),
        [path, _] if path.starts_with('~') => Err(format!("{path:?} is a regular expression")),
        [path, to] => {
            let path = path.strip_prefix('\\').unwrap_or(path);
            entry(line, decoded(path)?, to, Code::Found, Query::Off).map(Some)
        }
        words => Err(format!("{:?} is not a path and where it is sent", words.join(" "))),
    }
}

fn entry(line: u64, path: &str, to: &str, code: Code, query: Query) -> Result<Entry, String> {
    if to.contains('$') {
        return Err(format!("{to:?} has a variable in it"));
    }
    let mut terms = Terms::new(path, to);
    (terms.code, terms.query) = (code, query);
    Ok(Entry::new(line, terms))
}

/// Reads words until something ends them.
fn statement(input: &mut Input) -> io::Result<Result<Statement, Problem>> {
    let mut statement = Statement { line: input.line(), words: Vec::new(), end: End::File };
    let mut bytes = 0;
    loop {
        let Some(byte) = input.peek()? else { return Ok(Ok(statement)) };
        if statement.words.is_empty() {
            statement.line = input.line();
        }
        match byte {
            byte if byte.is_ascii_whitespace() => {
                input.byte()?;
            }
            b'#' => while input.byte()?.is_some_and(|byte| byte != b'\n') {},
            b';' | b'{' | b'}' => {
                input.byte()?;
                statement.end = match byte {
                    b';' => End::Semicolon,
                    b'{' => End::Open,
                    _ => End::Close,
                };
                return Ok(Ok(statement));
            }
            _ => match word(input, MAX_RECORD_BYTES.saturating_sub(bytes))? {
                Ok(word) => {
                    // An empty one costs something too.
                    bytes += word.len() + 16;
                    statement.words.push(word);
                }
                Err(message) => return Ok(Err(Problem::new(statement.line, message))),
            },
        }
    }
}

fn word(input: &mut Input, most: usize) -> io::Result<Result<String, String>> {
    let too_long =
        || format!("it is too long for a rule ({MAX_RECORD_BYTES} bytes): what follows is not read");
    if most == 0 {
        return Ok(Err(too_long()));
    }
    let quote = input.peek()?.filter(|it| matches!(it, b'"' | b'\''));
    if quote.is_some() {
        input.byte()?;
    }
    let mut word = Vec::new();
    loop {
        let Some(byte) = input.peek()? else {
            match quote {
                None => break,
                Some(_) => return Ok(Err("a quote is opened and not closed".to_owned())),
            }
        };
        let is_end = match quote {
            Some(quote) => byte == quote,
            None => byte.is_ascii_whitespace() || byte == b';' || byte == b'{' && word.last() != Some(&b'$'),
        };
        if is_end {
            if quote.is_some() {
                input.byte()?;
            }
            break;
        }
        input.byte()?;
        if byte == b'\\' {
            // Only some characters lose what stands before them; the rest is for regular expressions.
            match input.byte()? {
                Some(c @ (b'"' | b'\'' | b'\\')) => word.push(c),
                Some(c) => word.extend([b'\\', c]),
                None => word.push(b'\\'),
            }
        } else {
            word.push(byte);
        }
        if word.len() >= most {
            return Ok(Err(too_long()));
        }
    }
    Ok(String::from_utf8(word).map_err(|_| "it is not UTF-8: what follows is not read".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::super::table::{compare, items, read};
    use super::super::{Format, Item};

    #[test]
    fn statements_become_rules_or_problems() {
        compare(
            Format::Nginx,
            &[
                ("rewrite ^/a$ https://x.example/b permanent;", "* /a 301 append https://x.example/b"),
                ("rewrite ^/a$ /b redirect;", "* /a 302 append /b"),
                ("rewrite ^/a$ /b? permanent;", "* /a 301 off /b"),
                ("rewrite ^/a$ https://x.example/?b=1;", "* /a 302 append https://x.example/?b=1"),
                ("rewrite ^/a\\.html$ /b permanent;", "* /a.html 301 append /b"),
                ("rewrite \"^/a b$\" '/b' permanent;", "* /a b 301 append /b"),
                ("rewrite ^/a.html$ /b permanent;", "! . is any character"),
                ("rewrite ^/a/(.*)$ /b/$1 permanent;", "! regular expression"),
                ("rewrite ^/a$ /b last;", "! goes on inside nginx"),
                ("rewrite ^/a$ /b sometimes;", "! \"sometimes\" is no flag"),
                ("rewrite ^/a$ $scheme://x.example/ permanent;", "! variable"),
                ("rewrite ^/a%20b$ /b permanent;", "! decoded"),
                ("location = /a { return 301 https://x.example/b; }", "* /a 301 off https://x.example/b"),
                ("location = /a { access_log off; return 308 /b; }", "* /a 308 off /b"),
                ("location = /a { return https://x.example/; }", "* /a 302 off https://x.example/"),
                ("location = /a { return 301 /b$is_args$args; }", "* /a 301 append /b"),
                ("location = /a { return 301 /b?$args; }", "! variable"),
                ("location = /a { return 303 /b; }", "! 303 is not allowed"),
                ("location = /a { return 404; }", "! no redirect"),
                ("location = /a { }", "! redirects nowhere"),
                ("location = /a { add_header X y; return 301 /b; }", "! inside a location"),
                ("location = /a { if ($x) { return 301 /b; } return 301 /c; }", "! a condition"),
                ("location = /a/* { return 301 /b; }", "! has a * in it"),
                ("location /a { return 301 /b; }", "! more than one path"),
                ("location ~ ^/a { return 301 /b; }", "! more than one path"),
                ("map $uri $new { /a /b; }", "* /a 302 off /b"),
                (
                    "map $uri $new { default \"\"; volatile; /a https://x.example/; }",
                    "* /a 302 off https://x.example/",
                ),
                ("map $uri $new { ~^/a /b; }", "! regular expression"),
                ("map $uri $new { default /b; }", "! all other paths"),
                ("map $uri $new { /a $other; }", "! variable"),
                ("map $uri $new { include list; }", "! another file"),
                ("map $request_uri $new { /a /b; }", "! only one of $uri"),
                ("if ($host = x) { return 301 /b; }", "! a condition"),
                ("server { location = /a { return 301 /b; } }", "! a server"),
                ("http { rewrite ^/a$ /b permanent; }", "* /a 301 append /b"),
                ("return 301 /b;", "! every path"),
                ("gzip on;", "! \"gzip on\" is no redirect"),
                ("include more;", "! another file"),
                ("rewrite ^/a$ /b permanent", "! not ended by ;"),
                ("}", "! closes nothing"),
                ("map $uri $new {", "! not closed"),
                ("rewrite \"^/a$ /b;", "! quote"),
            ],
        );
    }

    #[test]
    fn lines_are_those_that_statements_begin_on() {
        let text = "# old\n\nmap $uri $new {\n  /a /b; # first\n  /c\n    /d;\n}\nlocation =\n /e {\n return 301 /f;\n}\nx;\n";
        let expected =
            ["4 * /a 302 off /b", "5 * /c 302 off /d", "8 * /e 301 off /f", "12! \"x\" is no redirect"];
        assert_eq!(read(Format::Nginx, text), expected);
    }

    #[test]
    fn a_map_warns_once_that_it_comes_out_narrower() {
        let text =
            "rewrite ^/x$ /y permanent;\nmap $uri $a { default \"\"; /A /b; /c /d; }\nmap $uri $b { /e /f; }";
        let warned = |item: &Item| match item {
            Item::Rule(entry) => (entry.line, entry.warnings.len()),
            Item::Problem(problem) => panic!("{problem:?}"),
        };
        let items = items(Format::Nginx, text);
        assert_eq!(items.iter().map(warned).collect::<Vec<_>>(), [(1, 0), (2, 1), (2, 0), (3, 0)]);
    }

    #[test]
    fn a_word_without_an_end_is_bounded() {
        let text = "a".repeat(super::MAX_RECORD_BYTES * 2);
        let items = read(Format::Nginx, &text);
        assert!(items.len() == 1 && items[0].contains("too long"), "{items:?}");
        for words in ["a ", "\"\" "] {
            let items = read(Format::Nginx, &words.repeat(super::MAX_RECORD_BYTES * 2));
            assert!(items.len() == 1 && items[0].contains("too long"), "{items:?}");
        }
        let items = read(Format::Nginx, &"http {".repeat(1000));
        assert!(items[0].contains("blocks are open"), "{items:?}");
    }
}
