//! Real servers of PostgreSQL on free ports, in temporary folders.
//!
//! Each runs under a small shell that holds the other end of a pipe to us. When the pipe closes, because the server is
//! dropped, a test panicked or the whole process was killed, the shell stops the server and removes its folder.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use tidegate::clock::monotonic;
use tokio_postgres::{Client, NoTls};

use super::full_disk::FullDisk;

/// The shell's whole program. Its arguments are the folder and the command. A line on the pipe means that the folder is
/// still needed. SIGQUIT is to PostgreSQL what a crash is: it ends at once, and recovers when it starts.
const KEEPER: &str = r#"
dir=$1; shift
"$@" </dev/null 2>&1 &
pid=$!
echo "pid $pid"
read -r keep
kill -QUIT $pid 2>/dev/null
wait $pid 2>/dev/null
[ "$keep" ] || rm -rf "$dir"
"#;

const START_TIMEOUT: Duration = Duration::from_secs(60);

/// What makes a server quick whose data nobody needs after a crash of the machine.
pub(crate) const QUICK: [&str; 3] = ["fsync=off", "full_page_writes=off", "autovacuum=off"];

/// A server.
pub(crate) struct PostgresServer {
    keeper: Child,
    pipe: Option<ChildStdin>,
    folder: PathBuf,
    port: u16,
    settings: Vec<String>,
    variables: Vec<(&'static str, PathBuf)>,
}

/// What a server had.
pub(crate) struct Backup(PathBuf);

impl PostgresServer {
    /// The one that most tests share, each with a database of its own.
    pub(crate) fn shared() -> &'static Self {
        static SHARED: OnceLock<PostgresServer> = OnceLock::new();
        SHARED.get_or_init(|| Self::start(&QUICK))
    }

