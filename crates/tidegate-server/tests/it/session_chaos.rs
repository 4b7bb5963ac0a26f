//! Sixteen threads of sessions on two servers, while Redis and the servers are stopped, for a
//! moment and for longer than leases last, and killed. What they were answered is recorded and looked
//! at afterwards by a checker that knows only what is promised.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, RwLock};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidegate::clock::monotonic;
use tidegate::random::Random;
use tidegate::testkit::RedisServer;

use crate::cli::Server;
use crate::session_history::{Call, Event, Promise, sessions};
use crate::session_stall::{request, signal};

const LEASE_MS: u64 = 1000;
const GRACE_MS: u64 = 500;
const SPACE: &str = "/v1/sessions/main";

const CLIENTS: u64 = 12;
const REAPERS: u64 = 4;
/// Of those that several clients share.
const BROADCASTERS: u64 = 6;

struct World {
    started: Instant,
    redis: RedisServer,
    servers: [RwLock<Server>; 2],
    history: Mutex<Vec<Event>>,
    outages: Mutex<Vec<(u64, u64)>>,
    is_over: AtomicBool,
    names: AtomicU64,
}

fn serve(redis: &RedisServer) -> Server {
    let set = [
        "holder_lease=1s",
        "grace=500ms",
        "claim_lease=1s",
        "cleanup_interval=500ms",
        "reap=claims",
        "max_attempts=1000",
    ];
    let set = set.map(|it| format!("sessions.main.{it}"));
    let url = redis.url();
    let args: Vec<_> = ["--store", &url].into_iter().chain(set.iter().flat_map(|it| ["--set", it])).collect();
    Server::start(&args)
}

impl World {
    fn begin() -> Self {
        let redis = RedisServer::start();
        let servers = [RwLock::new(serve(&redis)), RwLock::new(serve(&redis))];
        let (history, outages) = (Mutex::default(), Mutex::default());
        let (is_over, names) = (AtomicBool::new(false), AtomicU64::new(0));
        Self { started: monotonic(), redis, servers, history, outages, is_over, names }
    }

