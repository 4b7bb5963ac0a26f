//! Cases of suppression, hard and smooth.
//!
//! Chance is seeded, so each case knows the draws: every take of a limit that
//! decides by chance uses one, and nothing else does.

use super::{Face, Kit, SEED, Subject, numbers, sliding};
use crate::limit::{Admitted, Decision, Sliding, Suppressed, Suppression};
use crate::random::Random;

fn suppressed(sliding: Sliding, hard_limit_factor: f64) -> Suppressed {
    Suppressed::new(sliding, hard_limit_factor).expect("a limit")
}

/// A limit, and the draws that it is about to use.
struct Chance<F> {
    s: Subject<F>,
    draws: Random,
}

impl<F: Face> Chance<F> {
    fn new(s: Subject<F>) -> Self {
        Self { s, draws: Random::seeded(SEED) }
    }

    /// A take that passes without chance.
    async fn passes(&self, cost: u64) {
        self.draws.draw();
        let decision = self.s.take("k", cost).await;
        let is_plain = matches!(decision, Decision::Admitted(Admitted { receipt: None, .. }));
        assert!(is_plain, "it passes for certain: {decision:?}");
    }

    /// A take that `factor` of all calls would not pass; whether this one does.
    async fn chances(&self, cost: u64, factor: f64) -> bool {
        let draw = self.draws.draw();
        let decision = self.s.take("k", cost).await;
        let Decision::Suppressed(Suppression { suppression_factor, is_allowed, .. }) = decision else {
            panic!("chance decides: {decision:?}")
        };
        assert_eq!(suppression_factor.to_bits(), factor.to_bits(), "{suppression_factor} for {factor}");
        assert_eq!(is_allowed, draw < 1.0 - factor, "{draw} against {factor}");
        is_allowed
    }
}

/// Up to the soft limit all pass, the one that meets the hard limit does, beyond it
/// none, and in between as many as the formula says. Never a rejection.
pub async fn suppressed_follows_the_formula_draw_by_draw(kit: &impl Kit) {
    let c = Chance::new(Subject::new(kit, suppressed(sliding(10, 1, 10), 1.5)).await);
    for _ in 0..10 {
        c.passes(1).await;
    }
    // 1 − 10 / 10: the window holds no more than the limit yet.
    for _ in 0..4 {
        assert!(c.chances(1, 0.0).await);
    }
    c.passes(1).await;
    for _ in 0..5 {
        assert!(!c.chances(1, 1.0).await, "beyond the hard limit");
    }
    // As the window slides, calls in every tenth of a second.
    let c = Chance::new(Subject::new(kit, suppressed(sliding(10, 1, 10), 1000.0)).await);
    let (mut total, mut accepted) = (0_u32, 0_u32);
    for tenth in 0..10 {
        c.s.at(tenth * 100);
        for _ in 0..3 {
            c.passes(1).await;
            (total, accepted) = (total + 1, accepted + 1);
            if accepted == 10 {
                break;
            }
        }
        if accepted == 10 {
            break;
        }
    }
    let mut allowed = 0;
    for tenth in 4..10 {
        c.s.at(tenth * 100);
        let factor = 1.0 - 10.0 / f64::from(total);
        for _ in 0..5 {
            allowed += u32::from(c.chances(1, factor).await);
            total += 1;
        }
    }
    assert!((1..30).contains(&allowed), "some of them pass: {allowed}");
}

/// A factor is used for 100 ms, whatever comes meanwhile.
pub async fn suppressed_uses_a_factor_for_100_ms(kit: &impl Kit) {
    let c = Chance::new(Subject::new(kit, suppressed(sliding(10, 1, 10), 2.0)).await);
    c.passes(10).await;
    c.s.at(200);
    c.chances(1, 0.0).await;
    c.s.at(299);
    c.chances(1, 0.0).await;
    c.s.at(300);
    c.chances(1, 1.0 - 10.0 / 12.0).await;
    c.s.at(399);
    c.chances(1, 1.0 - 10.0 / 12.0).await;
    c.s.at(400);
    c.chances(1, 1.0 - 10.0 / 14.0).await;
    // A peek looks at the same, and uses no draw.
    c.s.at(499);
    let Decision::Suppressed(peek) = c.s.peek("k").await else { panic!("chance would decide") };
    assert_eq!(peek.suppression_factor.to_bits(), (1.0_f64 - 10.0 / 14.0).to_bits());
    c.chances(1, 1.0 - 10.0 / 14.0).await;
}

