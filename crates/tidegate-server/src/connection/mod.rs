//! Connections: accepted within bounds, answered within time, and ended.
//!
//! Above is whatever a listener serves ([`Service`]), below is any stream of bytes, so that TLS
//! can be put there. A connection begins on the fast path ([`fast_path`]), for as long as its
//! requests have the plainest form. The first that has another, and all that come after it, are
//! hyper's, behind [`RequestStream`], and the router's. One that begins as HTTP/2 does is hyper's
//! ([`http2`]) where a listener speaks it. Every request passes [`access`].

pub(crate) mod accept;
mod access;
mod access_log;
mod chunks;
mod fast_path;
mod frame;
mod http2;
mod listen;
mod metrics;
mod output;
mod request_head;
mod request_stream;
mod service;
#[cfg(test)]
mod tests;
mod threads;
mod timeouts;

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use axum::body::Body;
use axum::http::Response;
use axum::response::IntoResponse as _;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tidegate::clock::{SystemClock, monotonic};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;

pub use self::accept::Ended;
pub(crate) use self::access::{AccessRequest, Admitted};
use self::access_log::AccessLog;
use self::fast_path::Rest;
pub(crate) use self::frame::{FORWARDED_HOST, PlainHead};
pub(crate) use self::listen::{Reach, listen};
pub(crate) use self::metrics::ConnectionMetrics;
pub(crate) use self::output::{Output, Written, put_field};
use self::request_head::MAX_HEAD_BYTES;
use self::request_stream::{Heads, RequestStream};
pub(crate) use self::service::{Begun, Service};
pub(crate) use self::threads::Threads;
use self::timeouts::{TimedStream, Timeouts};
use crate::http::{Endless, Problem, Streamed};
use crate::settings::HttpSettings;

/// What a connection is made of: TCP, or anything else that carries bytes both ways.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static {}

impl<I: AsyncRead + AsyncWrite + Unpin + Send + 'static> Stream for I {}

/// What all connections of a listener have in common.
#[derive(Clone)]
pub(crate) struct Connections<S> {
    service: S,
    settings: HttpSettings,
    /// What answers are dated by, whatever limits go by.
    clock: SystemClock,
}

impl<S: Service> Connections<S> {
    pub(crate) fn new(service: S, settings: &HttpSettings) -> Self {
        Self { service, settings: settings.clone(), clock: SystemClock::new() }
    }

    /// Serves `stream` to its end, which comes soon after `stopping` has changed.
    pub(crate) async fn serve(
        &self,
        stream: impl Stream,
        peer: Option<SocketAddr>,
        stopping: watch::Receiver<()>,
    ) {
        let _counted = self.service.metrics().connected();
        let HttpSettings { header_timeout, idle_timeout, stall_timeout, access_log, .. } = self.settings;
        let log = AccessLog::new(access_log, peer);
        let timeouts = Timeouts::new(header_timeout, idle_timeout, stall_timeout);
        let stream = timeouts.watch(stream);
        let connection = Connection { shared: self, peer, timeouts, log, stopping };
        let ended = match connection.by_fast_path(stream).await {
            Some(Rest::Other(stream)) if S::IS_PUBLIC && stream.begins_with(http2::PREFACE) => {
                connection.by_http2(stream).await
            }
            Some(Rest::Other(stream)) => connection.by_hyper(stream).await,
            Some(Rest::Ended(ended)) => ended.map_err(Into::into),
            None => Ok(()),
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "a connection broke");
        }
    }
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// One connection.
struct Connection<'a, S> {
    shared: &'a Connections<S>,
    peer: Option<SocketAddr>,
    timeouts: Timeouts,
    log: AccessLog,
    stopping: watch::Receiver<()>,
}

