//! Tidegate side by side with its peers.
//!
//! Each figure is ours and a peer's, measured in turns in the same run, with the
//! goal that the project has set itself. The bench reports and does not judge: a
//! missed goal is a line that says `short`, not a failure.
//!
//! ```text
//! cargo run --release -p tidegate-bench -- limit|hot|session|run|edge [--quick] [--only NAME] [--json FILE]
//! ```

mod arrival;
mod cpu;
mod edge;
mod heap;
mod hot;
mod http_client;
mod limit;
mod peers;
mod postgres_server;
mod redis_server;
mod report;
mod rounds;
mod run;
mod server;
mod session;
mod until;

use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::{Parser, ValueEnum};

use crate::report::Figure;
use crate::rounds::Effort;

#[global_allocator]
static HEAP: heap::Counting = heap::Counting;

/// Measures Tidegate beside its peers.
#[derive(Debug, Parser)]
#[command(version)]
struct Args {
    /// What to measure.
    area: Area,
    /// Fewer and shorter rounds: all of it within two minutes.
    #[arg(long)]
    quick: bool,
    /// Only figures whose names start like this: `limit.http`.
    #[arg(long, value_name = "NAME", default_value = "")]
    only: String,
    /// Write the figures to this file as well, as a JSON list.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// For `hot`, a day of Wikipedia's edits as JSON lines, gzip understood; made up
    /// unless given.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Only imports a list into a database and says what that took: so that it is a process of its own.
    #[arg(long, hide = true, num_args = 2)]
    import: Vec<PathBuf>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Area {
    /// Every area.
    All,
    /// Rate limits, in this process, on Redis and over HTTP.
    Limit,
    /// Hot pages, in this process and on Redis.
    Hot,
    /// Sessions, on Redis.
    Session,
    /// Runs, on Redis.
    Run,
    /// Redirects: rules in a file and on PostgreSQL, and a worker with a million of them.
    Edge,
}

fn main() -> ExitCode {
    match measure(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tidegate-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn measure(args: &Args) -> Result<()> {
    if cfg!(debug_assertions) {
        eprintln!("this is not a release build: the figures mean little");
    }
    if let [database, list] = &args.import[..] {
        return edge::import(database, list);
    }
    // Before the work, not after it, a file that cannot be written is an error.
    let json = match &args.json {
        Some(path) => Some(File::create(path).with_context(|| format!("cannot write {}", path.display()))?),
        None => None,
    };
    let effort = Effort::new(args.quick);
    let mut figures: Vec<Figure> = Vec::new();
    if matches!(args.area, Area::All | Area::Limit) {
        figures.extend(limit::figures(effort, &args.only)?);
    }
    if matches!(args.area, Area::All | Area::Hot) {
        figures.extend(hot::figures(effort, &args.only, args.trace.as_deref())?);
    }
    if matches!(args.area, Area::All | Area::Session) {
        figures.extend(session::figures(effort, &args.only)?);
    }
    if matches!(args.area, Area::All | Area::Run) {
        figures.extend(run::figures(effort, &args.only)?);
    }
    if matches!(args.area, Area::All | Area::Edge) {
        figures.extend(edge::figures(effort, &args.only)?);
    }
    print!("{}", report::table(&figures));
    if let Some(mut json) = json {
        serde_json::to_writer_pretty(&mut json, &figures)?;
        writeln!(json)?;
    }
    Ok(())
}

/// Says on stderr what is being measured.
pub(crate) fn progress(what: &str) {
    eprintln!("… {what}");
}
