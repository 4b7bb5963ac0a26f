//! Hot pages while the store is away, and after it has forgotten.

use std::time::Duration;

use tidegate::Tidegate;
use tidegate::clock::{Timestamp, monotonic};
use tidegate::hot::{Edit, EventKind, Hot, HotOptions, Recorded};
use tidegate::testkit::{Fault, FaultProxy, RedisServer, unique};

use crate::hot::{HOUR, PROMOTED, Space, events, key, metric, options};
use crate::outage::until;

const ALL: std::ops::RangeInclusive<Timestamp> = Timestamp::from_millis(0)..=Timestamp::from_millis(u64::MAX);

async fn hot_on(url: &str) -> (Tidegate, Hot) {
    let gate = Tidegate::open(url).await.unwrap();
    let hot = gate.hot("pages", HotOptions::default()).unwrap();
    (gate, hot)
}

async fn record(hot: &Hot, page: &str, id: &str) -> Recorded {
    hot.record(&Edit::new(key(page), id, "alice")).await.unwrap()
}

/// Every read there is.
async fn reads(hot: &Hot) -> Vec<tidegate::Result<()>> {
    vec![
        hot.stats(key("p")).await.map(drop),
        hot.is_hot(key("p")).await.map(drop),
        hot.window(key("p"), ALL).await.map(drop),
        hot.list(3).await.map(drop),
        hot.tracked().await.map(drop),
        hot.cleanup().await.map(drop),
        hot.watch(None).await.map(drop),
    ]
}

/// However the store is away: edits are dropped and counted, reads say so, nobody waits
/// for longer than the deadline, and it recovers by itself with all it had.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn edits_are_dropped_and_counted_and_reads_fail_while_the_store_is_away() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.port()).await;
    let (gate, hot) = hot_on(&proxy.url()).await;
    assert_eq!(record(&hot, "p", "1").await, Recorded::Remembered);
    assert_eq!(record(&hot, "p", "2").await, PROMOTED);
    let mut watch = hot.watch(Some("0-0")).await.unwrap();
    let mut dropped = 0;
    for (turn, fault) in [Fault::Cut, Fault::Freeze, Fault::HalfOpen].into_iter().enumerate() {
        proxy.set(fault);
        until("the fault is noticed", async || {
            let is_dropped = record(&hot, "probe", "1").await == Recorded::Dropped;
            dropped += u64::from(is_dropped);
            is_dropped.then_some(())
        })
        .await;
        let started = monotonic();
        for id in ["3", "4", "5"] {
            assert_eq!(record(&hot, "p", id).await, Recorded::Dropped, "{fault:?}");
        }
        let many: Vec<_> = (0..300).map(|i| format!("m{i}")).collect();
        let edits: Vec<_> = many.iter().map(|id| Edit::new(key("p"), id, "bob")).collect();
        let recorded = hot.record_many(&edits).await.unwrap();
        assert!(recorded.len() == 300 && recorded.iter().all(|it| *it == Recorded::Dropped), "{fault:?}");
        dropped += 303;
        assert_eq!(metric(&gate, "tidegate_hot_dropped_edits_total"), dropped, "{fault:?}");
        for read in reads(&hot).await {
            assert!(read.unwrap_err().is_transient(), "{fault:?}");
        }
        // Sixteen calls of at most 100 ms; mostly they fail at once.
        assert!(started.elapsed() < Duration::from_secs(5), "{:?} with {fault:?}", started.elapsed());
        proxy.set(Fault::None);
        let id = format!("back {turn}");
        until("the store is back", async || {
            let recorded = record(&hot, "p", &id).await;
            let is_dropped = recorded == Recorded::Dropped;
            dropped += u64::from(is_dropped);
            (!is_dropped).then_some(())
        })
        .await;
        // Of the first one that was dropped nobody can say whether it arrived: the
        // others did not.
        let ids: Vec<_> = hot.window(key("p"), ALL).await.unwrap().into_iter().map(|it| it.id).collect();
        assert!(ids.contains(&"1".to_owned()) && ids.contains(&id), "{fault:?}: {ids:?}");
        assert!(!ids.iter().any(|id| id.starts_with('m')), "{fault:?}: {ids:?}");
    }
    assert_eq!(events(&mut watch, 1).await[0].kind, EventKind::Promoted, "a watch waits");
    for read in reads(&hot).await {
        read.unwrap();
    }
}

#[tokio::test]
async fn flushed_scripts_lose_nothing() {
    let server = RedisServer::start();
    let (gate, hot) = hot_on(&server.url()).await;
    let flush = || redis::cmd("SCRIPT").arg("FLUSH").exec(&mut server.connection()).unwrap();
    let ids: Vec<_> = (0..40).map(|i| format!("e{i}")).collect();
    for (turn, id) in ids.iter().enumerate() {
        flush();
        let expected = [Recorded::Remembered, PROMOTED, Recorded::Added];
        assert_eq!(record(&hot, "p", id).await, expected[turn.min(2)]);
    }
    flush();
    assert_eq!(hot.stats(key("p")).await.unwrap().edits_last_hour, 40);
    flush();
    assert_eq!(hot.window(key("p"), ALL).await.unwrap().len(), 40);
    flush();
    assert_eq!(hot.list(9).await.unwrap()[0].edits, 40);
    flush();
    let mut watch = hot.watch(Some("0-0")).await.unwrap();
    assert_eq!(events(&mut watch, 1).await[0].page, "p");
    assert_eq!(metric(&gate, "tidegate_hot_dropped_edits_total"), 0);
}

