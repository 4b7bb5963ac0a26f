//! Runs: the quota of a family of pipelines.

#[cfg(feature = "redis")]
mod quota;

#[cfg(feature = "redis")]
pub(crate) use self::quota::{DEFAULT_FAMILY, Quotas};
#[cfg(feature = "redis")]
pub use self::quota::{
    Quota, QuotaCharge, QuotaHour, QuotaKind, QuotaOptions, QuotaRefusal, QuotaStatus, QuotaUse,
};
