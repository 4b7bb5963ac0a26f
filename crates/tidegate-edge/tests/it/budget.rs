//! Rules with so many clicks: never more, whoever asks, dies or says something twice.

use std::time::Duration;

use tidegate_edge::rule::State;
use tidegate_edge::truth::{
    Ask, Change, Condition, Counted, Filter, Grant, MAX_DAYS, Report, Return, Returned,
};

use crate::conformance::conformance;
use crate::kit::{START_MS, World, counted, terms};

conformance!(
    a_block_that_is_asked_for_twice_is_one,
    only_what_is_returned_is_given_again_and_once,
    what_was_given_back_before_it_was_asked_for_is_not_granted,
    what_a_silent_worker_holds_is_lost_at_its_deadline,
    a_worker_that_was_silent_too_long_may_still_say_what_it_spent,
    a_bound_that_is_lowered_binds_new_blocks_and_an_update_none,
    a_spent_rule_that_is_given_a_start_is_passed_over_until_then,
    a_deleted_rule_takes_its_blocks_with_it,
    what_is_granted_says_of_which_rule_it_is,
    who_has_no_bound_needs_no_block,
    clicks_of_a_rule_that_is_no_more_count_for_no_other,
    clicks_are_counted_per_day_and_bounded,
    blocks_that_are_given_back_together_are_counted_as_one_by_one,
    random_workers_never_spend_more,
);

async fn bounded(world: &World, id: &str, max_clicks: u64) {
    let mut terms = terms(&format!("/{id}"), "https://example.com/");
    terms.max_clicks = Some(max_clicks);
    let change = Change::Replace { id: id.to_owned(), terms, condition: Condition::None };
    world.truth.change(change).await.unwrap().unwrap();
}

async fn ask(world: &World, worker: &str, number: u64, wanted: u64) -> Grant {
    let ask = Ask { rule: "a".to_owned(), worker: worker.to_owned(), number, wanted };
    world.truth.grant(ask).await.unwrap().grant
}

async fn granted(world: &World, worker: &str, number: u64, wanted: u64) -> u64 {
    match ask(world, worker, number, wanted).await {
        Grant::Block { permits, .. } => permits,
        other => panic!("{other:?}"),
    }
}

async fn give_back(world: &World, worker: &str, number: u64, spent: u64) -> Returned {
    world.truth.give_back(Return { worker: worker.to_owned(), number, spent }).await.unwrap()
}

async fn clicks(world: &World) -> u64 {
    world.truth.get("a").await.unwrap().unwrap().clicks
}

async fn a_block_that_is_asked_for_twice_is_one(world: World) {
    bounded(&world, "a", 100).await;
    let first = ask(&world, "w", 1, 10).await;
    let epoch = world.truth.position().await.unwrap().epoch;
    assert_eq!(first, Grant::Block { permits: 10, life: Duration::from_secs(10), epoch: epoch.clone() });
    world.clock.advance_ms(4000);
    let again = ask(&world, "w", 1, 10).await;
    assert_eq!(
        again,
        Grant::Block { permits: 10, life: Duration::from_secs(6), epoch },
        "with what is left of its life"
    );
    assert_eq!(granted(&world, "v", 1, 10).await, 10, "another's number is another's");
    assert_eq!(give_back(&world, "w", 1, 0).await, Returned::Counted);
    let late = ask(&world, "w", 1, 10).await;
    assert_eq!(
        late,
        Grant::Wait { retry_after: Duration::ZERO },
        "its return has overtaken it: nothing is given"
    );
    let mut rest = 0;
    while let Grant::Block { permits, .. } = ask(&world, "u", rest, 1000).await {
        rest += permits;
    }
    assert_eq!(rest, 90, "ten are out, and no more");
}

