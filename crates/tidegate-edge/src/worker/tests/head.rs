//! HEAD: what GET would be answered, for nothing.

use super::history::seen;
use super::list::Seen;
use super::pair::{Pair, another, ask, to};
use crate::worker::Request;

async fn head(pair: &Pair, path: &str) -> Seen {
    let request = Request { host: "h.example", path, query: None, is_head: true };
    pair.worker.answer(&request, |outcome, _| seen(&outcome)).await
}

/// Of a rule with so many clicks the worker that is asked knows nothing but its bound; another has spent them.
#[tokio::test(start_paused = true)]
async fn a_rule_that_others_have_spent_is_over_for_who_asks_without_spending() {
    let pair = Pair::start(|_| ());
    pair.put("few", |terms| terms.max_clicks = Some(1));
    pair.caught_up().await;
    assert_eq!(head(&pair, "/few").await, to("few", 1));
    assert!(pair.origin.world.lock().blocks.is_empty(), "nothing is debited for it");
    let other = another(&pair.origin, "other", |_| ());
    while ask(&other, "/few").await != to("few", 1) {
        pair.pass(50).await;
    }
    // What was spent is told of, and what was asked before is nobody's any more.
    pair.pass(2000).await;
    assert_eq!(pair.origin.world.lock().clicks["few"], 1);
    assert_eq!(head(&pair, "/few").await, Seen::Gone);
    assert!(pair.origin.world.lock().blocks.is_empty());
    assert_eq!(pair.get("/few").await, Seen::Gone, "and so does GET");
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
    assert_eq!(head(&pair, "/few").await, to("few", 1));
    assert_eq!(pair.origin.world.lock().fetches, fetches);
    // What was asked for meanwhile comes, and then all goes back.
    pair.pass(50).await;
    pair.pass(3000).await;
    pair.origin.world.lock().faults.is_away = true;
    assert_eq!(head(&pair, "/few").await, Seen::Unavailable, "as GET");
}
