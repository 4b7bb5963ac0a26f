//! Sessions over HTTP, as a caller sees them.

use std::time::Duration;

use serde_json::{Value, json};
use tidegate::clock::{ManualClock, Timestamp};
use tidegate::session::{
    Activated, Claim, Claims, Counts, Disconnect, Found, Generation, Lease, List, Listed, Refusal, Session,
    SessionId, SessionOptions, State, Swept,
};
use tidegate::testkit::session::{Face, Granted, Held, Kit, START_MS, answers, history};
use tidegate::testkit::unique;
use tidegate::{Name, Result, session_conformance};

use super::{Fields, OverHttp, agrees_with_the_model, checked, encoded};
use crate::support::{self, Fixture, settings};

session_conformance!(over_http, OverHttp::in_memory());
agrees_with_the_model!(history::check);

impl Kit for OverHttp {
    type Face = Client;

    async fn fresh(&self, options: SessionOptions) -> Client {
        let ms = |lasting: Duration| format!("{}ms", lasting.as_millis());
        let written = [
            format!("grace={}", ms(options.grace)),
            format!("holder_lease={}", ms(options.holder_lease)),
            format!("session_ttl={}", ms(options.session_ttl)),
            format!("retention={}", ms(options.retention)),
            format!("claim_lease={}", ms(options.claim_lease)),
            format!("migration_lease={}", ms(options.migration_lease)),
            format!("cleanup_interval={}", ms(options.cleanup_interval)),
            format!("max_attempts={}", options.max_attempts),
            format!("max_holders={}", options.max_holders),
            format!("max_sessions={}", options.max_sessions),
            format!("batch={}", options.batch),
        ];
        let written = written.map(|it| format!("main.{it}"));
        let mut settings = settings("sessions", &written.each_ref().map(String::as_str));
        settings.store.options.namespace = Some(Name::new(&unique("s")).unwrap());
        Client(Fixture::of(&self.0, &settings, Timestamp::from_millis(START_MS)).await)
    }

    fn is_partitioned(&self) -> bool {
        self.0.starts_with("redis-cluster")
    }

    fn is_quick(&self) -> bool {
        false
    }
}

pub(super) struct Client(Fixture);

impl Client {
    async fn request(&self, method: &str, path: &str, body: &str) -> support::Answer {
        self.0.call(method, &format!("/v1/sessions/main{path}"), body).await
    }

    /// The fields of what was granted, or why it was not.
    async fn granted(&self, method: &str, path: &str, body: &str) -> Result<Granted<Fields>> {
        let answer = self.request(method, path, body).await;
        match refusal(&answer) {
            Some(refusal) => Ok(Err(refusal)),
            None => checked(&answer).map(|body| Ok(of_space(body))),
        }
    }

    async fn read(&self, path: &str) -> Result<Fields> {
        Ok(self.granted("GET", path, "").await?.unwrap())
    }

    async fn held(
        &self,
        method: &str,
        id: SessionId,
        held: Held<'_>,
        what: &str,
        query: &str,
    ) -> Result<Granted<Lease>> {
        let answer = self.granted(method, &held_path(id, held, what, query), "").await?;
        Ok(answer.map(|mut body| {
            assert_eq!((body.text("id"), &*body.text("holder")), (id.to_string(), held.0));
            let lease = answers::lease(body.number("generation"), body.number("until_ms"));
            body.end();
            lease
        }))
    }

    async fn list(&self, query: &str, state: State, after: Option<Listed>, limit: usize) -> Result<List> {
        let place = |it: Listed| format!("{}:{}", it.at.as_millis(), it.id);
        let after = after.map(|it| format!("&after={}", place(it))).unwrap_or_default();
        let mut body = self.read(&format!("?{query}&limit={limit}{after}")).await?;
        let mut list = List::default();
        list.sessions = body.list("sessions").into_iter().map(listed).collect();
        list.invalid = body.number("invalid");
        assert_eq!(body.text("state"), state.as_str());
        let next = list.sessions.last().filter(|_| list.sessions.len() == limit);
        assert_eq!(body.take("next"), json!(next.copied().map(place)));
        body.end();
        Ok(list)
    }
}

