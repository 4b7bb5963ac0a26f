//! Connections: one per server, replaced when it breaks; in a cluster, the one
//! that serves a slot.
//!
//! A partition is one slot, so a lane only ever asks for "the server of my slot".
//! Servers are kept apart: one that hangs delays nobody who talks to another.
//! That is why this does not use the client's own cluster connection, which stops
//! for all slots while it reconnects to one server.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use parking_lot::Mutex;
use redis::{Cmd, Value};

use super::super::StoreOptions;
use super::super::keyspace::Slot;
use super::connection::Connection;
use super::dial::{Address, Dial};
use super::failure::Failure;
use crate::clock;
use crate::error::Result;
use crate::outage::OutageReason;

/// How often a call follows its slot to another server before giving up.
pub(super) const MAX_MOVES: usize = 5;

/// How often something that does no harm twice is tried on the next connection, if the one
/// there was ends.
pub(super) const MAX_ENDS: usize = 3;

/// One server and the connection to it.
#[derive(Debug)]
struct Server {
    address: Address,
    current: Mutex<Option<(u64, Connection)>>,
    connecting: tokio::sync::Mutex<()>,
}

/// All servers. Sentinel will be a third way to find the right one.
#[derive(Debug)]
pub(super) struct Links {
    dial: Dial,
    /// Connections made so far; the next one's number is one more.
    made: AtomicU64,
    servers: Servers,
}

#[derive(Debug)]
enum Servers {
    Single(Arc<Server>),
    Cluster(Cluster),
}

#[derive(Debug, Default)]
struct Cluster {
    /// By address; those in the URL are always there.
    known: Mutex<HashMap<Address, Arc<Server>>>,
    owners: Mutex<HashMap<Slot, Owner>>,
    /// The slots that are asked for.
    slots: Vec<Slot>,
    refreshing: tokio::sync::Mutex<()>,
}

/// A connection to a server, and whether it was just made.
struct Connected {
    number: u64,
    is_new: bool,
    connection: Connection,
}

/// A server that is talked to for its own sake, and not for that of a slot.
#[derive(Debug, Clone)]
pub(crate) struct Node(Arc<Server>);

impl Node {
    /// Its address, for people.
    pub(crate) fn address(&self) -> String {
        self.0.address.to_string()
    }

    /// Sends a command that only reads.
    pub(super) async fn query(&self, links: &Links, command: &Cmd) -> Result<Value, Failure> {
        self.0.query(links, &command.get_packed_command()).await
    }
}

/// Who serves a slot, as far as is known.
#[derive(Debug, Clone)]
struct Owner {
    server: Arc<Server>,
    /// It could not be reached, and another may have taken over.
    is_doubtful: bool,
}

/// An open connection to the server of a slot.
pub(super) struct Link {
    links: Arc<Links>,
    slot: Slot,
    server: Arc<Server>,
    /// Tells one connection from the next.
    pub(super) number: u64,
    /// Whether it was made for this.
    pub(super) is_new: bool,
    pub(super) connection: Connection,
}

impl Link {
    /// Sends one command. It is sent again only where the server has said that
    /// it did nothing: the slot is being moved. Once it has been, whoever asks has to
    /// begin anew, since nothing is known yet of the other server's marker.
    pub(super) async fn send(&mut self, command: &Cmd) -> Result<Value, Failure> {
        let answer = self.connection.send(command.get_packed_command(), 1).await;
        let Err(failure) = &answer else { return answer };
        let (Servers::Cluster(cluster), Some((address, is_ask))) = (&self.links.servers, failure.redirect())
        else {
            return answer;
        };
        let Some(address) = read_address(address, &self.server.address.host) else { return answer };
        let server = cluster.server(address);
        if !is_ask {
            cluster.owners.lock().insert(self.slot, Owner { server, is_doubtful: false });
            return Err(Failure::Moved);
        }
        // Every script names the marker, and the other server runs one only if all its keys
        // have arrived: the marker is the one that was read where it comes from.
        let connected = server.connect(&self.links).await;
        // Of this command nothing was sent there.
        let unsent = |failure: Failure| if failure.is_cut() { Failure::Unsent } else { failure };
        let Connected { connection, .. } = connected.map_err(unsent)?;
        let mut both = redis::cmd("ASKING").get_packed_command();
        command.write_packed_command(&mut both);
        connection.send(both, 2).await
    }
}

