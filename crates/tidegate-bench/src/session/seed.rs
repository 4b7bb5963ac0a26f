//! The seed's sessions, from its document: a hash, a counter and a mapping each, found by
//! SCAN before it had an index, deleted one by one.

use anyhow::Result;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, AsyncTypedCommands as _};

use super::ours::{VALUE, broadcaster};
use crate::redis_server::RedisServer;

/// Keys asked of a SCAN at a time.
const PAGE: usize = 100;

/// Sessions written in one go.
const BATCH: usize = 1_000;

pub(super) struct Seed {
    pub(super) connection: MultiplexedConnection,
    config: &'static str,
    _server: RedisServer,
}

impl Seed {
    pub(super) async fn start(config: &'static str) -> Result<Self> {
        let server = RedisServer::start()?;
        let patient =
            AsyncConnectionConfig::new().set_response_timeout(Some(std::time::Duration::from_secs(60)));
        let client = redis::Client::open(server.url())?;
        let connection = client.get_multiplexed_async_connection_with_config(&patient).await?;
        Ok(Self { connection, config, _server: server })
    }

    /// Sessions `first` and on, left at some second or active (0).
    pub(super) async fn fill(&mut self, first: usize, count: usize, left_s: u64) -> Result<()> {
        for chunk in (first..first + count).collect::<Vec<_>>().chunks(BATCH) {
            let mut pipe = redis::pipe();
            for number in chunk {
                let (id, owner) = (id(*number), broadcaster(*number));
                pipe.cmd("HSET")
                    .arg(format!("session:{id}"))
                    .arg(&["value", VALUE, "broadcaster_user_id", &owner, "config_json", self.config])
                    .arg(&["last_disconnect", &left_s.to_string(), "last_update", "1700000000"])
                    .ignore();
                let holders = if left_s == 0 { 1 } else { 0 };
                pipe.cmd("SET").arg(format!("ref_count:{id}")).arg(holders).ignore();
                pipe.cmd("SET").arg(format!("broadcaster:{owner}")).arg(&id).ignore();
                if left_s > 0 {
                    pipe.cmd("ZADD").arg("disconnected_sessions").arg(left_s).arg(&id).ignore();
                }
            }
            pipe.exec_async(&mut self.connection).await?;
        }
        Ok(())
    }

    /// Orphans by a walk through all keys; of each page, all sessions are asked at once.
    pub(super) async fn scan(&mut self, cutoff_s: u64) -> Result<usize> {
        let (mut cursor, mut orphans) = (0_u64, 0);
        loop {
            let mut scan = redis::cmd("SCAN");
            scan.arg(cursor).arg("MATCH").arg("session:*").arg("COUNT").arg(PAGE);
            let (next, keys): (u64, Vec<String>) = scan.query_async(&mut self.connection).await?;
            if !keys.is_empty() {
                let mut pipe = redis::pipe();
                for key in &keys {
                    pipe.cmd("HGET").arg(key).arg("last_disconnect");
                }
                let left: Vec<Option<u64>> = pipe.query_async(&mut self.connection).await?;
                orphans += left.into_iter().flatten().filter(|left| (1..=cutoff_s).contains(left)).count();
            }
            cursor = next;
            if cursor == 0 {
                return Ok(orphans);
            }
        }
    }

    /// Deletes what its index says is due, one by one, each after a look at its counter.
    pub(super) async fn reap(&mut self, cutoff_s: u64) -> Result<usize> {
        let ids = self.connection.zrangebyscore("disconnected_sessions", "-inf", cutoff_s).await?;
        let mut deleted = 0;
        for id in ids {
            let held = self.connection.get(format!("ref_count:{id}")).await?;
            if held.is_some_and(|held| held != "0") {
                continue;
            }
            let owner = self.connection.hget(format!("session:{id}"), "broadcaster_user_id").await?;
            let mut pipe = redis::pipe();
            pipe.cmd("DEL").arg(format!("session:{id}")).ignore();
            pipe.cmd("DEL").arg(format!("ref_count:{id}")).ignore();
            pipe.cmd("DEL").arg(format!("broadcaster:{}", owner.unwrap_or_default())).ignore();
            pipe.cmd("ZREM").arg("disconnected_sessions").arg(&id).ignore();
            pipe.exec_async(&mut self.connection).await?;
            deleted += 1;
        }
        Ok(deleted)
    }
}

/// A UUID for each number.
fn id(number: usize) -> String {
    format!("{:08x}-5f0c-4e6b-9a3d-{:012x}", number.wrapping_mul(0x9E37_79B1) as u32, number)
}