#[tokio::test]
async fn after_a_flush_of_all_data_it_starts_over() {
    let server = RedisServer::start();
    let (gate, hot) = hot_on(&server.url()).await;
    let mut watch = hot.watch(None).await.unwrap();
    for round in 0..3 {
        assert_eq!(record(&hot, "p", "1").await, Recorded::Remembered, "round {round}");
        assert_eq!(record(&hot, "p", "2").await, PROMOTED, "round {round}");
        assert_eq!(record(&hot, "once", "1").await, Recorded::Remembered, "round {round}");
        assert_eq!(hot.tracked().await.unwrap(), 1, "round {round}");
        let seen = events(&mut watch, 1 + usize::from(round > 0)).await;
        assert_eq!(seen.last().unwrap().page, "p", "round {round}: whoever watches sees it");
        assert_eq!(seen.len() > 1, seen[0].kind == EventKind::Missed, "round {round}: and what it missed");
        redis::cmd("FLUSHALL").exec(&mut server.connection()).unwrap();
        for read in reads(&hot).await {
            read.unwrap();
        }
        assert_eq!(hot.tracked().await.unwrap(), 0, "round {round}");
    }
    assert_eq!(server.keys_without_ttl(), Vec::<String>::new());
    assert_eq!(metric(&gate, "tidegate_hot_dropped_edits_total"), 0);
}

#[tokio::test]
async fn after_a_restart_of_the_store_it_starts_over() {
    let mut server = RedisServer::start();
    let (gate, hot) = hot_on(&server.url()).await;
    record(&hot, "p", "1").await;
    assert_eq!(record(&hot, "p", "2").await, PROMOTED);
    let mut watch = hot.watch(None).await.unwrap();
    server.kill();
    until("the loss is noticed", async || (record(&hot, "p", "3").await == Recorded::Dropped).then_some(()))
        .await;
    assert!(hot.tracked().await.unwrap_err().is_transient());
    server.restart();
    until("the store is back", async || (record(&hot, "p", "1").await != Recorded::Dropped).then_some(()))
        .await;
    assert_eq!(record(&hot, "p", "1").await, Recorded::Duplicate);
    assert_eq!(record(&hot, "p", "2").await, PROMOTED, "nothing is left of what was");
    let seen = events(&mut watch, 2).await;
    assert_eq!((seen[0].kind, &*seen[1].page), (EventKind::Missed, "p"));
    assert!(metric(&gate, "tidegate_hot_dropped_edits_total") > 0);
    assert_eq!(server.keys_without_ttl(), Vec::<String>::new());
}

/// All pages that an index lists may go in the same call that makes another one hot, and
/// long before indices are given their time again.
#[tokio::test]
async fn an_index_that_is_made_anew_has_its_end_at_once() {
    let server = RedisServer::start();
    let space = Space::on("redis", &server.url(), options(|_| {})).await;
    let edit = |page, id| Edit::new(key(page), id, "alice");
    space.fill(&["a".to_owned(), "b".to_owned()], 2).await;
    space.clock.advance_ms(HOUR - 30_000);
    for page in ["c", "d"] {
        assert_eq!(space.record(page, "1").await, Recorded::Remembered);
    }
    space.clock.advance_ms(30_000);
    let recorded = space.hot.record_many(&[edit("c", "2"), edit("a", "3"), edit("b", "3")]).await.unwrap();
    assert_eq!(recorded, [PROMOTED, Recorded::Remembered, Recorded::Remembered]);
    assert_eq!(server.keys_without_ttl(), Vec::<String>::new());

    for index in ["hot:rank", "hot:due"] {
        let index = format!("{}:{index}", space.namespace);
        redis::cmd("DEL").arg(index).exec(&mut server.connection()).unwrap();
        assert_eq!(space.record_at("c", &unique("late"), space.now() - 40_000).await, Recorded::Added);
        assert_eq!(server.keys_without_ttl(), Vec::<String>::new());
    }
}

/// A key of ours that somebody else has written is an error of that page alone.
#[tokio::test]
async fn a_broken_page_fails_alone_and_loses_no_other() {
    let server = RedisServer::start();
    let (_gate, hot) = hot_on(&server.url()).await;
    redis::cmd("SET")
        .arg("hot:meta:broken")
        .arg("x")
        .arg("EX")
        .arg(60)
        .exec(&mut server.connection())
        .unwrap();
    let calls = (0..40).map(|i| {
        let hot = hot.clone();
        tokio::spawn(async move {
            let page = if i % 4 == 0 { "broken".to_owned() } else { format!("p{i}") };
            (i % 4 == 0, hot.record(&Edit::new(key(&page), "1", "alice")).await)
        })
    });
    for call in calls.collect::<Vec<_>>() {
        match call.await.unwrap() {
            (true, answer) => assert!(!answer.unwrap_err().is_transient()),
            (false, answer) => assert_eq!(answer.unwrap(), Recorded::Remembered),
        }
    }
    assert_eq!(server.keys_without_ttl(), Vec::<String>::new());
}

