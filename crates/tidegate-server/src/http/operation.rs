//! One operation of the HTTP API: all that is known of it, in one row.
//!
//! The router, `GET /`, the labels of metrics, how long a request may take, the OpenAPI
//! description and its page are made from these rows. What an operation reads and answers
//! is known by the types of its handler, so that the description cannot differ from them.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::http::Method;
use axum::response::{IntoResponse as _, Response};
use prometheus_client::metrics::histogram::Histogram;
use schemars::{JsonSchema, SchemaGenerator};
use serde::de::DeserializeOwned;
use tidegate::clock::monotonic;

use super::metrics::Timed;
use super::shape::Shape;
use super::{Answer, App, Call, FromBody, FromQuery, Kind, Parameter, Result};

/// The routes of a part.
pub(super) struct Routes {
    /// What the part is called.
    pub(super) part: &'static str,
    pub(super) operations: fn() -> Vec<Operation>,
    /// No router matches an empty name: adds what deserves a better answer than 404.
    pub(super) empty_names: fn(Router<App>) -> Router<App>,
    /// What any of its operations may be refused with.
    pub(super) problems: &'static [Kind],
}

/// What who uses the store may be refused with.
pub(super) const ON_STORE: &[Kind] = &[Kind::CORRUPT, Kind::INTERNAL, Kind::UNAVAILABLE];

/// What operations belong to that are of no part.
pub(super) const SERVER: &str = "server";

/// What who calls an operation must be allowed to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    Read,
    Write,
    Admin,
}

impl Scope {
    /// What it is called.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Admin => "admin",
        }
    }
}

/// How long a request may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TimeClass {
    /// `http.request_timeout`.
    Ordinary,
    /// `http.bulk_timeout`, which its handler looks after.
    Bulk,
    /// Its answer begins within `http.bulk_timeout`.
    Long,
    /// Its answer begins in ordinary time and has no end.
    Endless,
}

/// A row.
pub(crate) struct Operation {
    pub(crate) method: Method,
    pub(crate) path: &'static str,
    /// Its `operationId`, and its label in metrics.
    pub(crate) name: &'static str,
    pub(crate) part: &'static str,
    pub(crate) scope: Scope,
    pub(crate) time_class: TimeClass,
    pub(crate) summary: &'static str,
    /// A body or a query, as people write it.
    pub(crate) example: &'static str,
    /// What it may be refused with, beside what every operation may be; that there is no such
    /// limit or space is known by its path.
    pub(crate) problems: &'static [Kind],
    /// Fields of its head that change what it does.
    pub(crate) headers: &'static [Parameter],
    /// What it reads and answers.
    pub(crate) shape: fn(&mut SchemaGenerator) -> Shape,
    serve: Serve,
}

/// What answers a request, with the histogram that its time goes to.
pub(super) type Serve = Arc<dyn Fn(App, Request, Histogram, TimeClass) -> Served + Send + Sync>;

type Served = Pin<Box<dyn Future<Output = Response> + Send>>;

/// An async function of a [`Call`], by the types of what it reads and answers.
pub(super) trait Handler<Types> {
    fn shape(schemas: &mut SchemaGenerator) -> Shape;

    fn serve(self) -> Serve;
}

impl<P, Q, B, A, F, Fut> Handler<(P, Q, B, A)> for F
where
    P: DeserializeOwned + JsonSchema + Send + Sync + 'static,
    Q: FromQuery + Send + Sync + 'static,
    B: FromBody + Send + 'static,
    A: Answer + Send + 'static,
    F: Fn(Call<P, Q, B>) -> Fut + Copy + Send + Sync + 'static,
    Fut: Future<Output = Result<A>> + Send + 'static,
{
    fn shape(schemas: &mut SchemaGenerator) -> Shape {
        Shape {
            path: P::json_schema(schemas),
            query: Q::PARAMETERS,
            body: B::shape(schemas),
            answers: A::shapes(schemas),
        }
    }

    fn serve(self) -> Serve {
        Arc::new(move |app, request, seconds, time_class| {
            Box::pin(async move {
                let since = monotonic();
                let http = app.settings();
                let timeout =
                    if time_class == TimeClass::Long { http.bulk_timeout } else { http.request_timeout };
                let answer = async move {
                    let call = Call::read(app, request).await?;
                    let _timed = Timed { since, seconds: &seconds };
                    self(call).await.map(Answer::into_response)
                };
                let answered = match time_class {
                    TimeClass::Bulk => answer.await,
                    TimeClass::Ordinary | TimeClass::Long | TimeClass::Endless => {
                        super::in_time(timeout, answer).await.unwrap_or_else(Err)
                    }
                };
                answered.unwrap_or_else(|problem| problem.into_response())
            })
        })
    }
}

pub(super) fn get<T>(path: &'static str, name: &'static str, handler: impl Handler<T>) -> Operation {
    Operation::new(Method::GET, path, name, handler)
}

pub(super) fn put<T>(path: &'static str, name: &'static str, handler: impl Handler<T>) -> Operation {
    Operation::new(Method::PUT, path, name, handler)
}

pub(super) fn patch<T>(path: &'static str, name: &'static str, handler: impl Handler<T>) -> Operation {
    Operation::new(Method::PATCH, path, name, handler)
}

pub(super) fn post<T>(path: &'static str, name: &'static str, handler: impl Handler<T>) -> Operation {
    Operation::new(Method::POST, path, name, handler)
}

pub(super) fn delete<T>(path: &'static str, name: &'static str, handler: impl Handler<T>) -> Operation {
    Operation::new(Method::DELETE, path, name, handler)
}

impl Operation {
    fn new<T, H: Handler<T>>(method: Method, path: &'static str, name: &'static str, handler: H) -> Self {
        let scope = if method == Method::GET { Scope::Read } else { Scope::Write };
        Self {
            method,
            path,
            name,
            part: SERVER,
            scope,
            time_class: TimeClass::Ordinary,
            summary: "",
            example: "",
            problems: &[],
            headers: &[],
            shape: H::shape,
            serve: handler.serve(),
        }
    }

    pub(super) fn of(self, part: &'static str) -> Self {
        Self { part, ..self }
    }

    pub(super) fn summary(self, summary: &'static str) -> Self {
        Self { summary, ..self }
    }

    pub(super) fn example(self, example: &'static str) -> Self {
        Self { example, ..self }
    }

    pub(super) fn refuses(self, problems: &'static [Kind]) -> Self {
        Self { problems, ..self }
    }

    pub(super) fn headers(self, headers: &'static [Parameter]) -> Self {
        Self { headers, ..self }
    }

    /// For those who look after the server only.
    pub(super) fn admin(self) -> Self {
        Self { scope: Scope::Admin, ..self }
    }

    pub(super) fn takes(self, time_class: TimeClass) -> Self {
        Self { time_class, ..self }
    }

    /// The same address without a subject, if there is one.
    pub(crate) fn path_of_everyone(&self) -> Option<String> {
        self.path.contains(KEY).then(|| self.path.replacen(KEY, "/everyone", 1))
    }

    /// Answers a request.
    pub(super) fn serve(&self) -> Serve {
        self.serve.clone()
    }
}

/// The subject in a path; what has none is under `/everyone`.
const KEY: &str = "/keys/{key}";
