//! Real servers on free ports, in temporary folders.
//!
//! Each runs under a small shell that holds the other end of a pipe to us. When
//! the pipe closes, because the server is dropped, the test panicked or the
//! whole process was killed, the shell stops the server and removes its folder.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use crate::clock;

/// The shell's whole program. Its arguments are the folder and the command. A
/// line on the pipe means that the folder is still needed.
const KEEPER: &str = r#"
dir=$1; shift
"$@" </dev/null 2>&1 &
pid=$!
echo "pid $pid"
read -r keep
kill -9 $pid 2>/dev/null
wait $pid 2>/dev/null
[ "$keep" ] || rm -rf "$dir"
"#;

const START_TIMEOUT: Duration = Duration::from_secs(30);

/// A server begins to speak before it looks at its port.
const SILENCE: Duration = Duration::from_secs(10);

/// A process and the pipe that keeps it alive.
#[derive(Debug)]
struct Kept {
    keeper: Child,
    pipe: Option<ChildStdin>,
    pid: u32,
}

impl Kept {
    /// Starts `program` and waits until it prints `ready`; none if it ends
    /// before, its port is taken, or it says nothing at all.
    fn start(dir: &Path, program: &str, args: &[String], ready: &str) -> Option<Self> {
        let mut keeper = Command::new("sh")
            .args(["-c", KEEPER, "keeper"])
            .arg(dir)
            .arg(program)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("sh starts");
        let stdout = keeper.stdout.take().expect("it is piped");
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                // Read on even if nobody listens: the server must not block on a
                // full pipe.
                let _ = sender.send(line);
            }
        });
        let pipe = keeper.stdin.take();
        let mut kept = Self { keeper, pipe, pid: 0 };
        kept.pid = wait_for(&lines, "pid ")?["pid ".len()..].trim().parse().expect("a pid is a number");
        let Ok(first) = lines.recv_timeout(SILENCE) else {
            // Once in some ten thousand starts, on a machine that is busy with others: not what is tested.
            let status = std::fs::read_to_string(format!("/proc/{}/status", kept.pid)).unwrap_or_default();
            eprintln!("{program} said nothing for {SILENCE:?}, and is stopped:\n{status}");
            return None;
        };
        if first.contains(ready) { Some(kept) } else { wait_for(&lines, ready).map(|_| kept) }
    }

    fn signal(&self, signal: &str) {
        let status = Command::new("kill").args([signal, &self.pid.to_string()]).status().expect("kill runs");
        assert!(status.success(), "kill {signal} {}", self.pid);
    }

    /// Stops the process and waits until it is gone.
    fn stop(&mut self, keep_dir: bool) {
        if let Some(mut pipe) = self.pipe.take() {
            if keep_dir {
                let _ = pipe.write_all(b"keep\n");
            }
            drop(pipe);
        }
        let _ = self.keeper.wait();
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.stop(false);
    }
}

/// The first line with `text` in it; none if there will be no more lines.
fn wait_for(lines: &Receiver<String>, text: &str) -> Option<String> {
    let deadline = clock::monotonic() + START_TIMEOUT;
    let mut seen = Vec::new();
    loop {
        let left = deadline.saturating_duration_since(clock::monotonic());
        let line = match lines.recv_timeout(left) {
            Ok(line) => line,
            Err(RecvTimeoutError::Disconnected) => return None,
            Err(RecvTimeoutError::Timeout) => panic!("no line with {text:?} in {START_TIMEOUT:?}: {seen:#?}"),
        };
        if line.contains(text) {
            return Some(line);
        }
        if line.contains("Address already in use") || line.contains("Failed listening") {
            return None;
        }
        seen.push(line);
    }
}

/// A Redis, or what `TIDEGATE_TEST_SERVER` names, without persistence.
#[derive(Debug)]
pub struct RedisServer {
    kept: Kept,
    program: String,
    dir: PathBuf,
    port: u16,
    args: Vec<String>,
}

impl RedisServer {
    /// Starts one.
    pub fn start() -> Self {
        Self::start_with(&program(), free_port, |port| vec!["--port".into(), port.to_string()])
    }

    /// Starts one with arguments that depend on the port.
    fn start_with(program: &str, ports: impl Fn() -> u16, args: impl Fn(u16) -> Vec<String>) -> Self {
        for _ in 0..20 {
            let dir = tempfile::tempdir().expect("a temporary folder").keep();
            let port = ports();
            if let Some(kept) = launch(program, &dir, &args(port)) {
                return Self { kept, program: program.to_owned(), dir, port, args: args(port) };
            }
        }
        panic!("no free port in 20 tries");
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.kept.pid
    }

    /// Its folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Its address.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Stops it in its tracks: connections stay open, nothing answers.
    pub fn freeze(&self) {
        self.kept.signal("-STOP");
    }

    /// Lets it go on.
    pub fn thaw(&self) {
        self.kept.signal("-CONT");
    }

    /// Kills it.
    pub fn kill(&mut self) {
        self.kept.stop(true);
    }