/// What was computed with what is gone is void.
pub async fn suppressed_forgets_the_factor_when_a_bucket_goes(kit: &impl Kit) {
    let c = Chance::new(Subject::new(kit, suppressed(sliding(10, 1, 10), 2.0)).await);
    c.passes(1).await;
    c.s.at(500);
    c.passes(9).await;
    c.s.at(600);
    c.chances(1, 0.0).await;
    c.chances(1, 0.0).await;
    c.s.at(1005);
    c.chances(1, 1.0 - 10.0 / 12.0).await;
    c.s.at(1009);
    c.chances(1, 1.0 - 10.0 / 12.0).await;
    c.s.at(1010);
    c.chances(1, 1.0 - 10.0 / 13.0).await;
}

/// The rate of the last second counts, where it is above the mean of the window.
pub async fn suppressed_counts_the_last_second(kit: &impl Kit) {
    let c = Chance::new(Subject::new(kit, suppressed(sliding(20, 10, 100), 2.0)).await);
    c.passes(20).await;
    c.s.at(50);
    c.chances(1, 1.0 - 2.0 / 20.0).await;
    c.s.at(999);
    c.chances(1, 1.0 - 2.0 / 21.0).await;
    c.s.at(2000);
    c.chances(1, 1.0 - 2.0 / 2.2).await;
}

/// Every call counts with its cost, the declined ones too: what is offered decides.
pub async fn suppressed_counts_a_cost_in_full(kit: &impl Kit) {
    let c = Chance::new(Subject::new(kit, suppressed(sliding(10, 1, 10), 2.0)).await);
    c.passes(7).await;
    assert!(!c.chances(14, 1.0).await, "beyond the hard limit");
    assert_eq!(c.s.remaining("k").await, 3, "declined calls use nothing up");
    c.passes(3).await;
    c.s.at(100);
    // Offered were 24, more than the hard limit.
    assert!(!c.chances(1, 1.0).await);
    assert!(!c.chances(u64::from(u32::MAX), 1.0).await);
    c.passes(10).await;
    assert_eq!(numbers(c.s.peek("k").await.quota()), (10, 0, 1010, 1));
}

/// However much is asked for and declined, what was let through is known exactly.
pub async fn suppressed_is_not_confused_by_huge_costs(kit: &impl Kit) {
    let c = Chance::new(Subject::new(kit, suppressed(sliding(10, 1, 10), 1.0)).await);
    c.passes(7).await;
    // Two of them are more than a double can count, 2048 more than 64 bits can.
    for turn in 0..2100 {
        c.s.at(turn % 2 * 500);
        assert!(!c.chances((1 << 53) - 1, 1.0).await);
    }
    assert_eq!(c.s.remaining("k").await, 3);
    c.passes(3).await;
    assert!(!c.chances(1, 1.0).await);
    c.s.at(1010);
    c.passes(7).await;
    assert_eq!(c.s.remaining("k").await, 0);
    assert!(!c.chances(1, 1.0).await);
}

/// A hard limit that is the soft one leaves nothing to chance: a plain cut-off.
pub async fn suppressed_without_a_margin_cuts_off(kit: &impl Kit) {
    let c = Chance::new(Subject::new(kit, suppressed(sliding(10, 1, 10), 1.0)).await);
    for _ in 0..10 {
        c.passes(1).await;
    }
    for at in [0, 500, 1009] {
        c.s.at(at);
        assert!(!c.chances(1, 1.0).await);
    }
    c.s.at(1010);
    c.passes(1).await;
}

/// There is nothing to give back; a reset forgets every call.
pub async fn suppressed_has_no_receipts_and_a_reset_forgets_all(kit: &impl Kit) {
    let c = Chance::new(Subject::new(kit, suppressed(sliding(10, 1, 10), 2.0)).await);
    c.passes(10).await;
    c.chances(5, 0.0).await;
    c.s.reset("k").await;
    assert_eq!(numbers(c.s.peek("k").await.quota()), (10, 10, 0, 1));
    c.passes(10).await;
    c.s.at(1010);
    assert_eq!(numbers(c.s.peek("k").await.quota()), (10, 10, 0, 1), "and time does");
}

