//! What is bounded of runs beside what is set, and what is told of a call that was done in part.

use std::time::Duration;

use redis::Commands as _;
use tidegate::run::{Answer, Hour, Interruption, QuotaOptions, Refusal, RunState, Runs};
use tidegate::testkit::{Fault, FaultProxy, RedisServer};
use tidegate::{Cost, Cursor};

use crate::kit::REDIS;
use crate::outage::until;
use crate::run::{HOUR_MS, START_MS, Space, key, keys, open, options};

/// The latest of an hour and a partition are listed, and no more.
const MAX_HOUR: usize = 100_000;

/// All failures of an hour, as they are listed.
async fn all_in_hour(runs: &Runs, hour: Hour) -> Vec<(String, String)> {
    let (mut all, mut after) = (Vec::new(), None::<Cursor>);
    loop {
        let page = runs.failures_in_hour(hour, after.as_ref(), 1000).await.unwrap();
        all.extend(page.items.into_iter().map(|it| (it.run, it.failure.item)));
        match page.next {
            Some(next) => after = Some(next),
            None => return all,
        }
    }
}

#[tokio::test]
async fn an_hour_in_this_process_lists_the_latest_hundred_thousand() {
    let space = Space::on("memory", "memory:", |it| it.max_failures = 60_000).await;
    let hour = Hour::of(space.clock.now());
    for run in ["a", "b"] {
        space.start(run).await;
        for number in 0..MAX_HOUR / 2 + 1 {
            let item = format!("{number:06}");
            let noted = space.runs.failed(key(run), None, key(&item), "", key("1")).await.unwrap();
            assert!(noted.into_result().unwrap().is_new);
        }
        space.clock.advance_ms(1);
    }
    let listed = all_in_hour(&space.runs, hour).await;
    assert_eq!(listed.len(), MAX_HOUR);
    assert_eq!(listed[0], ("b".to_owned(), "050000".to_owned()), "the latest first");
    assert_eq!(
        listed[MAX_HOUR - 1],
        ("a".to_owned(), "000002".to_owned()),
        "the first two are listed no more"
    );
    // They failed all the same.
    let first = space.runs.failures(key("a"), None, 1000).await.unwrap().into_result().unwrap();
    assert_eq!(first.items.len(), 1000);
    assert_eq!(space.runs.progress(key("a")).await.unwrap().into_result().unwrap().failed, 50_001);
    // One that fails again is listed once, and the next hour has room of its own.
    space.clock.advance_ms(HOUR_MS);
    let _ = space.runs.failed(key("b"), None, key("050000"), "", key("2")).await.unwrap();
    assert_eq!(all_in_hour(&space.runs, hour).await.len(), MAX_HOUR - 1);
    assert_eq!(all_in_hour(&space.runs, Hour::of(space.clock.now())).await.len(), 1);
}

/// The index is filled by hand, which takes less time than a hundred thousand calls.
#[tokio::test]
async fn an_hour_on_redis_lists_the_latest_hundred_thousand() {
    let space = Space::on("redis", &REDIS.url(), |_| {}).await;
    space.start("r").await;
    let fail = async |item: &str| {
        let noted = space.runs.failed(key("r"), None, key(item), "", key("1")).await.unwrap();
        assert!(noted.into_result().unwrap().is_new);
    };
    fail("first").await;
    let hour = Hour::of(space.clock.now());
    let index = format!("{}:courtlistener:failed:{hour}", space.namespace);
    let mut redis = REDIS.connection();
    let count: usize = redis.zcard(&index).unwrap();
    assert_eq!(count, 1, "{index}");
    let script = "for i = 1, tonumber(ARGV[1]) do redis.call('ZADD', KEYS[1], ARGV[2], '1:x' .. i) end";
    let () = redis::Script::new(script)
        .key(&index)
        .arg(MAX_HOUR - 1)
        .arg(START_MS + 1)
        .invoke(&mut redis)
        .unwrap();
    assert_eq!(all_in_hour(&space.runs, hour).await, [("r".to_owned(), "first".to_owned())]);
    space.clock.advance_ms(10);
    // Full: each that comes takes the place of the oldest.
    for (item, listed) in [("second", vec!["second"]), ("third", vec!["third", "second"])] {
        fail(item).await;
        let count: usize = redis.zcard(&index).unwrap();
        assert_eq!(count, MAX_HOUR);
        let found: Vec<_> = all_in_hour(&space.runs, hour).await.into_iter().map(|(_, item)| item).collect();
        assert_eq!(found, listed);
    }
    let ttl: i64 = redis.pttl(&index).unwrap();
    assert!(ttl > 0, "{ttl}");
    // One that is listed and fails again keeps its place in the count, and drops nobody.
    let oldest = |redis: &mut redis::Connection| -> Vec<String> { redis.zrange(&index, 0, 0).unwrap() };
    let before = oldest(&mut redis);
    let _ = space.runs.failed(key("r"), None, key("third"), "", key("2")).await.unwrap();
    assert_eq!(oldest(&mut redis), before);
}

