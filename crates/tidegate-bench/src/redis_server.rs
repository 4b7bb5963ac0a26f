//! A Redis of the bench's own: a free port, a temporary folder, nothing saved.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use tempfile::TempDir;
use tidegate::clock::monotonic;

/// A running server; dropping it stops it.
pub(crate) struct RedisServer {
    child: Child,
    address: SocketAddr,
    /// Removed with the server.
    _folder: TempDir,
}

/// A port that was free may be taken by the time the server wants it.
const ATTEMPTS: usize = 5;

/// How long a server may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

impl RedisServer {
    /// Starts a server and waits until it answers.
    pub(crate) fn start() -> Result<Self> {
        let mut last = anyhow!("no attempt was made");
        for _ in 0..ATTEMPTS {
            let mut server = Self::spawn()?;
            match server.wait_until_it_answers() {
                Ok(()) => return Ok(server),
                Err(error) => last = error,
            }
        }
        Err(last.context("redis-server does not start"))
    }

    fn spawn() -> Result<Self> {
        let folder = tempfile::tempdir().context("no temporary folder for redis-server")?;
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .and_then(|listener| listener.local_addr())
            .context("no free port for redis-server")?;
        let spawned = Command::new("redis-server")
            .args(["--bind", "127.0.0.1", "--port", &address.port().to_string()])
            .args(["--save", "", "--appendonly", "no", "--daemonize", "no"])
            .arg("--dir")
            .arg(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        match spawned {
            Ok(child) => Ok(Self { child, address, _folder: folder }),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                bail!("redis-server is not installed: apt-get install redis-server")
            }
            Err(error) => Err(error).context("redis-server does not start"),
        }
    }

    fn wait_until_it_answers(&mut self) -> Result<()> {
        let deadline = monotonic() + PATIENCE;
        loop {
            let answer = self.ping();
            // Another server may have taken the port and answer in its place.
            if let Some(status) = self.child.try_wait()? {
                bail!("redis-server ended at once, {status}");
            }
            if answer.is_ok() {
                return Ok(());
            }
            if monotonic() > deadline {
                return answer.context(format!("no answer within {PATIENCE:?}"));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn ping(&self) -> Result<()> {
        let mut stream = TcpStream::connect_timeout(&self.address, Duration::from_secs(1))?;
        stream.set_read_timeout(Some(Duration::from_secs(1)))?;
        stream.write_all(b"PING\r\n")?;
        let mut answer = [0; 5];
        stream.read_exact(&mut answer)?;
        if &answer != b"+PONG" {
            bail!("PING was answered with {:?}", String::from_utf8_lossy(&answer));
        }
        Ok(())
    }

    /// Its URL.
    pub(crate) fn url(&self) -> String {
        format!("redis://{}/", self.address)
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}

/// Bytes that the server at the other end uses.
pub(crate) async fn used_bytes(connection: &mut redis::aio::MultiplexedConnection) -> Result<f64> {
    let info: redis::InfoDict = redis::cmd("INFO").arg("memory").query_async(connection).await?;
    let bytes: Option<f64> = info.get("used_memory");
    bytes.ok_or_else(|| anyhow!("the server does not say how much memory it uses"))
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        // Nothing can be done about a server that is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
