//! Whom a command asks: a server, or a store, which is a server without a socket.

use std::io::Write as _;

use axum::body::{Body, Bytes};
use axum::http::{Response, StatusCode, header};
use http_body_util::BodyExt as _;
use tidegate::store::{Declaration, Declarations, Differences, PartKind};
use tower_service::Service as _;

use super::args::TargetArgs;
use super::client::{Begun, Server};
use super::request::Request;
use crate::http::{App, Reason, router};
use crate::settings::{Settings, Sources, group_of};

/// One of the two, for as many questions as there are.
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
    /// To ask about `parts`.
    pub(super) async fn open(target: &TargetArgs, parts: &[(PartKind, &str)]) -> Result<Self, String> {
        match target.direct() {
            Some(sources) => Self::store(&sources, parts).await,
            None => Self::server(&target.server),
        }
    }

    /// The same for questions that change nothing: to a store that is asked nothing is written,
    /// not even that somebody was there.
    pub(super) async fn open_read_only(
        args: &TargetArgs,
        parts: &[(PartKind, &str)],
    ) -> Result<Self, String> {
        match args.direct() {
            Some(sources) => Self::store_for(&sources, parts, true).await,
            None => Self::server(&args.server),
        }
    }

    pub(super) fn server(url: &str) -> Result<Self, String> {
        Server::parse(url).map(Self::Server)
    }

    /// A store, by its declarations: what is written down here goes before them.
    pub(super) async fn store(sources: &Sources, parts: &[(PartKind, &str)]) -> Result<Self, String> {
        Self::store_for(sources, parts, false).await
    }

    async fn store_for(
        sources: &Sources,
        parts: &[(PartKind, &str)],
        is_read_only: bool,
    ) -> Result<Self, String> {
        let mut settings = Settings::load(sources).map_err(|error| error.to_string())?;
        // One question is not worth a block of permits.
        settings.limits.iter_mut().for_each(|limit| limit.options.lease = None);
        // Whoever has a question changes nothing for the servers.
        settings.store.declarations = Declarations::ReadOnly;
        let gate = match is_read_only {
            true => settings.store.open_read_only().await,
            false => settings.store.open().await,
        };
        let gate = gate.map_err(|error| error.to_string())?;
        // Who asks a store wants its answer, not that of an outage policy.
        gate.store().check().map_err(|error| error.to_string())?;
        let is_shared = settings.store.url.scheme() != "memory";
        if is_shared {
            let declared = gate.declarations().await.map_err(|error| error.to_string())?;
            // What a later version declares and this one cannot read matters to who asks for it.
            let is_wanted = |it: &Declaration| {
                parts.iter().any(|(kind, name)| it.kind == *kind && kind.is_same(it.name.as_str(), name))
            };
            let (wanted, others): (Vec<_>, Vec<_>) = declared.into_iter().partition(is_wanted);
            let readable = others.into_iter().filter(Settings::can_read);
            let known: Vec<_> = wanted.into_iter().chain(readable).collect();
            settings.only_declared(&known).map_err(|error| error.to_string())?;
            settings.limits.iter_mut().for_each(|limit| limit.options.lease = None);
            for (kind, name) in parts {
                if !settings.has(*kind, name) {
                    return Err(undeclared(*kind, name));
                }
            }
        }
        if is_read_only {
            // What is open looks after itself in the background, and writes.
            let is_asked = |kind: PartKind, name: &str| {
                parts.iter().any(|(asked, other)| kind == *asked && kind.is_same(name, other))
            };
            settings.limits.retain(|it| is_asked(PartKind::Limit, it.name.as_str()));
            settings.hot.retain(|it| is_asked(PartKind::Hot, it.name.as_str()));
            settings.sessions.retain(|it| is_asked(PartKind::Sessions, it.name.as_str()));
        }
        let limits = settings.limits.iter().map(|limit| limit.open(&gate));
        let limits = limits.collect::<Result<Vec<_>, _>>().map_err(|error| error.to_string())?;
        let spaces = settings.hot.iter().map(|space| space.open(&gate));
        let spaces = spaces.collect::<Result<Vec<_>, _>>().map_err(|error| error.to_string())?;
        let app = App::new(gate, limits).with_hot(spaces).with_sessions(&settings.sessions);
        let app = app.map_err(|error| error.to_string())?;
        app.gate().declare().await.map_err(|error| error.to_string())?;
        for (part, declared) in app.gate().differing() {
            let differences = Differences { declared: &declared, own: &part.settings };
            let (kind, name) = (part.kind.as_str(), part.name.as_str());
            // Who asks may know: it is said, and done.
            let _ = writeln!(
                std::io::stderr(),
                "tidegate: {kind} {name} is declared with other settings than are asked by: {differences}"
            );
        }
        Ok(Self::Store(app))
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

    /// An answer that has no end.
    pub(super) async fn begin(&self, request: Request) -> Result<Stream, String> {
        match self {
            Self::Server(server) => Ok(Stream::Server(Box::new(server.begin(request).await?))),
            Self::Store(app) => Ok(Stream::Store(answer(app, request).await?)),
        }
    }

    /// What to say of an answer that is none.
    pub(super) fn failure(&self, status: StatusCode, detail: Option<String>) -> String {
        match (self, detail) {
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

/// Nobody has said what it is.
pub(super) fn undeclared(kind: PartKind, name: &str) -> String {
    let (what, example) = match kind {
        PartKind::Limit => ("limit", "rate=5/s"),
        PartKind::Hot => ("space of hot pages", "window_duration=1h"),
        _ => ("space of sessions", "grace=30s"),
    };
    let group = group_of(kind);
    format!(
        "the store declares no {what} {name:?}, and it is not written down here: a server that has it declares it; or \
         say what it is, by --config FILE or --set {group}.{name}.{example}"
    )
}

impl Stream {
    pub(super) fn status(&self) -> StatusCode {
        match self {
            Self::Server(begun) => begun.response.status(),
            Self::Store(response) => response.status(),
        }
    }

    /// What comes next; none at its end, be it a broken one.
    pub(super) async fn next(&mut self) -> Option<Bytes> {
        loop {
            let frame = match self {
                Self::Server(begun) => begun.response.body_mut().frame().await?.ok()?,
                Self::Store(response) => response.body_mut().frame().await?.ok()?,
            };
            if let Ok(data) = frame.into_data() {
                return Some(data);
            }
        }
    }
}

async fn answer(app: &App, request: Request) -> Result<Response<Body>, String> {
    let Request { method, path, body, media_type } = request;
    let body = Body::from(body.unwrap_or_default());
    let request =
        axum::http::Request::builder().method(method).uri(path).header(header::CONTENT_TYPE, media_type);
    let request = request.body(body).map_err(|error| error.to_string())?;
    // A router does not fail: it answers.
    let Ok(response) = router(app.clone()).call(request).await;
    Ok(response)
}
