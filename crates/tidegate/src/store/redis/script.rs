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
    /// How many calls travel together at most.
    pub(super) batch: usize,
}

/// Calls per round trip. More would save little of a server's time and keep it
/// and us from working at the same time: with 64 callers, 16 is 10 % faster than
/// 64. It also bounds how long one batch keeps a server busy: 70 µs, or 2.4 ms if
/// each is the worst there is, a refusal by a key with 128 live buckets.
pub(super) const BATCH: usize = 16;

/// The same of scripts that take long to begin and say themselves when it is enough.
pub(super) const LARGEST_BATCH: usize = 32;

impl Script {
    /// A script of a part.
    pub(crate) fn of(part: PartKind, pieces: &[&str]) -> Self {
        Self { part: Some(part), ..Self::new(pieces) }
    }

    /// The prelude, then `pieces` in order.
    pub(crate) fn new(pieces: &[&str]) -> Self {
        let source = [&[include_str!("../prelude.lua")], pieces].concat().join("\n");
        let sha = redis::Script::new(&source).get_hash().to_owned();
        Self { source, sha, part: None, batch: BATCH }
    }

    /// The same, for a script whose beginning takes as long as several calls, and which does no more in one than it should.
    pub(crate) fn in_large_batches(self) -> Self {
        Self { batch: LARGEST_BATCH, ..self }
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
