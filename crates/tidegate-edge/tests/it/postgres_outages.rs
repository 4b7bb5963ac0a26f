//! PostgreSQL restarted, and replaced by a standby, while servers write and others follow.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tidegate_edge::ErrorKind;
use tidegate_edge::stream::{Next, Snapshots, StreamOptions, Tail};
use tidegate_edge::truth::{Change, Condition, Truth};
use tokio::sync::Semaphore;

use crate::kit::{PostgresServer, check, terms};
use crate::replica::{Replica, catch_up};

const WRITERS: u64 = 16;
const FOLLOWERS: u32 = 4;

/// Long enough for anything that comes at all.
const SOON: Duration = Duration::from_secs(60);

/// Who writes and follows while something happens.
struct Load {
    is_over: Arc<AtomicBool>,
    /// Writes that were acknowledged.
    written: Arc<AtomicU64>,
    writers: Vec<tokio::task::JoinHandle<Vec<u64>>>,
    followers: Vec<tokio::task::JoinHandle<Replica>>,
}

impl Load {
    /// Starts it, and waits until all who follow have read all rules once.
    async fn start(servers: &[Truth; 2]) -> Self {
        let (is_over, written) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let loaded = Arc::new(Semaphore::new(0));
        let writers = (0..WRITERS).map(|writer| {
            let truth = servers[writer as usize % 2].clone();
            tokio::spawn(write(truth, writer, Arc::clone(&written), Arc::clone(&is_over)))
        });
        let followers = servers
            .iter()
            .cycle()
            .take(FOLLOWERS as usize)
            .map(|truth| tokio::spawn(follow(truth.clone(), Arc::clone(&loaded), Arc::clone(&is_over))));
        let (writers, followers) = (writers.collect(), followers.collect());
        drop(tokio::time::timeout(SOON, loaded.acquire_many(FOLLOWERS)).await.expect("they read").unwrap());
        Self { is_over, written, writers, followers }
    }

