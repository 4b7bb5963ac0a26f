//! What every limit must do, whatever it stands on.
//!
//! The cases are written once, against [`Face`] and [`Gate`]: limits as a caller
//! sees them, be it the library's or those behind HTTP. A store joins the suite
//! by telling how to make fresh limits ([`Kit`]) and naming itself in
//! [`limit_conformance!`](crate::limit_conformance).

mod all;
mod calendar;
mod charges;
mod face;
pub mod history;
pub mod model;
mod overrides;
pub mod reservation_history;
mod reservations;
mod sliding;
mod suppressed;
mod token;

use std::time::Duration;

pub use self::all::*;
pub use self::calendar::*;
pub use self::charges::*;
pub use self::face::{ChargeAnswer, EVERYONE, Face, Gate, Kit, Library, key_of};
pub use self::overrides::*;
pub use self::reservations::*;
pub use self::sliding::*;
pub use self::suppressed::*;
pub use self::token::*;
use crate::bounds::{Cost, Rate};
use crate::clock::{ManualClock, Timestamp};
use crate::limit::{Algorithm, Calendar, Decision, LimitOptions, Period, Quota, Receipt, Sliding, Token};

/// The limit of the cases that need one.
pub type FaceOf<K> = <<K as Kit>::Gate as Gate>::Face;

/// A limit and its clock, in the hands of a case.
pub struct Subject<F> {
    /// The limit.
    pub limit: F,
    /// Its clock.
    pub clock: ManualClock,
}

/// The time at which every case starts: a multiple of every grid in use.
const START_MS: u64 = 1_700_000_040_000;

/// The seed of every case that does not ask for another.
const SEED: u64 = 1;

/// `capacity` per `window_s`, on a grid of `coalesce_ms`.
pub fn sliding(capacity: u32, window_s: u64, coalesce_ms: u64) -> Sliding {
    // Written as a rate per day, so that every capacity can be had exactly.
    let per_day = u64::from(capacity) * 86_400 / window_s;
    let sliding =
        Sliding::new(rate(&format!("{per_day}/d")), Duration::from_secs(window_s)).expect("a limit");
    assert_eq!(sliding.capacity(), u64::from(capacity), "the window divides the day");
    sliding.with_coalesce(Duration::from_millis(coalesce_ms)).expect("a grid")
}

/// A bucket of `burst`, refilled at `rate`.
pub fn token(rate_text: &str, burst: u64) -> Token {
    Token::new(rate(rate_text), Cost::new(burst).expect("a burst")).expect("a limit")
}

/// `limit` per `period`.
pub fn calendar(limit: u64, period: Period) -> Calendar {
    Calendar::new(limit, period).expect("a limit")
}

/// A rate by its text.
pub fn rate(text: &str) -> Rate {
    text.parse().expect("a rate")
}

/// Those that refuse what does not fit, each with `capacity` for the minute or more
/// that a case takes.
fn exact_algorithms(capacity: u32) -> [Algorithm; 3] {
    [
        sliding(capacity, 60, 600).into(),
        token(&format!("{capacity}/m"), u64::from(capacity)).into(),
        calendar(u64::from(capacity), Period::Minute).into(),
    ]
}

impl<F: Face> Subject<F> {
    /// A fresh limit of `kit`.
    pub async fn new<K: Kit<Gate: Gate<Face = F>>>(kit: &K, algorithm: impl Into<Algorithm>) -> Self {
        Self::with(kit, algorithm, &LimitOptions::default()).await
    }

    /// The same, with options of its own.
    pub async fn with<K: Kit<Gate: Gate<Face = F>>>(
        kit: &K,
        algorithm: impl Into<Algorithm>,
        options: &LimitOptions,
    ) -> Self {
        let clock = ManualClock::at(Timestamp::from_millis(START_MS));
        let gate = kit.fresh(&[("api", algorithm.into())], options, clock.clone(), SEED).await;
        Self { limit: gate.limit("api"), clock }
    }

    /// Sets the clock to `ms` after the start.
    fn at(&self, ms: i64) {
        self.set(START_MS.strict_add_signed(ms));
    }

    /// Sets the clock to `ms` after the epoch.
    fn set(&self, ms: u64) {
        self.clock.set(Timestamp::from_millis(ms));
    }

    async fn take(&self, key: &str, cost: u64) -> Decision {
        self.limit.take(key, cost, None).await.expect("a decision")
    }

    async fn take_with(&self, key: &str, cost: u64, rate_text: &str) -> Decision {
        self.limit.take(key, cost, Some(rate(rate_text))).await.expect("a decision")
    }

    async fn admitted(&self, key: &str, cost: u64) -> Receipt {
        let decision = self.take(key, cost).await;
        decision.receipt().unwrap_or_else(|| panic!("{cost} should fit: {decision:?}"))
    }

    /// Refused; when to come back and what is free then.
    async fn refused(&self, key: &str, cost: u64) -> Option<(u64, u64)> {
        let decision = self.take(key, cost).await;
        assert!(!decision.is_admitted(), "{cost} should not fit: {decision:?}");
        wait(&decision)
    }

