//! How servers are reached: address, encryption, login.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join_all, select_ok};
use redis::{ConnectionAddr, IntoConnectionInfo as _};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::super::StoreOptions;
use super::connection::Connection;
use super::failure::Failure;
use super::stream::Stream;
use crate::clock;
use crate::error::{Error, Result};
use crate::outage::OutageReason;

/// Probes without an answer after which the system gives a connection up.
const KEEPALIVE_PROBES: u32 = 3;

/// How all servers of a store are reached.
pub(super) struct Dial {
    user: Option<String>,
    password: Option<String>,
    database: i64,
    tls: Option<Arc<ClientConfig>>,
    nodelay: bool,
    keepalive: Option<Duration>,
    pub(super) connect_timeout: Duration,
}

impl fmt::Debug for Dial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // It knows a password.
        f.debug_struct("Dial").finish_non_exhaustive()
    }
}

/// Where a server is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Address {
    pub(super) host: String,
    pub(super) port: u16,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

impl Dial {
    /// How the server at `url` is reached, and where it is.
    pub(super) fn new(url: &str, options: &StoreOptions) -> Result<(Self, Address)> {
        // The URL may hold a password: only the reason is told.
        let refused =
            |reason: &dyn fmt::Display| Error::config(format!("the store's URL cannot be used: {reason}"));
        let info = url.into_connection_info().map_err(|error| refused(&error))?;
        let (host, port, is_tls) = match info.addr() {
            ConnectionAddr::Tcp(host, port) => (host, *port, false),
            ConnectionAddr::TcpTls { insecure: true, .. } => {
                return Err(refused(&"certificates are always checked, `#insecure` is not allowed"));
            }
            ConnectionAddr::TcpTls { host, port, .. } => (host, *port, true),
            _ => return Err(refused(&"it has no host")),
        };
        let login = info.redis_settings();
        let dial = Self {
            user: login.username().map(Into::into),
            password: login.password().map(Into::into),
            database: login.db(),
            tls: if is_tls { Some(Arc::new(tls(options.tls_ca.as_deref())?)) } else { None },
            nodelay: options.nodelay,
            keepalive: options.keepalive,
            connect_timeout: options.connect_timeout,
        };
        Ok((dial, Address { host: host.clone(), port }))
    }

    /// Connects and logs in.
    pub(super) async fn connect(&self, to: &Address) -> Result<Connection, Failure> {
        let deadline = clock::deadline(self.connect_timeout);
        match tokio::time::timeout_at(deadline, self.connect_slowly(to)).await {
            Ok(connected) => connected,
            Err(_) => {
                let text = "the store cannot be reached: connecting to it takes too long";
                Err(Failure::Away(OutageReason::Timeout, text.to_owned()))
            }
        }
    }

    async fn connect_slowly(&self, to: &Address) -> Result<Connection, Failure> {
        let connection = Connection::start(self.stream(to).await.map_err(|e| Failure::of_connecting(&e))?);
        let mut commands = Vec::new();
        if let Some(password) = &self.password {
            let mut auth = redis::cmd("AUTH");
            if let Some(user) = &self.user {
                auth.arg(user);
            }
            auth.arg(password);
            commands.push(auth);
        }
        if self.database != 0 {
            let mut select = redis::cmd("SELECT");
            select.arg(self.database);
            commands.push(select);
        }
        // On their way together, and the first that is refused is told.
        for answer in join_all(commands.iter().map(|command| login(&connection, command))).await {
            answer?;
        }
        Ok(connection)
    }

    pub(super) async fn stream(&self, to: &Address) -> std::io::Result<Stream> {
        let addresses = tokio::net::lookup_host((to.host.as_str(), to.port)).await?;
        let attempts: Vec<_> = addresses.map(|address| Box::pin(TcpStream::connect(address))).collect();
        if attempts.is_empty() {
            return Err(std::io::Error::other(format!("no address is known for {:?}", to.host)));
        }
        let (socket, _) = select_ok(attempts).await?;
        socket.set_nodelay(self.nodelay)?;
        if let Some(after) = self.keepalive {
            let probes = TcpKeepalive::new().with_time(after);
            #[cfg(any(target_os = "linux", target_os = "macos", target_os = "freebsd"))]
            let probes = probes.with_interval(after).with_retries(KEEPALIVE_PROBES);
            SockRef::from(&socket).set_tcp_keepalive(&probes)?;
        }
        let Some(tls) = &self.tls else { return Ok(Stream::Tcp(socket)) };
        let name = ServerName::try_from(to.host.clone()).map_err(std::io::Error::other)?;
        let stream = TlsConnector::from(tls.clone()).connect(name, socket).await?;
        Ok(Stream::Tls(Box::new(stream)))
    }
}

/// A command before which nothing else is allowed.
async fn login(connection: &Connection, command: &redis::Cmd) -> Result<(), Failure> {
    match connection.send(command.get_packed_command(), 1).await {
        // A password where none is asked for, a database that is not there.
        Err(Failure::Server(text)) if text.starts_with("ERR ") && !text.contains("max number of clients") => {
            Err(Failure::Config(format!("the store refuses us: {text}")))
        }
        answer => answer.map(|_| ()),
    }
}

/// Trusts `ca`, or whom the system trusts.
fn tls(ca: Option<&[u8]>) -> Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    match ca {
        Some(pem) => {
            let refused = |reason: &dyn fmt::Display| {
                Error::config(format!("the certificate authority for the store cannot be used: {reason}"))
            };
            for certificate in CertificateDer::pem_slice_iter(pem) {
                let certificate = certificate.map_err(|error| refused(&error))?;
                roots.add(certificate).map_err(|error| refused(&error))?;
            }
            if roots.is_empty() {
                return Err(refused(&"there is no certificate in it"));
            }
        }
        None => {
            let found = rustls_native_certs::load_native_certs();
            roots.add_parsable_certificates(found.certs);
            if roots.is_empty() {
                return Err(Error::config(
                    "the system trusts no certificate authority: name the store's own (`tls_ca`)",
                ));
            }
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::config(format!("TLS cannot be used: {error}")))?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_system_looks_after_idle_connections() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let url = format!("redis://127.0.0.1:{port}");
        for keepalive in [None, Some(Duration::from_secs(7))] {
            let options = StoreOptions { keepalive, ..StoreOptions::default() };
            let (dial, address) = Dial::new(&url, &options).unwrap();
            let Stream::Tcp(socket) = dial.stream(&address).await.unwrap() else { panic!("no TLS") };
            let socket = SockRef::from(&socket);
            assert_eq!(socket.keepalive().unwrap(), keepalive.is_some());
            if let Some(after) = keepalive {
                assert_eq!(socket.tcp_keepalive_time().unwrap(), after);
                assert_eq!(socket.tcp_keepalive_retries().unwrap(), KEEPALIVE_PROBES);
            }
        }
    }
}