async fn only_what_is_returned_is_given_again_and_once(world: World) {
    bounded(&world, "a", 2).await;
    assert_eq!(granted(&world, "w", 1, 64).await, 1, "the last ones go out one by one");
    assert_eq!(granted(&world, "w", 2, 64).await, 1);
    assert!(matches!(ask(&world, "v", 1, 64).await, Grant::Wait { .. }), "others hold them");
    assert_eq!(give_back(&world, "w", 1, 2).await, Returned::TooMany);
    for expected in [Returned::Counted, Returned::Known, Returned::Known] {
        assert_eq!(give_back(&world, "w", 1, 0).await, expected);
    }
    assert_eq!(give_back(&world, "v", 9, 0).await, Returned::Unknown);
    assert_eq!(granted(&world, "v", 1, 64).await, 1);
    assert!(matches!(ask(&world, "u", 1, 64).await, Grant::Wait { .. }));
    assert_eq!(give_back(&world, "v", 1, 1).await, Returned::Counted);
    assert_eq!(give_back(&world, "w", 2, 1).await, Returned::Counted);
    assert_eq!(ask(&world, "u", 1, 64).await, Grant::Spent);
    assert_eq!(clicks(&world).await, 2);
    let rule = world.truth.get("a").await.unwrap().unwrap();
    assert_eq!((rule.state(rule.created_at), rule.version), (State::Ended, 1), "clicks make no version");
    assert_eq!(world.log().await.len(), 1, "and no change");
    world.check().await;
}

/// Who has waited in vain gives back what it may have been granted, and its request comes later still.
async fn what_was_given_back_before_it_was_asked_for_is_not_granted(world: World) {
    bounded(&world, "a", 1).await;
    for _ in 0..2 {
        assert_eq!(give_back(&world, "w", 1, 0).await, Returned::Unknown, "however often it is sent");
        world.clock.advance_ms(3_000);
        assert_eq!(ask(&world, "w", 1, 16).await, Grant::Wait { retry_after: Duration::ZERO });
    }
    assert_eq!(give_back(&world, "w", 1, 1).await, Returned::Unknown);
    world.clock.advance_ms(20_000);
    assert_eq!(granted(&world, "w", 2, 16).await, 1, "nobody has had it");
    // It is not noted for ever.
    world.clock.advance_ms(3_700_000);
    assert_eq!(give_back(&world, "w", 3, 0).await, Returned::Unknown);
    assert_eq!(ask(&world, "w", 1, 16).await, Grant::Spent, "what it was is forgotten");
    world.check().await;
}

async fn what_a_silent_worker_holds_is_lost_at_its_deadline(world: World) {
    bounded(&world, "a", 1).await;
    assert_eq!(granted(&world, "w", 1, 64).await, 1);
    world.clock.advance_ms(9_990);
    assert_eq!(ask(&world, "v", 1, 1).await, Grant::Wait { retry_after: Duration::from_millis(10) });
    world.clock.advance_ms(10);
    let mut ended = Filter::default();
    ended.state = Some(State::Ended);
    let listed = world.truth.list(ended, None, 10).await.unwrap().rules;
    assert_eq!(listed.iter().map(|it| it.clicks).collect::<Vec<_>>(), [1], "whoever looks sees it");
    assert_eq!(ask(&world, "v", 1, 1).await, Grant::Spent);
    let own = ask(&world, "w", 1, 1).await;
    assert_eq!(own, Grant::Wait { retry_after: Duration::ZERO }, "its own time is over too");
}

async fn a_worker_that_was_silent_too_long_may_still_say_what_it_spent(world: World) {
    bounded(&world, "a", 100).await;
    assert_eq!(granted(&world, "w", 1, 10).await, 10);
    world.clock.advance_ms(10_000);
    granted(&world, "v", 1, 1).await;
    assert_eq!(clicks(&world).await, 10, "as if all were spent");
    assert_eq!(give_back(&world, "w", 1, 3).await, Returned::Counted);
    assert_eq!(give_back(&world, "w", 1, 3).await, Returned::Known);
    assert_eq!(clicks(&world).await, 3);
    let mut rest = 0;
    while let Grant::Block { permits, .. } = ask(&world, "u", rest, 1000).await {
        rest += permits;
    }
    assert_eq!(rest, 96);
}

