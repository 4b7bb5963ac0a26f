//! What a limit has of overrides and pending reservations, page by page.

use axum::extract::State;
use axum::http::{StatusCode, Uri};
use serde::Serialize;
use tidegate::limit::{Cursor, KeyOverride, KeyReservation, MAX_PAGE, Page};

use super::App;
use super::limits::Answered;
use super::metrics::Operation;
use super::path::{Found, decoded};
use super::problem::Problem;
use super::query::Query;
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

pub(super) async fn overrides(State(app): State<App>, path: Found<String>, uri: Uri) -> Answered {
    #[derive(Serialize)]
    struct Overrides {
        limit: String,
        overrides: Vec<OverrideRow>,
        next: Option<String>,
    }
    let _timed = app.metrics().timed(Operation::Override);
    let limit = decoded(path)?;
    let (after, count) = place(&uri)?;
    let Page { items, next } = app.limit(&limit)?.limit.overrides(after.as_ref(), count).await?;
    let row = |KeyOverride { key, rate, lasting }| OverrideRow {
        key: subject(key),
        rate: rate.to_string(),
        // At most 90 days.
        lasting_ms: lasting.as_millis() as u64,
    };
    let (overrides, next) = (items.into_iter().map(row).collect(), next.map(|next| next.to_string()));
    Ok(json(StatusCode::OK, &Overrides { limit, overrides, next }))
}

pub(super) async fn reservations(State(app): State<App>, path: Found<String>, uri: Uri) -> Answered {
    #[derive(Serialize)]
    struct Reservations {
        limit: String,
        reservations: Vec<ReservationRow>,
        next: Option<String>,
    }
    let _timed = app.metrics().timed(Operation::Reservation);
    let limit = decoded(path)?;
    let (after, count) = place(&uri)?;
    let Page { items, next } = app.limit(&limit)?.limit.reservations(after.as_ref(), count).await?;
    let row = |KeyReservation { key, id, reservation }| ReservationRow {
        key: subject(key),
        id,
        cost: reservation.cost,
        expires_in_ms: reservation.expires_in_ms,
    };
    let (reservations, next) = (items.into_iter().map(row).collect(), next.map(|next| next.to_string()));
    Ok(json(StatusCode::OK, &Reservations { limit, reservations, next }))
}

fn subject(key: String) -> Option<String> {
    Some(key).filter(|key| !key.is_empty())
}

/// Where a page begins, and how many it may have.
fn place(uri: &Uri) -> Result<(Option<Cursor>, usize), Problem> {
    let query = Query::parse(uri.query(), &["limit", "cursor"])?;
    let count = query.read("limit", |text| {
        let count = text.parse().ok().filter(|count| (1..=MAX_PAGE).contains(count));
        count.ok_or_else(|| format!("{text:?} is not allowed: whole numbers from 1 to {MAX_PAGE} are"))
    })?;
    let after =
        query.read("cursor", |text| text.parse().map_err(|error: tidegate::Error| error.to_string()))?;
    Ok((after, count.unwrap_or(LIMIT)))
}
