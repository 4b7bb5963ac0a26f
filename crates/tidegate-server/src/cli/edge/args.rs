//! What can be written behind `tidegate edge`.

use clap::{Args, Subcommand};

use crate::cli::args::{LAST, SettingsArgs, flag};
use crate::cli::help;
use crate::settings::Sources;

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, after_help = EXAMPLES)]
pub(in crate::cli) struct EdgeArgs {
    #[command(subcommand)]
    pub(super) command: Option<EdgeCommand>,
    #[command(flatten)]
    pub(super) worker: WorkerArgs,
}

const EXAMPLES: &str = "\
Without a command, it is a worker: it follows the rules of a server and redirects by them. The lines on standard
output are its addresses: of the API if there is one, then of redirects.

Examples:
  tidegate edge --origin http://10.0.0.5:8080 --edge-listen 0.0.0.0:80
  tidegate edge --origin http://10.0.0.5:8080 --edge-listen 0.0.0.0:80 --listen 127.0.0.1:8081
  tidegate edge --origin http://10.0.0.5:8080 --edge-listen 0.0.0.0:80 --partition a --of a,b,c --replicas 2
  tidegate edge report
  tidegate edge explain https://www.example.com/docs/start";

/// A worker alone.
#[derive(Debug, Args)]
pub(super) struct WorkerArgs {
    /// Server whose rules are followed
    #[arg(long, value_name = "URL")]
    origin: Option<String>,
    /// Address to serve redirects on, for everybody; port 0 picks a free one
    #[arg(long, value_name = "ADDR")]
    edge_listen: Option<String>,
    /// Address to listen on for probes, metrics and questions [default: none]
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,
    /// What this worker is called, of those that share the rules
    #[arg(long, value_name = "NAME", requires = "of")]
    partition: Option<String>,
    /// Names of all workers that share the rules, with commas between
    #[arg(long, value_name = "LIST", requires = "partition")]
    of: Option<String>,
    /// How many of them keep each rule [default: 1]
    #[arg(long, value_name = "COUNT", requires = "of")]
    replicas: Option<String>,
    #[command(flatten)]
    settings: SettingsArgs,
}

impl WorkerArgs {
    pub(super) fn sources(&self) -> Sources {
        let mut sources = self.settings.sources();
        let given = [
            ("--origin", "edge.origin", &self.origin),
            ("--edge-listen", "edge.listen", &self.edge_listen),
            ("--listen", "listen", &self.listen),
            ("--partition", "edge.name", &self.partition),
            ("--of", "edge.of", &self.of),
            ("--replicas", "edge.replicas", &self.replicas),
        ];
        for (given_as, path, value) in given {
            sources.flags.extend(value.iter().map(|value| flag(given_as, path, value)));
        }
        sources
    }
}

#[derive(Debug, Subcommand)]
pub(super) enum EdgeCommand {
    /// See how a worker's cache is doing
    #[command(after_help = help("", &["edge report", "edge report --server http://127.0.0.1:8081 --json"]))]
    Report {
        #[command(flatten)]
        target: EdgeTarget,
    },
    /// See which rule answers an address, why, from where, and what is sent
    #[command(after_help = help("0 it redirects, 1 it does not", &["edge explain https://www.example.com/docs/start"]))]
    Explain {
        /// The address
        url: String,
        #[command(flatten)]
        target: EdgeTarget,
    },
}

/// Whom to talk to.
#[derive(Debug, Args)]
pub(super) struct EdgeTarget {
    /// The server, or a worker's second address
    #[arg(long, display_order = LAST, value_name = "URL", default_value = "http://127.0.0.1:8080")]
    pub(super) server: String,
    /// Answer in JSON
    #[arg(long, display_order = LAST + 1)]
    pub(super) json: bool,
}
