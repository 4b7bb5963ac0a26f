//! Rules with so many clicks: whose permits pay for whom, and what is believed of them.

use std::time::Duration;

use tidegate::random::Random;
use tokio::time::sleep;

use super::head::head;
use super::list::Seen;
use super::origin::Faults;
use super::pair::{Pair, another, ask, to};
use crate::truth::{Grant, Granted};
use crate::worker::blocks::Asking;

/// Asks until the truth has answered: its way loses an answer now and then.
pub(super) async fn get(pair: &Pair, path: &str) -> Seen {
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
    pair.forget("/y");
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
    pair.forget("/y");
    assert_eq!(get(&pair, "/x").await, to("x", 1));
    assert_eq!(get(&pair, "/x").await, Seen::Gone);
    pair.delete("x");
    pair.delete("y");
    pair.put("x", |terms| (terms.path, terms.max_clicks) = ("/y".to_owned(), Some(5)));
    assert_eq!(get(&pair, "/y").await, to("x", 1));
}

/// Who was told that nothing is left, while more was given, asks again.
#[tokio::test(start_paused = true)]
async fn a_late_word_that_a_rule_is_spent_is_not_believed_if_it_has_changed() {
    let pair = Pair::start(|_| ());
    pair.put("x", |terms| terms.max_clicks = Some(1));
    pair.caught_up().await;
    // It is in memory: to resolve it would be to hear that it is spent.
    assert_eq!(head(&pair.worker, "/x").await, to("x", 1));
    let other = another(&pair.origin, "v", |_| ());
    while other.progress().applied != pair.worker.progress().applied {
        pair.pass(50).await;
    }
    while ask(&other, "/x").await != to("x", 1) {
        pair.pass(1000).await;
    }
    // It tells of what it has spent.
    pair.pass(3000).await;
    let late = Duration::from_millis(600);
    pair.origin.world.lock().faults = Faults { late_grants: Some(late), ..Faults::default() };
    let asking = {
        let worker = pair.worker.clone();
        tokio::spawn(async move { ask(&worker, "/x").await })
    };
    sleep(late / 2).await;
    pair.put("x", |terms| terms.max_clicks = Some(100));
    pair.caught_up().await;
    pair.origin.world.lock().faults = Faults::default();
    assert_ne!(asking.await.unwrap(), Seen::Gone);
    assert_eq!(get(&pair, "/x").await, to("x", 2));
}

/// What is known to be spent is the rule as it was, and not as a fetch finds it before the stream has told of a change.
#[tokio::test(start_paused = true)]
async fn a_rule_that_a_fetch_finds_with_more_clicks_is_not_spent() {
    let pair = Pair::start(|_| ());
    pair.put("x", |terms| terms.max_clicks = Some(1));
    pair.caught_up().await;
    assert_eq!(get(&pair, "/x").await, to("x", 1));
    assert_eq!(get(&pair, "/x").await, Seen::Gone);
    // The stream stands still, and fetches work.
    pair.put("x", |terms| terms.max_clicks = Some(3));
    pair.forget("/x");
    let seen = [get(&pair, "/x").await, get(&pair, "/x").await, get(&pair, "/x").await];
    assert_eq!(seen, [to("x", 2), to("x", 2), Seen::Gone]);
}

/// Clicks of a rule that is no more are none of the next of its id.
#[tokio::test(start_paused = true)]
async fn clicks_of_a_rule_are_not_told_of_as_those_of_the_next_of_its_id() {
    let pair = Pair::start(|_| ());
    pair.put("y", |_| ());
    pair.put("folder", |terms| terms.path = "/docs/*".to_owned());
    pair.caught_up().await;
    for _ in 0..5 {
        assert_eq!(get(&pair, "/y").await, to("y", 1));
        assert_eq!(get(&pair, "/docs/a").await, to("folder", 1));
    }
    for id in ["y", "folder"] {
        pair.delete(id);
        pair.put(id, |terms| terms.max_clicks = Some(10));
    }
    pair.caught_up().await;
    pair.pass(3000).await;
    let counted = pair.origin.world.lock().clicks.clone();
    assert!(counted.is_empty(), "{counted:?}");
}

/// Whose request for permits comes when it has given up long ago has not used them up.
#[tokio::test(start_paused = true)]
async fn permits_that_come_too_late_are_still_to_be_had() {
    let pair = Pair::start(|options| options.deadline = Duration::from_secs(1));
    pair.put("x", |terms| terms.max_clicks = Some(1));
    pair.caught_up().await;
    let delay = Some(Duration::from_secs(3));
    pair.origin.world.lock().faults = Faults { delay, ..Faults::default() };
    assert_eq!(pair.get("/x").await, Seen::Unavailable);
    pair.pass(4000).await;
    pair.origin.world.lock().faults = Faults::default();
    assert_eq!(get(&pair, "/x").await, to("x", 1));
}

/// Others may have them soon, however many there are, and the truth is not asked for many more than that at a time.
#[tokio::test(start_paused = true)]
async fn thousands_of_idle_blocks_go_back_a_second_after_they_were_idle_for_one() {
    // Where in a second it looks is drawn: with none under way when the truth is there again.
    let pair = Pair::start(|options| options.random = Random::seeded(1));
    pair.caught_up().await;
    let (core, at_ms) = (&pair.worker.core, pair.clock.now().as_millis());
    for rule in 0..4000 {
        let rule = format!("r{rule}");
        let Asking::Ask { number, .. } = core.blocks.ask(&rule) else { panic!("nobody asks") };
        let grant = Grant::Block { permits: 10, life: Duration::from_secs(60), epoch: "e0".to_owned() };
        let granted = Granted { grant, created_at: Some(1) };
        core.blocks.asked((&rule, 1), number, at_ms, at_ms, Some(&granted));
        pair.origin.world.lock().blocks.insert(("w".to_owned(), number), ((rule.clone(), 1), 10));
        pair.origin.world.lock().granted.insert((rule, 1), 10);
    }
    let held = || pair.origin.world.lock().blocks.len();
    pair.pass(990).await;
    assert_eq!(held(), 4000);
    // The first does not come through: the others are not tried one after the other.
    let slow_returns = Some(Duration::from_millis(5));
    pair.origin.world.lock().faults = Faults { is_away: true, slow_returns, ..Faults::default() };
    pair.pass(300).await;
    let tried = std::mem::take(&mut pair.origin.world.lock().returns);
    assert!((1..=200).contains(&tried), "{tried}");
    pair.origin.world.lock().faults = Faults { slow_returns, ..Faults::default() };
    let mut took_ms = 0;
    while held() > 0 {
        assert!(took_ms < 1000, "{} are held yet", held());
        pair.pass(50).await;
        took_ms += 50;
    }
    let world = pair.origin.world.lock();
    assert_eq!(world.returns, 4000, "each once");
    assert!(world.granted.values().all(|it| *it == 0));
    assert!(world.most_returning <= 64, "{}", world.most_returning);
}
