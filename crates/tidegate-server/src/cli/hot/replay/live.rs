//! Live: as if the edits of the file were made now, so many per second.

use std::time::{Duration, Instant};

use tidegate::clock::monotonic;
use tidegate::store::PartKind;

use super::fields::Mapped;
use super::report::Report;
use super::{Refused, Sink};
use crate::api::Spaces;
use crate::api::hot::{Bulk, Edit, Pages, Space};
use crate::api::hot_counts::Count;
use crate::cli::hot::args::ReplayArgs;
use crate::cli::{NDJSON, Request, Target, encoded, read};
use crate::parts::Access;

/// A request has what is due within so much of a second, at most.
const REQUESTS_PER_SECOND: u32 = 10;

/// Edits of one request, at most.
const MAX_EDITS: u32 = 5000;

/// Whom edits are sent to, and what waits to be.
pub(super) struct Live {
    target: Target,
    path: String,
    /// Whether each line is one more of its page, and no edit.
    only_counts: bool,
    space: String,
    /// For how long they are gathered before they count.
    gather: Duration,
    top: u32,
    rate: u32,
    begun: Instant,
    sent: u64,
    body: Vec<u8>,
    waiting: u32,
}

impl Live {
    pub(super) async fn open(args: &ReplayArgs, rate: u32) -> Result<Self, String> {
        let target = match &args.store {
            Some(url) => {
                let sources = args.settings.sources_on(url);
                Target::store(&sources, &[(PartKind::Hot, &args.space)], Access::Write).await?
            }
            None => Target::server(args.server.as_deref().unwrap_or("http://127.0.0.1:8080"))?,
        };
        let path = format!("/v1/hot/{}", encoded(&args.space));
        let spaces: Spaces<Space> = read(&target.fetch(Request::get("/v1/hot".to_owned())).await?)?;
        let its = spaces.spaces.iter().find(|it| it.space == args.space);
        Ok(Self {
            target,
            path,
            only_counts: its.is_some_and(|it| it.only_counts),
            space: args.space.clone(),
            gather: Duration::from_millis(its.map_or(0, |it| it.gather_ms)),
            top: args.top,
            rate,
            begun: monotonic(),
            sent: 0,
            body: Vec::new(),
            waiting: 0,
        })
    }

    /// Sends what waits, when it is due.
    async fn send(&mut self, report: &mut Report) -> Result<(), String> {
        if self.waiting == 0 {
            return Ok(());
        }
        let due = self.begun + Duration::from_secs_f64(self.sent as f64 / f64::from(self.rate));
        tokio::time::sleep_until(due.into()).await;
        self.sent += u64::from(std::mem::take(&mut self.waiting));
        let body = std::mem::take(&mut self.body);
        let what = if self.only_counts { "counts" } else { "edits" };
        let request = Request::post(format!("{}/{what}", self.path)).body(NDJSON, body);
        let tally: Bulk = read(&self.target.fetch(request).await?)?;
        if tally.bad > 0 {
            return Err(format!(
                "{} {what} were not understood: is that a server of this version?",
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
        let line = match self.only_counts {
            true => serde_json::to_vec(&Count { page: page.into(), count: None }),
            false => serde_json::to_vec(&Edit {
                page: page.into(),
                id: id.into(),
                editor: Some(editor.into()),
                byte_change: Some(byte_change),
                at: None,
            }),
        };
        // Strings and numbers: there is nothing that JSON cannot write.
        self.body.extend_from_slice(&line.unwrap_or_default());
        self.body.push(b'\n');
        self.waiting += 1;
        if self.waiting >= (self.rate / REQUESTS_PER_SECOND).clamp(1, MAX_EDITS) {
            self.send(report).await.map_err(Refused::All)?;
        }
        Ok(())
    }

    async fn finish(&mut self, report: &mut Report) -> Result<(), String> {
        self.send(report).await?;
        if !self.gather.is_zero() {
            self.target.flush_counts(&self.space, self.gather).await?;
        }
        let request = Request::get(self.path.as_str()).with("limit", Some(self.top));
        let hottest: Pages = read(&self.target.fetch(request).await?)?;
        report.count = hottest.count;
        report.window_ms = hottest.window_ms;
        report.pages = hottest.pages;
        self.target.close().await;
        Ok(())
    }
}
