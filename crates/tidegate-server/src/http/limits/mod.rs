//! Limits: a file each for takes from one or several ([`take`]), charges by
//! an id ([`charges`]), what a key has used ([`keys`]), its own rate ([`overrides`]), what is held
//! for it ([`reservations`]), and the limits themselves ([`list`]).

pub(crate) mod api;
pub(crate) mod api_charge;
mod charges;
pub(crate) mod decision;
mod keys;
mod list;
mod overrides;
mod path;
mod reservations;
mod settings;
mod take;

use axum::{Router, routing};

use self::charges::NO_CHARGE;
use self::overrides::NO_OVERRIDE;
use self::path::{OfLimit, empty_key};
use self::reservations::NO_RESERVATION;
use super::{App, Call, Kind, ON_STORE, Operation, Problem, Result, Routes, delete, get, post, put};

pub(super) const ROUTES: Routes = Routes { part: "limits", operations, empty_names, problems: ON_STORE };

/// The operations.
fn operations() -> Vec<Operation> {
    vec![
        post("/v1/limits/{limit}/take", "take", take::take)
            .summary("Charge a key, if it fits")
            .example(r#"{"key":"user_123","cost":1}"#),
        post("/v1/limits/take", "take_all", take::take_all)
            .summary("Charge a key under several limits, or under none of them")
            .example(r#"{"key":"user_123","limits":[{"limit":"api","cost":1}]}"#)
            .refuses(&[Kind::UNKNOWN_LIMIT]),
        post("/v1/charges", "charge_all", charges::charge)
            .summary(
                "Charge a key under several limits, or under none of them, by an id; sent twice it charges once",
            )
            .example(r#"{"id":"order-17","key":"user_123","limits":[{"limit":"api","cost":1}]}"#)
            .refuses(&[Kind::UNKNOWN_LIMIT, Kind::CONFLICT]),
        post("/v1/charges/release", "release_all", charges::release)
            .summary("Give back what an id has charged")
            .example(r#"{"id":"order-17","key":"user_123","limits":["api"]}"#)
            .refuses(&[Kind::UNKNOWN_LIMIT, NO_CHARGE, Kind::CONFLICT]),
        get("/v1/limits/{limit}/keys/{key}", "peek", keys::peek)
            .summary("Where a key stands; charges nothing"),
        post("/v1/limits/{limit}/refund", "refund", keys::refund)
            .summary("Give back what a take has charged")
            .example(r#"{"key":"user_123","receipt":"..."}"#),
        delete("/v1/limits/{limit}/keys/{key}", "reset", keys::reset)
            .summary("Forget what a key has used")
            .admin(),
        put("/v1/limits/{limit}/keys/{key}/override", "set_override", overrides::set)
            .summary("Judge a key by a rate of its own for a while")
            .example(r#"{"rate":"50/s","lasting":"1h"}"#)
            .admin(),
        get("/v1/limits/{limit}/keys/{key}/override", "get_override", overrides::get)
            .summary("The rate of a key's own")
            .refuses(&[NO_OVERRIDE]),
        delete("/v1/limits/{limit}/keys/{key}/override", "clear_override", overrides::clear)
            .summary("End the rate of a key's own")
            .admin(),
        put("/v1/limits/{limit}/keys/{key}/reservations/{id}", "reserve", reservations::reserve)
            .summary("Hold permits until they are committed or released; sent twice it holds them once")
            .example(r#"{"cost":3,"lasting":"30s"}"#)
            .refuses(&[Kind::CONFLICT]),
        get("/v1/limits/{limit}/keys/{key}/reservations/{id}", "get_reservation", reservations::get)
            .summary("What became of a reservation")
            .refuses(&[NO_RESERVATION]),
        post("/v1/limits/{limit}/keys/{key}/reservations/{id}/commit", "commit", reservations::commit)
            .summary("Spend what is held")
            .refuses(&[NO_RESERVATION, Kind::CONFLICT]),
        delete("/v1/limits/{limit}/keys/{key}/reservations/{id}", "release", reservations::release)
            .summary("Give back what is held")
            .refuses(&[NO_RESERVATION, Kind::CONFLICT]),
        get("/v1/limits/{limit}/overrides", "list_overrides", overrides::list)
            .summary("The overrides of all keys, page by page")
            .example("?limit=100"),
        get("/v1/limits/{limit}/reservations", "list_reservations", reservations::list)
            .summary("The pending reservations of all keys, page by page")
            .example("?limit=100"),
        get("/v1/limits", "list_limits", list::list).summary("The limits and their numbers"),
        get("/v1/limits/{limit}", "get_limit", list::one).summary("A limit and its numbers"),
    ]
}

fn empty_names(router: Router<App>) -> Router<App> {
    router.route("/v1/limits/{limit}/keys/", routing::get(no_key).delete(no_key))
}

/// What deserves a better answer than that there is nothing at `path`.
pub(super) fn explain(path: &str) -> Option<Problem> {
    path.contains("/keys//").then(empty_key)
}

async fn no_key(call: Call<OfLimit>) -> Result<()> {
    call.app.limit(&call.path.limit)?;
    Err(empty_key())
}
