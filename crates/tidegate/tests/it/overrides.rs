//! Overrides between processes: whoever sets one, all that share the store judge by
//! it, also those that have never heard of overrides.

use std::time::Duration;

use tidegate::clock::{ManualClock, Timestamp};
use tidegate::limit::{Algorithm, Limit, LimitOptions, Period};
use tidegate::store::StoreOptions;
use tidegate::testkit::limit::{calendar, rate, sliding, token};
use tidegate::testkit::{RedisServer, unique};
use tidegate::{Cost, Key, Name, Tidegate};

use crate::kit::{CLUSTER, REDIS};

/// A gate of its own process, as far as anybody can tell.
async fn process(url: &str, namespace: &Name, clock: &ManualClock) -> (Tidegate, [Limit; 3]) {
    let mut options = StoreOptions::default();
    options.clock = clock.clone().into();
    options.namespace = Some(namespace.clone());
    options.deadline = Duration::from_secs(10);
    let gate = Tidegate::open_with(url, options).await.unwrap();
    let algorithms: [(&str, Algorithm); 3] = [
        ("sliding", sliding(10, 60, 600).into()),
        ("calendar", calendar(10, Period::Minute).into()),
        ("token", token("10/m", 10).into()),
    ];
    let limits =
        algorithms.map(|(name, algorithm)| gate.limit(name, algorithm, LimitOptions::default()).unwrap());
    (gate, limits)
}

async fn capacity(limit: &Limit, key: Key<'_>) -> u64 {
    limit.take(key, Cost::ONE).await.unwrap().quota().capacity
}

async fn all_processes_judge_by_it(url: &str) {
    let clock = ManualClock::at(Timestamp::from_millis(1_700_000_040_000));
    let namespace = Name::new(&unique("o")).unwrap();
    let (_, setters) = process(url, &namespace, &clock).await;
    let (gate, takers) = process(url, &namespace, &clock).await;
    for (i, (setter, taker)) in setters.iter().zip(&takers).take(2).enumerate() {
        for j in 0..20 {
            let name = format!("k{i}_{j}");
            let (key, other) = (Key::new(&name).unwrap(), Key::new("other").unwrap());
            assert_eq!(capacity(taker, key).await, 10);
            setter.set_override(key, rate("20/m"), Duration::from_secs(10)).await.unwrap();
            assert_eq!(capacity(taker, key).await, 20);
            assert_eq!(taker.peek(key).await.unwrap().quota().capacity, 20);
            assert_eq!(capacity(taker, other).await, 10);
            assert_eq!(taker.get_override(key).await.unwrap().unwrap().rate, rate("20/m"));
            if j % 2 == 0 {
                setter.clear_override(key).await.unwrap();
                assert_eq!(capacity(taker, key).await, 10);
            }
            taker.reset(other).await.unwrap();
        }
    }
    // The one that takes from several has not heard of it either.
    let key = Key::new("several").unwrap();
    setters[2].set_override(key, rate("1/m"), Duration::from_secs(10)).await.unwrap();
    let ten = Cost::new(10).unwrap();
    let all = [(&takers[2], ten), (&takers[0], Cost::ONE), (&takers[1], Cost::ONE)];
    assert!(gate.take_all(key, &all).await.unwrap().is_admitted());
    let refused = gate.take_all(key, &[(&takers[2], Cost::ONE)]).await.unwrap();
    assert_eq!(refused.retry_after_ms(), Some(60_000));
    assert_eq!(refused.refused_by().unwrap().as_str(), "token");
    clock.advance_ms(10_000);
    assert!(
        gate.take_all(key, &[(&takers[2], Cost::ONE)]).await.unwrap().is_admitted(),
        "a permit in 6 s again"
    );
}

#[tokio::test]
async fn an_override_counts_in_every_process() {
    all_processes_judge_by_it(&REDIS.url()).await;
}

#[tokio::test]
async fn an_override_counts_in_every_process_of_a_cluster() {
    all_processes_judge_by_it(&CLUSTER.url()).await;
}

/// An override ends by itself, and nothing that it governs ends before it should.
#[tokio::test]
async fn keys_of_an_override_end_and_not_too_early() {
    let server = RedisServer::start();
    let mut options = StoreOptions::default();
    options.deadline = Duration::from_secs(10);
    let gate = Tidegate::open_with(&server.url(), options).await.unwrap();
    let limit = gate.limit("api", token("10/s", 10), LimitOptions::default()).unwrap();
    let key = Key::new("k").unwrap();
    limit.set_override(key, rate("1/h"), Duration::from_secs(86_400)).await.unwrap();
    limit.take(key, Cost::new(10).unwrap()).await.unwrap();
    let ttl = |key: &str| redis::cmd("PTTL").arg(key).query::<i64>(&mut server.connection()).unwrap();
    let hour = 3_600_000;
    assert!((24 * hour..=24 * hour + 10_000).contains(&ttl("tidegate:api:override:k")));
    // Ten permits take ten hours to come back.
    let left = ttl("tidegate:api:token:k");
    assert!((10 * hour..=10 * hour + 10_000).contains(&left), "{left}");
    limit.set_override(key, rate("1/h"), Duration::from_millis(1)).await.unwrap();
    assert!((1..=10_001).contains(&ttl("tidegate:api:override:k")), "set again it ends earlier");
    limit.clear_override(key).await.unwrap();
    assert_eq!(ttl("tidegate:api:override:k"), -2, "cleared is gone");
    assert_eq!(server.keys_without_ttl(), Vec::<String>::new());
}
