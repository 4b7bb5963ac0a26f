//! A proxy that breaks things between a client and a server.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

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
    /// Passes requests on and swallows the answers: what was asked is done, and nobody hears of it.
    /// A connection that lost an answer stays without.
    SwallowAnswers,
}

/// A proxy in front of one server.
#[derive(Debug)]
pub struct FaultProxy {
    address: SocketAddr,
    /// Where the server is.
    port: Arc<AtomicU16>,
    fault: watch::Sender<Fault>,
    /// How often all connections of the moment were closed.
    closed: watch::Sender<u64>,
    /// Pieces that [`Fault::Freeze`] holds back.
    held_back: Arc<AtomicUsize>,
    /// Connections so far.
    accepted: watch::Sender<u64>,
    /// Connections that [`Fault::Cut`] closed at once.
    turned_away: watch::Sender<u64>,
    accepting: JoinHandle<()>,
}

impl FaultProxy {
    /// Starts one on a free port, in front of `port`.
    pub async fn start(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let port = Arc::new(AtomicU16::new(port));
        let server_port = port.clone();
        let (fault, faults) = watch::channel(Fault::None);
        let (closed, closings) = watch::channel(0);
        let held_back = Arc::<AtomicUsize>::default();
        let holding = held_back.clone();
        let accepted = watch::Sender::new(0);
        let accepts = accepted.clone();
        let turned_away = watch::Sender::new(0);
        let turns_away = turned_away.clone();
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                if *faults.borrow() == Fault::Cut {
                    drop(client);
                    turns_away.send_modify(|count| *count += 1);
                    continue;
                }
                let mut passing = Passing {
                    faults: faults.clone(),
                    closings: closings.clone(),
                    held_back: holding.clone(),
                    is_answers: false,
                };
                let port = server_port.load(Ordering::Acquire);
                let Ok(server) = TcpStream::connect(("127.0.0.1", port)).await else { continue };
                let ((from_client, to_client), (from_server, to_server)) =
                    (client.into_split(), server.into_split());
                // Whatever is closed from now on, this is.
                passing.closings.mark_unchanged();
                let answers = Passing { is_answers: true, ..passing.clone() };
                tokio::spawn(pass(from_client, to_server, passing));
                tokio::spawn(pass(from_server, to_client, answers));
                accepts.send_modify(|count| *count += 1);
            }
        });
        Self { address, port, fault, closed, held_back, accepted, turned_away, accepting }
    }

    /// The address to connect to.
    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// Where it is.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Passes new connections on to another port from now on: the server was started again.
    pub fn move_to(&self, port: u16) {
        self.port.store(port, Ordering::Release);
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

    /// How many connections it has passed on so far.
    pub fn accepted(&self) -> u64 {
        *self.accepted.borrow()
    }

    /// Waits until it has passed on so many connections, for as long as it takes.
    pub async fn accepts(&self, count: u64) {
        // It lives as long as the sender, which is ours.
        let _ = self.accepted.subscribe().wait_for(|accepted| *accepted >= count).await;
    }

    /// Waits until [`Fault::Cut`] has closed so many more connections at once, counted from this call on, for
    /// as long as it takes.
    pub fn turns_away(&self, more: u64) -> impl Future<Output = ()> + use<> {
        let mut turned_away = self.turned_away.subscribe();
        let before = *turned_away.borrow_and_update();
        async move {
            // Without the sender there is no proxy, and nobody who waits.
            let _ = turned_away.wait_for(|count| *count >= before + more).await;
        }
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
    /// Whether this is the way back.
    is_answers: bool,
}

/// Pieces that may be on their way at once.
const PIECES: usize = 64;

/// Passes bytes one way until either side, or a cut, ends it.
async fn pass(mut from: OwnedReadHalf, to: OwnedWriteHalf, passing: Passing) {
    let Passing { mut faults, mut closings, .. } = passing.clone();
    let (pieces, due) = mpsc::channel(PIECES);
    let mut arriving = tokio::spawn(arrive(due, to, passing));
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let read = tokio::select! {
            read = from.read(&mut buffer) => read,
            changed = faults.wait_for(|fault| *fault == Fault::Cut) => {
                drop(changed);
                return arriving.abort();
            }
            _ = closings.changed() => return arriving.abort(),
            // The other side has ended it.
            _ = &mut arriving => return,
        };
        // What was sent before the end arrives before it.
        let Ok(count @ 1..) = read else { return };
        // Pieces that follow each other closely are late by as much, not by twice as much.
        let by = match *faults.borrow() {
            Fault::Delay(by) => by,
            _ => Duration::ZERO,
        };
        if pieces.send((clock::deadline(by), buffer[..count].to_vec())).await.is_err() {
            return;
        }
    }
}

/// Hands over what has come, when it is due and no fault keeps it.
async fn arrive(mut due: mpsc::Receiver<(Instant, Vec<u8>)>, mut to: OwnedWriteHalf, passing: Passing) {
    let Passing { mut faults, held_back, is_answers, .. } = passing;
    let mut lost_bytes = false;
    while let Some((at, bytes)) = due.recv().await {
        sleep_until(at).await;
        loop {
            let fault = *faults.borrow_and_update();
            match fault {
                Fault::None | Fault::Delay(_) => break,
                Fault::Cut => return,
                Fault::SwallowAnswers if !is_answers => break,
                Fault::HalfOpen | Fault::SwallowAnswers => {
                    lost_bytes = true;
                    break;
                }
                // Held back until something changes.
                Fault::Freeze => {
                    let _held = Held::one_of(&held_back);
                    if faults.changed().await.is_err() {
                        return;
                    }
                }
            }
        }
        if !lost_bytes && to.write_all(&bytes).await.is_err() {
            return;
        }
    }
}

/// A piece that is held back, for as long as it is.
struct Held(Arc<AtomicUsize>);

impl Held {
    fn one_of(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::AcqRel);
        Self(count.clone())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}
