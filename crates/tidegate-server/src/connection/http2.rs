//! HTTP/2 without TLS, for clients that know that it is spoken here.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::body::Body;
use axum::http::Response;
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};

use super::access_log::AccessLog;
use super::request_head::MAX_HEAD_BYTES;
use super::timeouts::{TimedStream, Timeouts};
use super::{BoxError, Connection, Service, Stream, routed};

/// What a connection of HTTP/2 begins with, as far as it is no request of another version.
pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0";

/// Requests of a connection at the same time.
const MAX_STREAMS: u32 = 128;

/// What its requests share.
struct Shared<S> {
    service: S,
    peer: Option<SocketAddr>,
    log: AccessLog,
    streams: Streams,
}

/// How many requests are under way.
struct Streams {
    open: AtomicUsize,
    timeouts: Timeouts,
}

impl Streams {
    fn opened(&self) -> Opened<'_> {
        // The client waits for us for as long as it likes, if it takes what comes.
        if self.open.fetch_add(1, Ordering::Relaxed) == 0 {
            self.timeouts.streaming();
        }
        Opened(self)
    }
}

/// One that is.
struct Opened<'a>(&'a Streams);

impl Drop for Opened<'_> {
    fn drop(&mut self) {
        if self.0.open.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.0.timeouts.no_streams();
        }
    }
}

impl<S: Service> Connection<'_, S> {
    pub(super) async fn by_http2(&self, stream: TimedStream<impl Stream>) -> Result<(), BoxError> {
        self.timeouts.no_streams();
        let streams = Streams { open: AtomicUsize::new(0), timeouts: self.timeouts.clone() };
        let service = self.shared.service.clone();
        let shared = Arc::new(Shared { service, peer: self.peer, log: self.log.clone(), streams });
        let service = service_fn(move |request| respond(Arc::clone(&shared), request));
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder.max_concurrent_streams(MAX_STREAMS).max_header_list_size(MAX_HEAD_BYTES as u32);
        let served = pin!(builder.serve_connection(TokioIo::new(stream), service));
        let stop = |served: Pin<&mut http2::Connection<_, _, _>>| {
            served.graceful_shutdown();
            true
        };
        self.within_timeouts(served, stop).await.unwrap_or(Ok(())).map_err(Into::into)
    }
}

async fn respond<S: Service>(
    shared: Arc<Shared<S>>,
    request: hyper::Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    let _opened = shared.streams.opened();
    Ok(routed(&shared.service, shared.peer, &shared.log, request, None).await)
}
