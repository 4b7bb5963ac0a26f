//! What every limit must do, whatever it stands on.
//!
//! The cases are written once, against [`Face`]: a limit as a caller sees it,
//! be it the library's or the one behind HTTP. A store joins the suite by
//! telling how to make a fresh limit ([`Kit`]) and naming itself in
//! [`limit_conformance!`](crate::limit_conformance).

use std::time::Duration;

use crate::bounds::{Cost, Rate};
use crate::clock::{ManualClock, Timestamp};
use crate::error::Result;
use crate::key::Key;
use crate::limit::{Decision, Limit, Receipt, Sliding};

/// A limit as a caller sees it.
pub trait Face: Clone + Send + Sync + 'static {
    /// Takes; with a rate, against that rate.
    fn take(&self, key: &str, cost: u64, rate: Option<Rate>)
    -> impl Future<Output = Result<Decision>> + Send;
    /// Peeks.
    fn peek(&self, key: &str) -> impl Future<Output = Result<Decision>> + Send;
    /// Refunds.
    fn refund(&self, key: &str, receipt: Receipt) -> impl Future<Output = Result<u64>> + Send;
    /// Resets.
    fn reset(&self, key: &str) -> impl Future<Output = Result<()>> + Send;
}

impl Face for Limit {
    async fn take(&self, key: &str, cost: u64, rate: Option<Rate>) -> Result<Decision> {
        let (key, cost) = (Key::new(key)?, Cost::new(cost)?);
        match rate {
            Some(rate) => self.take_with(key, rate, cost).await,
            None => Limit::take(self, key, cost).await,
        }
    }

    async fn peek(&self, key: &str) -> Result<Decision> {
        Limit::peek(self, Key::new(key)?).await
    }

    async fn refund(&self, key: &str, receipt: Receipt) -> Result<u64> {
        Limit::refund(self, Key::new(key)?, receipt).await
    }

    async fn reset(&self, key: &str) -> Result<()> {
        Limit::reset(self, Key::new(key)?).await
    }
}

/// Makes fresh limits on one kind of store, on a clock that the case moves.
pub trait Kit {
    /// The limit it makes.
    type Face: Face;
    /// A limit that nobody has used.
    fn fresh(&self, sliding: Sliding, clock: ManualClock) -> impl Future<Output = Self::Face>;
}

/// A limit and its clock, in the hands of a case.
pub struct Subject<F> {
    /// The limit.
    pub limit: F,
    /// Its clock.
    pub clock: ManualClock,
}

/// The time at which every case starts: a multiple of every grid in use.
const START_MS: u64 = 1_700_000_040_000;

/// `capacity` per `window_s`, on a grid of `coalesce_ms`.
pub fn sliding(capacity: u32, window_s: u64, coalesce_ms: u64) -> Sliding {
    // Written as a rate per day, so that every capacity can be had exactly.
    let per_day = u64::from(capacity) * 86_400 / window_s;
    let rate = format!("{per_day}/d").parse().expect("a rate");
    let sliding = Sliding::new(rate, Duration::from_secs(window_s)).expect("a limit");
    assert_eq!(sliding.capacity(), u64::from(capacity), "the window divides the day");
    sliding.with_coalesce(Duration::from_millis(coalesce_ms)).expect("a grid")
}

impl<F: Face> Subject<F> {
    /// A fresh limit of `kit`.
    pub async fn new<K: Kit<Face = F>>(kit: &K, sliding: Sliding) -> Self {
        let clock = ManualClock::at(Timestamp::from_millis(START_MS));
        Self { limit: kit.fresh(sliding, clock.clone()).await, clock }
    }

    /// Sets the clock to `ms` after the start.
    fn at(&self, ms: i64) {
        self.clock.set(Timestamp::from_millis(START_MS.strict_add_signed(ms)));
    }

    async fn take(&self, key: &str, cost: u64) -> Decision {
        self.limit.take(key, cost, None).await.expect("a decision")
    }

    async fn admitted(&self, key: &str, cost: u64) -> Receipt {
        let decision = self.take(key, cost).await;
        decision.receipt().unwrap_or_else(|| panic!("{cost} should fit: {decision:?}"))
    }

    /// Refused; when to come back and what is free then.
    async fn refused(&self, key: &str, cost: u64) -> Option<(u64, u64)> {
        let decision = self.take(key, cost).await;
        assert!(!decision.is_admitted(), "{cost} should not fit: {decision:?}");
        decision.wait().map(|wait| (wait.retry_after_ms, wait.remaining_after_waiting))
    }

    async fn remaining(&self, key: &str) -> u64 {
        self.limit.peek(key).await.expect("an answer").quota().remaining
    }

