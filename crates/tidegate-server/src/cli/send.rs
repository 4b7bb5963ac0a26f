//! One request and what it answers, shown.

use std::process::ExitCode;

use axum::http::StatusCode;
use serde::de::DeserializeOwned;
use tidegate::store::PartKind;

use super::REFUSED;
use super::args::{SpaceArgs, TargetArgs};
use super::render::{Rendered, print, problem, read};
use super::request::Request;
use super::target::Target;
use crate::parts::Access;

/// Sends `request`, which is about `parts`, and prints the answer. A refusal is an answer.
pub(super) async fn send<T: DeserializeOwned, R: Into<Rendered>>(
    args: &TargetArgs,
    parts: &[(PartKind, &str)],
    request: Request,
    render: impl FnOnce(T) -> R,
) -> Result<ExitCode, String> {
    send_to(Target::open(args, parts, Access::Write).await?, args.json, request, render, refusal).await
}

/// The same about a space, at a path below it.
pub(super) async fn in_space<T: DeserializeOwned, R: Into<Rendered>>(
    kind: PartKind,
    of: &SpaceArgs,
    request: Request,
    render: impl FnOnce(T) -> R,
) -> Result<ExitCode, String> {
    let target = Target::of_space(kind, of, Access::Write).await?;
    send_to(target, of.target.json, request, render, refusal).await
}

/// The same to a target that is open; `refusal` is the text of an answer that is a no.
pub(super) async fn send_to<T: DeserializeOwned, R: Into<Rendered>>(
    target: Target,
    as_json: bool,
    request: Request,
    render: impl FnOnce(T) -> R,
    refusal: impl FnOnce(StatusCode, &[u8]) -> Option<String>,
) -> Result<ExitCode, String> {
    let answered = target.send(request).await;
    target.close().await;
    let (status, answer) = answered?;
    finish(&target, as_json, status, &answer, render, refusal)
}

/// Prints an answer that has come.
pub(super) fn finish<T: DeserializeOwned, R: Into<Rendered>>(
    target: &Target,
    as_json: bool,
    status: StatusCode,
    answer: &[u8],
    render: impl FnOnce(T) -> R,
    refusal: impl FnOnce(StatusCode, &[u8]) -> Option<String>,
) -> Result<ExitCode, String> {
    let rendered = match status.is_success() {
        // What has no body says nothing.
        true => render(read(if answer.is_empty() { b"null" } else { answer })?).into(),
        false => match refusal(status, answer) {
            Some(text) => Rendered { text, is_refusal: true },
            None => return Err(target.failure(status, answer)),
        },
    };
    print(&match (as_json, status) {
        (false, _) => rendered.text,
        // What has no body has a word.
        (true, StatusCode::NO_CONTENT) => format!("{{\"{}\":true}}", rendered.text),
        (true, _) => String::from_utf8_lossy(answer).into_owned(),
    })?;
    Ok(if rendered.is_refusal { ExitCode::from(REFUSED) } else { ExitCode::SUCCESS })
}

/// A problem that says in a word why nothing was done.
pub(super) fn refusal(_: StatusCode, answer: &[u8]) -> Option<String> {
    problem(answer).filter(|problem| problem.refusal.is_some()).map(|problem| problem.detail)
}
