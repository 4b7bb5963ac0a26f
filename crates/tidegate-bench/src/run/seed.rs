//! The seed's run, from its document: a hash whose field `dockets_processed` is the list of them as
//! text, read, changed by the program and written by its `ATOMIC_STATE_UPDATE_SCRIPT`.

use anyhow::Result;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Script};

use super::ours::item;
use crate::redis_server::RedisServer;

const UPDATE: &str = "
local state_key = KEYS[1]
local field = ARGV[1]
local value = ARGV[2]
local ttl = tonumber(ARGV[3])
redis.call('HSET', state_key, field, value)
redis.call('EXPIRE', state_key, ttl)
return redis.call('HGETALL', state_key)";

pub(super) struct Seed {
    pub(super) connection: MultiplexedConnection,
    update: Script,
    _server: RedisServer,
}

impl Seed {
    pub(super) async fn start() -> Result<Self> {
        let server = RedisServer::start()?;
        let patient =
            AsyncConnectionConfig::new().set_response_timeout(Some(std::time::Duration::from_secs(60)));
        let client = redis::Client::open(server.url())?;
        let connection = client.get_multiplexed_async_connection_with_config(&patient).await?;
        Ok(Self { connection, update: Script::new(UPDATE), _server: server })
    }

    /// Items up to `count`, in one go.
    pub(super) async fn fill(&mut self, run: &str, count: usize) -> Result<()> {
        let list: Vec<String> = (0..count).map(|number| format!("'{}'", item(number))).collect();
        self.write(run, &format!("[{}]", list.join(", "))).await
    }

    /// Items `first` and on, so many in one update.
    pub(super) async fn append(&mut self, run: &str, first: usize, count: usize) -> Result<()> {
        let mut command = redis::cmd("HGET");
        command.arg(key(run)).arg("dockets_processed");
        let text: Option<String> = command.query_async(&mut self.connection).await?;
        let text = text.unwrap_or_else(|| "[]".to_owned());
        let known = text.trim_matches(['[', ']']);
        let mut list: Vec<&str> = known.split(", ").filter(|item| !item.is_empty()).collect();
        let new: Vec<String> = (first..first + count).map(|number| format!("'{}'", item(number))).collect();
        list.extend(new.iter().map(String::as_str));
        self.write(run, &format!("[{}]", list.join(", "))).await
    }

    async fn write(&mut self, run: &str, list: &str) -> Result<()> {
        let mut call = self.update.prepare_invoke();
        call.key(key(run)).arg("dockets_processed").arg(list).arg(90_000);
        let _: redis::Value = call.invoke_async(&mut self.connection).await?;
        Ok(())
    }
}

fn key(run: &str) -> String {
    format!("courtlistener:pipeline:{run}")
}
