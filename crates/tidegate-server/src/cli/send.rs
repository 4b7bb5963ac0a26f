//! One request and what it answers, shown.

use std::process::ExitCode;

use axum::body::Bytes;
use axum::http::StatusCode;
use tidegate::store::PartKind;

use super::REFUSED;
use super::args::TargetArgs;
use super::render::{Rendered, detail, print, problem};
use super::request::Request;
use super::target::Target;

/// Sends `request`, about `part` if it is one in particular, and prints the answer. A
/// refusal is an answer.
pub(super) async fn send(
    args: &TargetArgs,
    part: Option<(PartKind, &str)>,
    request: Request,
    render: impl FnOnce(&[u8]) -> Result<Rendered, String>,
) -> Result<ExitCode, String> {
    let target = Target::open(args, &part.into_iter().collect::<Vec<_>>()).await?;
    send_to(target, args, request, render).await
}

/// The same to a target that is open.
pub(super) async fn send_to(
    target: Target,
    args: &TargetArgs,
    request: Request,
    render: impl FnOnce(&[u8]) -> Result<Rendered, String>,
) -> Result<ExitCode, String> {
    let answered = target.send(request).await;
    target.close().await;
    let (status, answer) = answered?;
    let rendered = match status.is_success() {
        true => render(&answer)?,
        false => match problem(&answer).filter(|problem| problem.refusal.is_some()) {
            Some(refusal) => Rendered { text: refusal.detail, is_refusal: true },
            None => return Err(target.failure(status, detail(&answer))),
        },
    };
    print(&if args.json { machine(status, &answer) } else { rendered.text })?;
    Ok(if rendered.is_refusal { ExitCode::from(REFUSED) } else { ExitCode::SUCCESS })
}

/// As it came; what has no body has a word.
fn machine(status: StatusCode, answer: &Bytes) -> String {
    match status {
        StatusCode::NO_CONTENT => "{\"deleted\":true}".to_owned(),
        _ => String::from_utf8_lossy(answer).into_owned(),
    }
}
