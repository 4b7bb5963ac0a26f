//! The quota of a family of runs: what is left of it, charges by id, and what is given back.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tidegate::limit::Release;
use tidegate::run::{QuotaCharge, QuotaRefusal};

use super::api_quota::{Charge, Charged, Quota, Released};
use crate::api::limit::WholeCost;
use crate::api::{key, pattern};
use crate::http::{Call, Json, Kind, Made, NoQuery, OfSpace, OptionalBody, Problem, Result};

pub(super) const EXCEEDED: Kind = Kind::new(429, "run-quota-exceeded", "Over the quota");
pub(super) const RELEASED: Kind = Kind::new(409, "run-charge-released", "Charge released");
pub(super) const UNKNOWN_CHARGE: Kind = Kind::new(404, "run-unknown-charge", "No such charge");

/// `…/quota/charges/{id}`.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct OfCharge {
    #[schemars(extend("pattern" = pattern::NAME))]
    space: String,
    #[schemars(length(min = 1, max = 255))]
    id: String,
}

impl OfCharge {
    fn id(&self) -> Result<&str> {
        key("an id", &self.id)?;
        Ok(&self.id)
    }
}

pub(super) async fn get(call: Call<OfSpace>) -> Result<Json<Quota>> {
    let open = call.app.parts().runs.get(&call.path.space)?;
    let quota = open.quota()?;
    let status = quota.status().await?;
    Ok(Json(Quota::new(open.runs.space().as_str(), &quota.options().prefix, &status)))
}

pub(super) async fn charge(call: Call<OfCharge, NoQuery, OptionalBody<Charge>>) -> Result<Made<Charged>> {
    let open = call.app.parts().runs.get(&call.path.space)?;
    let (id, cost) = (call.path.id()?, WholeCost::or_one(&call.body.parse()?.cost));
    match open.quota()?.charge(cost, Some(id)).await? {
        QuotaCharge::Charged { is_new, remaining } => {
            let value = Charged::new(open.runs.space().as_str(), id, cost, is_new, remaining);
            Ok(Made { is_new, value })
        }
        QuotaCharge::Released => {
            let detail = format!("the charge {id:?} has been released: nothing is charged; use another id");
            Err(Problem::refused(RELEASED, "released", detail))
        }
        QuotaCharge::Refused(refusal) => Err(exceeded(cost.get(), &refusal)),
    }
}

fn exceeded(cost: u64, refusal: &QuotaRefusal) -> Problem {
    let QuotaRefusal { remaining, retry_after_ms, by, .. } = *refusal;
    let when = match retry_after_ms {
        Some(ms) => format!("again in {ms} ms"),
        None => "never, it is above the quota".to_owned(),
    };
    let detail = format!("{cost} are refused by the quota ({}), {remaining} are left: {when}", by.as_str());
    let members = json!({"remaining": remaining, "retry_after_ms": retry_after_ms, "by": by.as_str()});
    Problem::refused(EXCEEDED, "quota_exceeded", detail).with_members(members).retry_after(retry_after_ms)
}

pub(super) async fn release(call: Call<OfCharge>) -> Result<Json<Released>> {
    let open = call.app.parts().runs.get(&call.path.space)?;
    let id = call.path.id()?;
    match open.quota()?.release(id).await? {
        Release::Released { is_new } => Ok(Json(Released::new(open.runs.space().as_str(), id, is_new))),
        Release::Unknown => {
            let detail = format!("there is no charge {id:?}, or it has been forgotten");
            Err(Problem::refused(UNKNOWN_CHARGE, "unknown_charge", detail))
        }
    }
}
