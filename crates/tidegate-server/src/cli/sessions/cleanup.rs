//! `tidegate sessions cleanup`: once, or as soon as a hold is over.

use std::io::{IsTerminal as _, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use tidegate::clock::monotonic;

use super::SESSIONS;
use crate::api::session_reap::Cleaned;
use crate::cli::{REFUSED, Request, SpaceArgs, Target, message, moment, plural, print, read, time};
use crate::parts::Access;

/// What two cleanups did, one after the other.
fn together(before: &Cleaned, after: Cleaned) -> Cleaned {
    Cleaned {
        deleted: after.deleted + before.deleted,
        lapsed: after.lapsed + before.lapsed,
        buried: after.buried + before.buried,
        missing: after.missing + before.missing,
        invalid: after.invalid + before.invalid,
        lag_ms: after.lag_ms.max(before.lag_ms),
        ..after
    }
}

fn text(cleaned: &Cleaned, deleted: &str) -> String {
    let mut text = format!("{} {deleted}", plural(cleaned.deleted, "session"));
    for (count, what) in [
        (cleaned.lapsed, "found silent"),
        (cleaned.buried, "put aside as dead"),
        (cleaned.missing + cleaned.invalid, "dropped from the index"),
    ] {
        if count > 0 {
            text += &format!(", {count} {what}");
        }
    }
    if let Some(at_ms) = cleaned.held.held_until_ms {
        text += &format!("; a hold runs until {}", moment(at_ms));
    }
    text
}

pub(super) fn foreseen(cleaned: Cleaned) -> String {
    format!("dry run: {}", text(&cleaned, "would be deleted"))
}

/// A command on a store looks after its spaces meanwhile, as a server does: no other hold
/// begins for want of it.
pub(super) async fn run(of: &SpaceArgs, no_wait: bool) -> Result<ExitCode, String> {
    let target = Target::of_space(SESSIONS, of, Access::Write).await?;
    let cleaned = cleanup(&target, no_wait).await;
    target.close().await;
    let cleaned = cleaned?;
    print(&match of.target.json {
        true => serde_json::to_string(&cleaned).map_err(message)?,
        false => text(&cleaned, "deleted"),
    })?;
    Ok(if cleaned.held.held_until_ms.is_some() { ExitCode::from(REFUSED) } else { ExitCode::SUCCESS })
}

async fn cleanup(target: &Target, no_wait: bool) -> Result<Cleaned, String> {
    let mut done = Cleaned::default();
    loop {
        done = together(&done, read(&target.fetch(Request::post("/cleanup")).await?)?);
        match done.held.retry_after_ms {
            Some(wait_ms) if !no_wait => wait(wait_ms.max(1)).await,
            _ => return Ok(done),
        }
    }
}

/// Waits, and shows how long that is: on a terminal all the time, elsewhere once.
async fn wait(wait_ms: u64) {
    let is_seen = std::io::stderr().is_terminal();
    let ends = monotonic() + Duration::from_millis(wait_ms);
    let show = |left_ms: u64| {
        let left = time(left_ms.next_multiple_of(1000));
        let text = format!("a hold runs: holders have {left} to renew before anything is deleted");
        let mut err = std::io::stderr().lock();
        // Whoever does not read it does not need it.
        let _ = match is_seen {
            true => write!(err, "\r\x1b[K{text}").and_then(|()| err.flush()),
            false => writeln!(err, "{text}"),
        };
    };
    show(wait_ms);
    loop {
        let left = ends.saturating_duration_since(monotonic());
        if left.is_zero() {
            break;
        }
        tokio::time::sleep(left.min(Duration::from_secs(1))).await;
        if is_seen {
            show(ends.saturating_duration_since(monotonic()).as_millis() as u64);
        }
    }
    if is_seen {
        let _ = write!(std::io::stderr().lock(), "\r\x1b[K");
    }
}
