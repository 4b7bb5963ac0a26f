//! Cases of the calendar limit.

use super::{EVERYONE, Kit, Subject, calendar, numbers, wait};
use crate::limit::Period;

/// 2024-09-18 00:00:00.000 UTC: a minute, an hour and a day begin.
const MIDNIGHT_MS: u64 = 1_726_617_600_000;

const PERIODS: [(Period, u64); 3] =
    [(Period::Minute, 60_000), (Period::Hour, 3_600_000), (Period::Day, 86_400_000)];

/// The last millisecond of a window and the first of the next are charged to their
/// own, to whichever the clock goes back.
pub async fn calendar_windows_begin_and_end_to_the_millisecond(kit: &impl Kit) {
    for (period, ms) in PERIODS {
        let s = Subject::new(kit, calendar(10, period)).await;
        s.set(MIDNIGHT_MS - 1);
        assert_eq!(numbers(s.take("k", 10).await.quota()), (10, 0, 1, ms / 1000), "{period:?}");
        assert_eq!(s.refused("k", 1).await, Some((1, 10)));
        s.set(MIDNIGHT_MS);
        assert_eq!(numbers(s.peek("k").await.quota()), (10, 10, 0, ms / 1000));
        assert_eq!(numbers(s.take("k", 7).await.quota()), (10, 3, ms, ms / 1000));
        assert_eq!(s.refused("k", 4).await, Some((ms, 10)));
        s.set(MIDNIGHT_MS - 1);
        assert_eq!(s.refused("k", 1).await, Some((1, 10)), "that window is still full");
        s.set(MIDNIGHT_MS + ms - 1);
        s.admitted("k", 3).await;
        assert_eq!(s.refused("k", 1).await, Some((1, 10)));
        s.set(MIDNIGHT_MS + ms);
        s.admitted("k", 10).await;
    }
}

/// A refusal names the rest of the window: refused one millisecond before it ends.
pub async fn calendar_waits_for_the_rest_of_the_window(kit: &impl Kit) {
    for (period, ms) in PERIODS {
        let s = Subject::new(kit, calendar(5, period)).await;
        s.set(MIDNIGHT_MS + 1234);
        assert_eq!(s.refused("k", 6).await, None, "it can never fit, so there is no time to come back");
        s.admitted("k", 3).await;
        for cost in [3, 5] {
            assert_eq!(s.refused("k", cost).await, Some((ms - 1234, 5)), "{period:?}");
        }
        s.set(MIDNIGHT_MS + ms - 1);
        assert_eq!(s.refused("k", 5).await, Some((1, 5)));
        s.set(MIDNIGHT_MS + ms);
        s.admitted("k", 5).await;
    }
}

/// What is kept back is never given out.
pub async fn calendar_keeps_its_safety_buffer(kit: &impl Kit) {
    let limit = calendar(5000, Period::Hour).with_safety_buffer(25).expect("a buffer");
    let s = Subject::new(kit, limit).await;
    s.set(MIDNIGHT_MS);
    assert_eq!(s.refused("k", 4976).await, None);
    assert_eq!(numbers(s.take("k", 4000).await.quota()), (4975, 975, 3_600_000, 3600));
    assert_eq!(s.refused("k", 976).await, Some((3_600_000, 4975)));
    s.admitted("k", 975).await;
    s.refused("k", 1).await;
    // A rate per call has the same buffer.
    assert_eq!(s.take_with("k", 1, "6000/h").await.quota().capacity, 5975);
}

