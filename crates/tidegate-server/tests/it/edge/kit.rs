//! Processes that redirect, and somebody who follows no redirect.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use tidegate::clock::monotonic;

use crate::cli::{tidegate, within};
use crate::support::SOON;

/// Waits until `is_so`, and fails if that takes too long.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = monotonic() + SOON;
    while !is_so() {
        assert!(monotonic() < deadline, "{what}: it should have happened by now");
        thread::yield_now();
    }
}

/// A process of this test's own, with the addresses that it announced; ends with it.
pub(crate) struct Process {
    child: Child,
    addresses: Vec<String>,
    log: Option<thread::JoinHandle<String>>,
}

impl Process {
    /// One that announces `lines` addresses.
    pub(crate) fn start(lines: usize, args: &[&str]) -> Self {
        Self::spawn(lines, tidegate(args))
    }

    pub(crate) fn spawn(lines: usize, mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut err = child.stderr.take().unwrap();
        // It must not wait for somebody who reads its log.
        let log = thread::spawn(move || {
            let mut log = String::new();
            let _ = err.read_to_string(&mut log);
            log
        });
        let out = BufReader::new(child.stdout.take().unwrap());
        let addresses: Vec<_> = within(move || {
            let announced = out.lines().take(lines).map_while(Result::ok);
            announced.map(|line| line.strip_prefix("http://").unwrap().to_owned()).collect()
        });
        if addresses.len() < lines {
            let _ = child.wait();
            panic!("{addresses:?} of {lines}: {}", log.join().unwrap());
        }
        Self { child, addresses, log: Some(log) }
    }

    /// `serve` with these rules, its API and its redirects.
    pub(crate) fn serve(rules: &str, more: &[&str]) -> Self {
        let args = ["serve", "--listen", "127.0.0.1:0", "--edge-listen", "127.0.0.1:0", "--rules", rules];
        Self::start(2, &[&args, more].concat()).loaded()
    }

    /// A worker that follows a server, with an API of its own.
    pub(crate) fn edge(origin: &str, more: &[&str]) -> Self {
        let origin = format!("http://{origin}");
        let args = ["edge", "--origin", &origin, "--listen", "127.0.0.1:0", "--edge-listen", "127.0.0.1:0"];
        Self::start(2, &[&args, more].concat())
    }

    /// The same once it has all keys.
    pub(crate) fn loaded(self) -> Self {
        until("ready", || exchange(self.api(), "GET", "t", "/readyz", "").status == 200);
        self
    }

    pub(crate) fn api(&self) -> &str {
        &self.addresses[0]
    }

    pub(crate) fn redirects(&self) -> &str {
        self.addresses.last().unwrap()
    }

    /// What is answered to a GET for that host and path.
    pub(crate) fn get(&self, host: &str, path: &str) -> Answer {
        exchange(self.redirects(), "GET", host, path, "")
    }

    /// Where a request is sent.
    pub(crate) fn location(&self, host: &str, path: &str) -> Option<String> {
        self.get(host, path).header("location").map(str::to_owned)
    }

    /// A request to its API.
    pub(crate) fn call(&self, method: &str, path: &str, body: &Value) -> Value {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let answer = exchange(self.api(), method, "t", path, &body);
        assert!(answer.status < 300, "{method} {path}: {answer:?}");
        serde_json::from_str(&answer.body).unwrap_or(Value::Null)
    }

    /// Makes a rule, or replaces it.
    pub(crate) fn rule(&self, id: &str, terms: Value) -> Value {
        self.call("PUT", &format!("/v1/rules/{id}"), &terms)
    }

    /// The same, and waits until it is applied here.
    pub(crate) fn applied_rule(&self, id: &str, terms: Value) {
        let seq = self.rule(id, terms)["seq"].as_u64();
        if let Some(seq) = seq {
            self.has_applied(seq);
        }
    }

    /// Waits until a change is applied here.
    pub(crate) fn has_applied(&self, seq: u64) {
        until("applied", || {
            let cache = self.call("GET", "/v1/edge/cache", &Value::Null);
            let applied = cache["progress"]["applied"].as_str().unwrap_or_default().to_owned();
            applied.split(':').nth(1).and_then(|it| it.parse::<u64>().ok()).is_some_and(|it| it >= seq)
        });
    }

