//! One request to a server, over HTTP or HTTPS.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::uri::Scheme;
use axum::http::{Response, StatusCode, Uri, header};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;

use super::request::{Request, tag};

/// To connect, whatever it is for.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// No answer of a server of ours is longer: 4000 edits, every byte of them escaped.
const MAX_ANSWER_BYTES: usize = 32 << 20;

/// A server by its address.
#[derive(Debug)]
pub(super) struct Server {
    text: String,
    host: String,
    port: u16,
    tls: bool,
}

impl Server {
    /// Checks `text`: `http://host:port` or `https://…`, with a path in front of
    /// ours if it has one.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let refused =
            || format!("`--server`: {text:?} is not a server: http://HOST:PORT and https://HOST:PORT are");
        let uri: Uri = text.parse().map_err(|_| refused())?;
        let tls = match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTP => false,
            Some(scheme) if *scheme == Scheme::HTTPS => true,
            _ => return Err(refused()),
        };
        let host = uri.host().ok_or_else(refused)?.trim_matches(['[', ']']).to_owned();
        if uri.query().is_some() || host.is_empty() {
            return Err(refused());
        }
        let port = uri.port_u16().unwrap_or(if tls { 443 } else { 80 });
        Ok(Self { text: text.trim_end_matches('/').to_owned(), host, port, tls })
    }

    /// As it was given.
    pub(super) fn as_str(&self) -> &str {
        &self.text
    }

    /// Sends one request and reads its answer.
    pub(super) async fn send(&self, request: Request) -> Result<(StatusCode, Bytes), String> {
        let timeout = request.timeout;
        let exchange = async {
            let mut begun = self.exchange(request).await?;
            let body = Limited::new(begun.response.body_mut(), MAX_ANSWER_BYTES).collect().await;
            let status = begun.response.status();
            body.map(|body| (status, body.to_bytes())).map_err(text)
        };
        self.in_time(timeout, exchange).await
    }

    /// Sends one request whose answer is read as it comes.
    pub(super) async fn begin(&self, request: Request) -> Result<Begun, String> {
        self.in_time(request.timeout, self.exchange(request)).await
    }

    async fn in_time<T>(
        &self,
        timeout: Duration,
        exchange: impl Future<Output = Result<T, String>>,
    ) -> Result<T, String> {
        let answered =
            tokio::time::timeout(timeout, exchange).await.unwrap_or_else(|_| Err(nothing_for(timeout)));
        answered.map_err(|error| format!("no answer from {}: {error}", self.text))
    }

    async fn exchange(&self, request: Request) -> Result<Begun, String> {
        let uri: Uri = format!("{}{}", self.text, request.path).parse().map_err(text)?;
        let authority = uri.authority().map(|authority| authority.as_str()).unwrap_or_default();
        let mut head = axum::http::Request::builder()
            .method(request.method)
            .uri(uri.path_and_query().map_or("/", |it| it.as_str()))
            .header(header::HOST, authority)
            .header(header::CONTENT_TYPE, request.media_type);
        if let Some(version) = request.if_match {
            head = head.header(header::IF_MATCH, tag(version));
        }
        let request = head.body(request.body).map_err(text)?;
        let connecting = TcpStream::connect((self.host.as_str(), self.port));
        let connected = tokio::time::timeout(CONNECT_TIMEOUT, connecting).await;
        let stream = connected.map_err(|_| nothing_for(CONNECT_TIMEOUT))?.map_err(|error| {
            format!("{error} (is `tidegate serve` running there? --store uses a store directly)")
        })?;
        if !self.tls {
            return speak(stream, request).await;
        }
        let name = ServerName::try_from(self.host.clone()).map_err(text)?;
        speak(connector()?.connect(name, stream).await.map_err(text)?, request).await
    }
}

/// An answer whose head has come. The connection ends with it.
pub(super) struct Begun {
    pub(super) response: Response<Incoming>,
    _sender: SendRequest<Body>,
    driver: JoinHandle<hyper::Result<()>>,
}

impl Drop for Begun {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

fn nothing_for(timeout: Duration) -> String {
    format!("nothing for {} s", timeout.as_secs())
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// TLS with the authorities that this system trusts.
fn connector() -> Result<TlsConnector, String> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(text)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

async fn speak(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: axum::http::Request<Body>,
) -> Result<Begun, String> {
    let (mut sender, connection) = handshake(TokioIo::new(stream)).await.map_err(text)?;
    let driver = tokio::spawn(connection);
    let response = sender.send_request(request).await.map_err(text)?;
    Ok(Begun { response, _sender: sender, driver })
}
