//! `tidegate limit`: the same requests to a server or straight to a store.

pub(super) mod args;
mod render;
mod request;

use std::process::ExitCode;

use self::args::LimitCommand;
use super::REFUSED;
use super::render::print;
use super::target::Target;
use crate::api::Invalid;

pub(super) fn run(command: &LimitCommand) -> Result<ExitCode, String> {
    let args = command.target();
    let request = request::request(command).map_err(|Invalid(why)| why)?;
    let (status, body, rendered) = super::runtime()?.block_on(async {
        let target = Target::open(args, &command.parts()).await?;
        let answered = target.send(request).await;
        target.close().await;
        let (status, body) = answered?;
        let rendered = render::render(command, status, &body);
        let rendered = rendered.map_err(|detail| target.failure(status, detail))?;
        Ok::<_, String>((status, body, rendered))
    })?;
    let rendered = rendered?;
    print(&if args.json { render::json(command, status, &body) } else { rendered.text })?;
    Ok(if rendered.is_refusal { ExitCode::from(REFUSED) } else { ExitCode::SUCCESS })
}