    fn now_ms(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// A request to one of the servers; the bracket of the call, and the answer if there is one.
    fn request(
        &self,
        random: &Random,
        method: &str,
        path: &str,
        body: &Value,
    ) -> (u64, u64, Option<(u16, Value)>) {
        let address = self.servers[(random.bits() % 2) as usize].read().unwrap().address().to_owned();
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let begun_ms = self.now_ms();
        let answer = request(&address, method, &format!("{SPACE}{path}"), &body);
        // Rounded up.
        (begun_ms, self.now_ms() + 1, answer)
    }

    fn record(&self, session: &str, holder: &str, call: Call, (begun_ms, ended_ms): (u64, u64)) {
        let (session, holder) = (session.to_owned(), holder.to_owned());
        self.history.lock().unwrap().push(Event { session, holder, call, begun_ms, ended_ms });
    }

    /// Activates, renews for a while, then leaves or falls silent.
    fn client(&self, number: u64) {
        let random = Random::seeded(number);
        while !self.is_over() {
            let name = self.names.fetch_add(1, Ordering::Relaxed);
            let holder = format!("h{name}");
            // Every second client comes under another name each time, and leaves orphans.
            let broadcaster = if number.is_multiple_of(2) {
                format!("b{}", number % BROADCASTERS)
            } else {
                format!("own{name}")
            };
            let body = json!({"broadcaster": broadcaster, "config": {}, "holder": holder});
            let (begun, ended, answer) = self.request(&random, "POST", "", &body);
            let Some((200 | 201, body)) = answer else {
                thread::sleep(Duration::from_millis(50));
                continue;
            };
            let id = body["id"].as_str().unwrap().to_owned();
            let generation = body["generation"].as_u64().unwrap();
            self.record(&id, &holder, Call::Held { generation }, (begun, ended));
            self.renew(&random, &id, &holder);
            if random.bits().is_multiple_of(2) {
                let path = format!("/{id}/holders/{holder}");
                let (begun, ended, _) = self.request(&random, "DELETE", &path, &Value::Null);
                self.record(&id, &holder, Call::Left, (begun, ended));
            }
            if random.bits().is_multiple_of(3) {
                // Long enough that the session may be nobody's.
                thread::sleep(Duration::from_millis(random.bits() % (2 * LEASE_MS)));
            }
        }
    }

    fn renew(&self, random: &Random, id: &str, holder: &str) {
        let path = format!("/{id}/holders/{holder}/heartbeat");
        for _ in 0..random.bits() % 12 {
            if self.is_over() {
                return;
            }
            thread::sleep(Duration::from_millis(LEASE_MS / 4));
            let (begun, ended, answer) = self.request(random, "POST", &path, &Value::Null);
            match answer {
                Some((200, body)) => {
                    let generation = body["generation"].as_u64().unwrap();
                    self.record(id, holder, Call::Held { generation }, (begun, ended));
                }
                Some((404 | 409, _)) => {
                    self.record(id, holder, Call::Refused, (begun, ended));
                    return;
                }
                // Nobody there, or its store is not.
                _ => {}
            }
        }
    }

    fn reaper(&self, number: u64) {
        let random = Random::seeded(100 + number);
        while !self.is_over() {
            self.reap(&random, !random.bits().is_multiple_of(4));
            thread::sleep(Duration::from_millis(20 + random.bits() % 100));
        }
    }

    fn reap(&self, random: &Random, is_acknowledging: bool) {
        let (begun, ended, answer) = self.request(random, "POST", "/claims", &json!({"limit": 5}));
        let Some((200, body)) = answer else { return };
        for claim in body["claims"].as_array().unwrap() {
            let (id, generation) = (claim["id"].as_str().unwrap(), claim["generation"].as_u64().unwrap());
            self.record(id, "", Call::Claimed { generation }, (begun, ended));
            if is_acknowledging {
                let body = json!({"acks": [{"id": id, "generation": generation}]});
                let (begun, ended, answer) = self.request(random, "POST", "/acks", &body);
                if answer.is_some_and(|(status, body)| status == 200 && body["deleted"] == 1) {
                    self.record(id, "", Call::Deleted, (begun, ended));
                }
            }
        }
    }

    /// All are stopped for `lasting_ms`, certainly from a moment after the signal.
    fn outage(&self, lasting_ms: u64, stop: impl FnOnce(), go_on: impl FnOnce()) {
        stop();
        thread::sleep(Duration::from_millis(20));
        let from_ms = self.now_ms() + 1;
        thread::sleep(Duration::from_millis(lasting_ms));
        let to_ms = self.now_ms();
        go_on();
        self.outages.lock().unwrap().push((from_ms, to_ms));
    }

    fn chaos(&self) {
        let random = Random::seeded(7);
        let mut turn = 0;
        while !self.is_over() {
            thread::sleep(Duration::from_millis(700 + random.bits() % 900));
            // Longer than half a lease, up to beyond lease and grace.
            let lasting_ms = 600 + random.bits() % 1400;
            let servers = || [0, 1].map(|number: usize| self.servers[number].read().unwrap().id());
            match turn % 5 {
                0 => self.outage(lasting_ms, || self.redis.freeze(), || self.redis.thaw()),
                1 => self.outage(
                    lasting_ms,
                    || servers().iter().for_each(|pid| signal(*pid, "-STOP")),
                    || servers().iter().for_each(|pid| signal(*pid, "-CONT")),
                ),
                2 => {
                    self.redis.freeze();
                    thread::sleep(Duration::from_millis(150));
                    self.redis.thaw();
                }
                3 => {
                    let pid = servers()[0];
                    signal(pid, "-STOP");
                    thread::sleep(Duration::from_millis(lasting_ms));
                    signal(pid, "-CONT");
                }
                _ => *self.servers[1].write().unwrap() = serve(&self.redis),
            }
            turn += 1;
        }
    }
}

/// How long it goes on.
fn lasting() -> Duration {
    let seconds = std::env::var("TIDEGATE_CHAOS_SECONDS").map_or(9, |it| it.parse().expect("a number"));
    Duration::from_secs(seconds)
}

#[test]
fn sixteen_threads_on_two_servers_see_no_promise_broken() {
    let world = World::begin();
    thread::scope(|scope| {
        let world = &world;
        for number in 0..CLIENTS {
            scope.spawn(move || world.client(number));
        }
        for number in 0..REAPERS {
            scope.spawn(move || world.reaper(number));
        }
        scope.spawn(|| world.chaos());
        thread::sleep(lasting());
        world.is_over.store(true, Ordering::Release);
    });
    // Nobody comes any more: all of it is reaped.
    let random = Random::seeded(1);
    let deadline = monotonic() + Duration::from_secs(20);
    loop {
        world.reap(&random, true);
        let counts = world.request(&random, "GET", "/counts", &Value::Null).2;
        let is_empty =
            |body: &Value| ["active", "disconnected", "claimed", "dead"].iter().all(|state| body[state] == 0);
        if counts.as_ref().is_some_and(|(status, body)| *status == 200 && is_empty(body)) {
            break;
        }
        assert!(monotonic() < deadline, "left behind: {counts:?}");
        thread::sleep(Duration::from_millis(50));
    }
    let history = world.history.into_inner().unwrap();
    let outages = world.outages.into_inner().unwrap();
    let count = |is: fn(&Call) -> bool| history.iter().filter(|it| is(&it.call)).count();
    let held = count(|it| matches!(it, Call::Held { .. }));
    let (claimed, deleted) =
        (count(|it| matches!(it, Call::Claimed { .. })), count(|it| *it == Call::Deleted));
    println!(
        "{held} leases of {} sessions, {claimed} claims, {deleted} deletions, {} outages",
        sessions(&history),
        outages.len()
    );
    let promise = Promise { lease_ms: LEASE_MS, grace_ms: GRACE_MS, outages };
    let violations = promise.violations(&history);
    assert!(violations.is_empty(), "{} violations:\n{}", violations.len(), violations.join("\n"));
    assert!(held > 100 && claimed > 3 && deleted > 3 && !promise.outages.is_empty(), "nothing happened");
}
