//! What a limit answers while its store is away.

use super::algorithm::Request;
use super::decision::{Admitted, Cause, Decision, Quota, Rejected, Source, Wait};
use super::handle::Limit;
use super::memory::InProcess;
use crate::key::Key;
use crate::outage::Outage;

/// How long a caller is told to wait when nothing is known: by then the store
/// has been tried again.
const OUTAGE_RETRY_MS: u64 = 1000;

impl Limit {
    /// What decides in this process during an outage, and the request for its share.
    pub(super) fn local_share(&self, request: Request) -> Option<(&InProcess, Request)> {
        let (share, local) = self.core.local.as_ref()?;
        let terms = self.core.algorithm.share_of(request.terms, *share)?;
        (request.cost <= local.capacity_of(terms)).then_some((local, Request { terms, ..request }))
    }

    pub(super) fn without_the_store(&self, key: Key<'_>, request: Request) -> Decision {
        let algorithm = &self.core.algorithm;
        let capacity = algorithm.capacity_of(request.terms);
        let quota = |remaining, reset_after_ms| Quota {
            capacity,
            remaining,
            reset_after_ms,
            window_size_seconds: algorithm.window_seconds_of(request.terms),
        };
        // What can never fit does not fit now either.
        let fits_ever = request.cost <= capacity;
        if self.core.options.outage == Outage::Open && fits_ever {
            let quota = quota(capacity, 0);
            return Decision::Admitted(Admitted {
                receipt: None,
                quota,
                source: Source::Policy,
                read_at: None,
            });
        }
        if let Some((local, request)) = self.local_share(request) {
            return local.decide(key, request).decided_by(Source::Local);
        }
        let wait = Wait { retry_after_ms: OUTAGE_RETRY_MS, remaining_after_waiting: capacity };
        let (wait, quota) = (fits_ever.then_some(wait), quota(0, OUTAGE_RETRY_MS));
        let cause = if fits_ever { Cause::StoreAway } else { Cause::Usage };
        Decision::Rejected(Rejected { wait, quota, source: Source::Policy, cause })
    }
}
