//! Slots of a cluster that move to another server: calls follow, and know what they find.

use std::time::Duration;

use redis::Connection;
use tidegate::limit::{Limit, LimitOptions, Source};
use tidegate::store::{Declarations, StoreOptions};
use tidegate::testkit::limit::sliding;
use tidegate::testkit::{RedisCluster, RedisServer};
use tidegate::{AfterLoss, Cost, Key, Outage, Tidegate};

/// A cluster with a limit in one slot, and where that is and goes to.
struct Moving {
    cluster: RedisCluster,
    gate: Tidegate,
    limit: Limit,
    connections: Vec<Connection>,
    ids: Vec<String>,
    slot: u16,
    from: usize,
    to: usize,
}

const MARKER: &str = "{0}:tidegate:marker";

impl Moving {
    /// A limit of ten in an hour, used up.
    async fn start() -> Self {
        let cluster = RedisCluster::start();
        let mut options = StoreOptions::default();
        options.partitions = Some(1);
        options.deadline = Duration::from_secs(5);
        // Nothing in the background finds out before a call does.
        options.declarations = Declarations::ReadOnly;
        options.check_interval = Duration::from_secs(600);
        let gate = Tidegate::open_with(&cluster.url(), options).await.unwrap();
        let mut options = LimitOptions::default();
        options.outage = Outage::Closed;
        options.after_loss = AfterLoss::Hold;
        let limit = gate.limit("api", sliding(10, 3600, 60_000), options).unwrap();
        assert!(limit.take(Key::new("k").unwrap(), Cost::new(10).unwrap()).await.unwrap().is_admitted());
        let mut connections: Vec<_> = cluster.nodes().iter().map(RedisServer::connection).collect();
        let my_id = |it: &mut Connection| redis::cmd("CLUSTER").arg("MYID").query(it).unwrap();
        let ids: Vec<String> = connections.iter_mut().map(my_id).collect();
        let slot = redis::cmd("CLUSTER").arg("KEYSLOT").arg("{0}").query(&mut connections[0]).unwrap();
        let from = usize::from(slot >= 5461) + usize::from(slot >= 10_923);
        Self { cluster, gate, limit, connections, ids, slot, from, to: (from + 1) % 3 }
    }

    fn set_slot(&mut self, on: usize, state: &str, node: usize) {
        let mut command = redis::cmd("CLUSTER");
        command.arg("SETSLOT").arg(self.slot).arg(state).arg(&self.ids[node]);
        command.exec(&mut self.connections[on]).unwrap();
    }

    /// From now on it is the other server's.
    fn has_moved(&mut self) {
        for on in [self.to, self.from, 3 - self.to - self.from] {
            self.set_slot(on, "NODE", self.to);
        }
    }

    /// Its data is gone, and the other server has a marker like it, with other fields.
    fn lose_it(&mut self, changed: &[(&str, &str)]) {
        let get = &mut self.connections[self.from];
        let marker: Vec<(String, String)> = redis::cmd("HGETALL").arg(MARKER).query(get).unwrap();
        redis::cmd("FLUSHALL").exec(get).unwrap();
        self.has_moved();
        let put = &mut self.connections[self.to];
        redis::cmd("HSET").arg(MARKER).arg(&marker).arg(changed).exec(put).unwrap();
        redis::cmd("EXPIRE").arg(MARKER).arg(3600).exec(put).unwrap();
    }

    async fn take(&self, cost: u64) -> (bool, Source) {
        let decision = self.limit.take(Key::new("k").unwrap(), Cost::new(cost).unwrap()).await.unwrap();
        (decision.is_admitted(), decision.source())
    }
}

/// A slot that moves to another node takes its charges along, and calls follow.
async fn follow(it: &mut Moving) {
    it.set_slot(it.to, "IMPORTING", it.from);
    it.set_slot(it.from, "MIGRATING", it.to);
    let from = &mut it.connections[it.from];
    let keys: Vec<String> =
        redis::cmd("CLUSTER").arg("GETKEYSINSLOT").arg(it.slot).arg(100).query(from).unwrap();
    assert_eq!(keys.len(), 2, "the marker and the key: {keys:?}");
    for key in keys {
        let port = it.cluster.nodes()[it.to].port();
        redis::cmd("MIGRATE").arg("127.0.0.1").arg(port).arg(key).arg(0).arg(5000).exec(from).unwrap();
    }
    // All keys have moved, the slot has not: the old node says ASK.
    assert_eq!(it.take(1).await, (false, Source::Store), "its charges came along");
    it.has_moved();
    // Now it says MOVED: to a server of which nobody knows what it has lost.
    assert_eq!(it.take(1).await, (false, Source::Policy));
    assert_eq!(it.gate.store().status().away, [], "it was reached");
    // As if it had been the same.
    let to = &mut it.connections[it.to];
    redis::cmd("HSET").arg(MARKER).arg("lost_ms").arg(0).exec(to).unwrap();
    assert_eq!(it.take(1).await, (false, Source::Store));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_follow_a_slot_that_moves() {
    follow(&mut Moving::start().await).await;
}

/// Where servers do not know under which name they are reached (`unknown-endpoint`), they say
/// `MOVED 1234 :7002`: the host is the one that was asked. Taken at their word, nobody was there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_follow_a_slot_to_a_server_without_a_name() {
    let mut it = Moving::start().await;
    for connection in &mut it.connections {
        let mut unnamed = redis::cmd("CONFIG");
        unnamed.arg("SET").arg("cluster-preferred-endpoint-type").arg("unknown-endpoint");
        let set: redis::RedisResult<()> = unnamed.query(connection);
        // Before version 7 all of them have names.
        assert!(set.is_ok() || format!("{set:?}").contains("Unsupported CONFIG"), "{set:?}");
    }
    follow(&mut it).await;
}

/// Whoever was redirected charged the other server before its marker was read: what that
/// had lost was found seconds later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_lost_is_known_before_the_first_call_to_the_next_server() {
    let mut it = Moving::start().await;
    it.lose_it(&[("run", "another")]);
    assert_eq!(it.take(1).await, (false, Source::Policy), "held");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_with_other_partitions_is_charged_nothing() {
    let mut it = Moving::start().await;
    it.lose_it(&[("partitions", "7")]);
    assert_eq!(it.take(1).await, (false, Source::Policy));
    let keys: Vec<String> = redis::cmd("KEYS").arg("{0}*").query(&mut it.connections[it.to]).unwrap();
    assert_eq!(keys, [MARKER]);
}
