//! What is said about rules. A request that was read is checked by its methods, as far as that is possible without the
//! database, which checks all of it.
//!
//! A rule looks here as it does in the database, member by member: a test compares the two.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tidegate::bounds::MAX_COUNT;
use tidegate_edge::rule::{
    self, Answer, MAX_ID_BYTES, MAX_NOTE_BYTES, MAX_PATH_BYTES, MAX_TAG_BYTES, MAX_TAGS, Terms,
};
use tidegate_edge::truth;

use crate::api::{Invalid, RequestBody, response, whole};

/// What states are called, in the order in which they are shown.
pub(crate) const STATE_NAMES: [&str; 4] = ["live", "scheduled", "ended", "disabled"];

/// A rule that is to be.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(
    default,
    deny_unknown_fields,
    rename_all = "camelCase",
    expecting = "an object with the members of a rule"
)]
#[schemars(rename = "RuleDraft")]
pub(crate) struct Draft {
    /// Its identity; made unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = MAX_ID_BYTES))]
    pub(crate) id: Option<String>,
    /// A host, `*.example.com` for it and all below, or `*` for any, which it is unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) host: Option<String>,
    /// A path, or `/docs/*` for `/docs` and all below; made with the id unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = MAX_PATH_BYTES))]
    pub(crate) path: Option<String>,
    /// Where to: `https:`, `http:`, or a path on the same host.
    #[schemars(required, with = "String")]
    pub(crate) destination: Option<String>,
    /// As which redirect, if the rule cannot end; for now only if it can. 302 unless given.
    #[serde(deserialize_with = "whole::optional", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "code_schema")]
    pub(crate) code: Option<u64>,
    /// Whether what a request has below `/docs/*` is appended to the destination.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) append_rest: Option<bool>,
    /// What becomes of the query of a request; it is dropped unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) query: Option<Query>,
    /// From when on it answers, in milliseconds of Unix time.
    #[serde(deserialize_with = "whole::optional", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = MAX_COUNT))]
    pub(crate) starts_at: Option<u64>,
    /// The last millisecond at which it redirects.
    #[serde(deserialize_with = "whole::optional", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = MAX_COUNT))]
    pub(crate) expires_at: Option<u64>,
    /// How often it redirects.
    #[serde(deserialize_with = "whole::optional", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_COUNT))]
    pub(crate) max_clicks: Option<u64>,
    /// Where to when it has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fallback: Option<String>,
    /// For how many seconds clients may remember a permanent redirect.
    #[serde(deserialize_with = "whole::optional", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = MAX_AGE_SECONDS))]
    pub(crate) max_age: Option<u64>,
    /// Words to find it by.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = MAX_TAGS), inner(length(min = 1, max = MAX_TAG_BYTES)))]
    pub(crate) tags: Option<Vec<String>>,
    /// Whether it answers at all; yes unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) enabled: Option<bool>,
    /// For people.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = MAX_NOTE_BYTES))]
    pub(crate) note: Option<String>,
    /// What a rule has that was read: passed over, so that it can be sent back.
    #[serde(deserialize_with = "whole::optional", skip_serializing)]
    clicks: Option<u64>,
    /// Likewise.
    #[serde(deserialize_with = "whole::optional", skip_serializing)]
    version: Option<u64>,
    /// Likewise.
    #[serde(deserialize_with = "whole::optional", skip_serializing)]
    created_at: Option<u64>,
    /// Likewise.
    #[serde(deserialize_with = "whole::optional", skip_serializing)]
    updated_at: Option<u64>,
}

/// A year: what a rule may have at most.
const MAX_AGE_SECONDS: u64 = 366 * 24 * 3600;

/// One of the four, or none.
fn code_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": ["integer", "null"], "enum": [301, 302, 307, 308, null]})
}

/// What becomes of the query of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "RuleQuery")]
pub(crate) enum Query {
    /// It is dropped.
    Off,
    /// It comes behind the destination's own.
    Append,
    /// Its values win over the destination's own.
    Merge,
}

impl From<Query> for rule::Query {
    fn from(query: Query) -> Self {
        match query {
            Query::Off => Self::Off,
            Query::Append => Self::Append,
            Query::Merge => Self::Merge,
        }
    }
}

impl From<rule::Query> for Query {
    fn from(query: rule::Query) -> Self {
        match query {
            rule::Query::Off => Self::Off,
            rule::Query::Append => Self::Append,
            rule::Query::Merge => Self::Merge,
        }
    }
}

impl RequestBody for Draft {
    type Read<'a> = Self;
}

/// All of a rule that may be there.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub(crate) struct Replacement(pub(crate) Draft);

