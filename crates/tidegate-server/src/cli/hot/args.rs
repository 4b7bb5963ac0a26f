//! What can be written behind `tidegate hot`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use tidegate::store::DEFAULT_SPACE;

use crate::cli::{SettingsArgs, SpaceArgs, TargetArgs, help};

#[derive(Debug, Args)]
#[command(after_help = help(
    "0 done, 1 the answer is no (not hot, not kept)",
    &[
        "hot record 'en:Tide gate' --id 4711 --editor alice --byte-change 12",
        "hot count /pricing 3 --space views",
        "hot list --limit 10",
        "hot top",
        "hot replay edits.json.gz --page-field channel,page",
    ],
))]
pub(in crate::cli) struct HotArgs {
    #[command(subcommand)]
    pub(in crate::cli) command: HotCommand,
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum HotCommand {
    /// Record one edit
    #[command(after_help = help(
        "0 recorded, 1 rejected, too late, dropped or unknown",
        &["hot record 'en:Tide gate' --id 4711 --editor alice --byte-change -12"],
    ))]
    Record {
        /// The page, with its wiki if there are several
        page: String,
        /// Which edit it is: sent twice it counts once
        #[arg(long)]
        id: String,
        /// Who made it; without one it counts for no editor
        #[arg(long, default_value = "")]
        editor: String,
        /// By how many bytes the page grew
        #[arg(long, default_value_t = 0, allow_negative_numbers = true)]
        byte_change: i64,
        /// When: milliseconds since 1970 or RFC 3339; now unless given
        #[arg(long, value_name = "TIME")]
        at: Option<String>,
        #[command(flatten)]
        of: SpaceArgs,
    },
    /// Count so many of a page, or a page per line of standard input, in a space that only counts
    #[command(after_help = help(
        "0 counted, 1 some were rejected, dropped or unknown",
        &[
            "hot count /pricing --space views",
            "hot count /pricing 3 --space views --json",
            "hot count --space views < pages",
        ],
    ))]
    Count {
        /// The page; without one, each line of standard input is one of a page
        page: Option<String>,
        /// How many
        #[arg(default_value_t = 1, value_name = "N")]
        count: u64,
        #[command(flatten)]
        of: SpaceArgs,
    },
    /// See what is known of a page
    #[command(after_help = help("0 it is hot, 1 it is not", &["hot stats 'en:Tide gate' --json"]))]
    Stats(PageArgs),
    /// Forget a page, hot or not
    #[command(after_help = help("0 it is forgotten, 1 nothing was known of it", &["hot rm 'en:Tide gate'"]))]
    Rm(PageArgs),
    /// See the hottest pages
    #[command(after_help = help("", &["hot list --limit 10"]))]
    List {
        /// How many at most, up to 1000
        #[arg(long, default_value_t = 20)]
        limit: u32,
        /// Behind which place, as the list before has it
        #[arg(long, value_name = "PLACE")]
        after: Option<String>,
        #[command(flatten)]
        of: SpaceArgs,
    },
    /// See the edits in a page's window
    #[command(after_help = help("", &["hot window 'en:Tide gate' --from 2026-11-15T12:00:00Z"]))]
    Window {
        /// The page
        page: String,
        /// From when on
        #[arg(long, value_name = "TIME")]
        from: Option<String>,
        /// Until when, included
        #[arg(long, value_name = "TIME")]
        to: Option<String>,
        #[command(flatten)]
        of: SpaceArgs,
    },
    /// Follow what happens: promoted, replaced, trending and spiking and their ends, cooled, removed
    #[command(after_help = help("", &["hot watch", "hot watch --after 0-0 --count 10 --json"]))]
    Watch {
        /// From this event on, by its cursor; 0-0 is the oldest that is kept
        #[arg(long, value_name = "CURSOR")]
        after: Option<String>,
        /// End after so many events
        #[arg(long, value_name = "N")]
        count: Option<u64>,
        #[command(flatten)]
        of: SpaceArgs,
    },
    /// Drop pages whose window is empty, now
    #[command(after_help = help("", &["hot cleanup --store redis://127.0.0.1:6379"]))]
    Cleanup(SpaceArgs),
    /// See the spaces and what they are bounded by
    #[command(after_help = help("", &["hot spaces --json"]))]
    Spaces(TargetArgs),
    /// Feed a file of edits, by its own times or live, and show the hottest; a space that only counts counts one for each
    #[command(after_help = REPLAY_EXAMPLES)]
    Replay(ReplayArgs),
    /// Watch the hottest pages in the terminal; q quits
    #[command(after_help = help("", &["hot top", "hot top --once --json --store redis://127.0.0.1:6379"]))]
    Top {
        /// Show it once, and end
        #[arg(long)]
        once: bool,
        /// How many at most, up to 100
        #[arg(long, default_value_t = 20)]
        limit: u32,
        /// How often it is drawn anew
        #[arg(long, default_value = "1s", value_name = "TIME", value_parser = humantime::parse_duration)]
        interval: std::time::Duration,
        #[command(flatten)]
        of: SpaceArgs,
    },
}

