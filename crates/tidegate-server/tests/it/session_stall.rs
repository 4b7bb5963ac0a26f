//! Sessions while Redis, the servers, or both are stopped in their tracks, in real time.
//!
//! Live sessions were reaped after such a stop: the cleanup that had timed out waited in
//! Redis's socket and ran when it woke, before any holder could renew; a fresh server, the
//! command line or a server that had been idle had not even noticed it. Holders here send
//! heartbeats every third of a lease, for as long as somebody answers; the stop lasts one and
//! a half times lease and grace; and nobody who goes on may lose a session.
//!
//! It is waiting that takes the time, so all are in one test, side by side.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, RwLock};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use tidegate::clock::monotonic;
use tidegate::testkit::RedisServer;

use crate::cli::{Server, run, tidegate};

const LEASE: Duration = Duration::from_secs(2);
const GRACE: Duration = Duration::from_secs(1);
const INTERVAL: Duration = Duration::from_millis(500);

/// One and a half times lease and grace.
const STOP: Duration = Duration::from_millis(4500);

/// Sessions that are held, and such as nobody renews.
const HELD: usize = 12;
const SILENT: usize = 3;

const SPACE: &str = "/v1/sessions/main";

/// What every server of these tests is started with.
const SETTINGS: [&str; 3] =
    ["sessions.main.holder_lease=2s", "sessions.main.grace=1s", "sessions.main.cleanup_interval=500ms"];

fn flags(store: &str, more: &[&str]) -> Vec<String> {
    let set = SETTINGS.iter().chain(more).flat_map(|it| ["--set".to_owned(), (*it).to_owned()]);
    ["--store".to_owned(), store.to_owned()].into_iter().chain(set).collect()
}

fn serve(store: &str, more: &[&str]) -> Server {
    let flags = flags(store, more);
    Server::start(&flags.iter().map(String::as_str).collect::<Vec<_>>())
}

pub(crate) fn signal(pid: u32, signal: &str) {
    let status = Command::new("kill").args([signal, &pid.to_string()]).status().unwrap();
    assert!(status.success(), "kill {signal} {pid}");
}

/// Status and body; nothing from one who does not answer within a second.
pub(crate) fn request(address: &str, method: &str, path: &str, body: &str) -> Option<(u16, Value)> {
    let timeouts = Some(Duration::from_secs(1));
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(timeouts).ok()?;
    stream.set_write_timeout(timeouts).ok()?;
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: t\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some((status, serde_json::from_str(body).unwrap_or(Value::Null)))
}

