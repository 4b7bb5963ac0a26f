//! Reservations as resources: made, then committed or released. Every request may
//! be sent twice.

use axum::body::Body;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;
use tidegate::Key;
use tidegate::limit::{Reservation, ReservationState, Reserve};

use super::ask;
use super::extract::{Call, Sent};
use super::limits::Answered;
use super::metrics::Operation;
use super::path::Named;
use super::problem::Problem;
use super::reply::json;
use crate::answer;

pub(super) async fn reserve(call: Call<Named>, sent: Sent) -> Answered {
    let _timed = call.timed(Operation::Reservation);
    let named = &call.path;
    let served = call.app.limit(&named.subject.limit)?;
    let key = named.subject.key()?;
    let ask: ask::Reserve<'_> = sent.parse()?;
    let cost = ask.cost();
    match served.limit.reserve(key, &named.id, cost, ask.lasting()?).await? {
        Reserve::Held(held) => {
            let status = if held.is_new { StatusCode::CREATED } else { StatusCode::OK };
            Ok(told(status, named, key, &held))
        }
        Reserve::Ended(ended) => Err(Problem::conflict(format!(
            "the reservation {:?} is {}: nothing is held; use another id",
            named.id,
            ended.state.as_str()
        ))),
        Reserve::Refused(decision) => Ok(served.to_take(key, cost, &decision).map(Body::from)),
    }
}

pub(super) async fn get(call: Call<Named>) -> Answered {
    let _timed = call.timed(Operation::Reservation);
    let named = &call.path;
    let limit = &call.app.limit(&named.subject.limit)?.limit;
    let key = named.subject.key()?;
    let found = limit.reservation(key, &named.id).await?.ok_or_else(|| unknown(named, key))?;
    Ok(told(StatusCode::OK, named, key, &found))
}

pub(super) async fn commit(call: Call<Named>, sent: Sent) -> Answered {
    let _timed = call.timed(Operation::Reservation);
    let named = &call.path;
    let limit = &call.app.limit(&named.subject.limit)?.limit;
    let key = named.subject.key()?;
    sent.check_empty()?;
    let found = limit.commit(key, &named.id).await?;
    settled(named, key, found, ReservationState::Committed)
}

pub(super) async fn release(call: Call<Named>) -> Answered {
    let _timed = call.timed(Operation::Reservation);
    let named = &call.path;
    let limit = &call.app.limit(&named.subject.limit)?.limit;
    let key = named.subject.key()?;
    let found = limit.release(key, &named.id).await?;
    settled(named, key, found, ReservationState::Released)
}

/// As it was to be, or a conflict with what it is.
fn settled(named: &Named, key: Key<'_>, found: Option<Reservation>, wanted: ReservationState) -> Answered {
    let found = found.ok_or_else(|| unknown(named, key))?;
    match found.state == wanted {
        true => Ok(told(StatusCode::OK, named, key, &found)),
        false => Err(Problem::conflict(format!(
            "the reservation {:?} is {}: it can no longer be {}",
            named.id,
            found.state.as_str(),
            wanted.as_str()
        ))),
    }
}

fn unknown(named: &Named, key: Key<'_>) -> Problem {
    Problem::no_reservation(&named.subject.limit, key, &named.id)
}

fn told(status: StatusCode, named: &Named, key: Key<'_>, found: &Reservation) -> Response {
    #[derive(Serialize)]
    struct Told<'a> {
        limit: &'a str,
        key: Option<&'a str>,
        id: &'a str,
        cost: u64,
        state: &'static str,
        expires_in_ms: u64,
    }
    let Reservation { cost, state, expires_in_ms, .. } = *found;
    let told = Told {
        limit: &named.subject.limit,
        key: answer::subject(key),
        id: &named.id,
        cost,
        state: state.as_str(),
        expires_in_ms,
    };
    json(status, &told)
}
