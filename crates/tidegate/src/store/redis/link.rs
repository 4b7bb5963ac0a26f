//! One connection to a server or to a cluster, replaced when it breaks.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::cluster::ClusterClient;
use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::SingleNodeRoutingInfo;
use redis::{
    AsyncConnectionConfig, Client, Cmd, IntoConnectionInfo, RedisResult, ServerErrorKind, TlsCertificates,
    Value,
};

use super::super::StoreOptions;
use crate::clock;
use crate::error::{Error, Result};

/// Where the data is. Sentinel will be a third kind.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "there is one per store")]
enum Target {
    Single(Client),
    Cluster(ClusterClient),
}

/// An open connection; clones share it.
#[derive(Clone)]
pub(super) enum Link {
    Single(MultiplexedConnection),
    Cluster(ClusterConnection),
}

/// How often a command follows its slot to another node before giving up.
const MAX_MOVES: usize = 5;

impl Link {
    /// Sends one command. It is sent again only where the server has said that
    /// it did nothing: the slot is elsewhere.
    pub(super) async fn send(&mut self, command: &Cmd) -> RedisResult<Value> {
        match self {
            Self::Single(connection) => value(connection.req_packed_command(command).await),
            Self::Cluster(connection) => {
                for _ in 0..MAX_MOVES {
                    let answer = value(connection.req_packed_command(command).await);
                    let Err(error) = &answer else { return answer };
                    match error.kind() {
                        // The client refreshes its map of the slots on MOVED.
                        redis::ErrorKind::Server(ServerErrorKind::Moved) => tokio::task::yield_now().await,
                        redis::ErrorKind::Server(ServerErrorKind::Ask) => {
                            return ask(connection, command, error.redirect_node()).await;
                        }
                        _ => return answer,
                    }
                }
                value(connection.req_packed_command(command).await)
            }
        }
    }
}

/// Follows a slot that is being moved to the node that has the key, or will.
async fn ask(
    connection: &mut ClusterConnection,
    command: &Cmd,
    node: Option<(&str, u16)>,
) -> RedisResult<Value> {
    let address = node.and_then(|(address, _)| address.rsplit_once(':'));
    let Some((host, Ok(port))) = address.map(|(host, port)| (host, port.parse())) else {
        return Err((redis::ErrorKind::Client, "a slot is being moved to a node that was not named").into());
    };
    let mut pipeline = redis::pipe();
    pipeline.cmd("ASKING").add_command(command.clone());
    let routing = SingleNodeRoutingInfo::ByAddress { host: host.to_owned(), port };
    let mut answers = connection.route_pipeline(pipeline, 0, 2, routing).await?;
    value(answers.pop().ok_or_else(|| (redis::ErrorKind::Client, "no answer after ASKING").into()))
}

fn value(answer: RedisResult<Value>) -> RedisResult<Value> {
    match answer? {
        Value::ServerError(error) => Err(error.into()),
        value => Ok(value),
    }
}

/// Makes connections, one at a time, and keeps the current one.
pub(super) struct Links {
    target: Target,
    connect_timeout: Duration,
    current: Mutex<Option<(u64, Link)>>,
    connecting: tokio::sync::Mutex<()>,
    made: AtomicU64,
}

impl Links {
    pub(super) fn new(url: &str, options: &StoreOptions) -> Result<Self> {
        let refused = |error: redis::RedisError| {
            // The URL may hold a password: only the reason is told.
            Error::config(format!("the store's URL cannot be used: {error}"))
        };
        let certificates = options
            .tls_ca
            .as_ref()
            .map(|ca| TlsCertificates { client_tls: None, root_cert: Some(ca.clone()) });
        if url.starts_with("rediss") {
            // Another part of the program may have installed one already.
            let _ = rustls::crypto::ring::default_provider().install_default();
        }
        let target = match url
            .strip_prefix("redis-cluster://")
            .map(|nodes| (nodes, "redis"))
            .or_else(|| url.strip_prefix("rediss-cluster://").map(|nodes| (nodes, "rediss")))
        {
            Some((nodes, scheme)) => {
                let (login, nodes) =
                    nodes.rsplit_once('@').map_or(("", nodes), |(login, nodes)| (login, nodes));
                let at = if login.is_empty() { "" } else { "@" };
                let nodes = nodes.split(',').map(|node| format!("{scheme}://{login}{at}{node}"));
                // A command whose answer is lost may have been carried out, so
                // the client must not send it again: `Link::send` decides.
                let mut builder = ClusterClient::builder(nodes.collect::<Vec<_>>())
                    .retries(0)
                    .connection_timeout(options.connect_timeout)
                    .response_timeout(options.deadline * 2)
                    .tcp_settings(tcp_settings(options.nodelay));
                if let Some(certificates) = certificates {
                    builder = builder.certs(certificates);
                }
                Target::Cluster(builder.build().map_err(refused)?)
            }
            None => {
                let info = url.into_connection_info().map_err(refused)?;
                let info = info.set_tcp_settings(tcp_settings(options.nodelay));
                Target::Single(match certificates {
                    Some(certificates) => Client::build_with_tls(info, certificates).map_err(refused)?,
                    None => Client::open(info).map_err(refused)?,
                })
            }
        };
        Ok(Self {
            target,
            connect_timeout: options.connect_timeout,
            current: Mutex::new(None),
            connecting: tokio::sync::Mutex::new(()),
            made: AtomicU64::new(0),
        })
    }

    pub(super) fn is_cluster(&self) -> bool {
        matches!(self.target, Target::Cluster(_))
    }

    /// The current connection and its number, made if there is none.
    pub(super) async fn get(&self) -> RedisResult<(u64, Link)> {
        if let Some(current) = self.current.lock().clone() {
            return Ok(current);
        }
        let _one_at_a_time = self.connecting.lock().await;
        if let Some(current) = self.current.lock().clone() {
            return Ok(current);
        }
        let link = match tokio::time::timeout_at(clock::deadline(self.connect_timeout), self.connect()).await
        {
            Ok(link) => link?,
            Err(_) => return Err(std::io::Error::from(std::io::ErrorKind::TimedOut).into()),
        };
        let numbered = (self.made.fetch_add(1, Ordering::Relaxed) + 1, link);
        *self.current.lock() = Some(numbered.clone());
        Ok(numbered)
    }

    async fn connect(&self) -> RedisResult<Link> {
        match &self.target {
            Target::Single(client) => {
                let config = AsyncConnectionConfig::new()
                    .set_connection_timeout(Some(self.connect_timeout))
                    .set_response_timeout(Some(self.connect_timeout));
                Ok(Link::Single(client.get_multiplexed_async_connection_with_config(&config).await?))
            }
            Target::Cluster(client) => Ok(Link::Cluster(client.get_async_connection().await?)),
        }
    }

    /// Drops the connection with this number, so that the next call makes another.
    pub(super) fn discard(&self, number: u64) {
        let mut current = self.current.lock();
        if current.as_ref().is_some_and(|(made, _)| *made == number) {
            *current = None;
        }
    }

    /// How many connections have been made.
    pub(super) fn made(&self) -> u64 {
        self.made.load(Ordering::Relaxed)
    }
}

fn tcp_settings(nodelay: bool) -> redis::io::tcp::TcpSettings {
    redis::io::tcp::TcpSettings::default().set_nodelay(nodelay)
}
