//! Live: as if the edits of the file were made now, so many per second.

use std::time::{Duration, Instant};

use axum::http::Method;
use serde::Deserialize;
use serde_json::json;
use tidegate::clock::monotonic;
use tidegate::store::PartKind;

use super::super::ask::Asking;
use super::super::hot_args::ReplayArgs;
use super::super::hot_told::{Hottest, detail, read};
use super::super::request::{Asked, NDJSON, encoded};
use super::fields::Mapped;
use super::report::{Report, Row};
use super::{Refused, Sink};
use crate::outcomes::Outcomes;

/// A request has what is due within so much of a second, at most.
const REQUESTS_PER_SECOND: u32 = 10;

/// Edits of one request, at most.
const MAX_EDITS: u32 = 5000;

/// Whom edits are sent to, and what waits to be.
pub(super) struct Live {
    asking: Asking,
    path: String,
    top: u32,
    rate: u32,
    begun: Instant,
    sent: u64,
    body: Vec<u8>,
    waiting: u32,
}

/// What is answered to a request.
#[derive(Deserialize)]
struct Tally {
    bad: u64,
    outcomes: Outcomes,
}

impl Live {
    pub(super) async fn open(args: &ReplayArgs, rate: u32) -> Result<Self, String> {
        let asking = match &args.store {
            Some(url) => {
                Asking::store(&args.settings.sources_on(url), &[(PartKind::Hot, &args.space)]).await?
            }
            None => Asking::server(args.server.as_deref().unwrap_or("http://127.0.0.1:8080"))?,
        };
        let path = format!("/v1/hot/{}", encoded(&args.space));
        let begun = monotonic();
        Ok(Self { asking, path, top: args.top, rate, begun, sent: 0, body: Vec::new(), waiting: 0 })
    }

    async fn ask(&self, asked: Asked) -> Result<axum::body::Bytes, String> {
        let (status, answer) = self.asking.send(asked).await?;
        match status.is_success() {
            true => Ok(answer),
            false => Err(self.asking.failure(status, detail(&answer))),
        }
    }

    /// Sends what waits, when it is due.
    async fn send(&mut self, report: &mut Report) -> Result<(), String> {
        if self.waiting == 0 {
            return Ok(());
        }
        let due = self.begun + Duration::from_secs_f64(self.sent as f64 / f64::from(self.rate));
        tokio::time::sleep_until(due.into()).await;
        self.sent += u64::from(std::mem::take(&mut self.waiting));
        let body = Some(std::mem::take(&mut self.body));
        let path = format!("{}/edits", self.path);
        let asked = Asked { method: Method::POST, path, body, media_type: NDJSON };
        let tally: Tally = read(&self.ask(asked).await?)?;
        if tally.bad > 0 {
            return Err(format!(
                "{} edits were not understood: is that a server of this version?",
                tally.bad
            ));
        }
        report.outcomes.add(&tally.outcomes);
        Ok(())
    }
}

impl Sink for Live {
    async fn edit(&mut self, edit: Mapped, report: &mut Report) -> Result<(), Refused> {
        let Mapped { page, id, editor, byte_change, .. } = edit;
        let line = json!({"page": page, "id": id, "editor": editor, "byte_change": byte_change});
        self.body.extend_from_slice(line.to_string().as_bytes());
        self.body.push(b'\n');
        self.waiting += 1;
        if self.waiting >= (self.rate / REQUESTS_PER_SECOND).clamp(1, MAX_EDITS) {
            self.send(report).await.map_err(Refused::All)?;
        }
        Ok(())
    }

    async fn finish(&mut self, report: &mut Report) -> Result<(), String> {
        self.send(report).await?;
        let asked = Asked::get(format!("{}?limit={}", self.path, self.top));
        let hottest: Hottest = read(&self.ask(asked).await?)?;
        report.count = hottest.count;
        report.window_ms = hottest.window_ms;
        let rows = hottest.pages.into_iter();
        report.pages =
            rows.map(|it| Row { page: it.page, edits: it.edits, last_seen_ms: it.last_seen_ms }).collect();
        self.asking.close().await;
        Ok(())
    }
}
