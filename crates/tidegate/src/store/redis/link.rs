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
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use parking_lot::Mutex;
use redis::aio::{ConnectionLike as _, MultiplexedConnection};
use redis::{
    AsyncConnectionConfig, Client, Cmd, ErrorKind, IntoConnectionInfo as _, RedisResult, ServerErrorKind,
    TlsCertificates, Value,
};

use super::super::StoreOptions;
use super::super::keyspace::Slot;
use crate::clock;
use crate::error::{Error, Result};

/// How often a command follows its slot to another server before giving up.
const MAX_MOVES: usize = 5;

/// One server and the connection to it.
#[derive(Debug)]
struct Server {
    host: String,
    client: Client,
    current: Mutex<Option<(u64, MultiplexedConnection)>>,
    connecting: tokio::sync::Mutex<()>,
}

/// How servers are reached.
#[derive(Debug)]
struct Dial {
    scheme: &'static str,
    /// User and password with their `@`, or nothing.
    login: String,
    certificates: Option<TlsCertificates>,
    nodelay: bool,
    connect_timeout: Duration,
    /// Connections made so far; the next one's number is one more.
    made: AtomicU64,
}

/// All servers. Sentinel will be a third way to find the right one.
#[derive(Debug)]
pub(super) struct Links {
    dial: Dial,
    servers: Servers,
}

#[derive(Debug)]
enum Servers {
    Single(Arc<Server>),
    Cluster(Cluster),
}

#[derive(Debug)]
struct Cluster {
    /// By address; those in the URL are always there.
    known: Mutex<HashMap<String, Arc<Server>>>,
    owners: Mutex<HashMap<Slot, Arc<Server>>>,
    /// The slots that are asked for.
    slots: Vec<Slot>,
    refreshing: tokio::sync::Mutex<()>,
}

/// An open connection to the server of a slot.
pub(super) struct Link {
    links: Arc<Links>,
    slot: Slot,
    /// Tells one connection from the next.
    pub(super) number: u64,
    connection: MultiplexedConnection,
}

impl Link {
    /// Sends one command. It is sent again only where the server has said that
    /// it did nothing: the slot is elsewhere.
    pub(super) async fn send(&mut self, command: &Cmd) -> RedisResult<Value> {
        for _ in 0..MAX_MOVES {
            let answer = value(self.connection.req_packed_command(command).await);
            let Err(error) = &answer else { return answer };
            let (Servers::Cluster(cluster), Some((address, _))) =
                (&self.links.servers, error.redirect_node())
            else {
                return answer;
            };
            let server = cluster.server(&self.links.dial, address)?;
            let (number, mut connection) = server.connect(&self.links.dial).await?;
            if error.kind() == ServerErrorKind::Ask.into() {
                // The slot is being moved, and this key has been, or is new.
                let mut pipeline = redis::pipe();
                pipeline.cmd("ASKING").add_command(command.clone());
                let mut answers = connection.req_packed_commands(&pipeline, 0, 2).await?;
                let lost = || (ErrorKind::Client, "no answer after ASKING").into();
                return value(answers.pop().ok_or_else(lost));
            }
            cluster.owners.lock().insert(self.slot, server);
            (self.number, self.connection) = (number, connection);
        }
        Err((ErrorKind::ClusterConnectionNotFound, "a slot kept moving").into())
    }
}

fn value(answer: RedisResult<Value>) -> RedisResult<Value> {
    match answer? {
        Value::ServerError(error) => Err(error.into()),
        value => Ok(value),
    }
}