async fn a_bound_that_is_lowered_binds_new_blocks_and_an_update_none(world: World) {
    bounded(&world, "a", 1000).await;
    assert_eq!(granted(&world, "w", 1, 50).await, 50);
    bounded(&world, "a", 20).await;
    assert!(matches!(ask(&world, "v", 1, 50).await, Grant::Wait { .. }));
    assert_eq!(give_back(&world, "w", 1, 30).await, Returned::Counted, "it survives the update");
    assert_eq!(ask(&world, "v", 1, 50).await, Grant::Spent);
    assert_eq!(clicks(&world).await, 30, "what was out when it was lowered");
    bounded(&world, "a", 31).await;
    assert_eq!(granted(&world, "v", 2, 50).await, 1);
}

async fn a_spent_rule_that_is_given_a_start_is_passed_over_until_then(world: World) {
    bounded(&world, "a", 1).await;
    world.create("b", terms("/*", "https://example.com/b")).await;
    assert_eq!(granted(&world, "w", 1, 1).await, 1);
    assert_eq!(give_back(&world, "w", 1, 1).await, Returned::Counted);
    let resolved = async || world.truth.resolve("example.com", "/a").await.unwrap().0.map(|rule| rule.id);
    let listed = async |state: State| {
        let mut filter = Filter::default();
        filter.state = Some(state);
        let page = world.truth.list(filter, None, 10).await.unwrap();
        page.rules.into_iter().map(|rule| rule.id).collect::<Vec<_>>()
    };
    assert_eq!(resolved().await.as_deref(), Some("a"), "it has ended");
    let mut terms = terms("/a", "https://example.com/");
    (terms.max_clicks, terms.starts_at) =
        (Some(1), Some(world.truth.position().await.unwrap().time_ms + 1000));
    let change = Change::Replace { id: "a".to_owned(), terms, condition: Condition::None };
    world.truth.change(change).await.unwrap().unwrap();
    assert_eq!(resolved().await.as_deref(), Some("b"));
    assert_eq!((listed(State::Scheduled).await, listed(State::Ended).await), (vec!["a".to_owned()], vec![]));
    world.clock.advance_ms(1000);
    assert_eq!(resolved().await.as_deref(), Some("a"));
    assert_eq!((listed(State::Scheduled).await, listed(State::Ended).await), (vec![], vec!["a".to_owned()]));
}

async fn a_deleted_rule_takes_its_blocks_with_it(world: World) {
    bounded(&world, "a", 100).await;
    assert_eq!(granted(&world, "w", 1, 10).await, 10);
    let delete = Change::Delete { id: "a".to_owned(), condition: Condition::None };
    world.truth.change(delete).await.unwrap().unwrap();
    assert_eq!(ask(&world, "w", 2, 10).await, Grant::Unknown);
    bounded(&world, "a", 100).await;
    assert_eq!(give_back(&world, "w", 1, 5).await, Returned::Unknown);
    assert_eq!(clicks(&world).await, 0, "the new one has nothing to do with it");
}

async fn what_is_granted_says_of_which_rule_it_is(world: World) {
    let ask = |number| Ask { rule: "a".to_owned(), worker: "w".to_owned(), number, wanted: 1 };
    let mut made = Vec::new();
    for of_rule in 0..2 {
        bounded(&world, "a", 1).await;
        let created_at = world.truth.get("a").await.unwrap().unwrap().created_at;
        for number in [1, 1, 2] {
            let granted = world.truth.grant(ask(10 * of_rule + number)).await.unwrap();
            assert_eq!(granted.created_at, Some(created_at), "{granted:?}");
        }
        made.push(created_at);
        let delete = Change::Delete { id: "a".to_owned(), condition: Condition::None };
        world.truth.change(delete).await.unwrap().unwrap();
        world.clock.advance_ms(1);
    }
    assert_ne!(made[0], made[1]);
    let granted = world.truth.grant(ask(30)).await.unwrap();
    assert_eq!((granted.grant, granted.created_at), (Grant::Unknown, None));
}

