//! What a limit has of overrides and pending reservations, page by page.

use axum::http::StatusCode;
use serde::Serialize;
use tidegate::limit::{Cursor, KeyOverride, KeyReservation, MAX_PAGE, Page};

use super::extract::Call;
use super::limits::Answered;
use super::metrics::Operation;
use super::problem::Problem;
use super::query::{FromQuery, Query};
use super::reply::json;

/// How many are told unless asked otherwise.
const LIMIT: usize = 100;

/// An override of a key; `null` is no subject at all.
#[derive(Serialize)]
struct OverrideRow {
    key: Option<String>,
    rate: String,
    lasting_ms: u64,
}

/// A pending reservation.
#[derive(Serialize)]
struct ReservationRow {
    key: Option<String>,
    id: String,
    cost: u64,
    expires_in_ms: u64,
}

pub(super) async fn overrides(call: Call<String, PageQuery>) -> Answered {
    #[derive(Serialize)]
    struct Overrides<'a> {
        limit: &'a str,
        overrides: Vec<OverrideRow>,
        next: Option<String>,
    }
    let _timed = call.timed(Operation::Override);
    let PageQuery { after, count } = &call.query;
    let Page { items, next } = call.app.limit(&call.path)?.limit.overrides(after.as_ref(), *count).await?;
    let row = |KeyOverride { key, rate, lasting }| OverrideRow {
        key: subject(key),
        rate: rate.to_string(),
        // At most 90 days.
        lasting_ms: lasting.as_millis() as u64,
    };
    let (overrides, next) = (items.into_iter().map(row).collect(), next.map(|next| next.to_string()));
    Ok(json(StatusCode::OK, &Overrides { limit: &call.path, overrides, next }))
}

pub(super) async fn reservations(call: Call<String, PageQuery>) -> Answered {
    #[derive(Serialize)]
    struct Reservations<'a> {
        limit: &'a str,
        reservations: Vec<ReservationRow>,
        next: Option<String>,
    }
    let _timed = call.timed(Operation::Reservation);
    let PageQuery { after, count } = &call.query;
    let Page { items, next } = call.app.limit(&call.path)?.limit.reservations(after.as_ref(), *count).await?;
    let row = |KeyReservation { key, id, reservation }| ReservationRow {
        key: subject(key),
        id,
        cost: reservation.cost,
        expires_in_ms: reservation.expires_in_ms,
    };
    let (reservations, next) = (items.into_iter().map(row).collect(), next.map(|next| next.to_string()));
    Ok(json(StatusCode::OK, &Reservations { limit: &call.path, reservations, next }))
}

fn subject(key: String) -> Option<String> {
    Some(key).filter(|key| !key.is_empty())
}

/// Where a page begins, and how many it may have.
#[derive(Debug)]
pub(super) struct PageQuery {
    after: Option<Cursor>,
    count: usize,
}

impl FromQuery for PageQuery {
    const NAMES: &'static [&'static str] = &["limit", "cursor"];

    fn from_query(query: &Query) -> Result<Self, Problem> {
        let count = query.read("limit", |text| {
            let count = text.parse().ok().filter(|count| (1..=MAX_PAGE).contains(count));
            count.ok_or_else(|| format!("{text:?} is not allowed: whole numbers from 1 to {MAX_PAGE} are"))
        })?;
        let read = |text: &str| text.parse().map_err(|error: tidegate::Error| error.to_string());
        Ok(Self { after: query.read("cursor", read)?, count: count.unwrap_or(LIMIT) })
    }
}
