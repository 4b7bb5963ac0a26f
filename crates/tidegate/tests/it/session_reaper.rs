//! Reapers: what they do is done once however they end, they catch up, and several are as
//! good as one.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use futures_util::future::join_all;
use tidegate::clock::ManualClock;
use tidegate::random::Random;
use tidegate::session::{Answer, Generation, Reap, Refusal, SessionId, SessionOptions, Sessions, State};
use tidegate::testkit::RedisServer;

use crate::kit::REDIS;
use crate::outage::until;
use crate::session::{CLAIM, GRACE, LEASE, START_MS, Space, key, metric, ms, open, options};
use crate::session_flaws::{does, raw};

/// Never gives up.
fn patient(it: &mut SessionOptions) {
    it.max_attempts = 1000;
}

/// A reaper in a process of its own: claims, writes each side effect down, acknowledges.
/// It says what it has done after each step, and goes on when it is told to.
async fn reaper(url: &str, namespace: &str, now_ms: u64, effects: &Path) {
    let clock = ManualClock::at(ms(now_ms));
    let gate = open(url, namespace, Some(&clock)).await;
    let sessions = gate.sessions("sessions", options(patient)).unwrap();
    let mut commands = std::io::stdin().lines();
    let mut step = move |done: &str| {
        println!("\ndone {done}");
        commands.next().expect("it is told to go on").unwrap();
    };
    step("opened");
    loop {
        let found = sessions.claim(3).await.unwrap();
        step("claimed");
        for claim in &found.claims {
            let mut file = std::fs::File::options().append(true).create(true).open(effects).unwrap();
            file.write_all(format!("{} {}\n", claim.id, claim.generation.get()).as_bytes()).unwrap();
            step("ran");
            let answer = sessions.ack(claim.id, claim.generation).await.unwrap();
            step(&format!("acknowledged {} {}", claim.id, answer.is_done()));
        }
        if found.claims.is_empty() && !found.swept.is_more {
            return step("ended");
        }
    }
}

fn start(role: &str) -> Child {
    let name = "session_reaper::a_killed_reaper_loses_nothing_and_deletes_nothing_twice";
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([name, "--exact", "--nocapture"]).env(ROLE, role);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
}

const ROLE: &str = "TIDEGATE_TEST_REAPER";

/// Forty reapers are killed with SIGKILL, one after each of their first twenty steps and
/// one while it does the step after that; another finishes what they began.
#[tokio::test]
async fn a_killed_reaper_loses_nothing_and_deletes_nothing_twice() {
    if let Ok(role) = std::env::var(ROLE) {
        let [url, namespace, now_ms, effects] = role.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{role}")
        };
        return reaper(url, namespace, now_ms.parse().unwrap(), Path::new(effects)).await;
    }
    const COUNT: usize = 250;
    let space = Space::redis(patient).await;
    let effects = tempfile::NamedTempFile::new().unwrap();
    let mut ids = BTreeSet::new();
    for number in 0..COUNT {
        ids.insert(space.left(&format!("b{number}")).await.to_string());
    }
    space.pass(GRACE).await;
    let mut deleted: Vec<String> = Vec::new();
    let random = Random::seeded(7);
    for kill in 0..40 {
        let now_ms = space.clock.now().as_millis();
        let role = format!("{} {} {now_ms} {}", space.url, space.namespace, effects.path().display());
        let mut child = start(&role);
        let mut go_on = child.stdin.take().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let mut done = || lines.find_map(|line| line.strip_prefix("done ").map(str::to_owned)).unwrap();
        let mut note = |done: String| {
            let Some(acknowledged) = done.strip_prefix("acknowledged ") else { return };
            let (id, is_ok) = acknowledged.split_once(' ').unwrap();
            if is_ok == "true" {
                deleted.push(id.to_owned());
            }
        };
        for _ in 0..=kill / 2 {
            note(done());
            go_on.write_all(b"go on\n").unwrap();
        }
        if kill % 2 == 0 {
            note(done());
        } else {
            // Wherever it is by then.
            for turn in 0..random.bits() % 200_000 {
                std::hint::black_box(turn);
            }
        }
        child.kill().unwrap();
        child.wait().unwrap();
        space.pass(CLAIM).await;
    }
    assert!(deleted.len() > 40, "{}", deleted.len());
    let left = space.sessions.counts().await.unwrap();
    assert!(left.claimed > 0 && left.claimed + left.disconnected > 10, "{left:?}");
    // Another finishes it.
    let last = std::fs::File::options().append(true).open(effects.path()).unwrap();
    let reaped = space.sessions.reap(|claim| {
        deleted.push(claim.id.to_string());
        let line = format!("{} {}\n", claim.id, claim.generation.get());
        std::future::ready((&last).write_all(line.as_bytes()))
    });
    let reaped = reaped.await.unwrap();
    assert_eq!(reaped, left.claimed + left.disconnected, "all that were left, each once");
    assert_eq!(space.sessions.counts().await.unwrap(), Default::default(), "nothing is left");

    let once: BTreeSet<_> = deleted.iter().cloned().collect();
    assert_eq!(once.len(), deleted.len(), "some were deleted twice");
    assert!(once.is_subset(&ids));
    let text = std::fs::read_to_string(effects.path()).unwrap();
    let mut tokens: BTreeMap<String, BTreeSet<u64>> = BTreeMap::new();
    for line in text.lines() {
        let (id, generation) = line.split_once(' ').unwrap();
        tokens.entry(id.to_owned()).or_default().insert(generation.parse().unwrap());
    }
    assert_eq!(tokens.keys().cloned().collect::<BTreeSet<_>>(), ids, "each side effect at least once");
    assert!(tokens.values().all(|it| it.len() == 1), "with one token each");
    assert!(text.lines().count() > COUNT, "and some more often: there was something to try");
}

