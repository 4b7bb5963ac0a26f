//! A process that is killed in the middle of writes: what it had acknowledged is there, and all of it fits together.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tidegate::random::Random;
use tidegate_edge::truth::{Change, Condition, Truth};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::kit::{PostgresServer, World, bodies, check, terms};

/// What the process that is killed writes to, and the first number that it writes.
const DATABASE: &str = "TIDEGATE_TEST_WRITE_TO";
const FIRST: &str = "TIDEGATE_TEST_WRITE_FROM";

const WRITERS: u64 = 8;

/// Long enough for anything that comes at all.
const SOON: Duration = Duration::from_secs(60);

/// Each who writes has as many rules.
const RULES: u64 = 5;

fn rounds() -> u64 {
    if std::env::var_os("TIDEGATE_LONG").is_some() { 50 } else { 10 }
}

/// Writes higher and higher numbers into rules of one's own, and says which were sent and which acknowledged.
async fn write(truth: Truth, writer: u64, numbers: std::ops::Range<u64>) {
    for number in numbers {
        let id = format!("w{writer}-{}", number % RULES);
        let terms = terms(&format!("/{id}"), &format!("https://example.com/{number}"));
        // A line each: what is killed between two of them has said nothing in part.
        println!("\n@sent {id} {number}");
        let change = Change::Replace { id: id.clone(), terms, condition: Condition::None };
        truth.change(change).await.unwrap().unwrap();
        println!("\n@acknowledged {id} {number}");
    }
}

/// This is also what is started again as a process of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_writes() {
    let (url, first, last) = match (std::env::var(DATABASE), std::env::var(FIRST)) {
        (Ok(url), Ok(first)) => (Some(url), first.parse().unwrap(), u64::MAX),
        _ => (None, 0, 10),
    };
    let world = World::sqlite().await;
    let truth = match &url {
        Some(url) => Truth::open(url, &Default::default()).await.unwrap(),
        None => world.truth.clone(),
    };
    let writers: Vec<_> =
        (0..WRITERS).map(|writer| tokio::spawn(write(truth.clone(), writer, first..last))).collect();
    for writer in writers {
        writer.await.unwrap();
    }
    assert_eq!(world.truth.position().await.unwrap().count, WRITERS * RULES);
    world.check().await;
}

/// Another process that writes, and of each rule the number that was acknowledged last and that was sent last.
struct Writing {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    told: HashMap<String, (u64, u64)>,
    acknowledged: u64,
}

impl Writing {
    fn start(url: &str, first: u64) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "killed_writes::a_process_writes", "--nocapture"])
            .env(DATABASE, url)
            .env(FIRST, first.to_string())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines, told: HashMap::new(), acknowledged: 0 }
    }

    /// Reads until so many were acknowledged, or to the end.
    fn read(&mut self, acknowledged: u64) {
        while self.acknowledged < acknowledged
            && let Some(line) = self.lines.next()
        {
            let line = line.unwrap();
            let words: Vec<_> = line.split(' ').collect();
            // The last line may have broken off: then nobody has been told.
            let ([said, id, number], true) = (&words[..], line.starts_with('@')) else { continue };
            let Ok(number) = number.parse::<u64>() else { continue };
            let (last, sent) = self.told.entry((*id).to_owned()).or_default();
            match *said {
                "@sent" => *sent = number,
                "@acknowledged" => {
                    *last = number;
                    self.acknowledged += 1;
                }
                other => panic!("{other}"),
            }
        }
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.read(u64::MAX);
    }
}

/// The number in each rule of those processes.
async fn numbers(truth: &Truth) -> HashMap<String, u64> {
    let (_, bodies) = bodies(truth).await;
    let rules = bodies.iter().map(|body| serde_json::from_str::<serde_json::Value>(body).unwrap());
    // Those of others have none.
    let number = |rule: &serde_json::Value| rule["destination"].as_str()?.rsplit('/').next()?.parse().ok();
    rules.filter_map(|rule| Some((rule["id"].as_str()?.to_owned(), number(&rule)?))).collect()
}

/// Another server on the same database, which writes too as long as it may.
struct Neighbour {
    is_over: Arc<AtomicBool>,
    writing: JoinHandle<u64>,
}

impl Neighbour {
    fn start(truth: Truth) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&is_over);
        let writing = tokio::spawn(async move {
            let mut written = 0;
            while !until.load(Ordering::Relaxed) {
                let id = format!("own-{}", written % RULES);
                let terms = terms(&format!("/{id}"), &format!("https://example.com/own/of-{written}"));
                let change = Change::Replace { id, terms, condition: Condition::None };
                truth.change(change).await.unwrap().unwrap();
                written += 1;
            }
            written
        });
        Self { is_over, writing }
    }

    /// How often it has written.
    async fn stop(self) -> u64 {
        self.is_over.store(true, Ordering::Relaxed);
        timeout(SOON, self.writing).await.expect("it waits for nobody who was killed").unwrap()
    }
}

/// Kills one process after the other, beside a server that goes on if there is one.
async fn loses_nothing(url: &str, neighbour: Option<&Truth>) {
    let random = Random::seeded(5);
    let (mut next, mut before) = (1, HashMap::new());
    for round in 0..rounds() {
        let beside = neighbour.map(|truth| Neighbour::start(truth.clone()));
        let mut writing = Writing::start(url, next);
        writing.read(1 + random.bits() % 400);
        writing.kill();
        assert!(writing.acknowledged > 0, "round {round}: it has written nothing");
        if let Some(beside) = beside {
            assert!(beside.stop().await > 0, "round {round}");
        }
        let truth = match neighbour {
            Some(truth) => truth.clone(),
            None => Truth::open(url, &Default::default()).await.unwrap(),
        };
        let numbers = numbers(&truth).await;
        for (id, (last, sent)) in &writing.told {
            let there = numbers.get(id).copied().unwrap_or(0);
            let at_least = if *last > 0 { *last } else { before.get(id).copied().unwrap_or(0) };
            // What was sent and not answered may be there or not.
            let is_either = there == at_least || there == *sent;
            assert!(is_either, "round {round}: {id} is {there}, {last} was acknowledged, {sent} sent");
            next = next.max(sent + 1);
        }
        check(&truth).await;
        before = numbers;
    }
}

#[tokio::test]
async fn what_was_acknowledged_is_in_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("rules.db").display());
    loses_nothing(&url, None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_is_seen_by_another_server_that_goes_on() {
    let (_, url) = PostgresServer::shared().database().await;
    let other = Truth::open(&url, &Default::default()).await.unwrap();
    loses_nothing(&url, Some(&other)).await;
}