    async fn refund(&self, key: &str, receipt: Receipt) -> u64 {
        self.limit.refund(key, receipt).await.expect("an answer")
    }
}

/// A cost counts in full: a take that does not fit as a whole is refused, and
/// leaves nothing behind.
pub async fn a_cost_counts_in_full(kit: &impl Kit) {
    let s = Subject::new(kit, sliding(10, 60, 600)).await;
    s.admitted("k", 9).await;
    assert_eq!(s.refused("k", 2).await, Some((60_600, 10)));
    assert_eq!(s.refused("k", 1000).await, None, "it can never fit, so there is no time to come back");
    assert_eq!(s.refused("k", 11).await, None);
    assert_eq!(s.remaining("k").await, 1);
    let decision = s.take("k", 1).await;
    let quota = *decision.quota();
    assert_eq!(
        (quota.capacity, quota.remaining, quota.reset_after_ms, quota.window_size_seconds),
        (10, 0, 60_600, 60)
    );
    s.refused("k", 1).await;
}

/// Nobody gets more than the capacity, however many ask at once.
pub async fn concurrent_takes_admit_exactly_the_capacity(kit: &impl Kit) {
    let s = Subject::new(kit, sliding(100, 60, 600)).await;
    let tasks: Vec<_> = (0..32)
        .map(|_| {
            let limit = s.limit.clone();
            tokio::spawn(async move {
                let mut admitted = 0;
                for _ in 0..10 {
                    admitted += u64::from(limit.take("k", 1, None).await.expect("a decision").is_admitted());
                }
                admitted
            })
        })
        .collect();
    let mut admitted = 0;
    for task in tasks {
        admitted += task.await.expect("it ends");
    }
    assert_eq!(admitted, 100);
}

/// Admitted at the time a refusal names, refused one millisecond before, for
/// every cost and any pattern of charges.
pub async fn the_time_to_come_back_is_exact(kit: &impl Kit) {
    for cost in [1, 2, 3, 5, 8, 10] {
        let s = Subject::new(kit, sliding(10, 1, 10)).await;
        let mut now = 0;
        for (at, charge) in [(0, 1), (7, 2), (113, 3), (509, 1), (998, 3)] {
            now = at;
            s.at(now);
            s.admitted("k", charge).await;
        }
        let (wait_ms, free) = s.refused("k", cost).await.expect("waiting helps");
        s.at(now + wait_ms as i64 - 1);
        assert_eq!(
            s.refused("k", cost).await.map(|(wait, _)| wait),
            Some(1),
            "one millisecond early, cost {cost}"
        );
        s.at(now + wait_ms as i64);
        assert_eq!(s.remaining("k").await, free, "what was promised is free, cost {cost}");
        s.admitted("k", cost).await;
    }
}

/// A bucket counts from its end, not from its first charge: late charges in it
/// do not leave early.
pub async fn no_real_window_holds_more_than_the_capacity(kit: &impl Kit) {
    let s = Subject::new(kit, sliding(100, 1, 100)).await;
    s.admitted("k", 1).await;
    s.at(99);
    s.admitted("k", 99).await;
    s.at(1000);
    assert_eq!(s.refused("k", 100).await, Some((100, 100)));
    assert_eq!(s.refused("k", 1).await, Some((100, 100)));
    s.at(1099);
    s.refused("k", 1).await;
    s.at(1100);
    s.admitted("k", 100).await;
}

/// A refund gives back its own charge, once, and only while it counts.
pub async fn a_refund_gives_back_its_own_charge_once(kit: &impl Kit) {
    let s = Subject::new(kit, sliding(10, 1, 100)).await;
    let first = s.admitted("k", 4).await;
    let second = s.admitted("k", 4).await;
    assert_ne!(first, second);
    assert_eq!(s.refund("k", first).await, 4);
    assert_eq!(s.refund("k", first).await, 0, "a retried refund frees nothing more");
    assert_eq!(s.remaining("k").await, 6);
    s.at(150);
    let third = s.admitted("k", 6).await;
    assert_eq!(s.refund("k", second).await, 4, "a charge in an older bucket");
    assert_eq!(s.refund("k", second).await, 0);
    assert_eq!(s.remaining("k").await, 4);
    s.at(1100);
    assert_eq!(s.refund("k", second).await, 0, "its bucket is over");
    assert_eq!(s.refund("k", third).await, 6);
    s.at(5000);
    assert_eq!(s.refund("k", third).await, 0);
    assert_eq!(s.refund("nobody", third).await, 0);
    assert_eq!(s.remaining("k").await, 10);
}

