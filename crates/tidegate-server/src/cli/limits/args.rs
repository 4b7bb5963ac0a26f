//! What can be written behind `tidegate limit`.

use clap::{Args, Subcommand};

use crate::cli::{TargetArgs, help};

#[derive(Debug, Args)]
#[command(after_help = help(
    "0 done or admitted, 1 refused",
    &[
        "limit take api user_123 --cost 5",
        "limit peek api user_123 --json",
        "limit take rate_limit --everyone",
        "limit take api user_123 --store redis://127.0.0.1:6379 --set limits.api.rate=10/s",
    ],
))]
pub(in crate::cli) struct LimitArgs {
    #[command(subcommand)]
    pub(in crate::cli) command: LimitCommand,
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum LimitCommand {
    /// Charge a key, if it fits
    #[command(after_help = help(
        "0 admitted, 1 refused",
        &["limit take api user_123 --cost 5", "limit take rate_limit --everyone"],
    ))]
    Take {
        #[command(flatten)]
        subject: Subject,
        /// How many permits
        #[arg(long, default_value_t = 1)]
        cost: u64,
        /// Judge by this rate instead of the limit's own, like 10/s
        #[arg(long)]
        rate: Option<String>,
    },
    /// Charge a key under several limits, or under none of them
    #[command(after_help = help(
        "0 admitted by all, 1 refused",
        &["limit take-all second,hour,bytes=1500 user_123"],
    ))]
    TakeAll {
        /// The limits' names, each with its cost unless that is 1
        #[arg(value_name = "LIMIT[=COST],...", value_parser = Costs::parse)]
        limits: Costs,
        #[command(flatten)]
        whose: Whose,
        #[command(flatten)]
        target: TargetArgs,
    },
    /// Charge a key under several limits, or under none of them, by an id; twice with one id charges once
    #[command(
        allow_missing_positional = true,
        after_help = help(
            "0 charged, now or before, 1 refused or released",
            &["limit charge second,hour=3 user_123 order-4711"],
        ),
    )]
    Charge {
        /// The limits' names, each with its cost unless that is 1
        #[arg(value_name = "LIMIT[=COST],...", value_parser = Costs::parse)]
        limits: Costs,
        #[command(flatten)]
        whose: Whose,
        /// What to call it; ids are remembered for the longest window, at least an hour
        id: String,
        #[command(flatten)]
        target: TargetArgs,
    },
    /// Give back what an id has charged
    #[command(
        allow_missing_positional = true,
        after_help = help("0 released, 1 there is none", &["limit release-charge second,hour user_123 order-4711"]),
    )]
    ReleaseCharge {
        /// The names of all limits that were charged
        #[arg(value_name = "LIMIT,...", value_parser = Costs::parse)]
        limits: Costs,
        #[command(flatten)]
        whose: Whose,
        /// What it was called
        id: String,
        #[command(flatten)]
        target: TargetArgs,
    },
    /// See where a key stands; charges nothing
    #[command(after_help = help(
        "0 such a take would be admitted, 1 refused",
        &["limit peek api user_123 --cost 5 --json"],
    ))]
    Peek {
        #[command(flatten)]
        subject: Subject,
        /// For a take of how many permits
        #[arg(long, default_value_t = 1)]
        cost: u64,
    },
    /// Give back what a take has charged
    #[command(after_help = help(
        "",
        &["limit refund api user_123 191439518785-0-1-5f0c8d21b7e3a94c"],
    ), allow_missing_positional = true)]
    Refund {
        #[command(flatten)]
        subject: Subject,
        /// What the take answered
        receipt: String,
    },
    /// Forget what a key has used
    #[command(after_help = help("", &["limit reset api user_123"]))]
    Reset(Subject),
    /// Judge a key by a rate of its own for a while
    #[command(after_help = help("", &["limit set-override api user_123 --rate 50/s --lasting 1h"]))]
    SetOverride {
        #[command(flatten)]
        subject: Subject,
        /// The key's own rate, like 50/s
        #[arg(long)]
        rate: String,
        /// For how long, like 1h; at most 90 days
        #[arg(long, value_name = "TIME")]
        lasting: String,
    },
    /// See the rate of a key's own
    #[command(after_help = help("0 it has one, 1 it has none", &["limit get-override api user_123"]))]
    GetOverride(Subject),
    /// End the rate of a key's own
    #[command(after_help = help("", &["limit clear-override api user_123"]))]
    ClearOverride(Subject),
    /// Hold permits until they are committed or released; twice with one id holds them once
    #[command(after_help = help(
        "0 held, 1 refused",
        &["limit reserve api user_123 order-4711 --cost 3 --lasting 30s"],
    ), allow_missing_positional = true)]
    Reserve {
        #[command(flatten)]
        subject: Subject,
        /// What to call it; ids are remembered for the window, at least an hour
        id: String,
        /// How many permits
        #[arg(long, default_value_t = 1)]
        cost: u64,
        /// For how long, like 30s; at most the window
        #[arg(long, value_name = "TIME")]
        lasting: String,
    },
    /// Spend what is held
    #[command(after_help = help(
        "0 committed, 1 released or lapsed, or there is none",
        &["limit commit api user_123 order-4711"],
    ), allow_missing_positional = true)]
    Commit(ReservationArgs),
    /// Give back what is held
    #[command(after_help = help(
        "0 released, 1 committed or lapsed, or there is none",
        &["limit release api user_123 order-4711"],
    ), allow_missing_positional = true)]
    Release(ReservationArgs),
    /// See where a reservation stands
    #[command(after_help = help(
        "0 there is one, 1 there is none",
        &["limit reservation api user_123 order-4711 --json"],
    ), allow_missing_positional = true)]
    Reservation(ReservationArgs),
    /// See the keys that have a rate of their own, the first to end first
    #[command(after_help = help("", &["limit overrides api --limit 20"]))]
    Overrides(PageOf),
    /// See what is held and neither committed nor released, the first to end first
    #[command(after_help = help("", &["limit reservations api --json"]))]
    Reservations(PageOf),
    /// See the limits and their numbers
    #[command(after_help = help("", &["limit list --json"]))]
    List(TargetArgs),
}