impl Links {
    /// For the server or the cluster at `url`.
    pub(super) fn new(url: &str, options: &StoreOptions) -> Result<Self> {
        let (scheme, rest) = url.split_once("://").unwrap_or((url, ""));
        let is_tls = scheme.starts_with("rediss");
        if is_tls {
            // Another part of the program may have installed one already.
            let _ = rustls::crypto::ring::default_provider().install_default();
        }
        let ca = options.tls_ca.clone();
        let mut dial = Dial {
            scheme: if is_tls { "rediss" } else { "redis" },
            login: String::new(),
            certificates: ca.map(|ca| TlsCertificates { client_tls: None, root_cert: Some(ca) }),
            nodelay: options.nodelay,
            connect_timeout: options.connect_timeout,
            made: AtomicU64::new(0),
        };
        // The URL may hold a password: only the reason is told.
        let refused = |error| Error::config(format!("the store's URL cannot be used: {error}"));
        if !is_cluster(url) {
            let server = dial.server(url, "").map_err(refused)?;
            return Ok(Self { dial, servers: Servers::Single(Arc::new(server)) });
        }
        let (login, addresses) = rest.rsplit_once('@').unwrap_or(("", rest));
        if !login.is_empty() {
            dial.login = format!("{login}@");
        }
        let cluster = Cluster {
            known: Mutex::default(),
            owners: Mutex::default(),
            slots: Vec::new(),
            refreshing: tokio::sync::Mutex::new(()),
        };
        for address in addresses.trim_end_matches('/').split(',') {
            cluster.server(&dial, address).map_err(refused)?;
        }
        Ok(Self { dial, servers: Servers::Cluster(cluster) })
    }

    /// Tells which slots will be asked for.
    pub(super) fn will_ask_for(mut self, slots: Vec<Slot>) -> Self {
        if let Servers::Cluster(cluster) = &mut self.servers {
            cluster.slots = slots;
        }
        self
    }

    pub(super) fn is_cluster(&self) -> bool {
        matches!(self.servers, Servers::Cluster(_))
    }

    /// The connection to the server of a slot, made if there is none.
    pub(super) async fn get(self: &Arc<Self>, slot: Slot) -> RedisResult<Link> {
        let connected = match &self.servers {
            Servers::Single(server) => server.connect(&self.dial).await,
            Servers::Cluster(cluster) => {
                let owner = cluster.owners.lock().get(&slot).cloned();
                let owner = match owner {
                    Some(owner) => owner,
                    None => cluster.find_owner(&self.dial, slot).await?,
                };
                let connected = owner.connect(&self.dial).await;
                if connected.is_err() {
                    // Another may have taken over.
                    cluster.owners.lock().remove(&slot);
                }
                connected
            }
        };
        let (number, connection) = connected?;
        Ok(Link { links: self.clone(), slot, number, connection })
    }

    /// Drops the connection with this number, if the server of the slot still
    /// has it, so that the next call makes another; in a cluster, to the server
    /// that serves the slot by then.
    pub(super) fn discard(&self, slot: Slot, number: u64) {
        let server = match &self.servers {
            Servers::Single(server) => Some(server.clone()),
            Servers::Cluster(cluster) => cluster.owners.lock().remove(&slot),
        };
        if let Some(server) = server {
            let mut current = server.current.lock();
            if current.as_ref().is_some_and(|(made, _)| *made == number) {
                *current = None;
            }
        }
    }
}

/// Whether a URL is that of a cluster.
pub(super) fn is_cluster(url: &str) -> bool {
    url.starts_with("redis-cluster://") || url.starts_with("rediss-cluster://")
}

impl Dial {
    fn server(&self, url: &str, host: &str) -> RedisResult<Server> {
        let tcp = redis::io::tcp::TcpSettings::default().set_nodelay(self.nodelay);
        let info = url.into_connection_info()?.set_tcp_settings(tcp);
        let client = match &self.certificates {
            Some(certificates) => Client::build_with_tls(info, certificates.clone())?,
            None => Client::open(info)?,
        };
        let connecting = tokio::sync::Mutex::new(());
        Ok(Server { host: host.to_owned(), client, current: Mutex::new(None), connecting })
    }
}

