//! Limits over HTTP, as a caller sees them: what is in JSON and in fields of the head.

use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use serde_json::{Value, json};
use tidegate::clock::ManualClock;
use tidegate::limit::{
    Admitted, Algorithm, Cause, Decision, Limit, LimitOptions, Override, Quota, Receipt, Rejected, Release,
    Reservation, ReservationState, Reserve, Source, Suppression, Wait,
};
use tidegate::random::Random;
use tidegate::store::StoreOptions;
use tidegate::testkit::history::operations;
use tidegate::testkit::limit::{
    ChargeAnswer, EVERYONE, Face, Gate, Kit, history, key_of, reservation_history,
};
use tidegate::{Rate, Result, Tidegate, limit_conformance};
use tidegate_server::http::router;

use super::{Fields, checked, encoded};
use crate::support::{Answer, call_router, limit, limits_on};

limit_conformance!(over_http, OverHttp);

#[test]
fn the_http_api_agrees_with_the_models() {
    history::check(&OverHttp, operations() / 20);
}

#[test]
fn no_window_holds_more_than_the_capacity_over_http() {
    history::check_raw_events(&OverHttp, operations() / 20);
}

#[test]
fn reservations_over_http_agree_with_the_model() {
    reservation_history::check(&OverHttp, operations() / 20);
}

struct OverHttp;

impl Kit for OverHttp {
    type Gate = Server;

    async fn fresh(
        &self,
        limits: &[(&str, Algorithm)],
        options: &LimitOptions,
        clock: ManualClock,
        seed: u64,
    ) -> Server {
        let mut store = StoreOptions::default();
        store.clock = clock.into();
        store.random = Random::seeded(seed);
        let gate = Tidegate::open_with("memory:", store).await.unwrap();
        let open =
            |(name, algorithm): &(&str, Algorithm)| gate.limit(name, *algorithm, options.clone()).unwrap();
        let open: Vec<_> = limits.iter().map(open).collect();
        let set = |(name, algorithm): &(&str, Algorithm)| limit(name, *algorithm, options.clone());
        Server(router(limits_on(gate, limits.iter().map(set).collect())), open)
    }
}

#[derive(Clone)]
struct Server(Router, Vec<Limit>);

impl Gate for Server {
    type Face = Client;

    fn limit(&self, name: &str) -> Client {
        let limit = self.1.iter().find(|limit| limit.name().as_str() == name).unwrap().clone();
        Client { router: self.0.clone(), name: name.to_owned(), limit }
    }

    async fn take_all(&self, key: &str, limits: &[(&str, u64)]) -> Result<Vec<(String, Decision)>> {
        let limits: Vec<_> =
            limits.iter().map(|(limit, cost)| json!({"limit": limit, "cost": cost})).collect();
        let body = with_subject(key, json!({"limits": limits})).to_string();
        let answer = call_router(&self.0, "POST", "/v1/limits/take", &body).await;
        self.decisions(&answer, key)
    }

    async fn charge_all(&self, key: &str, id: &str, limits: &[(&str, u64)]) -> Result<ChargeAnswer> {
        let sent: Vec<_> = limits.iter().map(|(limit, cost)| json!({"limit": limit, "cost": cost})).collect();
        let body = with_subject(key, json!({"id": id, "limits": sent})).to_string();
        let answer = call_router(&self.0, "POST", "/v1/charges", &body).await;
        if answer.status == StatusCode::TOO_MANY_REQUESTS {
            return self.decisions(&answer, key).map(ChargeAnswer::Refused);
        }
        if answer.status == StatusCode::CONFLICT && answer.body.contains("is released: nothing is charged") {
            return Ok(ChargeAnswer::Released);
        }
        let mut body = Fields::of(checked(&answer)?);
        check_identity(&mut body, key, id, "charged");
        let read = |(mut said, (limit, cost)): (Fields, &(&str, u64))| {
            assert_eq!((said.text("limit").as_str(), said.number("cost")), (*limit, *cost));
            let quota = Quota {
                capacity: said.number("capacity"),
                remaining: said.number("remaining"),
                reset_after_ms: said.number("reset_after_ms"),
                window_size_seconds: said.number("window_size_seconds"),
            };
            said.end();
            (limit.to_string(), quota)
        };
        let quotas: Vec<_> = body.list("limits").into_iter().zip(limits).map(read).collect();
        body.end();
        assert_eq!(quotas.len(), limits.len());
        check_fields(&answer, quotas.iter().map(|(limit, quota)| (limit.as_str(), quota)));
        Ok(ChargeAnswer::Charged { is_new: answer.status == StatusCode::CREATED, quotas })
    }

