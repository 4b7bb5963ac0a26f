//! Hot pages over HTTP, as a caller sees them.

use std::ops::RangeInclusive;

use axum::body::Body;
use axum::http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::json;
use tidegate::clock::{ManualClock, Timestamp};
use tidegate::hot::{Count, Edit, EditRef, HotOptions, HotPage, Recorded, Removed, Stats, WhenFull};
use tidegate::testkit::history::operations;
use tidegate::testkit::hot::{Face, Happened, KINDS, Kit, Many, START_MS, history};
use tidegate::{Result, hot_conformance, hot_counting_conformance};
use tidegate_server::http::router;
use tower_service::Service as _;

use super::{Fields, checked, encoded};
use crate::support::{Fixture, bulk, settings};

hot_conformance!(over_http, OverHttp);
hot_counting_conformance!(counts_over_http, OverHttp);

#[test]
fn the_http_api_agrees_with_the_model() {
    history::check(&OverHttp, operations() / 10);
}

struct OverHttp;

impl Kit for OverHttp {
    type Face = Client;

    async fn fresh(&self, options: HotOptions) -> Client {
        let when_full = match options.when_full {
            WhenFull::ReplaceColdest => "replace_coldest",
            _ => "reject",
        };
        let written = [
            format!("main.hot_threshold={}", options.hot_threshold),
            format!("main.promotion_threshold={}", options.promotion_threshold),
            format!("main.window_duration={}ms", options.window_duration.as_millis()),
            format!("main.max_tracked={}", options.max_tracked),
            format!("main.max_members_per_page={}", options.max_members_per_page),
            format!("main.count_slots={}", options.count_slots),
            format!("main.gather={}ms", options.gather.as_millis()),
            format!("main.when_full={when_full}"),
            format!("main.max_activity={}", options.max_activity),
            format!("main.spike_minimum={}", options.spike_minimum),
            format!("main.partitions={}", options.partitions),
        ];
        let settings = settings("hot", &written.each_ref().map(String::as_str));
        Client(Fixture::of("memory:", &settings, Timestamp::from_millis(START_MS)).await)
    }
}

struct Client(Fixture);

/// Server-sent events, and what was read of the next.
struct Events {
    body: Body,
    read: String,
}

fn edit_json(edit: &Edit<'_>) -> serde_json::Value {
    json!({"page": edit.page.as_str(), "id": edit.id, "editor": edit.editor, "byte_change": edit.byte_change,
        "at": edit.at.map(Timestamp::as_millis)})
}

fn path(page: &str) -> String {
    format!("/v1/hot/main/pages/{}", encoded(page))
}

impl Client {
    async fn get(&self, path: &str) -> Result<Fields> {
        checked(&self.0.get(path).await).map(|body| of_space(Fields::of(body)))
    }

    /// A list, and how many there are in all.
    async fn page(&self, after: Option<&HotPage>, limit: usize) -> Result<(Vec<HotPage>, u64)> {
        let place = |it: &HotPage| format!("{}:{}:{}", it.edits, it.last_seen.as_millis(), it.page);
        let query = after.map(|it| format!("&after={}", encoded(&place(it)))).unwrap_or_default();
        let mut body = self.get(&format!("/v1/hot/main?limit={limit}{query}")).await?;
        body.number("window_ms");
        let row = |mut row: Fields| {
            let last_seen = Timestamp::from_millis(row.number("last_seen_ms"));
            let page = HotPage::new(row.text("page"), row.number("edits"), last_seen);
            row.end();
            page
        };
        let pages: Vec<_> = body.list("pages").into_iter().map(row).collect();
        let next = pages.last().filter(|_| pages.len() == limit).map(place);
        assert_eq!(body.take("next"), json!(next));
        let count = body.number("count");
        body.end();
        Ok((pages, count))
    }
}