fn unserved(text: &str) -> Failure {
    Failure::Away(OutageReason::ClusterDown, text.to_owned())
}

/// `host:port` as a server at `asked` writes it.
fn read_address(text: &str, queried: &str) -> Option<Address> {
    let (named, port) = text.rsplit_once(':')?;
    let named = named.trim_start_matches('[').trim_end_matches(']');
    Some(Address { host: host(named, queried), port: port.parse().ok()? })
}

/// The host of a server that another one at `asked` has named. Servers that do not know under
/// which name they are reached are where we asked.
fn host(named: &str, queried: &str) -> String {
    let is_unknown = named.is_empty() || named == "?";
    if is_unknown { queried } else { named }.to_owned()
}

impl Links {
    /// For the server or the cluster at `url`.
    pub(super) fn new(url: &str, options: &StoreOptions) -> Result<Self> {
        let made = AtomicU64::new(0);
        if !is_cluster(url) {
            let (dial, address) = Dial::new(url, options)?;
            return Ok(Self { dial, made, servers: Servers::Single(Arc::new(Server::at(address))) });
        }
        let (scheme, rest) = url.split_once("://").unwrap_or((url, ""));
        let scheme = scheme.trim_end_matches("-cluster");
        let (login, addresses) = rest.rsplit_once('@').unwrap_or(("", rest));
        let at = if login.is_empty() { "" } else { "@" };
        let (cluster, mut first) = (Cluster::default(), None);
        for address in addresses.trim_end_matches('/').split(',') {
            let (dial, address) = Dial::new(&format!("{scheme}://{login}{at}{address}"), options)?;
            cluster.server(address);
            first.get_or_insert(dial);
        }
        match first {
            Some(dial) => Ok(Self { dial, made, servers: Servers::Cluster(cluster) }),
            None => Err(crate::Error::config("the store's URL cannot be used: it has no host")),
        }
    }

    /// Tells which slots will be asked for.
    pub(super) fn with_slots(mut self, slots: Vec<Slot>) -> Self {
        if let Servers::Cluster(cluster) = &mut self.servers {
            cluster.slots = slots;
        }
        self
    }

    pub(super) fn is_cluster(&self) -> bool {
        matches!(self.servers, Servers::Cluster(_))
    }

    /// The connection to the server of a slot, if there is one.
    pub(super) fn current(self: &Arc<Self>, slot: Slot) -> Option<Link> {
        let server = match &self.servers {
            Servers::Single(server) => server.clone(),
            Servers::Cluster(cluster) => cluster.owner(slot)?,
        };
        let (number, connection) = server.current()?;
        Some(Link { links: self.clone(), slot, server, number, is_new: false, connection })
    }

    /// The same, made if there is none.
    pub(super) async fn get(self: &Arc<Self>, slot: Slot) -> Result<Link, Failure> {
        let (server, connected) = match &self.servers {
            Servers::Single(server) => (server.clone(), server.connect(self).await),
            Servers::Cluster(cluster) => {
                let owner = match cluster.owner(slot) {
                    Some(owner) => owner,
                    None => cluster.find_owner(self, slot).await?,
                };
                let connected = owner.connect(self).await;
                if connected.is_err() {
                    cluster.doubt(slot);
                }
                (owner, connected)
            }
        };
        let Connected { number, is_new, connection } = connected?;
        Ok(Link { links: self.clone(), slot, server, number, is_new, connection })
    }

