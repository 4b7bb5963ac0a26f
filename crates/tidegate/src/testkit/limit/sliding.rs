//! Cases of the sliding limit.

use super::{Face as _, Kit, Subject, concurrently, exact_algorithms, numbers, rate, sliding, wait};
use crate::limit::Algorithm;

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
    assert_eq!(numbers(decision.quota()), (10, 0, 60_600, 60));
    s.refused("k", 1).await;
}

/// Nobody gets more than the capacity, however many ask at once.
pub async fn concurrent_takes_admit_exactly_the_capacity(kit: &impl Kit) {
    for algorithm in exact_algorithms(100) {
        let s = Subject::new(kit, algorithm).await;
        assert_eq!(concurrently(&s.limit, 3, 10).await, 33, "{algorithm:?}");
        assert_eq!(s.remaining("k").await, 1);
    }
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
    let twenty = rate("20/m");
    let decision = s.limit.take("k", 15, Some(twenty)).await.expect("a decision");
    assert_eq!((decision.is_admitted(), decision.quota().remaining), (true, 5));
    assert_eq!(s.peek("k").await.quota().capacity, 20);
    s.refused("k", 1).await;
    assert_eq!(s.peek("k").await.quota().capacity, 10, "the last take was a plain one");
    s.at(30_000);
    let third = rate("1/m");
    let refused = s.limit.take("k", 1, Some(third)).await.expect("a decision");
    assert_eq!(refused.wait().map(|wait| wait.remaining_after_waiting), Some(1));
    assert_eq!(refused.quota().remaining, 0);
    s.at(60_600);
    assert_eq!(s.peek("k").await.quota().capacity, 10, "all of it is over");
    s.admitted("k", 1).await;
    assert_eq!(s.peek("k").await.quota().capacity, 10);
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
    let waits = [(60_600, 2), (30_000, 1), (60_000, 2)];
    for (algorithm, expected) in exact_algorithms(2).into_iter().zip(waits) {
        let s = Subject::new(kit, algorithm).await;
        for _ in 0..5 {
            assert_eq!(s.remaining("k").await, 2);
        }
        s.admitted("k", 2).await;
        let peek = s.peek("k").await;
        assert_eq!(wait(&peek), Some(expected), "{algorithm:?}");
        assert_eq!(peek.receipt(), None);
        assert_eq!(s.peek("k").await, peek);
    }
}

/// Whatever a user may choose as a key is a key of its own.
pub async fn keys_are_kept_apart_whatever_is_in_them(kit: &impl Kit) {
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
    for algorithm in exact_algorithms(1) {
        let s = Subject::new(kit, algorithm).await;
        for key in keys {
            s.admitted(key, 1).await;
        }
        for key in keys {
            assert!(s.refused(key, 1).await.is_some(), "{key:?}");
        }
    }
}

/// Keys and costs outside the bounds are errors, and charge nothing.
pub async fn what_is_not_allowed_is_an_error(kit: &impl Kit) {
    for algorithm in exact_algorithms(10) {
        let s = Subject::new(kit, algorithm).await;
        assert!(s.limit.take("", 1, None).await.is_err());
        assert!(s.limit.take(&"x".repeat(256), 1, None).await.is_err());
        assert!(s.limit.take("k", 0, None).await.is_err());
        assert!(s.limit.take("k", 1 << 53, None).await.is_err());
        let nothing = rate("0.000001/s");
        assert!(s.limit.take("k", 1, Some(nothing)).await.is_err(), "a rate that admits nothing at all");
        assert_eq!(s.remaining("k").await, 10);
    }
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

/// A peek for a cost is told what a take of it would be told.
pub async fn a_peek_takes_a_cost(kit: &impl Kit) {
    for algorithm in exact_algorithms(10) {
        let s = Subject::new(kit, algorithm).await;
        s.admitted("k", 4).await;
        assert!(s.peek_for("k", 6).await.is_admitted());
        let refused = s.peek_for("k", 7).await;
        assert!(!refused.is_admitted(), "{refused:?}");
        assert_eq!(wait(&s.peek_for("k", 11).await), None, "it can never fit");
        assert_eq!(s.take("k", 7).await, refused, "as the take is told");
        assert_eq!(s.remaining("k").await, 6, "and neither has changed anything");
        let wait_ms = wait(&refused).expect("waiting helps").0 as i64;
        s.at(wait_ms - 1);
        assert!(!s.peek_for("k", 7).await.is_admitted());
        s.at(wait_ms);
        assert!(s.peek_for("k", 7).await.is_admitted());
        assert!(s.limit.peek_for("k", 0).await.is_err());
    }
}

/// Whoever takes plainly, and be refused, is judged by the limit's own rate, and so are
/// the peeks after it.
pub async fn a_refused_take_ends_the_rate_of_a_call(kit: &impl Kit) {
    for algorithm in exact_algorithms(10) {
        let s = Subject::new(kit, algorithm).await;
        let is_token = matches!(algorithm, Algorithm::Token(_));
        s.take_with("k", 10, "20/m").await;
        let by_call = s.peek("k").await;
        s.refused("k", 1).await;
        let by_limit = s.peek("k").await;
        assert_ne!(by_call.quota(), by_limit.quota(), "{algorithm:?}");
        assert_eq!(by_limit, s.take("k", 1).await, "as a take is told");
        if !is_token {
            assert_eq!((by_call.quota().capacity, by_limit.quota().capacity), (20, 10));
        }
        // Another rate that is refused has changed nothing of that.
        assert!(!s.take_with("k", 11, "10/m").await.is_admitted());
        assert_eq!(s.peek("k").await, by_limit);
    }
}
