//! What a command about limits asks, as the HTTP request that asks it.

use std::borrow::Cow;

use axum::http::Method;

use super::args::{LimitCommand, PageOf, Subject, Whose};
use crate::api::Invalid;
use crate::api::limit::{self as api, Refund, Reserve, SetOverride, Take, TakeAll, TakeOne, WholeCost};
use crate::cli::request::{Request, encoded};

/// The request that a command is.
pub(super) fn request(command: &LimitCommand) -> Result<Request, Invalid> {
    Ok(match command {
        LimitCommand::Take { subject: Subject { limit, whose }, cost, rate, .. } => {
            let body = Take {
                key: key(whose),
                cost: Some(WholeCost::new(*cost)?),
                rate: rate.as_deref().map(Cow::Borrowed),
            };
            Request::with(Method::POST, format!("/v1/limits/{}/take", encoded(limit)), &body)
        }
        LimitCommand::TakeAll { limits, whose, .. } => {
            let one = |(limit, cost): &(String, u64)| {
                Ok(TakeOne { limit: limit.clone().into(), cost: Some(WholeCost::new(*cost)?) })
            };
            let limits = limits.0.iter().map(one).collect::<Result<_, Invalid>>()?;
            let body = TakeAll { key: key(whose), limits };
            Request::with(Method::POST, "/v1/limits/take".to_owned(), &body)
        }
        LimitCommand::Peek { subject, cost, .. } => Request::get(format!("{}?cost={cost}", path_of(subject))),
        LimitCommand::Refund { subject: Subject { limit, whose }, receipt, .. } => {
            let body = Refund { key: key(whose), receipt: receipt.into() };
            Request::with(Method::POST, format!("/v1/limits/{}/refund", encoded(limit)), &body)
        }
        LimitCommand::Reset { subject, .. } => Request::new(Method::DELETE, path_of(subject)),
        LimitCommand::SetOverride { subject, rate, lasting, .. } => {
            let body = SetOverride { rate: rate.into(), lasting_ms: None, lasting: Some(lasting.into()) };
            Request::with(Method::PUT, override_of(subject), &body)
        }
        LimitCommand::GetOverride { subject, .. } => Request::get(override_of(subject)),
        LimitCommand::ClearOverride { subject, .. } => Request::new(Method::DELETE, override_of(subject)),
        LimitCommand::Reserve { subject, id, cost, lasting, .. } => {
            let cost = Some(WholeCost::new(*cost)?);
            let body = Reserve { cost, lasting_ms: None, lasting: Some(lasting.into()) };
            Request::with(Method::PUT, reservation_of(subject, id), &body)
        }
        LimitCommand::Commit { subject, id, .. } => {
            Request::new(Method::POST, format!("{}/commit", reservation_of(subject, id)))
        }
        LimitCommand::Release { subject, id, .. } => {
            Request::new(Method::DELETE, reservation_of(subject, id))
        }
        LimitCommand::Reservation { subject, id, .. } => Request::get(reservation_of(subject, id)),
        LimitCommand::Overrides { page, .. } => Request::get(page_of(page, "overrides")),
        LimitCommand::Reservations { page, .. } => Request::get(page_of(page, "reservations")),
        LimitCommand::List { .. } => Request::get("/v1/limits".to_owned()),
    })
}

fn key(Whose { key, .. }: &Whose) -> api::Subject<'_> {
    api::Subject(key.as_deref().map(Cow::Borrowed))
}

fn path_of(Subject { limit, whose }: &Subject) -> String {
    let limit = encoded(limit);
    match &whose.key {
        Some(key) => format!("/v1/limits/{limit}/keys/{}", encoded(key)),
        None => format!("/v1/limits/{limit}/everyone"),
    }
}

fn page_of(PageOf { limit, count, cursor }: &PageOf, what: &str) -> String {
    let cursor = cursor.as_ref().map(|cursor| format!("&cursor={}", encoded(cursor))).unwrap_or_default();
    format!("/v1/limits/{}/{what}?limit={count}{cursor}", encoded(limit))
}

fn override_of(subject: &Subject) -> String {
    format!("{}/override", path_of(subject))
}

fn reservation_of(subject: &Subject, id: &str) -> String {
    format!("{}/reservations/{}", path_of(subject), encoded(id))
}
