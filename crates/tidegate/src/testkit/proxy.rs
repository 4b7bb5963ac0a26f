//! A proxy that breaks things between a client and a server.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep_until;

use crate::clock;

/// What the proxy does to bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// Passes them on.
    None,
    /// Passes them on, later.
    Delay(Duration),
    /// Closes every connection, new ones at once.
    Cut,
    /// Holds them back, and passes them on when the fault is over.
    Freeze,
    /// Swallows them. A connection that lost bytes stays dead though it looks
    /// open, as after a firewall forgot it.
    HalfOpen,
}

/// A proxy in front of one server.
#[derive(Debug)]
pub struct FaultProxy {
    address: SocketAddr,
    fault: watch::Sender<Fault>,
    /// How often all connections of the moment were closed.
    closed: watch::Sender<u64>,
    /// Pieces that [`Fault::Freeze`] holds back.
    held_back: Arc<AtomicUsize>,
    accepting: JoinHandle<()>,
}

impl FaultProxy {
    /// Starts one on a free port, in front of `port`.
    pub async fn start(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let (fault, faults) = watch::channel(Fault::None);
        let (closed, closings) = watch::channel(0);
        let held_back = Arc::<AtomicUsize>::default();
        let holding = held_back.clone();
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                if *faults.borrow() == Fault::Cut {
                    continue;
                }
                let passing = Passing {
                    faults: faults.clone(),
                    closings: closings.clone(),
                    held_back: holding.clone(),
                };
                let Ok(server) = TcpStream::connect(("127.0.0.1", port)).await else { continue };
                let ((from_client, to_client), (from_server, to_server)) =
                    (client.into_split(), server.into_split());
                tokio::spawn(pass(from_client, to_server, passing.clone()));
                tokio::spawn(pass(from_server, to_client, passing.clone()));
            }
        });
        Self { address, fault, closed, held_back, accepting }
    }

    /// The address to connect to.
    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// Breaks things, or mends them.
    pub fn set(&self, fault: Fault) {
        self.fault.send_replace(fault);
    }

    /// Closes the connections there are, as a load balancer does with idle ones. New
    /// ones are welcome.
    pub fn close_connections(&self) {
        self.closed.send_modify(|times| *times += 1);
    }

    /// How many pieces it holds back.
    pub fn held_back(&self) -> usize {
        self.held_back.load(Ordering::Acquire)
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// What all connections are told.
#[derive(Clone)]
struct Passing {
    faults: watch::Receiver<Fault>,
    closings: watch::Receiver<u64>,
    held_back: Arc<AtomicUsize>,
}

/// Passes bytes one way until either side, or a cut, ends it.
async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, passing: Passing) {
    let Passing { mut faults, mut closings, held_back } = passing;
    closings.mark_unchanged();
    let mut buffer = vec![0; 64 * 1024];
    let mut lost_bytes = false;
    loop {
        let read = tokio::select! {
            read = from.read(&mut buffer) => read,
            changed = faults.wait_for(|fault| *fault == Fault::Cut) => {
                drop(changed);
                return;
            }
            _ = closings.changed() => return,
        };
        let Ok(count @ 1..) = read else { return };
        loop {
            let fault = *faults.borrow_and_update();
            match fault {
                Fault::None => break,
                Fault::Delay(by) => {
                    sleep_until(clock::deadline(by)).await;
                    break;
                }
                Fault::Cut => return,
                Fault::HalfOpen => {
                    lost_bytes = true;
                    break;
                }
                // Held back until something changes.
                Fault::Freeze => {
                    held_back.fetch_add(1, Ordering::AcqRel);
                    let ended = tokio::select! {
                        biased;
                        _ = closings.changed() => true,
                        changed = faults.changed() => changed.is_err(),
                    };
                    held_back.fetch_sub(1, Ordering::AcqRel);
                    if ended {
                        return;
                    }
                }
            }
        }
        if !lost_bytes && to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
}