    async fn release_all(&self, key: &str, id: &str, limits: &[&str]) -> Result<Release> {
        let body = with_subject(key, json!({"id": id, "limits": limits})).to_string();
        let answer = call_router(&self.0, "POST", "/v1/charges/release", &body).await;
        if answer.status == StatusCode::NOT_FOUND {
            assert_eq!(answer.json()["type"], "urn:tidegate:problem:no-charge");
            return Ok(Release::Unknown);
        }
        let mut body = Fields::of(checked(&answer)?);
        check_identity(&mut body, key, id, "released");
        let is_new = body.flag("is_new");
        body.end();
        Ok(Release::Released { is_new })
    }
}

impl Server {
    /// The decisions in an answer of several limits, and their header fields.
    fn decisions(&self, answer: &Answer, key: &str) -> Result<Vec<(String, Decision)>> {
        let body = checked(answer)?;
        let said: Vec<(String, Decision)> = body["limits"]
            .as_array()
            .unwrap()
            .iter()
            .map(|said| {
                let name = said["limit"].as_str().unwrap();
                (name.to_owned(), decision(said, &Gate::limit(self, name).limit, key))
            })
            .collect();
        check_fields(answer, said.iter().map(|(limit, decision)| (limit.as_str(), decision.quota())));
        let is_admitted = said.iter().all(|(_, decision)| decision.is_admitted());
        assert_eq!(answer.status, status(is_admitted));
        assert_eq!(body["outcome"], if is_admitted { "admitted" } else { "rejected" });
        let refused = said.iter().filter(|(_, decision)| !decision.is_admitted());
        let refused: Vec<_> = refused.map(|(limit, _)| limit.as_str()).collect();
        if !is_admitted {
            assert_eq!(body["violated-policies"], json!(refused));
        }
        Ok(said)
    }
}

/// The header fields of several limits.
fn check_fields<'a>(answer: &Answer, quotas: impl Iterator<Item = (&'a str, &'a Quota)>) {
    let (now, policies): (Vec<_>, Vec<_>) =
        quotas.map(|(limit, quota)| (ratelimit(limit, quota), policy(limit, quota))).unzip();
    assert_eq!(answer.header("ratelimit"), Some(&*now.join(", ")));
    assert_eq!(answer.header("ratelimit-policy"), Some(&*policies.join(", ")));
}

/// What a charge is known by.
fn check_identity(body: &mut Fields, key: &str, id: &str, state: &str) {
    assert_eq!((body.text("id").as_str(), body.text("state").as_str()), (id, state));
    assert_eq!(body.take("key"), if key == EVERYONE { Value::Null } else { key.into() });
}

#[derive(Clone)]
struct Client {
    router: Router,
    name: String,
    /// What reads and writes receipts.
    limit: Limit,
}

impl Client {
    async fn post(&self, what: &str, body: Value) -> Answer {
        call_router(&self.router, "POST", &format!("/v1/limits/{}/{what}", self.name), &body.to_string())
            .await
    }

    async fn with_key(&self, method: &str, key: &str, what: &str, body: &str) -> Answer {
        let subject = if key == EVERYONE { "everyone".to_owned() } else { format!("keys/{}", encoded(key)) };
        call_router(&self.router, method, &format!("/v1/limits/{}/{subject}{what}", self.name), body).await
    }

    /// The decision in an answer, and its header fields.
    fn decision(&self, answer: &Answer, key: &str) -> Result<Decision> {
        let decision = decision(&checked(answer)?, &self.limit, key);
        let quota = decision.quota();
        assert_eq!(answer.header("ratelimit"), Some(&*ratelimit(&self.name, quota)));
        assert_eq!(answer.header("ratelimit-policy"), Some(&*policy(&self.name, quota)));
        Ok(decision)
    }
}

