//! The truth on another server, over its HTTP API.

mod events;
mod lines;
mod link;

use std::time::Duration;

use axum::http::{Method, StatusCode};
use serde::Deserialize;
use serde_json::json;
use tidegate_edge::rule::Rule;
use tidegate_edge::stream::Mark;
use tidegate_edge::truth::{
    Ask, Counted, Fields, Grant, Granted, Position, Report, Resolution, Return, Returned, Seq,
};
use tidegate_edge::worker::Origin;
use tidegate_edge::{Error, ErrorKind, Result};

pub(crate) use self::events::RemoteChanges;
pub(crate) use self::lines::RemoteSnapshot;
use self::link::{Asked, Link};
use crate::address::Address;
use crate::address::encoded;
use crate::api::rule_worker::Block;
use crate::http::ProblemBody;

/// A server that has the rules.
#[derive(Debug, Clone)]
pub(crate) struct Remote(Link);

/// How long the first byte of an answer may take that is large.
const LONG: Duration = Duration::from_secs(60);

/// What is asked of `/v1/rules/resolve`.
#[derive(Deserialize)]
struct Resolved {
    rule: Option<Rule>,
    passed: Vec<Rule>,
    position: Position,
}

impl Remote {
    pub(crate) fn new(address: Address) -> Self {
        Self(Link::new(address))
    }

    /// An answer that is right, or why not.
    async fn ask(&self, asked: Asked) -> Result<Vec<u8>> {
        let (status, body) = self.0.whole(asked).await?;
        if status.is_success() { Ok(body) } else { Err(self.refused(status, &body)) }
    }

    /// Something else than was asked for.
    fn refused(&self, status: StatusCode, body: &[u8]) -> Error {
        let origin = self.0.address();
        let why = problem(body).map_or_else(String::new, |problem| format!(": {}", problem.detail));
        Error::new(ErrorKind::Unavailable, format!("{origin} answered {status}{why}"))
    }

    fn read<T: for<'a> Deserialize<'a>>(&self, body: &[u8]) -> Result<T> {
        serde_json::from_slice(body).map_err(|error| {
            let origin = self.0.address();
            Error::new(ErrorKind::Unavailable, format!("an answer of {origin} cannot be read: {error}"))
        })
    }
}

fn problem(body: &[u8]) -> Option<ProblemBody> {
    serde_json::from_slice(body).ok()
}

/// Whether a problem is of that kind.
fn is_problem(body: &[u8], name: &str) -> bool {
    problem(body).is_some_and(|problem| problem.r#type.rsplit(':').next() == Some(name))
}

impl Origin for Remote {
    type Changes = RemoteChanges;
    type Snapshot = RemoteSnapshot;

    async fn changes(&self, worker: &str, after: Option<&Mark>) -> Result<RemoteChanges> {
        let mut asked = Asked::get(format!("/v1/rules/changes?worker={}", encoded(worker)));
        asked.last_event_id = after.map(ToString::to_string);
        let (response, connected) = self.0.begin(asked, LONG).await?;
        match response.status() {
            StatusCode::OK => Ok(RemoteChanges::new(response.into_body(), connected)),
            status => Err(self.refused(status, &[])),
        }
    }

    async fn snapshot(&self, fields: Fields, from: Option<&Mark>) -> Result<RemoteSnapshot> {
        let fields = match fields {
            Fields::All => "all",
            Fields::Keys => "keys",
        };
        let from = from.map(|from| format!("&from={}", encoded(&from.to_string()))).unwrap_or_default();
        let mut asked = Asked::get(format!("/v1/rules/snapshot?fields={fields}{from}"));
        // Packing takes longer than sending, on one machine.
        asked.is_gzip = !self.0.is_near();
        let (response, connected) = self.0.begin(asked, LONG).await?;
        match response.status() {
            StatusCode::OK => Ok(RemoteSnapshot::new(response, connected)),
            status => Err(self.refused(status, &[])),
        }
    }

    async fn resolve(&self, host: &str, path: &str) -> Result<Resolution> {
        let query = format!("host={}&path={}", encoded(host), encoded(path));
        let body = self.ask(Asked::get(format!("/v1/rules/resolve?{query}"))).await?;
        let Resolved { rule, passed, position } = self.read(&body)?;
        Ok(Resolution::new(rule, passed, position))
    }

    async fn grant(&self, ask: Ask) -> Result<Granted> {
        let Ask { rule, worker, number, wanted } = ask;
        let path = format!("/v1/workers/{}/blocks/{number}", encoded(&worker));
        let asked = Asked::json(Method::PUT, path, &json!({"rule": rule, "wanted": wanted}));
        let (status, body) = self.0.whole(asked).await?;
        if status == StatusCode::NOT_FOUND && is_problem(&body, "rule-unknown") {
            return Ok(Granted { grant: Grant::Unknown, created_at: None });
        }
        if !status.is_success() {
            return Err(self.refused(status, &body));
        }
        let (grant, created_at) = match self.read(&body)? {
            Block::Granted { permits, life_ms, epoch, created_at } => {
                (Grant::Block { permits, life: Duration::from_millis(life_ms), epoch }, created_at)
            }
            Block::Wait { retry_after_ms, created_at } => {
                (Grant::Wait { retry_after: Duration::from_millis(retry_after_ms) }, created_at)
            }
            Block::Spent { created_at } => (Grant::Spent, created_at),
            Block::Unbounded => (Grant::Unbounded, None),
        };
        Ok(Granted { grant, created_at })
    }

    async fn give_back(&self, it: Return) -> Result<Returned> {
        let Return { worker, number, spent } = it;
        let path = format!("/v1/workers/{}/blocks/{number}/return", encoded(&worker));
        let (status, body) = self.0.whole(Asked::json(Method::POST, path, &json!({"spent": spent}))).await?;
        match status {
            status if status.is_success() => Ok(Returned::Counted),
            StatusCode::NOT_FOUND if is_problem(&body, "block-unknown") => Ok(Returned::Unknown),
            StatusCode::CONFLICT if is_problem(&body, "block-too-many") => Ok(Returned::TooMany),
            status => Err(self.refused(status, &body)),
        }
    }

    async fn report(&self, report: Report) -> Result<()> {
        let Report { worker, number, clicks } = report;
        let created_at = |it: &Counted| it.created_at.map(|at| (it.id.clone(), at.into()));
        let created_at: serde_json::Map<_, _> = clicks.iter().filter_map(created_at).collect();
        let clicks: serde_json::Map<_, _> = clicks.into_iter().map(|it| (it.id, it.clicks.into())).collect();
        let path = format!("/v1/workers/{}/clicks/{number}", encoded(&worker));
        let put = |body| Asked::json(Method::PUT, path.clone(), &body);
        let (status, body) = self.0.whole(put(json!({"clicks": clicks, "createdAt": created_at}))).await?;
        match status {
            status if status.is_success() => Ok(()),
            // A server from before there was `createdAt` refuses it, and counts by ids alone.
            StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY => {
                self.ask(put(json!({"clicks": clicks}))).await.map(drop)
            }
            status => Err(self.refused(status, &body)),
        }
    }

    async fn applied(&self, worker: &str, seq: Seq) -> Result<()> {
        let path = format!("/v1/workers/{}/applied", encoded(worker));
        self.ask(Asked::json(Method::PUT, path, &json!({"seq": seq.0}))).await.map(drop)
    }
}
