//! What a replay has to tell.

use std::io::Write as _;
use std::path::Path;

use serde::Serialize;
use tidegate::clock::Timestamp;

use super::super::hot_told::{moment, ranking};
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
    pub(super) count: u64,
    pub(super) window_ms: u64,
    pub(super) pages: Vec<Row>,
    /// Where keys were written that are nobody else's.
    #[serde(skip)]
    pub(super) namespace: Option<String>,
}

#[derive(Debug, Serialize)]
struct BadLine {
    line: u64,
    detail: String,
}

#[derive(Debug, Serialize)]
pub(super) struct Row {
    pub(super) page: String,
    pub(super) edits: u64,
    pub(super) last_seen_ms: u64,
}

impl Report {
    pub(super) fn see(&mut self, at: Timestamp) {
        let ms = at.as_millis();
        self.from_ms = Some(self.from_ms.map_or(ms, |from| from.min(ms)));
        self.to_ms = Some(self.to_ms.map_or(ms, |to| to.max(ms)));
    }

    pub(super) fn bad_line(&mut self, detail: String) {
        self.bad += 1;
        if self.bad_lines.len() < EXPLAINED {
            self.bad_lines.push(BadLine { line: self.lines, detail });
        }
    }

    pub(super) fn first_bad(&self) -> String {
        self.bad_lines.first().map(|bad| format!("line {}: {}", bad.line, bad.detail)).unwrap_or_default()
    }

    /// On standard error, beside whatever the answer is.
    pub(super) fn explain(&self, file: &Path) {
        let mut err = std::io::stderr().lock();
        // There is nobody left to tell if this fails.
        for BadLine { line, detail } in &self.bad_lines {
            let _ = writeln!(err, "{}:{line}: {detail}", file.display());
        }
        if self.bad > self.bad_lines.len() as u64 {
            let _ = writeln!(err, "and {} more bad lines", self.bad - self.bad_lines.len() as u64);
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
        let rows = self.pages.iter().map(|row| (row.page.as_str(), row.edits, row.last_seen_ms));
        format!(
            "{} edits{times}, {} bad lines\n{}\n{}",
            self.good,
            self.bad,
            self.outcomes,
            ranking(self.count, self.window_ms, rows)
        )
    }
}
