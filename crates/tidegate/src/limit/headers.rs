//! What HTTP says of a decision, as text: the fields `RateLimit-Policy`,
//! `RateLimit` and `Retry-After`, and the problem that a refusal is.
//!
//! The server and the tower layer say the same because both say what is written
//! here. It is text alone: which HTTP library sends it, this module does not know.

use super::{Cause, Decision, Quota, Source};
use crate::outage::ClosedStatus;

/// The field that names a limit and its numbers.
pub const RATELIMIT_POLICY: &str = "ratelimit-policy";

/// The field that tells where the key stands.
pub const RATELIMIT: &str = "ratelimit";

/// The media type of a problem (RFC 9457).
pub const PROBLEM_JSON: &str = "application/problem+json";

/// The type of problem that a refusal is, as the draft on `RateLimit` header
/// fields registers it.
pub const QUOTA_EXCEEDED: &str = "https://iana.org/assignments/http-problem-types#quota-exceeded";

/// The title of that problem.
pub const QUOTA_EXCEEDED_TITLE: &str = "Quota exceeded";

/// The type of problem that a refusal is whose store is away.
pub const STORE_AWAY: &str = "urn:tidegate:problem:store-away";

/// The type of problem that a refusal is whose store lost writes.
pub const STORE_LOSS: &str = "urn:tidegate:problem:store-loss";

/// Which problem a refusal is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Refusal {
    /// Its type.
    pub r#type: &'static str,
    /// Its title.
    pub title: &'static str,
    /// Its status.
    pub status: u16,
}

