//! The binary: what it prints and how it exits; and servers of a test's own.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;

use serde_json::{Value, json};
use tidegate::clock::monotonic;

use crate::support::SOON;

/// The binary, with nothing of this process's environment that it would read.
pub(crate) fn tidegate(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.env_clear().args(args).stdin(Stdio::null());
    command
}

/// Ends soon, or the test does.
pub(crate) fn within<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, wait) = mpsc::channel();
    thread::spawn(move || done.send(work()));
    wait.recv_timeout(SOON).expect("it should have happened by now")
}

/// Exit code, standard output, standard error.
pub(crate) fn run(mut command: Command) -> (i32, String, String) {
    let output = within(move || command.output().unwrap());
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// The same with something on standard input.
pub(crate) fn run_with(mut command: Command, input: &[u8]) -> (i32, String, String) {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let input = input.to_vec();
    let output = within(move || {
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        // Whoever has read enough may close it.
        let writing = thread::spawn(move || drop(stdin.write_all(&input)));
        let output = child.wait_with_output().unwrap();
        writing.join().unwrap();
        output
    });
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// A server of this test's own; ends with it.
pub(crate) struct Server {
    child: Child,
    url: String,
}

impl Server {
    pub(crate) fn start(args: &[&str]) -> Self {
        Self::start_on("127.0.0.1:0", args)
    }

    pub(crate) fn start_on(address: &str, args: &[&str]) -> Self {
        Self::start_in(address, args, &[])
    }

    /// With something in its environment.
    pub(crate) fn start_in(address: &str, args: &[&str], variables: &[(&str, PathBuf)]) -> Self {
        let mut command = tidegate(&["serve", "--listen", address]);
        command.args(args).envs(variables.iter().map(|(name, value)| (name, value)));
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let url = within(move || {
            let mut line = String::new();
            out.read_line(&mut line).unwrap();
            line
        });
        let url = url.strip_suffix('\n').unwrap().to_owned();
        Self { child, url }
    }

    /// Where it is.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Its address, without the scheme.
    pub(crate) fn address(&self) -> &str {
        self.url.strip_prefix("http://").unwrap()
    }

    /// The whole answer to a GET.
    pub(crate) fn get(&self, path: &str) -> String {
        self.request("GET", path, "")
    }

    /// The whole answer to a request.
    pub(crate) fn request(&self, method: &str, path: &str, body: &str) -> String {
        let address = self.address().to_owned();
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: t\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        within(move || {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(request.as_bytes()).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            answer
        })
    }

    /// The lines of its log, as they come; once.
    pub(crate) fn log(&mut self) -> Log {
        let err = BufReader::new(self.child.stderr.take().unwrap());
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in err.lines().map_while(Result::ok) {
                // Read on even if nobody listens: the server must not block.
                let _ = sender.send(line);
            }
        });
        Log(lines)
    }

    /// Sends a signal.
    pub(crate) fn send_signal(&self, signal: &str) {
        let kill = format!("kill -{signal} {}", self.child.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    }

    /// Waits for its end: the exit code.
    pub(crate) fn wait(mut self) -> Option<i32> {
        let deadline = monotonic() + SOON;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(monotonic() < deadline, "it should have ended by now");
            thread::yield_now();
        }
    }

    /// Its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// `tidegate hot`, against it.
    pub(crate) fn hot(&self, args: &[&str]) -> (i32, String, String) {
        let mut command = tidegate(&["hot"]);
        command.args(args).args(["--server", &self.url]);
        run(command)
    }

    /// `tidegate sessions`, against it.
    pub(crate) fn sessions(&self, args: &[&str]) -> (i32, String, String) {
        let mut command = tidegate(&["sessions"]);
        command.args(args).args(["--server", &self.url]);
        run(command)
    }

    /// `tidegate limit`, against it.
    pub(crate) fn limit(&self, args: &[&str]) -> (i32, String, String) {
        let mut command = tidegate(&["limit"]);
        command.args(args).args(["--server", &self.url]);
        run(command)
    }

    /// Sends a signal and waits: the exit code and the log.
    pub(crate) fn signal(mut self, signal: &str) -> (Option<i32>, String) {
        self.send_signal(signal);
        let mut err = self.child.stderr.take().unwrap();
        let log = within(move || {
            let mut log = String::new();
            err.read_to_string(&mut log).unwrap();
            log
        });
        // Its standard error is closed: it has ended, or is about to.
        (self.child.wait().unwrap().code(), log)
    }
}

