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
                let request = Request::post("/v1/limits/take".to_owned()).json(&body);
                about(target, &limits.names(), request, render::all).await
            }
            LimitCommand::Charge { limits, whose, id, target } => {
                let body = ChargeAll { id: id.into(), key: key(whose), limits: each(limits)? };
                let request = Request::post("/v1/charges".to_owned()).json(&body);
                about(target, &limits.names(), request, render::charge).await
            }
            LimitCommand::ReleaseCharge { limits, whose, id, target } => {
                let names = limits.names();
                let limits = names.iter().copied().map(Cow::Borrowed).collect();
                let body = ReleaseAll { id: id.into(), key: key(whose), limits };
                let request = Request::post("/v1/charges/release".to_owned()).json(&body);
                about(target, &names, request, |_: Released| "released".to_owned()).await
            }
            LimitCommand::Peek { subject, cost } => {
                let request = Request::get(format!("{}?cost={cost}", key_of(subject)));
                one(subject, request, render::decision).await
            }
            LimitCommand::Refund { subject, receipt } => {
                let body = Refund { key: key(&subject.whose), receipt: receipt.into() };
                let path = format!("{}/refund", path_of(&subject.limit));
                one(subject, Request::post(path).json(&body), render::refunded).await
            }
            LimitCommand::Reset(subject) => {
                one(subject, Request::delete(key_of(subject)), |()| "reset".to_owned()).await
            }
            LimitCommand::SetOverride { subject, rate, lasting } => {
                let body = SetOverride { rate: rate.into(), lasting_ms: None, lasting: Some(lasting.into()) };
                let request = Request::put(override_of(subject)).json(&body);
                one(subject, request, render::own_rate).await
            }
            LimitCommand::GetOverride(subject) => {
                one(subject, Request::get(override_of(subject)), render::own_rate).await
            }
            LimitCommand::ClearOverride(subject) => {
                one(subject, Request::delete(override_of(subject)), |()| "cleared".to_owned()).await
            }
            LimitCommand::Reserve { subject, id, cost, lasting } => {
                let body = Reserve { cost: whole(*cost)?, lasting_ms: None, lasting: Some(lasting.into()) };
                let request = Request::put(reservation_of(subject, id)).json(&body);
                one(subject, request, render::reservation).await
            }
            LimitCommand::Commit(ReservationArgs { subject, id }) => {
                let path = format!("{}/commit", reservation_of(subject, id));
                one(subject, Request::post(path), render::reservation).await
            }
            LimitCommand::Release(ReservationArgs { subject, id }) => {
                one(subject, Request::delete(reservation_of(subject, id)), render::reservation).await
            }
            LimitCommand::Reservation(ReservationArgs { subject, id }) => {
                one(subject, Request::get(reservation_of(subject, id)), render::reservation).await
            }
            LimitCommand::Overrides(page) => {
                about(&page.target, &[&page.limit], page_of(page, "overrides"), render::overrides).await
            }
            LimitCommand::Reservations(page) => {
                about(&page.target, &[&page.limit], page_of(page, "reservations"), render::reservations).await
            }
            LimitCommand::List(target) => {
                about(target, &[], Request::get("/v1/limits".to_owned()), render::limits).await
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

fn key_of(Subject { limit, whose, .. }: &Subject) -> String {
    match &whose.key {
        Some(key) => format!("{}/keys/{}", path_of(limit), encoded(key)),
        None => format!("{}/everyone", path_of(limit)),
    }
}

fn override_of(subject: &Subject) -> String {
    format!("{}/override", key_of(subject))
}

fn reservation_of(subject: &Subject, id: &str) -> String {
    format!("{}/reservations/{}", key_of(subject), encoded(id))
}

fn page_of(PageOf { limit, count, cursor, .. }: &PageOf, what: &str) -> Request {
    let cursor = cursor.as_ref().map(|cursor| format!("&cursor={}", encoded(cursor))).unwrap_or_default();
    Request::get(format!("{}/{what}?limit={count}{cursor}", path_of(limit)))
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
