//! Cases of overrides: other terms for one key, for a while.

use std::time::Duration;

use super::{
    Face, Gate as _, Kit, SEED, START_MS, Subject, calendar, exact_algorithms, numbers, rate, sliding, token,
    wait,
};
use crate::clock::{ManualClock, Timestamp};
use crate::limit::{Algorithm, LimitOptions, Period, Suppressed};

const HOUR: Duration = Duration::from_secs(3600);

impl<F: Face> Subject<F> {
    async fn overridden(&self, key: &str, rate_text: &str, lasting: Duration) {
        self.limit.set_override(key, rate(rate_text), lasting).await.expect("an override");
    }
}

/// A key is judged by its override until the instant that it ends; other keys
/// never are.
pub async fn override_judges_a_key_until_it_ends(kit: &impl Kit) {
    for algorithm in [sliding(10, 60, 600).into(), Algorithm::from(calendar(10, Period::Hour))] {
        let s = Subject::new(kit, algorithm).await;
        let twice = if matches!(algorithm, Algorithm::Calendar(_)) { "20/h" } else { "20/m" };
        s.overridden("k", twice, Duration::from_millis(5000)).await;
        // Somebody else's lasts longer.
        s.overridden("third", twice, HOUR).await;
        assert_eq!(s.peek("k").await.quota().capacity, 20);
        assert_eq!(s.peek("other").await.quota().capacity, 10);
        assert_eq!(s.take("k", 15).await.quota().remaining, 5, "{algorithm:?}");
        s.admitted("other", 10).await;
        s.refused("other", 1).await;
        s.at(4999);
        s.admitted("k", 1).await;
        assert_eq!(s.remaining("k").await, 4);
        s.at(5000);
        let peek = s.peek("k").await;
        assert_eq!((peek.quota().capacity, peek.quota().remaining, peek.is_admitted()), (10, 0, false));
        s.refused("k", 1).await;
        s.at(4999);
        s.admitted("k", 1).await;
    }
}

/// Up and down, under every algorithm.
pub async fn override_raises_and_lowers(kit: &impl Kit) {
    let lower = ["4/m", "0.05/s", "4/m"];
    for (algorithm, lower) in exact_algorithms(10).into_iter().zip(lower) {
        let s = Subject::new(kit, algorithm).await;
        s.admitted("k", 4).await;
        s.overridden("k", lower, HOUR).await;
        match algorithm {
            Algorithm::Token(_) => {
                // A permit takes 20 s to come back, not 6.
                s.admitted("k", 6).await;
                assert_eq!(s.refused("k", 1).await, Some((20_000, 1)));
                s.at(19_999);
                assert_eq!(s.refused("k", 1).await, Some((1, 1)));
                s.at(20_000);
                let receipt = s.admitted("k", 1).await;
                assert_eq!(s.refund("k", receipt).await, 1, "what was charged under it can be given back");
                assert_eq!(s.remaining("k").await, 1);
                s.admitted("k", 1).await;
                s.overridden("k", "1/s", HOUR).await;
                assert_eq!(s.refused("k", 2).await, Some((2000, 2)));
            }
            _ => {
                assert_eq!(s.refused("k", 5).await, None, "more than it may have at all");
                let wait = s.refused("k", 1).await.expect("waiting helps");
                s.overridden("k", "14/m", HOUR).await;
                s.admitted("k", 10).await;
                assert_eq!(s.refused("k", 1).await.map(|(ms, _)| ms), Some(wait.0));
            }
        }
    }
    let suppressed = Suppressed::new(sliding(10, 1, 10), 1.0).expect("a limit");
    let s = Subject::new(kit, suppressed).await;
    s.overridden("k", "3/s", HOUR).await;
    assert!(s.take("k", 3).await.is_admitted() && !s.take("k", 1).await.is_admitted());
    s.overridden("k", "30/s", HOUR).await;
    assert!(s.take("k", 27).await.is_admitted() && !s.take("k", 1).await.is_admitted());
    assert!(s.take("other", 10).await.is_admitted() && !s.take("other", 1).await.is_admitted());
}