impl JsonSchema for Replacement {
    fn schema_name() -> Cow<'static, str> {
        "RuleReplacement".into()
    }

    fn json_schema(schemas: &mut SchemaGenerator) -> Schema {
        let mut schema = Draft::json_schema(schemas);
        // Nothing is made for a rule that has an id.
        schema.insert("required".to_owned(), json!(["destination", "path"]));
        schema
    }
}

impl RequestBody for Replacement {
    type Read<'a> = Self;
}

impl Draft {
    /// A rule that is to be made, as the database takes it.
    pub(crate) fn draft(mut self) -> Result<rule::Draft, Invalid> {
        let id = self.id.take();
        if self.path.is_none() && id.is_some() {
            return Err(missing("path", ": it is only made together with an id"));
        }
        let mut draft = rule::Draft::new(self.terms()?);
        draft.id = id;
        Ok(draft)
    }

    /// What the rule of that id is to say.
    pub(crate) fn terms_of(self, id: &str) -> Result<Terms, Invalid> {
        if let Some(other) = self.id.as_ref().filter(|it| *it != id) {
            let other: String = other.chars().take(60).collect();
            return Err(Invalid(format!("`id`: {other:?} is another rule than that of the path")));
        }
        if self.path.is_none() {
            return Err(missing("path", ""));
        }
        self.terms()
    }

    /// Without a path if one is to be made.
    fn terms(self) -> Result<Terms, Invalid> {
        // To the database an empty one is to be made.
        if self.path.as_deref() == Some("") {
            return Err(Invalid("path: \"\" does not start with /".to_owned()));
        }
        let destination = self.destination.ok_or_else(|| missing("destination", ""))?;
        let mut terms = Terms::new(self.path.unwrap_or_default(), destination);
        terms.host = self.host.unwrap_or(terms.host);
        if let Some(code) = self.code {
            terms.code = code_of(code)?;
        }
        terms.append_rest = self.append_rest.unwrap_or_default();
        terms.query = self.query.map(Into::into).unwrap_or_default();
        (terms.starts_at, terms.expires_at, terms.max_clicks) =
            (self.starts_at, self.expires_at, self.max_clicks);
        terms.fallback = self.fallback;
        terms.max_age = self.max_age.map(max_age_of).transpose()?;
        terms.tags = self.tags.unwrap_or_default();
        terms.enabled = self.enabled.unwrap_or(true);
        terms.note = self.note.unwrap_or_default();
        Ok(terms)
    }
}

fn missing(name: &str, why: &str) -> Invalid {
    Invalid(format!("the body is not what is expected: missing field `{name}`{why}"))
}

fn code_of(code: u64) -> Result<rule::Code, Invalid> {
    // What is larger is not allowed either.
    let number = u16::try_from(code).unwrap_or(u16::MAX);
    rule::Code::try_from(number)
        .map_err(|_| Invalid(format!("the code {code} is not allowed: 301, 302, 307 and 308 are")))
}

fn max_age_of(seconds: u64) -> Result<u32, Invalid> {
    let too_many = || Invalid(format!("maxAge: {seconds} seconds are too many: 0 to {MAX_AGE_SECONDS}"));
    u32::try_from(seconds).map_err(|_| too_many())
}

/// What changes of a rule. `null` takes a member away: it is as if it had never been given.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(
    default,
    deny_unknown_fields,
    rename_all = "camelCase",
    expecting = "an object with members of a rule"
)]
#[schemars(rename = "RulePatch")]
pub(crate) struct Patch {
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub(crate) host: Option<Option<String>>,
    #[serde(deserialize_with = "there", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = MAX_PATH_BYTES))]
    pub(crate) path: Option<String>,
    #[serde(deserialize_with = "there", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub(crate) destination: Option<String>,
    #[serde(deserialize_with = "given_whole", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "code_schema")]
    pub(crate) code: Option<Option<u64>>,
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<bool>")]
    pub(crate) append_rest: Option<Option<bool>>,
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Query>")]
    pub(crate) query: Option<Option<Query>>,
    #[serde(deserialize_with = "given_whole", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<u64>", range(min = 0, max = MAX_COUNT))]
    pub(crate) starts_at: Option<Option<u64>>,
    #[serde(deserialize_with = "given_whole", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<u64>", range(min = 0, max = MAX_COUNT))]
    pub(crate) expires_at: Option<Option<u64>>,
    #[serde(deserialize_with = "given_whole", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<u64>", range(min = 1, max = MAX_COUNT))]
    pub(crate) max_clicks: Option<Option<u64>>,
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub(crate) fallback: Option<Option<String>>,
    #[serde(deserialize_with = "given_whole", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<u64>", range(min = 0, max = MAX_AGE_SECONDS))]
    pub(crate) max_age: Option<Option<u64>>,
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Vec<String>>", length(max = MAX_TAGS), inner(length(min = 1, max = MAX_TAG_BYTES)))]
    pub(crate) tags: Option<Option<Vec<String>>>,
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<bool>")]
    pub(crate) enabled: Option<Option<bool>>,
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", length(max = MAX_NOTE_BYTES))]
    pub(crate) note: Option<Option<String>>,
}

