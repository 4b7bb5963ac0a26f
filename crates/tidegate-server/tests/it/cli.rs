//! The binary: what it prints and how it exits.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;

use serde_json::{Value, json};

use crate::support::SOON;

/// The binary, with nothing of this process's environment that it would read.
fn tidegate(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.env_clear().args(args).stdin(Stdio::null());
    command
}

/// Ends soon, or the test does.
fn within<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, wait) = mpsc::channel();
    thread::spawn(move || done.send(work()));
    wait.recv_timeout(SOON).expect("it should have happened by now")
}

/// Exit code, standard output, standard error.
fn run(mut command: Command) -> (i32, String, String) {
    let output = within(move || command.output().unwrap());
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
        let mut command = tidegate(&["serve", "--listen", "127.0.0.1:0"]);
        command.args(args).stdout(Stdio::piped()).stderr(Stdio::piped());
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

    /// Its address, without the scheme.
    pub(crate) fn address(&self) -> &str {
        self.url.strip_prefix("http://").unwrap()
    }

    fn limit(&self, args: &[&str]) -> (i32, String, String) {
        let mut command = tidegate(&["limit"]);
        command.args(args).args(["--server", &self.url]);
        run(command)
    }

    /// Sends a signal and waits: the exit code and the log.
    fn signal(mut self, signal: &str) -> (Option<i32>, String) {
        let kill = format!("kill -{signal} {}", self.child.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
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

impl Drop for Server {
    fn drop(&mut self) {
        // Most have ended by now.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_first_line_is_the_address_and_it_answers_there() {
    let server = Server::start(&[]);
    let address = server.url.strip_prefix("http://127.0.0.1:").unwrap();
    assert_ne!(address.parse::<u16>().unwrap(), 0);
    let answer = within({
        let address = format!("127.0.0.1:{address}");
        move || {
            let mut stream = TcpStream::connect(address).unwrap();
            let request = "GET /healthz HTTP/1.1\r\nhost: t\r\nconnection: close\r\n\r\n";
            stream.write_all(request.as_bytes()).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            answer
        }
    });
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\nok"), "{answer}");
}

#[test]
fn without_a_command_it_serves() {
    let mut command = tidegate(&["--listen", "127.0.0.1:0", "--set", "log.format=json"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut log = BufReader::new(child.stderr.take().unwrap());
    let line = within(move || {
        let mut line = String::new();
        log.read_line(&mut line).unwrap();
        line
    });
    let line: Value = serde_json::from_str(&line).unwrap();
    assert_eq!((&line["message"], &line["store"]), (&json!("serving"), &json!("memory")));
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn signals_end_it_in_good_order() {
    for signal in ["TERM", "INT"] {
        let (code, log) = Server::start(&[]).signal(signal);
        assert_eq!(code, Some(0), "{log}");
        assert!(log.contains(&format!("signal=\"SIG{signal}\"")), "{log}");
        assert!(log.ends_with("INFO stopped\n"), "{log}");
    }
}

#[test]
fn a_redis_that_is_away_does_not_keep_it_from_starting() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let store = format!("redis://{}", silent.local_addr().unwrap());
    let server = Server::start(&["--store", &store, "--set", "store.connect_timeout=50ms"]);
    let (code, out, _) = server.limit(&["take", "api", "u"]);
    assert_eq!(
        (code, out.as_str()),
        (0, "admitted: 300 of 300 left (by policy, not knowing what was used)\n")
    );
}

#[test]
fn a_take_is_told_to_people_and_to_machines() {
    let server = Server::start(&["--set", "limits.api.rate=2/m"]);
    let (code, out, err) = server.limit(&["take", "api", "a/b:{c} ü"]);
    assert_eq!((code, err.as_str()), (0, ""));
    let (first, rest) = out.split_once('\n').unwrap();
    assert!(first.starts_with("admitted: 1 of 2 left, all free again in 1m "), "{out}");
    let receipt = rest.strip_prefix("receipt ").unwrap().trim_end();

    let (code, out, _) = server.limit(&["peek", "api", "a/b:{c} ü", "--json"]);
    let peeked: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &peeked["remaining"], &peeked["key"]), (0, &json!(1), &json!("a/b:{c} ü")));

    let (code, out, _) = server.limit(&["take", "api", "a/b:{c} ü", "--cost", "2"]);
    assert_eq!(code, 1);
    assert!(out.starts_with("rejected: 1 of 2 left, 2 will fit in "), "{out}");
    let (code, out, _) = server.limit(&["take", "api", "a/b:{c} ü", "--cost", "3", "--json"]);
    let refused: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (code, &refused["outcome"], &refused["retry_after_ms"]),
        (1, &json!("rejected"), &json!(null))
    );
    let (code, _, _) = server.limit(&["take", "api", "a/b:{c} ü", "--cost", "3", "--rate", "1/s"]);
    assert_eq!(code, 0);

    assert_eq!(
        server.limit(&["refund", "api", "a/b:{c} ü", receipt]),
        (0, "1 given back\n".into(), "".into())
    );
    assert_eq!(
        server.limit(&["refund", "api", "a/b:{c} ü", receipt]),
        (0, "nothing was given back: the charge no longer counts\n".into(), "".into())
    );
    assert_eq!(server.limit(&["reset", "api", "a/b:{c} ü"]), (0, "reset\n".into(), "".into()));
    let (code, out, _) = server.limit(&["peek", "api", "a/b:{c} ü"]);
    assert_eq!((code, out.as_str()), (0, "admitted: 2 of 2 left\n"));
    assert_eq!(server.limit(&["reset", "api", "x", "--json"]).1, "{\"reset\":true}\n");
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
fn a_store_can_be_asked_directly() {
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
    assert_eq!(direct(&["refund", "api", "u", "1-0-1-5"]).0, 0);
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
    let commands: [&[&str]; 7] = [
        &[],
        &["serve"],
        &["limit"],
        &["limit", "take"],
        &["limit", "peek"],
        &["limit", "refund"],
        &["limit", "reset"],
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
    assert!(
        run(tidegate(&["serve", "--help"]))
            .1
            .contains("  limits.NAME.rate         permits per /s, /m, /h or /d (5/s)\n")
    );
}

#[test]
fn wrong_usage_exits_with_two() {
    for (args, message) in [
        (vec!["--lisen", "x"], "tip: a similar argument exists: '--listen'"),
        (vec!["srve"], "tip: a similar subcommand exists: 'serve'"),
        (vec!["serve", "--set", "listen"], "SETTING=VALUE is expected, like limits.api.rate=5/s"),
        (vec!["serve", "--listen", "8080"], "tidegate: `--listen`: \"8080\" is not an address"),
        (vec!["serve", "--set", "lisen=x"], "unknown setting `lisen`: did you mean `listen`?"),
        (vec!["limit", "take", "api"], "<KEY>"),
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

#[test]
fn the_environment_is_read_and_flags_win() {
    let mut command = tidegate(&["limit", "peek", "login", "u", "--store", "memory:"]);
    command.env("TIDEGATE_LIMITS__LOGIN__RATE", "1/s").env("TIDEGATE_STORE", "mysql://x");
    assert_eq!(run(command).1, "admitted: 60 of 60 left\n");
    let mut command = tidegate(&["serve"]);
    command.env("TIDEGATE_LISEN", "x");
    let (code, _, err) = run(command);
    assert_eq!(code, 2);
    assert!(err.contains("did you mean `TIDEGATE_LISTEN`?"), "{err}");
}

#[test]
fn an_address_in_use_is_an_error() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (code, out, err) = run(tidegate(&["--listen", &address]));
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(err.contains(&format!("cannot listen on {address}: ")), "{err}");
}
