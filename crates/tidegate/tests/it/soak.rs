//! Many tasks, faults all the time, and nobody ever gets too much.
//!
//! `TIDEGATE_SOAK_SECONDS` sets how long; the default keeps the suite quick.

use std::time::{Duration, Instant};

use tidegate::clock::monotonic;
use tidegate::limit::{LimitOptions, Source};
use tidegate::testkit::limit::sliding;
use tidegate::testkit::{Fault, FaultProxy, RedisServer};
use tidegate::{Cost, Key, Outage, Tidegate};

const CAPACITY: u32 = 50;

/// When a call was made and answered: it was decided in between.
type Span = (Instant, Instant);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn under_faults_no_window_holds_more_than_the_capacity() {
    let seconds =
        std::env::var("TIDEGATE_SOAK_SECONDS").map_or(5, |seconds| seconds.parse().expect("a number"));
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.port()).await;
    let end = monotonic() + Duration::from_secs(seconds);
    let mut tasks = Vec::new();
    for _ in 0..2 {
        let gate = Tidegate::open(&proxy.url()).await.unwrap();
        let mut options = LimitOptions::default();
        options.outage = Outage::Closed;
        let limit = gate.limit("api", sliding(CAPACITY, 1, 10), options).unwrap();
        for _ in 0..8 {
            let limit = limit.clone();
            tasks.push(tokio::spawn(async move {
                let (mut admitted, mut answered): (Vec<Span>, u64) = (Vec::new(), 0);
                while monotonic() < end {
                    let requested = monotonic();
                    let decision = limit.take(Key::new("k").unwrap(), Cost::ONE).await.unwrap();
                    answered += u64::from(decision.source() == Source::Store);
                    if decision.is_admitted() {
                        admitted.push((requested, monotonic()));
                    }
                    tokio::task::yield_now().await;
                }
                (admitted, answered)
            }));
        }
    }
    // Each fault lasts until something else has happened on the way.
    let faults = [Fault::Delay(Duration::from_millis(5)), Fault::Cut, Fault::Freeze, Fault::HalfOpen];
    for fault in faults.iter().cycle() {
        for setting in [Fault::None, *fault] {
            proxy.set(setting);
            tokio::time::sleep_until((monotonic() + Duration::from_millis(250)).into()).await;
        }
        proxy.set(Fault::None);
        if monotonic() >= end {
            break;
        }
    }
    let (mut spans, mut answered) = (Vec::new(), 0);
    for task in tasks {
        let (admitted, answers) = task.await.unwrap();
        spans.extend(admitted);
        answered += answers;
    }
    spans.sort_by_key(|(requested, _)| *requested);
    let window = Duration::from_secs(1);
    let fullest = (0..spans.len())
        .map(|first| {
            let start = spans[first].0;
            let inside = |(_, done): &&Span| *done <= start + window;
            spans[first..]
                .iter()
                .take_while(|(requested, _)| *requested <= start + window)
                .filter(inside)
                .count()
        })
        .max()
        .unwrap_or(0);
    println!("{} admitted, {answered} answered, fullest window {fullest} of {CAPACITY}", spans.len());
    assert!(fullest <= CAPACITY as usize, "{fullest} in one second");
    assert!(
        spans.len() >= seconds as usize * CAPACITY as usize / 4,
        "{} admitted in {seconds} s",
        spans.len()
    );
}
