//! What can be written behind `tidegate run`.

use std::time::Duration;

use clap::{Args, Subcommand};

use crate::api::run::{LiveState, STATE_NAMES};
use crate::cli::{SpaceArgs, TargetArgs, help};

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct RunArgs {
    #[command(subcommand)]
    pub(in crate::cli) command: RunCommand,
}

const EXAMPLES: &str = "\
Exit codes: 0 done, 1 the answer is no (refused, there is none), 2 wrong usage or no answer.

Examples:
  tidegate run start nightly-2026-11-16 --total 5000
  tidegate run skip-done nightly-2026-11-16 < ids | ./work | tidegate run processed nightly-2026-11-16
  tidegate run finish nightly-2026-11-16
  tidegate run show nightly-2026-11-16";

/// A run, and in which attempt.
#[derive(Debug, Args)]
pub(in crate::cli) struct OfRun {
    /// Its id
    pub(in crate::cli) id: String,
    #[command(flatten)]
    pub(in crate::cli) of: SpaceArgs,
}

/// The same for who changes it.
#[derive(Debug, Args)]
pub(in crate::cli) struct InAttempt {
    /// Its id
    pub(in crate::cli) id: String,
    /// Refuse unless the run is in this attempt
    #[arg(long, value_name = "NUMBER")]
    pub(in crate::cli) attempt: Option<u64>,
    #[command(flatten)]
    pub(in crate::cli) of: SpaceArgs,
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum RunCommand {
    /// Start a run; one that is live goes on
    #[command(after_help = help("0 it is live, 1 it has ended (retry begins another attempt)", &["run start nightly-2026-11-16 --total 5000 --field source=api"]))]
    Start {
        #[command(flatten)]
        run: OfRun,
        /// How many items there are to process
        #[arg(long)]
        total: Option<u64>,
        /// A field of it; may be repeated
        #[arg(long = "field", value_name = "NAME=VALUE", value_parser = field)]
        fields: Vec<(String, String)>,
    },
    /// See the state of a run, as one word
    #[command(after_help = STATUS_EXAMPLES)]
    Status {
        #[command(flatten)]
        run: OfRun,
        /// Say nothing, and exit with 0 if it is in this state, else with 1
        #[arg(long = "is", value_parser = STATE_NAMES, value_name = "STATE")]
        is: Option<String>,
    },
    /// Set the state of a live run, its fields, its total
    #[command(after_help = help("", &["run update nightly-2026-11-16 --state paused --field why=quota --remove note"]))]
    Update {
        #[command(flatten)]
        run: InAttempt,
        /// A live state
        #[arg(long, value_enum)]
        state: Option<LiveState>,
        /// A field to set; may be repeated
        #[arg(long = "field", value_name = "NAME=VALUE", value_parser = field)]
        fields: Vec<(String, String)>,
        /// A field to remove; may be repeated
        #[arg(long, value_name = "NAME")]
        remove: Vec<String>,
        /// How many items there are to process
        #[arg(long)]
        total: Option<u64>,
    },
    /// Note items as processed: those of the command line, or of standard input
    #[command(after_help = PROCESSED_EXAMPLES)]
    Processed {
        #[command(flatten)]
        run: InAttempt,
        #[command(flatten)]
        items: ItemArgs,
    },
    /// Copy those items from standard input to standard output that are not processed
    #[command(after_help = help("", &["run skip-done nightly-2026-11-16 < ids | xargs -n1 ./download"]))]
    SkipDone {
        #[command(flatten)]
        run: OfRun,
        /// Items end with NUL and not with a line, here and there
        #[arg(long, short = '0')]
        null: bool,
    },
    /// Note that items have failed
    #[command(after_help = help("", &["run failed nightly-2026-11-16 12345 --reason 'timed out'"]))]
    Failed {
        #[command(flatten)]
        run: InAttempt,
        #[command(flatten)]
        items: ItemArgs,
        /// Why
        #[arg(long, default_value = "")]
        reason: String,
        /// What the call is known by, of one item: sent again it counts once
        #[arg(long = "call")]
        call: Option<String>,
    },
    /// See what failed in a run, the latest first
    #[command(after_help = help("", &["run failures nightly-2026-11-16 --limit 10"]))]
    Failures {
        #[command(flatten)]
        run: OfRun,
        #[command(flatten)]
        page: PageArgs,
    },
    /// Print the items that failed and were not processed since, one per line
    #[command(after_help = help("", &["run retry-list nightly-2026-11-16 | xargs -n1 ./download"]))]
    RetryList {
        #[command(flatten)]
        run: OfRun,
        /// Items end with NUL and not with a line
        #[arg(long, short = '0')]
        null: bool,
    },
    /// Say that a task has started
    #[command(after_help = TASK_EXAMPLES)]
    TaskStarted(TaskArgs),
    /// Say that a task is finished, and see how long it took
    #[command(after_help = TASK_EXAMPLES)]
    TaskFinished(TaskArgs),
    /// End a run
    #[command(after_help = FINISH_EXAMPLES)]
    Finish {
        #[command(flatten)]
        run: InAttempt,
        /// How it ended
        #[arg(value_parser = ["succeeded", "failed", "cancelled"], default_value = "succeeded")]
        state: String,
    },
    /// Begin another attempt of a run that has ended
    #[command(after_help = RETRY_EXAMPLES)]
    Retry {
        #[command(flatten)]
        run: OfRun,
        /// The attempt that has ended [default: the one it is in]
        #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
        from_attempt: Option<u64>,
    },
    /// See a run: its progress, tasks and failures
    #[command(after_help = help("0 there it is, 1 there is none", &["run show nightly-2026-11-16", "run show nightly-2026-11-16 --json"]))]
    Show(OfRun),
    /// The same, drawn anew until the run has ended
    #[command(after_help = WATCH_EXAMPLES)]
    Watch {
        #[command(flatten)]
        run: OfRun,
        /// How often
        #[arg(long, value_name = "TIME", default_value = "1s", value_parser = humantime::parse_duration)]
        interval: Duration,
    },
    /// See runs, the newest first
    #[command(after_help = help("", &["run list --state failed", "run list --limit 10 --json"]))]
    List {
        /// Those in this state
        #[arg(long, value_parser = STATE_NAMES)]
        state: Option<String>,
        #[command(flatten)]
        page: PageArgs,
        #[command(flatten)]
        of: SpaceArgs,
    },
    /// Shorten the life of a run
    #[command(after_help = help("", &["run expire nightly-2026-11-16 --after 1h"]))]
    Expire {
        #[command(flatten)]
        run: InAttempt,
        /// After how long it is gone, like 1h
        #[arg(long, value_name = "TIME")]
        after: String,
    },
    /// Delete a run; its next start is another attempt
    #[command(after_help = help("0 deleted, 1 refused (there is none, another attempt)", &["run delete nightly-2026-11-16"]))]
    Delete(InAttempt),
    /// See what is left of the quota, and when there is more
    #[command(after_help = help("", &["run quota"]))]
    Quota(SpaceArgs),
    /// Charge calls to the quota, if they fit
    #[command(after_help = CHARGE_EXAMPLES)]
    Charge {
        /// What to call it: sent again it is charged once. Ids are remembered for an hour
        id: String,
        /// How many calls
        #[arg(long, default_value_t = 1)]
        cost: u64,
        #[command(flatten)]
        of: SpaceArgs,
    },
    /// Give back what was charged by an id
    #[command(after_help = RELEASE_EXAMPLES)]
    Release {
        /// The charge's
        id: String,
        #[command(flatten)]
        of: SpaceArgs,
    },
    /// Remove runs that are over, now
    #[command(after_help = CLEANUP_EXAMPLES)]
    Cleanup(SpaceArgs),
    /// See the spaces and how their runs live
    #[command(after_help = help("", &["run spaces --json"]))]
    Spaces(TargetArgs),
}

#[derive(Debug, Args)]
pub(in crate::cli) struct TaskArgs {
    #[command(flatten)]
    pub(in crate::cli) run: InAttempt,
    /// Its name
    pub(in crate::cli) task: String,
}

/// Items, and where they are.
#[derive(Debug, Args)]
pub(in crate::cli) struct ItemArgs {
    /// Items; without any they are read from standard input, one per line
    pub(in crate::cli) items: Vec<String>,
    /// On standard input items end with NUL and not with a line
    #[arg(long, short = '0', conflicts_with = "items")]
    pub(in crate::cli) null: bool,
}

/// A page of a list.
#[derive(Debug, Args)]
pub(in crate::cli) struct PageArgs {
    /// How many at most, up to 1000
    #[arg(long, default_value_t = 100)]
    pub(in crate::cli) limit: u32,
    /// From here on: the last line of the page before
    #[arg(long, value_name = "PLACE")]
    pub(in crate::cli) cursor: Option<String>,
}

/// Splits `name=value`.
fn field(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("NAME=VALUE is expected, like stage=download".to_owned()),
    }
}