impl Refusal {
    /// Of a limit that says what is the store's doing with `closed`.
    pub fn new(decision: &Decision, closed: ClosedStatus) -> Self {
        let status = closed.as_u16();
        match decision.cause() {
            Cause::StoreAway => Self { r#type: STORE_AWAY, title: "Store away", status },
            Cause::StoreLoss => Self { r#type: STORE_LOSS, title: "Store lost writes", status },
            _ => Self { r#type: QUOTA_EXCEEDED, title: QUOTA_EXCEEDED_TITLE, status: 429 },
        }
    }

    /// Which problem two refusals together are: what the caller has used comes before what
    /// is the store's doing, and 429 before 503.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let first = if other.r#type == QUOTA_EXCEEDED { other } else { self };
        Self { status: self.status.min(other.status), ..first }
    }
}

/// `RateLimit-Policy` as draft 11 of the IETF writes it: what `limit` admits per
/// window.
///
/// ```
/// use tidegate::limit::headers;
/// assert_eq!(headers::policy("api", 50, 60), r#""api";q=50;w=60"#);
/// ```
pub fn policy(limit: &str, capacity: u64, window_seconds: u64) -> String {
    format!("\"{limit}\";q={capacity};w={window_seconds}")
}

/// `RateLimit` as draft 11 of the IETF writes it: what is left of `limit`, and
/// after how many seconds, rounded up, all of it is free again.
///
/// ```
/// use tidegate::limit::{Quota, headers};
/// let quota = Quota { capacity: 50, remaining: 49, reset_after_ms: 29_001, window_size_seconds: 60 };
/// assert_eq!(headers::ratelimit("api", &quota), r#""api";r=49;t=30"#);
/// ```
pub fn ratelimit(limit: &str, quota: &Quota) -> String {
    format!("\"{limit}\";r={};t={}", quota.remaining, quota.reset_after_ms.div_ceil(1000))
}

/// `Retry-After` in seconds, for a refusal that waiting can help. Rounded up, so
/// that who waits that long is not refused again, and never zero.
pub fn retry_after(decision: &Decision) -> Option<u64> {
    decision.wait().map(|wait| wait.retry_after_ms.div_ceil(1000).max(1))
}

/// Why a take of `cost` from `limit` was refused, and what helps.
pub fn detail(limit: &str, cost: u64, decision: &Decision) -> String {
    let quota = decision.quota();
    if let Decision::Suppressed(_) = decision {
        return format!(
            "above {} permits per {} s the limit {limit:?} lets only some calls through, and not this one",
            quota.capacity, quota.window_size_seconds
        );
    }
    let Some(wait) = decision.wait() else {
        return format!(
            "a cost of {cost} never fits the limit {limit:?}, whose capacity is {}: waiting cannot help",
            quota.capacity
        );
    };
    match decision.cause() {
        Cause::StoreAway => {
            return format!(
                "the store is away, and the limit {limit:?} refuses meanwhile, whatever was used: try again in {} ms",
                wait.retry_after_ms
            );
        }
        Cause::StoreLoss => {
            return format!(
                "the store lost writes, and the limit {limit:?} refuses until they would no longer count: try \
                 again in {} ms",
                wait.retry_after_ms
            );
        }
        _ => {}
    }
    if decision.source() == Source::Policy {
        return format!(
            "the limit {limit:?} refuses by policy, without knowing what was used: try again in {} ms",
            wait.retry_after_ms
        );
    }
    format!(
        "{} of {} permits per {} s of the limit {limit:?} are left: a cost of {cost} fits in {} ms",
        quota.remaining, quota.capacity, quota.window_size_seconds, wait.retry_after_ms
    )
}

#[cfg(test)]
mod tests {
    use super::super::{Rejected, Suppression, Wait};
    use super::*;

    const QUOTA: Quota = Quota { capacity: 5, remaining: 2, reset_after_ms: 1500, window_size_seconds: 60 };

    fn refused(wait_ms: Option<u64>, source: Source) -> Decision {
        let wait = wait_ms.map(|retry_after_ms| Wait { retry_after_ms, remaining_after_waiting: 5 });
        Decision::Rejected(Rejected { wait, quota: QUOTA, source, cause: Cause::Usage })
    }

    #[test]
    fn what_is_the_stores_doing_is_not_said_to_be_the_callers() {
        let because = |cause| {
            let Decision::Rejected(rejected) = refused(Some(1000), Source::Policy) else { panic!("refused") };
            Decision::Rejected(Rejected { cause, ..rejected })
        };
        let (own, unavailable) = (ClosedStatus::TooManyRequests, ClosedStatus::ServiceUnavailable);
        let away = Refusal::new(&because(Cause::StoreAway), unavailable);
        assert_eq!((away.r#type, away.title, away.status), (STORE_AWAY, "Store away", 503));
        assert_eq!(Refusal::new(&because(Cause::StoreLoss), own).status, 429);
        let used = Refusal::new(&because(Cause::Usage), unavailable);
        assert_eq!((used.r#type, used.status), (QUOTA_EXCEEDED, 429));
        assert_eq!((away.and(used), used.and(away)), (used, used));
        assert_eq!(away.and(Refusal::new(&because(Cause::StoreAway), own)).status, 429);
        assert!(detail("api", 1, &because(Cause::StoreAway)).starts_with("the store is away"));
    }

    #[test]
    fn who_waits_as_long_as_it_says_has_waited_long_enough() {
        let seconds = |ms| retry_after(&refused(Some(ms), Source::Store)).unwrap();
        assert_eq!([0, 1, 1000, 1001, 59_999].map(seconds), [1, 1, 1, 2, 60]);
        assert_eq!(retry_after(&refused(None, Source::Store)), None);
    }

    #[test]
    fn a_detail_says_what_helps() {
        let text = |cost, wait_ms, source| detail("api", cost, &refused(wait_ms, source));
        assert_eq!(
            text(3, Some(700), Source::Store),
            "2 of 5 permits per 60 s of the limit \"api\" are left: a cost of 3 fits in 700 ms"
        );
        assert!(text(3, Some(1000), Source::Policy).ends_with("try again in 1000 ms"));
        assert!(text(6, None, Source::Store).ends_with("waiting cannot help"));
        // By chance: any cost may pass, and no time is better than another.
        let (suppression_factor, is_allowed, source) = (0.5, false, Source::Store);
        let suppressed = Suppression { suppression_factor, is_allowed, quota: QUOTA, source };
        let text = detail("api", 6, &Decision::Suppressed(suppressed));
        assert!(text.ends_with("lets only some calls through, and not this one"), "{text}");
    }
}