    async fn peek(&self, key: &str) -> Decision {
        self.peek_for(key, 1).await
    }

    async fn peek_for(&self, key: &str, cost: u64) -> Decision {
        self.limit.peek_for(key, cost).await.expect("an answer")
    }

    async fn remaining(&self, key: &str) -> u64 {
        self.peek(key).await.quota().remaining
    }

    async fn refund(&self, key: &str, receipt: Receipt) -> u64 {
        self.limit.refund(key, receipt).await.expect("an answer")
    }

    async fn reset(&self, key: &str) {
        self.limit.reset(key).await.expect("a reset");
    }
}

/// When to come back, and what is free then.
fn wait(decision: &Decision) -> Option<(u64, u64)> {
    decision.wait().map(|wait| (wait.retry_after_ms, wait.remaining_after_waiting))
}

/// Capacity, what is left of it, when all is free, and the window.
fn numbers(quota: &Quota) -> (u64, u64, u64, u64) {
    (quota.capacity, quota.remaining, quota.reset_after_ms, quota.window_size_seconds)
}

/// How many of 32 × `turns` takes of `cost` are admitted when 32 ask at once.
async fn concurrently<F: Face>(limit: &F, cost: u64, turns: u64) -> u64 {
    let tasks: Vec<_> = (0..32)
        .map(|_| {
            let limit = limit.clone();
            tokio::spawn(async move {
                let mut admitted = 0;
                for _ in 0..turns {
                    let decision = limit.take("k", cost, None).await.expect("a decision");
                    admitted += u64::from(decision.is_admitted());
                }
                admitted
            })
        })
        .collect();
    let mut admitted = 0;
    for task in tasks {
        admitted += task.await.expect("it ends");
    }
    admitted
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
            a_peek_takes_a_cost
            a_refused_take_ends_the_rate_of_a_call
            keys_are_kept_apart_whatever_is_in_them
            what_is_not_allowed_is_an_error
            a_full_window_of_buckets_slides

            token_admits_a_burst_at_once_and_no_more
            token_waits_are_exact_at_every_rate
            token_says_what_is_left_and_when_all_is
            token_refunds_once_and_only_what_has_not_leaked
            token_receipts_end_with_their_charge
            token_refunds_say_what_they_give
            token_windows_follow_the_rate
            token_judges_a_call_by_its_own_rate
            token_frees_nothing_when_the_clock_steps_back

            calendar_windows_begin_and_end_to_the_millisecond
            calendar_waits_for_the_rest_of_the_window
            calendar_keeps_its_safety_buffer
            calendar_refunds_once_and_within_the_window
            calendar_reset_frees_the_window_and_voids_receipts
            calendar_without_a_subject_is_apart_from_all_subjects
            calendar_judges_a_call_by_its_own_rate

            suppressed_follows_the_formula_draw_by_draw
            suppressed_uses_a_factor_for_100_ms
            suppressed_forgets_the_factor_when_a_bucket_goes
            suppressed_by_a_cached_factor_some_pass_beyond_the_hard_count
            suppressed_counts_the_last_second
            suppressed_counts_a_cost_in_full
            suppressed_is_not_confused_by_huge_costs
            suppressed_without_a_margin_cuts_off
            suppressed_has_no_receipts_and_a_reset_forgets_all
            suppressed_judges_a_call_by_its_own_rate
            smooth_lets_all_pass_below_and_a_share_above

            all_are_charged_or_none
            all_answers_name_who_refused
            all_record_a_refusal_by_chance
            all_at_once_admit_the_smallest_capacity
            all_in_any_order_end
            all_receipts_give_back_each_charge
            all_need_one_limit_and_each_only_once

            override_judges_a_key_until_it_ends
            override_raises_and_lowers
            override_is_read_replaced_and_cleared
            override_gives_way_to_a_rate_per_call
            override_counts_when_several_are_taken
            override_must_be_possible

            reservation_sent_twice_charges_once
            reservation_counts_from_its_commit
            reservation_is_spent_or_given_back_at_its_deadline
            reservation_across_an_hour_counts_in_both
            reservation_ids_are_bounded
            reservation_is_void_after_a_reset
            reservation_that_has_ended_is_not_held_again
            reservation_that_is_released_leaves_receipts_apart

            charge_sent_twice_charges_once
            charge_is_for_all_limits_or_none
            charge_is_given_back_once
            charge_that_was_released_before_it_came_is_not_made
            charge_is_given_back_however_many_were
            charge_with_other_costs_or_limits_is_a_conflict
            charge_is_seen_as_committed
            charge_ids_are_remembered_for_an_hour_or_the_window
            charge_ids_are_bounded
            charge_is_void_after_a_reset
            charge_leaves_receipts_apart
            charge_is_judged_by_an_override
            charge_needs_an_id_and_limits_that_hold
            charges_at_once_admit_the_smallest_capacity
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
