//! Eight servers that lease from one Redis, while servers are killed and stopped and Redis
//! is stopped, and nobody ever gets too much.
//!
//! Whoever sends a request writes down when the request was sent and when the answer was there: the
//! decision was made in between. A window is said to hold too much only if more was admitted
//! by calls that both began and ended in it, so what is found is a violation and no doubt.
//! What was not answered, by a server that was killed, is not counted.
//!
//! `TIDEGATE_CHAOS_SECONDS` sets how long; the default keeps the suite quick.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use tidegate::clock::monotonic;
use tidegate::random::Random;
use tidegate::testkit::RedisServer;

use crate::cli::Server;

const SERVERS: usize = 8;
const CAPACITY: u64 = 10_000;
const WINDOW: Duration = Duration::from_secs(2);
/// Large enough that all of the limit is requested, though the machine is busy; small enough
/// to be spent from a lease.
const COST: u64 = 20;

fn start(redis: &RedisServer) -> Server {
    let store = format!("store.url={}", redis.url());
    let rate = format!("limits.api.rate={}/s", CAPACITY / WINDOW.as_secs());
    let window = format!("limits.api.window={}s", WINDOW.as_secs());
    let nodes = format!("limits.api.nodes={SERVERS}");
    let settings = [&*store, &*rate, &*window, &*nodes, "limits.api.lease=true", "limits.api.outage=closed"];
    let args: Vec<&str> = settings.iter().flat_map(|setting| ["--set", setting]).collect();
    Server::start(&args)
}

/// A take that was admitted: when it was sent, when it was answered.
type Span = (Instant, Instant);