/// A refund gives back its own charge, once, and only in its own window.
pub async fn calendar_refunds_once_and_within_the_window(kit: &impl Kit) {
    let s = Subject::new(kit, calendar(10, Period::Minute)).await;
    s.set(MIDNIGHT_MS);
    let (first, second) = (s.admitted("k", 4).await, s.admitted("k", 4).await);
    assert_ne!(first, second);
    assert_eq!(s.refund("other", first).await, 0, "it is for one key");
    assert_eq!(s.refund("k", first).await, 4);
    assert_eq!(s.refund("k", first).await, 0, "a retried refund frees nothing more");
    assert_eq!(s.remaining("k").await, 6);
    let third = s.admitted("k", 6).await;
    assert_ne!(third, first);
    assert_eq!(s.refund("k", first).await, 0, "somebody else's charge");
    s.set(MIDNIGHT_MS + 59_999);
    assert_eq!(s.refund("k", second).await, 4);
    s.set(MIDNIGHT_MS + 60_000);
    assert_eq!(s.refund("k", third).await, 0, "its window is over");
    s.admitted("k", 6).await;
    assert_eq!(s.refund("k", third).await, 0);
    assert_eq!(s.remaining("k").await, 4);
    // A window remembers 64 refunds.
    let s = Subject::new(kit, calendar(1000, Period::Day)).await;
    let mut given_back = 0;
    for _ in 0..70 {
        let receipt = s.admitted("k", 1).await;
        given_back += s.refund("k", receipt).await;
    }
    assert_eq!((given_back, s.remaining("k").await), (64, 994));
}

/// A reset frees this window of the key, and receipts from before it are void.
pub async fn calendar_reset_frees_the_window_and_voids_receipts(kit: &impl Kit) {
    let s = Subject::new(kit, calendar(10, Period::Hour)).await;
    s.set(MIDNIGHT_MS);
    s.reset("k").await;
    let (old, older) = (s.admitted("k", 7).await, s.admitted("k", 3).await);
    s.reset("k").await;
    assert_eq!(numbers(s.peek("k").await.quota()), (10, 10, 0, 3600));
    assert_eq!(s.refund("k", old).await, 0);
    let new = s.admitted("k", 7).await;
    assert_ne!(new, old);
    assert_eq!(s.refund("k", old).await, 0, "it was for a charge that the reset took back");
    assert_eq!(s.refund("k", older).await, 0);
    assert_eq!(s.refund("k", new).await, 7);
    s.admitted("k", 10).await;
    s.refused("k", 1).await;
}

/// What everyone shares is one counter more, whatever subjects are called.
pub async fn calendar_without_a_subject_is_apart_from_all_subjects(kit: &impl Kit) {
    let s = Subject::new(kit, calendar(10, Period::Hour)).await;
    s.set(MIDNIGHT_MS);
    let everyone = s.admitted(EVERYONE, 10).await;
    for key in ["k", "everyone", ":", "beside", "479616"] {
        assert_eq!(s.remaining(key).await, 10, "{key:?}");
        s.admitted(key, 6).await;
    }
    s.refused(EVERYONE, 1).await;
    assert_eq!(s.refund("k", everyone).await, 0);
    assert_eq!(s.refund(EVERYONE, everyone).await, 10);
    s.admitted(EVERYONE, 3).await;
    s.reset("k").await;
    assert_eq!(s.remaining(EVERYONE).await, 7);
    s.reset(EVERYONE).await;
    assert_eq!((s.remaining(EVERYONE).await, s.remaining(":").await), (10, 4));
}

/// A rate per call is what that call is judged by, and a peek after it, until a
/// plain take or the end of the window.
pub async fn calendar_judges_a_call_by_its_own_rate(kit: &impl Kit) {
    let s = Subject::new(kit, calendar(10, Period::Minute)).await;
    s.set(MIDNIGHT_MS);
    assert_eq!(numbers(s.take_with("k", 15, "20/m").await.quota()), (20, 5, 60_000, 60));
    assert_eq!(s.peek("k").await.quota().capacity, 20);
    assert_eq!(s.refused("k", 1).await, Some((60_000, 10)));
    assert_eq!(s.peek("k").await.quota().capacity, 10, "the last take was a plain one");
    let refused = s.take_with("k", 1, "5/m").await;
    assert_eq!((wait(&refused), refused.quota().remaining), (Some((60_000, 5)), 0));
    s.set(MIDNIGHT_MS + 60_000);
    assert_eq!(s.peek("k").await.quota().capacity, 10, "another window");
    s.take_with("k", 1, "20/m").await;
    s.admitted("k", 1).await;
    assert_eq!(s.peek("k").await.quota().capacity, 10);
    s.take_with("k", 1, "20/m").await;
    s.reset("k").await;
    assert_eq!(s.peek("k").await.quota().capacity, 10);
}
