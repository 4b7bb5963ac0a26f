//! The files to start from, on a real Redis: the keys that they write.

use std::path::PathBuf;
use std::sync::LazyLock;

use tidegate::clock::Timestamp;
use tidegate::testkit::RedisServer;
use tidegate_server::settings::{Settings, Sources};

use crate::support::Fixture;

static REDIS: LazyLock<RedisServer> = LazyLock::new(RedisServer::start);

/// 2024-09-17 14:30 UTC.
const HALF_PAST_TWO: Timestamp = Timestamp::from_millis(1_726_583_400_000);

fn prod() -> Settings {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../config/prod.yaml");
    Settings::load(&Sources { file: Some(file), ..Sources::default() }).unwrap()
}

#[tokio::test]
async fn the_hourly_limit_of_the_pipeline_writes_the_pipelines_key() {
    let f = Fixture::of(&REDIS.url(), &prod(), HALF_PAST_TWO).await;
    let taken = f.post("/v1/limits/rate_limit/take", r#"{"cost":1247}"#).await;
    assert_eq!(taken.status, 200, "{taken:?}");
    assert_eq!(taken.header("ratelimit"), Some(r#""rate_limit";r=3728;t=1800"#));
    let mut connection = REDIS.connection();
    let mut query = |command: &str| {
        let key = "courtlistener:rate_limit:2024-09-17_14";
        redis::cmd(command).arg(key).query::<String>(&mut connection).unwrap()
    };
    assert_eq!((query("TYPE").as_str(), query("GET").as_str()), ("string", "1247"));
    assert_eq!(REDIS.keys_without_ttl(), Vec::<String>::new());
}
