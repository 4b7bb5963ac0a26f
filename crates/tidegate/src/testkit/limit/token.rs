//! Cases of the token bucket.

use super::{Face as _, Kit, Subject, numbers, token, wait};

/// A full bucket is there at once; then nothing, and a cost above it never.
pub async fn token_admits_a_burst_at_once_and_no_more(kit: &impl Kit) {
    let s = Subject::new(kit, token("1/s", 10)).await;
    assert_eq!(s.refused("k", 11).await, None, "it can never fit, so there is no time to come back");
    for left in (0..10).rev() {
        assert_eq!(s.take("k", 1).await.quota().remaining, left);
    }
    assert_eq!(s.refused("k", 1).await, Some((1000, 1)));
    assert_eq!(s.refused("k", 11).await, None);
    assert_eq!(s.refused("k", u64::from(u32::MAX)).await, None);
    s.admitted("other", 10).await;
    s.at(100_000);
    assert_eq!(s.remaining("k").await, 10, "never more than the burst");
    s.admitted("k", 10).await;
    s.refused("k", 1).await;
}

/// Refused one millisecond before the time named and admitted at it, also where a
/// permit does not take a whole number of anything.
pub async fn token_waits_are_exact_at_every_rate(kit: &impl Kit) {
    let rates = [
        ("3/s", 3, 1000),
        ("0.29/s", 29, 100_000),
        ("7/m", 7, 60_000),
        ("1000000/d", 1_000_000, 86_400_000_u64),
        ("2000/s", 2000, 1000),
    ];
    for (text, permits, per_ms) in rates {
        for cost in [1, 2, 3, 7, 10] {
            let s = Subject::new(kit, token(text, 10)).await;
            s.admitted("k", 10).await;
            let wait_ms = (cost * per_ms).div_ceil(permits);
            let free = (wait_ms * permits / per_ms).min(10);
            assert_eq!(s.refused("k", cost).await, Some((wait_ms, free)), "{cost} at {text}");
            if wait_ms > 1 {
                s.at(wait_ms as i64 - 1);
                assert_eq!(s.refused("k", cost).await, Some((1, free)), "{cost} at {text}, 1 ms early");
            }
            s.at(wait_ms as i64);
            assert_eq!(s.remaining("k").await, free, "what was promised is free");
            s.admitted("k", cost).await;
            // What is left of a permit is not lost, unless the bucket was full: the
            // next wait is as if the first had been for both.
            let next_ms = if cost == 10 { wait_ms * 2 } else { ((cost + 10) * per_ms).div_ceil(permits) };
            assert_eq!(s.refused("k", 10).await.map(|(ms, _)| ms), Some(next_ms - wait_ms), "{text}");
        }
    }
}

/// Remaining and reset are exact at every moment.
pub async fn token_says_what_is_left_and_when_all_is(kit: &impl Kit) {
    let s = Subject::new(kit, token("3/s", 10)).await;
    assert_eq!(numbers(s.peek("k").await.quota()), (10, 10, 0, 4));
    assert_eq!(numbers(s.take("k", 4).await.quota()), (10, 6, 1334, 4));
    for (at_ms, remaining, reset_after_ms) in
        [(333, 6, 1001), (334, 7, 1000), (1000, 9, 334), (1333, 9, 1), (1334, 10, 0), (9000, 10, 0)]
    {
        s.at(at_ms);
        let quota = numbers(s.peek("k").await.quota());
        assert_eq!(quota, (10, remaining, reset_after_ms, 4), "at {at_ms}");
    }
}

/// A refund gives back its own charge once, without what has been refilled since.
pub async fn token_refunds_once_and_only_what_has_not_leaked(kit: &impl Kit) {
    let s = Subject::new(kit, token("1/s", 10)).await;
    let (first, second) = (s.admitted("k", 4).await, s.admitted("k", 3).await);
    assert_ne!(first, second);
    assert_eq!(s.refund("other", first).await, 0, "it is for one key");
    assert_eq!(s.refund("k", second).await, 3);
    assert_eq!(s.refund("k", second).await, 0, "a retried refund frees nothing more");
    assert_eq!(s.remaining("k").await, 6);
    let third = s.admitted("k", 4).await;
    s.at(1000);
    assert_eq!(s.remaining("k").await, 3, "one has been refilled");
    assert_eq!(s.refund("k", first).await, 3, "three of the four had not been");
    assert_eq!(s.remaining("k").await, 6);
    assert_eq!(s.refund("k", first).await, 0);
    s.at(3000);
    assert_eq!(s.remaining("k").await, 8, "the third has moved up");
    assert_eq!(s.refund("k", third).await, 2, "as many as there are more");
    assert_eq!(s.remaining("k").await, 10);
    assert_eq!(s.refund("k", third).await, 0);
    // A key remembers 64 refunds at a time.
    let s = Subject::new(kit, token("1/h", 100)).await;
    let mut receipts = Vec::new();
    for _ in 0..70 {
        receipts.push(s.admitted("k", 1).await);
    }
    let mut given_back = 0;
    for receipt in receipts.into_iter().rev() {
        given_back += s.refund("k", receipt).await;
    }
    assert_eq!((given_back, s.remaining("k").await), (64, 94));
}

