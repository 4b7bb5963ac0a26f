//! `tidegate hot`: the same requests to a server or straight to a store.

pub(super) mod args;
mod count;
mod render;
mod replay;
mod top;
mod watch;

use std::process::ExitCode;

use tidegate::store::PartKind;

use self::args::HotCommand;
use super::send::{in_space, send};
use super::{Request, encoded};
use crate::api::hot::Edit;
use crate::api::hot_counts::Count;
use crate::moment::{self, Moment};

const HOT: PartKind = PartKind::Hot;

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
                in_space(HOT, of, Request::post("/edits").json(&body), render::edited).await
            }
            HotCommand::Count { page: Some(page), count, of } => {
                let body = Count { page: page.into(), count: Some(*count) };
                in_space(HOT, of, Request::post("/counts").json(&body), render::counted).await
            }
            HotCommand::Count { page: None, of, .. } => count::lines(of).await,
            HotCommand::Stats(it) => {
                in_space(HOT, &it.of, Request::get(path_of(&it.page)), render::stats).await
            }
            HotCommand::Rm(it) => {
                in_space(HOT, &it.of, Request::delete(path_of(&it.page)), render::removed).await
            }
            HotCommand::List { limit, after, of } => {
                let request = Request::get("").with("limit", Some(limit)).with("after", after.as_ref());
                in_space(HOT, of, request, render::hottest).await
            }
            HotCommand::Window { page, from, to, of } => {
                let request = Request::get(path_of(page) + "/window");
                let request = request.with("from", from.as_ref()).with("to", to.as_ref());
                in_space(HOT, of, request, render::window).await
            }
            HotCommand::Cleanup(of) => in_space(HOT, of, Request::post("/cleanup"), render::cleaned).await,
            HotCommand::Spaces(target) => send(target, &[], Request::get("/v1/hot"), render::spaces).await,
        }
    });
    // A thread that waits for a key does not hold the process.
    runtime.shutdown_background();
    ran
}

fn path_of(page: &str) -> String {
    format!("/pages/{}", encoded(page))
}
