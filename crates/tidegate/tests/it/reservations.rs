//! What reservations promise beside the cases of [`tidegate::testkit::limit`]: what they cost,
//! and that nobody comes between.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tidegate::clock::{ManualClock, Timestamp};
use tidegate::limit::{Algorithm, Limit, LimitOptions, OnLapse, Period, ReservationState, Reserve};
use tidegate::testkit::RedisServer;
use tidegate::testkit::limit::{calendar, sliding};
use tidegate::{Cost, Key};

use crate::kit::On;
use crate::session_world::orders;

async fn limit(on: &On, algorithm: impl Into<Algorithm>, on_lapse: OnLapse) -> Limit {
    let clock = ManualClock::at(Timestamp::from_millis(1_700_000_040_000));
    let mut options = LimitOptions::default();
    options.on_lapse = on_lapse;
    on.open(clock, 1).await.limit("api", algorithm, options).unwrap()
}

/// However many ids one key has had, they cost what the cap says: 10,000 at up to 300
/// bytes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twice_as_many_ids_stay_within_the_cap() {
    const WORKERS: u64 = 50;
    let each = orders(200_000) / WORKERS;
    let server = RedisServer::start();
    let limit = limit(&On::url(server.url()), sliding(1_000_000, 3600, 36_000), OnLapse::Spend).await;
    let key = || Key::new("user:{1}").unwrap();
    let workers: Vec<_> = (0..WORKERS)
        .map(|worker| {
            let limit = limit.clone();
            tokio::spawn(async move {
                for i in 0..each {
                    let id = format!("0f9c1c52-6c1e-4a55-9f50-{worker:03}{i:09}");
                    let lasting = Duration::from_secs(30);
                    assert!(matches!(
                        limit.reserve(key(), &id, Cost::ONE, lasting).await.unwrap(),
                        Reserve::Held(_)
                    ));
                    let ended = if i % 2 == 0 {
                        limit.commit(key(), &id).await
                    } else {
                        limit.release(key(), &id).await
                    };
                    assert!(ended.unwrap().is_some());
                }
            })
        })
        .collect();
    for worker in workers {
        worker.await.unwrap();
    }
    let committed = WORKERS * each / 2;
    assert_eq!(limit.peek(key()).await.unwrap().quota().remaining, 1_000_000 - committed);
    let mut connection = server.connection();
    let keys: Vec<String> = redis::cmd("KEYS").arg("*reservations*").query(&mut connection).unwrap();
    assert_eq!(keys.len(), 2);
    let mut bytes = 0;
    for key in &keys {
        let usage = redis::cmd("MEMORY").arg("USAGE").arg(key).arg("SAMPLES").arg("0").query(&mut connection);
        bytes += redis::RedisResult::<u64>::unwrap(usage);
    }
    let ids: u64 =
        redis::cmd("HLEN").arg(keys.iter().find(|it| !it.contains("due"))).query(&mut connection).unwrap();
    assert_eq!(ids, 10_000);
    assert!(bytes <= 300 * 10_000, "{bytes} bytes");
    assert_eq!(server.keys_without_ttl(), Vec::<String>::new());
}

/// A commit is one step: nobody else gets what is held meanwhile.
#[test]
fn a_commit_leaves_no_gap() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let hourly = calendar(10, Period::Hour);
    let limit = runtime.block_on(limit(&On::url("memory:"), hourly, OnLapse::GiveBack));
    let here = limit.in_process().unwrap();
    let ten = Cost::new(10).unwrap();
    for i in 0..1000 {
        let name = format!("k{i}");
        let key = Key::new(&name).unwrap();
        let held = runtime.block_on(limit.reserve(key, "a", ten, Duration::from_secs(1))).unwrap();
        assert!(matches!(held, Reserve::Held(_)));
        let is_done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let taker = scope.spawn(|| {
                let mut admitted = false;
                while !is_done.load(Ordering::Relaxed) {
                    admitted |= here.take(key, ten).unwrap().is_admitted();
                }
                admitted
            });
            let done = runtime.block_on(limit.commit(key, "a")).unwrap().unwrap();
            is_done.store(true, Ordering::Relaxed);
            assert_eq!(done.state, ReservationState::Committed);
            assert!(!taker.join().unwrap(), "20 of 10");
        });
    }
}
