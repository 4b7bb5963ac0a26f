//! One request to a server.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{Response, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use tower_service::Service as _;

use super::message;
use super::request::Request;
use crate::address::{Address, ConnectError, Connected};
use crate::http::{App, Reason, router};

/// To connect, whatever it is for.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// No answer that is read as a whole is longer: 4000 edits, every byte of them escaped.
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

    /// Sends one request; `read` makes of its answer what is wanted, within the time that the request may take.
    pub(super) async fn answer<T>(
        &self,
        request: Request,
        read: impl AsyncFnOnce(Stream) -> Result<T, String>,
    ) -> Result<T, String> {
        let timeout = request.timeout;
        let answer = async { read(self.begin(request).await?).await };
        let answer =
            tokio::time::timeout(timeout, answer).await.unwrap_or_else(|_| Err(nothing_for(timeout)));
        answer.map_err(|error| format!("no answer from {}: {error}", self.as_str()))
    }

    async fn begin(&self, request: Request) -> Result<Stream, String> {
        let directly = match request.path.starts_with("/v1/rules") {
            true => "--rules uses a database of rules directly",
            false => "--store uses a store directly",
        };
        let request = request.sent_to(self.as_str())?;
        let connected = tokio::time::timeout(CONNECT_TIMEOUT, self.0.connect()).await;
        let connected = connected.map_err(|_| nothing_for(CONNECT_TIMEOUT))?;
        let mut connected = connected.map_err(|error| match error {
            ConnectError::Reach(error) => {
                format!("{error} (is `tidegate serve` running there? {directly})")
            }
            ConnectError::Talk(error) => error,
        })?;
        let response = connected.sender.send_request(request).await.map_err(message)?;
        Ok(Stream { response: response.map(Body::new), _connected: Some(connected) })
    }
}

fn nothing_for(timeout: Duration) -> String {
    format!("nothing for {} s", timeout.as_secs())
}

/// An answer as it comes. The connection ends with it.
pub(super) struct Stream {
    response: Response<Body>,
    _connected: Option<Connected>,
}

impl Stream {
    /// That of a router of our own, which does not fail: it answers.
    pub(super) async fn of(app: &App, request: Request) -> Result<Self, String> {
        let Ok(response) = router(app.clone()).call(request.sent_to("")?).await;
        Ok(Self { response, _connected: None })
    }

    pub(super) fn status(&self) -> StatusCode {
        self.response.status()
    }

    /// A field of its head.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.response.headers().get(name)?.to_str().ok()
    }

    /// All of it.
    pub(super) async fn whole(self) -> Result<(StatusCode, Bytes), String> {
        let (head, body) = self.response.into_parts();
        if let Some(Reason(reason)) = head.extensions.get() {
            return Err(format!("the store cannot be used: {reason}"));
        }
        let body = Limited::new(body, MAX_ANSWER_BYTES).collect().await.map_err(message)?;
        Ok((head.status, body.to_bytes()))
    }

    /// What comes next; none at its end, be it a broken one.
    pub(super) async fn next(&mut self) -> Option<Bytes> {
        self.piece().await.ok()?
    }

    /// The same, with how it broke.
    pub(super) async fn piece(&mut self) -> Result<Option<Bytes>, String> {
        while let Some(frame) = self.response.body_mut().frame().await.transpose().map_err(message)? {
            if let Ok(data) = frame.into_data() {
                return Ok(Some(data));
            }
        }
        Ok(None)
    }
}