    /// Memory of its own that it has now, in bytes.
    pub(crate) fn resident_bytes(&self) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let kib = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
        kib.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10
    }

    /// A number of its metrics.
    pub(crate) fn metric(&self, name: &str) -> u64 {
        let metrics = exchange(self.api(), "GET", "t", "/metrics", "").body;
        let value = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.unwrap_or_else(|| panic!("{name} in {metrics}")).parse().unwrap()
    }

    pub(crate) fn signal(&self, signal: &str) {
        let kill = format!("kill -{signal} {}", self.child.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    }

    /// Ends it, as a system would, and waits for that; its log.
    pub(crate) fn stop(mut self) -> String {
        self.signal("TERM");
        let mut status = None;
        until("stopped", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        let log = self.log.take().unwrap().join().unwrap();
        assert_eq!(status.and_then(|it| it.code()), Some(0), "{log}");
        assert!(!log.contains("not all clicks") && !log.contains("panicked"), "{log}");
        log
    }

    /// Ends it without a word.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }
}

/// A connection that is kept.
pub(crate) struct Connection(BufReader<TcpStream>);

impl Connection {
    pub(crate) fn open(address: &str) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(SOON)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self(BufReader::new(stream))
    }

    pub(crate) fn send(&mut self, request: &str) {
        self.0.get_mut().write_all(request.as_bytes()).unwrap();
    }

    /// The next answer; to HEAD it has no body.
    pub(crate) fn read(&mut self, is_head: bool) -> Answer {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert!(self.0.read_line(&mut head).unwrap() > 0, "ended: {head}");
        }
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let answer = Answer { status, head, body: String::new() };
        let length = answer.header("content-length").filter(|_| !is_head).map_or(0, |it| it.parse().unwrap());
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).unwrap();
        Answer { body: String::from_utf8(body).unwrap(), ..answer }
    }

    pub(crate) fn ask(&mut self, method: &str, host: &str, path: &str, lines: &str) -> Answer {
        self.send(&format!("{method} {path} HTTP/1.1\r\nhost: {host}\r\n{lines}\r\n"));
        self.read(method == "HEAD")
    }
}

/// What is answered to GETs that are sent together, in their order.
pub(crate) fn pipelined(connection: &mut Connection, host: &str, paths: &[String]) -> Vec<Answer> {
    let request = |path: &String| format!("GET {path} HTTP/1.1\r\nhost: {host}\r\n\r\n");
    connection.send(&paths.iter().map(request).collect::<String>());
    paths.iter().map(|_| connection.read(false)).collect()
}

/// One request over a connection of its own.
pub(crate) fn exchange(address: &str, method: &str, host: &str, path: &str, body: &str) -> Answer {
    let length = match body {
        "" => String::new(),
        body => format!("content-length: {}\r\n", body.len()),
    };
    let mut connection = Connection::open(address);
    connection.send(&format!("{method} {path} HTTP/1.1\r\nhost: {host}\r\n{length}\r\n{body}"));
    connection.read(method == "HEAD")
}

/// One request over a connection of its own, if it is answered: the status, the head and the body.
pub(crate) fn try_exchange(address: &str, request: &str) -> Option<(u16, String, String)> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(SOON)).ok()?;
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    Some((head.split(' ').nth(1)?.parse().ok()?, head.to_owned(), body.to_owned()))
}

/// One request to an API, if it is answered.
pub(crate) fn try_call(address: &str, method: &str, path: &str, body: &str) -> Option<(u16, Value)> {
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: t\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n"
    );
    let (status, _, body) = try_exchange(address, &format!("{head}{body}"))?;
    Some((status, serde_json::from_str(&body).unwrap_or(Value::Null)))
}

/// A file for rules.
pub(crate) struct Rules(tempfile::TempDir);

impl Rules {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn url(&self) -> String {
        format!("sqlite:{}", self.file().display())
    }

    /// The same rules once more, while nobody has them open.
    pub(crate) fn copy(&self) -> Self {
        let copy = Self::new();
        std::fs::copy(self.file(), copy.file()).unwrap();
        copy
    }

    fn file(&self) -> std::path::PathBuf {
        self.0.path().join("rules.db")
    }

    /// A rule as the file has it, while no server does.
    pub(crate) fn get(&self, id: &str) -> Value {
        let (code, out, err) =
            crate::cli::run(tidegate(&["rules", "get", id, "--json", "--rules", &self.url()]));
        assert_eq!(code, 0, "{err}");
        serde_json::from_str(&out).unwrap()
    }
}

/// A rule for any host.
pub(crate) fn to(path: &str, destination: &str) -> Value {
    json!({"path": path, "destination": destination})
}

/// Far less than a deadline is exceeded by, on a machine that has much else to do.
pub(crate) const MARGIN: Duration = Duration::from_secs(5);