    /// Drops the connection with this number, if the server of the slot still
    /// has it, so that the next call makes another; in a cluster, to the server
    /// that serves the slot by then.
    pub(super) fn discard(&self, slot: Slot, number: u64) {
        let server = match &self.servers {
            Servers::Single(server) => Some(server.clone()),
            Servers::Cluster(cluster) => cluster.doubt(slot),
        };
        if let Some(server) = server {
            let mut current = server.current.lock();
            if current.as_ref().is_some_and(|(made, _)| *made == number) {
                *current = None;
            }
        }
    }

    /// All masters, those that serve none of our slots too.
    pub(super) async fn masters(&self) -> Result<Vec<Node>, Failure> {
        let cluster = match &self.servers {
            Servers::Single(server) => return Ok(vec![Node(server.clone())]),
            Servers::Cluster(cluster) => cluster,
        };
        let mut addresses: Vec<_> = cluster.served(self).await?.into_iter().map(|it| it.master).collect();
        addresses.sort_by_key(ToString::to_string);
        addresses.dedup();
        Ok(addresses.into_iter().map(|address| Node(cluster.server(address))).collect())
    }

    /// A server that another one has named, to be asked a few things.
    pub(super) fn node(&self, host: &str, port: u16) -> Node {
        Node(Arc::new(Server::at(Address { host: host.to_owned(), port })))
    }

    /// The server of a slot, for people: its address, and never a password.
    pub(super) fn server_of(&self, slot: Slot) -> String {
        match &self.servers {
            Servers::Single(server) => server.address.to_string(),
            Servers::Cluster(cluster) => match cluster.owners.lock().get(&slot) {
                Some(owner) => owner.server.address.to_string(),
                None => "cluster".to_owned(),
            },
        }
    }
}

/// Whether a URL is that of a cluster.
pub(super) fn is_cluster(url: &str) -> bool {
    url.starts_with("redis-cluster://") || url.starts_with("rediss-cluster://")
}

impl Server {
    fn at(address: Address) -> Self {
        Self { address, current: Mutex::new(None), connecting: tokio::sync::Mutex::new(()) }
    }

    /// The connection and its number, if there is one that has not ended.
    fn current(&self) -> Option<(u64, Connection)> {
        self.current.lock().clone().filter(|(_, connection)| !connection.is_ended())
    }

    /// The connection and its number, made if there is none, by one at a time.
    async fn connect(&self, links: &Links) -> Result<Connected, Failure> {
        let there =
            || self.current().map(|(number, connection)| Connected { number, is_new: false, connection });
        if let Some(connected) = there() {
            return Ok(connected);
        }
        let _one_at_a_time = self.connecting.lock().await;
        if let Some(connected) = there() {
            return Ok(connected);
        }
        let connection = links.dial.connect(&self.address).await?;
        let number = links.made.fetch_add(1, Ordering::Relaxed) + 1;
        *self.current.lock() = Some((number, connection.clone()));
        Ok(Connected { number, is_new: true, connection })
    }

    /// Sends a command that only reads. Where a connection ends, or had ended unnoticed, it
    /// is sent on the next.
    async fn query(&self, links: &Links, command: &[u8]) -> Result<Value, Failure> {
        let mut ends = 0;
        loop {
            let answer = match self.connect(links).await {
                Ok(Connected { connection, .. }) => connection.send(command.to_vec(), 1).await,
                Err(failure) => Err(failure),
            };
            match answer {
                Err(failure) if failure.is_cut() && ends < MAX_ENDS => ends += 1,
                answer => return answer,
            }
        }
    }
}

impl Cluster {
    /// The server at an address.
    fn server(&self, address: Address) -> Arc<Server> {
        let mut known = self.known.lock();
        known.entry(address.clone()).or_insert_with(|| Arc::new(Server::at(address))).clone()
    }

    fn owner(&self, slot: Slot) -> Option<Arc<Server>> {
        let owners = self.owners.lock();
        owners.get(&slot).filter(|owner| !owner.is_doubtful).map(|owner| owner.server.clone())
    }