/// Every answer names its space.
fn of_space(body: Value) -> Fields {
    let mut body = Fields::of(body);
    assert_eq!(body.text("space"), "main");
    body
}

fn held_path(id: SessionId, (name, generation): Held<'_>, what: &str, query: &str) -> String {
    let generation = generation.map(|it| format!("generation={}", it.get())).unwrap_or_default();
    format!("/{id}/holders/{}{what}?{query}{generation}", encoded(name))
}

fn listed(mut row: Fields) -> Listed {
    let listed = Listed::new(Timestamp::from_millis(row.number("at_ms")), id(&mut row));
    row.end();
    listed
}

fn id(body: &mut Fields) -> SessionId {
    body.text("id").parse().unwrap()
}

fn moment(ms: Option<u64>) -> Option<Timestamp> {
    ms.map(Timestamp::from_millis)
}

const REFUSALS: [Refusal; 9] = [
    Refusal::Gone,
    Refusal::Reaping,
    Refusal::Active,
    Refusal::Disconnected,
    Refusal::Lapsed,
    Refusal::Stale,
    Refusal::TooManyHolders,
    Refusal::Full,
    Refusal::NotClaimed,
];

/// Why a call changed nothing, if it was refused.
fn refusal(answer: &support::Answer) -> Option<Refusal> {
    let body = (!answer.status.is_success()).then(|| answer.json())?;
    let name = body["refusal"].as_str()?;
    assert_eq!(answer.header("content-type"), Some("application/problem+json"));
    Some(REFUSALS.into_iter().find(|it| it.as_str() == name).unwrap_or_else(|| panic!("{body}")))
}

/// A text as JSON: what is none is a string.
fn to_json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| text.into())
}

