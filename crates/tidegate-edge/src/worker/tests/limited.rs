//! Rules with so many clicks: whose permits pay for whom, and what is believed of them.

use super::list::Seen;
use super::pair::{Pair, to};

/// Asks until the truth has answered: its way loses an answer now and then.
async fn get(pair: &Pair, path: &str) -> Seen {
    for _ in 0..20 {
        match pair.get(path).await {
            Seen::Unavailable => pair.pass(1000).await,
            seen => return seen,
        }
    }
    Seen::Unavailable
}

/// Permits of a rule that is no more pay for no other of its id, whatever the stream has told of it.
#[tokio::test(start_paused = true)]
async fn permits_are_of_one_rule_and_not_of_the_next_of_its_id() {
    let pair = Pair::start(|_| ());
    pair.put("x", |terms| terms.max_clicks = Some(1000));
    pair.put("y", |_| ());
    pair.caught_up().await;
    pair.worker.core.write(|state| state.cache.retain(|rule| rule.id() == "x"));
    for _ in 0..4 {
        assert_eq!(get(&pair, "/x").await, to("x", 1));
    }
    // The stream stands still, and fetches work.
    pair.delete("x");
    pair.delete("y");
    pair.put("x", |terms| (terms.path, terms.max_clicks) = ("/y".to_owned(), Some(1)));
    let mut redirects = 0;
    for _ in 0..10 {
        redirects += u32::from(get(&pair, "/y").await == to("x", 1));
    }
    assert_eq!(redirects, 1);
    pair.caught_up().await;
    assert_eq!(get(&pair, "/y").await, Seen::Gone);
}

/// What is known to be spent is the rule that was, and not the next of its id.
#[tokio::test(start_paused = true)]
async fn a_rule_is_not_spent_because_one_of_its_id_was() {
    let pair = Pair::start(|_| ());
    pair.put("x", |terms| terms.max_clicks = Some(1));
    pair.put("y", |_| ());
    pair.caught_up().await;
    pair.worker.core.write(|state| state.cache.retain(|rule| rule.id() == "x"));
    assert_eq!(get(&pair, "/x").await, to("x", 1));
    assert_eq!(get(&pair, "/x").await, Seen::Gone);
    pair.delete("x");
    pair.delete("y");
    pair.put("x", |terms| (terms.path, terms.max_clicks) = ("/y".to_owned(), Some(5)));
    assert_eq!(get(&pair, "/y").await, to("x", 1));
}
