//! `tidegate limit`: the same questions to a server or straight to a store.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use axum::http::{Method, StatusCode};
use serde::Deserialize;
use serde_json::json;
use tidegate::{Cost, Key, Tidegate};

use super::args::{LimitCommand, Subject, Target};
use super::client::Server;
use super::{REJECTED, serve};
use crate::answer::Answer;
use crate::settings::{Settings, Sources};

pub(super) fn run(command: &LimitCommand) -> Result<ExitCode, String> {
    let (subject, target) = match command {
        LimitCommand::Take { subject, target, .. }
        | LimitCommand::Peek { subject, target }
        | LimitCommand::Refund { subject, target, .. }
        | LimitCommand::Reset { subject, target } => (subject, target),
    };
    let told = super::runtime()?.block_on(async {
        match target.direct() {
            Some(sources) => ask_store(&sources, command, subject).await,
            None => ask_server(target, command, subject).await,
        }
    })?;
    let mut out = std::io::stdout().lock();
    let shown = match target.json {
        true => String::from_utf8_lossy(&told).into_owned(),
        false => for_people(&told)?,
    };
    writeln!(out, "{shown}").map_err(|error| format!("cannot write the answer: {error}"))?;
    match parse(&told)?.outcome.as_deref() {
        Some("rejected") => Ok(ExitCode::from(REJECTED)),
        _ => Ok(ExitCode::SUCCESS),
    }
}

async fn ask_server(target: &Target, command: &LimitCommand, subject: &Subject) -> Result<Vec<u8>, String> {
    let server = Server::parse(&target.server)?;
    let Subject { limit, key } = subject;
    let limit = encoded(limit);
    let of_key = || format!("/v1/limits/{limit}/keys/{}", encoded(key));
    let (method, path, body) = match command {
        LimitCommand::Take { cost, rate, .. } => (
            Method::POST,
            format!("/v1/limits/{limit}/take"),
            Some(json!({"key": key, "cost": cost, "rate": rate})),
        ),
        LimitCommand::Peek { .. } => (Method::GET, of_key(), None),
        LimitCommand::Refund { receipt, .. } => (
            Method::POST,
            format!("/v1/limits/{limit}/refund"),
            Some(json!({"key": key, "receipt": receipt})),
        ),
        LimitCommand::Reset { .. } => (Method::DELETE, of_key(), None),
    };
    let body = body.map(|body| body.to_string().into_bytes());
    let (status, answer) = server.send(method, &path, body).await?;
    match status {
        StatusCode::NO_CONTENT => Ok(reset()),
        StatusCode::OK | StatusCode::TOO_MANY_REQUESTS => Ok(answer.to_vec()),
        status => Err(match serde_json::from_slice::<Told>(&answer) {
            Ok(Told { detail: Some(detail), .. }) => format!("{detail} ({status})"),
            _ => format!("{} answered {status}: is that a tidegate server?", target.server),
        }),
    }
}

async fn ask_store(sources: &Sources, command: &LimitCommand, subject: &Subject) -> Result<Vec<u8>, String> {
    let settings = Settings::load(sources).map_err(|error| error.to_string())?;
    let Some(found) = settings.limits.iter().find(|limit| limit.name.as_str() == subject.limit) else {
        let names: Vec<_> = settings.limits.iter().map(|limit| limit.name.as_str()).collect();
        return Err(format!("there is no limit {:?}; known are: {}", subject.limit, names.join(", ")));
    };
    let gate = settings.store.open().await.map_err(|error| error.to_string())?;
    // Who asks a store wants its answer, not that of an outage policy.
    gate.store().check().map_err(|error| error.to_string())?;
    let limit = serve::open_limit(&gate, found)?;
    let told = ask(&limit, command, subject).await.map_err(|error| error.to_string());
    Tidegate::shutdown(&gate).await;
    told
}

async fn ask(
    limit: &tidegate::limit::Limit,
    command: &LimitCommand,
    Subject { limit: name, key: text }: &Subject,
) -> tidegate::Result<Vec<u8>> {
    let key = Key::new(text)?;
    Ok(match command {
        LimitCommand::Take { cost, rate, .. } => {
            let cost = Cost::new(*cost)?;
            let decision = match rate {
                Some(rate) => limit.take_with(key, rate.parse()?, cost).await?,
                None => limit.take(key, cost).await?,
            };
            Answer::to_take(name, text, cost.get(), &decision).to_json()
        }
        LimitCommand::Peek { .. } => {
            Answer::plain(name, text, Cost::ONE.get(), &limit.peek(key).await?).to_json()
        }
        LimitCommand::Refund { receipt, .. } => {
            let refunded = limit.refund(key, receipt.parse()?).await?;
            json!({ "refunded": refunded }).to_string().into_bytes()
        }
        LimitCommand::Reset { .. } => {
            limit.reset(key).await?;
            reset()
        }
    })
}

fn reset() -> Vec<u8> {
    json!({"reset": true}).to_string().into_bytes()
}

/// One part of a path, whatever is in it.
fn encoded(part: &str) -> String {
    let mut encoded = String::with_capacity(part.len());
    for byte in part.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'~' => {
                encoded.push(char::from(byte));
            }
            // Dots too, so that no part is `..`. Writing to a String cannot fail.
            byte => drop(write!(encoded, "%{byte:02X}")),
        }
    }
    encoded
}

/// What is told, as far as people are told it.
#[derive(Debug, Deserialize)]
struct Told {
    outcome: Option<String>,
    detail: Option<String>,
    source: Option<String>,
    cost: Option<u64>,
    capacity: Option<u64>,
    remaining: Option<u64>,
    reset_after_ms: Option<u64>,
    retry_after_ms: Option<u64>,
    receipt: Option<String>,
    refunded: Option<u64>,
}

fn parse(told: &[u8]) -> Result<Told, String> {
    serde_json::from_slice(told).map_err(|error| format!("an answer that is none of ours: {error}"))
}

fn for_people(told: &[u8]) -> Result<String, String> {
    let told = parse(told)?;
    if let Some(refunded) = told.refunded {
        return Ok(match refunded {
            0 => "nothing was given back: the charge no longer counts".to_owned(),
            refunded => format!("{refunded} given back"),
        });
    }
    let Some(outcome) = &told.outcome else { return Ok("reset".to_owned()) };
    let [cost, capacity, remaining, reset] =
        [told.cost, told.capacity, told.remaining, told.reset_after_ms].map(Option::unwrap_or_default);
    let mut text = format!("{outcome}: {remaining} of {capacity} left");
    let time = |ms| humantime::format_duration(Duration::from_millis(ms));
    if outcome == "rejected" {
        text += &match told.retry_after_ms {
            Some(ms) => format!(", {cost} will fit in {}", time(ms)),
            None => format!(", {cost} will never fit"),
        };
    } else if reset > 0 {
        text += &format!(", all free again in {}", time(reset));
    }
    match told.source.as_deref() {
        Some("local") => text += " (by a local share: the store is away)",
        Some("policy") => text += " (by policy, not knowing what was used)",
        _ => {}
    }
    if let Some(receipt) = told.receipt {
        text += &format!("\nreceipt {receipt}");
    }
    Ok(text)
}
