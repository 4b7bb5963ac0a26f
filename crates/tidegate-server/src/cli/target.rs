//! What a command talks to: a server, or a store, which is a server without a socket.

use std::io::Write as _;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{Response, StatusCode, header};
use http_body_util::BodyExt as _;
use tidegate::store::{Differences, PartKind};
use tower_service::Service as _;

use super::args::{SpaceArgs, TargetArgs};
use super::client::{Begun, Server};
use super::render::problem;
use super::request::{Request, tag};
use crate::http::{App, Reason, router};
use crate::parts::{Access, Parts};
use crate::settings::{Settings, Sources};

/// How long a command waits for an answer of its store at least. Nobody waits for the command but who has typed it:
/// rather late than never.
pub(in crate::cli) const STORE_DEADLINE: Duration = Duration::from_secs(10);

/// One of the two, for as many requests as there are.
pub(super) enum Target {
    Server(Server),
    Store(App),
}

/// An answer as it comes.
pub(super) enum Stream {
    Server(Box<Begun>),
    Store(Response<Body>),
}

impl Target {
    /// For requests about `parts`. Where they change nothing, nothing is written to a store, not
    /// even that somebody was there.
    pub(super) async fn open(
        args: &TargetArgs,
        parts: &[(PartKind, &str)],
        access: Access,
    ) -> Result<Self, String> {
        match args.direct() {
            Some(sources) => Self::store(&sources, parts, access).await,
            None => Self::server(&args.server),
        }
    }

    /// For requests about a space, which may change it.
    pub(super) async fn of_space(kind: PartKind, of: &SpaceArgs) -> Result<Self, String> {
        Self::open(&of.target, &[(kind, &of.space)], Access::Write).await
    }

    pub(super) fn server(url: &str) -> Result<Self, String> {
        Server::parse(url).map(Self::Server)
    }

    /// A store, by its declarations: what is written down here goes before them.
    pub(super) async fn store(
        sources: &Sources,
        parts: &[(PartKind, &str)],
        access: Access,
    ) -> Result<Self, String> {
        let mut settings = Settings::load(sources).map_err(|error| error.to_string())?;
        settings.store.options.deadline = settings.store.options.deadline.max(STORE_DEADLINE);
        let parts = Parts::for_requests(settings, parts, access).await?;
        for (part, declared) in parts.gate().differing() {
            let differences = Differences { declared: &declared, own: &part.settings };
            let (kind, name) = (part.kind.as_str(), part.name.as_str());
            // Whoever sends a request may know: it is said, and done.
            let _ = writeln!(
                std::io::stderr(),
                "tidegate: {kind} {name} is declared with other settings than are used here: {differences}"
            );
        }
        Ok(Self::Store(App::new(parts)))
    }

    /// The whole answer.
    pub(super) async fn send(&self, request: Request) -> Result<(StatusCode, Bytes), String> {
        match self {
            Self::Server(server) => server.send(request).await,
            Self::Store(app) => {
                let response = answer(app, request).await?;
                if let Some(Reason(reason)) = response.extensions().get() {
                    return Err(format!("the store cannot be used: {reason}"));
                }
                let status = response.status();
                let collected = response.into_body().collect().await.map_err(|error| error.to_string())?;
                Ok((status, collected.to_bytes()))
            }
        }
    }

    /// The same, unless it is a problem.
    pub(super) async fn fetch(&self, request: Request) -> Result<Bytes, String> {
        let (status, answer) = self.send(request).await?;
        if status.is_success() { Ok(answer) } else { Err(self.failure(status, &answer)) }
    }

    /// An answer that is read as it comes.
    pub(super) async fn begin(&self, request: Request) -> Result<Stream, String> {
        match self {
            Self::Server(server) => Ok(Stream::Server(Box::new(server.begin(request).await?))),
            Self::Store(app) => Ok(Stream::Store(answer(app, request).await?)),
        }
    }

    /// What to say of an answer that is none.
    pub(super) fn failure(&self, status: StatusCode, answer: &[u8]) -> String {
        match (self, problem(answer).map(|problem| problem.detail)) {
            (Self::Server(_), Some(detail)) => format!("{detail} ({status})"),
            (Self::Server(server), None) => {
                format!("{} answered {status}: is that a tidegate server?", server.as_str())
            }
            (Self::Store(_), detail) => detail.unwrap_or_else(|| status.to_string()),
        }
    }

    pub(super) async fn close(&self) {
        if let Self::Store(app) = self {
            app.gate().shutdown().await;
        }
    }
}

impl Stream {
    pub(super) fn status(&self) -> StatusCode {
        match self {
            Self::Server(begun) => begun.response.status(),
            Self::Store(response) => response.status(),
        }
    }

    /// A field of its head.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let headers = match self {
            Self::Server(begun) => begun.response.headers(),
            Self::Store(response) => response.headers(),
        };
        headers.get(name)?.to_str().ok()
    }

    /// What comes next; none at its end, be it a broken one.
    pub(super) async fn next(&mut self) -> Option<Bytes> {
        self.piece().await.ok()?
    }

    /// The same, with how it broke.
    pub(super) async fn piece(&mut self) -> Result<Option<Bytes>, String> {
        loop {
            let frame = match self {
                Self::Server(begun) => {
                    begun.response.body_mut().frame().await.transpose().map_err(|error| error.to_string())?
                }
                Self::Store(response) => {
                    response.body_mut().frame().await.transpose().map_err(|error| error.to_string())?
                }
            };
            let Some(frame) = frame else { return Ok(None) };
            if let Ok(data) = frame.into_data() {
                return Ok(Some(data));
            }
        }
    }
}

async fn answer(app: &App, request: Request) -> Result<Response<Body>, String> {
    let Request { method, path, body, media_type, if_match, timeout: _ } = request;
    let mut request =
        axum::http::Request::builder().method(method).uri(path).header(header::CONTENT_TYPE, media_type);
    if let Some(version) = if_match {
        request = request.header(header::IF_MATCH, tag(version));
    }
    let request = request.body(body).map_err(|error| error.to_string())?;
    // A router does not fail: it answers.
    let Ok(response) = router(app.clone()).call(request).await;
    Ok(response)
}