    /// Has the owner of a slot looked for before it is asked again; who it was.
    fn doubt(&self, slot: Slot) -> Option<Arc<Server>> {
        let mut owners = self.owners.lock();
        let owner = owners.get_mut(&slot).filter(|owner| !owner.is_doubtful)?;
        owner.is_doubtful = true;
        Some(owner.server.clone())
    }

    /// Who serves a slot, as the cluster says now.
    async fn find_owner(&self, links: &Links, slot: Slot) -> Result<Arc<Server>, Failure> {
        let _one_at_a_time = self.refreshing.lock().await;
        if let Some(owner) = self.owner(slot) {
            return Ok(owner);
        }
        for served in self.served(links).await? {
            let slots = self.slots.iter().filter(|slot| served.slots.contains(&i64::from(slot.0)));
            for slot in slots {
                let server = self.server(served.master.clone());
                self.owners.lock().insert(*slot, Owner { server, is_doubtful: false });
            }
        }
        self.owner(slot).ok_or_else(|| unserved("nobody serves the slot"))
    }

    /// Asks all servers at once who serves which slots, and believes the first.
    async fn served(&self, links: &Links) -> Result<Vec<Served>, Failure> {
        let servers: Vec<_> = self.known.lock().values().cloned().collect();
        let deadline = clock::deadline(links.dial.connect_timeout);
        let command = redis::cmd("CLUSTER").arg("SLOTS").get_packed_command();
        let mut answers: FuturesUnordered<_> = servers
            .into_iter()
            .map(|server| {
                let command = &command;
                let query = async move {
                    let rows = server.query(links, command).await?;
                    Ok((server.address.host.clone(), rows))
                };
                tokio::time::timeout_at(deadline, query)
            })
            .collect();
        let mut failure = unserved("no server is known");
        while let Some(answer) = answers.next().await {
            match answer {
                Ok(Ok((queried, rows))) => return Ok(read_served(&queried, &rows)),
                Ok(Err(refused)) => failure = refused,
                Err(_) => {
                    let text = "the store cannot be reached: no server answers who serves what";
                    failure = Failure::Away(OutageReason::Timeout, text.to_owned());
                }
            }
        }
        Err(failure)
    }
}

/// Slots, and the master that serves them.
struct Served {
    slots: std::ops::RangeInclusive<i64>,
    master: Address,
}

/// Reads an answer to CLUSTER SLOTS, which a server at `queried` gave.
fn read_served(queried: &str, rows: &Value) -> Vec<Served> {
    let Value::Array(rows) = rows else { return Vec::new() };
    let served = |row: &Value| {
        let Value::Array(row) = row else { return None };
        let [Value::Int(first), Value::Int(last), Value::Array(master), ..] = &row[..] else { return None };
        let (named, port) = match &master[..] {
            [Value::BulkString(named), Value::Int(port), ..] => (String::from_utf8_lossy(named), port),
            // It does not know its own name.
            [_, Value::Int(port), ..] => ("".into(), port),
            _ => return None,
        };
        let master = Address { host: host(&named, queried), port: u16::try_from(*port).ok()? };
        Some(Served { slots: *first..=*last, master })
    };
    rows.iter().filter_map(served).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_that_is_not_named_is_the_one_that_was_queried() {
        let read = |text| read_address(text, "asked").map(|it| (it.host, it.port));
        for (text, host) in [
            ("10.0.0.1:7002", "10.0.0.1"),
            ("redis-2.example:7002", "redis-2.example"),
            ("[::1]:7002", "::1"),
            ("::1:7002", "::1"),
            (":7002", "asked"),
            ("?:7002", "asked"),
        ] {
            assert_eq!(read(text), Some((host.to_owned(), 7002)), "{text}");
        }
        for text in ["", "7002", ":", "host:", "host:70000"] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
