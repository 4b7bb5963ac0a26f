//! Leases: many processes, one limit, never exceeded, whatever happens to them.

use std::io::{Read as _, Write as _};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tidegate::clock::since_boot;
use tidegate::limit::{Decision, LeaseOptions, Limit, LimitOptions, Sliding, Source};
use tidegate::testkit::RedisServer;
use tidegate::{Cost, Key, Tidegate};

const NODES: u32 = 8;
const CAPACITY: u64 = 10_000;
const WINDOW: Duration = Duration::from_secs(2);
/// What all nodes together ask for, by the limit.
const OVERLOAD: u64 = 20;

/// One node: asks for its part of the load for as long as it is told, and writes
/// down when each admission was decided.
async fn node(url: &str, events: &Path, lasting: Duration) {
    let gate = Tidegate::open(url).await.unwrap();
    let limit = leased(&gate);
    let key = Key::new("k").unwrap();
    let mut file = std::fs::File::create(events).unwrap();
    let started = since_boot();
    let per_second = (CAPACITY * OVERLOAD / NODES as u64) as f64 / WINDOW.as_secs_f64();
    let mut requested = 0;
    while since_boot() < started + lasting {
        let due = ((since_boot() - started).as_secs_f64() * per_second) as u64;
        let mut admitted = Vec::new();
        // A node that was stopped does not make up for it.
        requested = requested.max(due.saturating_sub(100));
        while requested < due {
            requested += 1;
            let before = since_boot();
            let decision = limit.take(key, Cost::ONE).await.unwrap();
            if let Decision::Admitted(it) = decision {
                // One that the store decided was decided after it was asked for.
                let at = it.read_at.unwrap_or(before);
                admitted.extend((at.as_nanos() as u64).to_le_bytes());
                admitted.push(u8::from(it.source == Source::Lease));
            }
        }
        file.write_all(&admitted).unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    gate.shutdown().await;
}

fn leased(gate: &Tidegate) -> Limit {
    let rate = format!("{}/s", CAPACITY / WINDOW.as_secs()).parse().unwrap();
    let mut options = LimitOptions::default();
    let mut lease = LeaseOptions::default();
    lease.nodes = NonZeroU32::new(NODES).unwrap();
    options.lease = Some(lease);
    gate.limit("shared", Sliding::new(rate, WINDOW).unwrap(), options).unwrap()
}

struct Node {
    child: Child,
    events: PathBuf,
}

/// The admissions of all nodes by time, and how many of them were from a lease.
fn read(nodes: &[Node]) -> (Vec<u64>, usize) {
    let (mut times, mut leased) = (Vec::new(), 0);
    for node in nodes {
        let mut bytes = Vec::new();
        std::fs::File::open(&node.events).unwrap().read_to_end(&mut bytes).unwrap();
        for event in bytes.chunks_exact(9) {
            times.push(u64::from_le_bytes(event[..8].try_into().unwrap()));
            leased += usize::from(event[8]);
        }
    }
    times.sort_unstable();
    (times, leased)
}

/// The most admissions in any stretch shorter than the window.
fn fullest(times: &[u64]) -> usize {
    let (mut from, mut most) = (0, 0);
    for (to, at) in times.iter().enumerate() {
        while at - times[from] >= WINDOW.as_nanos() as u64 {
            from += 1;
        }
        most = most.max(to - from + 1);
    }
    most
}

/// How many capacities went through per window, from the middle of the first to the
/// middle of the last before `until`.
fn throughput(times: &[u64], until: Duration) -> f64 {
    let times = &times[..times.partition_point(|at| *at < until.as_nanos() as u64)];
    let middle = CAPACITY as usize / 2;
    let whole = (times.len() - middle) / CAPACITY as usize;
    let took = times[middle + whole * CAPACITY as usize - 1] - times[middle];
    whole as f64 * WINDOW.as_nanos() as f64 / took as f64
}

fn signal(node: &Node, name: &str) {
    let sent = Command::new("kill").args([name, &node.child.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

/// Needs the machine for itself.
mod timing {
    use super::*;

    /// Eight processes that ask for twenty times the limit; one is killed, one is stopped
    /// for `stopped` and goes on.
    #[test]
    fn eight_processes_never_exceed_the_limit() {
        const ROLE: &str = "TIDEGATE_TEST_NODE";
        if let Ok(role) = std::env::var(ROLE) {
            let [url, events, lasting] = role.split(' ').collect::<Vec<_>>()[..] else { panic!("{role}") };
            let lasting = Duration::from_millis(lasting.parse().unwrap());
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            return runtime.block_on(node(url, Path::new(events), lasting));
        }
        let stopped = std::env::var("TIDEGATE_STOPPED_MS").map_or(1500, |ms| ms.parse().expect("a number"));
        let (stopped, alive) = (Duration::from_millis(stopped), WINDOW * 4);
        let lasting = alive + stopped + WINDOW * 2;
        let server = RedisServer::start();
        let mut nodes: Vec<Node> = (0..NODES)
            .map(|i| {
                let events = server.dir().join(format!("node{i}"));
                let role = format!("{} {} {}", server.url(), events.display(), lasting.as_millis());
                let child = Command::new(std::env::current_exe().unwrap())
                    .args([
                        "lease_processes::timing::eight_processes_never_exceed_the_limit",
                        "--exact",
                        "--nocapture",
                    ])
                    .env(ROLE, role)
                    .stdout(Stdio::null())
                    .spawn()
                    .unwrap();
                Node { child, events }
            })
            .collect();
        std::thread::sleep(alive);
        let all_lived_until = since_boot();
        nodes[0].child.kill().unwrap();
        signal(&nodes[1], "-STOP");
        std::thread::sleep(stopped);
        signal(&nodes[1], "-CONT");
        for (index, node) in nodes.iter_mut().enumerate() {
            let ended = node.child.wait().unwrap();
            assert!(ended.success() || index == 0, "node {index}: {ended}");
        }
        let (times, leased) = read(&nodes);
        let most = fullest(&times);
        let lived = throughput(&times, all_lived_until);
        let (count, share) = (times.len(), leased as f64 / times.len() as f64);
        println!("{count} admitted, {share:.3} by lease, fullest window {most}, throughput {lived:.3}");
        assert!(most as u64 <= CAPACITY, "{most} in one window of {CAPACITY}");
        assert!(lived >= 0.97, "{lived:.3} of the limit while all live");
        assert!(share > 0.99, "{share:.3} by lease");
    }
}
