//! Who has another window deletes nothing that others count, and what the longest promises holds.

use std::collections::VecDeque;
use std::time::Duration;

use tidegate::clock::Timestamp;
use tidegate::hot::{Edit, Recorded};
use tidegate::limit::LimitOptions;
use tidegate::store::{Declarations, PartKind};
use tidegate::testkit::unique;
use tidegate::{Cost, Key};

use super::{HOUR, clock, find, hot, open, replaced, replacing, sliding, urls};
use crate::kit::REDIS;
use crate::session_world::orders;

async fn record(hot: &tidegate::hot::Hot, page: &str, id: &str) -> Recorded {
    hot.record(&Edit::new(Key::new(page).unwrap(), id, "alice")).await.unwrap()
}

/// Everything that is stored under a namespace, without the stamps of partitions.
fn dump(namespace: &str) -> Vec<(String, Vec<u8>)> {
    let mut connection = REDIS.connection();
    let keys: Vec<String> = redis::cmd("KEYS").arg(format!("{namespace}:*")).query(&mut connection).unwrap();
    let mut all: Vec<_> = keys
        .into_iter()
        .filter(|key| !key.contains("hot:state") && !key.contains("marker"))
        .map(|key| {
            let value: Vec<u8> = redis::cmd("DUMP").arg(&key).query(&mut connection).unwrap();
            (key, value)
        })
        .collect();
    all.sort();
    all
}

/// A server with a shorter window reads less, and deletes nothing that the other counts.
#[tokio::test]
async fn a_shorter_window_deletes_nothing_of_a_longer_one() {
    for url in urls() {
        let (namespace, clock) = (unique("t"), clock());
        let long = replacing(&url, &namespace, &clock).await;
        let day = long.hot("main", hot(Duration::from_secs(86_400))).unwrap();
        long.declare().await.unwrap();
        for id in ["1", "2", "3"] {
            record(&day, "en:Tide gate", id).await;
        }
        clock.advance_ms(600_000);
        for id in ["4", "5"] {
            record(&day, "en:Weir", id).await;
        }
        clock.advance_ms(2 * HOUR);
        record(&day, "en:Weir", "6").await;

        let short = replacing(&url, &namespace, &clock).await;
        let hour = short.hot("main", hot(Duration::from_secs(3600))).unwrap();
        short.declare().await.unwrap();
        assert!(replaced(&short, "hot", "main"));
        let (gate, weir) = (Key::new("en:Tide gate").unwrap(), Key::new("en:Weir").unwrap());
        let before = (!url.contains("cluster")).then(|| dump(&namespace));
        assert!(!hour.stats(gate).await.unwrap().is_hot);
        assert!(!hour.is_hot(gate).await.unwrap());
        let stats = hour.stats(weir).await.unwrap();
        assert_eq!((stats.is_hot, stats.edits_last_hour, stats.unique_editors), (true, 1, 1));
        let list = hour.list(10).await.unwrap();
        assert_eq!(list.iter().map(|it| (it.page.as_str(), it.edits)).collect::<Vec<_>>(), [("en:Weir", 1)]);
        assert_eq!(hour.tracked().await.unwrap(), 1);
        let all = Timestamp::from_millis(0)..=Timestamp::from_millis(u64::MAX >> 20);
        assert_eq!(hour.window(weir, all.clone()).await.unwrap().len(), 1);
        if let Some(before) = before {
            assert!(before == dump(&namespace), "a read has changed something");
        }
        // Nor do its cleanups and writes.
        assert_eq!(hour.cleanup().await.unwrap(), 0);
        assert_eq!(record(&hour, "en:Weir", "7").await, Recorded::Added);
        assert_eq!(day.window(gate, all.clone()).await.unwrap().len(), 3);
        assert_eq!(day.window(weir, all.clone()).await.unwrap().len(), 4);
        let list = day.list(10).await.unwrap();
        let expected = [("en:Weir", 4), ("en:Tide gate", 3)];
        assert_eq!(list.iter().map(|it| (it.page.as_str(), it.edits)).collect::<Vec<_>>(), expected);
        assert_eq!(day.tracked().await.unwrap(), 2);

        // The old server leaves. An hour later nobody needs its window any more.
        long.shutdown().await;
        drop((day, long));
        clock.advance_ms(HOUR + 1000);
        short.declare().await.unwrap();
        assert_eq!(hour.cleanup().await.unwrap(), 2);
        assert_eq!(hour.tracked().await.unwrap(), 0);
    }
}

