//! What can be written behind `tidegate limit`.

use clap::{Args, Subcommand};

use crate::cli::args::TargetArgs;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct LimitArgs {
    #[command(subcommand)]
    pub(in crate::cli) command: LimitCommand,
}

const EXAMPLES: &str = "\
Exit codes: 0 done or admitted, 1 refused, 2 wrong usage or no answer.

Examples:
  tidegate limit take api user_123 --cost 5
  tidegate limit peek api user_123 --json
  tidegate limit take rate_limit --everyone
  tidegate limit take api user_123 --store redis://127.0.0.1:6379 --set limits.api.rate=10/s";

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum LimitCommand {
    /// Charge a key, if it fits
    #[command(after_help = TAKE_EXAMPLES)]
    Take {
        #[command(flatten)]
        subject: Subject,
        /// How many permits
        #[arg(long, default_value_t = 1)]
        cost: u64,
        /// Judge by this rate instead of the limit's own, like 10/s
        #[arg(long)]
        rate: Option<String>,
        #[command(flatten)]
        target: TargetArgs,
    },
    /// Charge a key under several limits, or under none of them
    #[command(after_help = TAKE_ALL_EXAMPLES)]
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
    #[command(after_help = CHARGE_EXAMPLES, allow_missing_positional = true)]
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
    #[command(after_help = RELEASE_CHARGE_EXAMPLES, allow_missing_positional = true)]
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
    #[command(after_help = PEEK_EXAMPLES)]
    Peek {
        #[command(flatten)]
        subject: Subject,
        /// For a take of how many permits
        #[arg(long, default_value_t = 1)]
        cost: u64,
        #[command(flatten)]
        target: TargetArgs,
    },
    /// Give back what a take has charged
    #[command(after_help = REFUND_EXAMPLES, allow_missing_positional = true)]
    Refund {
        #[command(flatten)]
        subject: Subject,
        /// What the take answered
        receipt: String,
        #[command(flatten)]
        target: TargetArgs,
    },
    /// Forget what a key has used
    #[command(after_help = RESET_EXAMPLES)]
    Reset {
        #[command(flatten)]
        subject: Subject,
        #[command(flatten)]
        target: TargetArgs,
    },
    /// Judge a key by a rate of its own for a while
    #[command(after_help = SET_OVERRIDE_EXAMPLES)]
    SetOverride {
        #[command(flatten)]
        subject: Subject,
        /// The key's own rate, like 50/s
        #[arg(long)]
        rate: String,
        /// For how long, like 1h; at most 90 days
        #[arg(long, value_name = "TIME")]
        lasting: String,
        #[command(flatten)]
        target: TargetArgs,
    },
    /// See the rate of a key's own
    #[command(after_help = GET_OVERRIDE_EXAMPLES)]
    GetOverride {
        #[command(flatten)]
        subject: Subject,
        #[command(flatten)]
        target: TargetArgs,
    },
    /// End the rate of a key's own
    #[command(after_help = CLEAR_OVERRIDE_EXAMPLES)]
    ClearOverride {
        #[command(flatten)]
        subject: Subject,
        #[command(flatten)]
        target: TargetArgs,
    },
    /// Hold permits until they are committed or released; twice with one id holds them once
    #[command(after_help = RESERVE_EXAMPLES, allow_missing_positional = true)]
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
        #[command(flatten)]
        target: TargetArgs,
    },
    /// Spend what is held
    #[command(after_help = COMMIT_EXAMPLES, allow_missing_positional = true)]
    Commit {
        #[command(flatten)]
        subject: Subject,
        /// What it was called
        id: String,
        #[command(flatten)]
        target: TargetArgs,
    },
    /// Give back what is held
    #[command(after_help = RELEASE_EXAMPLES, allow_missing_positional = true)]
    Release {
        #[command(flatten)]
        subject: Subject,
        /// What it was called
        id: String,
        #[command(flatten)]
        target: TargetArgs,
    },
    /// See where a reservation stands
    #[command(after_help = RESERVATION_EXAMPLES, allow_missing_positional = true)]
    Reservation {
        #[command(flatten)]
        subject: Subject,
        /// What it was called
        id: String,
        #[command(flatten)]
        target: TargetArgs,
    },
    /// See the keys that have a rate of their own, the first to end first
    #[command(after_help = OVERRIDES_EXAMPLES)]
    Overrides {
        #[command(flatten)]
        page: PageOf,
        #[command(flatten)]
        target: TargetArgs,
    },
    /// See what is held and neither committed nor released, the first to end first
    #[command(after_help = RESERVATIONS_EXAMPLES)]
    Reservations {
        #[command(flatten)]
        page: PageOf,
        #[command(flatten)]
        target: TargetArgs,
    },
    /// See the limits and their numbers
    #[command(after_help = LIST_EXAMPLES)]
    List {
        #[command(flatten)]
        target: TargetArgs,
    },
}

