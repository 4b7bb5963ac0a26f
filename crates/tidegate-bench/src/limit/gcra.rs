//! The bare GCRA script, called the plain way: one EVALSHA per take, through one
//! connection that all tasks share.

use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use redis::AsyncConnectionConfig;
use redis::aio::MultiplexedConnection;

use super::takers::{DEADLINE, Taker};

const SCRIPT: &str = include_str!("gcra.lua");

/// A limit of a million permits a second with a burst of as many.
#[derive(Clone)]
pub(super) struct Gcra {
    connection: MultiplexedConnection,
    sha: Arc<str>,
    keys: Arc<[String]>,
}

impl Gcra {
    pub(super) async fn open(url: &str, keys: &[String]) -> Result<Self> {
        let client = redis::Client::open(url)?;
        let config = AsyncConnectionConfig::new().set_response_timeout(Some(DEADLINE));
        let mut connection = client.get_multiplexed_async_connection_with_config(&config).await?;
        let sha: String = redis::cmd("SCRIPT")
            .arg("LOAD")
            .arg(SCRIPT)
            .query_async(&mut connection)
            .await
            .context("the GCRA script")?;
        let keys = keys.iter().map(|key| format!("gcra:{key}")).collect();
        Ok(Self { connection, sha: sha.into(), keys })
    }
}

impl Taker for Gcra {
    async fn take(&self, at: usize) -> Result<()> {
        let mut connection = self.connection.clone();
        let (admitted, left): (u8, u64) = redis::cmd("EVALSHA")
            .arg(&*self.sha)
            .arg(1)
            .arg(&self.keys[at])
            .arg(1)
            .arg(1_000_000)
            .arg(1)
            .query_async(&mut connection)
            .await?;
        ensure!(admitted == 1, "the GCRA script refused: wait {left} ms");
        Ok(())
    }
}
