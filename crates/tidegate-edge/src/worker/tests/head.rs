//! HEAD: what GET would be answered, for nothing.

use super::history::seen;
use super::limited::get;
use super::list::Seen;
use super::pair::{Pair, another, ask, to};
use crate::worker::{Request, Worker};

pub(super) async fn head(worker: &Worker<super::SimOrigin>, path: &str) -> Seen {
    let request = Request { host: "h.example", path, query: None, is_head: true };
    worker.answer(&request, |outcome, _| seen(&outcome)).await
}

/// A rule of one click, spent by a worker that has told of it. Another has it in memory and knows nothing of that.
async fn spent_elsewhere() -> Pair {
    let pair = Pair::start(|_| ());
    pair.put("few", |terms| terms.max_clicks = Some(1));
    pair.caught_up().await;
    assert_eq!(head(&pair.worker, "/few").await, to("few", 1));
    assert_eq!(pair.worker.explain("h.example", "/few").unwrap().source, "cache");
    let other = another(&pair.origin, "other", |_| ());
    while ask(&other, "/few").await != to("few", 1) {
        pair.pass(50).await;
    }
    assert!(other.stop().await);
    // What it was told before is over.
    pair.pass(1000).await;
    pair
}

#[tokio::test(start_paused = true)]
async fn a_rule_that_others_have_spent_is_over_for_who_asks_without_spending() {
    let pair = spent_elsewhere().await;
    assert_eq!(head(&pair.worker, "/few").await, Seen::Gone);
    assert!(pair.origin.world.lock().blocks.is_empty(), "nothing is debited for it");
    assert_eq!(get(&pair, "/few").await, Seen::Gone, "and so does GET");
    let anew = another(&pair.origin, "anew", |_| ());
    while anew.progress().applied.is_none() {
        pair.pass(50).await;
    }
    assert_eq!(head(&anew, "/few").await, Seen::Gone, "after a restart");
}

/// Who asks often asks the truth once a second, and a change is seen at once.
#[tokio::test(start_paused = true)]
async fn what_the_truth_has_said_is_known_for_a_second_or_until_the_rule_changes() {
    let pair = spent_elsewhere().await;
    let fetches = || pair.origin.world.lock().fetches;
    let before = fetches();
    for _ in 0..10 {
        assert_eq!(head(&pair.worker, "/few").await, Seen::Gone);
    }
    assert_eq!(fetches() - before, 1);
    pair.put("few", |terms| terms.max_clicks = Some(2));
    pair.caught_up().await;
    for _ in 0..10 {
        assert_eq!(head(&pair.worker, "/few").await, to("few", 2));
    }
    assert_eq!(fetches() - before, 2);
    pair.pass(1000).await;
    assert_eq!(head(&pair.worker, "/few").await, to("few", 2));
    assert_eq!(fetches() - before, 3);
    // Another of its id is another rule.
    pair.delete("few");
    pair.put("few", |terms| terms.max_clicks = Some(1));
    pair.caught_up().await;
    assert_eq!(head(&pair.worker, "/few").await, to("few", 1));
}

/// Permits that are here are enough to know; without any, and without the truth, nobody knows.
#[tokio::test(start_paused = true)]
async fn a_rule_whose_permits_are_here_is_not_asked_for() {
    let pair = Pair::start(|_| ());
    pair.put("few", |terms| terms.max_clicks = Some(20));
    pair.caught_up().await;
    while pair.get("/few").await != to("few", 1) {
        pair.pass(50).await;
    }
    let fetches = pair.origin.world.lock().fetches;
    assert_eq!(head(&pair.worker, "/few").await, to("few", 1));
    assert_eq!(pair.origin.world.lock().fetches, fetches);
    // What was asked for meanwhile comes, and then all goes back.
    pair.pass(50).await;
    pair.pass(3000).await;
    pair.origin.world.lock().faults.is_away = true;
    assert_eq!(head(&pair.worker, "/few").await, Seen::Unavailable, "as GET");
}
