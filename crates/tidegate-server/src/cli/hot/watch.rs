//! `tidegate hot watch`: events as they happen. A server that goes away is waited for,
//! and nothing that happened meanwhile is missed while it is kept.

use std::process::ExitCode;
use std::time::Duration;

use super::HOT;
use crate::api::hot::Event;
use crate::cli::{Request, SpaceArgs, Stream, Target, moment, print, printable, read};
use crate::lines::{Line, Lines};
use crate::parts::Access;

/// Before the next request, as the server says in `retry`.
const PAUSE: Duration = Duration::from_secs(1);

/// No line of an event is longer.
const MAX_LINE_BYTES: usize = 64 * 1024;

pub(super) async fn run(of: &SpaceArgs, after: Option<&str>, count: Option<u64>) -> Result<ExitCode, String> {
    let target = Target::of_space(HOT, of, Access::Write).await?;
    let mut position = after.map(str::to_owned);
    let mut left = count.unwrap_or(u64::MAX);
    let mut is_first = true;
    while left > 0 {
        match target.begin(Request::get("/events").with("after", position.as_ref())).await {
            // One that is away now may be back later, but is not waited for at first.
            Ok(stream) if stream.status().is_server_error() && !is_first => {}
            Ok(stream) => follow(&target, stream, of.target.json, &mut position, &mut left).await?,
            Err(error) if is_first => return Err(error),
            // It will be back.
            Err(_) => {}
        }
        is_first = false;
        if left > 0 {
            tokio::time::sleep(PAUSE).await;
        }
    }
    target.close().await;
    Ok(ExitCode::SUCCESS)
}

/// Shows what comes until the stream ends, or enough has.
async fn follow(
    target: &Target,
    mut stream: Stream,
    json: bool,
    position: &mut Option<String>,
    left: &mut u64,
) -> Result<(), String> {
    let status = stream.status();
    if !status.is_success() {
        let answer = stream.next().await.unwrap_or_default();
        return Err(target.failure(status, &answer));
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
                print(&if json { data.to_owned() } else { shown(data)? })?;
                *left -= 1;
                if *left == 0 {
                    return Ok(());
                }
            }
        }
    }
    Ok(())
}

fn shown(data: &str) -> Result<String, String> {
    let Event { kind, page, edits, at_ms, .. } = read(data.as_bytes())?;
    Ok(format!("{}  {kind:<14}  {edits:>5}  {}", moment(at_ms), printable(&page)))
}
