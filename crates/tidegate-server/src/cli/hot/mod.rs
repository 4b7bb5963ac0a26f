//! `tidegate hot`: the same requests to a server or straight to a store.

pub(super) mod args;
mod render;
mod replay;
mod top;
mod watch;

use std::process::ExitCode;

use axum::http::Method;
use tidegate::store::PartKind;

use self::args::HotCommand;
use super::args::SpaceArgs;
use super::request::{Request, encoded};
use super::send::{self, in_space};
use crate::api::hot::Edit;
use crate::moment::{self, Moment};

pub(super) fn run(command: &HotCommand) -> Result<ExitCode, String> {
    let runtime = super::runtime()?;
    let ran = runtime.block_on(async {
        match command {
            HotCommand::Replay(args) => replay::run(args).await,
            HotCommand::Watch { after, count, of } => watch::run(of, after.as_deref(), *count).await,
            HotCommand::Top { once, limit, interval, of } => top::run(of, *once, *limit, *interval).await,
            HotCommand::Record { page, id, editor, byte_change, at, of } => {
                let at = at.as_deref().map(moment::parse).transpose()?.map(Moment);
                let body = Edit {
                    page: page.into(),
                    id: id.into(),
                    editor: Some(editor.into()),
                    byte_change: Some(*byte_change),
                    at,
                };
                let request = Request::with(Method::POST, format!("{}/edits", path_of(of)), &body);
                in_space(PartKind::Hot, of, request, render::edited).await
            }
            HotCommand::Stats { page, of } => {
                in_space(PartKind::Hot, of, Request::get(page_of(of, page)), render::stats).await
            }
            HotCommand::Rm { page, of } => {
                let request = Request::new(Method::DELETE, page_of(of, page));
                in_space(PartKind::Hot, of, request, render::removed).await
            }
            HotCommand::List { limit, after, of } => {
                let after = after.as_ref().map(|after| format!("&after={}", encoded(after)));
                let request =
                    Request::get(format!("{}?limit={limit}{}", path_of(of), after.unwrap_or_default()));
                in_space(PartKind::Hot, of, request, render::hottest).await
            }
            HotCommand::Window { page, from, to, of } => {
                let given = [("from", from), ("to", to)];
                let given: Vec<_> = given
                    .iter()
                    .filter_map(|(name, at)| Some(format!("{name}={}", encoded(at.as_ref()?))))
                    .collect();
                let request = Request::get(format!("{}/window?{}", page_of(of, page), given.join("&")));
                in_space(PartKind::Hot, of, request, render::window).await
            }
            HotCommand::Cleanup { of } => {
                let request = Request::new(Method::POST, format!("{}/cleanup", path_of(of)));
                in_space(PartKind::Hot, of, request, render::cleaned).await
            }
            HotCommand::Spaces { target } => {
                send::send(target, &[], Request::get("/v1/hot".to_owned()), render::spaces).await
            }
        }
    });
    // A thread that waits for a key does not hold the process.
    runtime.shutdown_background();
    ran
}

pub(super) fn path_of(of: &SpaceArgs) -> String {
    format!("/v1/hot/{}", encoded(&of.space))
}

fn page_of(of: &SpaceArgs, page: &str) -> String {
    format!("{}/pages/{}", path_of(of), encoded(page))
}