/// A receipt is for one key: it gives back nothing of another's, though that
/// one has a charge just like it.
pub async fn a_receipt_is_for_one_key(kit: &impl Kit) {
    let s = Subject::new(kit, sliding(10, 60, 600)).await;
    let (a, b) = (s.admitted("a", 3).await, s.admitted("b", 3).await);
    assert_ne!(a, b);
    assert_eq!(s.refund("b", a).await, 0);
    assert_eq!(s.remaining("b").await, 7);
    assert_eq!(s.refund("b", b).await, 3);
    assert_eq!(s.refund("a", a).await, 3);
}

/// What is refunded can be taken again, and the receipts stay apart.
pub async fn refunds_and_takes_in_one_bucket_stay_apart(kit: &impl Kit) {
    let s = Subject::new(kit, sliding(3, 60, 600)).await;
    let mut receipts = Vec::new();
    for _ in 0..5 {
        let receipt = s.admitted("k", 3).await;
        assert_eq!(s.refund("k", receipt).await, 3);
        receipts.push(receipt);
    }
    s.admitted("k", 3).await;
    for receipt in receipts {
        assert_eq!(s.refund("k", receipt).await, 0, "somebody else's charge");
    }
    s.refused("k", 1).await;
}

/// A key remembers 64 refunds at a time. Beyond it nothing is given back, since
/// forgetting one could give back a charge twice.
pub async fn refunds_are_bounded(kit: &impl Kit) {
    let s = Subject::new(kit, sliding(1000, 60, 600)).await;
    let mut receipts = Vec::new();
    for _ in 0..70 {
        receipts.push(s.admitted("k", 1).await);
    }
    let mut given_back = Vec::new();
    for receipt in receipts {
        given_back.push(s.refund("k", receipt).await);
    }
    assert_eq!(given_back, [[1; 64].as_slice(), [0; 6].as_slice()].concat());
    s.at(60_600);
    for _ in 0..100 {
        let receipt = s.admitted("k", 1).await;
        assert_eq!(s.refund("k", receipt).await, 1, "what is over is forgotten");
        s.clock.advance_ms(60_600);
    }
}

/// A reset frees the key, and receipts from before it are void.
pub async fn a_reset_frees_the_key_and_voids_receipts(kit: &impl Kit) {
    let s = Subject::new(kit, sliding(10, 60, 600)).await;
    s.limit.reset("k").await.expect("a reset of nothing");
    let old = s.admitted("k", 10).await;
    s.limit.reset("k").await.expect("a reset");
    assert_eq!(s.remaining("k").await, 10);
    s.admitted("k", 10).await;
    assert_eq!(s.refund("k", old).await, 0, "it was for a charge that the reset took back");
    s.refused("k", 1).await;
}

/// A rate per call is what that call is judged by, and a peek after it, until a
/// plain take.
pub async fn a_rate_per_call_is_what_a_peek_uses(kit: &impl Kit) {
    let s = Subject::new(kit, sliding(10, 60, 600)).await;
    let twenty: Rate = "20/m".parse().expect("a rate");
    let decision = s.limit.take("k", 15, Some(twenty)).await.expect("a decision");
    assert_eq!((decision.is_admitted(), decision.quota().remaining), (true, 5));
    assert_eq!(s.limit.peek("k").await.expect("an answer").quota().capacity, 20);
    s.refused("k", 1).await;
    assert_eq!(s.limit.peek("k").await.expect("an answer").quota().capacity, 20, "a refusal records nothing");
    s.at(30_000);
    let third: Rate = "1/m".parse().expect("a rate");
    let refused = s.limit.take("k", 1, Some(third)).await.expect("a decision");
    assert_eq!(refused.wait().map(|wait| wait.remaining_after_waiting), Some(1));
    assert_eq!(refused.quota().remaining, 0);
    s.at(60_600);
    assert_eq!(s.limit.peek("k").await.expect("an answer").quota().capacity, 10, "all of it is over");
    s.admitted("k", 1).await;
    assert_eq!(s.limit.peek("k").await.expect("an answer").quota().capacity, 10);
}

/// Nothing that has expired comes back when the clock steps back; a clock that
/// was absurdly far ahead leaves nothing behind.
pub async fn a_clock_that_steps_back_frees_nothing_and_revives_nothing(kit: &impl Kit) {
    let s = Subject::new(kit, sliding(10, 1, 100)).await;
    s.admitted("k", 6).await;
    s.at(1200);
    s.admitted("k", 6).await;
    s.at(50);
    assert_eq!(s.remaining("k").await, 4, "the first six stay over, the second still count");
    s.admitted("k", 4).await;
    // The clock must first catch up with the newest charge.
    assert_eq!(s.refused("k", 1).await, Some((2250, 10)));
    s.at(2299);
    s.refused("k", 1).await;
    s.at(2300);
    s.admitted("k", 1).await;
    s.at(-57_700);
    assert_eq!(s.remaining("k").await, 9, "a minute ahead still counts");
    s.at(-57_701);
    assert_eq!(s.remaining("k").await, 10, "more than that is absurd");
    s.admitted("k", 10).await;
    s.refused("k", 1).await;
}

