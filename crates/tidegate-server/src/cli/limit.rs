//! `tidegate limit`: the same questions to a server or straight to a store.

use std::io::Write as _;
use std::process::ExitCode;

use super::REFUSED;
use super::ask::Asking;
use super::limit_args::LimitCommand;
use super::request::Asked;
use super::told::Told;

pub(super) fn run(command: &LimitCommand) -> Result<ExitCode, String> {
    let target = command.target();
    let asked = Asked::by(command);
    let told = super::runtime()?.block_on(async {
        let asking = Asking::open(target, &command.parts()).await?;
        let answered = asking.send(asked).await;
        asking.close().await;
        let (status, answer) = answered?;
        Told::new(status, answer).map_err(|detail| asking.failure(status, detail))
    })?;
    let shown = match target.json {
        true => told.json(command).into_owned(),
        false => told.for_people(command)?,
    };
    let mut out = std::io::stdout().lock();
    writeln!(out, "{shown}").map_err(|error| format!("cannot write the answer: {error}"))?;
    match told.is_refusal() {
        true => Ok(ExitCode::from(REFUSED)),
        false => Ok(ExitCode::SUCCESS),
    }
}
