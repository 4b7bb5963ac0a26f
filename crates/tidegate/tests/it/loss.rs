//! What the bound is worth when the store forgets: flushed scripts, a restart
//! that empties it, a change of numbers.

mod load;

use std::time::Duration;

use tidegate::clock::{Clock, ManualClock, Timestamp};
use tidegate::limit::{Algorithm, Limit, LimitOptions, Period, Source, Suppressed};
use tidegate::store::{Declarations, StoreOptions};
use tidegate::testkit::limit::{calendar, sliding, token};
use tidegate::testkit::{Fault, FaultProxy, RedisServer};
use tidegate::{AfterLoss, Cost, Key, Outage, Tidegate};

use self::load::Load;
use crate::kit::CLUSTER;
use crate::outage::until;

async fn limit_on(url: &str, capacity: u32, after_loss: AfterLoss) -> Limit {
    let mut options = StoreOptions::default();
    // Nothing in the background connects before the test does.
    options.declarations = Declarations::ReadOnly;
    options.deadline = Duration::from_secs(2);
    let gate = Tidegate::open_with(url, options).await.unwrap();
    let mut options = LimitOptions::default();
    options.after_loss = after_loss;
    options.outage = Outage::Closed;
    gate.limit("api", sliding(capacity, 3600, 60_000), options).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_share_one_limit_exactly() {
    let server = RedisServer::start();
    let limits = [
        limit_on(&server.url(), 500, AfterLoss::Admit).await,
        limit_on(&server.url(), 500, AfterLoss::Admit).await,
    ];
    let load = Load::start(&limits, 3);
    load.decided(6000).await;
    assert_eq!(load.stop().await, 3 * 500);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flushed_scripts_are_no_error_and_no_wrong_answer() {
    let server = RedisServer::start();
    let limit = limit_on(&server.url(), 2000, AfterLoss::Admit).await;
    let load = Load::start(&[limit], 4);
    let mut connection = server.connection();
    for _ in 0..20 {
        load.decided(300).await;
        redis::cmd("SCRIPT").arg("FLUSH").exec(&mut connection).unwrap();
    }
    load.decided(4000).await;
    assert_eq!(load.stop().await, 4 * 2000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flushed_scripts_in_a_cluster_are_no_error_either() {
    let limit = limit_on(&CLUSTER.url(), 500, AfterLoss::Admit).await;
    let load = Load::start(&[limit], 6);
    for _ in 0..5 {
        load.decided(300).await;
        for node in CLUSTER.nodes() {
            redis::cmd("SCRIPT").arg("FLUSH").exec(&mut node.connection()).unwrap();
        }
    }
    load.decided(3000).await;
    assert_eq!(load.stop().await, 6 * 500);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_emptied_redis_admits_at_most_one_further_capacity() {
    let mut server = RedisServer::start();
    let limits = [
        limit_on(&server.url(), 300, AfterLoss::Admit).await,
        limit_on(&server.url(), 300, AfterLoss::Admit).await,
    ];
    let load = Load::start(&limits, 2);
    load.decided(3000).await;
    server.restart();
    load.decided(3000).await;
    let admitted = load.stop().await;
    assert!((2 * 300..=2 * 2 * 300).contains(&admitted), "{admitted}");
    assert_eq!(server.keys_without_ttl(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_hold_an_emptied_redis_admits_nothing_more() {
    let mut server = RedisServer::start();
    let limits = [
        limit_on(&server.url(), 300, AfterLoss::Hold).await,
        limit_on(&server.url(), 300, AfterLoss::Hold).await,
    ];
    let load = Load::start(&limits, 2);
    load.decided(3000).await;
    server.restart();
    // An outage asks to come back in a second, a hold in an hour.
    for limit in &limits {
        until("the store is back", async || {
            let held = limit.take(Key::new("probe").unwrap(), Cost::ONE).await.unwrap();
            (held.wait().unwrap().retry_after_ms > 1000).then_some(())
        })
        .await;
    }
    for limit in &limits {
        for key in ["user_0", "user_1", "new"] {
            let decision = limit.take(Key::new(key).unwrap(), Cost::ONE).await.unwrap();
            assert_eq!((decision.is_admitted(), decision.source()), (false, Source::Policy));
            let wait = decision.wait().unwrap();
            assert!(wait.retry_after_ms > 3_500_000 && wait.retry_after_ms <= 3_600_000, "{wait:?}");
        }
    }
    assert_eq!(load.stop().await, 2 * 300);
    assert_eq!(server.keys_without_ttl(), Vec::<String>::new());
}

/// FLUSHALL cuts no connection: the script itself notices that the marker is gone.
#[tokio::test]
async fn with_hold_a_flush_is_noticed_by_the_next_take_and_ends_after_one_window() {
    let server = RedisServer::start();
    let clock = ManualClock::at(Timestamp::from_millis(1_700_000_000_000));
    let mut options = StoreOptions::default();
    options.clock = clock.clone().into();
    let gate = Tidegate::open_with(&server.url(), options).await.unwrap();
    let mut options = LimitOptions::default();
    options.after_loss = AfterLoss::Hold;
    let limit = gate.limit("api", sliding(10, 60, 600), options).unwrap();
    let key = Key::new("k").unwrap();
    assert!(limit.take(key, Cost::new(10).unwrap()).await.unwrap().is_admitted());
    redis::cmd("FLUSHALL").exec(&mut server.connection()).unwrap();
    let held = limit.take(key, Cost::ONE).await.unwrap();
    assert_eq!((held.is_admitted(), held.source()), (false, Source::Policy));
    assert_eq!(held.wait().unwrap().retry_after_ms, 60_000);
    clock.advance_ms(59_999);
    assert!(!limit.take(key, Cost::ONE).await.unwrap().is_admitted());
    clock.advance_ms(1);
    assert!(limit.take(key, Cost::ONE).await.unwrap().is_admitted());
    assert_eq!(server.keys_without_ttl(), Vec::<String>::new());
}

/// Every algorithm holds for as long as what was lost could have counted.
#[tokio::test]
async fn with_hold_every_algorithm_refuses_for_a_window_after_a_flush() {
    let server = RedisServer::start();
    let clock = ManualClock::at(Timestamp::from_millis(1_700_000_040_000));
    let mut options = StoreOptions::default();
    options.clock = clock.clone().into();
    options.deadline = Duration::from_secs(10);
    let gate = Tidegate::open_with(&server.url(), options).await.unwrap();
    let mut options = LimitOptions::default();
    options.after_loss = AfterLoss::Hold;
    let suppressed = Suppressed::new(sliding(10, 60, 600), 1.5).unwrap();
    // A calendar limit until the end of the window in which something was lost.
    let limits: [(&str, Algorithm, u64); 6] = [
        ("sliding", sliding(10, 60, 600).into(), 60_000),
        ("token", token("3/s", 10).into(), 3334),
        ("minute", calendar(10, Period::Minute).into(), 60_000),
        ("hour", calendar(10, Period::Hour).into(), 3_600_000),
        ("suppressed", suppressed.into(), 60_000),
        ("smooth", Suppressed::smooth(sliding(10, 60, 600)).into(), 60_000),
    ];
    let key = Key::new("k").unwrap();
    for (name, algorithm, held_ms) in limits {
        let limit = gate.limit(name, algorithm, options.clone()).unwrap();
        let carefree = gate.limit(&format!("{name}-admit"), algorithm, LimitOptions::default()).unwrap();
        assert!(limit.take(key, Cost::ONE).await.unwrap().is_admitted());
        redis::cmd("FLUSHALL").exec(&mut server.connection()).unwrap();
        let held_ms = match algorithm {
            Algorithm::Calendar(_) => held_ms - clock.now().as_millis() % held_ms,
            _ => held_ms,
        };
        let held = limit.take(key, Cost::ONE).await.unwrap();
        assert_eq!((held.is_admitted(), held.source()), (false, Source::Policy), "{name}");
        assert_eq!(held.wait().unwrap().retry_after_ms, held_ms, "{name}");
        assert_eq!(limit.peek(key).await.unwrap(), held, "{name}");
        // Who holds, holds for all; who does not is not asked.
        let both = gate.take_all(key, &[(&carefree, Cost::ONE), (&limit, Cost::ONE)]).await.unwrap();
        assert_eq!(both.refused_by().unwrap().as_str(), name);
        assert_eq!(both.retry_after_ms(), Some(held_ms));
        assert!(carefree.take(key, Cost::ONE).await.unwrap().is_admitted());
        assert_eq!(carefree.peek(key).await.unwrap().quota().remaining, 9, "{name}: charged once");
        clock.advance_ms(held_ms - 1);
        assert!(!limit.take(key, Cost::ONE).await.unwrap().is_admitted(), "{name}");
        clock.advance_ms(1);
        assert!(limit.take(key, Cost::ONE).await.unwrap().is_admitted(), "{name}");
        assert_eq!(server.keys_without_ttl(), Vec::<String>::new());
        // By then nobody minds that loss any more, and no window begins.
        clock.advance_ms(3_600_000 + 1234);
    }
}

/// A restart that brought old data back has lost what came after it.
#[tokio::test]
async fn with_hold_a_server_that_is_not_the_one_that_was_counts_as_a_loss() {
    let server = RedisServer::start();
    let key = Key::new("k").unwrap();
    let limit = limit_on(&server.url(), 10, AfterLoss::Hold).await;
    assert!(limit.take(key, Cost::ONE).await.unwrap().is_admitted());
    let mut connection = server.connection();
    redis::cmd("HSET").arg("tidegate:marker").arg("run").arg("another").exec(&mut connection).unwrap();
    let after = limit_on(&server.url(), 10, AfterLoss::Hold).await;
    assert!(!after.take(key, Cost::ONE).await.unwrap().is_admitted());
}

/// Nodes with another grid, as during a rollout, never admit more than the
/// capacity together, whichever comes first.
#[tokio::test]
async fn a_changed_grid_keeps_the_bound() {
    let server = RedisServer::start();
    let clock = ManualClock::at(Timestamp::from_millis(1_700_000_000_000));
    let open = async |coalesce_ms| {
        let mut options = StoreOptions::default();
        options.clock = clock.clone().into();
        let gate = Tidegate::open_with(&server.url(), options).await.unwrap();
        gate.limit("api", sliding(10, 60, coalesce_ms), LimitOptions::default()).unwrap()
    };
    let (old, new) = (open(600).await, open(7000).await);
    let key = Key::new("k").unwrap();
    let mut receipts = Vec::new();
    let mut admitted = 0;
    for turn in 0..40 {
        clock.advance_ms(731);
        let limit = if turn % 3 == 0 { &new } else { &old };
        let decision = limit.take(key, Cost::ONE).await.unwrap();
        admitted += u64::from(decision.is_admitted());
        receipts.extend(decision.receipt());
    }
    assert_eq!(admitted, 10);
    assert_eq!(old.refund(key, receipts[0]).await.unwrap(), 0, "receipts from before are void");
    clock.advance_ms(2 * 67_000);
    assert_eq!(new.peek(key).await.unwrap().quota().remaining, 10);
}

/// Redis restarts empty, and somebody new is the first to connect: those who
/// knew the old one still notice.
#[tokio::test]
async fn with_hold_a_loss_is_noticed_whoever_connects_first() {
    let mut server = RedisServer::start();
    let key = Key::new("k").unwrap();
    let proxy = FaultProxy::start(server.port()).await;
    let old = limit_on(&proxy.url(), 10, AfterLoss::Hold).await;
    assert!(old.take(key, Cost::new(10).unwrap()).await.unwrap().is_admitted());
    // Who knew it would be back first.
    proxy.set(Fault::Cut);
    server.restart();
    let new = limit_on(&server.url(), 10, AfterLoss::Hold).await;
    assert!(new.take(key, Cost::ONE).await.unwrap().is_admitted(), "it cannot know of what it never saw");
    proxy.set(Fault::None);
    until("the old one is back", async || {
        let decision = old.take(key, Cost::ONE).await.unwrap();
        assert!(!decision.is_admitted());
        (decision.wait().unwrap().retry_after_ms > 1000).then_some(())
    })
    .await;
    assert!(!new.take(key, Cost::ONE).await.unwrap().is_admitted(), "now both know");
}

/// A flush is one loss: neither a reconnect nor a renewal of the marker makes
/// another of it, and the marker is whole again.
#[tokio::test]
async fn with_hold_a_flush_is_one_loss() {
    let server = RedisServer::start();
    let clock = ManualClock::at(Timestamp::from_millis(1_700_000_000_000));
    let open = async || {
        let mut options = StoreOptions::default();
        options.clock = clock.clone().into();
        let gate = Tidegate::open_with(&server.url(), options).await.unwrap();
        let mut options = LimitOptions::default();
        options.after_loss = AfterLoss::Hold;
        (gate.clone(), gate.limit("api", sliding(10, 60, 600), options).unwrap())
    };
    let (gate, limit) = open().await;
    let key = Key::new("k").unwrap();
    assert!(limit.take(key, Cost::ONE).await.unwrap().is_admitted());
    let mut connection = server.connection();
    redis::cmd("FLUSHALL").exec(&mut connection).unwrap();
    let held = limit.peek(key).await.unwrap();
    assert_eq!((held.is_admitted(), held.source()), (false, Source::Policy), "a peek says what a take would");
    assert_eq!(limit.take(key, Cost::ONE).await.unwrap(), held);
    clock.advance_ms(30_000);
    redis::cmd("CLIENT").arg("KILL").arg("TYPE").arg("normal").exec(&mut connection).ok();
    until("it is connected again", async || gate.store().check().is_ok().then_some(())).await;
    let (_, other) = open().await;
    for limit in [&limit, &other] {
        let wait = until("it is held", async || {
            limit.take(key, Cost::ONE).await.unwrap().wait().filter(|wait| wait.retry_after_ms > 1000)
        })
        .await;
        assert_eq!(wait.retry_after_ms, 30_000, "not a window more");
    }
    clock.advance_ms(30_000);
    assert!(limit.take(key, Cost::ONE).await.unwrap().is_admitted());
    let partitions: Option<u32> =
        redis::cmd("HGET").arg("tidegate:marker").arg("partitions").query(&mut server.connection()).unwrap();
    assert_eq!(partitions, Some(1));
}

/// A loss that was stamped by a clock far ahead must not hold for years.
#[tokio::test]
async fn with_hold_a_wrong_clock_holds_for_one_window_only() {
    let server = RedisServer::start();
    let limit = limit_on(&server.url(), 10, AfterLoss::Hold).await;
    let mut connection = server.connection();
    let future = 4_000_000_000_000_u64;
    redis::cmd("HSET").arg("tidegate:marker").arg("lost_ms").arg(future).exec(&mut connection).unwrap();
    let held = limit.take(Key::new("k").unwrap(), Cost::ONE).await.unwrap();
    assert_eq!(held.wait().unwrap().retry_after_ms, 3_600_000);
}

/// A cluster node that comes back empty is a loss of its own partitions only.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_hold_an_emptied_node_of_a_cluster_is_held() {
    let cluster = tidegate::testkit::RedisCluster::start();
    let limit = limit_on(&cluster.url(), 10, AfterLoss::Hold).await;
    let keys: Vec<_> = (0..60).map(|i| format!("user_{i}")).collect();
    for key in &keys {
        assert!(limit.take(Key::new(key).unwrap(), Cost::new(10).unwrap()).await.unwrap().is_admitted());
    }
    redis::cmd("FLUSHALL").exec(&mut cluster.nodes()[0].connection()).unwrap();
    let mut held = 0;
    for key in &keys {
        let decision = limit.take(Key::new(key).unwrap(), Cost::ONE).await.unwrap();
        assert!(!decision.is_admitted());
        held += u32::from(decision.source() == Source::Policy);
    }
    assert!((5..55).contains(&held), "{held} of 60 keys are on the node that forgot");
    assert_eq!(cluster.keys_without_ttl(), Vec::<String>::new());
}

/// A limit that holds after a loss, on a store that is looked at often.
async fn held_limit_on(server: &RedisServer) -> (Tidegate, Limit) {
    let mut options = StoreOptions::default();
    options.declarations = Declarations::ReadOnly;
    options.deadline = Duration::from_secs(10);
    options.check_interval = Duration::from_millis(50);
    let gate = Tidegate::open_with(&server.url(), options).await.unwrap();
    let mut options = LimitOptions::default();
    options.after_loss = AfterLoss::Hold;
    options.outage = Outage::Closed;
    let limit = gate.limit("api", sliding(10, 3600, 60_000), options).unwrap();
    (gate, limit)
}

/// Somebody flushes, and before those who knew the store look again, somebody new makes its
/// marker: as if nothing had been there. Those who knew it notice, once for all of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_hold_a_flush_is_noticed_though_the_marker_was_made_anew() {
    // As a program makes it that gives markers no id, too.
    for has_id in [true, false] {
        let server = RedisServer::start();
        let open = async || held_limit_on(&server).await;
        let knew = [open().await, open().await];
        let key = Key::new("k").unwrap();
        let ten = Cost::new(10).unwrap();
        assert!(knew[0].1.take(key, ten).await.unwrap().is_admitted());
        // What somebody new writes.
        let mut connection = server.connection();
        let get = |connection: &mut redis::Connection, field: &str| -> String {
            redis::cmd("HGET").arg("tidegate:marker").arg(field).query(connection).unwrap()
        };
        let mut made = redis::cmd("HSET");
        made.arg("tidegate:marker").arg("lost_ms").arg(0).arg("secret").arg(format!("{:032x}", 7));
        for field in ["partitions", "hash", "run"] {
            made.arg(field).arg(get(&mut connection, field));
        }
        if has_id {
            made.arg("id").arg("another");
        }
        let mut both = redis::pipe();
        both.atomic().cmd("FLUSHALL").add_command(made).exec(&mut connection).unwrap();
        let (_, new) = open().await;
        for limit in [&knew[0].1, &knew[1].1, &new] {
            until("it is held", async || {
                let decision = limit.take(key, Cost::ONE).await.unwrap();
                let is_held = decision.source() == Source::Policy
                    && decision.wait().is_some_and(|wait| wait.retry_after_ms > 1000);
                is_held.then_some(())
            })
            .await;
        }
        let lost_ms = get(&mut connection, "lost_ms");
        assert_ne!(lost_ms, "0");
        let checks = |connection: &mut redis::Connection| {
            let info: String = redis::cmd("INFO").arg("commandstats").query(connection).unwrap();
            let calls = info.lines().find_map(|line| line.strip_prefix("cmdstat_pexpire:calls="));
            calls.and_then(|calls| calls.split(',').next()?.parse::<u64>().ok()).unwrap()
        };
        let before = checks(&mut connection);
        until("all have looked again", async || (checks(&mut connection) >= before + 12).then_some(())).await;
        assert_eq!(get(&mut connection, "lost_ms"), lost_ms, "found once");
        let losses = |gate: &Tidegate| {
            let text = gate.metrics();
            let count = text.lines().find_map(|line| line.strip_prefix("tidegate_store_losses_total "));
            count.unwrap().parse::<u64>().unwrap()
        };
        assert_eq!(losses(&knew[0].0) + losses(&knew[1].0), 1);
    }
}

/// A server that comes back with an older copy of its data, from before its marker had an id
/// or with another one, and from after an earlier loss: this one is another, and holds anew.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_hold_an_old_copy_that_remembers_an_earlier_loss_is_held_anew() {
    for has_id in [false, true] {
        let server = RedisServer::start();
        let (gate, limit) = held_limit_on(&server).await;
        let key = Key::new("k").unwrap();
        assert!(limit.take(key, Cost::ONE).await.unwrap().is_admitted());
        let mut connection = server.connection();
        // As a copy of three days ago has it: a loss then, and a run that is not this one.
        let long_ago = Clock::system().now().as_millis() - 3 * 86_400_000;
        let (run, id) = ("a".repeat(40), if has_id { "an-older-one" } else { "" });
        let mut copy = redis::pipe();
        copy.atomic().cmd("HSET").arg("tidegate:marker").arg("lost_ms").arg(long_ago).arg("run").arg(&run);
        copy.cmd("HDEL").arg("tidegate:marker").arg("lost_run").arg("lost_id");
        match id {
            "" => copy.cmd("HDEL").arg("tidegate:marker").arg("id"),
            id => copy.cmd("HSET").arg("tidegate:marker").arg("id").arg(id),
        };
        copy.exec(&mut connection).unwrap();
        until("it is held", async || {
            (limit.take(key, Cost::ONE).await.unwrap().source() == Source::Policy).then_some(())
        })
        .await;
        let lost_ms: u64 =
            redis::cmd("HGET").arg("tidegate:marker").arg("lost_ms").query(&mut connection).unwrap();
        assert!(lost_ms > long_ago + 86_400_000, "{lost_ms}");
        drop(gate);
    }
}

/// After a flush, whoever comes first makes a secret, and it is the one that counts for all
/// within a few seconds: receipts of one server are read by the others.
#[tokio::test]
async fn receipts_are_read_by_all_soon_after_somebody_new_has_made_the_marker() {
    let server = RedisServer::start();
    let open = async || {
        let mut options = StoreOptions::default();
        options.declarations = Declarations::ReadOnly;
        options.deadline = Duration::from_secs(10);
        options.check_interval = Duration::from_millis(50);
        let gate = Tidegate::open_with(&server.url(), options).await.unwrap();
        gate.limit("api", sliding(1000, 3600, 60_000), LimitOptions::default()).unwrap()
    };
    let old = open().await;
    let mut made = redis::cmd("HSET");
    made.arg("tidegate:marker").arg("secret").arg(format!("{:032x}", 7));
    let mut both = redis::pipe();
    both.atomic().cmd("FLUSHALL").add_command(made).exec(&mut server.connection()).unwrap();
    let new = open().await;
    let key = Key::new("k").unwrap();
    until("they agree", async || {
        let receipt = old.take(key, Cost::ONE).await.unwrap().receipt().unwrap();
        let text = old.receipt_text(key, receipt).unwrap();
        new.read_receipt(key, &text.to_string()).ok()
    })
    .await;
    let receipt = new.take(key, Cost::ONE).await.unwrap().receipt().unwrap();
    assert_eq!(old.read_receipt(key, &new.receipt_text(key, receipt).unwrap().to_string()).unwrap(), receipt);
}
