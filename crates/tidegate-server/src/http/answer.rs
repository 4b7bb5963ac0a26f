//! What handlers return: a value that is a response, and says beforehand which.

use std::marker::PhantomData;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use schemars::{JsonSchema, SchemaGenerator};
use serde::Serialize;

use super::{AnswerShape, json};

/// A response, and all that it can be.
pub(crate) trait Answer: Shapes {
    fn into_response(self) -> Response;
}

/// A response that is made already, and can be all that `S` can be.
pub(crate) struct Described<S>(Response, PhantomData<fn() -> S>);

/// All that a response can be.
pub(crate) trait Shapes {
    /// One for each status.
    fn shapes(schemas: &mut SchemaGenerator) -> Vec<AnswerShape>;
}

impl<S> Described<S> {
    pub(crate) fn new(response: Response) -> Self {
        Self(response, PhantomData)
    }
}

impl<S: Shapes> Answer for Described<S> {
    fn into_response(self) -> Response {
        self.0
    }
}

impl<S: Shapes> Shapes for Described<S> {
    fn shapes(schemas: &mut SchemaGenerator) -> Vec<AnswerShape> {
        S::shapes(schemas)
    }
}

/// 200, with a value as JSON.
#[derive(Debug)]
pub(crate) struct Json<T>(pub(crate) T);

impl<T: Serialize + JsonSchema> Answer for Json<T> {
    fn into_response(self) -> Response {
        json(StatusCode::OK, &self.0)
    }
}

impl<T: Serialize + JsonSchema> Shapes for Json<T> {
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
}

impl<T: Serialize + JsonSchema> Shapes for Made<T> {
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
}

impl<A: Answer> Shapes for Tagged<A> {
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
}

impl Shapes for NoContent {
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
}

impl Shapes for Text {
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
}

impl Shapes for Html {
    fn shapes(schemas: &mut SchemaGenerator) -> Vec<AnswerShape> {
        let body = Some(("text/html", schemas.subschema_for::<String>()));
        vec![AnswerShape { status: StatusCode::OK, about: "a page", body }]
    }
}
