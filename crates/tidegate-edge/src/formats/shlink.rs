//! Shlink: the CSV that its web client exports.
//!
//! Queries are merged, as Shlink does unless told otherwise, and redirects are 302. What the file does not have, such as
//! until when a link is valid, is not here either.

use std::io;

use super::columns::{Columns, Names};
use super::csv::whole;
use super::input::Input;
use super::literal::{address, exact};
use super::problem::Problem;
use super::{Entry, Item, Source};
use crate::rule::{Query, Terms};

const NAMES: Names = &[
    &["shortUrl", "short url"],
    &["longUrl", "long url"],
    &["shortCode", "short code"],
    &["domain"],
    &["createdAt", "created at"],
    &["title"],
    &["tags"],
    &["visits"],
];

/// An export of Shlink's.
#[derive(Default)]
pub(super) struct Shlink {
    columns: Columns,
}

impl Source for Shlink {
    fn next(&mut self, input: &mut Input) -> io::Result<Option<Item>> {
        let needed: [&[&str]; 2] = [&["longUrl"], &["shortUrl", "shortCode"]];
        let Some(read) = self.columns.read(input, NAMES, &needed)? else { return Ok(None) };
        let entry = read.and_then(|line| self.entry(line).map_err(|message| Problem::new(line, message)));
        Ok(Some(entry.map_or_else(Item::Problem, Item::Rule)))
    }
}

impl Shlink {
    fn entry(&self, line: u64) -> Result<Entry, String> {
        let get = |name| self.columns.get(NAMES, name);
        let short = get("shortUrl").map(address);
        let host = get("domain").filter(|it| *it != "DEFAULT").or(short.as_ref().map(|it| it.host));
        let path = match (short, get("shortCode")) {
            (Some(short), _) => short.path.to_owned(),
            (None, Some(code)) => format!("/{code}"),
            (None, None) => return Err("it has no shortUrl and no shortCode".to_owned()),
        };
        let long = get("longUrl").ok_or("it has no longUrl")?;
        let mut terms = Terms::new(exact(&path)?, long);
        terms.host = host.unwrap_or("*").to_owned();
        terms.query = Query::Merge;
        terms.note = get("title").unwrap_or_default().to_owned();
        terms.tags = get("tags").map(|tags| tags.split('|').map(str::to_owned).collect()).unwrap_or_default();
        let mut entry = Entry::new(line, terms);
        entry.history.clicks = get("visits").map(whole).transpose()?;
        entry.history.created_at = get("createdAt").map(moment).transpose()?;
        Ok(entry)
    }
}

/// Milliseconds of Unix time of a moment such as `2026-11-16T18:00:00+01:00`.
fn moment(text: &str) -> Result<u64, String> {
    read_moment(text).ok_or_else(|| format!("{text:?} is no moment: 2026-11-16T18:00:00+01:00 is"))
}

fn read_moment(text: &str) -> Option<u64> {
    let (date, time) = text.split_once(['T', ' '])?;
    let at = time.find(['Z', '+', '-'])?;
    let (clock, zone) = time.split_at(at);
    let numbers = |text: &str, between: char| -> Option<Vec<i64>> {
        text.split(between).map(|it| it.parse().ok().filter(|it| *it >= 0)).collect()
    };
    let clock = clock.split_once('.').map_or(clock, |(clock, _)| clock);
    let [year, month, day] = numbers(date, '-')?.try_into().ok()?;
    let [hour, minute, second] = numbers(clock, ':')?.try_into().ok()?;
    let offset = match zone.split_at(1) {
        ("Z", "") => 0,
        (sign, zone) => {
            let [hours, minutes] = numbers(zone, ':')?.try_into().ok()?;
            (hours * 60 + minutes) * if sign == "-" { -60 } else { 60 }
        }
    };
    let is_one = (1970..=9999).contains(&year)
        && (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && hour < 24
        && minute < 60
        && second < 61;
    // Years that begin in March have their odd day at their end.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day - 1 - 719_468;
    let seconds = days * 86_400 + hour * 3600 + minute * 60 + second - offset;
    is_one.then(|| u64::try_from(seconds).ok()?.checked_mul(1000)).flatten()
}

#[cfg(test)]
mod tests {
    use super::super::Format;
    use super::super::table::{compare, one};
    use super::*;

    #[test]
    fn rows_become_rules_or_problems() {
        let rows = [
            ("https://s.example/abc,https://x.example/,,", "s.example /abc 302 merge https://x.example/"),
            (
                "https://s.example/in/abc,https://x.example/?a=b,,",
                "s.example /in/abc 302 merge https://x.example/?a=b",
            ),
            (",https://x.example/,abc,", "* /abc 302 merge https://x.example/"),
            (",https://x.example/,abc,t.example", "t.example /abc 302 merge https://x.example/"),
            (",https://x.example/,abc,DEFAULT", "* /abc 302 merge https://x.example/"),
            (",https://x.example/,,", "! no shortUrl"),
            ("https://s.example/abc,,,", "! no longUrl"),
            ("https://s.example/abc", "! 1 values"),
        ];
        let files =
            rows.map(|(row, expected)| (format!("shortUrl,longUrl,shortCode,domain\n{row}\n"), expected));
        compare(Format::Shlink, &files.each_ref().map(|(text, expected)| (&**text, *expected)));
        compare(
            Format::Shlink,
            &[
                ("shortUrl,visits\n", "! \"longUrl\" is missing"),
                ("longUrl,visits\n", "! \"shortUrl\" is missing"),
                ("shortUrl,longUrl,validUntil\n", "! \"validUntil\" is not known"),
            ],
        );
    }

    #[test]
    fn titles_tags_visits_and_times_are_kept() {
        let text = "createdAt,title,shortUrl,longUrl,tags,visits\n\
                    2023-11-14T23:13:20+01:00,\"Hello, you\",https://s.example/a,https://x.example/,a|b c,12\n";
        let entry = one(Format::Shlink, text);
        assert_eq!(
            (&*entry.draft.terms.note, &entry.draft.terms.tags[..]),
            ("Hello, you", &["a".to_owned(), "b c".to_owned()][..])
        );
        assert_eq!((entry.history.created_at, entry.history.clicks), (Some(1_700_000_000_000), Some(12)));
    }

    #[test]
    fn moments_are_read_exactly() {
        for (text, ms) in [
            ("1970-01-01T00:00:00Z", Some(0)),
            ("2023-11-14T22:13:20Z", Some(1_700_000_000_000)),
            ("2023-11-14 22:13:20.123+00:00", Some(1_700_000_000_000)),
            ("2023-11-14T17:43:20-04:30", Some(1_700_000_000_000)),
            ("2024-02-29T00:00:00Z", Some(1_709_164_800_000)),
            ("2000-03-01T00:00:00Z", Some(951_868_800_000)),
            ("2023-11-14", None),
            ("2023-13-14T00:00:00Z", None),
            ("2023-11-14T25:00:00Z", None),
            ("2023-11-14T00:00:00", None),
            ("1969-12-31T23:00:00Z", None),
            ("soon", None),
        ] {
            assert_eq!(read_moment(text), ms, "{text}");
        }
    }
}
