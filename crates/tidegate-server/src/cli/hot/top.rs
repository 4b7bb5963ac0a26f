//! `tidegate hot top`: the hottest pages, drawn anew until somebody has seen enough.

use std::process::ExitCode;
use std::time::Duration;

use console::style;
use tidegate::clock::{Clock, Timestamp};

use super::HOT;
use crate::api::Spaces;
use crate::api::hot::{Pages, Ranked, Space};
use crate::cli::screen;
use crate::cli::{Request, SpaceArgs, Target, print, printable, read};
use crate::parts::Access;

pub(super) async fn run(
    of: &SpaceArgs,
    once: bool,
    limit: u32,
    interval: Duration,
) -> Result<ExitCode, String> {
    let target = Target::open(&of.target, &[(HOT, &of.space)], Access::Write).await?;
    let top = Top { target, path: of.path(HOT), limit };
    let shown = match once || of.target.json || !screen::is_seen() {
        true => top.once(of.target.json).await,
        false => top.live(interval).await,
    };
    top.target.close().await;
    shown.map(|()| ExitCode::SUCCESS)
}

struct Top {
    target: Target,
    path: String,
    limit: u32,
}

impl Top {
    async fn hottest(&self, limit: u32) -> Result<axum::body::Bytes, String> {
        let request = Request::get(self.path.as_str()).with("limit", Some(limit)).with("stats", Some(true));
        self.target.fetch(request).await
    }

    async fn once(&self, json: bool) -> Result<(), String> {
        let answer = self.hottest(self.limit).await?;
        if json {
            return print(&String::from_utf8_lossy(&answer));
        }
        let response: Pages = read(&answer)?;
        print(&table(&response, None).join("\n"))
    }

    async fn live(&self, interval: Duration) -> Result<(), String> {
        let spaces: Spaces<Space> = read(&self.target.fetch(Request::get("/v1/hot")).await?)?;
        screen::live(interval, async |rows| {
            let fits = u32::from(rows).saturating_sub(4).clamp(1, 100).min(self.limit);
            let hottest = self.hottest(fits).await.and_then(|answer| read::<Pages>(&answer));
            Some(hottest.map(|response| {
                let space = spaces.spaces.iter().find(|it| it.space == response.space);
                table(&response, space.map(|it| it.max_tracked))
            }))
        })
        .await
    }
}

/// A head and a line for each page.
fn table(response: &Pages, most: Option<usize>) -> Vec<String> {
    let window = humantime::format_duration(Duration::from_millis(response.window_ms));
    let of = most.map(|most| format!(" of {most}")).unwrap_or_default();
    let keys = if most.is_some() { "   q quits" } else { "" };
    let mut lines = vec![
        format!("{}: {}{of} hot, edits of the last {window}{keys}", response.space, response.count),
        String::new(),
        style("edits  5 min  editors  latest           page").bold().to_string(),
    ];
    let now = Clock::system().now();
    lines.extend(response.pages.iter().map(|page| row(page, now)));
    lines
}

fn row(it: &Ranked, now: Timestamp) -> String {
    let (lately, editors, is_trending, is_spiking) = match &it.stats {
        Some(stats) => {
            (stats.edits_last_5_minutes, stats.unique_editors, stats.is_trending, stats.is_spiking)
        }
        None => (0, 0, false, false),
    };
    let mark = match (is_spiking, is_trending) {
        (true, _) => style(" spiking ").red().to_string(),
        (_, true) => style("trending ").yellow().to_string(),
        _ => "         ".to_owned(),
    };
    let ago_s = now.as_millis().saturating_sub(it.last_seen_ms) / 1000;
    let ago = humantime::format_duration(Duration::from_secs(ago_s)).to_string();
    // The two largest units are enough.
    let ago: Vec<_> = ago.split(' ').take(2).collect();
    let ago = format!("{} ago", ago.join(" "));
    format!("{:>5}  {lately:>5}  {editors:>7}  {ago:<15}  {mark}{}", it.edits, printable(&it.page))
}