/// The log of a server.
pub(crate) struct Log(mpsc::Receiver<String>);

impl Log {
    /// The next line with `text` in it.
    pub(crate) fn wait_for(&self, text: &str) -> String {
        let deadline = monotonic() + SOON;
        let mut seen = Vec::new();
        loop {
            let left = deadline.saturating_duration_since(monotonic());
            match self.0.recv_timeout(left) {
                Ok(line) if line.contains(text) => return line,
                Ok(line) => seen.push(line),
                Err(_) => panic!("no line with {text:?} in {seen:#?}"),
            }
        }
    }

    /// The lines that have come by now.
    pub(crate) fn so_far(&self) -> Vec<String> {
        self.0.try_iter().collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Most have ended by now.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_server_that_says_no_is_an_error() {
    let server = Server::start(&[]);
    let (code, out, err) = server.limit(&["take", "nope", "u"]);
    assert_eq!((code, out.as_str()), (2, ""));
    assert_eq!(err, "tidegate: there is no limit \"nope\"; known are: api (404 Not Found)\n");
    let (code, _, err) = server.limit(&["take", "api", ""]);
    assert_eq!(code, 2);
    assert!(err.contains("a key must not be empty: 1 to 255 bytes are allowed (400 Bad Request)"), "{err}");
}

#[test]
fn a_server_that_is_not_there_is_an_error() {
    // Bound and not listened on: nobody else can have it, and nobody answers.
    let held = tokio::net::TcpSocket::new_v4().unwrap();
    held.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let port = held.local_addr().unwrap().port();
    let url = format!("http://127.0.0.1:{port}");
    let (code, out, err) = run(tidegate(&["limit", "peek", "api", "u", "--server", &url]));
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(err.starts_with(&format!("tidegate: no answer from {url}: ")), "{err}");
    for bad in ["ftp://a", "nonsense", "http://", "http://a?b"] {
        let (code, _, err) = run(tidegate(&["limit", "peek", "api", "u", "--server", bad]));
        assert_eq!(code, 2, "{bad}");
        assert!(err.contains("http://HOST:PORT and https://HOST:PORT are"), "{err}");
    }
}

#[test]
fn a_store_can_be_used_directly() {
    let direct = |args: &[&str]| {
        let mut command = tidegate(&["limit"]);
        command.args(args).args(["--store", "memory:"]);
        run(command)
    };
    let (code, out, _) = direct(&["take", "api", "u", "--set", "limits.api.rate=1/m", "--json"]);
    let taken: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &taken["capacity"], &taken["remaining"]), (0, &json!(1), &json!(0)));
    let (code, out, _) = direct(&["take", "api", "u", "--cost", "301"]);
    assert_eq!((code, out.as_str()), (1, "rejected: 300 of 300 left, 301 will never fit\n"));
    assert_eq!(direct(&["take", "api", "u", "--cost", "301", "--rate", "10/s"]).0, 0);
    assert_eq!(direct(&["peek", "api", "u"]).1, "admitted: 300 of 300 left\n");
    assert_eq!(direct(&["reset", "api", "u"]).1, "reset\n");
    let (code, _, err) = direct(&["refund", "api", "u", "1-0-1-5"]);
    assert_eq!(code, 2);
    assert!(err.starts_with("tidegate: \"1-0-1-5\" is not a receipt of this key and limit"), "{err}");
    assert_eq!(
        direct(&["take", "nope", "u"]),
        (2, "".into(), "tidegate: there is no limit \"nope\"; known are: api\n".into())
    );
    let (code, _, err) = run(tidegate(&["limit", "peek", "api", "u", "--store", "mysql://x"]));
    assert_eq!(code, 2);
    assert!(err.starts_with("tidegate: `store`: the store's URL starts with \"mysql\""), "{err}");
}

