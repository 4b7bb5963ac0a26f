//! Eight nodes that gather, each behind a proxy that loses, delays and cuts at random: in the end each count is there once.

use std::time::Duration;

use tidegate::Tidegate;
use tidegate::hot::{Hot, HotOptions, Recorded};
use tidegate::random::Random;
use tidegate::store::StoreOptions;
use tidegate::testkit::{Fault, FaultProxy, RedisServer};

use crate::hot::{key, options};
use crate::outage::until;

const NODES: u64 = 8;

struct Node {
    proxy: FaultProxy,
    _gate: Tidegate,
    hot: Hot,
    counted: u64,
}

fn gathering() -> HotOptions {
    // Only a flush that is asked for sends them.
    let gather = Duration::from_secs(60);
    options(|it| (it.max_members_per_page, it.hot_threshold, it.partitions, it.gather) = (0, 1, 2, gather))
}

impl Node {
    async fn behind_a_proxy(server: &RedisServer) -> Self {
        let proxy = FaultProxy::start(server.port()).await;
        let mut store = StoreOptions::default();
        // Whatever is lost is soon sent again.
        store.deadline = Duration::from_millis(20);
        let gate = Tidegate::open_with(&proxy.url(), store).await.unwrap();
        let hot = gate.hot("pages", gathering()).unwrap();
        Self { proxy, _gate: gate, hot, counted: 0 }
    }

    async fn count(&mut self, page: &str, count: u64) {
        assert_eq!(self.hot.count(key(page), count).await.unwrap(), Recorded::Gathered);
        self.counted += count;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_is_lost_delayed_or_cut_each_count_is_there_once() {
    let seeds = if std::env::var_os("TIDEGATE_LONG").is_some() { 30 } else { 2 };
    for seed in 1..=seeds {
        let random = Random::seeded(seed);
        let server = RedisServer::start();
        let mut nodes = Vec::new();
        for _ in 0..NODES {
            nodes.push(Node::behind_a_proxy(&server).await);
        }
        for _ in 0..12 {
            for (number, node) in nodes.iter_mut().enumerate() {
                let (drawn, count) = (random.bits() % 10, 1 + random.bits() % 5);
                let fault = match drawn {
                    0..4 => Fault::SwallowAnswers,
                    4 => Fault::Freeze,
                    5 => Fault::HalfOpen,
                    6 => Fault::Cut,
                    _ => Fault::None,
                };
                node.proxy.set(fault);
                if drawn >= 8 {
                    node.proxy.close_connections();
                }
                node.count("shared", count).await;
                node.count(&format!("of {number}"), count).await;
            }
            // Two at a time of each: who comes second finds what the first could not send.
            let flushes = nodes.iter().chain(&nodes).map(|node| node.hot.flush());
            futures_util::future::join_all(flushes).await;
        }
        for node in &nodes {
            node.proxy.set(Fault::None);
            node.proxy.close_connections();
        }
        for node in &nodes {
            until("all of it is sent", async || node.hot.flush().await.ok()).await;
        }
        let gate = Tidegate::open(&server.url()).await.unwrap();
        let looking = gate.hot("pages", gathering().gather(Duration::ZERO)).unwrap();
        let mut all = 0;
        for (number, node) in nodes.iter().enumerate() {
            all += node.counted / 2;
            let stats = looking.stats(key(&format!("of {number}"))).await.unwrap();
            assert_eq!(stats.total_edits, node.counted / 2, "seed {seed}: of {number}");
        }
        assert_eq!(looking.stats(key("shared")).await.unwrap().total_edits, all, "seed {seed}");
        assert_eq!(server.keys_without_ttl(), Vec::<String>::new());
    }
}