/// A member that is there, be it `null`.
fn given<'de, D: serde::Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

fn given_whole<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Option<u64>>, D::Error> {
    whole::optional(deserializer).map(Some)
}

/// A member that cannot be taken away.
fn there<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    String::deserialize(deserializer).map(Some)
}

impl RequestBody for Patch {
    type Read<'a> = Self;
}

impl Patch {
    /// As the database takes it.
    pub(crate) fn patch(self) -> Result<truth::Patch, Invalid> {
        if let Some(Some(code)) = self.code {
            code_of(code)?;
        }
        if let Some(Some(seconds)) = self.max_age {
            max_age_of(seconds)?;
        }
        match serde_json::to_value(self) {
            Ok(serde_json::Value::Object(members)) => Ok(members),
            // A struct is an object, and there is nothing in it that JSON cannot write.
            _ => Err(Invalid("the body is not what is expected: an object is".to_owned())),
        }
    }
}

/// A rule, as everybody is told of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Rule {
    pub(crate) id: String,
    pub(crate) host: String,
    pub(crate) path: String,
    pub(crate) destination: String,
    pub(crate) code: u16,
    pub(crate) append_rest: bool,
    pub(crate) query: Query,
    /// Absent, as all that is not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) starts_at: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) expires_at: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) max_clicks: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) fallback: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) max_age: Option<u32>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) tags: Vec<String>,
    pub(crate) enabled: bool,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) note: String,
    /// Redirects so far.
    pub(crate) clicks: u64,
    /// From 1 on; its `ETag`.
    pub(crate) version: u64,
    /// When it was made, in milliseconds of the database's time.
    pub(crate) created_at: u64,
    /// When it was last changed.
    pub(crate) updated_at: u64,
}

impl From<rule::Rule> for Rule {
    fn from(rule: rule::Rule) -> Self {
        let rule::Rule { id, terms, clicks, version, created_at, updated_at, .. } = rule;
        Self {
            id,
            host: terms.host,
            path: terms.path,
            destination: terms.destination,
            code: terms.code.as_u16(),
            append_rest: terms.append_rest,
            query: terms.query.into(),
            starts_at: terms.starts_at,
            expires_at: terms.expires_at,
            max_clicks: terms.max_clicks,
            fallback: terms.fallback,
            max_age: terms.max_age,
            tags: terms.tags,
            enabled: terms.enabled,
            note: terms.note,
            clicks,
            version,
            created_at,
            updated_at,
        }
    }
}

fn texts(warnings: &[rule::Warning]) -> Vec<String> {
    warnings.iter().map(ToString::to_string).collect()
}

response! {
    /// A rule that was made or changed.
    #[schemars(rename = "RuleChanged")]
    struct Changed from(it: truth::Written) {
        /// The number of the change; `null` if all was as asked for.
        seq: Option<u64> = it.seq.map(|seq| seq.0),
        /// What is allowed, and probably not meant.
        warnings: Vec<String> = texts(&it.warnings),
        rule: Rule = it.rule.into(),
    }

    /// Rules, in the order of what they were looked for by.
    #[schemars(rename = "RulePage")]
    struct Page from(page: truth::RulePage) {
        rules: Vec<Rule> = page.rules.into_iter().map(Into::into).collect(),
        /// Where the next page begins; `null` if there is none.
        next: Option<String> = page.next.map(|next| next.to_string()),
    }

    /// Where the rules stand.
    #[schemars(rename = "RulePosition")]
    struct Position from(it: truth::Position) {
        /// Changes when the database may have gone back.
        epoch: String = it.epoch,
        /// The number of the last change.
        seq: u64 = it.seq.0,
        count: u64 = it.count,
        /// Of all rules.
        digest: String = it.digest.to_string(),
        /// The database's, in milliseconds.
        time: u64 = it.time_ms,
    }

    /// Which rule answers a request, and what.
    #[schemars(rename = "RuleResolved")]
    struct Resolved from(host: String, path: String, resolution: truth::Resolution, answer: Option<Sent>) {
        /// As rules have it.
        host: String = host,
        /// Likewise.
        path: String = path,
        /// The place that this was so at, `EPOCH:SEQ`.
        watermark: String = format!("{}:{}", resolution.position.epoch, resolution.position.seq),
        /// The database's, in milliseconds.
        time: u64 = resolution.position.time_ms,
        /// `null` if there is none.
        rule: Option<Rule> = resolution.rule.map(Into::into),
        /// Rules that come before it and are passed over, the nearest first: they are turned off or have not started.
        passed: Vec<Rule> = resolution.passed.into_iter().map(Into::into).collect(),
        /// Where the rules stood.
        position: Position = Position::new(resolution.position),
        /// What is sent; `null` if no rule answers.
        answer: Option<Sent> = answer,
    }
}

