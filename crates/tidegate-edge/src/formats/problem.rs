//! What is wrong with a file, by its lines.

use serde::{Deserialize, Serialize};

use crate::rule::Invalid;

/// Problems that are kept; further ones are counted.
pub const MAX_PROBLEMS: usize = 1000;

/// Bytes of a message that are kept: what is quoted in it may be long.
const MAX_MESSAGE_BYTES: usize = 500;

/// Something in a file that becomes no rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Problem {
    /// The first line that it is about, from 1 on.
    pub line: u64,
    /// Another line that it is about: the one before that says the same id, or the same host and path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_line: Option<u64>,
    /// The field, by its name in JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// What is wrong, and what is allowed.
    pub message: String,
}

impl Problem {
    pub(crate) fn new(line: u64, message: impl Into<String>) -> Self {
        let mut message = message.into();
        if message.len() > MAX_MESSAGE_BYTES {
            message.truncate(message.floor_char_boundary(MAX_MESSAGE_BYTES));
            message.push('…');
        }
        Self { line, other_line: None, field: None, message }
    }

    pub(crate) fn of(line: u64, invalid: Invalid) -> Self {
        Self::field(line, invalid.field, invalid.reason)
    }

    pub(crate) fn field(line: u64, field: &str, message: impl Into<String>) -> Self {
        Self { field: Some(field.to_owned()), ..Self::new(line, message) }
    }
}

/// The first problems, and how many there are.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Problems {
    /// All.
    pub count: u64,
    /// The first [`MAX_PROBLEMS`] that were found, by their lines.
    pub first: Vec<Problem>,
}

impl Problems {
    pub(crate) fn push(&mut self, problem: Problem) {
        self.count += 1;
        if self.first.len() < MAX_PROBLEMS {
            self.first.push(problem);
        }
    }

    pub(crate) fn sort(&mut self) {
        self.first.sort_by_key(|it| it.line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn however_many_there_are_so_many_are_kept() {
        let mut problems = Problems::default();
        for line in 0..MAX_PROBLEMS as u64 + 5 {
            problems.push(Problem::new(line, "ü".repeat(1000)));
        }
        assert_eq!((problems.count, problems.first.len()), (MAX_PROBLEMS as u64 + 5, MAX_PROBLEMS));
        assert!(problems.first.iter().all(|it| it.message.len() <= MAX_MESSAGE_BYTES + '…'.len_utf8()));
    }
}