#[test]
fn every_help_has_an_example() {
    let commands: [&[&str]; 65] = [
        &[],
        &["serve"],
        &["limit"],
        &["limit", "take"],
        &["limit", "peek"],
        &["limit", "refund"],
        &["limit", "reset"],
        &["limit", "take-all"],
        &["limit", "charge"],
        &["limit", "release-charge"],
        &["limit", "set-override"],
        &["limit", "get-override"],
        &["limit", "clear-override"],
        &["limit", "reserve"],
        &["limit", "commit"],
        &["limit", "release"],
        &["limit", "reservation"],
        &["limit", "list"],
        &["hot"],
        &["hot", "record"],
        &["hot", "stats"],
        &["hot", "rm"],
        &["hot", "list"],
        &["hot", "window"],
        &["hot", "watch"],
        &["hot", "cleanup"],
        &["hot", "spaces"],
        &["hot", "replay"],
        &["hot", "top"],
        &["sessions"],
        &["sessions", "migrate"],
        &["sessions", "reconcile"],
        &["sessions", "compare"],
        &["sessions", "cleanup"],
        &["sessions", "counts"],
        &["sessions", "list"],
        &["sessions", "show"],
        &["sessions", "delete"],
        &["sessions", "retry"],
        &["sessions", "spaces"],
        &["run"],
        &["run", "start"],
        &["run", "status"],
        &["run", "update"],
        &["run", "processed"],
        &["run", "skip-done"],
        &["run", "failed"],
        &["run", "failures"],
        &["run", "retry-list"],
        &["run", "task-started"],
        &["run", "task-finished"],
        &["run", "finish"],
        &["run", "retry"],
        &["run", "show"],
        &["run", "watch"],
        &["run", "list"],
        &["run", "expire"],
        &["run", "delete"],
        &["run", "quota"],
        &["run", "charge"],
        &["run", "release"],
        &["run", "cleanup"],
        &["run", "spaces"],
        &["health"],
        &["doctor"],
    ];
    for args in commands {
        for help in ["--help", "-h"] {
            let mut command = tidegate(args);
            command.arg(help);
            let (code, out, _) = run(command);
            let example = ["tidegate"].iter().chain(args).copied().collect::<Vec<_>>().join(" ");
            assert_eq!(code, 0);
            let (_, examples) = out.split_once("Example").expect(&out);
            assert!(examples.contains(&format!("  {example}")), "{out}");
        }
    }
    let (_, out, _) = run(tidegate(&["serve", "--help"]));
    for (setting, about) in [
        ("limits.NAME.rate", "permits per /s, /m, /h or /d (5/s)"),
        ("sessions.NAME.grace", "how long a session may be without holders before it is an orphan (30s)"),
    ] {
        let line = out.lines().find_map(|line| line.trim_start().strip_prefix(setting)).expect(&out);
        assert_eq!(line.trim_start(), about);
    }
}

#[test]
fn wrong_usage_exits_with_two() {
    for (args, message) in [
        (vec!["--lisen", "x"], "tip: a similar argument exists: '--listen'"),
        (vec!["srve"], "tip: a similar subcommand exists: 'serve'"),
        (vec!["serve", "--set", "listen"], "SETTING=VALUE is expected, like limits.api.rate=5/s"),
        (vec!["serve", "--listen", "8080"], "tidegate: `--listen`: \"8080\" is not an address"),
        (vec!["serve", "--set", "lisen=x"], "unknown setting `lisen`: did you mean `listen`?"),
        (vec!["sessions", "migrate"], "--store <URL>"),
        (vec!["sessions", "show"], "<ID>"),
        (vec!["sessions", "list", "--state", "orphn"], "tip: a similar value exists: 'orphan'"),
        (vec!["sessions", "list", "--state", "dead", "--max-age", "1s"], "cannot be used with"),
        (vec!["sessions", "compare", "--store", "redis://x", "--max-age", "5"], "--max-age <TIME>"),
        (vec!["limit", "take", "api"], "<KEY>"),
        (vec!["limit", "take", "api", "u", "--everyone"], "cannot be used with"),
        (vec!["limit", "take-all", "api=x", "u"], "a cost of \"x\" is not allowed: whole numbers are"),
        (vec!["limit", "set-override", "api", "u", "--lasting", "1h"], "--rate <RATE>"),
        (vec!["limit", "reserve", "api", "u", "r"], "--lasting <TIME>"),
        (vec!["limit", "refund", "api", "u"], "<RECEIPT>"),
        (vec!["limit", "take", "api", "u", "--cost", "x"], "invalid value 'x' for '--cost <COST>'"),
        (vec!["limit", "take", "api", "u", "--set", "a=b"], "--store <URL>"),
        (
            vec!["limit", "peek", "api", "u", "--store", "memory:", "--server", "http://a"],
            "cannot be used with",
        ),
    ] {
        let (code, out, err) = run(tidegate(&args));
        assert_eq!((code, out.as_str()), (2, ""), "{args:?}");
        assert!(err.contains(message), "{args:?}: {err}");
    }
}
