//! What can be written behind `tidegate rules`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::api::rule::{Query, STATE_NAMES};
use crate::api::rule_import::{EXPORT_FORMAT_NAMES, FORMAT_NAMES};
use crate::cli::args::LAST;
use crate::cli::help;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct RulesArgs {
    #[command(subcommand)]
    pub(in crate::cli) command: RulesCommand,
}

const EXAMPLES: &str = "\
Exit codes: 0 done, 1 the answer is no (refused, there is none), 2 wrong usage or no answer.

Examples:
  tidegate rules add --id manual --path '/docs/*' --append-rest https://example.com/manual
  tidegate rules add https://example.com/a/long/address
  tidegate rules list --host '*.example.com'
  tidegate rules resolve https://www.example.com/docs/start
  tidegate rules rm manual
  tidegate rules import rules.csv --dry-run
  tidegate rules export rules.csv";

/// Whom to talk to.
#[derive(Debug, Args)]
pub(in crate::cli) struct RulesTarget {
    /// The server
    #[arg(long, display_order = LAST, value_name = "URL", default_value = "http://127.0.0.1:8080")]
    pub(in crate::cli) server: String,
    /// Use this database directly: sqlite:FILE, while no server does, or postgres://…
    #[arg(long, display_order = LAST + 1, value_name = "URL", conflicts_with = "server")]
    pub(in crate::cli) rules: Option<String>,
    /// Answer in JSON
    #[arg(long, display_order = LAST + 2)]
    pub(in crate::cli) json: bool,
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum RulesCommand {
    /// Make a rule
    #[command(after_help = ADD_EXAMPLES)]
    Add {
        /// Where to: https:, http:, or a path on the same host
        destination: String,
        /// Its identity; made, with its path, unless given
        #[arg(long)]
        id: Option<String>,
        #[command(flatten)]
        terms: TermArgs,
        #[command(flatten)]
        target: RulesTarget,
    },
    /// See a rule
    #[command(after_help = help("0 there it is, 1 there is none", &["rules get manual", "rules get manual --json"]))]
    Get {
        /// Its id
        id: String,
        #[command(flatten)]
        target: RulesTarget,
    },
    /// See rules, page by page
    #[command(after_help = help("", &["rules list --path /docs/", "rules list --state ended --limit 1000 --json"]))]
    List {
        #[command(flatten)]
        filter: FilterArgs,
        #[command(flatten)]
        target: RulesTarget,
    },
    /// Change some of a rule
    #[command(after_help = SET_EXAMPLES)]
    Set {
        /// Its id
        id: String,
        /// Where to
        #[arg(long, value_name = "URL")]
        destination: Option<String>,
        #[command(flatten)]
        terms: TermArgs,
        /// What to take away: as if it had never been given; may be repeated
        #[arg(long, value_name = "NAME", value_parser = OPTIONAL)]
        unset: Vec<String>,
        /// Refuse unless the rule is of this version
        #[arg(long, value_name = "NUMBER")]
        version: Option<u64>,
        #[command(flatten)]
        target: RulesTarget,
    },
    /// Delete a rule
    #[command(after_help = help("0 deleted, 1 refused (there is none, another version)", &["rules rm manual", "rules rm manual --version 3"]))]
    Rm {
        /// Its id
        id: String,
        /// Refuse unless the rule is of this version
        #[arg(long, value_name = "NUMBER")]
        version: Option<u64>,
        #[command(flatten)]
        target: RulesTarget,
    },
    /// See which rule answers a request, and what is sent
    #[command(after_help = help("0 there is one, 1 there is none", &["rules resolve 'https://www.example.com/docs/start?a=1'", "rules resolve www.example.com/docs"]))]
    Resolve {
        /// The address that is asked for, with or without its scheme
        url: String,
        #[command(flatten)]
        target: RulesTarget,
    },
    /// Import a list, ours or somebody else's, as one change or not at all
    #[command(after_help = IMPORT_EXAMPLES)]
    Import(ImportArgs),
    /// Write all rules to a list, which is imported as it is
    #[command(after_help = EXPORT_EXAMPLES)]
    Export(ExportArgs),
    /// Say that the database may have gone back, since a backup was put in its place
    #[command(after_help = NEW_EPOCH_EXAMPLES)]
    NewEpoch(RulesTarget),
}

/// What can be said of a rule, beside where it leads.
#[derive(Debug, Args)]
pub(in crate::cli) struct TermArgs {
    /// A host, '*.example.com' for it and all below, or '*' for any [default: *]
    #[arg(long)]
    pub(in crate::cli) host: Option<String>,
    /// A path, or '/docs/*' for /docs and all below
    #[arg(long)]
    pub(in crate::cli) path: Option<String>,
    /// 301, 302, 307 or 308 [default: 302]
    #[arg(long)]
    pub(in crate::cli) code: Option<u64>,
    /// Append what a request has below '/docs/*' to the destination [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    pub(in crate::cli) append_rest: Option<bool>,
    /// What becomes of the query of a request [default: off]
    #[arg(long, value_enum)]
    pub(in crate::cli) query: Option<Query>,
    /// From when on it answers: RFC 3339, or milliseconds since 1970
    #[arg(long, value_name = "MOMENT", value_parser = moment)]
    pub(in crate::cli) starts_at: Option<u64>,
    /// The last moment at which it redirects
    #[arg(long, value_name = "MOMENT", value_parser = moment)]
    pub(in crate::cli) expires_at: Option<u64>,
    /// How often it redirects
    #[arg(long, value_name = "NUMBER")]
    pub(in crate::cli) max_clicks: Option<u64>,
    /// Where to when it has ended
    #[arg(long, value_name = "URL")]
    pub(in crate::cli) fallback: Option<String>,
    /// For how long clients may remember a permanent redirect
    #[arg(long, value_name = "SECONDS")]
    pub(in crate::cli) max_age: Option<u64>,
    /// A word to find it by; may be repeated
    #[arg(long = "tag", value_name = "WORD")]
    pub(in crate::cli) tags: Vec<String>,
    /// Whether it answers at all [default: true]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    pub(in crate::cli) enabled: Option<bool>,
    /// For people
    #[arg(long)]
    pub(in crate::cli) note: Option<String>,
}

/// Which rules.
#[derive(Debug, Clone, Args)]
pub(in crate::cli) struct FilterArgs {
    /// Those whose path starts so
    #[arg(long)]
    pub(in crate::cli) path: Option<String>,
    /// Those of this host, as a rule has it
    #[arg(long)]
    pub(in crate::cli) host: Option<String>,
    /// Those with this tag
    #[arg(long)]
    pub(in crate::cli) tag: Option<String>,
    /// Those whose destination starts so
    #[arg(long, value_name = "URL")]
    pub(in crate::cli) destination: Option<String>,
    /// Those that are so now
    #[arg(long, value_parser = STATE_NAMES)]
    pub(in crate::cli) state: Option<String>,
    /// How many at most, up to 1000
    #[arg(long, default_value_t = 100)]
    pub(in crate::cli) limit: u32,
    /// From here on: the last line of the page before
    #[arg(long, value_name = "PLACE")]
    pub(in crate::cli) cursor: Option<String>,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ImportArgs {
    /// The list, packed with gzip or not; - is standard input
    pub(in crate::cli) file: PathBuf,
    /// How it is written; known by the name of a file like rules.csv, rules.jsonl, _redirects, vercel.json, nginx.conf or
    /// .htaccess
    #[arg(long, value_parser = FORMAT_NAMES)]
    pub(in crate::cli) format: Option<String>,
    /// The host of rules that name none [default: *]
    #[arg(long)]
    pub(in crate::cli) host: Option<String>,
    /// Delete all rules that the list does not have
    #[arg(long)]
    pub(in crate::cli) replace: bool,
    /// Write what is good though something is not
    #[arg(long, conflicts_with = "replace")]
    pub(in crate::cli) partial: bool,
    /// Only say what would be
    #[arg(long)]
    pub(in crate::cli) dry_run: bool,
    #[command(flatten)]
    pub(in crate::cli) target: RulesTarget,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ExportArgs {
    /// Where to; it is there when it is whole, and what was there stays until then
    #[arg(default_value = "-")]
    pub(in crate::cli) file: PathBuf,
    /// How to write it; known by the name of a file like rules.csv or rules.jsonl [default: csv]
    #[arg(long, value_parser = EXPORT_FORMAT_NAMES)]
    pub(in crate::cli) format: Option<String>,
    #[command(flatten)]
    pub(in crate::cli) target: RulesTarget,
}

/// What a rule can be without.
const OPTIONAL: [&str; 12] = [
    "host",
    "code",
    "append-rest",
    "query",
    "starts-at",
    "expires-at",
    "max-clicks",
    "fallback",
    "max-age",
    "tags",
    "enabled",
    "note",
];

fn moment(text: &str) -> Result<u64, String> {
    crate::moment::parse(text).map(|at| at.as_millis())
}

const ADD_EXAMPLES: &str = "\
Exit codes: 0 made, or it was made so before; 1 refused (the id or the path is another rule's); 2 wrong usage or no
answer. Sent again by the same id it is made once.

Examples:
  tidegate rules add --id manual --path '/docs/*' --append-rest https://example.com/manual
  tidegate rules add --host go.example.com --expires-at 2030-01-01T00:00:00Z --fallback /over https://example.com/sale
  tidegate rules add https://example.com/a/long/address";

const SET_EXAMPLES: &str = "\
Exit codes: 0 it is so now, 1 refused (there is none, the path is another's, another version), 2 wrong usage or no answer.

Examples:
  tidegate rules set manual --destination https://example.com/other
  tidegate rules set manual --unset expires-at --enabled=false --version 3";

const IMPORT_EXAMPLES: &str = "\
What is wrong with which line goes to standard error. What has no counterpart here, such as a regular expression, is a
problem, and never turned into something similar.

Exit codes: 0 it is so now, or would be; 1 refused, or would be: there are problems and nothing was written; 2 wrong usage
or no answer. Imported again, a list changes nothing that is so already.

Examples:
  tidegate rules import rules.csv --dry-run
  tidegate rules import redirects.conf --format nginx --host www.example.com
  tidegate rules export --server http://one:8080 | tidegate rules import - --format csv --replace";

const EXPORT_EXAMPLES: &str = "\
Examples:
  tidegate rules export rules.csv
  tidegate rules export --format jsonl | gzip > rules.jsonl.gz";

const NEW_EPOCH_EXAMPLES: &str = "\
All who follow the changes begin anew. Run it on a file that was put back before a server has it again.

Example:
  tidegate rules new-epoch --rules sqlite:rules.db";
