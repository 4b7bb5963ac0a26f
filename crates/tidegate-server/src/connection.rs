//! One connection: who reads it, how long it may take, and how it ends.
//!
//! It begins on the fast path ([`crate::fast_path`]), for as long as it asks nothing but
//! takes in the plainest form. Anything else is hyper's from then on.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::Response;
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tidegate::clock::{SystemClock, monotonic};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tower_service::Service as _;

use crate::access_log::{AccessLog, LoggedRequest};
use crate::fast_path::{self, Rest};
use crate::http::{App, Endless, router};
use crate::request_head::MAX_HEAD_BYTES;
use crate::request_stream::{Heads, RequestStream};
use crate::settings::HttpSettings;
use crate::timeouts::{TimedStream, Timeouts};

/// A body: whole, or as a route makes it.
type Answer = Either<Full<Bytes>, Body>;

/// What all connections have in common.
#[derive(Clone)]
pub(crate) struct Connection {
    router: Router,
    pub(crate) app: App,
    header_timeout: Duration,
    idle_timeout: Duration,
    access_log: bool,
    stall_timeout: Duration,
    /// What answers are dated by, whatever limits go by.
    pub(crate) clock: SystemClock,
}

impl Connection {
    pub(crate) fn new(app: App, settings: &HttpSettings) -> Self {
        let HttpSettings { header_timeout, idle_timeout, stall_timeout, access_log, .. } = *settings;
        let (router, clock) = (router(app.clone()), SystemClock::new());
        Self { router, app, header_timeout, idle_timeout, stall_timeout, access_log, clock }
    }

    /// Serves `stream` to its end.
    pub(crate) async fn serve(self, stream: TcpStream, stopping: watch::Receiver<()>) {
        // An answer is one small packet: it shall not wait for another.
        let _ = stream.set_nodelay(true);
        let _counted = self.app.metrics().connected();
        let log = AccessLog::new(self.access_log, &stream);
        let timeouts = Timeouts::new(self.header_timeout, self.idle_timeout, self.stall_timeout);
        let stream = timeouts.watch(stream);
        let ended = match self.by_fast_path(stream, &timeouts, &log, stopping.clone()).await {
            Some(Rest::Other(stream)) => self.by_hyper(stream, &timeouts, &log, stopping).await,
            Some(Rest::Ended(ended)) => ended.map_err(Into::into),
            None => Ok(()),
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "a connection broke");
        }
    }

    async fn by_fast_path(
        &self,
        stream: TimedStream,
        timeouts: &Timeouts,
        log: &AccessLog,
        stopping: watch::Receiver<()>,
    ) -> Option<Rest> {
        let owing = AtomicBool::new(false);
        let served = pin!(fast_path::serve(self, stream, timeouts, log, stopping.clone(), &owing));
        // Who has asked is answered, and told that it was the last time.
        let stop = |_: Pin<&mut _>| owing.load(Ordering::Relaxed);
        self.within_timeouts(served, timeouts, stopping, stop).await
    }

    async fn by_hyper(
        &self,
        stream: TimedStream,
        timeouts: &Timeouts,
        log: &AccessLog,
        stopping: watch::Receiver<()>,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let (stream, heads) = RequestStream::new(stream);
        let service = service_fn(|request| self.answer(request, timeouts, log, &heads));
        let mut builder = http1::Builder::new();
        // Ours knows an idle connection from a slow one. An answer is small, so that to copy
        // it behind its head is cheaper than to have the system gather both.
        builder.header_read_timeout(None).max_buf_size(MAX_HEAD_BYTES).writev(false);
        let served = pin!(builder.serve_connection(TokioIo::new(stream), service));
        let stop = |served: Pin<&mut http1::Connection<_, _>>| {
            served.graceful_shutdown();
            true
        };
        self.within_timeouts(served, timeouts, stopping, stop).await.unwrap_or(Ok(())).map_err(Into::into)
    }

    /// `served`, unless the client keeps us waiting for too long. Once the server stops
    /// `stop` is called, and says whether to go on to the end.
    async fn within_timeouts<F: Future>(
        &self,
        mut served: Pin<&mut F>,
        timeouts: &Timeouts,
        mut stopping: watch::Receiver<()>,
        stop: impl Fn(Pin<&mut F>) -> bool,
    ) -> Option<F::Output> {
        let mut alarm = pin!(tokio::time::sleep(self.header_timeout));
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
                    None => alarm.as_mut().reset((monotonic() + self.header_timeout).into()),
                },
            }
        }
    }

    async fn answer(
        &self,
        request: hyper::Request<Incoming>,
        timeouts: &Timeouts,
        log: &AccessLog,
        heads: &Heads,
    ) -> Result<Response<Answer>, Infallible> {
        timeouts.head_complete();
        let mut logged = log.request(request.method(), request.uri());
        let response = match heads.refusal() {
            Some(refusal) => {
                logged = logged.map(LoggedRequest::refused);
                whole(refusal.whole())
            }
            None => self.routed(request).await,
        };
        // The client waits for us for as long as it likes, if it takes what comes.
        match response.extensions().get::<Endless>() {
            Some(Endless) => timeouts.streaming(),
            None => timeouts.answered(heads.is_begun()),
        }
        self.app.metrics().responded(response.status());
        log.response(logged, response.status());
        Ok(response)
    }

    async fn routed(&self, request: hyper::Request<Incoming>) -> Response<Answer> {
        let mut router = self.router.clone();
        let Ok(response) = router.call(request).await;
        response.map(Either::Right)
    }
}

fn whole(response: Response<Bytes>) -> Response<Answer> {
    response.map(|body| Either::Left(Full::new(body)))
}
