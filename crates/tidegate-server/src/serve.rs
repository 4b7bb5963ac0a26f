//! Connections: their bounds, their timeouts, and how they end.
//!
//! The caller owns the port and the lifetime: [`run`] takes a listener and a
//! future that ends when the server shall.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Response;
use axum::response::IntoResponse as _;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tidegate::clock::monotonic;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tower_service::Service as _;

use crate::http::{App, Endless, Problem, is_bulk, router};
use crate::patience::Patience;
use crate::settings::HttpSettings;

/// How the server ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// Connections that were still busy at the deadline.
    pub cut: usize,
}

/// After a failed accept, for want of file descriptors most likely: long enough
/// not to spin, short enough not to be noticed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The most a connection may have us keep of a request's head.
const MAX_HEAD_BYTES: usize = 16 * 1024;

/// Serves `app` on `listener` until `shutdown`, then lets requests in flight end,
/// for as long as the settings allow.
pub async fn run(
    listener: TcpListener,
    app: App,
    settings: &HttpSettings,
    shutdown: impl Future<Output = ()>,
) -> Ended {
    let (stop, stopping) = watch::channel(());
    let connection = Connection {
        router: router(app.clone().on_server(settings, stopping.clone())),
        app,
        request_timeout: settings.request_timeout,
        header_timeout: settings.header_timeout,
        idle_timeout: settings.idle_timeout,
    };
    let room = Arc::new(Semaphore::new(settings.max_connections.min(Semaphore::MAX_PERMITS)));
    let mut open = JoinSet::new();
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        tokio::select! {
            () = &mut shutdown => break,
            accepted = accept(&listener, &room) => {
                let Some((stream, permit)) = accepted else { continue };
                let (connection, stopping) = (connection.clone(), stopping.clone());
                open.spawn(async move {
                    connection.serve(stream, stopping).await;
                    drop(permit);
                });
            }
            Some(ended) = open.join_next() => told_of_panics(ended),
        }
    }
    // Who connects from now on is refused at once, and not left waiting.
    drop(listener);
    // Nobody listens if there are no connections.
    let _ = stop.send(());
    let all = async {
        while let Some(ended) = open.join_next().await {
            told_of_panics(ended);
        }
    };
    let cut = match tokio::time::timeout(settings.shutdown_deadline, all).await {
        Ok(()) => 0,
        Err(_) => open.len(),
    };
    open.shutdown().await;
    Ended { cut }
}

type Permit = tokio::sync::OwnedSemaphorePermit;

/// The next connection, once there is room for it.
async fn accept(listener: &TcpListener, room: &Arc<Semaphore>) -> Option<(TcpStream, Permit)> {
    let permit = room.clone().acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, _)) => Some((stream, permit)),
        Err(error) => {
            tracing::warn!(%error, "a connection could not be accepted");
            tokio::time::sleep(ACCEPT_PAUSE).await;
            None
        }
    }
}

fn told_of_panics(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        tracing::error!(%error, "a connection ended by a bug");
    }
}

#[derive(Clone)]
struct Connection {
    router: Router,
    app: App,
    request_timeout: Duration,
    header_timeout: Duration,
    idle_timeout: Duration,
}

impl Connection {
    async fn serve(self, stream: TcpStream, mut stopping: watch::Receiver<()>) {
        // An answer is one small packet: it shall not wait for another.
        let _ = stream.set_nodelay(true);
        let _counted = self.app.metrics().connected();
        let patience = Patience::new(self.header_timeout, self.idle_timeout);
        let stream = TokioIo::new(patience.watch(stream));
        let service = service_fn(|request| self.answer(request, &patience));
        let mut builder = http1::Builder::new();
        // Ours knows an idle connection from a slow one.
        builder.header_read_timeout(None).max_buf_size(MAX_HEAD_BYTES);
        let served = builder.serve_connection(stream, service);
        let mut served = std::pin::pin!(served);
        let mut alarm = std::pin::pin!(tokio::time::sleep(self.header_timeout));
        let mut told = false;
        let ended = loop {
            let earlier = patience.until().map(Into::into).filter(|until| *until < alarm.deadline());
            if let Some(until) = earlier {
                alarm.as_mut().reset(until);
            }
            let set_for = alarm.deadline();
            tokio::select! {
                biased;
                ended = &mut served => break ended,
                // Whatever changed our patience did so while it was served: the
                // alarm is set anew only if it would come too late, so a
                // connection that is always on time costs no timer.
                () = poll_fn(|_| match patience.until() {
                    Some(until) if tokio::time::Instant::from(until) < set_for => Poll::Ready(()),
                    _ => Poll::Pending,
                }) => {}
                _ = stopping.changed(), if !told => {
                    told = true;
                    served.as_mut().graceful_shutdown();
                }
                () = &mut alarm => match patience.until() {
                    Some(until) if until <= monotonic() => {
                        tracing::debug!("a connection kept us waiting");
                        return;
                    }
                    Some(until) => alarm.as_mut().reset(until.into()),
                    None => alarm.as_mut().reset((monotonic() + self.header_timeout).into()),
                },
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "a connection broke");
        }
    }

    async fn answer(
        &self,
        request: hyper::Request<Incoming>,
        patience: &Patience,
    ) -> Result<Response<Body>, Infallible> {
        patience.asked();
        // It has a time of its own, and looks after it.
        let is_bulk = is_bulk(&request);
        // A call that is answered at once never starts a timer.
        let answer = self.router.clone().call(request);
        let response = match is_bulk {
            true => answer.await?,
            false => match tokio::time::timeout(self.request_timeout, answer).await {
                Ok(response) => response?,
                Err(_) => Problem::timeout(self.request_timeout).into_response(),
            },
        };
        // The client waits for us for as long as it likes, and then leaves.
        if response.extensions().get::<Endless>().is_none() {
            patience.answered();
        }
        self.app.metrics().responded(response.status());
        Ok(response)
    }
}
