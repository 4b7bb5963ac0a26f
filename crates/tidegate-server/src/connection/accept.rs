//! The life of a listener: it accepts, within bounds, and ends.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use super::{Connections, Service, Threads};
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

/// Serves on `listener` until `shutdown`, then lets requests in flight end, for as long as the
/// settings allow. `service` is given what says that the end has begun. Connections are served on `threads`, if there are
/// any.
pub(crate) async fn run<S: Service>(
    listener: TcpListener,
    settings: &HttpSettings,
    threads: Threads,
    service: impl FnOnce(watch::Receiver<()>) -> S,
    shutdown: impl Future<Output = ()>,
) -> Ended {
    let (stop, stopping) = watch::channel(());
    let connections = Connections::new(service(stopping.clone()), settings);
    let room = Arc::new(Semaphore::new(settings.max_connections.min(Semaphore::MAX_PERMITS)));
    let mut open = JoinSet::new();
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        tokio::select! {
            () = &mut shutdown => break,
            accepted = accept(&listener, &room) => {
                let Some((stream, peer, permit)) = accepted else { continue };
                // An answer is one small packet: it shall not wait for another.
                let _ = stream.set_nodelay(true);
                let (connections, stopping) = (connections.clone(), stopping.clone());
                match threads.next() {
                    None => drop(open.spawn(async move {
                        connections.serve(stream, Some(peer), stopping).await;
                        drop(permit);
                    })),
                    Some((thread, place)) => {
                        // Whose runtime hears of its bytes is decided where it is made.
                        let stream = stream.into_std();
                        let served = async move {
                            match stream.and_then(TcpStream::from_std) {
                                Ok(stream) => connections.serve(stream, Some(peer), stopping).await,
                                Err(error) => tracing::warn!(%error, "a connection could not be handed on"),
                            }
                            drop((permit, place));
                        };
                        drop(open.spawn_on(served, thread));
                    }
                }
            }
            Some(ended) = open.join_next() => log_panic(ended),
        }
    }
    // Who connects from now on is refused at once, and not left waiting.
    drop(listener);
    // Nobody listens if there are no connections.
    let _ = stop.send(());
    let all = async {
        while let Some(ended) = open.join_next().await {
            log_panic(ended);
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
async fn accept(listener: &TcpListener, room: &Arc<Semaphore>) -> Option<(TcpStream, SocketAddr, Permit)> {
    let permit = room.clone().acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, peer)) => Some((stream, peer, permit)),
        Err(error) => {
            tracing::warn!(%error, "a connection could not be accepted");
            tokio::time::sleep(ACCEPT_PAUSE).await;
            None
        }
    }
}

fn log_panic(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        tracing::error!(%error, "a connection ended by a bug");
    }
}
