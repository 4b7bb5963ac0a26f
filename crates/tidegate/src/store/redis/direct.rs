//! A store without lanes: for who looks at all of it, whatever state it is in.
//!
//! A [`RedisStore`](super::RedisStore) refuses a store that is not what the settings say. Whoever is
//! to say what is wrong with one needs another way: every server by itself, and scripts on a
//! partition, one at a time, without markers, breakers or anything in the background.

use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, Value};

use super::failure::Failure;
use super::link::{Links, MAX_ENDS, MAX_MOVES, Node, is_cluster};
use super::script::Script;
use crate::clock::{self, Clock};
use crate::error::Result;
use crate::outage::OutageReason;
use crate::store::StoreOptions;
use crate::store::keyspace::Keyspace;

/// How long an answer is waited for, at least: nobody waits for a single step, and late is better
/// than never.
const LEAST_DEADLINE: Duration = Duration::from_secs(10);

/// How long a server that is moving a slot, or starting, is given between two attempts.
const PAUSE: Duration = Duration::from_millis(100);

/// How often one that says so is asked again.
const MAX_PAUSES: usize = 20;

/// Connections to all servers of a store.
#[derive(Debug)]
pub(crate) struct Direct {
    links: Arc<Links>,
    pub(crate) keyspace: Keyspace,
    clock: Clock,
    deadline: Duration,
}

impl Direct {
    /// For a store that has so many partitions.
    pub(crate) fn new(url: &str, options: &StoreOptions, partitions: u32) -> Result<Self> {
        let namespace = options.namespace.as_ref();
        let keyspace = Keyspace::new(namespace, Some(partitions), options.hash_key, is_cluster(url))?;
        let slots = (0..partitions).map(|partition| keyspace.slot(partition)).collect();
        let links = Arc::new(Links::new(url, options)?.with_slots(slots));
        let deadline = options.deadline.max(LEAST_DEADLINE);
        Ok(Self { links, keyspace, clock: options.clock.clone(), deadline })
    }

    pub(crate) fn is_cluster(&self) -> bool {
        self.links.is_cluster()
    }

    /// How much longer than their data keys live.
    pub(crate) fn slack_ms(&self) -> u64 {
        self.clock.slack_ms()
    }

    /// The time that a test set, as scripts want it.
    pub(crate) fn time(&self) -> String {
        match &self.clock {
            Clock::System(_) => String::new(),
            Clock::Manual(clock) => clock.now().as_millis().to_string(),
        }
    }

    /// All masters.
    pub(crate) async fn masters(&self) -> Result<Vec<Node>> {
        self.links.masters().await.map_err(|failure| self.error(failure))
    }

    /// A server that another one has named.
    pub(crate) fn node(&self, host: &str, port: u16) -> Node {
        self.links.node(host, port)
    }

    /// Sends a command that only reads to one server.
    pub(crate) async fn send(&self, node: &Node, command: &Cmd) -> Result<Value> {
        self.within(node.query(&self.links, command)).await.map_err(|failure| self.error(failure))
    }

    /// Runs a script on a partition. It must be one that can be run twice.
    pub(crate) async fn run(
        &self,
        partition: u32,
        script: &Script,
        keys: &[&str],
        args: &[&str],
    ) -> Result<Value> {
        let slot = self.keyspace.slot(partition);
        let (mut ends, mut moves, mut pauses) = (0, 0, 0);
        loop {
            let ran = self.within(async {
                let mut link = self.links.get(slot).await?;
                script.run(&mut link, keys, args).await
            });
            match ran.await {
                Err(failure) if failure.is_cut() && ends < MAX_ENDS => ends += 1,
                Err(Failure::Moved) if moves < MAX_MOVES => moves += 1,
                Err(failure) if is_for_now(&failure) && pauses < MAX_PAUSES => {
                    pauses += 1;
                    tokio::time::sleep(PAUSE).await;
                }
                answer => return answer.map_err(|failure| self.error(failure)),
            }
        }
    }

    async fn within(&self, answer: impl Future<Output = Result<Value, Failure>>) -> Result<Value, Failure> {
        match tokio::time::timeout_at(clock::deadline(self.deadline), answer).await {
            Ok(answer) => answer,
            Err(_) => {
                let text = "the store does not answer in time";
                Err(Failure::Away(OutageReason::Timeout, text.to_owned()))
            }
        }
    }

    fn error(&self, failure: Failure) -> crate::Error {
        failure.into_error(self.links.is_cluster())
    }
}

/// Whether the server can be expected to answer soon.
fn is_for_now(failure: &Failure) -> bool {
    ["TRYAGAIN", "CLUSTERDOWN", "LOADING"].iter().any(|code| failure.has_code(code))
}
