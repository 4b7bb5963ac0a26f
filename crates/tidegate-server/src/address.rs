//! Where another server is, and connections to it over HTTP or HTTPS: for the command line, and for workers that follow
//! one.

use std::fmt::Write as _;
use std::sync::Arc;

use axum::body::Body;
use axum::http::Uri;
use axum::http::uri::Scheme;
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;

/// Where a server is.
#[derive(Debug, Clone)]
pub(crate) struct Address {
    text: String,
    host: String,
    port: u16,
    tls: bool,
}

impl Address {
    /// `http://host:port` or `https://…`, with a path in front of ours if it has one.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let uri: Uri = text.parse().ok()?;
        let tls = match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTP => false,
            Some(scheme) if *scheme == Scheme::HTTPS => true,
            _ => return None,
        };
        let host = uri.host()?.trim_matches(['[', ']']).to_owned();
        if uri.query().is_some() || host.is_empty() {
            return None;
        }
        let port = uri.port_u16().unwrap_or(if tls { 443 } else { 80 });
        Some(Self { text: text.trim_end_matches('/').to_owned(), host, port, tls })
    }

    /// As it was given.
    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether it is on this machine, as far as its name says.
    pub(crate) fn is_near(&self) -> bool {
        self.host == "localhost" || self.host.parse::<std::net::IpAddr>().is_ok_and(|it| it.is_loopback())
    }

    /// Connects. What cannot be reached at all is told apart from what does not talk.
    pub(crate) async fn connect(&self) -> Result<Connected, ConnectError> {
        let talk = |error: &dyn std::fmt::Display| ConnectError::Talk(error.to_string());
        let reached = TcpStream::connect((self.host.as_str(), self.port)).await;
        let stream = reached.map_err(|error| ConnectError::Reach(error.to_string()))?;
        // A request is one small packet: it shall not wait for another.
        let _ = stream.set_nodelay(true);
        if !self.tls {
            return speak(stream).await;
        }
        let name = ServerName::try_from(self.host.clone()).map_err(|error| talk(&error))?;
        speak(connector()?.connect(name, stream).await.map_err(|error| talk(&error))?).await
    }
}

/// What is read at once.
const READ_BYTES: usize = 16 << 10;

/// Why there is no connection.
#[derive(Debug)]
pub(crate) enum ConnectError {
    /// Nobody is there.
    Reach(String),
    /// Somebody is, and does not talk as we do.
    Talk(String),
}

impl std::fmt::Display for ConnectError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (Self::Reach(error) | Self::Talk(error)) = self;
        f.write_str(error)
    }
}

/// A connection. It ends with this.
#[derive(Debug)]
pub(crate) struct Connected {
    pub(crate) sender: SendRequest<Body>,
    driver: JoinHandle<hyper::Result<()>>,
}

impl Drop for Connected {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// TLS with the authorities that this system trusts.
fn connector() -> Result<TlsConnector, ConnectError> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| ConnectError::Talk(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

async fn speak(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> Result<Connected, ConnectError> {
    // Buffers that grew with a long answer would stay with the connection, and with the allocator.
    let mut builder = Builder::new();
    builder.read_buf_exact_size(Some(READ_BYTES));
    let shaken = builder.handshake(TokioIo::new(stream)).await;
    let (sender, connection) = shaken.map_err(|error| ConnectError::Talk(error.to_string()))?;
    Ok(Connected { sender, driver: tokio::spawn(connection) })
}

/// One part of a path, whatever is in it.
pub(crate) fn encoded(part: &str) -> String {
    let mut encoded = String::with_capacity(part.len());
    for byte in part.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'~' => {
                encoded.push(char::from(byte));
            }
            // Dots too, so that no part is `..`. Writing to a String cannot fail.
            byte => drop(write!(encoded, "%{byte:02X}")),
        }
    }
    encoded
}
