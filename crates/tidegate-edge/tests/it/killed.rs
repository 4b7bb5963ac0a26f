//! A process that is killed in the middle of an import leaves all of it or nothing.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use tidegate_edge::formats::{ExportFormat, Format, Reader};
use tidegate_edge::truth::{Digest, ImportOptions, ImportOutcome, ImportStep, Position, Seq, Truth};

use crate::import::{LARGE, check_rules, exported, large};

/// What the process that is killed imports into, and which round it is.
const DATABASE: &str = "TIDEGATE_TEST_IMPORT_INTO";
const ROUND: &str = "TIDEGATE_TEST_IMPORT_ROUND";

async fn import(url: &str, round: u64) {
    let truth = Truth::open(url, &Default::default()).await.unwrap();
    let reader = Reader::new(Format::Csv, large(round));
    let report = truth
        .import(reader, ImportOptions::default(), |progress| {
            println!("\n@{:?} {}", progress.step, progress.lines)
        })
        .await
        .unwrap();
    assert_eq!(report.outcome, ImportOutcome::Written);
    println!("\n@Written");
}

/// This is also what is started again as a process of its own.
#[tokio::test]
async fn a_process_imports() {
    match (std::env::var(DATABASE), std::env::var(ROUND)) {
        (Ok(url), Ok(round)) => import(&url, round.parse().unwrap()).await,
        _ => {
            let folder = tempfile::tempdir().unwrap();
            let url = format!("sqlite:{}", folder.path().join("rules.db").display());
            import(&url, 0).await;
            let truth = Truth::open(&url, &Default::default()).await.unwrap();
            assert_eq!(truth.position().await.unwrap().count, LARGE);
        }
    }
}

/// Imports in another process, which is killed when it says that it is there, or so much later. Whether it had said
/// that all was written.
fn killed(url: &str, round: u64, at: (ImportStep, u64), later: Duration) -> bool {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "killed::a_process_imports", "--nocapture"])
        .env(DATABASE, url)
        .env(ROUND, round.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let is_there = |line: &String| {
        let told = line.strip_prefix('@').and_then(|it| it.split_once(' '));
        told.is_some_and(|(step, lines)| {
            step == format!("{:?}", at.0) && lines.parse::<u64>().unwrap() >= at.1
        })
    };
    assert!(lines.any(|line| is_there(&line)), "it was never at {at:?}");
    // Where in a transaction it is cannot be told from outside: any moment will do.
    std::thread::sleep(later);
    child.kill().unwrap();
    child.wait().unwrap();
    lines.any(|line| line == "@Written")
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

#[tokio::test]
async fn a_killed_import_is_there_as_a_whole_or_not_at_all() {
    let rounds = if std::env::var_os("TIDEGATE_LONG").is_some() { 50 } else { 10 };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rules.db");
    let url = format!("sqlite:{}", path.display());
    let mut before = found(&url).await;
    for round in 0..rounds {
        let (at, later) = match round % 5 {
            0 => ((ImportStep::Reading, 4096 * (1 + round / 5 % 3)), 0),
            1 => ((ImportStep::Checking, 0), round % 7 * 10),
            2 => ((ImportStep::Writing, 0), 0),
            _ => ((ImportStep::Writing, 0), round * 13 % 90),
        };
        let was_written = killed(&url, round, at, Duration::from_millis(later));
        let left = std::fs::read_dir(folder.path()).unwrap().map(|it| it.unwrap().file_name());
        assert!(left.into_iter().all(|name| !name.to_str().unwrap().contains("-import-")), "round {round}");
        let after = found(&url).await;
        let is_there = after.seq != before.seq;
        assert!(is_there || !was_written, "round {round}: it was acknowledged and is gone");
        if is_there {
            assert_eq!((after.seq, after.count), (before.seq.next(), LARGE), "round {round}");
            let truth = Truth::open(&url, &Default::default()).await.unwrap();
            let rules = exported(&truth, ExportFormat::Jsonl).await;
            let own = format!("https://example.com/{round}/");
            assert!(rules.lines().all(|line| line.contains(&own)), "round {round} is there in part");
        } else {
            assert_eq!((after.digest, after.count), (before.digest, before.count), "round {round}");
        }
        before = after;
    }
    // Nothing that was left is in the way.
    import(&url, rounds).await;
    let last = found(&url).await;
    assert_eq!((last.seq, last.count), (before.seq.next(), LARGE));
}
