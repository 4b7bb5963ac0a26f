//! `tidegate hot watch`: events as they happen. A server that goes away is waited for,
//! and nothing that happened meanwhile is missed while it is kept.

use std::process::ExitCode;
use std::time::Duration;

use serde::Deserialize;
use tidegate::store::PartKind;

use super::ask::{Asking, Stream};
use super::hot::{path_of, print};
use super::hot_args::Space;
use super::hot_told::{detail, moment, printable, read};
use super::request::{Asked, encoded};
use crate::lines::{Line, Lines};

/// Before asking again, as the server says in `retry`.
const PAUSE: Duration = Duration::from_secs(1);

/// No line of an event is longer.
const MAX_LINE_BYTES: usize = 64 * 1024;

#[derive(Deserialize)]
struct Happened {
    kind: String,
    page: String,
    edits: u64,
    at_ms: u64,
}

pub(super) async fn run(of: &Space, after: Option<&str>, count: Option<u64>) -> Result<ExitCode, String> {
    let asking = Asking::open(&of.target, &[(PartKind::Hot, &of.space)]).await?;
    let mut position = after.map(str::to_owned);
    let mut left = count.unwrap_or(u64::MAX);
    let mut is_first = true;
    while left > 0 {
        let after = position.as_ref().map(|it| format!("?after={}", encoded(it))).unwrap_or_default();
        let begun = asking.begin(Asked::get(format!("{}/events{after}", path_of(of)))).await;
        match begun {
            // One that is away now may be back later, but is not waited for at first.
            Ok(stream) if stream.status().is_server_error() && !is_first => {}
            Ok(stream) => follow(&asking, stream, of.target.json, &mut position, &mut left).await?,
            Err(error) if is_first => return Err(error),
            // It will be back.
            Err(_) => {}
        }
        is_first = false;
        if left > 0 {
            tokio::time::sleep(PAUSE).await;
        }
    }
    asking.close().await;
    Ok(ExitCode::SUCCESS)
}

/// Shows what comes until the stream ends, or enough has.
async fn follow(
    asking: &Asking,
    mut stream: Stream,
    json: bool,
    position: &mut Option<String>,
    left: &mut u64,
) -> Result<(), String> {
    let status = stream.status();
    if !status.is_success() {
        let answer = stream.next().await.unwrap_or_default();
        return Err(asking.failure(status, detail(&answer)));
    }
    let mut lines = Lines::new(MAX_LINE_BYTES);
    while let Some(piece) = stream.next().await {
        let mut rest = &piece[..];
        while let Some(line) = lines.next(&mut rest) {
            let Line::Whole(line) = line else { continue };
            let line = String::from_utf8_lossy(line);
            if let Some(id) = line.strip_prefix("id: ") {
                *position = Some(id.to_owned());
            } else if let Some(data) = line.strip_prefix("data: ") {
                print(&if json { data.to_owned() } else { told(data)? })?;
                *left -= 1;
                if *left == 0 {
                    return Ok(());
                }
            }
        }
    }
    Ok(())
}

fn told(data: &str) -> Result<String, String> {
    let Happened { kind, page, edits, at_ms } = read(data.as_bytes())?;
    Ok(format!("{}  {kind:<14}  {edits:>5}  {}", moment(at_ms), printable(&page)))
}
