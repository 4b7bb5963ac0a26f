//! More rules than there is room for, behind a real listener.

use std::io::Write as _;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;

use serde_json::Value;
use tidegate::testkit::FaultProxy;
use tokio::runtime::{Builder, Runtime};

use super::kit::{Connection, Process, Rules, pipelined, until};
use crate::cli::tidegate;

const MB: usize = 1_000_000;

/// By how much a destination is longer where there shall not be room for all.
const MORE: usize = 400;

fn rules() -> u64 {
    if std::env::var_os("TIDEGATE_LONG").is_some() { 1_000_000 } else { 100_000 }
}

fn path(number: u64) -> String {
    format!("/promo/2024/{number:08}")
}

fn destination(number: u64, more: usize) -> String {
    format!("https://www.example.com/landing/page-{number:08}{}", "x".repeat(more))
}

/// So many rules. The destinations of those of these numbers are that much longer.
fn import(folder: &Rules, count: u64, long: Range<u64>, more: usize) {
    let mut file = tempfile::Builder::new().suffix(".csv").tempfile().unwrap();
    let mut list = String::from("path,destination\n");
    for number in 0..count {
        list += &format!(
            "{},{}\n",
            path(number),
            destination(number, if long.contains(&number) { more } else { 0 })
        );
    }
    file.write_all(list.as_bytes()).unwrap();
    drop(list);
    let list = file.path().display().to_string();
    let imported = tidegate(&["rules", "import", &list, "--rules", &folder.url()]).output().unwrap();
    assert!(imported.status.success(), "{}", String::from_utf8_lossy(&imported.stderr));
}

/// A server with them.
fn origin(folder: &Rules, count: u64, long: Range<u64>, more: usize) -> Process {
    import(folder, count, long, more);
    serve(folder)
}

fn serve(folder: &Rules) -> Process {
    Process::start(1, &["serve", "--listen", "127.0.0.1:0", "--rules", &folder.url()])
}

/// Asks for all of these rules, and says how much memory the process had at most.
fn ask(worker: &Process, numbers: Range<u64>, more: usize) -> usize {
    let (next, most) = (AtomicU64::new(numbers.start), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..CONNECTIONS {
            scope.spawn(|| {
                let mut connection = Connection::open(worker.redirects());
                loop {
                    let from = next.fetch_add(TOGETHER, Ordering::Relaxed);
                    let numbers: Vec<_> = (from..numbers.end.min(from + TOGETHER)).collect();
                    if numbers.is_empty() {
                        return;
                    }
                    let paths: Vec<_> = numbers.iter().map(|number| path(*number)).collect();
                    for (number, answer) in numbers.iter().zip(pipelined(&mut connection, "h", &paths)) {
                        let expected = destination(*number, more);
                        assert_eq!((answer.status, answer.header("location")), (302, Some(&*expected)));
                    }
                    most.fetch_max(worker.resident_bytes(), Ordering::Relaxed);
                }
            });
        }
    });
    most.into_inner()
}

const CONNECTIONS: usize = 8;
const TOGETHER: u64 = 64;

/// A way to a server that has a few rules, and then to one that has many.
struct Detour {
    proxy: FaultProxy,
    _runtime: Runtime,
}

fn port(origin: &Process) -> u16 {
    origin.api().rsplit(':').next().unwrap().parse().unwrap()
}

impl Detour {
    /// A worker of a server with a few rules, with all that it needs to ask for rules and to answer; and how much memory
    /// it has then.
    fn worker(more: &[&str]) -> (Self, Process, usize) {
        const FEW: u64 = 2 * CONNECTIONS as u64 * TOGETHER;
        let folder = Rules::new();
        let origin = origin(&folder, FEW, 0..FEW, MORE);
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let proxy = runtime.block_on(FaultProxy::start(port(&origin)));
        let worker = Process::edge(&proxy.address().to_string(), more).loaded();
        ask(&worker, 0..FEW, MORE);
        let before = worker.resident_bytes();
        (Self { proxy, _runtime: runtime }, worker, before)
    }

    /// The worker follows that server from now on: waits until it has as many rules.
    fn lead_to(&self, origin: &Process, worker: &Process, count: u64) {
        self.proxy.move_to(port(origin));
        self.proxy.close_connections();
        until("read", || worker.call("GET", "/v1/edge/cache", &Value::Null)["progress"]["rules"] == count);
    }
}

/// How many megabytes a tenth of so many rules takes, with the filter over all of them.
fn tenth_mb(count: u64) -> u64 {
    count / 100_000 * 6
}

/// With room for a tenth of them every one is answered, all of them being asked for.
#[test]
fn with_room_for_a_tenth_every_rule_is_answered() {
    let count = rules();
    let folder = Rules::new();
    import(&folder, count, 0..count, MORE);
    let bound = format!("edge.max_memory_mb={}", tenth_mb(count));
    let server = Process::serve(&folder.url(), &["--set", &bound, "--set", "edge.deadline=10s"]);
    ask(&server, 0..count, MORE);
    // Clicks of so many that have left take room as well, until they are told of.
    until("room for a tenth", || {
        ask(&server, 0..count / 8, MORE);
        items(&server) * 100 > count * 9
    });
    let cache = server.call("GET", "/v1/edge/cache", &Value::Null);
    println!("{count} rules: {cache}");
    let (items, bytes) = (cache["items"].as_u64().unwrap(), cache["bytes"].as_u64().unwrap());
    assert!(items * 100 < count * 14, "room for a tenth: {cache}");
    assert!(bytes <= tenth_mb(count) << 20 && cache["peak_bytes"].as_u64() <= Some(tenth_mb(count) << 20));
    assert!(server.metric("tidegate_edge_fetches_total") >= count);
}

