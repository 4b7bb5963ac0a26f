//! The command line.
//!
//! Exit codes: 0 done or admitted, 1 refused, 2 wrong usage or no answer.

mod args;
mod client;
mod declare;
mod hot;
mod limit;
mod render;
mod request;
mod send;
mod serve;
mod sessions;
mod target;

use std::io::Write as _;
use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _};

use self::args::{Cli, Command};

/// The answer is no.
const REFUSED: u8 = 1;

/// There was no answer. Wrong usage exits with the same.
const FAILED: u8 = 2;

/// Runs the command that this process was started with.
pub fn main() -> ExitCode {
    let command =
        Cli::command().mut_subcommand("serve", |serve| serve.after_long_help(args::settings_help()));
    let matches = command.get_matches();
    let parsed = match Cli::from_arg_matches(&matches) {
        Ok(parsed) => parsed,
        Err(error) => error.exit(),
    };
    let ran = match parsed.command {
        None => serve::serve(&parsed.serve).map(|()| ExitCode::SUCCESS),
        Some(Command::Serve(args)) => serve::serve(&args).map(|()| ExitCode::SUCCESS),
        Some(Command::Limit(args)) => limit::run(&args.command),
        Some(Command::Hot(args)) => hot::run(&args.command),
        Some(Command::Sessions(args)) => sessions::run(&args.command),
        Some(Command::Declare(args)) => declare::run(&args),
    };
    ran.unwrap_or_else(|error| {
        // There is nobody left to tell if this fails.
        let _ = writeln!(std::io::stderr(), "tidegate: {error}");
        ExitCode::from(FAILED)
    })
}

/// A runtime for one command.
fn runtime() -> Result<tokio::runtime::Runtime, String> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start: {error}"))
}