/// Ten scripts, and the run is ended, retried or deleted after some of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_ends_amid_many_items_says_how_many_were_added() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.port()).await;
    let (slow, direct) = (open(&proxy.url(), "", None).await, open(&server.url(), "", None).await);
    let slow = slow.runs("main", options(|_| {})).unwrap();
    let direct = direct.runs("main", options(|_| {})).unwrap();
    for case in ["ended", "stale", "unknown"] {
        let (run, items) = (key(case), (0..10_000).map(|number| number.to_string()).collect::<Vec<_>>());
        let attempt = direct.start(run).await.unwrap().into_result().unwrap().attempt;
        // Some were processed before: they are not among those that are told.
        let _ = direct.processed(run, None, &keys(&items[..10])).await.unwrap();
        let count = async || direct.progress(run).await.unwrap().into_result().unwrap().processed;
        proxy.set(Fault::Delay(Duration::from_millis(50)));
        let adding = {
            let (slow, items) = (slow.clone(), items.clone());
            tokio::spawn(
                async move { slow.processed(key(case), Some(attempt), &keys(&items)).await.unwrap() },
            )
        };
        until("the first script has run", async || (count().await > 10).then_some(())).await;
        proxy.set(Fault::Freeze);
        let _ = direct.finish(run, None, RunState::Cancelled).await.unwrap();
        let added = count().await - 10;
        let by = match case {
            "ended" => Interruption::Ended { state: RunState::Cancelled, attempt },
            "stale" => {
                let next = direct.retry(run, attempt).await.unwrap().into_result().unwrap().attempt;
                Interruption::Stale { current: next }
            }
            _ => {
                let _ = direct.delete(run, None).await.unwrap();
                Interruption::Unknown
            }
        };
        proxy.set(Fault::None);
        let answer = adding.await.unwrap();
        assert_eq!(answer, Answer::Refused(Refusal::Interrupted { taken: added, by }), "{case}");
        assert!((990..9990).contains(&added), "{added}");
        let Answer::Refused(refusal) = answer else { unreachable!() };
        assert_eq!(refusal.as_str(), case);
        assert!(
            refusal.to_string().ends_with(&format!("; {added} of these items were added before")),
            "{refusal}"
        );
    }
    // What is refused at once has added nothing.
    let refused = slow.processed(key("ended"), None, &keys(&["x".to_owned()])).await.unwrap();
    assert!(matches!(refused, Answer::Refused(Refusal::Ended { .. })), "{refused:?}");
}

/// By family, also of those whose limits nobody else can open.
#[tokio::test]
async fn what_is_charged_to_quotas_is_counted() {
    let gate = open("memory:", "", None).await;
    for prefix in ["courtlistener", "other"] {
        let quota = gate.quota(QuotaOptions::new().prefix(prefix.to_owned()).limit(35)).unwrap();
        let charge = async |cost, id| quota.charge(Cost::new(cost).unwrap(), Some(id)).await.unwrap();
        assert!(charge(4, "a").await.is_admitted());
        // Sent again it is counted once.
        assert!(charge(4, "a").await.is_admitted());
        assert!(!charge(7, "b").await.is_admitted());
        assert!(charge(1, "c").await.is_admitted());
        let metrics = gate.metrics();
        for line in [
            format!("tidegate_run_quota_charged_total{{prefix=\"{prefix}\"}} 5"),
            format!("tidegate_run_quota_refused_total{{prefix=\"{prefix}\"}} 1"),
            format!("tidegate_run_quota_remaining{{prefix=\"{prefix}\"}} 5"),
        ] {
            assert!(metrics.lines().any(|found| found == line), "{line} in\n{metrics}");
        }
    }
}