/// A receipt gives back nothing once its charge is over or was reset, though there
/// may be another charge just like it.
pub async fn token_receipts_end_with_their_charge(kit: &impl Kit) {
    let s = Subject::new(kit, token("1/s", 10)).await;
    let old = s.admitted("k", 4).await;
    s.at(4000);
    assert_eq!(s.refund("k", old).await, 0, "all of it has been refilled");
    let new = s.admitted("k", 4).await;
    assert_eq!(s.refund("k", old).await, 0, "somebody else's charge");
    s.reset("k").await;
    assert_eq!(s.remaining("k").await, 10);
    assert_eq!(s.refund("k", new).await, 0, "the reset took it back");
    s.admitted("k", 10).await;
    assert_eq!(s.refund("k", new).await, 0);
    s.refused("k", 1).await;
    s.reset("nobody").await;
}

/// A rate per call is what that call is judged by, and a peek after it, until a
/// plain take.
pub async fn token_judges_a_call_by_its_own_rate(kit: &impl Kit) {
    let s = Subject::new(kit, token("1/s", 10)).await;
    let taken = s.take_with("k", 10, "0.3/s").await;
    assert_eq!(numbers(taken.quota()), (10, 0, 33_334, 34));
    assert_eq!(wait(&s.peek("k").await), Some((3334, 1)));
    assert_eq!(s.refused("k", 1).await, Some((1000, 1)));
    assert_eq!(wait(&s.peek("k").await), Some((1000, 1)), "the last take was a plain one");
    s.at(3333);
    assert!(!s.take_with("k", 1, "0.3/s").await.is_admitted());
    s.at(3334);
    assert!(s.take_with("k", 1, "0.3/s").await.is_admitted());
    s.at(13_400);
    assert_eq!(s.remaining("k").await, 3, "at that rate it is not over for long");
    let taken = s.take_with("k", 3, "0.3/s").await;
    assert_eq!(s.refund("k", taken.receipt().expect("it was charged")).await, 3);
    assert_eq!(s.remaining("k").await, 3);
    s.admitted("k", 1).await;
    assert_eq!(wait(&s.peek("k").await), None, "a plain take has been judged by the limit's own rate");
}

/// A clock that steps back refills nothing, and waits count from it; one that was
/// absurdly far ahead leaves nothing behind.
pub async fn token_frees_nothing_when_the_clock_steps_back(kit: &impl Kit) {
    let s = Subject::new(kit, token("1/s", 10)).await;
    s.at(5000);
    let receipt = s.admitted("k", 10).await;
    s.at(0);
    assert_eq!(s.refused("k", 1).await, Some((6000, 1)));
    s.at(5999);
    s.refused("k", 1).await;
    s.at(6000);
    s.admitted("k", 1).await;
    s.at(0);
    assert_eq!(s.refused("k", 10).await, Some((16_000, 10)));
    assert_eq!(s.refund("k", receipt).await, 9, "nine of them have not been refilled");
    assert_eq!(s.remaining("k").await, 9);
    s.at(-54_000);
    assert_eq!(s.remaining("k").await, 9, "a minute ahead still counts");
    s.at(-54_001);
    assert_eq!(s.remaining("k").await, 10, "more than that is absurd");
    s.admitted("k", 10).await;
    s.refused("k", 1).await;
}

/// A refund says how many more permits there are for it, not what was once charged.
pub async fn token_refunds_say_what_they_give(kit: &impl Kit) {
    for (at_ms, gives) in [(0, 20), (400, 20), (1000, 19), (1001, 19), (18_999, 2), (19_000, 1), (19_999, 1)]
    {
        let s = Subject::new(kit, token("1/s", 20)).await;
        let receipt = s.admitted("k", 20).await;
        s.at(at_ms);
        let before = s.remaining("k").await;
        assert_eq!(s.refund("k", receipt).await, gives, "at {at_ms}");
        assert_eq!(s.remaining("k").await - before, gives, "at {at_ms}");
        assert_eq!(s.refund("k", receipt).await, 0, "once");
        assert_eq!(s.remaining("k").await, 20);
    }
}

/// The window is how long an empty bucket takes to fill, at the rate that judges.
pub async fn token_windows_follow_the_rate(kit: &impl Kit) {
    let s = Subject::new(kit, token("3/s", 10)).await;
    let window = |decision: crate::limit::Decision| decision.quota().window_size_seconds;
    assert_eq!(window(s.take("k", 1).await), 4);
    s.limit
        .set_override("k", super::rate("6/m"), std::time::Duration::from_secs(60))
        .await
        .expect("an override");
    assert_eq!(window(s.peek("k").await), 100);
    assert_eq!(window(s.take("k", 1).await), 100);
    assert_eq!(window(s.take("k", 10).await), 100, "refused");
    assert_eq!(window(s.take("k", 11).await), 100, "refused for ever");
    assert_eq!(window(s.take("other", 1).await), 4);
    assert_eq!(window(s.take_with("k", 1, "1/s").await), 10);
    assert_eq!(window(s.peek("k").await), 10);
}