/// The text that was sent as that.
fn to_text(json: &Value) -> String {
    match json {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn state(name: &str) -> State {
    let all = [State::Active, State::Disconnected, State::Orphan, State::Claimed, State::Dead];
    all.into_iter().find(|it| it.as_str() == name).unwrap()
}

fn session(mut body: Fields) -> Session {
    let mut it = answers::session(id(&mut body));
    it.broadcaster = body.text("broadcaster");
    (it.config, it.value) = (to_text(&body.take("config")), to_text(&body.take("value")));
    it.state = state(&body.text("state"));
    it.generation = Generation::new(body.number("generation"));
    it.ref_count = body.number("ref_count");
    let holder = |mut row: Fields| {
        let holder = answers::held_by(row.text("holder"), row.number("until_ms"));
        row.end();
        holder
    };
    it.holders = body.list("holders").into_iter().map(holder).collect();
    it.held_until = moment(body.optional("held_until_ms"));
    it.last_disconnect = moment(body.optional("last_disconnect_ms"));
    it.last_update = Timestamp::from_millis(body.number("last_update_ms"));
    it.last_seen = Timestamp::from_millis(body.number("last_seen_ms"));
    it.attempts = body.number("attempts");
    body.end();
    it
}

fn claim(mut row: Fields) -> Claim {
    let mut it = answers::claim(id(&mut row));
    it.generation = Generation::new(row.number("generation"));
    it.broadcaster = row.text("broadcaster");
    (it.config, it.value) = (to_text(&row.take("config")), to_text(&row.take("value")));
    it.since = Timestamp::from_millis(row.number("since_ms"));
    it.attempt = row.number("attempt");
    it.until = Timestamp::from_millis(row.number("until_ms"));
    row.end();
    it
}

/// What claims and cleanups answer alike.
fn swept(body: &mut Fields) -> Swept {
    let mut it = Swept::default();
    (it.lapsed, it.buried) = (body.number("lapsed"), body.number("buried"));
    (it.missing, it.invalid) = (body.number("missing"), body.number("invalid"));
    it.lag_ms = body.number("lag_ms");
    it.held_until = moment(body.optional("held_until_ms"));
    it.retry_after_ms = body.optional("retry_after_ms");
    it
}

impl Face for Client {
    const REFUSES_ODD_NUMBERS: bool = true;

    fn clock(&self) -> &ManualClock {
        &self.0.clock
    }

    async fn activate(
        &self,
        broadcaster: &str,
        config: &str,
        holder: Option<&str>,
    ) -> Result<Granted<Activated>> {
        let body = json!({"broadcaster": broadcaster, "config": to_json(config), "holder": holder});
        let answer = self.request("POST", "", &body.to_string()).await;
        if let Some(refusal) = refusal(&answer) {
            return Ok(Err(refusal));
        }
        let mut body = of_space(checked(&answer)?);
        let found = match &*body.text("found") {
            "nothing" => Found::Nothing,
            "disconnected" => Found::Disconnected,
            "active" => Found::Active,
            other => panic!("{other}"),
        };
        assert_eq!(answer.status, if found == Found::Nothing { 201 } else { 200 });
        let lease = answers::lease(body.number("generation"), body.number("until_ms"));
        let activated = answers::activated(id(&mut body), lease, found);
        body.end();
        Ok(Ok(activated))
    }

    async fn connect(&self, id: SessionId, held: Held<'_>) -> Result<Granted<Lease>> {
        self.held("PUT", id, held, "", "").await
    }

    async fn resume(&self, id: SessionId, held: Held<'_>) -> Result<Granted<Lease>> {
        self.held("PUT", id, held, "", "resume=true&").await
    }

    async fn heartbeat(&self, id: SessionId, held: Held<'_>) -> Result<Granted<Lease>> {
        self.held("POST", id, held, "/heartbeat", "").await
    }

    async fn disconnect(&self, id: SessionId, held: Held<'_>) -> Result<Granted<Disconnect>> {
        let answer = self.granted("DELETE", &held_path(id, held, "", ""), "").await?;
        Ok(answer.map(|mut body| {
            assert_eq!((body.text("id"), &*body.text("holder")), (id.to_string(), held.0));
            let left = match state(&body.text("state")) {
                State::Active => Disconnect::Held,
                State::Disconnected => Disconnect::Disconnected,
                other => panic!("{other:?}"),
            };
            body.end();
            left
        }))
    }

    async fn get(&self, id: SessionId) -> Result<Option<Session>> {
        found(self.granted("GET", &format!("/{id}"), "").await?)
    }

    async fn find(&self, broadcaster: &str) -> Result<Option<Session>> {
        found(self.granted("GET", &format!("/broadcasters/{}", encoded(broadcaster)), "").await?)
    }

    async fn update(
        &self,
        id: SessionId,
        value: &str,
        generation: Option<Generation>,
    ) -> Result<Granted<Generation>> {
        let body = json!({"value": to_json(value), "generation": generation.map(Generation::get)});
        let answer = self.granted("PUT", &format!("/{id}/value"), &body.to_string()).await?;
        Ok(answer.map(|mut body| {
            assert_eq!(body.text("id"), id.to_string());
            let generation = Generation::new(body.number("generation"));
            body.end();
            generation
        }))
    }

    async fn delete(&self, id: SessionId) -> Result<Granted<()>> {
        let answer = self.request("DELETE", &format!("/{id}"), "").await;
        let refusal = refusal(&answer);
        assert_eq!(answer.status == 204, refusal.is_none(), "{answer:?}");
        Ok(refusal.map_or(Ok(()), Err))
    }

    async fn orphans_after(&self, max_age: Duration, after: Option<Listed>, limit: usize) -> Result<List> {
        let query = format!("max_age={}ms", max_age.as_millis());
        self.list(&query, State::Disconnected, after, limit).await
    }

    async fn list_after(&self, state: State, after: Option<Listed>, limit: usize) -> Result<List> {
        self.list(&format!("state={}", state.as_str()), state, after, limit).await
    }

    async fn counts(&self) -> Result<Counts> {
        let mut body = self.read("/counts").await?;
        let mut counts = Counts::default();
        (counts.active, counts.disconnected) = (body.number("active"), body.number("disconnected"));
        counts.orphans = body.number("orphans");
        (counts.claimed, counts.dead) = (body.number("claimed"), body.number("dead"));
        counts.lag_ms = body.number("lag_ms");
        counts.held_until = moment(body.optional("held_until_ms"));
        body.end();
        Ok(counts)
    }

    /// Whoever counts is there.
    async fn stamp(&self) -> Result<Option<Timestamp>> {
        Ok(self.counts().await?.held_until)
    }

    async fn claim(&self, limit: usize) -> Result<Claims> {
        let body = json!({"limit": limit}).to_string();
        let mut body = self.granted("POST", "/claims", &body).await?.unwrap();
        let mut claims = Claims::default();
        claims.swept = swept(&mut body);
        claims.swept.is_more = body.flag("is_more");
        claims.claims = body.list("claims").into_iter().map(claim).collect();
        body.end();
        Ok(claims)
    }

    async fn renew(&self, id: SessionId, generation: Generation, attempt: u64) -> Result<Granted<Timestamp>> {
        let path = format!("/claims/{id}?generation={}&attempt={attempt}", generation.get());
        let answer = self.granted("PUT", &path, "").await?;
        Ok(answer.map(|mut body| {
            assert_eq!((body.text("id"), body.number("attempt")), (id.to_string(), attempt));
            assert_eq!(body.number("generation"), generation.get());
            let until = Timestamp::from_millis(body.number("until_ms"));
            body.end();
            until
        }))
    }

    async fn ack_many(&self, claims: &[(SessionId, Generation)]) -> Result<Vec<Granted<()>>> {
        let row = |(id, generation): &(SessionId, Generation)| json!({"id": id.to_string(), "generation": generation.get()});
        let body = json!({"acks": claims.iter().map(row).collect::<Vec<_>>()}).to_string();
        let mut body = self.granted("POST", "/acks", &body).await?.unwrap();
        let outcome = |(mut row, (id, generation)): (Fields, &(SessionId, Generation))| {
            assert_eq!((row.text("id"), row.number("generation")), (id.to_string(), generation.get()));
            let outcome = row.text("outcome");
            row.end();
            REFUSALS.into_iter().find(|it| it.as_str() == outcome).map_or_else(
                || {
                    assert_eq!(outcome, "deleted");
                    Ok(())
                },
                Err,
            )
        };
        let acks: Vec<Granted<()>> = body.list("acks").into_iter().zip(claims).map(outcome).collect();
        assert_eq!(acks.len(), claims.len());
        assert_eq!(body.number("deleted"), acks.iter().filter(|it| it.is_ok()).count() as u64);
        body.end();
        Ok(acks)
    }

    async fn cleanup(&self) -> Result<Swept> {
        let mut body = self.granted("POST", "/cleanup", "").await?.unwrap();
        let mut it = swept(&mut body);
        it.deleted = body.number("deleted");
        body.end();
        Ok(it)
    }

    async fn retry(&self, id: SessionId) -> Result<Granted<()>> {
        let answer = self.granted("POST", &format!("/dead/{id}/retry"), "").await?;
        Ok(answer.map(|mut body| {
            assert_eq!((body.text("id"), state(&body.text("state"))), (id.to_string(), State::Claimed));
            body.end();
        }))
    }
}

/// A session, or that there is none.
fn found(answer: Granted<Fields>) -> Result<Option<Session>> {
    match answer {
        Ok(body) => Ok(Some(session(body))),
        Err(refusal) => {
            assert_eq!(refusal, Refusal::Gone);
            Ok(None)
        }
    }
}
