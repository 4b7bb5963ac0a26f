//! How a database is reached: address, encryption, and what a connection is told first.

use std::fmt;
use std::time::Duration;

use tokio_postgres::config::{Host, SslMode, SslNegotiation};
use tokio_postgres::{Client, Config, Connection, Socket};

use super::failure::{Failure, Result};
use super::session::Session;
use super::tls::{Stream, Tls, Trust};
use crate::error::{Error, ErrorKind};

/// How long connecting may take, login and all, unless the URL says how long a connection may.
const CONNECT: Duration = Duration::from_secs(5);

/// After how long without a sign of life the system asks whether the other end is there.
const KEEPALIVE: Duration = Duration::from_secs(15);

/// What a database is told by each connection. Every question here is one for an index in its order; statistics are not to
/// decide otherwise, which a table that has just grown has none of. A write is acknowledged when it is on a disk, at least
/// of this server. And whoever holds a lock and says nothing more does not keep the others waiting.
const SETTINGS: &str = "
    SET search_path = pg_catalog;
    SET client_min_messages = warning;
    SET jit = off;
    SET enable_seqscan = off;
    SET enable_bitmapscan = off;
    SET enable_hashjoin = off;
    SET enable_mergejoin = off;
    SET enable_sort = off;
    SET statement_timeout = '30s';
    SET idle_in_transaction_session_timeout = '15s';
    SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'";

/// How a database is reached.
pub(super) struct Dial {
    config: Config,
    tls: Tls,
    timeout: Duration,
}

impl fmt::Debug for Dial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // It knows a password.
        f.debug_struct("Dial").field("place", &self.place()).finish_non_exhaustive()
    }
}

impl Dial {
    pub(super) fn new(url: &str) -> Result<Self, Error> {
        // The URL may hold a password: only the reason is told.
        let refused =
            |reason: String| Error::config(format!("the rules' database's URL cannot be used: {reason}"));
        let (url, asked) = Asked::take(url).map_err(refused)?;
        let mut config: Config = url.parse().map_err(|error: tokio_postgres::Error| {
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            refused(cause.unwrap_or_else(|| error.to_string()))
        })?;
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return Err(refused("it has no host".to_owned()));
        }
        config.ssl_mode(asked.mode);
        if config.get_application_name().is_none() {
            config.application_name("tidegate");
        }
        let timeout = config.get_connect_timeout().copied().unwrap_or(CONNECT);
        config.connect_timeout(timeout);
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(KEEPALIVE * 2);
        }
        // Two hours is what it has if nobody has said anything.
        if config.get_keepalives_idle() == Duration::from_secs(2 * 60 * 60) {
            config.keepalives_idle(KEEPALIVE);
        }
        let tls = Tls::new(&asked.trust, config.get_ssl_negotiation() == SslNegotiation::Direct)?;
        // Servers are tried one after the other.
        let timeout = timeout * (1 + config.get_hosts().len() as u32);
        Ok(Self { config, tls, timeout })
    }

    /// Where it is, for people.
    pub(super) fn place(&self) -> String {
        let ports = self.config.get_ports();
        let hosts = self.config.get_hosts().iter().enumerate().map(|(at, host)| {
            let host = match host {
                Host::Tcp(host) => host.clone(),
                Host::Unix(folder) => folder.display().to_string(),
            };
            let port = ports.get(at).or(ports.first()).copied().unwrap_or(5432);
            format!("{host}:{port}")
        });
        let hosts: Vec<_> = hosts.collect();
        let database = self.config.get_dbname().or(self.config.get_user()).unwrap_or_default();
        format!("{}/{database}", hosts.join(","))
    }

    /// Connects, as something that may write. What is read of a server that follows another may be old, and it does not
    /// know which time it is in: it is not the truth.
    pub(super) async fn connect(&self) -> Result<Session> {
        let connecting = async {
            let (client, connection) = self.dial().await?;
            tokio::spawn(async move {
                // Whoever waits for an answer is told.
                let _ = connection.await;
            });
            self.greet(&client).await?;
            Ok(Session::new(client))
        };
        let connected = tokio::time::timeout(self.timeout, connecting).await;
        connected.unwrap_or_else(|_| Err(Failure::timeout())).map_err(|failure| self.named(failure))
    }

    /// The same for who was connected before: whatever is wrong now, a password that was changed too, is an outage.
    pub(super) async fn reconnect(&self) -> Result<Session> {
        self.connect().await.map_err(|failure| match failure {
            Failure::Final(error) if error.kind() == ErrorKind::Config => {
                Failure::Final(Error::unavailable(error.to_string()))
            }
            other => other,
        })
    }

    pub(super) async fn dial(&self) -> Result<(Client, Connection<Socket, Stream<Socket>>)> {
        self.config.connect(self.tls.clone()).await.map_err(Failure::of_connecting)
    }

    async fn greet(&self, client: &Client) -> Result<()> {
        client.batch_execute(SETTINGS).await?;
        let is_standby: bool = client.query_one("SELECT pg_is_in_recovery()", &[]).await?.try_get(0)?;
        if is_standby {
            return Err(Failure::Final(Error::unavailable(
                "the server follows another one, so that it is not the truth",
            )));
        }
        Ok(())
    }

    /// What went wrong, and where.
    fn named(&self, failure: Failure) -> Failure {
        let name =
            |error: Error| Error::new(error.kind(), format!("{} cannot be used: {error}", self.place()));
        match failure {
            Failure::Passing(error) => Failure::Passing(name(error)),
            Failure::Lost(error) => Failure::Lost(name(error)),
            Failure::Final(error) => Failure::Final(name(error)),
        }
    }
}

