//! Charges by an id: several limits at once, once however often they are sent, and given back by the id.

use axum::http::StatusCode;
use axum::response::Response;
use schemars::SchemaGenerator;
use tidegate::Name;
use tidegate::limit::{self, AllCharge, Quota, Release};

use super::path::whose;
use super::take::{Decided, Taken, response};
use crate::api::charge::{Charge, ChargeAll, ChargedLimit, ReleaseAll, Released};
use crate::api::decision::AllDecision;
use crate::api::limit::WholeCost;
use crate::http::{Answer, AnswerShape, Fields, Json, Kind, Made, NoPath, Problem, Result, Sent, Shapes};

pub(super) const NO_CHARGE: Kind = Kind::new(404, "no-charge", "No charge");

/// What is charged, with the fields of its limits, or a refusal as of a take.
pub(crate) enum Charged {
    Charged(Made<Charge>, Fields),
    Refused(Taken<AllDecision<'static>>),
}

impl Answer for Charged {
    fn into_response(self) -> Response {
        match self {
            Self::Charged(made, fields) => {
                let mut response = made.into_response();
                fields.insert_into(response.headers_mut());
                response
            }
            Self::Refused(refused) => refused.into_response(),
        }
    }
}

impl Shapes for Charged {
    fn shapes(schemas: &mut SchemaGenerator) -> Vec<AnswerShape> {
        let refusals = Decided::<AllDecision<'static>>::shapes(schemas)
            .into_iter()
            .filter(|shape| shape.status != StatusCode::OK);
        Made::<Charge>::shapes(schemas).into_iter().chain(refusals).collect()
    }
}

pub(super) async fn charge(call: Sent<ChargeAll<'static>, NoPath>) -> Result<Charged> {
    let sent = call.body.parse()?;
    let named =
        sent.limits.iter().map(|one| Ok((call.app.limit(&one.limit)?.limit, WholeCost::or_one(&one.cost))));
    let limits: Vec<_> = named.collect::<Result<_>>()?;
    let (id, key) = (&*sent.id, sent.key.key()?);
    match call.app.gate().charge_all(key, &limits, id).await? {
        AllCharge::Charged { is_new, quotas } => {
            let mut fields = Fields::default();
            quotas.iter().for_each(|(name, quota)| fields.add(name.as_str(), quota));
            let one = |((name, quota), (_, cost)): (&(Name, Quota), &(&limit::Limit, _))| {
                ChargedLimit::new(name.as_str(), *cost, quota)
            };
            let value = Charge::new(id, key, quotas.iter().zip(&limits).map(one).collect());
            Ok(Charged::Charged(Made { is_new, value }, fields))
        }
        AllCharge::Released => {
            let id: String = id.chars().take(64).collect();
            Err(Problem::conflict(format!(
                "the charge {id:?} is released: nothing is charged; use another id"
            )))
        }
        AllCharge::Refused(decision) => Ok(Charged::Refused(Taken::new(response(key, &decision, &limits)))),
    }
}

pub(super) async fn release(call: Sent<ReleaseAll<'static>, NoPath>) -> Result<Json<Released>> {
    let sent = call.body.parse()?;
    let named = sent.limits.iter().map(|name| Ok(call.app.limit(name)?.limit));
    let limits: Vec<_> = named.collect::<Result<_>>()?;
    let (id, key) = (&*sent.id, sent.key.key()?);
    match call.app.gate().release_all(key, &limits, id).await? {
        Release::Released { is_new } => Ok(Json(Released::new(id, key, is_new))),
        Release::Unknown => {
            let (whose, id) = (whose(key), id.chars().take(64).collect::<String>());
            let detail = format!("{whose} has no charge {id:?} under these limits, or it has been forgotten");
            Err(Problem::new(NO_CHARGE, detail))
        }
    }
}
