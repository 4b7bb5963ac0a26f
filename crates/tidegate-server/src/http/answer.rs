//! What handlers return: a value that is a response, and says beforehand which.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use schemars::{JsonSchema, SchemaGenerator};
use serde::Serialize;

use super::{AnswerShape, json};

/// A response, and all that it can be.
pub(crate) trait Answer {
    fn into_response(self) -> Response;

    /// One for each status.
    fn shapes(schemas: &mut SchemaGenerator) -> Vec<AnswerShape>;
}

/// 200, with a value as JSON.
#[derive(Debug)]
pub(crate) struct Json<T>(pub(crate) T);

impl<T: Serialize + JsonSchema> Answer for Json<T> {
    fn into_response(self) -> Response {
        json(StatusCode::OK, &self.0)
    }

    fn shapes(schemas: &mut SchemaGenerator) -> Vec<AnswerShape> {
        vec![AnswerShape::json::<T>(schemas, StatusCode::OK, "done")]
    }
}

/// 201 of what was made, 200 of what was there.
#[derive(Debug)]
pub(crate) struct Made<T> {
    pub(crate) is_new: bool,
    pub(crate) value: T,
}

impl<T: Serialize + JsonSchema> Answer for Made<T> {
    fn into_response(self) -> Response {
        json(if self.is_new { StatusCode::CREATED } else { StatusCode::OK }, &self.value)
    }

    fn shapes(schemas: &mut SchemaGenerator) -> Vec<AnswerShape> {
        vec![
            AnswerShape::json::<T>(schemas, StatusCode::CREATED, "made"),
            AnswerShape::json::<T>(schemas, StatusCode::OK, "it was there"),
        ]
    }
}

/// An answer with the version of what it is about, as `ETag`.
#[derive(Debug)]
pub(crate) struct Tagged<A> {
    pub(crate) tag: HeaderValue,
    pub(crate) answer: A,
}

impl<A: Answer> Answer for Tagged<A> {
    fn into_response(self) -> Response {
        let mut response = self.answer.into_response();
        response.headers_mut().insert(header::ETAG, self.tag);
        response
    }

    fn shapes(schemas: &mut SchemaGenerator) -> Vec<AnswerShape> {
        A::shapes(schemas)
    }
}

/// 204: there is nothing to say.
#[derive(Debug)]
pub(crate) struct NoContent;

impl Answer for NoContent {
    fn into_response(self) -> Response {
        StatusCode::NO_CONTENT.into_response()
    }

    fn shapes(_: &mut SchemaGenerator) -> Vec<AnswerShape> {
        vec![AnswerShape { status: StatusCode::NO_CONTENT, about: "done", body: None }]
    }
}

/// 200, with text.
#[derive(Debug)]
pub(crate) struct Text(pub(crate) String);

impl Answer for Text {
    fn into_response(self) -> Response {
        self.0.into_response()
    }

    fn shapes(schemas: &mut SchemaGenerator) -> Vec<AnswerShape> {
        let body = Some(("text/plain", schemas.subschema_for::<String>()));
        vec![AnswerShape { status: StatusCode::OK, about: "text", body }]
    }
}

/// 200, with a page for people.
#[derive(Debug)]
pub(crate) struct Html(pub(crate) String);

impl Answer for Html {
    fn into_response(self) -> Response {
        let media_type = HeaderValue::from_static("text/html; charset=utf-8");
        ([(header::CONTENT_TYPE, media_type)], self.0).into_response()
    }

    fn shapes(schemas: &mut SchemaGenerator) -> Vec<AnswerShape> {
        let body = Some(("text/html", schemas.subschema_for::<String>()));
        vec![AnswerShape { status: StatusCode::OK, about: "a page", body }]
    }
}
