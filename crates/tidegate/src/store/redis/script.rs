//! Lua scripts: one file per operation, known to the server by their hash.

use redis::Value;

use super::failure::Failure;
use super::link::Link;
use crate::PartKind;

/// A script with everything that stands in front of it.
#[derive(Debug)]
pub(crate) struct Script {
    source: String,
    sha: String,
    /// The part that runs it; none if it is the store's own.
    pub(super) part: Option<PartKind>,
}

impl Script {
    /// A script of a part.
    pub(crate) fn of(part: PartKind, pieces: &[&str]) -> Self {
        Self { part: Some(part), ..Self::new(pieces) }
    }

    /// The prelude, then `pieces` in order.
    pub(crate) fn new(pieces: &[&str]) -> Self {
        let source = [&[include_str!("../prelude.lua")], pieces].concat().join("\n");
        let sha = redis::Script::new(&source).get_hash().to_owned();
        Self { source, sha, part: None }
    }

    /// Runs the script, whether or not the server knows it yet: this is the one
    /// place that handles NOSCRIPT (a restart, a failover, SCRIPT FLUSH). The
    /// server refuses an unknown script before running any of it, so sending the
    /// source then cannot run it twice.
    pub(super) async fn run(&self, link: &mut Link, keys: &[&str], args: &[&str]) -> Result<Value, Failure> {
        match link.send(&command("EVALSHA", &self.sha, keys, args)).await {
            Err(failure) if failure.has_code("NOSCRIPT") => {
                link.send(&command("EVAL", &self.source, keys, args)).await
            }
            answer => answer,
        }
    }
}

fn command(name: &str, script: &str, keys: &[&str], args: &[&str]) -> redis::Cmd {
    let mut command = redis::cmd(name);
    command.arg(script).arg(keys.len()).arg(keys).arg(args);
    command
}
