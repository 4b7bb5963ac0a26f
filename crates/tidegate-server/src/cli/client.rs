//! One request to a server.

use std::time::Duration;

use axum::body::Bytes;
use axum::http::{Response, StatusCode, Uri, header};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;

use super::request::{Request, tag};
use crate::address::{Address, ConnectError, Connected};

/// To connect, whatever it is for.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// No answer of a server of ours is longer: 4000 edits, every byte of them escaped.
const MAX_ANSWER_BYTES: usize = 32 << 20;

/// A server by its address.
#[derive(Debug)]
pub(super) struct Server(Address);

impl Server {
    /// Checks `text`: `http://host:port` or `https://…`, with a path in front of
    /// ours if it has one.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        Address::parse(text).map(Self).ok_or_else(|| {
            format!("`--server`: {text:?} is not a server: http://HOST:PORT and https://HOST:PORT are")
        })
    }

    /// As it was given.
    pub(super) fn as_str(&self) -> &str {
        self.0.as_str()
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
        answered.map_err(|error| format!("no answer from {}: {error}", self.as_str()))
    }

    async fn exchange(&self, request: Request) -> Result<Begun, String> {
        let directly = match request.path.starts_with("/v1/rules") {
            true => "--rules uses a database of rules directly",
            false => "--store uses a store directly",
        };
        let uri: Uri = format!("{}{}", self.as_str(), request.path).parse().map_err(text)?;
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
        let connected = tokio::time::timeout(CONNECT_TIMEOUT, self.0.connect()).await;
        let connected = connected.map_err(|_| nothing_for(CONNECT_TIMEOUT))?;
        let mut connected = connected.map_err(|error| match error {
            ConnectError::Reach(error) => {
                format!("{error} (is `tidegate serve` running there? {directly})")
            }
            ConnectError::Talk(error) => error,
        })?;
        let response = connected.sender.send_request(request).await.map_err(text)?;
        Ok(Begun { response, _connected: connected })
    }
}

/// An answer whose head has come. The connection ends with it.
pub(super) struct Begun {
    pub(super) response: Response<Incoming>,
    _connected: Connected,
}

fn nothing_for(timeout: Duration) -> String {
    format!("nothing for {} s", timeout.as_secs())
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