/// So many sessions that have fallen silent, and are due.
async fn silent(space: &Space, count: usize) {
    let names: Vec<_> = (0..count).map(|number| format!("b{number}")).collect();
    for names in names.chunks(200) {
        join_all(names.iter().map(|name| space.held(name, "h"))).await;
    }
    space.pass(LEASE + GRACE + 7000).await;
}

/// Another process whose loop runs as often as it may.
async fn eager(space: &Space, reap: Reap) -> (tidegate::Tidegate, Sessions) {
    let gate = open(&space.url, &space.namespace, Some(&space.clock)).await;
    let sessions = gate.sessions(
        "sessions",
        options(|it| {
            (it.cleanup_interval, it.reap) = (Duration::from_millis(100), reap);
        }),
    );
    (gate, sessions.unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_processes_that_were_away_catch_up_and_delete_each_once() {
    const COUNT: u64 = 10_000;
    let server = RedisServer::start();
    let space = Space::on("redis", &server.url(), options(|_| {})).await;
    silent(&space, COUNT as usize).await;
    assert_eq!(space.sessions.counts().await.unwrap().orphans, COUNT);
    let gates = [
        eager(&space, Reap::Cleanup).await,
        eager(&space, Reap::Cleanup).await,
        eager(&space, Reap::Cleanup).await,
    ];
    let mut steps = BTreeSet::new();
    until("all are deleted", async || {
        let left = space.sessions.counts().await.unwrap().disconnected;
        steps.insert(left);
        (left == 0).then_some(())
    })
    .await;
    assert!(steps.len() > 10, "in batches, beside whoever asks: {steps:?}");
    for (gate, _) in &gates {
        gate.shutdown().await;
    }
    let sum = |name: &str| gates.iter().map(|(gate, _)| metric(gate, name)).sum::<u64>();
    assert_eq!(sum("orphan_sessions_deleted_total"), COUNT);
    assert_eq!(sum("tidegate_session_lapsed_total"), COUNT);
    assert_eq!(sum("orphan_cleanup_keys_scanned_total"), 0);
    // However many batches a cleanup takes, it is one.
    let runs = gates.iter().map(|(gate, _)| {
        let text = gate.metrics();
        let runs =
            text.lines().find_map(|it| it.strip_prefix("tidegate_reaper_runs_total{reaper=\"session\"} "));
        runs.unwrap_or_else(|| panic!("{text}")).parse::<u64>().unwrap()
    });
    let cleanups = sum("orphan_cleanup_duration_seconds_count");
    assert!((1..=runs.sum()).contains(&cleanups), "{cleanups} cleanups");
    let keys: Vec<String> = redis::cmd("KEYS").arg("*session*").query(&mut server.connection()).unwrap();
    assert_eq!(keys.len(), 1, "{keys:?}");
}

#[tokio::test]
async fn memory_catches_up_too() {
    let space = Space::memory(|it| it.cleanup_interval = Duration::from_millis(100)).await;
    silent(&space, 10_000).await;
    until("all are deleted", async || {
        // The loop runs in this thread.
        tokio::task::yield_now().await;
        (space.sessions.counts().await.unwrap().disconnected == 0).then_some(())
    })
    .await;
    assert_eq!(space.metric("orphan_sessions_deleted_total"), 10_000);
}

/// Calls that travel together are counted apart.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cleanups_at_once_count_each_session_once() {
    for space in Space::everywhere(|it| it.batch = 10).await {
        silent(&space, 500).await;
        let cleaning = (0..16).map(|_| {
            let sessions = space.sessions.clone();
            tokio::spawn(async move { sessions.cleanup().await.unwrap() })
        });
        let swept: Vec<_> = join_all(cleaning).await.into_iter().map(Result::unwrap).collect();
        let sum = |of: fn(&tidegate::session::Swept) -> u64| swept.iter().map(of).sum::<u64>();
        assert_eq!((sum(|it| it.deleted), sum(|it| it.lapsed)), (500, 500), "{}", space.on);
        assert_eq!(space.metric("orphan_sessions_deleted_total"), 500, "{}", space.on);
    }
}

/// Claims that travel together are of different sessions.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reapers_at_once_claim_each_session_once() {
    for space in Space::everywhere(|_| {}).await {
        silent(&space, 300).await;
        let claiming = (0..16).map(|_| {
            let sessions = space.sessions.clone();
            tokio::spawn(async move { sessions.claim(20).await.unwrap() })
        });
        let found: Vec<_> = join_all(claiming).await.into_iter().map(Result::unwrap).collect();
        let claims: Vec<_> = found.iter().flat_map(|it| &it.claims).collect();
        let once: BTreeSet<_> = claims.iter().map(|it| it.id).collect();
        assert_eq!((claims.len(), once.len()), (300, 300), "{}", space.on);
        let lapsed: u64 = found.iter().map(|it| it.swept.lapsed).sum();
        assert_eq!(lapsed, 300, "{}", space.on);
        assert_eq!(space.metric("tidegate_session_lapsed_total"), 300, "{}", space.on);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_loop_that_leaves_orphans_to_claims_reports_how_late_they_are() {
    let space = Space::redis(|_| {}).await;
    silent(&space, 250).await;
    let (gate, sessions) = eager(&space, Reap::Claims).await;
    let lag = until("the lag is told", async || {
        sessions.get(uuid()).await.unwrap();
        // In this order: both are set by the end of a run, which may be between two looks.
        (metric(&gate, "disconnected_sessions_count") > 0)
            .then(|| metric(&gate, "tidegate_session_reap_lag_seconds"))
    })
    .await;
    assert_eq!(lag, 7);
    assert_eq!(metric(&gate, "disconnected_sessions_count"), 250);
    assert_eq!(metric(&gate, "tidegate_session_lapsed_total"), 250, "it finds out who is silent");
    assert_eq!(metric(&gate, "orphan_sessions_deleted_total"), 0);
    gate.shutdown().await;
    let reaped = sessions.reap(async |_| Ok::<_, std::convert::Infallible>(())).await.unwrap();
    assert_eq!((reaped, metric(&gate, "orphan_sessions_deleted_total")), (250, 250));
}

fn uuid() -> SessionId {
    "00000000-0000-4000-8000-000000000000".parse().unwrap()
}

/// However many fail, the others have their turn.
#[tokio::test]
async fn side_effects_that_fail_keep_nobody_from_being_reaped() {
    for space in Space::everywhere(|it| it.batch = 2).await {
        let mut left = Vec::new();
        for number in 0..30 {
            left.push(space.left(&format!("b{number}")).await);
            space.pass(1).await;
        }
        space.pass(GRACE).await;
        let reaping = space.sessions.reap(|claim| {
            let is_bad = left[..20].contains(&claim.id);
            std::future::ready(if is_bad { Err("no") } else { Ok(()) })
        });
        assert_eq!(reaping.await.unwrap(), 10, "{}", space.on);
        assert_eq!(space.sessions.counts().await.unwrap().claimed, 20, "{}", space.on);
    }
}

#[tokio::test]
async fn what_fails_too_often_is_put_aside_and_can_be_retried() {
    for space in Space::everywhere(|it| it.max_attempts = 3).await {
        let (on, sessions) = (space.on, &space.sessions);
        let (bad, good) = (space.left("bad").await, space.left("good").await);
        space.pass(GRACE).await;
        let mut attempts = Vec::new();
        for turn in 0..5 {
            if on == "redis" && turn == 3 {
                let session = format!("PEXPIRE {}:session:{bad} 99999", space.namespace);
                does(&mut REDIS.connection(), &[&session]);
            }
            let reaping = sessions.reap(|claim| {
                attempts.push((claim.id == bad, claim.attempt));
                std::future::ready(if claim.id == bad { Err("no") } else { Ok(()) })
            });
            reaping.await.unwrap();
            space.pass(CLAIM).await;
        }
        attempts.sort_unstable();
        assert_eq!(attempts, [(false, 1), (true, 1), (true, 2), (true, 3)], "{on}");
        assert_eq!(sessions.get(good).await.unwrap(), None, "{on}");
        let counts = sessions.counts().await.unwrap();
        assert_eq!((counts.dead, counts.claimed, counts.disconnected), (1, 0, 0), "{on}");
        let at = ms(START_MS + GRACE + 3 * CLAIM);
        let dead: Vec<_> = sessions.list(State::Dead, 9).await.unwrap().sessions;
        assert_eq!((dead.len(), dead[0].id, dead[0].at), (1, bad, at), "{on}");
        assert_eq!(space.get(bad).await.state, State::Dead, "{on}");
        assert_eq!(space.metric("tidegate_session_buried_total"), 1, "{on}");
        assert_eq!(sessions.resume(bad, key("h")).await.unwrap(), Answer::Refused(Refusal::Reaping), "{on}");
        if on == "redis" {
            // It may have to wait for as long again.
            let command = format!("PTTL {}:session:{bad}", space.namespace);
            let retention = sessions.options().retention.as_millis() as i64;
            assert!(raw::<i64>(&mut REDIS.connection(), &command) > retention);
        }
        // Long after, it is still there to be retried, and is due at once.
        space.skip(5 * 24 * 3_600_000).await;
        assert_eq!(sessions.retry(bad).await.unwrap(), Answer::Done(()), "{on}");
        assert_eq!(sessions.retry(bad).await.unwrap(), Answer::Refused(Refusal::Reaping), "{on}");
        let claim = sessions.claim(9).await.unwrap().claims.remove(0);
        assert_eq!((claim.id, claim.attempt, claim.generation), (bad, 1, Generation::new(1)), "{on}");
        assert_eq!(sessions.ack(bad, claim.generation).await.unwrap(), Answer::Done(()), "{on}");
        assert_eq!(sessions.counts().await.unwrap(), Default::default(), "{on}");
    }
}

/// Somebody has claimed it and its side effects have not run: a loop that knows of none
/// must not delete it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_loop_that_deletes_leaves_what_was_claimed() {
    let space = Space::redis(|_| {}).await;
    let id = space.left("claimed").await;
    space.pass(GRACE).await;
    assert_eq!(space.sessions.claim(9).await.unwrap().claims.len(), 1);
    let other = space.left("not claimed").await;
    // Its claim has ended long ago.
    space.pass(3_600_000).await;
    let (gate, sessions) = eager(&space, Reap::Cleanup).await;
    until("the loop has run", async || sessions.get(other).await.unwrap().is_none().then_some(())).await;
    assert_eq!(sessions.get(id).await.unwrap().unwrap().attempts, 1, "it is still there");
    gate.shutdown().await;
    let claims = sessions.claim(9).await.unwrap().claims;
    assert_eq!(claims.iter().map(|it| (it.id, it.attempt)).collect::<Vec<_>>(), [(id, 2)]);
}