/// A rate per call has its own soft and hard limit, which a peek uses too.
pub async fn suppressed_judges_a_call_by_its_own_rate(kit: &impl Kit) {
    let s = Subject::new(kit, suppressed(sliding(10, 1, 10), 1.5)).await;
    let decision = s.take_with("k", 20, "20/s").await;
    assert!(matches!(decision, Decision::Admitted(_)), "{decision:?}");
    assert_eq!(s.peek("k").await.quota().capacity, 20);
    let Decision::Suppressed(denied) = s.take_with("k", 11, "20/s").await else { panic!("above 30") };
    assert_eq!((denied.suppression_factor, denied.is_allowed), (1.0, false));
    let met = s.take_with("k", 10, "20/s").await;
    assert!(matches!(met, Decision::Admitted(_)), "it meets the hard limit: {met:?}");
    assert!(!s.take("k", 1).await.is_admitted());
    assert_eq!(s.peek("k").await.quota().capacity, 10, "every call is recorded, and the last was plain");
}

/// Smooth: below the limit all pass, above it a share by chance, and at no load
/// nothing at all.
pub async fn smooth_lets_all_pass_below_and_a_share_above(kit: &impl Kit) {
    let s = Subject::new(kit, Suppressed::smooth(sliding(100, 1, 10))).await;
    let draws = Random::seeded(SEED);
    let mut passed = [0; 4];
    for ms in 0..4000 {
        s.at(ms);
        let (draw, decision) = (draws.draw(), s.take("k", 1).await);
        match decision {
            Decision::Suppressed(Suppression { suppression_factor, is_allowed, .. }) => {
                assert!(suppression_factor > 0.0 && suppression_factor <= 1.0);
                assert_eq!(is_allowed, draw < 1.0 - suppression_factor);
            }
            Decision::Admitted(_) => assert!(ms < 110, "the limit is passed ten times over"),
            Decision::Rejected(_) => panic!("{decision:?}"),
        }
        passed[ms as usize / 1000] += u32::from(decision.is_admitted());
    }
    // A flood from nothing is seen only once it is there.
    assert!(passed[0] < 200 && (80..=120).contains(&passed[3]), "offered ten times as much: {passed:?}");
    s.at(10_000);
    for ms in 0..100 {
        s.at(10_000 + ms * 20);
        assert!(matches!(s.take("k", 1).await, Decision::Admitted(_)), "half of the limit");
    }
}

/// By the formula, with a capacity of 100 over 2 s and a factor of 2: the 101st call finds
/// 100 in the last second where 50 a second are right, so half of them pass, for 100 ms. Of
/// the next 100, about 50 do. The 201st is judged by that factor still, although as many were
/// offered as the hard limit is; so some 50 more pass, until 200 have. The one that makes it
/// 200 passes for certain. Only then, or when the factor is computed again, none do.
pub async fn suppressed_by_a_cached_factor_some_pass_beyond_the_hard_count(kit: &impl Kit) {
    let c = Chance::new(Subject::new(kit, suppressed(sliding(100, 2, 20), 2.0)).await);
    for _ in 0..100 {
        c.passes(1).await;
    }
    let (mut accepted, mut after_the_200th) = (100, 0);
    for offer in 101.. {
        if accepted == 199 {
            c.passes(1).await;
            after_the_200th += 1;
            break;
        }
        let passed = u64::from(c.chances(1, 0.5).await);
        accepted += passed;
        after_the_200th += if offer > 200 { passed } else { 0 };
    }
    assert!((35..65).contains(&after_the_200th), "{after_the_200th} passed after the 200th offer");
    for at_ms in [0, 99, 100, 1000] {
        c.s.at(at_ms);
        assert!(!c.chances(1, 1.0).await, "200 have passed");
    }
    // Computed again, what was offered counts, not only what has passed.
    let c = Chance::new(Subject::new(kit, suppressed(sliding(100, 2, 20), 2.0)).await);
    for _ in 0..100 {
        c.passes(1).await;
    }
    for _ in 100..200 {
        c.chances(1, 0.5).await;
    }
    c.s.at(99);
    c.chances(1, 0.5).await;
    c.s.at(100);
    for _ in 0..20 {
        assert!(!c.chances(1, 1.0).await, "200 were offered");
    }
}