/// Looking changes nothing.
pub async fn a_peek_changes_nothing(kit: &impl Kit) {
    let s = Subject::new(kit, sliding(2, 60, 600)).await;
    for _ in 0..5 {
        assert_eq!(s.remaining("k").await, 2);
    }
    s.admitted("k", 2).await;
    let peek = s.limit.peek("k").await.expect("an answer");
    assert_eq!(
        peek.wait().map(|wait| (wait.retry_after_ms, wait.remaining_after_waiting)),
        Some((60_600, 2))
    );
    assert_eq!(peek.receipt(), None);
    assert_eq!(s.limit.peek("k").await.expect("an answer"), peek);
}

/// Whatever a user may choose as a key is a key of its own.
pub async fn keys_are_kept_apart_whatever_is_in_them(kit: &impl Kit) {
    let s = Subject::new(kit, sliding(1, 60, 600)).await;
    let long = "x".repeat(255);
    let longer_slash = "/".repeat(255);
    let keys = [
        "a",
        "A",
        "a:",
        ":a",
        "a:b",
        "{a}",
        "{a}:b",
        "}{",
        "{}",
        "a b",
        "ä",
        "日本",
        "%3A",
        "a%3Ab",
        "\u{0}",
        "\n",
        "?",
        "#",
        "a/b",
        "..",
        "\"",
        &long,
        &longer_slash,
    ];
    for key in keys {
        s.admitted(key, 1).await;
    }
    for key in keys {
        assert_eq!(s.refused(key, 1).await, Some((60_600, 1)), "{key:?}");
    }
}

/// Keys and costs outside the bounds are errors, and charge nothing.
pub async fn what_is_not_allowed_is_an_error(kit: &impl Kit) {
    let s = Subject::new(kit, sliding(10, 60, 600)).await;
    let tiny: Rate = "0.001/s".parse().expect("a rate");
    assert!(s.limit.take("", 1, None).await.is_err());
    assert!(s.limit.take(&"x".repeat(256), 1, None).await.is_err());
    assert!(s.limit.take("k", 0, None).await.is_err());
    assert!(s.limit.take("k", 1 << 53, None).await.is_err());
    assert!(s.limit.take("k", 1, Some(tiny)).await.is_err(), "a rate that admits nothing at all");
    assert_eq!(s.remaining("k").await, 10);
}

/// Many buckets, charged one by one, leave one by one.
pub async fn a_full_window_of_buckets_slides(kit: &impl Kit) {
    let s = Subject::new(kit, sliding(128, 128, 1000)).await;
    for i in 0..128 {
        s.at(i * 1000);
        s.admitted("k", 1).await;
    }
    assert_eq!(s.refused("k", 1).await, Some((2000, 1)));
    assert_eq!(s.refused("k", 128).await, Some((129_000, 128)));
    for i in 0..20 {
        s.at(129_000 + i * 1000);
        s.admitted("k", 1).await;
        s.refused("k", 1).await;
    }
}

/// Runs every case against a kit: `limit_conformance!(memory, make_kit().await)`
/// makes a module `memory` with a test per case.
#[macro_export]
macro_rules! limit_conformance {
    ($store:ident, $kit:expr) => {
        $crate::limit_conformance!($store, $kit;
            a_cost_counts_in_full
            concurrent_takes_admit_exactly_the_capacity
            the_time_to_come_back_is_exact
            no_real_window_holds_more_than_the_capacity
            a_refund_gives_back_its_own_charge_once
            a_receipt_is_for_one_key
            refunds_and_takes_in_one_bucket_stay_apart
            refunds_are_bounded
            a_reset_frees_the_key_and_voids_receipts
            a_rate_per_call_is_what_a_peek_uses
            a_clock_that_steps_back_frees_nothing_and_revives_nothing
            a_peek_changes_nothing
            keys_are_kept_apart_whatever_is_in_them
            what_is_not_allowed_is_an_error
            a_full_window_of_buckets_slides
        );
    };
    ($store:ident, $kit:expr; $($case:ident)*) => {
        mod $store {
            use super::*;
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    $crate::testkit::limit::$case(&$kit).await;
                }
            )*
        }
    };
}
