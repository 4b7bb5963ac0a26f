//! A PostgreSQL of the bench's own: a free port, a temporary folder, every commit on the disk.

use std::io::{BufRead as _, BufReader};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use tempfile::TempDir;
use tidegate::clock::monotonic;
use tokio_postgres::{Client, NoTls};

/// A running server; dropping it stops it.
pub(crate) struct PostgresServer {
    child: Child,
    port: u16,
    /// Removed with the server.
    _folder: TempDir,
}

/// Whom it runs as if we are root, as which it does not: the user that Debian's package has made.
const USER: &str = "postgres";

/// A port that was free may be taken by the time the server wants it.
const ATTEMPTS: usize = 5;

/// How long a server may take to accept.
const PATIENCE: Duration = Duration::from_secs(60);

/// What it is told beside its defaults, so that it writes as it would where it matters.
const SETTINGS: [&str; 6] = [
    "listen_addresses=127.0.0.1",
    "unix_socket_directories=",
    "max_connections=200",
    "shared_buffers=256MB",
    "fsync=on",
    "synchronous_commit=on",
];

impl PostgresServer {
    /// Starts a server and waits until it accepts.
    pub(crate) fn start() -> Result<Self> {
        let folder = tempfile::tempdir().context("no temporary folder for PostgreSQL")?;
        if let Some(id) = user()? {
            std::os::unix::fs::chown(folder.path(), Some(id), None)?;
        }
        let data = folder.path().join("data");
        let mut initdb = unprivileged("initdb")?;
        initdb.args(["--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C.UTF-8", "-D"]);
        let made = initdb.arg(&data).output().context("initdb does not start")?;
        ensure!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr));
        let mut last = anyhow!("no attempt was made");
        for _ in 0..ATTEMPTS {
            match Self::run(&data) {
                Ok((child, port)) => return Ok(Self { child, port, _folder: folder }),
                Err(error) => last = error,
            }
        }
        Err(last.context("PostgreSQL does not start"))
    }

    fn run(data: &Path) -> Result<(Child, u16)> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
        let port = listener.and_then(|it| it.local_addr()).context("no free port for PostgreSQL")?.port();
        let mut command = unprivileged("postgres")?;
        command.arg("-D").arg(data).args(["-p", &port.to_string()]);
        for setting in SETTINGS {
            command.args(["-c", setting]);
        }
        let spawned = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
        let mut child = spawned.context("PostgreSQL does not start")?;
        match wait_until_it_accepts(&mut child) {
            Ok(()) => Ok((child, port)),
            Err(error) => {
                stop(&mut child);
                Err(error)
            }
        }
    }

    /// An empty database.
    pub(crate) async fn database(&self, name: &str) -> Result<String> {
        let client = connect(&self.url("postgres")).await?;
        client.batch_execute(&format!("CREATE DATABASE {name}")).await?;
        Ok(self.url(name))
    }

    fn url(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }
}

/// A connection, which ends with its client.
pub(crate) async fn connect(url: &str) -> Result<Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

fn wait_until_it_accepts(child: &mut Child) -> Result<()> {
    let stderr = child.stderr.take().context("its log is piped")?;
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stderr).lines().map_while(Result::ok) {
            // Read on even if nobody listens: the server must not wait for a full pipe.
            let _ = sender.send(line);
        }
    });
    let deadline = monotonic() + PATIENCE;
    let mut said = String::new();
    loop {
        match lines.recv_timeout(deadline.saturating_duration_since(monotonic())) {
            Ok(line) if line.contains("ready to accept") => return Ok(()),
            Ok(line) => said = line,
            Err(RecvTimeoutError::Timeout) => bail!("not ready within {PATIENCE:?}: {said}"),
            Err(RecvTimeoutError::Disconnected) => bail!("it has ended: {said}"),
        }
    }
}

/// A program of PostgreSQL, of the latest version that Debian has put there, as somebody who is not root.
fn unprivileged(name: &str) -> Result<Command> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let programs = versions.map(|version| version.path().join("bin").join(name));
    let mut found: Vec<PathBuf> = programs.filter(|path| path.exists()).collect();
    found.sort();
    let program = found.pop().context("PostgreSQL is not installed: apt-get install postgresql")?;
    if user()?.is_none() {
        return Ok(Command::new(program));
    }
    let mut command = Command::new("setpriv");
    // It becomes the program, so that a signal to it is one to the program.
    command.args([&format!("--reuid={USER}"), &format!("--regid={USER}"), "--init-groups"]).arg(program);
    command.current_dir("/");
    Ok(command)
}

/// The number of [`USER`], if we are root.
fn user() -> Result<Option<u32>> {
    let id = |args: &[&str]| {
        let said = Command::new("id").args(args).output().context("id does not start")?;
        anyhow::Ok(String::from_utf8_lossy(&said.stdout).trim().parse::<u32>().ok())
    };
    if id(&["-u"])? != Some(0) {
        return Ok(None);
    }
    let number = id(&["-u", USER])?;
    Ok(Some(number.context("there is no user postgres: apt-get install postgresql makes it")?))
}

/// By the signal that ends it at once, which its own processes get from it; killed, it would leave them behind.
fn stop(child: &mut Child) {
    // Nothing can be done about a server that is gone already.
    let _ = Command::new("kill").args(["-QUIT", &child.id().to_string()]).status();
    let _ = child.wait();
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        stop(&mut self.child);
    }
}
