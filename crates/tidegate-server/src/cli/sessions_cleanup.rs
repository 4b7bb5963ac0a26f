//! `tidegate sessions cleanup`: once, or as soon as a hold is over.

use std::io::{IsTerminal as _, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use axum::http::Method;
use serde::{Deserialize, Serialize};
use tidegate::clock::monotonic;
use tidegate::store::PartKind;

use super::REFUSED;
use super::ask::Asking;
use super::hot::print;
use super::hot_told::{detail, moment, plural, read, time};
use super::request::Asked;
use super::sessions_args::SessionSpace;

/// What a cleanup did; of several, what all of them did.
#[derive(Debug, Default, Deserialize, Serialize)]
struct Cleaned {
    space: String,
    deleted: u64,
    lapsed: u64,
    buried: u64,
    missing: u64,
    invalid: u64,
    lag_ms: u64,
    #[serde(default)]
    held_until_ms: Option<u64>,
    #[serde(default)]
    retry_after_ms: Option<u64>,
}

impl Cleaned {
    /// Before this there was `before`.
    fn after(self, before: &Self) -> Self {
        Self {
            deleted: self.deleted + before.deleted,
            lapsed: self.lapsed + before.lapsed,
            buried: self.buried + before.buried,
            missing: self.missing + before.missing,
            invalid: self.invalid + before.invalid,
            lag_ms: self.lag_ms.max(before.lag_ms),
            ..self
        }
    }

    fn text(&self) -> String {
        let mut text = format!("{} deleted", plural(self.deleted, "session"));
        for (count, what) in [
            (self.lapsed, "found silent"),
            (self.buried, "put aside as dead"),
            (self.missing + self.invalid, "dropped from the index"),
        ] {
            if count > 0 {
                text += &format!(", {count} {what}");
            }
        }
        if let Some(at_ms) = self.held_until_ms {
            text += &format!("; a hold runs until {}", moment(at_ms));
        }
        text
    }
}

/// Whoever asks a store looks after its spaces meanwhile, as a server does: no other hold
/// begins for want of it.
pub(super) async fn run(of: &SessionSpace, path: &str, no_wait: bool) -> Result<ExitCode, String> {
    let asking = Asking::open(&of.target, &[(PartKind::Sessions, &of.space)]).await?;
    let cleaned = cleanup(&asking, path, no_wait).await;
    asking.close().await;
    let cleaned = cleaned?;
    print(&match of.target.json {
        true => serde_json::to_string(&cleaned).map_err(|error| error.to_string())?,
        false => cleaned.text(),
    })?;
    Ok(if cleaned.held_until_ms.is_some() { ExitCode::from(REFUSED) } else { ExitCode::SUCCESS })
}

async fn cleanup(asking: &Asking, path: &str, no_wait: bool) -> Result<Cleaned, String> {
    let mut done = Cleaned::default();
    loop {
        let (status, answer) = asking.send(Asked::new(Method::POST, path.to_owned(), None)).await?;
        if !status.is_success() {
            return Err(asking.failure(status, detail(&answer)));
        }
        done = read::<Cleaned>(&answer)?.after(&done);
        match done.retry_after_ms {
            Some(wait_ms) if !no_wait => wait(wait_ms.max(1)).await,
            _ => return Ok(done),
        }
    }
}

/// Waits, and tells how long that is: on a terminal all the time, elsewhere once.
async fn wait(wait_ms: u64) {
    let is_seen = std::io::stderr().is_terminal();
    let ends = monotonic() + Duration::from_millis(wait_ms);
    let tell = |left_ms: u64| {
        let left = time(left_ms.next_multiple_of(1000));
        let text = format!("a hold runs: holders have {left} to renew before anything is deleted");
        let mut err = std::io::stderr().lock();
        // Whoever does not read it does not need it.
        let _ = match is_seen {
            true => write!(err, "\r\x1b[K{text}").and_then(|()| err.flush()),
            false => writeln!(err, "{text}"),
        };
    };
    tell(wait_ms);
    loop {
        let left = ends.saturating_duration_since(monotonic());
        if left.is_zero() {
            break;
        }
        tokio::time::sleep(left.min(Duration::from_secs(1))).await;
        if is_seen {
            tell(ends.saturating_duration_since(monotonic()).as_millis() as u64);
        }
    }
    if is_seen {
        let _ = write!(std::io::stderr().lock(), "\r\x1b[K");
    }
}
