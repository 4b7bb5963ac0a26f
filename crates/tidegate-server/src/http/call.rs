//! What every operation begins with: its path, its query and its body, read and checked.
//!
//! A handler takes a [`Call`]. So none forgets that a parameter which it does not know is an
//! error, or that a path may be badly encoded.

use std::marker::PhantomData;

use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, FromRequestParts as _, Path, Request};
use axum::http::HeaderMap;
use schemars::{JsonSchema, SchemaGenerator};
use serde::de::DeserializeOwned;

use super::{App, body};
use super::{BodyShape, FromQuery, NoQuery, Problem, Query, Result};
use crate::api::{RequestBody, pattern};

/// A request: what stands in its path, behind its `?`, and in its body.
#[derive(Debug)]
pub(crate) struct Call<P = NoPath, Q = NoQuery, B = NoBody> {
    pub(super) app: App,
    pub(super) path: P,
    pub(super) query: Q,
    pub(super) headers: HeaderMap,
    pub(super) body: B,
}

/// A request with a body of JSON.
pub(crate) type Sent<B, P = OfSpace> = Call<P, NoQuery, JsonBody<B>>;

/// The path of an operation that is at one address only.
#[derive(Debug, serde::Deserialize, JsonSchema)]
pub(crate) struct NoPath {}

/// The path of an operation on a space.
#[derive(Debug, serde::Deserialize, JsonSchema)]
pub(crate) struct OfSpace {
    #[schemars(extend("pattern" = pattern::NAME))]
    pub(super) space: String,
}

impl<P: DeserializeOwned + Send, Q: FromQuery, B: FromBody> Call<P, Q, B> {
    pub(super) async fn read(app: App, request: Request) -> Result<Self> {
        let (mut parts, sent) = request.into_parts();
        check_encoding(parts.uri.path())?;
        let Path(path) = Path::from_request_parts(&mut parts, &app).await.map_err(|rejection| {
            let why = rejection.body_text();
            Problem::invalid(format!("the path is not UTF-8 when percent-decoded: {why}"))
        })?;
        let query = Q::from_query(&Query::parse(parts.uri.query(), Q::PARAMETERS)?)?;
        let body = B::read(&parts.headers, sent, app.settings().max_body_bytes).await?;
        Ok(Self { app, path, query, headers: parts.headers, body })
    }
}

impl<P: DeserializeOwned + Send, Q: FromQuery + Send, B: FromBody + Send> FromRequest<App> for Call<P, Q, B> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self> {
        Self::read(app.clone(), request).await
    }
}

/// Refuses a path with a `%` that encodes nothing.
pub(super) fn check_encoding(path: &str) -> Result<()> {
    let bad = path.match_indices('%').find(|(at, _)| {
        let digits = path.as_bytes().get(at + 1..at + 3);
        !digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    });
    match bad {
        None => Ok(()),
        Some((at, _)) => {
            let shown: String = path[at..].chars().take(3).collect();
            let what = "is no percent-encoding: two hexadecimal digits follow a %, and % itself is %25";
            Err(Problem::invalid(format!("{shown:?} in the path {what}")))
        }
    }
}

/// A kind of body.
pub(crate) trait FromBody: Sized {
    /// Takes what was sent, at most `max_bytes` of it.
    fn read(headers: &HeaderMap, sent: Body, max_bytes: usize) -> impl Future<Output = Result<Self>> + Send;

    /// None if it is not read.
    fn shape(schemas: &mut SchemaGenerator) -> Option<BodyShape>;
}

/// The body of an operation that reads none.
#[derive(Debug)]
pub(crate) struct NoBody;

impl FromBody for NoBody {
    async fn read(_: &HeaderMap, _: Body, _: usize) -> Result<Self> {
        Ok(Self)
    }

    fn shape(_: &mut SchemaGenerator) -> Option<BodyShape> {
        None
    }
}

/// JSON, decoded and read to its end. It is parsed by the handler: what is wrong with the
/// path is reported first.
#[derive(Debug)]
pub(crate) struct JsonBody<T, const IS_REQUIRED: bool = true> {
    bytes: Bytes,
    of: PhantomData<fn() -> T>,
}

impl<T: RequestBody> JsonBody<T> {
    /// What it says.
    pub(super) fn parse(&self) -> Result<T::Read<'_>> {
        body::parse(&self.bytes)
    }
}

impl<T: RequestBody, const IS_REQUIRED: bool> FromBody for JsonBody<T, IS_REQUIRED> {
    async fn read(headers: &HeaderMap, sent: Body, max_bytes: usize) -> Result<Self> {
        let max_bytes = max_bytes.max(T::LEAST_BYTES);
        Ok(Self { bytes: body::read(headers, sent, max_bytes, T::TYPES).await?, of: PhantomData })
    }

    fn shape(schemas: &mut SchemaGenerator) -> Option<BodyShape> {
        let schema = schemas.subschema_for::<T>();
        Some(BodyShape { media_type: "application/json", schema, is_required: IS_REQUIRED })
    }
}

/// JSON that may be left out.
pub(crate) type OptionalBody<T> = JsonBody<T, false>;

impl<T: RequestBody> OptionalBody<T> {
    /// What it says, or what is meant without it.
    pub(super) fn parse<'a>(&'a self) -> Result<T::Read<'a>>
    where
        T::Read<'a>: Default,
    {
        if self.bytes.is_empty() { Ok(Default::default()) } else { body::parse(&self.bytes) }
    }
}

/// The body of an operation that needs none; but who sends one must be allowed to.
pub(crate) type EmptyBody = OptionalBody<crate::api::Empty>;