/// What a URL asks of TLS. The client knows less of it than PostgreSQL's own.
#[derive(Debug, PartialEq, Eq)]
struct Asked {
    mode: SslMode,
    trust: Trust,
}

impl Asked {
    /// Takes what is about TLS out of a URL.
    fn take(url: &str) -> Result<(String, Self), String> {
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        let (mut mode, mut file, mut rest) = (None, None, Vec::new());
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("sslmode", value)) => mode = Some(value.to_owned()),
                Some(("sslrootcert", value)) => {
                    let decoded = url::form_urlencoded::parse(pair.replace('+', "%2B").as_bytes())
                        .next()
                        .map(|(_, value)| value.into_owned());
                    file = Some(decoded.unwrap_or_else(|| value.to_owned()));
                }
                _ => rest.push(pair),
            }
        }
        let mode = match mode.as_deref() {
            Some("disable") => SslMode::Disable,
            Some("prefer") | None => SslMode::Prefer,
            // Who asks for encryption means to be sure with whom.
            Some("require" | "verify-full") => SslMode::Require,
            Some(other) => {
                return Err(format!(
                    "sslmode={other} is not allowed: disable, prefer, require and verify-full are, and the last two check \
                     certificate and name"
                ));
            }
        };
        let trust = match (file.as_deref(), mode) {
            (None, SslMode::Prefer | SslMode::Disable) => Trust::Anybody,
            (None | Some("system"), _) => Trust::System,
            (Some(path), _) => Trust::File(path.to_owned()),
        };
        let url = if rest.is_empty() { base.to_owned() } else { format!("{base}?{}", rest.join("&")) };
        Ok((url, Self { mode, trust }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_url_asks_of_tls() {
        let asked = |url: &str| Asked::take(url).map(|(rest, it)| (rest, it.mode, it.trust));
        let anybody = ("postgres://h/d".to_owned(), SslMode::Prefer, Trust::Anybody);
        assert_eq!(asked("postgres://h/d"), Ok(anybody));
        let checked = ("postgres://h/d?user=a".to_owned(), SslMode::Require, Trust::System);
        assert_eq!(asked("postgres://h/d?sslmode=require&user=a"), Ok(checked.clone()));
        assert_eq!(asked("postgres://h/d?user=a&sslmode=verify-full&sslrootcert=system"), Ok(checked));
        let file = ("postgres://h/d".to_owned(), SslMode::Prefer, Trust::File("/a b+c.pem".to_owned()));
        assert_eq!(asked("postgres://h/d?sslrootcert=/a%20b+c.pem"), Ok(file));
        for mode in ["allow", "verify-ca", ""] {
            assert!(asked(&format!("postgres://h/d?sslmode={mode}")).is_err(), "{mode}");
        }
    }

    #[test]
    fn an_error_never_tells_the_password() {
        let dial = Dial::new("postgres://me:secret@127.0.0.1:1,[::1]:2/rules").unwrap();
        assert_eq!(dial.place(), "127.0.0.1:1,::1:2/rules");
        assert!(!format!("{dial:?}").contains("secret"));
        let dial = Dial::new("postgres:///rules?host=/run/postgresql&user=me").unwrap();
        assert_eq!(dial.place(), "/run/postgresql:5432/rules", "a socket in a folder");
        for url in ["postgres://me:secret@h:x/d", "postgres:///d", "postgres://me:secret@h/d?nonsense=1"] {
            let error = Dial::new(url).expect_err(url);
            assert_eq!(error.kind(), ErrorKind::Config);
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }
}