/// Takes from one server, wherever it is just now, until it is over.
fn take_until_over(address: &Mutex<String>, is_over: &AtomicBool, by_lease: &AtomicU64) -> Vec<Span> {
    let body = format!("{{\"key\":\"k\",\"cost\":{COST}}}");
    let request = format!(
        "POST /v1/limits/api/take HTTP/1.1\r\nhost: t\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut admitted = Vec::new();
    while !is_over.load(Ordering::Relaxed) {
        let to = address.lock().unwrap().clone();
        let Ok(stream) = TcpStream::connect(to) else { continue };
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream.set_nodelay(true).unwrap();
        let mut answers = BufReader::new(stream);
        while !is_over.load(Ordering::Relaxed) {
            let sent = monotonic();
            if answers.get_mut().write_all(request.as_bytes()).is_err() {
                break;
            }
            // A server that was killed leaves half an answer, or none.
            let Some((status, body)) = answer(&mut answers) else { break };
            if status == 200 {
                admitted.push((sent, monotonic()));
                by_lease.fetch_add(u64::from(body.contains("\"source\":\"lease\"")), Ordering::Relaxed);
            } else {
                assert_eq!(status, 429, "{body}");
            }
            // Several times the limit, without taking the machine from the servers.
            thread::sleep(Duration::from_millis(2));
        }
    }
    admitted
}

/// Status and body of the next answer.
fn answer(from: &mut BufReader<TcpStream>) -> Option<(u16, String)> {
    let mut line = || {
        let mut line = String::new();
        from.read_line(&mut line).ok().filter(|read| *read > 0).map(|_| line)
    };
    let status = line()?.split(' ').nth(1)?.parse().ok()?;
    let mut length = 0;
    loop {
        let field = line()?.to_ascii_lowercase();
        match field.trim_end() {
            "" => break,
            field => {
                if let Some(length_text) = field.strip_prefix("content-length: ") {
                    length = length_text.parse().ok()?;
                }
            }
        }
    }
    let mut body = vec![0; length];
    from.read_exact(&mut body).ok()?;
    Some((status, String::from_utf8(body).ok()?))
}

fn signal(server: &Server, name: &str) {
    assert!(Command::new("kill").args([name, &server.id().to_string()]).status().unwrap().success());
}

/// What happened to them.
#[derive(Debug, Default)]
struct Happened {
    killed: u32,
    stopped: u32,
    redis_stopped: u32,
}

/// Things happen to servers and Redis until `end`.
fn chaos(
    redis: &RedisServer,
    servers: &mut [Server],
    addresses: &[Arc<Mutex<String>>],
    random: &Random,
    end: Instant,
) -> Happened {
    let up_to = |n: u64| random.bits() % n;
    let mut happened = Happened::default();
    let mut turn = 0;
    while monotonic() < end {
        thread::sleep(Duration::from_millis(50 + up_to(200)));
        let index = up_to(SERVERS as u64) as usize;
        // In turn, so that a short run has some of each.
        match turn % 3 {
            0 => {
                signal(&servers[index], "-KILL");
                servers[index] = start(redis);
                *addresses[index].lock().unwrap() = servers[index].address().to_owned();
                happened.killed += 1;
            }
            1 => {
                // Shorter and longer than a lease; another one meanwhile.
                let other = (index + 1) % SERVERS;
                signal(&servers[index], "-STOP");
                signal(&servers[other], "-STOP");
                thread::sleep(Duration::from_millis(up_to(300)));
                signal(&servers[other], "-CONT");
                thread::sleep(Duration::from_millis(up_to(900)));
                signal(&servers[index], "-CONT");
                happened.stopped += 2;
            }
            _ => {
                redis.freeze();
                thread::sleep(Duration::from_millis(20 + up_to(500)));
                redis.thaw();
                happened.redis_stopped += 1;
            }
        }
        turn += 1;
    }
    happened
}

/// The most that calls charged which began and ended in one window.
fn fullest(spans: &mut [Span]) -> u64 {
    spans.sort_unstable();
    let in_window = |first: usize| {
        let end = spans[first].0 + WINDOW;
        let began = spans[first..].iter().take_while(|(sent, _)| *sent < end);
        began.filter(|(_, answered)| *answered < end).count() as u64 * COST
    };
    (0..spans.len()).map(in_window).max().unwrap_or(0)
}

#[test]
fn eight_leased_servers_never_exceed_the_limit_whatever_happens() {
    let seconds =
        std::env::var("TIDEGATE_CHAOS_SECONDS").map_or(10, |seconds| seconds.parse().expect("a number"));
    let seed = Random::default().bits();
    println!("seed {seed}");
    let redis = RedisServer::start();
    let mut servers: Vec<Server> = (0..SERVERS).map(|_| start(&redis)).collect();
    let addresses: Vec<_> =
        servers.iter().map(|server| Arc::new(Mutex::new(server.address().to_owned()))).collect();
    let (is_over, by_lease) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let takers: Vec<_> = addresses
        .iter()
        .map(|address| {
            let (address, is_over, by_lease) = (address.clone(), is_over.clone(), by_lease.clone());
            thread::spawn(move || take_until_over(&address, &is_over, &by_lease))
        })
        .collect();
    let end = monotonic() + Duration::from_secs(seconds);
    let happened = chaos(&redis, &mut servers, &addresses, &Random::seeded(seed), end);
    is_over.store(true, Ordering::Relaxed);
    let mut spans: Vec<Span> = takers.into_iter().flat_map(|taker| taker.join().unwrap()).collect();
    let most = fullest(&mut spans);
    let (admitted, by_lease) = (spans.len() as u64 * COST, by_lease.load(Ordering::Relaxed) * COST);
    println!("{admitted} admitted, {by_lease} by lease, fullest window {most} of {CAPACITY}; {happened:?}");
    assert!(most <= CAPACITY, "{most} in a window of {CAPACITY}, seed {seed}");
    // It was put to the test: things happened, and much of the limit was requested.
    let Happened { killed, stopped, redis_stopped } = happened;
    assert!(killed > 0 && stopped > 0 && redis_stopped > 0, "seed {seed}");
    assert!(
        most > CAPACITY / 2 && by_lease > CAPACITY / 2,
        "fullest {most}, {by_lease} by lease, seed {seed}"
    );
}
