//! What an operation reads and answers, as OpenAPI describes it.

use axum::http::StatusCode;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use tidegate::limit::headers::PROBLEM_JSON;

use super::parameter::Parameter;

/// The types of one operation.
pub(crate) struct Shape {
    /// The members that may stand in its path; those that do are in its template.
    pub(crate) path: Schema,
    pub(crate) query: &'static [Parameter],
    pub(crate) body: Option<BodyShape>,
    pub(crate) answers: Vec<AnswerShape>,
}

/// A body that is sent.
pub(crate) struct BodyShape {
    pub(crate) media_type: &'static str,
    pub(crate) schema: Schema,
    pub(crate) is_required: bool,
}

/// An answer with a status.
pub(crate) struct AnswerShape {
    pub(crate) status: StatusCode,
    pub(crate) about: &'static str,
    /// None if it has no body.
    pub(crate) body: Option<(&'static str, Schema)>,
}

impl AnswerShape {
    /// JSON of a type.
    pub(crate) fn json<T: JsonSchema>(
        schemas: &mut SchemaGenerator,
        status: StatusCode,
        about: &'static str,
    ) -> Self {
        Self { status, about, body: Some(("application/json", schemas.subschema_for::<T>())) }
    }

    /// The same, as a problem.
    pub(crate) fn problem<T: JsonSchema>(
        schemas: &mut SchemaGenerator,
        status: StatusCode,
        about: &'static str,
    ) -> Self {
        Self { status, about, body: Some((PROBLEM_JSON, schemas.subschema_for::<T>())) }
    }
}
