//! `tidegate hot`: the same requests to a server or straight to a store.

pub(super) mod args;
mod count;
mod render;
mod replay;
mod top;
mod watch;

use std::process::ExitCode;

use tidegate::store::PartKind;

use self::args::{HotCommand, PageArgs};
use super::send::{in_space, send};
use super::{Request, SpaceArgs, encoded};
use crate::api::hot::Edit;
use crate::api::hot_counts::Count;
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
                let request = Request::post(format!("{}/edits", path_of(of))).json(&body);
                in_space(PartKind::Hot, of, request, render::edited).await
            }
            HotCommand::Count { page: Some(page), count, of } => {
                let body = Count { page: page.into(), count: Some(*count) };
                let request = Request::post(format!("{}/counts", path_of(of))).json(&body);
                in_space(PartKind::Hot, of, request, render::counted).await
            }
            HotCommand::Count { page: None, of, .. } => count::lines(of).await,
            HotCommand::Stats(PageArgs { page, of }) => {
                in_space(PartKind::Hot, of, Request::get(page_of(of, page)), render::stats).await
            }
            HotCommand::Rm(PageArgs { page, of }) => {
                in_space(PartKind::Hot, of, Request::delete(page_of(of, page)), render::removed).await
            }
            HotCommand::List { limit, after, of } => {
                let after = after.as_ref().map(|after| format!("&after={}", encoded(after)));
                let path = format!("{}?limit={limit}{}", path_of(of), after.unwrap_or_default());
                in_space(PartKind::Hot, of, Request::get(path), render::hottest).await
            }
            HotCommand::Window { page, from, to, of } => {
                let given =
                    |name: &str, at: &Option<String>| Some(format!("{name}={}", encoded(at.as_ref()?)));
                let given: Vec<_> = [given("from", from), given("to", to)].into_iter().flatten().collect();
                let path = format!("{}/window?{}", page_of(of, page), given.join("&"));
                in_space(PartKind::Hot, of, Request::get(path), render::window).await
            }
            HotCommand::Cleanup(of) => {
                let request = Request::post(format!("{}/cleanup", path_of(of)));
                in_space(PartKind::Hot, of, request, render::cleaned).await
            }
            HotCommand::Spaces(target) => {
                send(target, &[], Request::get("/v1/hot".to_owned()), render::spaces).await
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
