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
    /// Where it redirects, if that is elsewhere.
    redirects: SocketAddr,
}

impl Server {
    /// `tidegate serve` with these settings, which says where it listens.
    pub(crate) fn tidegate(binary: &Path, settings: &[(&str, &str)]) -> Result<Self> {
        Self::announced(&mut serve(binary, settings), 1)
    }

    /// The same with redirects on a listener of their own.
    pub(crate) fn redirecting(binary: &Path, settings: &[(&str, &str)]) -> Result<Self> {
        Self::announced(serve(binary, settings).args(["--edge-listen", "127.0.0.1:0"]), 2)
    }

    /// One that says on so many lines where it listens.
    pub(crate) fn announced(command: &mut Command, lines: usize) -> Result<Self> {
        let mut child = spawn(command.stdout(Stdio::piped()))?;
        let said: Vec<_> = match child.stdout.take() {
            Some(stdout) => BufReader::new(stdout).lines().take(lines).map_while(Result::ok).collect(),
            None => Vec::new(),
        };
        let addresses = said.iter().map(|line| line.strip_prefix("http://")?.parse().ok());
        match addresses.collect::<Option<Vec<SocketAddr>>>().as_deref() {
            Some([address, .., redirects]) => Ok(Self { child, address: *address, redirects: *redirects }),
            Some([address]) if lines == 1 => Ok(Self { child, address: *address, redirects: *address }),
            _ => {
                stop(&mut child);
                bail!("a server does not say where it listens, but {said:?}")
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
        let mut server = Self { child: spawn(command.stdout(Stdio::null()))?, address, redirects: address };
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

    /// Where it redirects.
    pub(crate) fn redirects(&self) -> SocketAddr {
        self.redirects
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}

fn serve(binary: &Path, settings: &[(&str, &str)]) -> Command {
    let mut command = Command::new(binary);
    command.args(["serve", "--listen", "127.0.0.1:0", "--store", "memory:", "--set", "log.level=warn"]);
    for (setting, value) in settings {
        command.args(["--set", &format!("{setting}={value}")]);
    }
    command
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