    /// Starts one with those settings.
    pub(crate) fn start(settings: &[&str]) -> Self {
        let folder = folder();
        // Its language is one that does not sort by bytes.
        let made = unprivileged(&program("initdb"))
            .args([
                "--auth=trust",
                "--username=postgres",
                "--encoding=UTF8",
                "--no-sync",
                "--no-instructions",
            ])
            .args(["--locale=C.UTF-8", "--locale-provider=icu", "--icu-locale=en-US", "-D"])
            .arg(folder.join("data"))
            .output()
            .expect("initdb runs");
        assert!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr));
        Self::run(folder, settings)
    }

    /// Starts one that has TLS, and asks for a password and for TLS; and the authority to trust.
    pub(crate) fn start_with_tls() -> (Self, PathBuf) {
        let script = r#"
            cd "$0" && printf 'subjectAltName=DNS:localhost' > san &&
            openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj '/CN=test authority' -keyout ca.key -out ca.pem &&
            openssl req -newkey rsa:2048 -nodes -subj '/CN=localhost' -keyout server.key -out server.csr &&
            openssl x509 -req -days 2 -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -extfile san -out server.pem
        "#;
        let mut server = Self::start(&QUICK);
        let made =
            unprivileged(Path::new("sh")).args(["-c", script]).arg(&server.folder).output().expect("sh runs");
        assert!(
            made.status.success(),
            "certificates need openssl (`apt-get install openssl`): {}",
            String::from_utf8_lossy(&made.stderr)
        );
        let file = |name: &str| server.folder.join(name).display().to_string();
        let settings = [
            "ssl=on".to_owned(),
            format!("ssl_cert_file={}", file("server.pem")),
            format!("ssl_key_file={}", file("server.key")),
        ];
        let authority = server.folder.join("ca.pem");
        server.settings.extend(settings);
        let access = "local all all trust\nhost all postgres 127.0.0.1/32 trust\n\
            hostssl all all all scram-sha-256\n";
        std::fs::write(server.folder.join("data/pg_hba.conf"), access).expect("it is ours");
        server.crash();
        server.start_again();
        (server, authority)
    }

    /// Starts a standby of a server, with all that it has until now.
    pub(crate) fn standby_of(primary: &Self) -> Self {
        let folder = primary.copy(&["--write-recovery-conf"]);
        Self::run(folder, &primary.settings.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// All that it has until now, in a folder.
    pub(crate) fn backup(&self) -> Backup {
        Backup(self.copy(&[]))
    }

    fn copy(&self, args: &[&str]) -> PathBuf {
        let folder = folder();
        let made = unprivileged(&program("pg_basebackup"))
            .args(["--host=127.0.0.1", "--username=postgres", "--checkpoint=fast"])
            .args(["--wal-method=stream", "--no-sync", &format!("--port={}", self.port)])
            .args(args)
            .arg("-D")
            .arg(folder.join("data"))
            .output()
            .expect("pg_basebackup runs");
        assert!(made.status.success(), "pg_basebackup: {}", String::from_utf8_lossy(&made.stderr));
        folder
    }

    /// Ends it at once, and starts what a backup has in its place.
    pub(crate) fn restore(&mut self, backup: Backup) {
        self.end(false);
        self.folder = backup.0;
        self.start_again();
    }

    /// Runs what is in a folder.
    fn run(folder: PathBuf, settings: &[&str]) -> Self {
        let settings: Vec<_> = settings.iter().map(|it| (*it).to_owned()).collect();
        for _ in 0..20 {
            let port = free_port();
            if let Some((keeper, pipe)) = launch(&folder, port, &settings, &[]) {
                return Self { keeper, pipe: Some(pipe), folder, port, settings, variables: Vec::new() };
            }
        }
        panic!("no free port in 20 tries");
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Puts its tables on a disk that can be full; its log is on another.
    pub(crate) fn on_full_disk(mut self) -> (FullDisk, Self) {
        let disk = FullDisk::of(&self.folder.join("data/base"));
        self.variables = disk.variables().to_vec();
        self.crash();
        self.start_again();
        (disk, self)
    }

    /// What a program of PostgreSQL's says that is told to talk to this server.
    pub(crate) fn program(&self, name: &str, args: &[&str], input: &[u8]) -> Vec<u8> {
        let mut command = unprivileged(&program(name));
        command
            .args(["--host=127.0.0.1", "--username=postgres", &format!("--port={}", self.port)])
            .args(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it runs");
        let mut stdin = child.stdin.take().expect("it is piped");
        let input = input.to_vec();
        let writing = std::thread::spawn(move || stdin.write_all(&input));
        let output = child.wait_with_output().expect("it ends");
        writing.join().expect("it does not panic").expect("all of it is read");
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    }

    /// Ends it at once, as a crash would.
    pub(crate) fn crash(&mut self) {
        self.end(true);
    }

    /// Starts it again, on the same port.
    pub(crate) fn start_again(&mut self) {
        let (keeper, pipe) = launch(&self.folder, self.port, &self.settings, &self.variables)
            .expect("its own port is free again");
        (self.keeper, self.pipe) = (keeper, Some(pipe));
    }

    fn end(&mut self, keep: bool) {
        if let Some(mut pipe) = self.pipe.take() {
            if keep {
                let _ = pipe.write_all(b"keep\n");
            }
            drop(pipe);
        }
        let _ = self.keeper.wait();
    }

    /// Makes a standby one that may be written to, and waits until it may.
    pub(crate) async fn promote(&self) {
        let row = self.client("postgres").await.query_one("SELECT pg_promote()", &[]).await.unwrap();
        assert!(row.get::<_, bool>(0), "it was not promoted");
    }

    /// A connection of somebody who may do everything.
    pub(crate) async fn client(&self, database: &str) -> Client {
        let url = format!("postgres://postgres@127.0.0.1:{}/{database}", self.port);
        let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }

    /// An empty database, and who owns it and may do nothing else: `(name, url)`.
    pub(crate) async fn database(&self) -> (String, String) {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let name = format!("rules_{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        let client = self.client("postgres").await;
        let role = format!("CREATE ROLE {name} LOGIN PASSWORD 'secret'");
        client.batch_execute(&role).await.unwrap();
        let create = format!("CREATE DATABASE {name} OWNER {name} TEMPLATE template0");
        client.batch_execute(&create).await.unwrap();
        let url = self.url(&name);
        (name, url)
    }

    /// The address of a database that was made so.
    pub(crate) fn url(&self, name: &str) -> String {
        format!("postgres://{name}:secret@127.0.0.1:{}/{name}", self.port)
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        self.end(false);
        // After a crash nobody else removes it.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Starts a server and waits until it accepts connections; none if its port is taken.
fn launch(
    folder: &Path,
    port: u16,
    settings: &[String],
    variables: &[(&'static str, PathBuf)],
) -> Option<(Child, ChildStdin)> {
    let mut command = Command::new("sh");
    command.envs(variables.iter().map(|(name, value)| (name, value)));
    command.args(["-c", KEEPER, "keeper"]).arg(folder);
    let postgres = unprivileged(&program("postgres"));
    command.arg(postgres.get_program()).args(postgres.get_args());
    command.arg("-D").arg(folder.join("data")).args(["-p", &port.to_string()]);
    let common = [
        "listen_addresses=127.0.0.1",
        "unix_socket_directories=",
        "max_connections=300",
        "shared_buffers=32MB",
        "max_wal_senders=4",
    ];
    for setting in common.into_iter().chain(settings.iter().map(String::as_str)) {
        command.args(["-c", setting]);
    }
    let mut keeper = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("sh starts");
    let pipe = keeper.stdin.take().expect("it is piped");
    let stdout = keeper.stdout.take().expect("it is piped");
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            // Read on even if nobody listens: the server must not block on a full pipe.
            let _ = sender.send(line);
        }
    });
    if is_ready(&lines) {
        return Some((keeper, pipe));
    }
    // The shell keeps the folder for the next try.
    let mut pipe = pipe;
    let _ = pipe.write_all(b"keep\n");
    drop(pipe);
    let _ = keeper.wait();
    None
}

/// Whether it says that it accepts connections, and not that its port is taken.
fn is_ready(lines: &Receiver<String>) -> bool {
    let deadline = monotonic() + START_TIMEOUT;
    let mut seen = Vec::new();
    loop {
        let left = deadline.saturating_duration_since(monotonic());
        match lines.recv_timeout(left) {
            // A standby is ready for questions alone.
            Ok(line) if line.contains("ready to accept") => return true,
            Ok(line) if line.contains("Address already in use") => return false,
            Ok(line) => seen.push(line),
            Err(RecvTimeoutError::Timeout) => {
                panic!("PostgreSQL is not ready in {START_TIMEOUT:?}: {seen:#?}")
            }
            Err(RecvTimeoutError::Disconnected) => panic!("PostgreSQL has ended: {seen:#?}"),
        }
    }
}

/// Where Debian has a program of PostgreSQL, of the latest version that there is.
fn program(name: &str) -> PathBuf {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut found: Vec<_> =
        versions.map(|version| version.path().join("bin").join(name)).filter(|path| path.exists()).collect();
    found.sort();
    found.pop().unwrap_or_else(|| {
        panic!(
            "there is no {name} in /usr/lib/postgresql/*/bin: `apt-get install postgresql`, or ./scripts/test"
        )
    })
}

/// A command as somebody who is not root: PostgreSQL does not run as root.
fn unprivileged(program: &Path) -> Command {
    let Some((user, _)) = user() else { return Command::new(program) };
    let mut command = Command::new("setpriv");
    // It becomes the program, so that a signal to it is one to the program.
    command.args([&format!("--reuid={user}"), &format!("--regid={user}"), "--init-groups"]).arg(program);
    command.current_dir("/");
    command
}

/// Whom a server runs as, if we are root: the user that the package has made.
fn user() -> Option<(&'static str, u32)> {
    static USER: OnceLock<Option<(&'static str, u32)>> = OnceLock::new();
    *USER.get_or_init(|| {
        let id = |args: &[&str]| {
            let said = Command::new("id").args(args).output().expect("id runs");
            String::from_utf8_lossy(&said.stdout).trim().parse::<u32>().ok()
        };
        if id(&["-u"]) != Some(0) {
            return None;
        }
        let name = "postgres";
        let number = id(&["-u", name]);
        Some((name, number.expect("there is no user postgres: `apt-get install postgresql` makes it")))
    })
}

/// A folder that a server may write to.
fn folder() -> PathBuf {
    let folder = tempfile::tempdir().expect("a temporary folder").keep();
    if let Some((_, id)) = user() {
        std::os::unix::fs::chown(&folder, Some(id), None).expect("root may give a folder away");
    }
    folder
}

fn free_port() -> u16 {
    // Other tests take ports too: a taken one is tried again.
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port").port()
}
