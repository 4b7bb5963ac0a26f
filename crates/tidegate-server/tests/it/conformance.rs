//! The suites of the library's test kit, through the HTTP API: what a caller gets in JSON is what the library
//! and the models say, field by field. A file per room: its face over HTTP.

mod hot;
mod limit;
mod run;
mod session;

use std::sync::LazyLock;

use axum::http::StatusCode;
use serde_json::{Map, Value};
use tidegate::testkit::{self, RedisCluster, RedisServer};
use tidegate::{ErrorKind, Result};

use crate::support::Answer;

static REDIS: LazyLock<RedisServer> = LazyLock::new(RedisServer::start);
static CLUSTER: LazyLock<RedisCluster> = LazyLock::new(RedisCluster::start);

/// A server on the store of this URL.
struct OverHttp(String);

impl OverHttp {
    fn in_memory() -> Self {
        Self("memory:".to_owned())
    }

    fn on_redis() -> Self {
        Self(REDIS.url())
    }

    fn on_a_cluster() -> Self {
        Self(CLUSTER.url())
    }
}

/// Random histories of a room beside its model, on every kind of store.
macro_rules! agrees_with_the_model {
    ($check:path) => {
        use tidegate::testkit::history::operations;

        #[test]
        fn the_http_api_agrees_with_the_model_in_memory() {
            $check(&OverHttp::in_memory(), operations() / 20);
        }

        #[test]
        fn the_http_api_agrees_with_the_model_on_redis() {
            $check(&OverHttp::on_redis(), operations() / 80);
            assert_eq!(super::REDIS.keys_without_ttl(), Vec::<String>::new());
        }

        #[test]
        fn the_http_api_agrees_with_the_model_on_a_cluster() {
            $check(&OverHttp::on_a_cluster(), operations() / 400);
            assert_eq!(super::CLUSTER.keys_without_ttl(), Vec::<String>::new());
        }
    };
}
use agrees_with_the_model;

/// The body of an answer that is not an error.
fn checked(answer: &Answer) -> Result<Value> {
    let kind = match answer.status {
        StatusCode::OK | StatusCode::CREATED | StatusCode::TOO_MANY_REQUESTS => return Ok(answer.json()),
        StatusCode::BAD_REQUEST => ErrorKind::Invalid,
        StatusCode::CONFLICT => ErrorKind::Conflict,
        _ => panic!("{answer:?}"),
    };
    assert_eq!(answer.header("content-type"), Some("application/problem+json"));
    Err(testkit::error(kind, answer.body.clone()))
}

/// A name in a path.
fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// The fields of an object, each to be taken once: none may be left over.
struct Fields(Map<String, Value>);

impl Fields {
    fn of(value: Value) -> Self {
        match value {
            Value::Object(fields) => Self(fields),
            other => panic!("{other}"),
        }
    }

    fn take(&mut self, name: &str) -> Value {
        self.0.remove(name).unwrap_or_else(|| panic!("no {name} in {:?}", self.0))
    }

    fn number(&mut self, name: &str) -> u64 {
        self.optional(name).unwrap_or_else(|| panic!("{name} is null"))
    }

    /// A number that may be `null`.
    fn optional(&mut self, name: &str) -> Option<u64> {
        let value = self.take(name);
        (!value.is_null()).then(|| value.as_u64().unwrap_or_else(|| panic!("{name} is {value}")))
    }

    fn flag(&mut self, name: &str) -> bool {
        self.take(name).as_bool().unwrap()
    }

    fn text(&mut self, name: &str) -> String {
        self.take(name).as_str().unwrap().to_owned()
    }

    /// The objects of a list.
    fn list(&mut self, name: &str) -> Vec<Self> {
        match self.take(name) {
            Value::Array(items) => items.into_iter().map(Self::of).collect(),
            other => panic!("{name} is {other}"),
        }
    }

    fn end(self) {
        assert!(self.0.is_empty(), "unexpected: {:?}", self.0);
    }
}