/// A question with settings of one's own goes by the declared window where it deletes.
#[tokio::test]
async fn who_only_reads_declarations_keeps_what_is_declared() {
    for url in urls() {
        let (namespace, clock) = (unique("t"), clock());
        let server = replacing(&url, &namespace, &clock).await;
        let day = server.hot("main", hot(Duration::from_secs(86_400))).unwrap();
        server.declare().await.unwrap();
        record(&day, "en:Weir", "1").await;
        record(&day, "en:Weir", "2").await;
        server.shutdown().await;
        // However long it is away.
        clock.advance_ms(20 * HOUR);
        let asking = open(&url, &namespace, &clock, Declarations::ReadOnly).await;
        let hour = asking.hot("main", hot(Duration::from_secs(3600))).unwrap();
        asking.declare().await.unwrap();
        assert_eq!(hour.cleanup().await.unwrap(), 0);
        assert!(hour.list(10).await.unwrap().is_empty());
        assert_eq!(
            find(&asking.declarations().await.unwrap(), PartKind::Hot, "main").settings["window_duration"],
            "1d"
        );
        let again = replacing(&url, &namespace, &clock).await;
        let day = again.hot("main", hot(Duration::from_secs(86_400))).unwrap();
        assert_eq!(day.list(10).await.unwrap().len(), 1);
    }
}

/// A window that was made shorter, or longer, finds what is due all the same.
#[tokio::test]
async fn a_changed_window_finds_what_is_due() {
    for url in urls() {
        let (namespace, clock) = (unique("t"), clock());
        let mut seconds = 3600;
        for (round, next) in [600, 86_400, 60, 3600].into_iter().enumerate() {
            let gate = replacing(&url, &namespace, &clock).await;
            let pages = gate.hot("main", hot(Duration::from_secs(seconds))).unwrap();
            gate.declare().await.unwrap();
            for page in ["a", "b", "c"] {
                record(&pages, page, &format!("{round}:1")).await;
                record(&pages, page, &format!("{round}:2")).await;
            }
            gate.shutdown().await;
            // Whoever had it before is gone for long enough.
            clock.advance_ms(HOUR + 1);
            let gate = replacing(&url, &namespace, &clock).await;
            let pages = gate.hot("main", hot(Duration::from_secs(next))).unwrap();
            gate.declare().await.unwrap();
            clock.advance_ms(HOUR + 1);
            gate.declare().await.unwrap();
            let expected = if next > 7200 { 3 } else { 0 };
            assert_eq!(pages.tracked().await.unwrap(), expected, "from {seconds} s to {next} s");
            pages.cleanup().await.unwrap();
            assert_eq!(pages.list(10).await.unwrap().len() as u64, expected);
            gate.shutdown().await;
            seconds = next;
        }
    }
}

/// Two servers with windows of 4 s and 2 s: what the longer one promises holds.
#[tokio::test]
async fn the_longest_window_holds_while_two_disagree() {
    for url in urls() {
        for seed in 0..orders(20) {
            let (namespace, clock) = (unique("t"), clock());
            let long = replacing(&url, &namespace, &clock).await;
            let short = replacing(&url, &namespace, &clock).await;
            let limits = [
                long.limit("api", sliding("50/s", 4), LimitOptions::default()).unwrap(),
                short.limit("api", sliding("50/s", 2), LimitOptions::default()).unwrap(),
            ];
            // Whichever comes first, and once more to hear of the other.
            for gate in [&long, &short, &long] {
                gate.declare().await.unwrap();
            }
            let key = Key::new("user").unwrap();
            let (mut random, mut admitted, mut most) =
                (seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1, VecDeque::new(), 0);
            let mut all = 0;
            for _ in 0..400 {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                let now = clock.now().as_millis();
                let limit = &limits[(random % 2) as usize];
                for _ in 0..random / 7 % 40 {
                    if limit.take(key, Cost::ONE).await.unwrap().is_admitted() {
                        admitted.push_back(now);
                        all += 1;
                    }
                }
                while admitted.front().is_some_and(|first| first + 4000 <= now) {
                    admitted.pop_front();
                }
                most = most.max(admitted.len());
                clock.advance_ms(random / 31 % 200);
            }
            assert!(most <= 200, "seed {seed}: {most} in 4 s where 200 are promised");
            assert!(all > 500, "seed {seed}: only {all} in 40 s");
        }
    }
}

/// A refusal on account of the longer window says when it is worth to come again.
#[tokio::test]
async fn the_wait_of_who_counts_shorter_is_exact_too() {
    let (namespace, clock) = (unique("t"), clock());
    let long = replacing(&REDIS.url(), &namespace, &clock).await;
    let short = replacing(&REDIS.url(), &namespace, &clock).await;
    let four = sliding("50/s", 4).with_coalesce(Duration::from_millis(50)).unwrap();
    let two = sliding("60/s", 2).with_coalesce(Duration::from_millis(50)).unwrap();
    let four = long.limit("api", four, LimitOptions::default()).unwrap();
    let two = short.limit("api", two, LimitOptions::default()).unwrap();
    for gate in [&long, &short, &long] {
        gate.declare().await.unwrap();
    }
    let key = Key::new("user").unwrap();
    assert!(four.take(key, Cost::new(200).unwrap()).await.unwrap().is_admitted());
    clock.advance_ms(2500);
    // By its own window all is free.
    let refused = two.take(key, Cost::ONE).await.unwrap();
    let retry_after_ms = refused.wait().expect("there is a time").retry_after_ms;
    clock.advance_ms(retry_after_ms - 1);
    assert!(!two.take(key, Cost::ONE).await.unwrap().is_admitted());
    clock.advance_ms(1);
    assert!(two.take(key, Cost::ONE).await.unwrap().is_admitted());
}
