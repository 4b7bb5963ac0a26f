//! How long a request waits, and what it is told when nothing comes of it.

use std::time::Duration;

use super::list::Seen;
use super::origin::{Faults, now};
use super::pair::{Pair, another, ask, to};

const DEADLINE: Duration = Duration::from_secs(1);

/// A rule that has to be asked for, and then a permit of it: both within one deadline.
#[tokio::test(start_paused = true)]
async fn all_that_a_request_needs_is_asked_for_within_one_deadline() {
    let pair = Pair::start(|options| options.deadline = DEADLINE);
    pair.put("few", |terms| terms.max_clicks = Some(100));
    pair.caught_up().await;
    let delay = DEADLINE.mul_f64(0.6);
    pair.forget("/few");
    pair.origin.world.lock().faults = Faults { delay: Some(delay), ..Faults::default() };
    let asked = now();
    assert_eq!(pair.get("/few").await, Seen::Unavailable, "each in time, and not both");
    assert_eq!(now() - asked, DEADLINE);
    // What was asked for has come meanwhile: it was not asked for in vain.
    tokio::time::sleep(delay).await;
    pair.origin.world.lock().faults = Faults::default();
    assert_eq!(pair.get("/few").await, to("few", 1));
}

/// The last permit is spent here: nobody is told to come back.
#[tokio::test(start_paused = true)]
async fn after_the_last_permit_a_rule_is_over_at_once() {
    for clicks in [1, 3, 7] {
        let pair = Pair::start(|_| ());
        pair.put("few", |terms| terms.max_clicks = Some(clicks));
        pair.caught_up().await;
        let mut sent = 0;
        loop {
            match pair.get("/few").await {
                Seen::Gone => break,
                // The way to the truth loses an answer now and then: a block that nobody has heard of goes back.
                Seen::Unavailable => pair.pass(1000).await,
                seen => {
                    assert_eq!(seen, to("few", 1));
                    sent += 1;
                    if sent == clicks {
                        assert_eq!(pair.get("/few").await, Seen::Gone, "{clicks}");
                    }
                }
            }
        }
        assert_eq!(sent, clicks);
    }
}

/// Permits that another worker holds may come back.
#[tokio::test(start_paused = true)]
async fn permits_that_another_worker_holds_are_waited_for() {
    let pair = Pair::start(|_| ());
    pair.put("few", |terms| terms.max_clicks = Some(2));
    pair.caught_up().await;
    let other = another(&pair.origin, "other", |_| ());
    while other.progress().applied.is_none() {
        pair.pass(50).await;
    }
    // It is given both.
    while ask(&other, "/few").await != to("few", 1) {
        pair.pass(1000).await;
    }
    assert_eq!(pair.get("/few").await, Seen::Unavailable);
    assert!(other.stop().await);
    pair.pass(1000).await;
    let mut seen = pair.get("/few").await;
    while seen == Seen::Unavailable {
        pair.pass(1000).await;
        seen = pair.get("/few").await;
    }
    assert_eq!(seen, to("few", 1), "the one that came back");
    assert_eq!(pair.get("/few").await, Seen::Gone);
}