impl Face for Client {
    async fn take(&self, key: &str, cost: u64, rate: Option<Rate>) -> Result<Decision> {
        let mut body = with_subject(key, json!({"cost": cost}));
        if let Some(rate) = rate {
            body["rate"] = rate.to_string().into();
        }
        let answer = self.post("take", body).await;
        let decision = self.decision(&answer, key)?;
        assert_eq!(answer.status, status(decision.is_admitted()));
        let seconds = decision.wait().map(|wait| wait.retry_after_ms.div_ceil(1000).to_string());
        assert_eq!(answer.header("retry-after"), seconds.as_deref());
        Ok(decision)
    }

    async fn peek_for(&self, key: &str, cost: u64) -> Result<Decision> {
        // One is what is meant without it.
        let cost = if cost == 1 { String::new() } else { format!("?cost={cost}") };
        let answer = self.with_key("GET", key, &cost, "").await;
        let decision = self.decision(&answer, key)?;
        assert_eq!(answer.status, StatusCode::OK);
        Ok(decision)
    }

    async fn refund(&self, key: &str, receipt: Receipt) -> Result<u64> {
        // Nobody can request what is of another key.
        let Some(text) = self.limit.receipt_text(key_of(key)?, receipt) else { return Ok(0) };
        let text = text.to_string();
        let answer = self.post("refund", with_subject(key, json!({"receipt": text}))).await;
        Ok(checked(&answer)?["refunded"].as_u64().unwrap())
    }

    async fn reset(&self, key: &str) -> Result<()> {
        done(&self.with_key("DELETE", key, "", "").await)
    }

    async fn set_override(&self, key: &str, rate: Rate, lasting: Duration) -> Result<()> {
        let body = json!({"rate": rate.to_string(), "lasting_ms": lasting.as_millis() as u64}).to_string();
        checked(&self.with_key("PUT", key, "/override", &body).await).map(|_| ())
    }

    async fn get_override(&self, key: &str) -> Result<Option<Override>> {
        let answer = self.with_key("GET", key, "/override", "").await;
        if answer.status == StatusCode::NOT_FOUND {
            assert_eq!(answer.json()["type"], "urn:tidegate:problem:no-override");
            return Ok(None);
        }
        let body = checked(&answer)?;
        let rate = body["rate"].as_str().unwrap().parse().unwrap();
        let lasting = Duration::from_millis(body["lasting_ms"].as_u64().unwrap());
        Ok(Some(Override { rate, lasting }))
    }

    async fn clear_override(&self, key: &str) -> Result<()> {
        done(&self.with_key("DELETE", key, "/override", "").await)
    }

    async fn reserve(&self, key: &str, id: &str, cost: u64, lasting: Duration) -> Result<Reserve> {
        let body = json!({"cost": cost, "lasting_ms": lasting.as_millis() as u64}).to_string();
        let answer = self.of_reservation("PUT", key, id, "", &body).await;
        if answer.status == StatusCode::TOO_MANY_REQUESTS {
            return self.decision(&answer, key).map(Reserve::Refused);
        }
        if answer.status == StatusCode::CONFLICT {
            // Of another cost, one too many, or one that has ended.
            let ended = Face::reservation(self, key, id).await?;
            let what = |it: &Reservation| format!("is {}: nothing is held", it.state.as_str());
            if let Some(ended) = ended.filter(|it| answer.body.contains(&what(it))) {
                return Ok(Reserve::Ended(ended));
            }
        }
        let is_new = answer.status == StatusCode::CREATED;
        Ok(Reserve::Held(Reservation { is_new, ..self.read_reservation(&answer, key, id)? }))
    }

    async fn commit(&self, key: &str, id: &str) -> Result<Option<Reservation>> {
        let answer = self.of_reservation("POST", key, id, "/commit", "").await;
        self.settled(&answer, key, id, "committed").await
    }

    async fn release(&self, key: &str, id: &str) -> Result<Option<Reservation>> {
        let answer = self.of_reservation("DELETE", key, id, "", "").await;
        self.settled(&answer, key, id, "released").await
    }

    async fn reservation(&self, key: &str, id: &str) -> Result<Option<Reservation>> {
        let answer = self.of_reservation("GET", key, id, "", "").await;
        match is_known(&answer) {
            true => self.read_reservation(&answer, key, id).map(Some),
            false => Ok(None),
        }
    }
}

impl Client {
    async fn of_reservation(&self, method: &str, key: &str, id: &str, what: &str, body: &str) -> Answer {
        self.with_key(method, key, &format!("/reservations/{}{what}", encoded(id)), body).await
    }

