//! What can be written behind `tidegate sessions`.

use std::time::Duration;

use clap::{Args, Subcommand};
use tidegate::store::DEFAULT_SPACE;

use crate::api::session::STATE_NAMES;
use crate::cli::{SettingsArgs, SpaceArgs, TargetArgs, help};

#[derive(Debug, Args)]
#[command(after_help = help(
    "0 done, 1 the answer is no (refused, something is off)",
    &[
        "sessions counts",
        "sessions list --state orphan",
        "sessions migrate --store redis://127.0.0.1:6379 --config prod.yaml --dry-run",
        "sessions compare --store redis://127.0.0.1:6379",
    ],
))]
pub(in crate::cli) struct SessionsArgs {
    #[command(subcommand)]
    pub(in crate::cli) command: SessionsCommand,
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum SessionsCommand {
    /// Take over a Redis that an older program has written, and verify it
    #[command(after_help = MIGRATE_EXAMPLES)]
    Migrate {
        /// Say what would be done, and do nothing
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        args: ReconcileArgs,
    },
    /// Compare all sessions with their index and mend what is wrong, beside live traffic
    #[command(after_help = RECONCILE_EXAMPLES)]
    Reconcile(ReconcileArgs),
    /// List orphans by scan and by index, and show the difference
    #[command(after_help = COMPARE_EXAMPLES)]
    Compare {
        /// Sessions left for at least so long [default: the grace]
        #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
        max_age: Option<Duration>,
        #[command(flatten)]
        args: ReconcileArgs,
    },
    /// Delete all orphans now, without side effects
    #[command(after_help = CLEANUP_EXAMPLES)]
    Cleanup {
        /// Say what would be done, and do nothing
        #[arg(long)]
        dry_run: bool,
        /// Do not wait for the end of a hold: exit with 1
        #[arg(long)]
        no_wait: bool,
        #[command(flatten)]
        of: SpaceArgs,
    },
    /// Claim orphans, to run their side effects
    #[command(after_help = CLAIM_EXAMPLES)]
    Claim {
        /// How many at most, up to 1000
        #[arg(long, default_value_t = 1)]
        limit: u32,
        #[command(flatten)]
        of: SpaceArgs,
    },
    /// Let a claim hold for longer
    #[command(after_help = help(
        "0 renewed, 1 refused (claimed by somebody else, gone)",
        &["sessions renew 67e55044-10b1-426f-9247-bb680e5fe0c8 --generation 1 --attempt 1"],
    ))]
    Renew {
        /// The session
        id: String,
        /// The claim's
        #[arg(long)]
        generation: u64,
        /// The claim's
        #[arg(long)]
        attempt: u64,
        #[command(flatten)]
        of: SpaceArgs,
    },
    /// Delete a claimed session whose side effects have run
    #[command(after_help = help(
        "0 deleted, 1 refused (not claimed, another generation, gone)",
        &["sessions ack 67e55044-10b1-426f-9247-bb680e5fe0c8 --generation 1"],
    ))]
    Ack {
        /// The session
        id: String,
        /// The claim's
        #[arg(long)]
        generation: u64,
        #[command(flatten)]
        of: SpaceArgs,
    },
    /// See how many sessions there are
    #[command(after_help = help("", &["sessions counts --json"]))]
    Counts(SpaceArgs),
    /// See sessions by state or by age
    #[command(after_help = help(
        "",
        &["sessions list --state orphan --limit 10", "sessions list --max-age 5m --json"],
    ))]
    List {
        /// Which
        #[arg(long, default_value = "disconnected", value_parser = STATE_NAMES)]
        state: String,
        /// Instead: those left for at least so long, like 30s
        #[arg(long, value_name = "TIME", conflicts_with = "state")]
        max_age: Option<String>,
        /// How many at most, up to 1000
        #[arg(long, default_value_t = 100)]
        limit: u32,
        /// From here on: the last line of the page before
        #[arg(long, value_name = "PLACE")]
        after: Option<String>,
        #[command(flatten)]
        of: SpaceArgs,
    },
    /// See a session
    #[command(after_help = help(
        "0 there it is, 1 there is none",
        &["sessions show 67e55044-10b1-426f-9247-bb680e5fe0c8", "sessions show --broadcaster channel_7"],
    ))]
    Show {
        /// Its id
        #[arg(required_unless_present = "broadcaster", conflicts_with = "broadcaster")]
        id: Option<String>,
        /// Instead: whose it is
        #[arg(long)]
        broadcaster: Option<String>,
        #[command(flatten)]
        of: SpaceArgs,
    },
    /// Delete a session that nobody holds, without side effects
    #[command(after_help = help(
        "0 deleted, 1 refused (active, being reaped, gone)",
        &["sessions delete 67e55044-10b1-426f-9247-bb680e5fe0c8"],
    ))]
    Delete(SessionArgs),
    /// Let a dead session be claimed again
    #[command(after_help = help(
        "0 it can be claimed, 1 refused (not dead, gone)",
        &["sessions retry 67e55044-10b1-426f-9247-bb680e5fe0c8"],
    ))]
    Retry(SessionArgs),
    /// See the spaces and how their sessions live
    #[command(after_help = help("", &["sessions spaces --json"]))]
    Spaces(TargetArgs),
}

