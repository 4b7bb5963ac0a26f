//! The command line.
//!
//! Exit codes: 0 done or admitted, 1 refused, 2 wrong usage or no answer.

mod args;
mod bar;
mod batches;
mod client;
mod declare;
mod doctor;
mod edge;
mod health;
mod hot;
mod input;
mod limits;
mod render;
mod request;
mod rules;
mod runs;
mod screen;
mod send;
mod serve;
mod sessions;
mod target;

use std::io::Write as _;
use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use self::args::{SERVE_EXAMPLES, ServeArgs, SettingsArgs, SpaceArgs, TargetArgs, help};
use self::bar::Bar;
use self::client::Stream;
use self::declare::DeclareArgs;
use self::doctor::DoctorArgs;
use self::edge::args::EdgeArgs;
use self::health::HealthArgs;
use self::hot::args::HotArgs;
use self::input::Input;
use self::limits::args::LimitArgs;
use self::render::{Rendered, lines, moment, page, plural, print, printable, problem, read, time};
use self::request::{NDJSON, Request};
use self::rules::args::RulesArgs;
use self::runs::args::RunArgs;
use self::sessions::args::SessionsArgs;
use self::target::Target;
use crate::address::encoded;

/// Rate limits that never admit too much, pages that are hot right now, sessions that are never
/// reaped alive and runs that know what is done, in-process or on Redis, Valkey or their Cluster; and redirects by rules
/// that cannot be lost.
#[derive(Debug, Parser)]
#[command(name = "tidegate", version, args_conflicts_with_subcommands = true, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: ServeArgs,
}

const EXAMPLES: &str = "\
Without a command, tidegate serves.

Examples:
  tidegate
  tidegate serve --listen 0.0.0.0:8080 --store redis://127.0.0.1:6379
  tidegate limit take api user_123
  tidegate hot list
  tidegate sessions counts
  tidegate run list
  tidegate rules list";

#[derive(Debug, Subcommand)]
enum Command {
    /// Answer over HTTP; the first line on standard output is the address
    #[command(after_help = SERVE_EXAMPLES)]
    Serve(ServeArgs),
    /// Take from limits, see and change where keys stand
    Limit(LimitArgs),
    /// Record edits, see which pages are hot, replay a file
    Hot(HotArgs),
    /// See sessions, reap what was left behind, take over a store of an older program
    Sessions(SessionsArgs),
    /// Start runs of pipelines, note what is done and what failed, see how far they are
    Run(RunArgs),
    /// Make, see, change, delete, import and export rules of redirects, and see which of them answers
    Rules(RulesArgs),
    /// Redirect by the rules of a server, see how a worker is doing and why it answers as it does
    Edge(EdgeArgs),
    /// See what a store declares limits and spaces to be, or change it
    Declare(DeclareArgs),
    /// See what is wrong with a store: its keys, its markers, its servers
    Doctor(DoctorArgs),
    /// See how the store has been doing: connections, operations, response times, memory
    Health(HealthArgs),
}

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
        Some(Command::Limit(args)) => limits::run(&args.command),
        Some(Command::Hot(args)) => hot::run(&args.command),
        Some(Command::Sessions(args)) => sessions::run(&args.command),
        Some(Command::Run(args)) => runs::run(&args.command),
        Some(Command::Rules(args)) => rules::run(&args.command),
        Some(Command::Edge(args)) => edge::run(&args),
        Some(Command::Declare(args)) => declare::run(&args),
        Some(Command::Doctor(args)) => doctor::run(&args),
        Some(Command::Health(args)) => health::run(&args),
    };
    ran.unwrap_or_else(|error| {
        // There is nobody left to tell if this fails.
        let _ = writeln!(std::io::stderr(), "tidegate: {error}");
        ExitCode::from(FAILED)
    })
}

/// What went wrong, as people are told.
fn message(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// A runtime for one command.
fn runtime() -> Result<tokio::runtime::Runtime, String> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start: {error}"))
}