impl Client {
    /// A line each.
    async fn many(&self, path: &str, sent: Vec<serde_json::Value>) -> Result<Many> {
        let lines: String = sent.iter().map(|it| format!("{it}\n")).collect();
        let answer = bulk(&self.0.app, path, lines).await;
        let mut body = of_space(Fields::of(checked(&answer)?));
        assert_eq!((body.number("lines"), body.number("good")), (sent.len() as u64, sent.len() as u64));
        assert_eq!((body.number("bad"), body.take("bad_lines")), (0, json!([])));
        let outcomes = Fields::of(body.take("outcomes")).0;
        body.0.remove("hint");
        body.end();
        assert_eq!(outcomes.len(), 11, "{outcomes:?}");
        Ok(Many::Counts(outcomes.into_iter().map(|(name, count)| (name, count.as_u64().unwrap())).collect()))
    }
}

/// Every answer names its space.
fn of_space(mut body: Fields) -> Fields {
    assert_eq!(body.text("space"), "main");
    body
}

/// And its page, if it is of one.
fn of_page(mut body: Fields, page: &str) -> Fields {
    assert_eq!(body.text("page"), page);
    body
}

fn recorded(outcome: &str, replaced: Option<String>) -> Recorded {
    let all = [
        Recorded::Remembered,
        Recorded::Promoted { replaced: replaced.clone() },
        Recorded::Added,
        Recorded::Counted,
        Recorded::Rejected,
        Recorded::Duplicate,
        Recorded::TooLate,
    ];
    let found = all.into_iter().find(|it| it.as_str() == outcome).unwrap();
    assert!(replaced.is_none() || outcome == "promoted");
    found
}

/// What became of it, and nothing else is said.
fn outcome(mut body: Fields) -> Recorded {
    let replaced = body.0.remove("replaced").map(|page| page.as_str().unwrap().to_owned());
    let recorded = recorded(&body.text("outcome"), replaced);
    body.end();
    recorded
}

impl Face for Client {
    type Watch = Events;

    fn space(&self) -> &str {
        "main"
    }

    fn clock(&self) -> &ManualClock {
        &self.0.clock
    }

    async fn record(&self, edit: &Edit<'_>) -> Result<Recorded> {
        let body = checked(&self.0.post("/v1/hot/main/edits", &edit_json(edit).to_string()).await)?;
        let mut body = of_page(of_space(Fields::of(body)), edit.page.as_str());
        assert_eq!(body.text("id"), edit.id);
        Ok(outcome(body))
    }

