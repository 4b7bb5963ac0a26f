//! What a command talks to: a server, or a store, which is a server without a socket.

use std::io::Write as _;
use std::time::Duration;

use axum::body::Bytes;
use axum::http::StatusCode;
use tidegate::store::{Differences, PartKind};

use super::args::{SpaceArgs, TargetArgs};
use super::client::{Server, Stream};
use super::message;
use super::render::problem;
use super::request::Request;
use crate::http::App;
use crate::parts::{Access, Parts};
use crate::settings::{Settings, Sources};

/// How long a command waits for an answer of its store at least. Nobody waits for the command but who has typed it:
/// rather late than never.
pub(in crate::cli) const STORE_DEADLINE: Duration = Duration::from_secs(10);

/// How long a server may take to send what it has gathered.
const SENDING: Duration = Duration::from_millis(500);

/// One of the two, for as many requests as there are.
pub(super) struct Target {
    asked: Asked,
    /// In front of the path of every request.
    path: String,
}

enum Asked {
    Server(Server),
    Store(App),
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

    /// For requests about a space, whose paths are below it.
    pub(super) async fn of_space(kind: PartKind, of: &SpaceArgs, access: Access) -> Result<Self, String> {
        let target = Self::open(&of.target, &[(kind, &of.space)], access).await?;
        Ok(Self { path: of.path(kind), ..target })
    }

    pub(super) fn server(url: &str) -> Result<Self, String> {
        Ok(Self { asked: Asked::Server(Server::parse(url)?), path: String::new() })
    }

    /// What is open already.
    pub(super) fn of(app: App) -> Self {
        Self { asked: Asked::Store(app), path: String::new() }
    }

    /// A store, by its declarations: what is written down here goes before them.
    pub(super) async fn store(
        sources: &Sources,
        parts: &[(PartKind, &str)],
        access: Access,
    ) -> Result<Self, String> {
        let mut settings = Settings::load(sources).map_err(message)?;
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
        Ok(Self::of(App::new(parts)))
    }

    /// The whole answer.
    pub(super) async fn send(&self, request: Request) -> Result<(StatusCode, Bytes), String> {
        self.answer(request, Stream::whole).await
    }

    /// The same, unless it is a problem.
    pub(super) async fn fetch(&self, request: Request) -> Result<Bytes, String> {
        let (status, answer) = self.send(request).await?;
        if status.is_success() { Ok(answer) } else { Err(self.failure(status, &answer)) }
    }

    /// An answer that is read as it comes.
    pub(super) async fn begin(&self, request: Request) -> Result<Stream, String> {
        self.answer(request, async |stream| Ok(stream)).await
    }

    async fn answer<T>(
        &self,
        mut request: Request,
        read: impl AsyncFnOnce(Stream) -> Result<T, String>,
    ) -> Result<T, String> {
        request.path.insert_str(0, &self.path);
        match &self.asked {
            Asked::Server(server) => server.answer(request, read).await,
            Asked::Store(app) => read(Stream::of(app, request).await?).await,
        }
    }

    /// What to say of an answer that is none.
    pub(super) fn failure(&self, status: StatusCode, answer: &[u8]) -> String {
        match (&self.asked, problem(answer).map(|problem| problem.detail)) {
            (Asked::Server(_), Some(detail)) => format!("{detail} ({status})"),
            (Asked::Server(server), None) => {
                format!("{} answered {status}: is that a tidegate server?", server.as_str())
            }
            (Asked::Store(_), detail) => detail.unwrap_or_else(|| status.to_string()),
        }
    }

    /// Waits until what a space of hot pages has gathered is in its store.
    pub(super) async fn flush_counts(&self, space: &str, gather: Duration) -> Result<(), String> {
        match &self.asked {
            // It sends them by itself, and that takes a moment.
            Asked::Server(_) => tokio::time::sleep(gather + SENDING).await,
            Asked::Store(app) => {
                // It has just been asked: a space that cannot be opened has said so.
                if let Ok(hot) = app.parts().hot.get(space) {
                    hot.flush().await.map_err(message)?;
                }
            }
        }
        Ok(())
    }

    pub(super) async fn close(&self) {
        if let Asked::Store(app) = &self.asked {
            app.gate().shutdown().await;
        }
    }
}