/// A worker alone that has room for a tenth of them does not grow by more than that, whatever comes and goes. Rules are
/// long ones: what connections and the allocator need beside is some 1 MB, which is not what is asked about.
#[test]
fn a_worker_grows_by_what_it_may_have() {
    let (count, more) = (rules(), 4 * MORE);
    // Twice as many as there is room for, or all if there is time for it.
    let asked = if count > 100_000 { count } else { count / 5 };
    let folder = Rules::new();
    let origin = origin(&folder, count, 0..asked, more);
    let tenth_mb = 3 * tenth_mb(count);
    let bound = format!("edge.max_memory_mb={tenth_mb}");
    let (detour, worker, before) = Detour::worker(&["--set", &bound, "--set", "edge.deadline=10s"]);
    detour.lead_to(&origin, &worker, count);
    let grown = ask(&worker, 0..asked, more).saturating_sub(before);
    let bound = (tenth_mb << 20) as usize;
    println!("{count} rules, {asked} asked for: {grown} bytes, {bound} are allowed");
    let cache = worker.call("GET", "/v1/edge/cache", &Value::Null);
    assert!(cache["evictions"].as_u64() > Some(0), "{cache}");
    assert!(cache["items"].as_u64() < Some(count / 8), "room for a tenth: {cache}");
    assert!(grown * 100 <= bound * 115, "{grown} of {bound}");
}

/// Room for all of them: a hundred thousand take 40 MB.
#[test]
fn a_hundred_thousand_rules_in_memory_take_40_megabytes() {
    let count = 100_000;
    let folder = Rules::new();
    let origin = origin(&folder, count, 0..0, 0);
    let (detour, worker, before) = Detour::worker(&["--set", "edge.hydrate=bodies"]);
    detour.lead_to(&origin, &worker, count);
    // Beside requests they are kept a few at a time.
    until("kept", || items(&worker) == count);
    origin.kill();
    let grown = ask(&worker, 0..count, 0).saturating_sub(before);
    println!("{count} rules in memory, {grown} bytes");
    assert!(grown <= 40 * MB, "{grown}");
}

/// All rules are read anew, of a database that has the same ones and is another: those in memory stay and answer, and
/// meanwhile the process does not have more than it may either.
#[test]
fn a_worker_that_reads_all_anew_has_no_more_than_it_may() {
    let (count, bound_mb) = (2 * rules(), rules() / 5_000);
    let folder = Rules::new();
    import(&folder, count, 0..0, 0);
    let other = folder.copy();
    assert!(tidegate(&["rules", "new-epoch", "--rules", &other.url()]).output().unwrap().status.success());
    let (origin, another) = (serve(&folder), serve(&other));
    let bound = (bound_mb << 20) as usize;
    let room = format!("edge.max_memory_mb={bound_mb}");
    let more = ["--set", &room, "--set", "edge.hydrate=bodies", "--set", "edge.deadline=10s"];
    let (detour, few, before) = Detour::worker(&more);
    drop(few);
    detour.proxy.move_to(port(&origin));
    let worker = Process::edge(&detour.proxy.address().to_string(), &more).loaded();
    let full = items(&worker);
    assert!(full > count / 2 && full < count, "{full}");
    let applied = || worker.call("GET", "/v1/edge/cache", &Value::Null)["progress"]["applied"].clone();
    let (before_all, mut connection) = (applied(), Connection::open(worker.redirects()));
    let (mut number, mut asked, mut answered, mut most) = (0, 0, 0, 0);
    detour.proxy.move_to(port(&another));
    detour.proxy.close_connections();
    until("read anew", || {
        for _ in 0..50 {
            number = (number + 7919) % count;
            let answer = &pipelined(&mut connection, "h", &[path(number)])[0];
            // Not in memory, and the way to the database was cut when it was asked for.
            let is_away = answer.status == 503;
            asked += 1;
            answered += u64::from(!is_away);
            let expected = (302, Some(&*destination(number, 0)));
            assert!(is_away || (answer.status, answer.header("location")) == expected, "{answer:?}");
            most = most.max(worker.resident_bytes());
        }
        applied() != before_all && items(&worker) * 4 > full * 3
    });
    assert!(answered * 10 > asked * 9, "{answered} of {asked}");
    let grown = most.saturating_sub(before);
    println!("{count} rules, {full} in memory, {} after: {grown} bytes, {bound} are allowed", items(&worker));
    assert!(grown * 100 <= bound * 115, "{grown} of {bound}");
}

/// Rules in a worker's memory.
fn items(worker: &Process) -> u64 {
    worker.call("GET", "/v1/edge/cache", &Value::Null)["items"].as_u64().unwrap()
}
