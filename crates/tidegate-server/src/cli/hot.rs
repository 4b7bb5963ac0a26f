//! `tidegate hot`: the same questions to a server or straight to a store.

use std::io::Write as _;
use std::process::ExitCode;

use axum::http::Method;
use serde_json::json;
use tidegate::store::PartKind;

use super::REFUSED;
use super::args::Target;
use super::ask::Asking;
use super::hot_args::{HotCommand, Space};
use super::hot_told::{self, Said};
use super::request::{Asked, encoded};
use super::{replay, top, watch};

pub(super) fn run(command: &HotCommand) -> Result<ExitCode, String> {
    let runtime = super::runtime()?;
    let ran = runtime.block_on(async {
        match command {
            HotCommand::Replay(args) => replay::run(args).await,
            HotCommand::Watch { after, count, of } => watch::run(of, after.as_deref(), *count).await,
            HotCommand::Top { once, limit, interval, of } => top::run(of, *once, *limit, *interval).await,
            HotCommand::Record { page, id, editor, byte_change, at, of } => {
                let body =
                    json!({"page": page, "id": id, "editor": editor, "byte_change": byte_change, "at": at});
                let asked = Asked::new(Method::POST, format!("{}/edits", path_of(of)), Some(body));
                one(&of.target, Some(&of.space), asked, hot_told::edited).await
            }
            HotCommand::Stats { page, of } => {
                one(&of.target, Some(&of.space), Asked::get(page_of(of, page)), hot_told::stats).await
            }
            HotCommand::Rm { page, of } => {
                let asked = Asked::new(Method::DELETE, page_of(of, page), None);
                one(&of.target, Some(&of.space), asked, hot_told::removed).await
            }
            HotCommand::List { limit, after, of } => {
                let after = after.as_ref().map(|after| format!("&after={}", encoded(after)));
                let asked = Asked::get(format!("{}?limit={limit}{}", path_of(of), after.unwrap_or_default()));
                one(&of.target, Some(&of.space), asked, hot_told::hottest).await
            }
            HotCommand::Window { page, from, to, of } => {
                let given = [("from", from), ("to", to)];
                let given: Vec<_> = given
                    .iter()
                    .filter_map(|(name, at)| Some(format!("{name}={}", encoded(at.as_ref()?))))
                    .collect();
                let asked = Asked::get(format!("{}/window?{}", page_of(of, page), given.join("&")));
                one(&of.target, Some(&of.space), asked, hot_told::window).await
            }
            HotCommand::Cleanup { of } => {
                let asked = Asked::new(Method::POST, format!("{}/cleanup", path_of(of)), None);
                one(&of.target, Some(&of.space), asked, hot_told::cleaned).await
            }
            HotCommand::Spaces { target } => {
                one(target, None, Asked::get("/v1/hot".to_owned()), hot_told::spaces).await
            }
        }
    });
    // A thread that waits for a key does not hold the process.
    runtime.shutdown_background();
    ran
}

pub(super) fn path_of(of: &Space) -> String {
    format!("/v1/hot/{}", encoded(&of.space))
}

fn page_of(of: &Space, page: &str) -> String {
    format!("{}/pages/{}", path_of(of), encoded(page))
}

/// One question.
async fn one(
    target: &Target,
    space: Option<&str>,
    asked: Asked,
    said: impl FnOnce(&[u8]) -> Result<Said, String>,
) -> Result<ExitCode, String> {
    let asking =
        Asking::open(target, &space.map(|space| (PartKind::Hot, space)).into_iter().collect::<Vec<_>>())
            .await?;
    let answered = asking.send(asked).await;
    asking.close().await;
    let (status, answer) = answered?;
    if !status.is_success() {
        return Err(asking.failure(status, hot_told::detail(&answer)));
    }
    let said = said(&answer)?;
    let text = if target.json { String::from_utf8_lossy(&answer).into_owned() } else { said.text };
    print(&text)?;
    Ok(if said.is_no { ExitCode::from(REFUSED) } else { ExitCode::SUCCESS })
}

pub(super) fn print(text: &str) -> Result<(), String> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{text}")
        .and_then(|()| out.flush())
        .map_err(|error| format!("cannot write the answer: {error}"))
}
