//! Receipts as text: those that a take answered give back their charge, and nothing else
//! that looks like one does.

use serde_json::{Value, json};
use tidegate::testkit::{RedisCluster, RedisServer};

use crate::support::{Fixture, serving_on};

const LIMITS: [&str; 5] = [
    "api.rate=5/s",
    "api.window=60s",
    "other.rate=5/s",
    "burst.algorithm=token",
    "hourly.algorithm=calendar",
];

async fn serving(url: &str) -> Fixture {
    let more = ["burst.rate=1/s", "burst.burst=100", "hourly.limit=100", "hourly.period=hour"];
    serving_on(url, &[&LIMITS[..], &more].concat()).await
}

/// What a take of `cost` answers, and a refund: its status and body.
async fn take(f: &Fixture, limit: &str, key: &str, cost: u64) -> String {
    let body = json!({"key": key, "cost": cost}).to_string();
    let taken = f.post(&format!("/v1/limits/{limit}/take"), &body).await;
    taken.json()["receipt"].as_str().unwrap_or_else(|| panic!("{taken:?}")).to_owned()
}

async fn refund(f: &Fixture, limit: &str, key: &str, receipt: &str) -> (u16, Value) {
    let body = json!({"key": key, "receipt": receipt}).to_string();
    let answer = f.post(&format!("/v1/limits/{limit}/refund"), &body).await;
    let status = answer.status.as_u16();
    if status == 400 {
        assert_eq!(answer.header("content-type"), Some("application/problem+json"));
        assert_eq!(answer.json()["type"], "urn:tidegate:problem:invalid-request");
    }
    (status, answer.json()["refunded"].clone())
}

/// The receipt with one of its numbers replaced.
fn with(receipt: &str, at: usize, part: &str) -> String {
    let mut parts: Vec<&str> = receipt.split('-').collect();
    parts[at] = part;
    parts.join("-")
}

async fn nothing_is_made_up(url: &str) {
    let f = serving(url).await;
    for limit in ["api", "burst", "hourly"] {
        // Each of these spans was charged, to this very key; none of them was one charge.
        let first = take(&f, limit, "u", 5).await;
        let second = take(&f, limit, "u", 5).await;
        let [bucket, offset, cost, check] = *first.split('-').collect::<Vec<_>>() else { panic!("{first}") };
        let next = (bucket.parse::<u64>().unwrap() + 1).to_string();
        let second_offset = second.split('-').nth(1).unwrap();
        for forged in [
            with(&first, 1, "2"),
            with(&first, 1, second_offset),
            with(&first, 2, "3"),
            with(&first, 2, "10"),
            with(&first, 0, &next),
            with(&first, 3, "0000000000000000"),
            with(&first, 3, second.rsplit_once('-').unwrap().1),
            // As they were before they had a check.
            with(&first, 3, "4231726773"),
            format!("{bucket}-{offset}-{cost}"),
            format!("{bucket}-{offset}-{cost}-{check}-{check}"),
            // One number has one text.
            format!("0{first}"),
            with(&first, 1, &format!("0{offset}")),
            with(&first, 2, &format!("0{cost}")),
        ] {
            assert_eq!(refund(&f, limit, "u", &forged).await, (400, json!(null)), "{forged}");
        }
        assert_eq!(refund(&f, limit, "other", &second).await.0, 400, "of another key");
        let elsewhere = if limit == "api" { "other" } else { "api" };
        assert_eq!(refund(&f, elsewhere, "u", &second).await.0, 400, "of another limit");
        assert_eq!(refund(&f, limit, "u", &first).await, (200, json!(5)));
        assert_eq!(refund(&f, limit, "u", &first).await, (200, json!(0)), "once");
        assert_eq!(refund(&f, limit, "u", &second).await, (200, json!(5)));
        assert_eq!(f.get(&format!("/v1/limits/{limit}/keys/u")).await.json()["reset_after_ms"], 0);
    }
}

#[tokio::test]
async fn a_made_up_receipt_is_refused() {
    nothing_is_made_up("memory:").await;
}

#[tokio::test]
async fn a_made_up_receipt_is_refused_on_redis() {
    nothing_is_made_up(&RedisServer::start().url()).await;
}

#[tokio::test]
async fn a_made_up_receipt_is_refused_in_a_cluster() {
    nothing_is_made_up(&RedisCluster::start().url()).await;
}

/// Servers that share a Redis share what receipts are checked by, whoever was first, and
/// also after all of them were restarted.
#[tokio::test]
async fn servers_on_one_redis_take_each_others_receipts() {
    let redis = RedisServer::start();
    let url = redis.url();
    // At the same time, so that all of them find none yet.
    let opened: Vec<_> = (0..8)
        .map(|_| {
            let url = url.clone();
            tokio::spawn(async move { serving(&url).await })
        })
        .collect();
    let mut servers = Vec::new();
    for server in opened {
        servers.push(server.await.unwrap());
    }
    let mut receipts = Vec::new();
    for server in &servers {
        receipts.push(take(server, "api", "u", 3).await);
    }
    receipts.push(take(&servers[0], "api", "u", 7).await);
    for (at, receipt) in receipts[..8].iter().enumerate() {
        assert_eq!(refund(&servers[7 - at], "api", "u", receipt).await, (200, json!(3)));
    }
    drop(servers);
    let restarted = serving(&url).await;
    assert_eq!(refund(&restarted, "api", "u", &receipts[8]).await, (200, json!(7)));
    // Somebody else's Redis knows nothing of it.
    let other = RedisServer::start();
    let elsewhere = serving(&other.url()).await;
    assert_eq!(refund(&elsewhere, "api", "u", &receipts[8]).await.0, 400);
}
