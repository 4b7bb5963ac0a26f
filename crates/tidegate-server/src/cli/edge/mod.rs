//! `tidegate edge`: a worker alone, and questions to one.

pub(super) mod args;
mod render;

use std::process::ExitCode;

use self::args::{EdgeArgs, EdgeCommand, EdgeTarget, WorkerArgs};
use super::send::{refusal, send_to};
use super::{Rendered, Request, Target, encoded, serve};
use crate::settings::Settings;

pub(super) fn run(args: &EdgeArgs) -> Result<ExitCode, String> {
    match &args.command {
        None => work(&args.worker).map(|()| ExitCode::SUCCESS),
        Some(EdgeCommand::Report { target }) => {
            ask(target, Request::get("/v1/edge/cache"), |it| render::report(&it).into())
        }
        Some(EdgeCommand::Explain { url, target }) => {
            let request = Request::get(format!("/v1/edge/explain?url={}", encoded(url)));
            ask(target, request, |it| render::explained(&it))
        }
    }
}

fn ask<T: serde::de::DeserializeOwned>(
    target: &EdgeTarget,
    request: Request,
    render: impl FnOnce(T) -> Rendered,
) -> Result<ExitCode, String> {
    super::runtime()?.block_on(async {
        send_to(Target::server(&target.server)?, target.json, request, render, refusal).await
    })
}

fn work(args: &WorkerArgs) -> Result<(), String> {
    let settings = Settings::load(&args.sources()).map_err(|error| error.to_string())?;
    let Some(edge) = &settings.edge else {
        return Err(
            "`edge.listen`: a worker needs an address to serve redirects on, by --edge-listen".to_owned()
        );
    };
    if !edge.has_origin() {
        return Err("`edge.origin`: a worker needs a server whose rules it follows, by --origin".to_owned());
    }
    serve::serve_edge(settings)
}