/// What must be true soon, checked again and again.
fn until<T>(what: &str, within: Duration, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = monotonic() + within;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(monotonic() < deadline, "not within {within:?}: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Holders that renew through whichever server is set, until they are stopped.
struct Holders {
    address: RwLock<String>,
    held: Vec<String>,
    silent: Vec<String>,
    is_over: AtomicBool,
    /// What they were refused with: nobody may be.
    refused: Mutex<Vec<String>>,
}

impl Holders {
    fn begin(address: &str) -> Self {
        let activate = |name: String| {
            let body = json!({"broadcaster": name, "config": {}, "holder": "h"}).to_string();
            until("a session", Duration::from_secs(10), || {
                let (status, body) = request(address, "POST", SPACE, &body)?;
                // Not 201 if it was made by a request whose answer came too late.
                (status < 300).then(|| body["id"].as_str().unwrap().to_owned())
            })
        };
        // The silent ones first: they have the length of a lease before the stop ends it.
        let held = (0..HELD).map(|it| activate(format!("held{it}"))).collect();
        let silent = (0..SILENT).map(|it| activate(format!("silent{it}"))).collect();
        let (is_over, refused) = (AtomicBool::new(false), Mutex::default());
        Self { address: RwLock::new(address.to_owned()), held, silent, is_over, refused }
    }

    /// Sends heartbeats every third of a lease.
    fn renew(&self) {
        while !self.is_over.load(Ordering::Acquire) {
            let started = monotonic();
            thread::scope(|scope| {
                for id in &self.held {
                    scope.spawn(|| self.heartbeat(id));
                }
            });
            thread::sleep((LEASE / 3).saturating_sub(started.elapsed()));
        }
    }

    fn heartbeat(&self, id: &str) {
        let address = self.address.read().unwrap().clone();
        let path = format!("{SPACE}/{id}/holders/h/heartbeat");
        match request(&address, "POST", &path, "") {
            // Nobody there, or its store is not.
            None | Some((500.., _)) => {}
            Some((200, body)) if body["generation"] == 1 => {}
            Some((status, body)) => self.refused.lock().unwrap().push(format!("{id}: {status} {body}")),
        }
    }

    /// Those who went on have their sessions, and those who did not have not.
    fn check(&self, within: Duration) {
        let address = self.address.read().unwrap().clone();
        let gone = |id: &String| request(&address, "GET", &format!("{SPACE}/{id}"), "").map(|it| it.0 == 404);
        until("the silent ones are reaped", within, || {
            self.silent.iter().all(|id| gone(id) == Some(true)).then_some(())
        });
        self.all_held(&address);
    }

    fn all_held(&self, address: &str) {
        assert_eq!(*self.refused.lock().unwrap(), Vec::<String>::new());
        for id in &self.held {
            let (status, body) = request(address, "GET", &format!("{SPACE}/{id}"), "").unwrap();
            assert_eq!((status, &body["state"]), (200, &json!("active")), "{id}: {body}");
        }
    }
}

/// Holders at `address` while `scene` is played.
fn with_holders(address: &str, scene: impl FnOnce(&Holders)) {
    let holders = Holders::begin(address);
    thread::scope(|scope| {
        let over = Over(&holders.is_over);
        scope.spawn(|| holders.renew());
        scene(&holders);
        drop(over);
    });
    assert_eq!(*holders.refused.lock().unwrap(), Vec::<String>::new());
}

/// Ends the holders, also if the scene fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// After a stop: the hold, the grace, and two rounds of the reaper, on a busy machine.
const REAPED: Duration = Duration::from_secs(10);

fn redis_is_stopped() {
    let redis = RedisServer::start();
    let server = serve(&redis.url(), &[]);
    with_holders(server.address(), |holders| {
        redis.freeze();
        thread::sleep(STOP);
        redis.thaw();
        holders.check(REAPED);
    });
}

fn the_only_server_is_stopped() {
    let redis = RedisServer::start();
    let server = serve(&redis.url(), &[]);
    with_holders(server.address(), |holders| {
        signal(server.id(), "-STOP");
        thread::sleep(STOP);
        signal(server.id(), "-CONT");
        holders.check(REAPED);
    });
}

fn both_are_stopped() {
    let redis = RedisServer::start();
    let server = serve(&redis.url(), &[]);
    with_holders(server.address(), |holders| {
        signal(server.id(), "-STOP");
        redis.freeze();
        thread::sleep(STOP);
        redis.thaw();
        signal(server.id(), "-CONT");
        holders.check(REAPED);
    });
}

fn a_fresh_server_comes_after() {
    let redis = RedisServer::start();
    let server = serve(&redis.url(), &[]);
    let fresh = Mutex::new(None);
    with_holders(server.address(), |holders| {
        let address = holders.address.write().unwrap();
        signal(server.id(), "-KILL");
        redis.freeze();
        thread::sleep(STOP);
        redis.thaw();
        let started = serve(&redis.url(), &[]);
        let mut address = address;
        started.address().clone_into(&mut address);
        drop(address);
        *fresh.lock().unwrap() = Some(started);
        holders.check(REAPED);
    });
}

/// It is the first to come after the stop, and waits until holders have had their chance.
fn the_command_line_comes_after() {
    let redis = RedisServer::start();
    let server = serve(&redis.url(), &["sessions.main.reap=claims"]);
    let cleanup = |more: &[&str]| {
        let mut command = tidegate(&["sessions", "cleanup", "--json"]);
        command.args(more).args(flags(&redis.url(), &["sessions.main.reap=claims"]));
        let (code, out, err) = run(command);
        (code, serde_json::from_str::<Value>(&out).unwrap_or_else(|_| panic!("{code}: {out} {err}")), err)
    };
    with_holders(server.address(), |holders| {
        signal(server.id(), "-STOP");
        thread::sleep(STOP);
        let (code, body, _) = cleanup(&["--no-wait"]);
        assert_eq!((code, &body["deleted"]), (1, &json!(0)), "{body}");
        assert!(body["retry_after_ms"].as_u64().unwrap() <= 2000, "{body}");
        signal(server.id(), "-CONT");
        let (code, body, err) = cleanup(&[]);
        assert_eq!((code, &body["held_until_ms"]), (0, &json!(null)), "{body}");
        assert!(err.contains("a hold runs"), "{err}");
        holders.all_held(server.address());
        // Those who gave no sign were left when the hold ended.
        thread::sleep(GRACE);
        let deleted = body["deleted"].as_u64().unwrap() + cleanup(&[]).1["deleted"].as_u64().unwrap();
        assert_eq!(deleted as usize, SILENT);
        holders.check(REAPED);
    });
}

/// A server without requests has noticed nothing.
fn an_idle_server_claims_after() {
    let redis = RedisServer::start();
    let (server, idle) = (
        serve(&redis.url(), &["sessions.main.reap=claims"]),
        serve(&redis.url(), &["sessions.main.reap=claims"]),
    );
    with_holders(server.address(), |holders| {
        redis.freeze();
        thread::sleep(STOP);
        redis.thaw();
        let mut claimed = BTreeSet::new();
        let mut is_held = false;
        until("the silent ones are claimed", REAPED, || {
            let (status, body) = request(idle.address(), "POST", &format!("{SPACE}/claims"), "")?;
            if status != 200 {
                return None;
            }
            if !body["held_until_ms"].is_null() {
                is_held = true;
                assert_eq!(body["claims"], json!([]), "{body}");
                assert!(body["retry_after_ms"].as_u64().unwrap() <= 2000, "{body}");
            }
            claimed.extend(body["claims"].as_array().unwrap().iter().map(|it| it["id"].clone().to_string()));
            (claimed.len() >= SILENT).then_some(())
        });
        assert!(is_held, "it was answered so");
        let silent: BTreeSet<_> = holders.silent.iter().map(|id| json!(id).to_string()).collect();
        assert_eq!(claimed, silent);
        holders.all_held(server.address());
    });
}

fn a_process_with_its_own_store_is_suspended() {
    let server = serve("memory:", &[]);
    with_holders(server.address(), |holders| {
        signal(server.id(), "-STOP");
        thread::sleep(STOP);
        signal(server.id(), "-CONT");
        holders.check(REAPED);
        let metrics = server.get("/metrics");
        assert!(metrics.contains("tidegate_session_holds_total{space=\"main\"} 1\n"), "{metrics}");
    });
}

/// Stops far below half a lease are no reason to hold: those who are gone are reaped in time.
fn short_stops_do_not_stop_reaping() {
    const ORPHANS: usize = 20;
    let redis = RedisServer::start();
    let server = serve(&redis.url(), &[]);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let over = Over(&is_over);
        scope.spawn(|| {
            while !is_over.load(Ordering::Acquire) {
                thread::sleep(Duration::from_millis(1800));
                redis.freeze();
                thread::sleep(Duration::from_millis(200));
                redis.thaw();
            }
        });
        let last_sign = thread::scope(|scope| {
            let all: Vec<_> = (0..ORPHANS)
                .map(|number| {
                    let address = server.address();
                    let body = json!({"broadcaster": format!("b{number}"), "config": {}, "holder": "h"});
                    scope.spawn(move || {
                        until("a session", Duration::from_secs(10), || {
                            let answer = request(address, "POST", SPACE, &body.to_string())?;
                            (answer.0 < 300).then(monotonic)
                        })
                    })
                })
                .collect();
            all.into_iter().map(|it| it.join().unwrap()).max().unwrap()
        });
        let most = LEASE + GRACE + 2 * INTERVAL;
        let left = || {
            let (status, body) = request(server.address(), "GET", &format!("{SPACE}/counts"), "")?;
            (status == 200).then(|| body["active"].as_u64().unwrap() + body["disconnected"].as_u64().unwrap())
        };
        until("all are reaped", most.saturating_sub(last_sign.elapsed()), || left().filter(|it| *it == 0));
        drop(over);
    });
    let metrics = server.get("/metrics");
    assert!(metrics.contains("tidegate_session_holds_total{space=\"main\"} 0\n"), "{metrics}");
}