/// A limit and a part of a list, and whom to talk to about it.
#[derive(Debug, Args)]
pub(in crate::cli) struct PageOf {
    /// The limit's name
    pub(in crate::cli) limit: String,
    /// How many at most
    #[arg(long = "limit", value_name = "COUNT", default_value_t = 100)]
    pub(in crate::cli) count: usize,
    /// Where to go on, as the page before has it
    #[arg(long)]
    pub(in crate::cli) cursor: Option<String>,
    #[command(flatten)]
    pub(in crate::cli) target: TargetArgs,
}

/// A limit and whose, and whom to talk to about it.
#[derive(Debug, Args)]
pub(in crate::cli) struct Subject {
    /// The limit's name
    pub(in crate::cli) limit: String,
    #[command(flatten)]
    pub(in crate::cli) whose: Whose,
    #[command(flatten)]
    pub(in crate::cli) target: TargetArgs,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ReservationArgs {
    #[command(flatten)]
    pub(in crate::cli) subject: Subject,
    /// What it was called
    pub(in crate::cli) id: String,
}

/// A key, or nobody's in particular.
#[derive(Debug, Args)]
pub(in crate::cli) struct Whose {
    /// The key: a user, an address, a page
    #[arg(required_unless_present = "everyone")]
    pub(in crate::cli) key: Option<String>,
    /// No key at all: what everyone shares
    #[arg(long, conflicts_with = "key")]
    everyone: bool,
}

/// Several limits, each with its cost.
#[derive(Debug, Clone)]
pub(in crate::cli) struct Costs(pub(in crate::cli) Vec<(String, u64)>);

impl Costs {
    fn parse(text: &str) -> Result<Self, String> {
        text.split(',').map(one).collect::<Result<_, _>>().map(Self)
    }

    pub(in crate::cli) fn names(&self) -> Vec<&str> {
        self.0.iter().map(|(limit, _)| limit.as_str()).collect()
    }
}

/// `LIMIT` or `LIMIT=COST`.
fn one(text: &str) -> Result<(String, u64), String> {
    let (name, cost) = text.split_once('=').unwrap_or((text, "1"));
    let cost = cost.parse().map_err(|_| format!("a cost of {cost:?} is not allowed: whole numbers are"))?;
    Ok((name.to_owned(), cost))
}