/// A limit, and a part of a list.
#[derive(Debug, Args)]
pub(in crate::cli) struct PageOf {
    /// The limit's name
    pub(in crate::cli) limit: String,
    /// How many at most
    #[arg(long = "limit", value_name = "COUNT", default_value_t = 100)]
    pub(in crate::cli) count: usize,
    /// Where to go on, as the page before told it
    #[arg(long)]
    pub(in crate::cli) cursor: Option<String>,
}

/// A limit and whose.
#[derive(Debug, Args)]
pub(in crate::cli) struct Subject {
    /// The limit's name
    pub(in crate::cli) limit: String,
    #[command(flatten)]
    pub(in crate::cli) whose: Whose,
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

const TAKE_EXAMPLES: &str = "\
Exit codes: 0 admitted, 1 refused, 2 wrong usage or no answer.

Examples:
  tidegate limit take api user_123 --cost 5
  tidegate limit take rate_limit --everyone";

const TAKE_ALL_EXAMPLES: &str = "\
Exit codes: 0 admitted by all, 1 refused, 2 wrong usage or no answer.

Example:
  tidegate limit take-all second,hour,bytes=1500 user_123";

const CHARGE_EXAMPLES: &str = "\
Exit codes: 0 charged, now or before, 1 refused or released, 2 wrong usage or no answer.

Example:
  tidegate limit charge second,hour=3 user_123 order-4711";

const RELEASE_CHARGE_EXAMPLES: &str = "\
Exit codes: 0 released, 1 there is none, 2 wrong usage or no answer.

Example:
  tidegate limit release-charge second,hour user_123 order-4711";

const PEEK_EXAMPLES: &str = "\
Exit codes: 0 such a take would be admitted, 1 refused, 2 wrong usage or no answer.

Example:
  tidegate limit peek api user_123 --cost 5 --json";

const REFUND_EXAMPLES: &str = "\
Example:
  tidegate limit refund api user_123 191439518785-0-1-5f0c8d21b7e3a94c";

const RESET_EXAMPLES: &str = "\
Example:
  tidegate limit reset api user_123";

const SET_OVERRIDE_EXAMPLES: &str = "\
Example:
  tidegate limit set-override api user_123 --rate 50/s --lasting 1h";

const GET_OVERRIDE_EXAMPLES: &str = "\
Exit codes: 0 it has one, 1 it has none, 2 wrong usage or no answer.

Example:
  tidegate limit get-override api user_123";

const CLEAR_OVERRIDE_EXAMPLES: &str = "\
Example:
  tidegate limit clear-override api user_123";

const RESERVE_EXAMPLES: &str = "\
Exit codes: 0 held, 1 refused, 2 wrong usage or no answer.

Example:
  tidegate limit reserve api user_123 order-4711 --cost 3 --lasting 30s";

const COMMIT_EXAMPLES: &str = "\
Exit codes: 0 committed, 1 released or lapsed, or there is none, 2 wrong usage or no answer.

Example:
  tidegate limit commit api user_123 order-4711";

const RELEASE_EXAMPLES: &str = "\
Exit codes: 0 released, 1 committed or lapsed, or there is none, 2 wrong usage or no answer.

Example:
  tidegate limit release api user_123 order-4711";

const RESERVATION_EXAMPLES: &str = "\
Exit codes: 0 there is one, 1 there is none, 2 wrong usage or no answer.

Example:
  tidegate limit reservation api user_123 order-4711 --json";

const OVERRIDES_EXAMPLES: &str = "\
Example:
  tidegate limit overrides api --limit 20";

const RESERVATIONS_EXAMPLES: &str = "\
Example:
  tidegate limit reservations api --json";

const LIST_EXAMPLES: &str = "\
Example:
  tidegate limit list --json";
