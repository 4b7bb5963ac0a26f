//! Edits of one page as texts that `record.lua` takes; and how edits and counts of one page that wait together become one
//! item, and what became of each of them.

use compact_str::{CompactString, ToCompactString as _};
use redis::Value;

use super::super::edit::Edit;
use super::codes::{ACTIVITY, ADDED, COUNTED, EXPIRED, LATER, PROMOTED, REJECTED, REMEMBERED};
use super::reply::REPLIES;
use crate::error::Result;
use crate::store::redis::{Args, Joining};

/// What several begin with, in a text of one: each with a time, or all of now.
const DATED: char = '\u{1}';
const UNDATED: char = '\u{2}';

/// An edit as texts: the time is empty for now.
type Fields<'a> = [&'a str; 4];

/// Edits of one page, as `record.lua` takes them: several in order of time and id.
pub(super) fn written(edits: &[Edit<'_>]) -> CompactString {
    let mut numbers: Vec<[CompactString; 2]> = Vec::with_capacity(edits.len());
    for edit in edits {
        let at = edit.at.map(|at| at.as_millis().to_compact_string()).unwrap_or_default();
        numbers.push([at, edit.byte_change.to_compact_string()]);
    }
    let fields = numbers.iter().zip(edits).map(|([at, change], edit)| [at, change, edit.id, edit.editor]);
    text(fields)
}

fn text<'a>(edits: impl ExactSizeIterator<Item = Fields<'a>> + Clone) -> CompactString {
    let is_undated = edits.clone().all(|[at, ..]| at.is_empty());
    let is_one = edits.len() == 1;
    let mut text = CompactString::default();
    if !is_one {
        text.push(if is_undated { UNDATED } else { DATED });
    }
    for [at, change, id, editor] in edits {
        let pieces = match is_undated && !is_one {
            true => [id, "\0", change, " ", editor, "\0", "", ""],
            false => [at, "\0", change, "\0", id, "\0", editor, "\0"],
        };
        pieces.iter().for_each(|piece| text.push_str(piece));
    }
    text
}

/// Single edits.
pub(super) static EDITS: Joining = Joining { join: join_edits, split: split_edits };

fn join_edits(args: &[&Args]) -> (Args, Vec<usize>) {
    let fields = |number: usize| -> Fields<'_> {
        let mut texts = args[number].first().map_or("", |text| text.as_str()).split('\0');
        [(); 4].map(|()| texts.next().unwrap_or_default())
    };
    let mut order: Vec<(Fields<'_>, usize)> =
        (0..args.len()).map(|number| (fields(number), number)).collect();
    // As `batch::grouped` has them: those without a moment are made now, which is the latest there is.
    order.sort_unstable_by_key(|([at, change, id, editor], number)| {
        (at.parse::<u64>().unwrap_or(u64::MAX), *id, *editor, *change, *number)
    });
    let text = text(order.iter().map(|(fields, _)| *fields));
    (Args::from_iter([text]), order.into_iter().map(|(_, number)| number).collect())
}

/// Each as if it had come alone. What is noted of all of them is of the one that made the page hot, or of the first.
fn split_edits(value: &Value, edits: usize) -> Result<Vec<Value>> {
    if let Value::Int(ADDED | LATER) = value {
        return Ok(vec![value.clone(); edits]);
    }
    let mut fields = REPLIES.list(value)?;
    let (_, expired) = (fields.number()?, fields.integer()?);
    let (codes, replaced) = (fields.bytes()?, fields.field()?);
    let codes: Vec<i64> = codes.iter().map(|code| i64::from(*code) - i64::from(b'0')).collect();
    let events = fields.each(|it| it.field().cloned())?;
    let noted = codes.iter().position(|code| *code == PROMOTED).unwrap_or(0);
    let one = |(number, code): (usize, &i64)| {
        let is_activity = matches!(*code, REMEMBERED | PROMOTED | REJECTED);
        let answer = code + if is_activity { ACTIVITY } else { 0 };
        if number != noted {
            return Value::Int(answer);
        }
        let answer = Value::Int(answer + EXPIRED * expired);
        Value::Array([answer, replaced.clone()].into_iter().chain(events.clone()).collect())
    };
    Ok(codes.iter().enumerate().map(one).collect())
}

/// Counts of one page.
pub(super) static COUNTS: Joining = Joining { join: join_counts, split: split_counts };

/// Their sum.
fn join_counts(args: &[&Args]) -> (Args, Vec<usize>) {
    let count = |args: &&Args| args.first().and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
    let sum = args.iter().map(count).fold(0, u64::saturating_add);
    (Args::from_iter([sum.to_compact_string()]), (0..args.len()).collect())
}

/// One of them made the page hot, and the others counted then; anything else is true of each.
fn split_counts(value: &Value, counts: usize) -> Result<Vec<Value>> {
    let answer = match value {
        Value::Int(answer) => *answer,
        value => REPLIES.list(value)?.integer()?,
    };
    let others = if answer % ACTIVITY == PROMOTED { COUNTED } else { answer % EXPIRED };
    let mut answers = vec![Value::Int(others); counts];
    answers[0] = value.clone();
    Ok(answers)
}
