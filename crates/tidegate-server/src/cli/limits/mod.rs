//! `tidegate limit`: the same requests to a server or straight to a store.

pub(super) mod args;
mod render;

use std::borrow::Cow;
use std::process::ExitCode;

use serde::de::DeserializeOwned;
use tidegate::store::PartKind;

use self::args::{Costs, LimitCommand, PageOf, ReservationArgs, Subject, Whose};
use super::send;
use super::{Rendered, Request, Target, TargetArgs, encoded};
use crate::api::Invalid;
use crate::api::charge::{ChargeAll, ReleaseAll, Released};
use crate::api::limit::{self as api, Refund, Reserve, SetOverride, Take, TakeAll, TakeOne, WholeCost};
use crate::parts::Access;

pub(super) fn run(command: &LimitCommand) -> Result<ExitCode, String> {
    super::runtime()?.block_on(async {
        match command {
            LimitCommand::Take { subject, cost, rate } => {
                let rate = rate.as_deref().map(Cow::Borrowed);
                let body = Take { key: key(&subject.whose), cost: whole(*cost)?, rate };
                let request = Request::post(format!("{}/take", path_of(&subject.limit))).json(&body);
                one(subject, request, render::decision).await
            }
            LimitCommand::TakeAll { limits, whose, target } => {
                let body = TakeAll { key: key(whose), limits: each(limits)? };
                let request = Request::post("/v1/limits/take").json(&body);
                about(target, &limits.names(), request, render::all).await
            }
            LimitCommand::Charge { limits, whose, id, target } => {
                let body = ChargeAll { id: id.into(), key: key(whose), limits: each(limits)? };
                let request = Request::post("/v1/charges").json(&body);
                about(target, &limits.names(), request, render::charge).await
            }
            LimitCommand::ReleaseCharge { limits, whose, id, target } => {
                let names = limits.names();
                let limits = names.iter().copied().map(Cow::Borrowed).collect();
                let body = ReleaseAll { id: id.into(), key: key(whose), limits };
                let request = Request::post("/v1/charges/release").json(&body);
                about(target, &names, request, |_: Released| "released".to_owned()).await
            }
            LimitCommand::Peek { subject, cost } => {
                one(subject, Request::get(below(subject, "")).with("cost", Some(cost)), render::decision)
                    .await
            }
            LimitCommand::Refund { subject, receipt } => {
                let body = Refund { key: key(&subject.whose), receipt: receipt.into() };
                let request = Request::post(format!("{}/refund", path_of(&subject.limit))).json(&body);
                one(subject, request, render::refunded).await
            }
            LimitCommand::Reset(it) => one(it, Request::delete(below(it, "")), |()| "reset".to_owned()).await,
            LimitCommand::SetOverride { subject, rate, lasting } => {
                let body = SetOverride { rate: rate.into(), lasting_ms: None, lasting: Some(lasting.into()) };
                one(subject, Request::put(below(subject, "/override")).json(&body), render::own_rate).await
            }
            LimitCommand::GetOverride(it) => {
                one(it, Request::get(below(it, "/override")), render::own_rate).await
            }
            LimitCommand::ClearOverride(it) => {
                one(it, Request::delete(below(it, "/override")), |()| "cleared".to_owned()).await
            }
            LimitCommand::Reserve { subject, id, cost, lasting } => {
                let body = Reserve { cost: whole(*cost)?, lasting_ms: None, lasting: Some(lasting.into()) };
                one(subject, Request::put(reserved(subject, id)).json(&body), render::reservation).await
            }
            LimitCommand::Commit(it) => settle(it, |path| Request::post(path + "/commit")).await,
            LimitCommand::Release(it) => settle(it, Request::delete).await,
            LimitCommand::Reservation(it) => settle(it, Request::get).await,
            LimitCommand::Overrides(page) => list(page, "overrides", render::overrides).await,
            LimitCommand::Reservations(page) => list(page, "reservations", render::reservations).await,
            LimitCommand::List(target) => {
                about(target, &[], Request::get("/v1/limits"), render::limits).await
            }
        }
    })
}

/// Several limits, as they are asked for.
fn each(limits: &Costs) -> Result<Vec<TakeOne<'static>>, String> {
    let one =
        |(limit, cost): &(String, u64)| Ok(TakeOne { limit: limit.clone().into(), cost: whole(*cost)? });
    limits.0.iter().map(one).collect()
}

fn whole(cost: u64) -> Result<Option<WholeCost>, String> {
    WholeCost::new(cost).map(Some).map_err(|Invalid(why)| why)
}

fn key(Whose { key, .. }: &Whose) -> api::Subject<'_> {
    api::Subject(key.as_deref().map(Cow::Borrowed))
}

fn path_of(limit: &str) -> String {
    format!("/v1/limits/{}", encoded(limit))
}

/// What is below a key, or below what everyone shares.
fn below(Subject { limit, whose, .. }: &Subject, what: &str) -> String {
    let whose = whose.key.as_ref().map_or("everyone".to_owned(), |key| format!("keys/{}", encoded(key)));
    format!("{}/{whose}{what}", path_of(limit))
}

fn reserved(subject: &Subject, id: &str) -> String {
    below(subject, &format!("/reservations/{}", encoded(id)))
}

/// One request about a reservation that there may be.
async fn settle(
    ReservationArgs { subject, id }: &ReservationArgs,
    request: impl FnOnce(String) -> Request,
) -> Result<ExitCode, String> {
    one(subject, request(reserved(subject, id)), render::reservation).await
}

/// A page of what a limit has.
async fn list<T: DeserializeOwned>(
    PageOf { limit, count, cursor, target }: &PageOf,
    what: &str,
    render: impl FnOnce(T) -> String,
) -> Result<ExitCode, String> {
    let request = Request::get(format!("{}/{what}", path_of(limit)));
    let request = request.with("limit", Some(count)).with("cursor", cursor.as_ref());
    about(target, &[limit], request, render).await
}

/// One request about a limit.
async fn one<T: DeserializeOwned, R: Into<Rendered>>(
    subject: &Subject,
    request: Request,
    render: impl FnOnce(T) -> R,
) -> Result<ExitCode, String> {
    about(&subject.target, &[&subject.limit], request, render).await
}

/// One request about several.
async fn about<T: DeserializeOwned, R: Into<Rendered>>(
    args: &TargetArgs,
    limits: &[&str],
    request: Request,
    render: impl FnOnce(T) -> R,
) -> Result<ExitCode, String> {
    let parts: Vec<_> = limits.iter().map(|limit| (PartKind::Limit, *limit)).collect();
    let target = Target::open(args, &parts, Access::Write).await?;
    send::send_to(target, args.json, request, render, render::refusal).await
}
