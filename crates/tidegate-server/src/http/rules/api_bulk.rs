//! What is said about many rules at once.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tidegate::bounds::MAX_COUNT;
use tidegate_edge::rule::MAX_ID_BYTES;
use tidegate_edge::truth::{Change, Condition, Outcome};

use super::api::Draft;
use crate::api::whole;

/// Changes in a request, at most.
pub(crate) const MAX_CHANGES: usize = 1000;

/// A change of one rule.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "an object with upsert or delete")]
#[schemars(rename = "RuleChange", transform = one_of_them)]
pub(crate) struct Line {
    /// A rule that is to be: made or replaced if it has an id, else made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    upsert: Option<Draft>,
    /// The id of one that is to be deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = MAX_ID_BYTES))]
    delete: Option<String>,
    /// Only if it is of this version.
    #[serde(default, deserialize_with = "whole::optional", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = MAX_COUNT))]
    version: Option<u64>,
}

/// Says of a schema that exactly one of the two is given; `null` is none.
fn one_of_them(schema: &mut Schema) {
    let given = |name: &str, kind: &str| json!({"required": [name], "properties": {name: {"type": kind}}});
    schema.insert("oneOf".to_owned(), json!([given("upsert", "object"), given("delete", "string")]));
}

impl Line {
    /// What it says, or why that cannot be.
    pub(crate) fn read(json: &[u8]) -> Result<Change, String> {
        // A struct could be read from an array, by position: nobody should rely on it.
        if json.trim_ascii_start().first() == Some(&b'[') {
            return Err("it is an array: an object is expected".to_owned());
        }
        let line: Self = serde_json::from_slice(json).map_err(|error| {
            let message = error.to_string();
            // It is always the first line to who reads only one.
            let what = message.rsplit_once(" at line ").map_or(message.as_str(), |(what, _)| what);
            format!("{what} at column {}", error.column())
        })?;
        line.change()
    }

    fn change(self) -> Result<Change, String> {
        let too_large = self.version.filter(|version| *version > MAX_COUNT);
        if let Some(version) = too_large {
            return Err(format!(
                "a version of {version} is not allowed: whole numbers up to {MAX_COUNT} are"
            ));
        }
        let condition = self.version.map_or(Condition::None, Condition::Version);
        match (self.upsert, self.delete) {
            (None, Some(id)) => Ok(Change::Delete { id, condition }),
            (Some(draft), None) => match draft.id.clone() {
                Some(id) => {
                    let terms = draft.terms_of(&id).map_err(|invalid| invalid.0)?;
                    Ok(Change::Replace { id, terms, condition })
                }
                None if condition != Condition::None => {
                    Err("a `version` without an `id`: which rule is meant nobody knows".to_owned())
                }
                None => Ok(Change::Create(draft.draft().map_err(|invalid| invalid.0)?)),
            },
            (None, None) => Err("neither `upsert` nor `delete` is there".to_owned()),
            (Some(_), Some(_)) => Err("`upsert` and `delete` are both there: name one of them".to_owned()),
        }
    }
}

/// All of them, as they are described.
pub(crate) struct Lines;

impl JsonSchema for Lines {
    fn schema_name() -> Cow<'static, str> {
        "RuleChanges".into()
    }

    fn json_schema(schemas: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "array", "maxItems": MAX_CHANGES, "items": schemas.subschema_for::<Line>()})
    }
}

/// What became of many changes.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "RuleBulk")]
pub(crate) struct Bulk {
    pub(crate) created: u64,
    pub(crate) updated: u64,
    pub(crate) deleted: u64,
    /// All was as asked for.
    pub(crate) unchanged: u64,
    pub(crate) refused: u64,
    /// Of each, in the order in which they were sent.
    pub(crate) outcomes: Vec<LineOutcome>,
}

/// What became of one of them.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "RuleOutcome")]
pub(crate) struct LineOutcome {
    /// Which it is, from 1 on; of lines, the line.
    pub(crate) line: usize,
    /// `created`, `updated`, `deleted`, `unchanged` or `refused`.
    pub(crate) outcome: String,
    /// The rule's, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<String>,
    /// The version that the rule is of now, or was when it was deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) version: Option<u64>,
    /// The number of the change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) seq: Option<u64>,
    /// Why it was refused, in a word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) refusal: Option<String>,
    /// The same for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) detail: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) warnings: Vec<String>,
}

impl LineOutcome {
    fn new(line: usize, outcome: &str, id: Option<String>) -> Self {
        let outcome = outcome.to_owned();
        Self {
            line,
            outcome,
            id,
            version: None,
            seq: None,
            refusal: None,
            detail: None,
            warnings: Vec::new(),
        }
    }
}

impl Bulk {
    /// A line that cannot be read.
    pub(crate) fn unreadable(&mut self, line: usize, why: String) {
        self.refused += 1;
        let (refusal, detail) = (Some("invalid".to_owned()), Some(why));
        self.outcomes.push(LineOutcome { refusal, detail, ..LineOutcome::new(line, "refused", None) });
    }

    /// A change that was asked for.
    pub(crate) fn add(&mut self, line: usize, id: Option<String>, is_deletion: bool, outcome: Outcome) {
        let written = match outcome {
            Ok(written) => written,
            Err(refusal) => {
                self.refused += 1;
                let (word, detail) = (Some(refusal.as_str().to_owned()), Some(refusal.to_string()));
                let outcome = LineOutcome::new(line, "refused", id);
                self.outcomes.push(LineOutcome { refusal: word, detail, ..outcome });
                return;
            }
        };
        let (count, word) = match written.seq {
            None => (&mut self.unchanged, "unchanged"),
            Some(_) if is_deletion => (&mut self.deleted, "deleted"),
            Some(_) if written.is_new => (&mut self.created, "created"),
            Some(_) => (&mut self.updated, "updated"),
        };
        *count += 1;
        self.outcomes.push(LineOutcome {
            version: Some(written.rule.version),
            seq: written.seq.map(|seq| seq.0),
            warnings: written.warnings.iter().map(ToString::to_string).collect(),
            ..LineOutcome::new(line, word, Some(written.rule.id))
        });
    }
}