    async fn record_many(&self, edits: &[Edit<'_>]) -> Result<Many> {
        self.many("/v1/hot/main/edits", edits.iter().map(edit_json).collect()).await
    }

    async fn count(&self, page: &str, count: u64) -> Result<Recorded> {
        // One is what is counted where nothing else is said.
        let body = match count {
            1 => json!({"page": page}),
            _ => json!({"page": page, "count": count}),
        };
        let body = checked(&self.0.post("/v1/hot/main/counts", &body.to_string()).await)?;
        let mut body = of_page(of_space(Fields::of(body)), page);
        assert_eq!(body.number("count"), count);
        Ok(outcome(body))
    }

    async fn count_many(&self, counts: &[Count<'_>]) -> Result<Many> {
        let line = |it: &Count<'_>| json!({"page": it.page.as_str(), "count": it.count});
        self.many("/v1/hot/main/counts", counts.iter().map(line).collect()).await
    }

    /// Nothing is gathered in this process.
    async fn flush(&self) -> Result<()> {
        Ok(())
    }

    async fn stats(&self, page: &str) -> Result<Stats> {
        let mut body = of_page(self.get(&path(page)).await?, page);
        let is_hot = body.flag("is_hot");
        let mut seen = |name: &str| {
            let at_ms = body.optional(name);
            assert_eq!(at_ms.is_some(), is_hot, "{name}");
            Timestamp::from_millis(at_ms.unwrap_or_default())
        };
        let (first_seen, last_seen) = (seen("first_seen_ms"), seen("last_seen_ms"));
        let stats = Stats {
            is_hot,
            is_trending: body.flag("is_trending"),
            is_spiking: body.flag("is_spiking"),
            edits_last_hour: body.number("edits_last_hour"),
            edits_last_5_minutes: body.number("edits_last_5_minutes"),
            covered_ms: body.number("covered_ms"),
            grain_ms: body.number("grain_ms"),
            unique_editors: body.number("unique_editors"),
            members: body.number("members"),
            last_byte_change: body.take("last_byte_change").as_i64().unwrap(),
            total_edits: body.number("total_edits"),
            first_seen,
            last_seen,
        };
        body.end();
        Ok(stats)
    }

    async fn is_hot(&self, _page: &str) -> Result<Option<bool>> {
        Ok(None)
    }

    async fn remove(&self, page: &str) -> Result<Removed> {
        let mut body = of_page(of_space(Fields::of(checked(&self.0.delete(&path(page)).await)?)), page);
        let was = body.text("was");
        body.end();
        let all = [Removed::Hot, Removed::Remembered, Removed::Unknown];
        Ok(all.into_iter().find(|it| it.as_str() == was).unwrap())
    }

    async fn window(&self, page: &str, range: RangeInclusive<Timestamp>) -> Result<Vec<EditRef>> {
        let (from, to) = (range.start().as_millis(), range.end().as_millis());
        let window = async |to: u64| self.0.get(&format!("{}/window?from={from}&to={to}", path(page))).await;
        let answer = window(to).await;
        if from > to {
            // Whoever requests that has made a mistake. The library answers that there is nothing in
            // it, and has looked at the clock.
            assert_eq!((answer.status, window(from).await.status), (StatusCode::BAD_REQUEST, StatusCode::OK));
            return Ok(Vec::new());
        }
        let mut body = of_page(of_space(Fields::of(checked(&answer)?)), page);
        let row = |mut row: Fields| {
            let edit = EditRef {
                id: row.text("id"),
                at: Timestamp::from_millis(row.number("at_ms")),
                editor: row.text("editor"),
                byte_change: row.take("byte_change").as_i64().unwrap(),
            };
            row.end();
            edit
        };
        let edits = body.list("edits").into_iter().map(row).collect();
        body.end();
        Ok(edits)
    }

    async fn list_after(&self, after: Option<&HotPage>, limit: usize) -> Result<Vec<HotPage>> {
        // More are not listed at once.
        Ok(self.page(after, limit.min(1000)).await?.0)
    }

    async fn tracked(&self) -> Result<u64> {
        Ok(self.page(None, 0).await?.1)
    }

    async fn cleanup(&self) -> Result<u64> {
        let mut body = of_space(Fields::of(checked(&self.0.post("/v1/hot/main/cleanup", "").await)?));
        let expired = body.number("expired");
        body.end();
        Ok(expired)
    }

    async fn watch(&self) -> Result<Events> {
        let request = Request::get("/v1/hot/main/events?after=0-0").body(Body::empty()).unwrap();
        let response = router(self.0.app.clone()).call(request).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        Ok(Events { body: response.into_body(), read: String::new() })
    }

    async fn next(&self, events: &mut Events) -> Result<Happened> {
        loop {
            if let Some((message, rest)) = events.read.split_once("\n\n") {
                let data = message.lines().find_map(|line| line.strip_prefix("data: ")).map(str::to_owned);
                events.read = rest.to_owned();
                let Some(data) = data else { continue };
                let mut event = of_space(Fields::of(serde_json::from_str(&data).unwrap()));
                let kind = event.text("kind");
                let kind = KINDS.into_iter().find(|it| it.as_str() == kind).unwrap();
                event.text("cursor");
                let happened = (kind, event.text("page"), event.number("edits"), event.number("at_ms"));
                event.end();
                return Ok(happened);
            }
            let frame = events.body.frame().await.expect("events without an end").unwrap();
            let data = frame.into_data().expect("data");
            events.read += std::str::from_utf8(&data).unwrap();
        }
    }

    async fn metrics(&self) -> String {
        self.0.get("/metrics").await.body
    }
}
