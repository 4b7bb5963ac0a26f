//! A process that is killed in the middle of an import leaves all of it or nothing.

use std::io::{BufRead as _, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, Stdio};

use tempfile::TempDir;
use tidegate::clock::monotonic;
use tidegate_edge::formats::{ExportFormat, Format, Reader};
use tidegate_edge::stream::{StreamOptions, Tail};
use tidegate_edge::truth::{Digest, ImportOptions, ImportOutcome, Position, Seq, Truth};
use tokio::sync::Mutex;
use tokio::time::timeout;
use tokio_postgres::Client;

use crate::import::{LARGE, check_rules, exported, large};
use crate::kit::{PostgresServer, SOON, until_none};
use crate::replica::{Replica, catch_up};

/// What the process that is killed imports into, and which round it is.
const DATABASE: &str = "TIDEGATE_TEST_IMPORT_INTO";
const ROUND: &str = "TIDEGATE_TEST_IMPORT_ROUND";

async fn import(url: &str, round: u64) -> Position {
    let truth = Truth::open(url, &Default::default()).await.unwrap();
    let reader = Reader::new(Format::Csv, large(round));
    let report = truth
        .import(reader, ImportOptions::default(), |progress| {
            println!("\n@{:?} {}", progress.step, progress.lines)
        })
        .await
        .unwrap();
    assert_eq!(report.outcome, ImportOutcome::Written);
    println!("\n@Written {}", report.lines);
    truth.position().await.unwrap()
}

/// This is also what is started again as a process of its own.
#[tokio::test]
async fn a_process_imports() {
    match (std::env::var(DATABASE), std::env::var(ROUND)) {
        (Ok(url), Ok(round)) => drop(import(&url, round.parse().unwrap()).await),
        _ => {
            let folder = tempfile::tempdir().unwrap();
            let url = format!("sqlite:{}", folder.path().join("rules.db").display());
            // Not opened again: a process that is started beside it may have its lock for a moment.
            assert_eq!(import(&url, 0).await.count, LARGE);
        }
    }
}

/// Another process that imports, and what it says.
struct Importing {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Importing {
    fn start(url: &str, round: u64) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "killed::a_process_imports", "--nocapture"])
            .env(DATABASE, url)
            .env(ROUND, round.to_string())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// Waits until it is there; whether it ever was.
    fn says(&mut self, step: &str, at_least: u64) -> bool {
        self.lines.by_ref().map(Result::unwrap).any(|line| {
            let told = line.strip_prefix('@').and_then(|it| it.split_once(' '));
            told.is_some_and(|(told, lines)| told == step && lines.parse::<u64>().unwrap() >= at_least)
        })
    }

    /// Kills it. Whether it had said that all was written.
    fn kill(mut self) -> bool {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.says("Written", 0)
    }
}

/// Opens what was left, and finds that everything agrees.
async fn found(url: &str) -> Position {
    let truth = Truth::open(url, &Default::default()).await.unwrap();
    let position = truth.position().await.unwrap();
    let (mut digest, mut seq) = (Digest::default(), Seq(0));
    for row in truth.log(Seq(0), usize::MAX >> 1).await.unwrap().expect("the log is whole") {
        digest = digest.without(row.left).with(row.came);
        assert_eq!((row.seq, row.digest), (seq.next(), digest));
        seq = row.seq;
    }
    assert_eq!((position.seq, position.digest), (seq, digest));
    check_rules(&truth).await;
    position
}

fn rounds() -> u64 {
    if std::env::var_os("TIDEGATE_LONG").is_some() { 50 } else { 10 }
}

/// What is done about a process that is to be killed.
trait Around {
    /// Before it is started.
    async fn before(&self, _round: u64) {}

    /// Whether it was brought to where it is to be killed, after it has said that it begins to write.
    async fn is_there(&self, _round: u64) -> bool {
        false
    }

    /// After it was killed: waits until it has ended everywhere.
    async fn ended(&self, round: u64);
}

/// Kills imports at every point they come to.
async fn there_as_a_whole_or_not_at_all(url: &str, around: &impl Around) {
    let rounds = rounds();
    // How long writing takes, if nobody ends it.
    let mut whole = Importing::start(url, rounds);
    assert!(whole.says("Writing", 0));
    let start = monotonic();
    assert!(whole.says("Written", 0));
    let writing = start.elapsed();
    assert!(whole.child.wait().unwrap().success());
    let mut before = found(url).await;
    assert_eq!((before.seq, before.count), (Seq(1), LARGE));
    for round in 0..rounds {
        around.before(round).await;
        let mut importing = Importing::start(url, round);
        let (step, lines) = match round {
            0 => ("Reading", 4096),
            1 => ("Checking", 0),
            _ => ("Writing", 0),
        };
        assert!(importing.says(step, lines), "round {round}");
        if step == "Writing" && !around.is_there(round).await {
            // Where in its transaction it is cannot be told from outside: all of it is gone through in steps.
            let share = round.saturating_sub(1) as f64 / (rounds - 1) as f64;
            std::thread::sleep(writing.mul_f64(share));
        }
        let was_written = importing.kill();
        around.ended(round).await;
        let after = found(url).await;
        let is_there = after.seq != before.seq;
        assert!(is_there || !was_written, "round {round}: it was acknowledged and is gone");
        if is_there {
            assert_eq!((after.seq, after.count), (before.seq.next(), LARGE), "round {round}");
            let truth = Truth::open(url, &Default::default()).await.unwrap();
            let rules = exported(&truth, ExportFormat::Jsonl).await;
            let own = format!("https://example.com/{round}/");
            assert!(rules.lines().all(|line| line.contains(&own)), "round {round} is there in part");
        } else {
            assert_eq!((after.digest, after.count), (before.digest, before.count), "round {round}");
        }
        before = after;
    }
    // Nothing that was left is in the way.
    let imported = import(url, rounds + 1).await;
    let last = found(url).await;
    assert_eq!((last.seq, last.count), (before.seq.next(), LARGE));
    assert_eq!(last.digest, imported.digest);
}