/// It tells its rate and what is left of it, gives way to another, and ends when
/// it is cleared.
pub async fn override_is_read_replaced_and_cleared(kit: &impl Kit) {
    for algorithm in exact_algorithms(10) {
        let s = Subject::new(kit, algorithm).await;
        let current = async |key: &str| {
            let current = s.limit.get_override(key).await.expect("an answer");
            current.map(|it| (it.rate.to_string(), it.lasting.as_millis()))
        };
        assert_eq!(current("k").await, None);
        s.limit.clear_override("k").await.expect("nothing to clear");
        s.overridden("k", "0.50/s", HOUR).await;
        assert_eq!(current("k").await, Some(("0.50/s".to_owned(), 3_600_000)), "as it was written");
        assert_eq!(current("other").await, None);
        s.at(1000);
        assert_eq!(current("k").await, Some(("0.50/s".to_owned(), 3_599_000)));
        // Another, that ends earlier.
        s.overridden("k", "20/m", Duration::from_secs(60)).await;
        assert_eq!(current("k").await, Some(("20/m".to_owned(), 60_000)));
        s.at(60_999);
        assert_eq!(current("k").await, Some(("20/m".to_owned(), 1)));
        s.at(61_000);
        assert_eq!(current("k").await, None, "at its end it is over");
        s.overridden("k", "20/m", HOUR).await;
        s.reset("k").await;
        assert!(current("k").await.is_some(), "a reset is about what was used");
        s.limit.clear_override("k").await.expect("cleared");
        assert_eq!(current("k").await, None);
        s.admitted("k", 10).await;
        s.refused("k", 1).await;
    }
}

/// A rate per call is for that call, and for the peeks after it.
pub async fn override_gives_way_to_a_rate_per_call(kit: &impl Kit) {
    let s = Subject::new(kit, sliding(10, 60, 600)).await;
    s.overridden("k", "20/m", HOUR).await;
    assert_eq!(numbers(s.take_with("k", 1, "30/m").await.quota()), (30, 29, 60_600, 60));
    assert_eq!(s.peek("k").await.quota().capacity, 30);
    assert_eq!(s.take("k", 1).await.quota().capacity, 20);
    assert_eq!(s.peek("k").await.quota().capacity, 20);
    let s = Subject::new(kit, token("1/s", 10)).await;
    s.overridden("k", "0.1/s", HOUR).await;
    s.take_with("k", 10, "5/s").await;
    assert_eq!(wait(&s.peek("k").await), Some((200, 1)));
    assert_eq!(s.refused("k", 1).await, Some((10_000, 1)));
}

/// A take from several judges each by its own override.
pub async fn override_counts_when_several_are_taken(kit: &impl Kit) {
    let clock = ManualClock::at(Timestamp::from_millis(START_MS));
    let limits = [("minute", sliding(10, 60, 600).into()), ("hour", calendar(10, Period::Hour).into())];
    let gate = kit.fresh(&limits, &LimitOptions::default(), clock.clone(), SEED).await;
    let both = async |cost| {
        let said = gate.take_all("k", &[("minute", cost), ("hour", cost)]).await.expect("decisions");
        said.into_iter()
            .map(|(_, decision)| (decision.is_admitted(), decision.quota().capacity))
            .collect::<Vec<_>>()
    };
    gate.limit("hour").set_override("k", rate("20/h"), Duration::from_secs(60)).await.expect("an override");
    assert_eq!(both(11).await, [(false, 10), (true, 20)]);
    gate.limit("minute").set_override("k", rate("15/m"), HOUR).await.expect("an override");
    assert_eq!(both(11).await, [(true, 15), (true, 20)]);
    clock.advance_ms(60_000);
    assert_eq!(both(1).await, [(true, 15), (false, 10)]);
    assert_eq!(gate.limit("minute").peek("k").await.expect("an answer").quota().remaining, 4);
}

/// Terms that the limit cannot have, and times without an end, are errors.
pub async fn override_must_be_possible(kit: &impl Kit) {
    for algorithm in exact_algorithms(10) {
        let s = Subject::new(kit, algorithm).await;
        let set = async |text: &str, lasting| s.limit.set_override("k", rate(text), lasting).await;
        assert!(set("0.000001/s", HOUR).await.is_err(), "it admits nothing at all");
        assert!(set("1/s", Duration::ZERO).await.is_err());
        assert!(set("1/s", Duration::from_secs(91 * 86_400)).await.is_err());
        assert!(set("1/s", Duration::from_secs(90 * 86_400)).await.is_ok());
        assert!(s.limit.set_override("", rate("1/s"), HOUR).await.is_err());
        s.limit.clear_override("k").await.expect("cleared");
        assert_eq!(s.peek("k").await.quota().capacity, 10);
    }
}