async fn who_has_no_bound_needs_no_block(world: World) {
    world.create("a", terms("/a", "/x")).await;
    assert_eq!(ask(&world, "w", 1, 10).await, Grant::Unbounded);
    let report = |number| {
        let clicks = vec![counted("a", 7), counted("b", 1)];
        world.truth.report(Report { worker: "w".to_owned(), number, clicks })
    };
    for (number, is_new) in [(1, true), (1, false), (2, true), (1, false)] {
        assert_eq!(report(number).await.unwrap(), is_new, "{number}");
    }
    assert_eq!(clicks(&world).await, 14);
    bounded(&world, "a", 15).await;
    assert_eq!(granted(&world, "w", 2, 10).await, 1, "what it had before counts");
}

async fn clicks_of_a_rule_that_is_no_more_count_for_no_other(world: World) {
    let made = async |max_clicks| {
        let mut terms = terms("/a", "/x");
        (terms.max_clicks, terms.note) = (max_clicks, r#""createdAt":1,"#.to_owned());
        let id = "a".to_owned();
        let change = Change::Replace { id, terms, condition: Condition::None };
        world.truth.change(change).await.unwrap().unwrap().rule.created_at
    };
    let mut reports = 0;
    let mut report = async |created_at, clicks| {
        reports += 1;
        let clicks = vec![Counted { id: "a".to_owned(), created_at, clicks }];
        world.truth.report(Report { worker: "w".to_owned(), number: reports, clicks }).await.unwrap();
    };
    let mut before = 1;
    for max_clicks in [None, Some(100), None] {
        let created_at = made(max_clicks).await;
        for (of, clicks) in [(Some(before), 50), (Some(created_at), 3), (None, 4)] {
            report(of, clicks).await;
        }
        let clicked = world.truth.clicks("a").await.unwrap().unwrap();
        assert_eq!((clicked.clicks, clicked.days.len(), clicked.days[0].clicks), (7, 1, 7), "{max_clicks:?}");
        let delete = Change::Delete { id: "a".to_owned(), condition: Condition::None };
        world.truth.change(delete).await.unwrap().unwrap();
        world.clock.advance_ms(1);
        before = created_at;
    }
}

async fn clicks_are_counted_per_day_and_bounded(world: World) {
    const DAY_MS: u64 = 86_400_000;
    bounded(&world, "a", 1_000_000).await;
    for number in 0..100 {
        if number % 2 == 0 {
            let clicks = vec![counted("a", number + 1)];
            let report = Report { worker: "w".to_owned(), number, clicks };
            assert!(world.truth.report(report).await.unwrap());
        } else {
            assert!(granted(&world, "w", number, 1000).await > number);
            assert_eq!(give_back(&world, "w", number, number + 1).await, Returned::Counted);
        }
        world.clock.advance_ms(DAY_MS);
    }
    let clicked = world.truth.clicks("a").await.unwrap().unwrap();
    assert_eq!((clicked.clicks, clicked.days.len() as u64), ((1..=100).sum(), MAX_DAYS));
    assert_eq!(clicked.last_click_at, Some(START_MS + 99 * DAY_MS));
    assert_eq!((&*clicked.days[0].day, clicked.days[0].clicks), ("2024-02-21", 100));
    assert_eq!((&*clicked.days[89].day, clicked.days[89].clicks), ("2023-11-24", 11));
    assert_eq!(world.truth.clicks("b").await.unwrap(), None);
    world.check().await;
}

/// Some twice, some that were never there, and some with more than they had: each is told what becomes of it, and no more.
async fn blocks_that_are_given_back_together_are_counted_as_one_by_one(world: World) {
    for id in ["a", "b", "c", "gone"] {
        bounded(&world, id, 1000).await;
    }
    let mut given = Vec::new();
    for (number, rule) in ["a", "b", "c", "gone"].into_iter().cycle().take(120).enumerate() {
        let number = number as u64 + 1;
        let ask = Ask { rule: rule.to_owned(), worker: "w".to_owned(), number, wanted: 5 };
        let granted = world.truth.grant(ask).await.unwrap().grant;
        assert!(matches!(granted, Grant::Block { permits: 5, .. }), "{granted:?}");
        // Nothing of "c" was spent.
        given.push((number, if rule == "c" { 0 } else { number % 4 }));
    }
    let delete = Change::Delete { id: "gone".to_owned(), condition: Condition::None };
    world.truth.change(delete).await.unwrap().unwrap();
    let twice = given.iter().chain(&given).copied();
    let others = [(1, 6), (1000, 0), (1000, 0), (1001, 1)];
    let all: Vec<_> = twice.chain(others).collect();
    let back = |(number, spent): &(u64, u64)| {
        world.truth.give_back(Return { worker: "w".to_owned(), number: *number, spent: *spent })
    };
    let returned = futures_util::future::join_all(all.iter().map(back)).await;
    let returned: Vec<_> = returned.into_iter().map(|it| it.unwrap()).collect();
    for (at, (number, _)) in given.iter().enumerate() {
        let both = [returned[at], returned[at + given.len()]];
        let expected = match number % 4 {
            0 => [Returned::Unknown; 2],
            _ => [Returned::Counted, Returned::Known],
        };
        assert_eq!(both, expected, "{number}");
    }
    assert_eq!(
        returned[2 * given.len()..],
        [Returned::TooMany, Returned::Unknown, Returned::Unknown, Returned::Unknown]
    );
    for (id, clicks) in [("a", 30), ("b", 60), ("c", 0)] {
        let clicked = world.truth.clicks(id).await.unwrap().unwrap();
        assert_eq!(clicked.clicks, clicks, "{id}");
        assert_eq!(clicked.days.iter().map(|it| it.clicks).sum::<u64>(), clicks, "{id}");
        assert_eq!(clicked.last_click_at.is_some(), clicks > 0, "{id}");
        // All but those that were spent can be had again.
        let mut left = 0;
        for number in 0.. {
            let ask = Ask {
                rule: id.to_owned(),
                worker: "v".to_owned(),
                number: 10_000 * (clicks + 1) + number,
                wanted: 1000,
            };
            let Grant::Block { permits, .. } = world.truth.grant(ask).await.unwrap().grant else { break };
            left += permits;
        }
        assert_eq!(left, 1000 - clicks, "{id}");
    }
    let late = Ask { rule: "a".to_owned(), worker: "w".to_owned(), number: 1000, wanted: 1 };
    let granted = world.truth.grant(late).await.unwrap().grant;
    assert_eq!(
        granted,
        Grant::Wait { retry_after: Duration::ZERO },
        "it was given back before it was asked for"
    );
    world.check().await;
}

/// Workers that spend, die, return late and say everything twice, of a bound that is never exceeded.
async fn random_workers_never_spend_more(world: World) {
    const MAX: u64 = 200;
    let random = tidegate::random::Random::seeded(11);
    let below = |end: u64| random.bits() % end;
    bounded(&world, "a", MAX).await;
    let (mut spent, mut dead) = (0, 0);
    for number in 0..2000 {
        let worker = format!("w{}", below(8));
        match ask(&world, &worker, number, 1 + below(20)).await {
            Grant::Block { permits, .. } => {
                if below(3) == 0 {
                    assert!(
                        matches!(ask(&world, &worker, number, 9).await, Grant::Block { permits: again, .. } if again == permits)
                    );
                }
                let used = below(permits + 1);
                spent += used;
                match below(10) {
                    0 => dead += permits - used,
                    1 => {
                        world.clock.advance_ms(10_001);
                        assert_eq!(give_back(&world, &worker, number, used).await, Returned::Counted);
                    }
                    _ => {
                        assert_eq!(give_back(&world, &worker, number, used).await, Returned::Counted);
                        assert_eq!(give_back(&world, &worker, number, used).await, Returned::Known);
                    }
                }
            }
            Grant::Wait { .. } => world.clock.advance_ms(1000),
            Grant::Spent => break,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(ask(&world, "last", 0, 1).await, Grant::Spent);
    assert_eq!(spent + dead, MAX, "all of it went out, once");
    assert_eq!(clicks(&world).await, MAX);
    world.check().await;
}
