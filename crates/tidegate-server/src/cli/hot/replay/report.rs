//! What a replay has to say.

use std::io::Write as _;
use std::path::Path;

use serde::Serialize;
use tidegate::clock::Timestamp;

use crate::api::hot::{BadLine, Ranked};
use crate::cli::hot::render::ranking;
use crate::cli::{moment, plural, printable, time};
use crate::moment;
use crate::outcomes::Outcomes;

/// Bad lines that are explained.
const EXPLAINED: usize = 5;

/// What was read, what became of it, and what is hot at the end.
#[derive(Debug, Default, Serialize)]
pub(super) struct Report {
    pub(super) lines: u64,
    pub(super) good: u64,
    pub(super) bad: u64,
    pub(super) outcomes: Outcomes,
    /// The first and the last of the times in the file.
    from_ms: Option<u64>,
    to_ms: Option<u64>,
    bad_lines: Vec<BadLine>,
    /// Rows whose time is far from that of the rows around them.
    skipped: u64,
    skipped_lines: Vec<BadLine>,
    /// Somebody pressed Ctrl-C before the end.
    #[serde(rename = "interrupted", skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_interrupted: bool,
    pub(super) count: u64,
    pub(super) window_ms: u64,
    pub(super) pages: Vec<Ranked>,
    /// Where keys were written that are nobody else's.
    #[serde(skip)]
    pub(super) namespace: Option<String>,
}

impl Report {
    pub(super) fn see(&mut self, at: Timestamp) {
        let ms = at.as_millis();
        self.from_ms = Some(self.from_ms.map_or(ms, |from| from.min(ms)));
        self.to_ms = Some(self.to_ms.map_or(ms, |to| to.max(ms)));
    }

    pub(super) fn bad_line(&mut self, line: u64, detail: String) {
        self.bad += 1;
        if self.bad_lines.len() < EXPLAINED {
            self.bad_lines.push(BadLine { line, detail });
        }
    }

    /// Leaves out a row that is `far_ms` from those around it.
    pub(super) fn skip(&mut self, line: u64, at: Timestamp, far_ms: u64) {
        self.skipped += 1;
        if self.skipped_lines.len() < EXPLAINED {
            let (at, far) = (moment(at.as_millis()), time(far_ms / 1000 * 1000));
            let detail = format!("skipped: its time, {at}, is {far} from that of the rows around it");
            self.skipped_lines.push(BadLine { line, detail });
        }
    }

    pub(super) fn first_bad(&self) -> String {
        self.bad_lines.first().map(|bad| format!("line {}: {}", bad.line, bad.detail)).unwrap_or_default()
    }

    /// On standard error, beside whatever the answer is.
    pub(super) fn explain(&self, file: &Path) {
        let mut err = std::io::stderr().lock();
        // There is nobody left to tell if this fails.
        for (lines, count, what) in [
            (&self.bad_lines, self.bad, "more bad lines"),
            (&self.skipped_lines, self.skipped, "more rows skipped; --max-gap says how far is too far"),
        ] {
            for BadLine { line, detail } in lines {
                let _ = writeln!(err, "{}:{line}: {}", file.display(), printable(detail));
            }
            if count > lines.len() as u64 {
                let _ = writeln!(err, "and {} {what}", count - lines.len() as u64);
            }
        }
        if let Some(hint) = self.to_ms.and_then(|ms| moment::seconds_hint(Timestamp::from_millis(ms))) {
            let _ = writeln!(err, "the latest time: {hint}");
        }
        if self.is_interrupted {
            let _ = writeln!(err, "interrupted after line {}", self.lines);
        }
        if let Some(namespace) = &self.namespace {
            let _ = writeln!(err, "its keys start with {namespace}: and end by themselves");
        }
    }

    pub(super) fn json(&self) -> String {
        // Strings and numbers: there is nothing that JSON cannot write.
        serde_json::to_string(self).unwrap_or_default()
    }

    pub(super) fn for_people(&self) -> String {
        let times = match (self.from_ms, self.to_ms) {
            (Some(from), Some(to)) => format!(" from {} to {}", moment(from), moment(to)),
            _ => String::new(),
        };
        let skipped = match self.skipped {
            0 => String::new(),
            count => format!(", {} skipped", plural(count, "row")),
        };
        format!(
            "{} edits{times}, {} bad lines{skipped}\n{}\n{}",
            self.good,
            self.bad,
            self.outcomes,
            ranking(self.count, self.window_ms, &self.pages)
        )
    }
}
