//! Reservations as resources: made, then committed or released. Every request may
//! be sent twice.

use axum::body::Body;
use axum::http::StatusCode;
use schemars::SchemaGenerator;
use tidegate::Key;
use tidegate::limit::{self, ReservationState};

use super::path::{OfLimit, OfReservation, whose};
use super::take::Decided;
use crate::api::decision::Decision;
use crate::api::lasting;
use crate::api::limit::{Reservation, Reservations, Reserve, WholeCost};
use crate::http::{
    Answer, AnswerShape, Call, Described, EmptyBody, Json, Kind, Made, NoQuery, PageQuery, Problem, Result,
    Sent, Shapes,
};

pub(super) const NO_RESERVATION: Kind = Kind::new(404, "no-reservation", "No reservation");

/// Permits that are held, or a refusal as of a take.
pub(crate) struct Reserved;

impl Shapes for Reserved {
    fn shapes(schemas: &mut SchemaGenerator) -> Vec<AnswerShape> {
        let refusals = Decided::<Decision<'static>>::shapes(schemas)
            .into_iter()
            .filter(|shape| shape.status != StatusCode::OK);
        Made::<Reservation>::shapes(schemas).into_iter().chain(refusals).collect()
    }
}

pub(super) async fn reserve(call: Sent<Reserve<'static>, OfReservation>) -> Result<Described<Reserved>> {
    let served = call.app.limit(&call.path.limit)?;
    let key = call.path.key.get()?;
    let sent = call.body.parse()?;
    let (id, cost) = (&call.path.id, WholeCost::or_one(&sent.cost));
    let lasting = lasting(sent.lasting_ms, sent.lasting.as_deref())?;
    match served.limit.reserve(key, id, cost, lasting).await? {
        limit::Reserve::Held(held) => {
            let made = Made { is_new: held.is_new, value: reservation(&call.path, key, &held) };
            Ok(Described::new(made.into_response()))
        }
        limit::Reserve::Ended(ended) => Err(Problem::conflict(format!(
            "the reservation {id:?} is {}: nothing is held; use another id",
            ended.state.as_str()
        ))),
        limit::Reserve::Refused(decision) => {
            Ok(Described::new(served.to_take(key, cost, &decision).map(Body::from)))
        }
    }
}

pub(super) async fn get(call: Call<OfReservation>) -> Result<Json<Reservation>> {
    let limit = call.app.limit(&call.path.limit)?.limit;
    let key = call.path.key.get()?;
    let found = limit.reservation(key, &call.path.id).await?.ok_or_else(|| unknown(&call.path, key))?;
    Ok(Json(reservation(&call.path, key, &found)))
}

pub(super) async fn commit(call: Call<OfReservation, NoQuery, EmptyBody>) -> Result<Json<Reservation>> {
    let limit = call.app.limit(&call.path.limit)?.limit;
    let key = call.path.key.get()?;
    call.body.parse()?;
    let found = limit.commit(key, &call.path.id).await?;
    settled(&call.path, key, found, ReservationState::Committed)
}

pub(super) async fn release(call: Call<OfReservation>) -> Result<Json<Reservation>> {
    let limit = call.app.limit(&call.path.limit)?.limit;
    let key = call.path.key.get()?;
    let found = limit.release(key, &call.path.id).await?;
    settled(&call.path, key, found, ReservationState::Released)
}

pub(super) async fn list(call: Call<OfLimit, PageQuery>) -> Result<Json<Reservations>> {
    let PageQuery { after, limit: count } = &call.query;
    let page = call.app.limit(&call.path.limit)?.limit.reservations(after.as_ref(), *count).await?;
    Ok(Json(Reservations::new(call.path.limit, page)))
}

/// As it was to be, or a conflict with what it is.
fn settled(
    path: &OfReservation,
    key: Key<'_>,
    found: Option<limit::Reservation>,
    wanted: ReservationState,
) -> Result<Json<Reservation>> {
    let found = found.ok_or_else(|| unknown(path, key))?;
    match found.state == wanted {
        true => Ok(Json(reservation(path, key, &found))),
        false => Err(Problem::conflict(format!(
            "the reservation {:?} is {}: it can no longer be {}",
            path.id,
            found.state.as_str(),
            wanted.as_str()
        ))),
    }
}

fn unknown(path: &OfReservation, key: Key<'_>) -> Problem {
    let (whose, limit, id) = (whose(key), &path.limit, path.id.chars().take(64).collect::<String>());
    let detail =
        format!("{whose} has no reservation {id:?} of the limit {limit:?}, or it has been forgotten");
    Problem::new(NO_RESERVATION, detail)
}

fn reservation(path: &OfReservation, key: Key<'_>, found: &limit::Reservation) -> Reservation {
    Reservation::new(path.limit.clone(), key, path.id.clone(), found)
}