#[derive(Debug, Args)]
pub(in crate::cli) struct SessionArgs {
    /// Its id
    pub(in crate::cli) id: String,
    #[command(flatten)]
    pub(in crate::cli) of: SpaceArgs,
}

/// A space on a store, to go through.
#[derive(Debug, Args)]
pub(in crate::cli) struct ReconcileArgs {
    /// The store
    #[arg(long, value_name = "URL")]
    pub(in crate::cli) store: String,
    /// The space
    #[arg(long, default_value = DEFAULT_SPACE)]
    pub(in crate::cli) space: String,
    /// Name on standard error whatever is not as it should be
    #[arg(long)]
    pub(in crate::cli) verbose: bool,
    /// Answer in JSON
    #[arg(long)]
    pub(in crate::cli) json: bool,
    #[command(flatten)]
    pub(in crate::cli) settings: SettingsArgs,
}

const MIGRATE_EXAMPLES: &str = "\
Safe beside live traffic and to run again; if interrupted, the next run goes on from there.
Exit codes: 0 all is where it belongs, 1 something is off, 2 wrong usage or no answer.

It goes by what servers have declared, or what --config or --set says; defaults would be a guess.

Examples:
  tidegate sessions migrate --store redis://127.0.0.1:6379 --config prod.yaml --dry-run --verbose
  tidegate sessions migrate --store redis://127.0.0.1:6379 --set sessions.main.migration_lease=2h";

const RECONCILE_EXAMPLES: &str = "\
Servers do the same by themselves, every sessions.NAME.reconcile_interval; but an index that is of
another type is made anew only by this. It goes by what servers have declared, or --config or --set.

Example:
  tidegate sessions reconcile --store redis://127.0.0.1:6379 --verbose";

const COMPARE_EXAMPLES: &str = "\
What differs is looked at once more, since traffic goes on. Changes nothing.
Exit codes: 0 no difference, 1 a difference, 2 wrong usage or no answer.

Example:
  tidegate sessions compare --store redis://127.0.0.1:6379 --max-age 30s";

const CLEANUP_EXAMPLES: &str = "\
If nobody has looked after the space for half a holder_lease, holders could not renew: they get
the length of one to do so before anything is deleted, and this waits for it. With --store it goes
by what servers have declared, or what --config or --set says. --dry-run writes nothing.
Exit codes: 0 done, 1 not all of it since a hold runs (--no-wait), 2 wrong usage or no answer.

Examples:
  tidegate sessions cleanup --store redis://127.0.0.1:6379
  tidegate sessions cleanup --store redis://127.0.0.1:6379 --set sessions.main.grace=30s
  tidegate sessions cleanup --dry-run";

const CLAIM_EXAMPLES: &str = "\
Run the side effects of each, with its id and generation as their token, then ack.

Example:
  tidegate sessions claim --limit 10 --json";