const STATUS_EXAMPLES: &str = "\
Exit codes: 0 there it is, 1 there is none (with --is: or it is in another state), 2 wrong usage or no answer.

Examples:
  tidegate run status nightly-2026-11-16
  while tidegate run status nightly-2026-11-16 --is paused; do sleep 5; done";

const PROCESSED_EXAMPLES: &str = "\
Items are noted 10000 at a time, and once however often they are sent.

Examples:
  tidegate run processed nightly-2026-11-16 12345 12346
  find out -name '*.json' -print0 | tidegate run processed nightly-2026-11-16 --null";

const TASK_EXAMPLES: &str = "\
Example:
  tidegate run task-started nightly-2026-11-16 download
  tidegate run task-finished nightly-2026-11-16 download";

const FINISH_EXAMPLES: &str = "\
Exit codes: 0 it has ended so, 1 refused (it has ended otherwise, another attempt), 2 wrong usage or no answer.

Examples:
  tidegate run finish nightly-2026-11-16
  ./work || tidegate run finish nightly-2026-11-16 failed";

const RETRY_EXAMPLES: &str = "\
Nothing that was done is forgotten. With --from-attempt it can be sent again, and counts once.

Example:
  tidegate run retry nightly-2026-11-16 --from-attempt 1";

const WATCH_EXAMPLES: &str = "\
On a terminal it is drawn anew, and q quits; elsewhere a line is printed whenever something has changed.
Exit codes: 0 it has succeeded, 1 it has failed, was cancelled or is gone, 2 wrong usage or no answer.

Example:
  tidegate run watch nightly-2026-11-16";

const CHARGE_EXAMPLES: &str = "\
Exit codes: 0 charged, now or before; 1 refused: there is no room, or it was released; 2 wrong usage or no answer.

Example:
  tidegate run charge nightly-2026-11-16:12345 && curl -O https://api.example.com/dockets/12345";

const RELEASE_EXAMPLES: &str = "\
Exit codes: 0 given back, now or before; 1 there is no such charge; 2 wrong usage or no answer.

Example:
  tidegate run release nightly-2026-11-16:12345";

const CLEANUP_EXAMPLES: &str = "\
Servers do the same by themselves, every runs.NAME.cleanup_interval.

Example:
  tidegate run cleanup";
