//! Where the server listens, and whether it may.
//!
//! There is no access control: who reaches the API's port may do everything. So one that others
//! than this machine can reach is opened only for those who have said that they know. Redirects are for everybody.

use std::io;
use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpSocket, lookup_host};

use crate::settings::{HttpSettings, Listen};

/// Who may be let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Who may do everything.
    Trusted,
    Everybody,
}

/// Listens, or says why not.
pub(crate) async fn listen(
    listen: &Listen,
    settings: &HttpSettings,
    reach: Reach,
) -> Result<TcpListener, String> {
    let address = listen.as_str();
    let refused = |error| format!("cannot listen on {address}: {error}");
    let addresses: Vec<_> = lookup_host(address).await.map_err(refused)?.collect();
    let is_reachable = addresses.iter().any(|address| !address.ip().to_canonical().is_loopback());
    if is_reachable && reach == Reach::Trusted && !settings.trusted_network {
        return Err(format!(
            "cannot listen on {address}: it can be reached from other machines, and who reaches it may read, \
             change and delete everything; listen on 127.0.0.1, or set `http.trusted_network: true` if only \
             those reach it who may"
        ));
    }
    // At most sixteen bits.
    let backlog = settings.backlog as u32;
    let mut last = io::Error::new(io::ErrorKind::NotFound, "it is the name of no address");
    for address in addresses {
        match bind(address, backlog) {
            Ok(listener) => return Ok(listener),
            Err(error) => last = error,
        }
    }
    Err(refused(last))
}

fn bind(address: SocketAddr, backlog: u32) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // A restart need not wait for the connections of the one before. On Windows it would mean
    // to share the port.
    #[cfg(not(windows))]
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(backlog)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::time::Duration;

    use tokio::net::TcpStream;

    use super::*;

    /// How many of `of` connect while nobody accepts.
    async fn connected(backlog: u32, of: usize) -> usize {
        let listener = bind("127.0.0.1:0".parse().unwrap(), backlog).unwrap();
        let address = listener.local_addr().unwrap();
        let mut held = Vec::new();
        for _ in 0..of {
            match tokio::time::timeout(Duration::from_millis(300), TcpStream::connect(address)).await {
                Ok(connected) => held.push(connected.unwrap()),
                // It has to try again, a second later.
                Err(_) => break,
            }
        }
        held.len()
    }

    #[tokio::test]
    async fn as_many_wait_to_be_accepted_as_the_backlog_says() {
        // The system has room for one more.
        assert_eq!(connected(3, 20).await, 4);
        assert_eq!(connected(1024, 200).await, 200);
    }
}