/// A server that is there and does not answer for a while: what it was sent may be recorded,
/// and is not called dropped.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_sent_and_not_answered_is_unknown_and_who_can_wait_loses_nothing() {
    let server = RedisServer::start();
    let (gate, hot) = hot_on(&server.url()).await;
    assert_eq!(record(&hot, "p", "1").await, Recorded::Remembered);
    let pause = |ms: u32| {
        redis::cmd("CLIENT").arg("PAUSE").arg(ms).arg("ALL").exec(&mut server.connection()).unwrap();
    };
    pause(400);
    assert_eq!(record(&hot, "p", "2").await, Recorded::Unknown, "nobody knows");
    assert_eq!(metric(&gate, "tidegate_hot_unknown_edits_total"), 1);
    assert_eq!(metric(&gate, "tidegate_hot_dropped_edits_total"), 0);
    let again = until("it answers again", async || {
        let recorded = record(&hot, "p", "2").await;
        (!matches!(recorded, Recorded::Unknown | Recorded::Dropped)).then_some(recorded)
    })
    .await;
    assert!(matches!(again, Recorded::Duplicate | PROMOTED), "it was recorded or not: {again:?}");
    // Several times the deadline of a call.
    pause(700);
    let ids: Vec<_> = (0..300).map(|i| format!("m{i}")).collect();
    let edits: Vec<_> = ids.iter().map(|id| Edit::new(key("p"), id, "bob")).collect();
    let recorded = hot.record_many_within(&edits, Duration::from_secs(20)).await.unwrap();
    assert!(recorded.iter().all(|it| *it == Recorded::Added), "{recorded:?}");
}

/// One that is away takes nothing, and whoever can wait is told so at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_an_absent_store_drops_what_could_wait() {
    let mut server = RedisServer::start();
    let (gate, hot) = hot_on(&server.url()).await;
    assert_eq!(record(&hot, "p", "1").await, Recorded::Remembered);
    server.kill();
    until("the loss is noticed", async || (record(&hot, "p", "2").await == Recorded::Dropped).then_some(()))
        .await;
    let before = metric(&gate, "tidegate_hot_dropped_edits_total");
    let edits = [Edit::new(key("p"), "3", "bob"); 5];
    let started = monotonic();
    let recorded = hot.record_many_within(&edits, Duration::from_secs(600)).await.unwrap();
    assert_eq!(recorded, vec![Recorded::Dropped; 5]);
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    assert_eq!(metric(&gate, "tidegate_hot_dropped_edits_total"), before + 5);
}

/// One that others found silent is there all the same: whoever has time waits for it. It
/// was refused at once, and what it had brought was dropped.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_only_does_not_answer_for_now_is_waited_for() {
    let server = RedisServer::start();
    let (gate, hot) = hot_on(&server.url()).await;
    assert_eq!(record(&hot, "p", "1").await, Recorded::Remembered);
    server.freeze();
    until("it is taken for away", async || (record(&hot, "q", "1").await == Recorded::Dropped).then_some(()))
        .await;
    let before = metric(&gate, "tidegate_hot_dropped_edits_total");
    let edits: Vec<_> = ["2", "3", "4", "5"].map(|id| Edit::new(key("p"), id, "bob")).into();
    let recorded = hot.record_many_within(&edits, Duration::from_secs(60));
    let thawed = async {
        // Still waiting after it was found away once more.
        until("it is asked", async || (record(&hot, "q", "2").await == Recorded::Dropped).then_some(()))
            .await;
        server.thaw();
    };
    let (recorded, ()) = tokio::join!(recorded, thawed);
    assert!(!recorded.unwrap().iter().any(|it| matches!(it, Recorded::Dropped | Recorded::Unknown)));
    // Only those who did not wait.
    assert_eq!(metric(&gate, "tidegate_hot_dropped_edits_total"), before + 1);
}

/// Each count that is dropped counts as one, also of a page that is counted once for all of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_count_that_is_dropped_is_counted() {
    let mut server = RedisServer::start();
    let gate = Tidegate::open(&server.url()).await.unwrap();
    let hot = gate.hot("pages", options(|it| it.max_members_per_page = 0)).unwrap();
    hot.count(key("p"), 1).await.unwrap();
    server.kill();
    until("it is noticed", async || {
        (hot.count(key("p"), 1).await.unwrap() == Recorded::Dropped).then_some(())
    })
    .await;
    let before = metric(&gate, "tidegate_hot_dropped_edits_total");
    let counts = vec![tidegate::hot::Count::new(key("p"), 5); 10];
    assert_eq!(hot.count_many(&counts).await.unwrap(), vec![Recorded::Dropped; 10]);
    assert_eq!(metric(&gate, "tidegate_hot_dropped_edits_total"), before + 10);
}