impl Server {
    /// The connection and its number, made if there is none, by one at a time.
    async fn connect(&self, dial: &Dial) -> RedisResult<(u64, MultiplexedConnection)> {
        if let Some(current) = self.current.lock().clone() {
            return Ok(current);
        }
        let _one_at_a_time = self.connecting.lock().await;
        if let Some(current) = self.current.lock().clone() {
            return Ok(current);
        }
        // Calls have deadlines of their own.
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(dial.connect_timeout))
            .set_response_timeout(None);
        let connect = self.client.get_multiplexed_async_connection_with_config(&config);
        let connection = match tokio::time::timeout_at(clock::deadline(dial.connect_timeout), connect).await {
            Ok(connection) => connection?,
            Err(_) => return Err(std::io::Error::from(std::io::ErrorKind::TimedOut).into()),
        };
        let numbered = (dial.made.fetch_add(1, Ordering::Relaxed) + 1, connection);
        *self.current.lock() = Some(numbered.clone());
        Ok(numbered)
    }
}

impl Cluster {
    /// The server at `host:port`.
    fn server(&self, dial: &Dial, address: &str) -> RedisResult<Arc<Server>> {
        let mut known = self.known.lock();
        if let Some(server) = known.get(address) {
            return Ok(server.clone());
        }
        let (host, _) = address.rsplit_once(':').unwrap_or((address, ""));
        let server = Arc::new(dial.server(&format!("{}://{}{address}", dial.scheme, dial.login), host)?);
        known.insert(address.to_owned(), server.clone());
        Ok(server)
    }

    /// Asks all servers at once who serves which slot, and believes the first.
    async fn find_owner(&self, dial: &Dial, slot: Slot) -> RedisResult<Arc<Server>> {
        let _one_at_a_time = self.refreshing.lock().await;
        if let Some(owner) = self.owners.lock().get(&slot).cloned() {
            return Ok(owner);
        }
        let servers: Vec<_> = self.known.lock().values().cloned().collect();
        let deadline = clock::deadline(dial.connect_timeout);
        let mut answers: FuturesUnordered<_> = servers
            .into_iter()
            .map(async |server: Arc<Server>| {
                let ask = async {
                    let (_, mut connection) = server.connect(dial).await?;
                    value(connection.req_packed_command(redis::cmd("CLUSTER").arg("SLOTS")).await)
                };
                match tokio::time::timeout_at(deadline, ask).await {
                    Ok(slots) => slots.map(|slots| (server.host.clone(), slots)),
                    Err(_) => Err(std::io::Error::from(std::io::ErrorKind::TimedOut).into()),
                }
            })
            .collect();
        let mut failure = None;
        while let Some(answer) = answers.next().await {
            match answer {
                Ok((host, rows)) => {
                    self.learn(dial, &host, &rows)?;
                    let unserved = || (ErrorKind::ClusterConnectionNotFound, "nobody serves the slot").into();
                    return self.owners.lock().get(&slot).cloned().ok_or_else(unserved);
                }
                Err(error) => failure = Some(error),
            }
        }
        Err(failure.unwrap_or_else(|| (ErrorKind::ClusterConnectionNotFound, "no server is known").into()))
    }

    /// Reads an answer to CLUSTER SLOTS, which `host` gave.
    fn learn(&self, dial: &Dial, host: &str, rows: &Value) -> RedisResult<()> {
        let Value::Array(rows) = rows else { return Ok(()) };
        for row in rows {
            let Value::Array(row) = row else { continue };
            let [Value::Int(first), Value::Int(last), Value::Array(master), ..] = &row[..] else { continue };
            let (named, port) = match &master[..] {
                [Value::BulkString(named), Value::Int(port), ..] => (String::from_utf8_lossy(named), port),
                // A server that does not know its own name is where we asked.
                [_, Value::Int(port), ..] => ("".into(), port),
                _ => continue,
            };
            let named = if named.is_empty() || named == "?" { host } else { &*named };
            let bracketed = named.contains(':') && !named.starts_with('[');
            let address = if bracketed { format!("[{named}]:{port}") } else { format!("{named}:{port}") };
            let slots = self.slots.iter().filter(|slot| (*first..=*last).contains(&i64::from(slot.0)));
            for slot in slots {
                let server = self.server(dial, &address)?;
                self.owners.lock().insert(*slot, server);
            }
        }
        Ok(())
    }
}