struct InFile(TempDir);

impl Around for InFile {
    async fn ended(&self, round: u64) {
        let left = std::fs::read_dir(self.0.path()).unwrap().map(|it| it.unwrap().file_name());
        assert!(left.into_iter().all(|name| !name.to_str().unwrap().contains("-import-")), "round {round}");
    }
}

#[tokio::test]
async fn a_killed_import_is_there_as_a_whole_or_not_at_all_in_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("rules.db").display());
    there_as_a_whole_or_not_at_all(&url, &InFile(folder)).await;
}

/// What keeps an import waiting: a rule that somebody has locked, before it writes anything; then a tag and a row of the log
/// that somebody is writing, when it has written rules, and when it has written all but where they stand.
const IN_THE_WAY: [&str; 3] = [
    "SELECT FROM tidegate.rules WHERE id = 'r0' FOR UPDATE",
    "INSERT INTO tidegate.tags (tag, id) VALUES ('round-3', 'r0')",
    "INSERT INTO tidegate.log (seq, left_hash, came_hash, digest, count, at_ms)
        SELECT seq + 1, '', '', '', 0, 0 FROM tidegate.state",
];

struct OnPostgres {
    truth: Truth,
    tail: Tail,
    /// Follows another server all the time.
    replica: Mutex<Replica>,
    client: Client,
    other: Client,
}

impl OnPostgres {
    fn in_the_way(round: u64) -> Option<&'static str> {
        IN_THE_WAY.get(usize::try_from(round).unwrap().checked_sub(2)?).copied()
    }
}

impl Around for OnPostgres {
    async fn before(&self, round: u64) {
        if let Some(statement) = Self::in_the_way(round) {
            self.client.batch_execute(&format!("BEGIN; {statement}")).await.unwrap();
        }
    }

    async fn is_there(&self, round: u64) -> bool {
        if Self::in_the_way(round).is_none() {
            return false;
        }
        let waits = format!("SELECT count(*) FROM {WAITING}");
        let there = async {
            while self.other.query_one(&waits, &[]).await.unwrap().get::<_, i64>(0) == 0 {
                tokio::task::yield_now().await;
            }
        };
        timeout(SOON, there).await.unwrap_or_else(|_| panic!("round {round}: it does not come there"));
        true
    }

    async fn ended(&self, round: u64) {
        if Self::in_the_way(round).is_some() {
            // It is noticed that nobody is there, also of one that waits; all else that it has sent before is not done.
            until_none(&self.other, WAITING).await;
            self.client.batch_execute("ROLLBACK").await.unwrap();
        }
        // Whoever is killed while it merges has this lock until that is noticed.
        let lock = self.client.batch_execute("SELECT FROM tidegate.state FOR UPDATE");
        timeout(SOON, lock).await.unwrap_or_else(|_| panic!("round {round}: it is held")).unwrap();
        // Whoever follows has what there is, however that came.
        catch_up(&mut *self.replica.lock().await, &self.tail, &self.truth).await;
    }
}

/// Who waits for somebody else in this database.
const WAITING: &str = "pg_locks WHERE NOT granted
    AND pid IN (SELECT pid FROM pg_stat_activity WHERE datname = current_database())";

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_import_is_there_as_a_whole_or_not_at_all_on_postgres() {
    let (name, url) = PostgresServer::shared().database().await;
    let truth = Truth::open(&url, &Default::default()).await.unwrap();
    let server = PostgresServer::shared();
    let around = OnPostgres {
        tail: Tail::start(&truth, StreamOptions::default()),
        truth,
        replica: Mutex::default(),
        client: server.client(&name).await,
        other: server.client(&name).await,
    };
    there_as_a_whole_or_not_at_all(&url, &around).await;
    let mut replica = around.replica.lock().await;
    catch_up(&mut replica, &around.tail, &around.truth).await;
    assert_eq!(replica.rules.len() as u64, LARGE);
    assert!(replica.reloads.iter().any(|it| it == "rules were imported"), "{:?}", replica.reloads);
}
