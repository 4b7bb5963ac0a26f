//! Where the server listens, and whether it may.
//!
//! There is no access control: who reaches the port may do everything. So a port that others
//! than this machine can reach is opened only for those who have said that they know.

use std::io;
use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpSocket, lookup_host};

use crate::settings::{HttpSettings, Listen};

/// Listens, or says why not.
pub(crate) async fn listen(listen: &Listen, settings: &HttpSettings) -> Result<TcpListener, String> {
    let address = listen.as_str();
    let refused = |error| format!("cannot listen on {address}: {error}");
    let addresses: Vec<_> = lookup_host(address).await.map_err(refused)?.collect();
    let is_reachable = addresses.iter().any(|address| !address.ip().to_canonical().is_loopback());
    if is_reachable && !settings.trusted_network {
        return Err(format!(
            "cannot listen on {address}: it can be reached from other machines, and who reaches it may read, \
             change and delete everything; listen on 127.0.0.1, or set `http.trusted_network: true` if only \
             those reach it who may"
        ));
    }
    let mut last = io::Error::new(io::ErrorKind::NotFound, "it is the name of no address");
    for address in addresses {
        match bind(address, settings.backlog) {
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