    /// Waits until so many more were written.
    async fn more(&self, count: u64) {
        let until = self.written.load(Ordering::Relaxed) + count;
        let reached = async {
            while self.written.load(Ordering::Relaxed) < until {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(SOON, reached).await.expect("writes go on");
    }

    /// Ends it: what was acknowledged is there, and whoever followed has what the database has.
    async fn end(self, truth: &Truth) -> Vec<Replica> {
        let (lost, replicas) = self.end_with_losses(truth).await;
        assert!(lost.is_empty(), "{lost:?} were acknowledged");
        replicas
    }

    /// The same where the database may have lost something: which rules.
    async fn end_with_losses(self, truth: &Truth) -> (Vec<String>, Vec<Replica>) {
        let mut lost = Vec::new();
        self.is_over.store(true, Ordering::Relaxed);
        for (writer, writing) in self.writers.into_iter().enumerate() {
            let acknowledged = tokio::time::timeout(SOON, writing).await.expect("it ends").unwrap();
            assert!(acknowledged.len() > 1, "{writer} has written something");
            for number in acknowledged {
                let id = format!("{writer}-{number}");
                if truth.get(&id).await.unwrap().is_none() {
                    lost.push(id);
                }
            }
        }
        check(truth).await;
        let mut replicas = Vec::new();
        for follower in self.followers {
            let mut replica = tokio::time::timeout(SOON, follower).await.expect("it ends").unwrap();
            let tail = Tail::start(truth, StreamOptions::default());
            catch_up(&mut replica, &tail, truth).await;
            replicas.push(replica);
        }
        (lost, replicas)
    }
}

/// Makes rules one after the other; sends again what nobody knows to be written. Those that were acknowledged.
async fn write(truth: Truth, writer: u64, written: Arc<AtomicU64>, is_over: Arc<AtomicBool>) -> Vec<u64> {
    let mut acknowledged = Vec::new();
    for number in 0.. {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        let id = format!("{writer}-{number}");
        let terms = terms(&format!("/{id}"), "https://example.com/");
        let change = Change::Replace { id, terms, condition: Condition::None };
        loop {
            match truth.change(change.clone()).await {
                Ok(outcome) => {
                    outcome.unwrap();
                    break;
                }
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
        }
        acknowledged.push(number);
        written.fetch_add(1, Ordering::Relaxed);
        // Few enough that all of them can be compared again and again.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    acknowledged
}

/// Follows until it is over, through whatever fails; says when it has read all rules first.
async fn follow(truth: Truth, loaded: Arc<Semaphore>, is_over: Arc<AtomicBool>) -> Replica {
    let tail = Tail::start(&truth, StreamOptions::default());
    let (mut replica, snapshots) = (Replica::default(), Snapshots::of(&truth));
    while !is_over.load(Ordering::Relaxed) {
        replica.follower.cut();
        let Ok(mut changes) = tail.follow(replica.follower.mark().cloned()).await else {
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        while !is_over.load(Ordering::Relaxed) {
            let next = tokio::time::timeout(Duration::from_millis(100), changes.next()).await;
            let message = match next {
                Err(_) => continue,
                Ok(Ok(Next::Message(message))) => message,
                Ok(Ok(Next::Cut(_)) | Err(_)) => break,
            };
            if let Some(from) = replica.take(message) {
                if replica.try_reload(&snapshots, &from).await.is_err() {
                    break;
                }
                if replica.reloads.len() == 1 {
                    loaded.add_permits(1);
                }
            }
        }
    }
    replica
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_loses_nothing_that_was_acknowledged() {
    // Every commit is on the disk.
    let mut server = PostgresServer::start(&[]);
    let (_, url) = server.database().await;
    let open = async || Truth::open(&url, &Default::default()).await.unwrap();
    let servers = [open().await, open().await];
    let before = servers[0].position().await.unwrap();
    let load = Load::start(&servers).await;
    for _ in 0..3 {
        load.more(50).await;
        server.crash();
        let error = servers[1].get("a").await.expect_err("it is away");
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        server.start_again();
    }
    load.more(50).await;
    let replicas = load.end(&servers[0]).await;
    assert_eq!(servers[1].position().await.unwrap().epoch, before.epoch, "it has not gone back");
    for replica in replicas {
        assert_eq!(replica.reloads.len(), 1, "only at the beginning: {:?}", replica.reloads);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_promoted_standby_is_another_epoch() {
    let mut primary = PostgresServer::start(&[]);
    let (name, _) = primary.database().await;
    let standby = PostgresServer::standby_of(&primary);
    let url = format!(
        "postgres://{name}:secret@127.0.0.1:{},127.0.0.1:{}/{name}?target_session_attrs=read-write",
        primary.port(),
        standby.port(),
    );
    // What is acknowledged is on both from here on.
    let client = primary.client("postgres").await;
    client.batch_execute("ALTER SYSTEM SET synchronous_standby_names = '*'").await.unwrap();
    client.batch_execute("SELECT pg_reload_conf()").await.unwrap();
    let is_set = async || {
        let row = primary.client("postgres").await.query_one("SHOW synchronous_standby_names", &[]).await;
        row.unwrap().get::<_, String>(0) == "*"
    };
    tokio::time::timeout(SOON, async { while !is_set().await {} }).await.expect("it is set");
    let open = async || Truth::open(&url, &Default::default()).await.unwrap();
    let servers = [open().await, open().await];
    let before = servers[0].position().await.unwrap();
    let error = Truth::open(&standby.url(&name), &Default::default()).await.expect_err("it follows another");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("not the truth"), "{error}");
    let load = Load::start(&servers).await;
    load.more(100).await;
    primary.crash();
    standby.promote().await;
    load.more(100).await;
    let replicas = load.end(&servers[1]).await;
    for truth in &servers {
        let after = truth.position().await.unwrap();
        assert_ne!(after.epoch, before.epoch, "it may have gone back");
        let timeline = |epoch: &str| epoch.split('-').nth(1).map(str::to_owned);
        let timelines = (timeline(&before.epoch), timeline(&after.epoch));
        assert_eq!(timelines, (Some("1".to_owned()), Some("2".to_owned())));
    }
    for replica in replicas {
        let [_, again @ ..] = &replica.reloads[..] else { panic!("it has read nothing") };
        assert!(!again.is_empty() && again.iter().all(|reason| reason.contains("gone back")), "{again:?}");
    }
}

/// A standby that need not have what is acknowledged: those who follow are ahead of it when it takes over.
#[tokio::test(flavor = "multi_thread")]
async fn a_promoted_standby_that_had_less_takes_all_who_follow_back() {
    let mut primary = PostgresServer::start(&[]);
    let (name, _) = primary.database().await;
    let standby = PostgresServer::standby_of(&primary);
    let url = format!(
        "postgres://{name}:secret@127.0.0.1:{},127.0.0.1:{}/{name}?target_session_attrs=read-write",
        primary.port(),
        standby.port(),
    );
    let open = async || Truth::open(&url, &Default::default()).await.unwrap();
    let servers = [open().await, open().await];
    let load = Load::start(&servers).await;
    load.more(50).await;
    // From here on it gets nothing.
    let client = standby.client("postgres").await;
    client.batch_execute("ALTER SYSTEM SET primary_conninfo = ''").await.unwrap();
    client.batch_execute("SELECT pg_reload_conf()").await.unwrap();
    let receivers = "SELECT count(*) FROM pg_stat_wal_receiver";
    let receives = async || client.query_one(receivers, &[]).await.unwrap().get::<_, i64>(0) > 0;
    tokio::time::timeout(SOON, async { while receives().await {} }).await.expect("it stops receiving");
    load.more(50).await;
    primary.crash();
    standby.promote().await;
    load.more(50).await;
    let (lost, replicas) = load.end_with_losses(&servers[0]).await;
    assert!(!lost.is_empty(), "the standby had all of it");
    for replica in replicas {
        let [_, again @ ..] = &replica.reloads[..] else { panic!("it has read nothing") };
        assert!(!again.is_empty() && again.iter().all(|reason| reason.contains("gone back")), "{again:?}");
    }
}
