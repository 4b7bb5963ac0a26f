//! The library's conformance suite, through the HTTP API: what a caller is told
//! in JSON is what the library says, field by field.

use axum::http::StatusCode;
use serde_json::{Value, json};
use tidegate::clock::ManualClock;
use tidegate::limit::{Admitted, Decision, LimitOptions, Quota, Receipt, Rejected, Sliding, Source, Wait};
use tidegate::store::StoreOptions;
use tidegate::testkit::limit::{Face, Kit};
use tidegate::{Error, Key, Rate, Result, Tidegate, limit_conformance};
use tidegate_server::http::App;

use crate::support::{Answer, call};

struct OverHttp;

impl Kit for OverHttp {
    type Face = Client;

    async fn fresh(&self, sliding: Sliding, clock: ManualClock) -> Client {
        let mut options = StoreOptions::default();
        options.clock = clock.into();
        let gate = Tidegate::open_with("memory:", options).await.unwrap();
        let limit = gate.limit("api", sliding, LimitOptions::default()).unwrap();
        Client(App::new(gate, [limit]))
    }
}

#[derive(Clone)]
struct Client(App);

impl Client {
    async fn post(&self, what: &str, body: Value) -> Answer {
        call(&self.0, "POST", &format!("/v1/limits/api/{what}"), &body.to_string()).await
    }

    async fn with_key(&self, method: &str, key: &str) -> Answer {
        let encoded: String = key.bytes().map(|byte| format!("%{byte:02X}")).collect();
        call(&self.0, method, &format!("/v1/limits/api/keys/{encoded}"), "").await
    }
}

impl Face for Client {
    async fn take(&self, key: &str, cost: u64, rate: Option<Rate>) -> Result<Decision> {
        let mut body = json!({"key": key, "cost": cost});
        if let Some(rate) = rate {
            body["rate"] = rate.to_string().into();
        }
        let answer = self.post("take", body).await;
        let decision = decision(&answer)?;
        let expected = if decision.is_admitted() { StatusCode::OK } else { StatusCode::TOO_MANY_REQUESTS };
        assert_eq!(answer.status, expected);
        let seconds = decision.wait().map(|wait| wait.retry_after_ms.div_ceil(1000).to_string());
        assert_eq!(answer.header("retry-after"), seconds.as_deref());
        Ok(decision)
    }

    async fn peek(&self, key: &str) -> Result<Decision> {
        decision(&self.with_key("GET", key).await)
    }

    async fn refund(&self, key: &str, receipt: Receipt) -> Result<u64> {
        let answer = self.post("refund", json!({"key": key, "receipt": receipt.to_string()})).await;
        Ok(checked(&answer)?["refunded"].as_u64().unwrap())
    }

    async fn reset(&self, key: &str) -> Result<()> {
        assert_eq!(self.with_key("DELETE", key).await.status, StatusCode::NO_CONTENT);
        Ok(())
    }
}

/// The body of an answer that is not an error.
fn checked(answer: &Answer) -> Result<Value> {
    if answer.status != StatusCode::OK && answer.status != StatusCode::TOO_MANY_REQUESTS {
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{answer:?}");
        assert_eq!(answer.header("content-type"), Some("application/problem+json"));
        return Err(any_error());
    }
    Ok(answer.json())
}

/// The suite asks only whether there was an error.
fn any_error() -> Error {
    Key::new("").unwrap_err()
}

fn decision(answer: &Answer) -> Result<Decision> {
    let body = checked(answer)?;
    let number = |field: &str| body[field].as_u64();
    let quota = Quota {
        capacity: number("capacity").unwrap(),
        remaining: number("remaining").unwrap(),
        reset_after_ms: number("reset_after_ms").unwrap(),
        window_size_seconds: number("window_size_seconds").unwrap(),
    };
    let seconds = quota.reset_after_ms.div_ceil(1000);
    assert_eq!(answer.header("ratelimit"), Some(&*format!("\"api\";r={};t={seconds}", quota.remaining)));
    let policy = format!("\"api\";q={};w={}", quota.capacity, quota.window_size_seconds);
    assert_eq!(answer.header("ratelimit-policy"), Some(&*policy));
    assert_eq!(body["source"], "store");
    let source = Source::Store;
    Ok(match body["outcome"].as_str().unwrap() {
        "admitted" => {
            let receipt = body["receipt"].as_str().map(|text| text.parse().unwrap());
            Decision::Admitted(Admitted { receipt, quota, source })
        }
        "rejected" => {
            let wait = number("retry_after_ms").map(|retry_after_ms| Wait {
                retry_after_ms,
                remaining_after_waiting: number("remaining_after_waiting").unwrap(),
            });
            Decision::Rejected(Rejected { wait, quota, source })
        }
        other => panic!("{other}"),
    })
}

limit_conformance!(over_http, OverHttp);