#[derive(Debug, Args)]
pub(in crate::cli) struct PageArgs {
    /// The page
    pub(in crate::cli) page: String,
    #[command(flatten)]
    pub(in crate::cli) of: SpaceArgs,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ReplayArgs {
    /// A JSON object per line, gzip or not; - is standard input
    pub(in crate::cli) file: PathBuf,
    #[command(flatten)]
    pub(in crate::cli) fields: FieldArgs,
    /// The space whose settings apply
    #[arg(long, default_value = DEFAULT_SPACE)]
    pub(in crate::cli) space: String,
    /// Where to: with the file's clock a namespace of its own there [default: memory:]
    #[arg(long, value_name = "URL")]
    pub(in crate::cli) store: Option<String>,
    /// The namespace on --store, which must be nobody else's [default: a new one]
    #[arg(long, value_name = "NAME", requires = "store", conflicts_with = "rate")]
    pub(in crate::cli) namespace: Option<String>,
    /// Live instead of by the file's clock: so many edits per second, as if made now
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(in crate::cli) rate: Option<u32>,
    /// The server to send to, with --rate [default: http://127.0.0.1:8080]
    #[arg(long, value_name = "URL", requires = "rate", conflicts_with = "store")]
    pub(in crate::cli) server: Option<String>,
    /// How far a row's time may be from those around it, by the file's clock; further off it is skipped
    #[arg(long, value_name = "TIME", default_value = "1d", value_parser = humantime::parse_duration, conflicts_with = "rate")]
    pub(in crate::cli) max_gap: std::time::Duration,
    /// How many of the hottest to show, up to 1000
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(0..=1000))]
    pub(in crate::cli) top: u32,
    /// Answer in JSON
    #[arg(long)]
    pub(in crate::cli) json: bool,
    #[command(flatten)]
    pub(in crate::cli) settings: SettingsArgs,
}

/// Which fields of a line make an edit.
#[derive(Debug, Args)]
pub(in crate::cli) struct FieldArgs {
    /// The field with the page; several are joined. A field inside another is a.b
    #[arg(long, value_name = "FIELD,...", value_delimiter = ',', default_value = "page")]
    pub(in crate::cli) page_field: Vec<String>,
    /// What several fields are joined with
    #[arg(long, value_name = "TEXT", default_value = ":")]
    pub(in crate::cli) join: String,
    /// The field with the time: milliseconds since 1970 or RFC 3339
    #[arg(long, value_name = "FIELD", default_value = "time")]
    pub(in crate::cli) time_field: String,
    /// The field with the editor
    #[arg(long, value_name = "FIELD", default_value = "user")]
    pub(in crate::cli) editor_field: String,
    /// The field with the bytes that the page grew by
    #[arg(long, value_name = "FIELD", default_value = "delta")]
    pub(in crate::cli) delta_field: String,
    /// The field with the edit's id [default: the number of the line]
    #[arg(long, value_name = "FIELD")]
    pub(in crate::cli) id_field: Option<String>,
}

const REPLAY_EXAMPLES: &str = "\
The file's own times drive the clock, so a day is replayed in seconds, in this process or
on a Redis, in a namespace of its own whose keys end by themselves.

Examples:
  tidegate hot replay edits.json.gz --page-field channel,page --top 20
  tidegate hot replay edits.jsonl --store redis://127.0.0.1:6379 --set hot.main.window_duration=30m
  zcat edits.gz | tidegate hot replay - --rate 500 --server http://127.0.0.1:8080";
