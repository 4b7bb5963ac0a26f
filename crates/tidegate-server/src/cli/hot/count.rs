//! `tidegate hot count` without a page: each line of standard input is one of a page, sent as they come.

use std::process::ExitCode;

use super::HOT;
use crate::api::hot::{BadLine, Bulk};
use crate::api::hot_counts::Count;
use crate::cli::batches::Batches;
use crate::cli::{NDJSON, REFUSED, Request, SpaceArgs, Target, plural, print, printable, read};
use crate::parts::Access;

/// Bad lines that are explained.
const EXPLAINED: usize = 10;

pub(super) async fn lines(of: &SpaceArgs) -> Result<ExitCode, String> {
    let target = Target::of_space(HOT, of, Access::Write).await?;
    let mut all = Bulk::default();
    let sent = send_all(&target, &mut all).await;
    // What is gathered counts also if there is no going on.
    target.close().await;
    if sent.is_ok() || all.lines > 0 {
        print(&match of.target.json {
            true => serde_json::to_string(&all).map_err(|error| error.to_string())?,
            false => shown(&all),
        })?;
    }
    sent?;
    let refused = all.bad + all.outcomes.lost() + all.outcomes.rejected();
    Ok(if refused == 0 { ExitCode::SUCCESS } else { ExitCode::from(REFUSED) })
}

/// Sends all lines that can be read. Counts have no id: whoever sends the rest again has to know where that begins.
async fn send_all(target: &Target, all: &mut Bulk) -> Result<(), String> {
    let mut source = Batches::stdin(false);
    loop {
        let batch = source.next().await;
        let batch =
            batch.map_err(|why| format!("{why}: what is before it was sent, and nothing behind it"))?;
        let pages: Vec<&str> = batch.iter().map(|it| it.strip_suffix('\r').unwrap_or(it)).collect();
        // Without any it is still said whether there is such a space.
        if batch.is_empty() && all.lines > 0 {
            return Ok(());
        }
        let request = Request::post("/counts").body(NDJSON, body(&pages));
        let answer = match target.fetch(request).await {
            Ok(answer) => read(&answer),
            Err(why) => Err(why),
        };
        let more = answer.map_err(|why| match batch.len() {
            0 => why,
            some => format!(
                "{why}: {} were sent before, the next {some} may have been counted, and nothing behind them was sent",
                plural(all.lines, "line")
            ),
        })?;
        add(all, more);
        if batch.is_empty() {
            return Ok(());
        }
    }
}

/// A line for each of them, one more of its page.
fn body(pages: &[&str]) -> Vec<u8> {
    let mut body = Vec::new();
    for page in pages.iter().filter(|it| !it.is_empty()) {
        // Strings and numbers: there is nothing that JSON cannot write.
        body.extend_from_slice(
            &serde_json::to_vec(&Count { page: (*page).into(), count: None }).unwrap_or_default(),
        );
        body.push(b'\n');
    }
    body
}

/// What became of some more.
fn add(all: &mut Bulk, more: Bulk) {
    let left = EXPLAINED.saturating_sub(all.bad_lines.len());
    let bad = more.bad_lines.into_iter().take(left);
    all.bad_lines.extend(bad.map(|bad| BadLine { line: all.lines + bad.line, ..bad }));
    all.space = more.space;
    all.lines += more.lines;
    all.good += more.good;
    all.bad += more.bad;
    all.outcomes.add(&more.outcomes);
}

fn shown(all: &Bulk) -> String {
    let mut text = format!("{}: {}", plural(all.lines, "line"), all.outcomes);
    for bad in &all.bad_lines {
        text += &format!("\nline {}: {}", bad.line, printable(&bad.detail));
    }
    text
}