/// What a request is answered.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "RuleAnswer")]
pub(crate) struct Sent {
    /// 410 of a rule that has ended and has no fallback.
    pub(crate) status: u16,
    /// `null` if it is not sent on.
    pub(crate) location: Option<String>,
    pub(crate) cache_control: Option<String>,
}

impl Sent {
    /// None if it is as if the rule were not there.
    pub(crate) fn of(answer: Answer) -> Option<Self> {
        match answer {
            Answer::None => None,
            Answer::Gone => Some(Self { status: 410, location: None, cache_control: None }),
            Answer::Redirect(to) => Some(Self {
                status: to.code.as_u16(),
                location: Some(to.location),
                cache_control: to.cache_control,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn full() -> Value {
        json!({"id": "a", "host": "*.example.com", "path": "/docs/*", "destination": "https://example.org/", "code": 308,
            "appendRest": true, "query": "merge", "startsAt": 1, "expiresAt": 2, "maxClicks": 3, "fallback": "/over",
            "maxAge": 60, "tags": ["x", "y"], "enabled": false, "note": "n", "clicks": 4, "version": 5, "createdAt": 6,
            "updatedAt": 7})
    }

    fn least() -> Value {
        json!({"id": "a", "host": "*", "path": "/a", "destination": "/b", "code": 302, "appendRest": false, "query": "off",
            "enabled": true, "clicks": 0, "version": 1, "createdAt": 6, "updatedAt": 6})
    }

    /// What is told here is what is told by the stream.
    #[test]
    fn a_rule_is_told_as_the_database_has_it() {
        for json in [full(), least()] {
            let rule: rule::Rule = serde_json::from_value(json.clone()).unwrap();
            assert_eq!(serde_json::to_value(&rule).unwrap(), json);
            assert_eq!(serde_json::to_value(Rule::from(rule)).unwrap(), json);
            assert_eq!(
                serde_json::to_value(serde_json::from_value::<Rule>(json.clone()).unwrap()).unwrap(),
                json
            );
        }
    }

    /// No member is lost on the way in, and one that was read can be sent back.
    #[test]
    fn a_draft_is_read_as_the_database_would() {
        for mut json in [full(), least()] {
            let draft = serde_json::from_value::<Draft>(json.clone()).unwrap().draft().unwrap();
            let terms = serde_json::from_value::<Draft>(json.clone()).unwrap().terms_of("a").unwrap();
            for kept in ["clicks", "version", "createdAt", "updatedAt"] {
                json.as_object_mut().unwrap().remove(kept);
            }
            let expected: rule::Draft = serde_json::from_value(json).unwrap();
            assert_eq!((&draft, &terms), (&expected, &expected.terms));
        }
    }

    #[test]
    fn a_patch_has_what_was_sent_and_nothing_else() {
        let mut all = full();
        for kept in ["id", "clicks", "version", "createdAt", "updatedAt"] {
            all.as_object_mut().unwrap().remove(kept);
        }
        for json in [all, json!({}), json!({"expiresAt": null, "code": null, "tags": null, "note": ""})] {
            let patch = serde_json::from_value::<Patch>(json.clone()).unwrap().patch().unwrap();
            assert_eq!(Value::Object(patch), json);
        }
        for wrong in [
            json!({"path": null}),
            json!({"destination": null}),
            json!({"id": "b"}),
            json!({"expires_at": 1}),
        ] {
            assert!(serde_json::from_value::<Patch>(wrong.clone()).is_err(), "{wrong}");
        }
        let whole = serde_json::from_value::<Patch>(json!({"expiresAt": 5.0})).unwrap().patch().unwrap();
        assert_eq!(Value::Object(whole), json!({"expiresAt": 5}));
    }

    #[test]
    fn all_states_are_named() {
        for name in STATE_NAMES {
            let state: rule::State = serde_json::from_value(json!(name)).unwrap();
            assert_eq!(state.as_str(), name);
        }
    }
}