    /// Kills it if it runs, and starts it again on the same port, empty.
    pub fn restart(&mut self) {
        self.kept.stop(true);
        self.kept = launch(&self.program, &self.dir, &self.args).expect("its own port is free again");
    }

    /// A connection for looking at what was written.
    pub fn connection(&self) -> redis::Connection {
        redis::Client::open(self.url()).and_then(|client| client.get_connection()).expect("the server is up")
    }

    /// All keys that have no end.
    pub fn keys_without_ttl(&self) -> Vec<String> {
        keys_without_ttl(&mut self.connection())
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.kept.stop(false);
        // After a kill nobody else removes it.
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

fn keys_without_ttl(connection: &mut redis::Connection) -> Vec<String> {
    let keys: Vec<String> = redis::cmd("KEYS").arg("*").query(connection).expect("KEYS");
    let ends = |key: &String| redis::cmd("PTTL").arg(key).query::<i64>(connection).expect("PTTL") == -1;
    keys.into_iter().filter(ends).collect()
}

/// Starts a server and waits until it accepts connections; none if its port is taken.
fn launch(program: &str, dir: &Path, args: &[String]) -> Option<Kept> {
    let found = Command::new(program).arg("--version").stdout(Stdio::null()).status();
    assert!(
        found.is_ok_and(|status| status.success()),
        "{program} does not run: `apt-get install redis-server`, or set TIDEGATE_TEST_SERVER to a redis-server or \
         valkey-server"
    );
    let common = ["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--daemonize", "no", "--dir"];
    let mut all: Vec<String> = common.iter().map(|arg| (*arg).to_owned()).collect();
    all.push(dir.to_string_lossy().into_owned());
    all.extend_from_slice(args);
    Kept::start(dir, program, &all, "Ready to accept connections")
}

/// The server that everything runs on.
fn program() -> String {
    std::env::var("TIDEGATE_TEST_SERVER").unwrap_or_else(|_| "redis-server".to_owned())
}

fn free_port() -> u16 {
    // Cluster buses and other tests take ports too: a taken one is tried again.
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port").port()
}

/// Where the bus of a cluster's node is, unless it is told.
const BUS_DISTANCE: u16 = 10_000;

/// A free port whose bus has a free one too.
fn free_port_with_bus() -> u16 {
    let has_bus = |port: &u16| {
        port.checked_add(BUS_DISTANCE).is_some_and(|bus| TcpListener::bind(("127.0.0.1", bus)).is_ok())
    };
    std::iter::repeat_with(free_port).take(1000).find(has_bus).expect("two free ports")
}

/// The first part of a server's version.
fn major_version(program: &str) -> u32 {
    let said = Command::new(program).arg("--version").output().expect("it says its version");
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    let version = said.split(" v=").nth(1).and_then(|rest| rest.split('.').next()?.parse().ok());
    version.unwrap_or_else(|| panic!("{program} says no version: {said}"))
}

/// Whether a server was built with TLS. One that was misses its certificate, one that was not
/// says something else. Neither runs.
fn has_tls(program: &str) -> bool {
    let output = Command::new(program).args(["--port", "0", "--tls-port", &free_port().to_string()]).output();
    output.is_ok_and(|output| {
        let said = [output.stdout, output.stderr].concat();
        String::from_utf8_lossy(&said).contains("tls-cert-file")
    })
}

/// A Redis that speaks only TLS, with a certificate of its own making. If the server that
/// everything runs on was built without, it is `redis-server`: it is our side that is tested.
#[derive(Debug)]
pub struct TlsServer {
    server: RedisServer,
    ca_pem: Vec<u8>,
    _certificates: tempfile::TempDir,
}

impl TlsServer {
    /// Starts one.
    pub fn start() -> Self {
        let certificates = tempfile::tempdir().expect("a temporary folder");
        let file = |name: &str| certificates.path().join(name).to_string_lossy().into_owned();
        let script = r#"
            cd "$0" && printf 'subjectAltName=IP:127.0.0.1,DNS:localhost' > san &&
            openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj '/CN=test authority' -keyout ca.key -out ca.pem &&
            openssl req -newkey rsa:2048 -nodes -subj '/CN=localhost' -keyout server.key -out server.csr &&
            openssl x509 -req -days 2 -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -extfile san -out server.pem
        "#;
        let made =
            Command::new("sh").args(["-c", script]).arg(certificates.path()).output().expect("sh runs");
        assert!(
            made.status.success(),
            "certificates need openssl (`apt-get install openssl`): {}",
            String::from_utf8_lossy(&made.stderr)
        );
        let candidates = [program(), "redis-server".to_owned()];
        let program = candidates.iter().find(|program| has_tls(program)).unwrap_or_else(|| {
            panic!("neither of {candidates:?} was built with TLS: `apt-get install redis-server` has it")
        });
        let server = RedisServer::start_with(program, free_port, |port| {
            let pairs = [
                ("--port", "0".to_owned()),
                ("--tls-port", port.to_string()),
                ("--tls-cert-file", file("server.pem")),
                ("--tls-key-file", file("server.key")),
                ("--tls-ca-cert-file", file("ca.pem")),
                ("--tls-auth-clients", "no".to_owned()),
            ];
            pairs.into_iter().flat_map(|(flag, value)| [flag.to_owned(), value]).collect()
        });
        let ca_pem = std::fs::read(file("ca.pem")).expect("it was just written");
        Self { server, ca_pem, _certificates: certificates }
    }

    /// Its address.
    pub fn url(&self) -> String {
        format!("rediss://127.0.0.1:{}", self.server.port)
    }

    /// Stops it in its tracks: connections stay open, nothing answers.
    pub fn freeze(&self) {
        self.server.freeze();
    }

    /// A connection for looking at what was written. A store on it must be open already:
    /// it chooses how to encrypt.
    pub fn connection(&self) -> redis::Connection {
        let certificates = redis::TlsCertificates { client_tls: None, root_cert: Some(self.ca_pem.clone()) };
        redis::Client::build_with_tls(self.url(), certificates)
            .and_then(|client| client.get_connection())
            .expect("the server is up")
    }

    /// The authority to trust.
    pub fn ca_pem(&self) -> &[u8] {
        &self.ca_pem
    }
}

/// A cluster of three masters.
#[derive(Debug)]
pub struct RedisCluster {
    nodes: Vec<RedisServer>,
}

impl RedisCluster {
    /// Starts one and waits until all slots are served.
    pub fn start() -> Self {
        let mut nodes: Vec<RedisServer> = (0..3)
            .map(|_| {
                // Before version 7 it could not be chosen.
                let bus = (major_version(&program()) >= 7).then(free_port);
                let bus_of = |port: u16| bus.unwrap_or(port + BUS_DISTANCE);
                let ports = || if bus.is_some() { free_port() } else { free_port_with_bus() };
                RedisServer::start_with(&program(), ports, |port| {
                    let mut pairs = vec![
                        ("--port", port.to_string()),
                        ("--cluster-enabled", "yes".to_owned()),
                        ("--cluster-config-file", format!("nodes-{port}.conf")),
                        ("--cluster-node-timeout", "5000".to_owned()),
                        ("--cluster-require-full-coverage", "no".to_owned()),
                    ];
                    pairs.extend(bus.map(|bus| ("--cluster-port", bus.to_string())));
                    let mut args: Vec<String> =
                        pairs.into_iter().flat_map(|(flag, value)| [flag.to_owned(), value]).collect();
                    args.extend(["--cluster-announce-bus-port".to_owned(), bus_of(port).to_string()]);
                    args
                })
            })
            .collect();
        let bounds = [0, 5461, 10_923, 16_384];
        for (i, node) in nodes.iter().enumerate() {
            let mut connection = node.connection();
            let slots: Vec<u16> = (bounds[i]..bounds[i + 1]).collect();
            redis::cmd("CLUSTER").arg("ADDSLOTS").arg(slots).exec(&mut connection).expect("ADDSLOTS");
            redis::cmd("CLUSTER").arg("SET-CONFIG-EPOCH").arg(i + 1).exec(&mut connection).expect("epoch");
        }
        let first = nodes[0].port;
        let first_bus: u16 =
            nodes[0].args.last().and_then(|bus| bus.parse().ok()).expect("the bus is the last");
        for node in &nodes[1..] {
            let mut connection = node.connection();
            let mut meet = redis::cmd("CLUSTER");
            meet.arg("MEET").arg("127.0.0.1").arg(first).arg(first_bus);
            meet.exec(&mut connection).expect("MEET");
        }
        // Every node knows every slot once it says so itself.
        for node in &mut nodes {
            wait_for_all_slots(node);
        }
        Self { nodes }
    }

    /// Its address.
    pub fn url(&self) -> String {
        let nodes: Vec<_> = self.nodes.iter().map(|node| format!("127.0.0.1:{}", node.port)).collect();
        format!("redis-cluster://{}", nodes.join(","))
    }

    /// Its masters.
    pub fn nodes(&self) -> &[RedisServer] {
        &self.nodes
    }

    /// Its masters, to be broken.
    pub fn nodes_mut(&mut self) -> &mut [RedisServer] {
        &mut self.nodes
    }

    /// All keys that have no end, on any node.
    pub fn keys_without_ttl(&self) -> Vec<String> {
        self.nodes.iter().flat_map(RedisServer::keys_without_ttl).collect()
    }
}

/// Gossip has no event to wait for, so the node is asked; the answer is what
/// paces the asking.
fn wait_for_all_slots(node: &mut RedisServer) {
    let deadline = clock::monotonic() + START_TIMEOUT;
    let mut connection = node.connection();
    loop {
        let info: String = redis::cmd("CLUSTER").arg("INFO").query(&mut connection).expect("CLUSTER INFO");
        if info.contains("cluster_slots_ok:16384") && info.contains("cluster_state:ok") {
            return;
        }
        assert!(clock::monotonic() < deadline, "not all slots are served: {info}");
        // A blocking command that nobody answers is a wait of 50 ms on the server.
        let _: redis::RedisResult<redis::Value> = redis::cmd("WAIT").arg(1).arg(50).query(&mut connection);
    }
}