impl<S: Service> Connection<'_, S> {
    async fn by_fast_path<I: Stream>(&self, stream: TimedStream<I>) -> Option<Rest<I>> {
        let is_owing = AtomicBool::new(false);
        let served = pin!(fast_path::serve(self, stream, &is_owing));
        // A request that has been read is answered, and its answer says that it is the last.
        let stop = |_: Pin<&mut _>| is_owing.load(Ordering::Relaxed);
        self.within_timeouts(served, stop).await
    }

    async fn by_hyper(&self, stream: TimedStream<impl Stream>) -> Result<(), BoxError> {
        let (stream, heads) = RequestStream::new(stream);
        let service = service_fn(|request| self.by_router(request, &heads));
        let mut builder = http1::Builder::new();
        // Ours knows an idle connection from a slow one. An answer is small, so that to copy
        // it behind its head is cheaper than to have the system gather both.
        builder.header_read_timeout(None).max_buf_size(MAX_HEAD_BYTES).writev(false);
        let served = pin!(builder.serve_connection(TokioIo::new(stream), service));
        let stop = |served: Pin<&mut http1::Connection<_, _>>| {
            served.graceful_shutdown();
            true
        };
        self.within_timeouts(served, stop).await.unwrap_or(Ok(())).map_err(Into::into)
    }

    /// `served`, unless the client keeps us waiting for too long. Once the server stops
    /// `stop` is called, and says whether to go on to the end.
    async fn within_timeouts<F: Future>(
        &self,
        mut served: Pin<&mut F>,
        stop: impl Fn(Pin<&mut F>) -> bool,
    ) -> Option<F::Output> {
        let (timeouts, mut stopping) = (&self.timeouts, self.stopping.clone());
        let mut alarm = pin!(tokio::time::sleep(self.shared.settings.header_timeout));
        let mut has_stopped = false;
        loop {
            let earlier = timeouts.until().map(Into::into).filter(|until| *until < alarm.deadline());
            if let Some(until) = earlier {
                alarm.as_mut().reset(until);
            }
            let set_for = alarm.deadline();
            tokio::select! {
                biased;
                ended = &mut served => return Some(ended),
                // Whatever changed the timeout did so while it was served: the
                // alarm is set anew only if it would come too late, so a
                // connection that is always on time costs no timer.
                () = poll_fn(|_| match timeouts.until() {
                    Some(until) if tokio::time::Instant::from(until) < set_for => Poll::Ready(()),
                    _ => Poll::Pending,
                }) => {}
                _ = stopping.changed(), if !has_stopped => {
                    has_stopped = true;
                    if !stop(served.as_mut()) {
                        return None;
                    }
                }
                () = &mut alarm => match timeouts.until() {
                    Some(until) if until <= monotonic() => {
                        tracing::debug!("a connection kept us waiting");
                        return None;
                    }
                    Some(until) => alarm.as_mut().reset(until.into()),
                    None => alarm.as_mut().reset((monotonic() + self.shared.settings.header_timeout).into()),
                },
            }
        }
    }

    /// The answer to one request that hyper has read, or was given in place of a refused head.
    async fn by_router(
        &self,
        request: hyper::Request<Incoming>,
        heads: &Heads,
    ) -> Result<Response<Body>, Infallible> {
        self.timeouts.head_complete();
        let response = routed(&self.shared.service, self.peer, &self.log, request, heads.refusal()).await;
        // The client waits for us for as long as it likes, if it takes what comes.
        if response.extensions().get::<Streamed>().is_some() {
            self.timeouts.streaming();
            return Ok(response.map(|body| self.timeouts.answered_with(body)));
        }
        match response.extensions().get::<Endless>() {
            Some(Endless) => self.timeouts.streaming(),
            None => self.timeouts.answered(heads.is_begun()),
        }
        Ok(response)
    }
}

/// The answer to one request on the ordinary way, or its head's refusal: past the point where access is decided, counted
/// and logged.
async fn routed<S: Service>(
    service: &S,
    peer: Option<SocketAddr>,
    log: &AccessLog,
    request: hyper::Request<Incoming>,
    refusal: Option<Problem>,
) -> Response<Body> {
    let is_read = refusal.is_none();
    let target = is_read.then_some(request.uri() as &dyn ToString);
    let logged = log.request(request.method().as_str(), target);
    let access = AccessRequest {
        peer,
        method: request.method().as_str(),
        path: is_read.then(|| request.uri().path()),
        headers: is_read.then(|| request.headers()),
    };
    let response = match (access::admit(service, &access), refusal) {
        (Err(refused), _) | (Ok(_), Some(refused)) => refused.into_response(),
        (Ok(admitted), None) => service.route(request, admitted).await,
    };
    service.metrics().responded(response.status());
    log.response(logged, response.status());
    response
}
