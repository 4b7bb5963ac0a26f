//! An HTTP server of the bench's own, on loopback and a free port.

use std::io::{BufRead as _, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use tidegate::clock::monotonic;

/// How long a server may take to accept.
const PATIENCE: Duration = Duration::from_secs(10);

/// A running server; dropping it stops it.
pub(crate) struct Server {
    child: Child,
    address: SocketAddr,
}

impl Server {
    /// `tidegate serve` with these settings, which says where it listens.
    pub(crate) fn tidegate(binary: &Path, settings: &[(&str, &str)]) -> Result<Self> {
        let mut command = Command::new(binary);
        command.args(["serve", "--listen", "127.0.0.1:0", "--store", "memory:", "--set", "log.level=warn"]);
        for (setting, value) in settings {
            command.args(["--set", &format!("{setting}={value}")]);
        }
        let mut child = spawn(command.stdout(Stdio::piped()))?;
        let mut line = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout).read_line(&mut line)?;
        }
        let address = line.trim().strip_prefix("http://").and_then(|address| address.parse().ok());
        match address {
            Some(address) => Ok(Self { child, address }),
            None => {
                stop(&mut child);
                bail!("tidegate does not say where it listens, but {line:?}")
            }
        }
    }

    /// throttlecrab-server over HTTP, as it is unless told otherwise.
    pub(crate) fn throttlecrab(binary: &Path) -> Result<Self> {
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .and_then(|listener| listener.local_addr())
            .context("no free port")?;
        let mut command = Command::new(binary);
        command.args(["--http", "--http-host", "127.0.0.1", "--http-port", &address.port().to_string()]);
        command.args(["--log-level", "warn"]);
        let mut server = Self { child: spawn(command.stdout(Stdio::null()))?, address };
        server.wait_until_it_accepts()?;
        Ok(server)
    }

    fn wait_until_it_accepts(&mut self) -> Result<()> {
        let deadline = monotonic() + PATIENCE;
        while let Err(error) = TcpStream::connect_timeout(&self.address, Duration::from_secs(1)) {
            if let Some(status) = self.child.try_wait()? {
                bail!("the server ended at once, {status}");
            }
            if monotonic() > deadline {
                return Err(error).context(format!("no connection within {PATIENCE:?}"));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}

/// Nothing of our own environment shall be a setting of theirs.
fn spawn(command: &mut Command) -> Result<Child> {
    let spawned = command.env_clear().stdin(Stdio::null()).stderr(Stdio::null()).spawn();
    spawned.with_context(|| format!("{} does not start", command.get_program().display()))
}

fn stop(child: &mut Child) {
    // Nothing can be done about a server that is gone already.
    let _ = child.kill();
    let _ = child.wait();
}

impl Drop for Server {
    fn drop(&mut self) {
        stop(&mut self.child);
    }
}