    fn read_reservation(&self, answer: &Answer, key: &str, id: &str) -> Result<Reservation> {
        let mut body = Fields::of(checked(answer)?);
        assert_eq!(body.text("limit"), self.name);
        assert_eq!(body.take("key"), if key == EVERYONE { Value::Null } else { key.into() });
        assert_eq!(body.text("id"), id);
        let state = match &*body.text("state") {
            "pending" => ReservationState::Pending,
            "committed" => ReservationState::Committed,
            "released" => ReservationState::Released,
            "lapsed" => ReservationState::Lapsed,
            other => panic!("{other}"),
        };
        let (cost, expires_in_ms) = (body.number("cost"), body.number("expires_in_ms"));
        body.end();
        Ok(Reservation { cost, state, expires_in_ms, is_new: false })
    }

    /// A reservation that was to be `wanted`: it is, it is something else, or there is none.
    async fn settled(
        &self,
        answer: &Answer,
        key: &str,
        id: &str,
        wanted: &str,
    ) -> Result<Option<Reservation>> {
        if answer.status != StatusCode::CONFLICT {
            let found = if is_known(answer) { Some(self.read_reservation(answer, key, id)?) } else { None };
            assert!(found.is_none_or(|it| it.state.as_str() == wanted), "{answer:?}");
            return Ok(found);
        }
        let found = Face::reservation(self, key, id).await?.unwrap();
        let why = format!("is {}: it can no longer be {wanted}", found.state.as_str());
        assert!(answer.json()["detail"].as_str().unwrap().ends_with(&why), "{answer:?}");
        Ok(Some(found))
    }
}

fn is_known(answer: &Answer) -> bool {
    if answer.status == StatusCode::NOT_FOUND {
        assert_eq!(answer.json()["type"], "urn:tidegate:problem:no-reservation");
    }
    answer.status != StatusCode::NOT_FOUND
}

fn status(is_admitted: bool) -> StatusCode {
    if is_admitted { StatusCode::OK } else { StatusCode::TOO_MANY_REQUESTS }
}

fn ratelimit(limit: &str, quota: &Quota) -> String {
    format!("\"{limit}\";r={};t={}", quota.remaining, quota.reset_after_ms.div_ceil(1000))
}

fn policy(limit: &str, quota: &Quota) -> String {
    format!("\"{limit}\";q={};w={}", quota.capacity, quota.window_size_seconds)
}

/// An answer without a body, or an error.
fn done(answer: &Answer) -> Result<()> {
    match answer.status {
        StatusCode::NO_CONTENT => Ok(()),
        _ => checked(answer).map(|body| panic!("{body}")),
    }
}

/// A body with its subject, if it has one.
fn with_subject(key: &str, mut body: Value) -> Value {
    if key != EVERYONE {
        body["key"] = key.into();
    }
    body
}

fn decision(body: &Value, limit: &Limit, key: &str) -> Decision {
    let number = |field: &str| body[field].as_u64();
    let quota = Quota {
        capacity: number("capacity").unwrap(),
        remaining: number("remaining").unwrap(),
        reset_after_ms: number("reset_after_ms").unwrap(),
        window_size_seconds: number("window_size_seconds").unwrap(),
    };
    assert_eq!(body["source"], "store");
    let source = Source::Store;
    match body["outcome"].as_str().unwrap() {
        "admitted" => {
            let read = |text| limit.read_receipt(key_of(key).unwrap(), text).unwrap();
            let receipt = body["receipt"].as_str().map(read);
            Decision::Admitted(Admitted { receipt, quota, source, read_at: None })
        }
        "rejected" => {
            let wait = number("retry_after_ms").map(|retry_after_ms| Wait {
                retry_after_ms,
                remaining_after_waiting: number("remaining_after_waiting").unwrap(),
            });
            Decision::Rejected(Rejected { wait, quota, source, cause: Cause::Usage })
        }
        "suppressed" => {
            let suppression_factor = body["suppression_factor"].as_f64().unwrap();
            let is_allowed = body["is_allowed"].as_bool().unwrap();
            Decision::Suppressed(Suppression { suppression_factor, is_allowed, quota, source })
        }
        other => panic!("{other}"),
    }
}