/// No server at all: each run finds that nobody was there, waits, and does its part.
fn a_cron_job_alone_reaps() {
    let redis = RedisServer::start();
    let server = serve(&redis.url(), &[]);
    let holders = Holders::begin(server.address());
    signal(server.id(), "-KILL");
    let cleanup = || {
        let mut command = tidegate(&["sessions", "cleanup", "--json"]);
        command.args(flags(&redis.url(), &[]));
        let (code, out, err) = run(command);
        assert_eq!(code, 0, "{out} {err}");
        serde_json::from_str::<Value>(&out).unwrap()["deleted"].as_u64().unwrap()
    };
    thread::sleep(LEASE);
    assert_eq!(cleanup(), 0, "they may have come back");
    // Longer than half a lease: another hold.
    thread::sleep(LEASE);
    assert_eq!(cleanup() as usize, holders.held.len() + holders.silent.len());
}

#[test]
fn nobody_is_reaped_for_a_silence_that_was_not_theirs() {
    let scenes: [(&str, fn()); 9] = [
        ("redis is stopped", redis_is_stopped),
        ("the only server is stopped", the_only_server_is_stopped),
        ("both are stopped", both_are_stopped),
        ("a fresh server comes after", a_fresh_server_comes_after),
        ("the command line comes after", the_command_line_comes_after),
        ("an idle server claims after", an_idle_server_claims_after),
        ("a process with its own store is suspended", a_process_with_its_own_store_is_suspended),
        ("short stops do not stop reaping", short_stops_do_not_stop_reaping),
        ("a cron job alone reaps", a_cron_job_alone_reaps),
    ];
    let scenes = scenes.map(|(name, scene)| (name, thread::spawn(scene)));
    let failed: Vec<_> =
        scenes.into_iter().filter_map(|(name, scene)| scene.join().err().map(|_| name)).collect();
    assert_eq!(failed, Vec::<&str>::new());
}
