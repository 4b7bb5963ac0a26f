//! `tidegate hot top`: the hottest pages, drawn anew until somebody has seen enough.

use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::time::Duration;

use console::{Term, style, truncate_str};
use tidegate::clock::{Clock, Timestamp};
use tidegate::store::PartKind;

use super::path_of;
use crate::api::Spaces;
use crate::api::hot::{Pages, Ranked, Space};
use crate::cli::args::SpaceArgs;
use crate::cli::render::{detail, print, printable, read};
use crate::cli::request::Request;
use crate::cli::screen::{Screen, draw, keys, unless_quit};
use crate::cli::target::Target;
use crate::parts::Access;

pub(super) async fn run(
    of: &SpaceArgs,
    once: bool,
    limit: u32,
    interval: Duration,
) -> Result<ExitCode, String> {
    let target = Target::open(&of.target, &[(PartKind::Hot, &of.space)], Access::Write).await?;
    let top = Top { target, path: path_of(of), limit };
    let is_seen = std::io::stdout().is_terminal() && std::io::stdin().is_terminal();
    let shown = match once || of.target.json || !is_seen {
        true => top.once(of.target.json).await,
        false => top.live(interval.max(Duration::from_millis(100))).await,
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
    async fn get(&self, path: String) -> Result<axum::body::Bytes, String> {
        let (status, answer) = self.target.send(Request::get(path)).await?;
        match status.is_success() {
            true => Ok(answer),
            false => Err(self.target.failure(status, detail(&answer))),
        }
    }

    async fn hottest(&self, limit: u32) -> Result<axum::body::Bytes, String> {
        self.get(format!("{}?limit={limit}&stats=true", self.path)).await
    }

    async fn once(&self, json: bool) -> Result<(), String> {
        let answer = self.hottest(self.limit).await?;
        if json {
            return print(&String::from_utf8_lossy(&answer));
        }
        let response: Pages = read(&answer)?;
        print(&table(&response, None, now(), usize::MAX).join("\n"))
    }

    async fn live(&self, interval: Duration) -> Result<(), String> {
        let spaces: Spaces<Space> = read(&self.get("/v1/hot".to_owned()).await?)?;
        let term = Term::stdout();
        let _screen = Screen::enter().map_err(|error| format!("cannot use the terminal: {error}"))?;
        let mut keys = keys();
        let mut ticks = tokio::time::interval(interval);
        loop {
            let Some(_) = unless_quit(&mut keys, ticks.tick()).await else { return Ok(()) };
            let (rows, columns) = term.size();
            let fits = u32::from(rows).saturating_sub(4).clamp(1, 100).min(self.limit);
            let Some(answer) = unless_quit(&mut keys, self.hottest(fits)).await else { return Ok(()) };
            let lines = match answer.and_then(|answer| read::<Pages>(&answer)) {
                Ok(response) => {
                    let most =
                        spaces.spaces.iter().find(|it| it.space == response.space).map(|it| it.max_tracked);
                    table(&response, most, now(), usize::from(columns))
                }
                // It may be back with the next.
                Err(error) => vec![printable(&error)],
            };
            draw(&lines).map_err(|error| format!("cannot draw: {error}"))?;
        }
    }
}

fn now() -> Timestamp {
    Clock::system().now()
}

/// A head and a line for each page, none wider than `width`.
fn table(response: &Pages, most: Option<usize>, now: Timestamp, width: usize) -> Vec<String> {
    let window = humantime::format_duration(Duration::from_millis(response.window_ms));
    let of = most.map(|most| format!(" of {most}")).unwrap_or_default();
    let keys = if most.is_some() { "   q quits" } else { "" };
    let mut lines = vec![
        format!("{}: {}{of} hot, edits of the last {window}{keys}", response.space, response.count),
        String::new(),
        style("edits  5 min  editors  latest           page").bold().to_string(),
    ];
    lines.extend(response.pages.iter().map(|page| row(page, now)));
    match width {
        usize::MAX => lines,
        width => lines.iter().map(|line| truncate_str(line, width, "…").into_owned()).collect(),
    }
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
