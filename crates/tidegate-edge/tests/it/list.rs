//! Rules page by page, on each database.

use tidegate_edge::rule::State;
use tidegate_edge::truth::{Cursor, Filter, ImportOptions, Seq};

use crate::conformance::conformance;
use crate::import::import_with;
use crate::kit::{START_MS, World, terms};

conformance!(
    pages_have_every_rule_once,
    pages_come_in_the_order_of_bytes,
    one_among_many_of_any_host_is_on_the_first_page,
    every_character_may_be_behind_a_prefix,
    states_follow_time,
    states_that_many_rules_leave_at_once_are_exact,
);

/// All pages of a list, and how many there were.
pub(crate) async fn pages(world: &World, filter: &Filter, limit: usize) -> (Vec<String>, usize) {
    let (mut ids, mut pages, mut cursor) = (Vec::new(), 0, None);
    loop {
        let page = world.truth.list(filter.clone(), cursor, limit).await.unwrap();
        assert!(page.rules.len() <= limit);
        ids.extend(page.rules.into_iter().map(|rule| rule.id));
        pages += 1;
        match page.next {
            None => return (ids, pages),
            Some(next) => cursor = Some(Cursor::parse(&next.to_string(), filter).unwrap()),
        }
    }
}

async fn pages_have_every_rule_once(world: World) {
    for number in 0..40 {
        let mut given =
            terms(&format!("/{}/{number}", number % 4), &format!("https://e{}.example/", number % 5));
        given.host = ["*", "a.example", "b.example"][number % 3].to_owned();
        given.tags = vec![format!("t{}", number % 2)];
        given.enabled = number % 8 != 0;
        world.create(&format!("{number:02}"), given).await;
    }
    type Is = fn(usize) -> bool;
    let mut filters: Vec<(Filter, Is)> = vec![(Filter::default(), |_| true)];
    let mut with = |change: fn(&mut Filter), is: Is| {
        let mut filter = Filter::default();
        change(&mut filter);
        filters.push((filter, is));
    };
    with(|it| it.host = Some("a.example".into()), |it| it % 3 == 1);
    with(|it| it.path_prefix = Some("/2/".into()), |it| it % 4 == 2);
    with(|it| (it.host, it.path_prefix) = (Some("*".into()), Some("/1".into())), |it| it % 12 == 9);
    with(|it| it.tag = Some("t1".into()), |it| it % 2 == 1);
    with(|it| it.destination_prefix = Some("https://e3.".into()), |it| it % 5 == 3);
    with(|it| it.state = Some(State::Disabled), |it| it % 8 == 0);
    with(|it| (it.state, it.tag) = (Some(State::Live), Some("t0".into())), |it| it % 2 == 0 && it % 8 != 0);
    with(|it| it.tag = Some("t2".into()), |_| false);
    for (filter, is) in filters {
        let expected: std::collections::BTreeSet<_> =
            (0..40).filter(|it| is(*it)).map(|it| format!("{it:02}")).collect();
        for limit in [1, 3, 40, 1000] {
            let (ids, pages) = pages(&world, &filter, limit).await;
            assert_eq!(ids.len(), expected.len(), "{filter:?} {limit}");
            assert_eq!(ids.into_iter().collect::<std::collections::BTreeSet<_>>(), expected, "{filter:?}");
            assert_eq!(pages, expected.len().div_ceil(limit).max(1), "{filter:?} {limit}");
        }
    }
    let mut by_host = Filter::default();
    by_host.host = Some("*".into());
    let next = world.truth.list(by_host, None, 1).await.unwrap().next.unwrap().to_string();
    assert!(Cursor::parse(&next, &Filter::default()).is_err(), "of another list");
    for text in ["", "zz", "7b", "ü", "0"] {
        assert!(Cursor::parse(text, &Filter::default()).is_err(), "{text}");
    }
}

async fn pages_come_in_the_order_of_bytes(world: World) {
    let ids = ["B", "a", "_", "Z z", "zz", "ä", "10", "9", "A", "-a", "a b", "ab", "a-b", "𝕏", "\u{fffd}"];
    for id in ids {
        let mut given = terms(&format!("/{}", id.replace(' ', "+")), "https://example.com/");
        given.tags = vec!["t".to_owned()];
        world.create(id, given).await;
    }
    let mut sorted = ids.to_vec();
    sorted.sort_unstable();
    let mut by_tag = Filter::default();
    by_tag.tag = Some("t".to_owned());
    let mut by_state = Filter::default();
    by_state.state = Some(State::Live);
    let mut by_destination = Filter::default();
    by_destination.destination_prefix = Some("https:".to_owned());
    for filter in [Filter::default(), by_tag, by_state, by_destination] {
        for limit in [2, 100] {
            assert_eq!(pages(&world, &filter, limit).await.0, sorted, "{filter:?}");
        }
    }
    let mut by_path = Filter::default();
    by_path.path_prefix = Some("/a".to_owned());
    assert_eq!(pages(&world, &by_path, 2).await.0, ["a", "a b", "a-b", "ab"]);
}

/// More than are looked at for a page are of any host, as rules are that name none.
async fn one_among_many_of_any_host_is_on_the_first_page(world: World) {
    let mut list = "id,path,destination,tags,enabled\n".to_owned();
    for number in 0..10_600 {
        list += &format!("{number:05},/p/{number:05},https://example.com/{number:05},common,true\n");
    }
    list += "rare,/r,https://example.org/,\"common,rare\",false\n";
    import_with(&world, list, ImportOptions::default()).await;
    for change in [
        (|it| it.tag = Some("rare".to_owned())) as fn(&mut Filter),
        |it| it.path_prefix = Some("/r".to_owned()),
        |it| it.destination_prefix = Some("https://example.org".to_owned()),
        |it| it.state = Some(State::Disabled),
        |it| (it.tag, it.path_prefix) = (Some("rare".to_owned()), Some("/".to_owned())),
    ] {
        let mut filter = Filter::default();
        filter.host = Some("*".to_owned());
        change(&mut filter);
        assert_eq!(pages(&world, &filter, 100).await, (vec!["rare".to_owned()], 1), "{filter:?}");
    }
}

async fn every_character_may_be_behind_a_prefix(world: World) {
    let last = char::MAX;
    for (id, destination) in [
        ("a", format!("https://example.com/{last}")),
        ("b", format!("https://example.com/{last}{last}x")),
        ("c", "https://example.com/\u{d7ff}".to_owned()),
        ("d", "https://example.com/\u{e000}".to_owned()),
        ("e", "https://example.com0/".to_owned()),
    ] {
        world.create(id, terms(&format!("/{id}"), &destination)).await;
    }
    for (prefix, found) in [
        (String::new(), "ceabd"),
        ("https://example.com/".to_owned(), "cdab"),
        (format!("https://example.com/{last}"), "ab"),
        ("https://example.com/\u{d7ff}".to_owned(), "c"),
        ("https://example.com/\u{e000}".to_owned(), "d"),
        ("https://example.com".to_owned(), "cdabe"),
        (last.to_string(), ""),
    ] {
        let mut filter = Filter::default();
        filter.destination_prefix = Some(prefix.clone());
        let mut expected: Vec<_> = found.chars().map(String::from).collect();
        let mut ids = pages(&world, &filter, 2).await.0;
        expected.sort_unstable();
        ids.sort_unstable();
        assert_eq!(ids, expected, "{prefix:?}");
    }
}

async fn states_follow_time(world: World) {
    let mut given = terms("/a", "/x");
    (given.starts_at, given.expires_at) = (Some(START_MS + 10), Some(START_MS + 20));
    world.create("a", given).await;
    world.create("b", terms("/b", "/x")).await;
    let of = async |state: State| {
        let mut filter = Filter::default();
        filter.state = Some(state);
        pages(&world, &filter, 10).await.0
    };
    assert_eq!((of(State::Scheduled).await, of(State::Live).await), (vec!["a".into()], vec!["b".into()]));
    world.clock.advance_ms(10);
    assert_eq!((of(State::Scheduled).await, of(State::Live).await), (vec![], vec!["a".into(), "b".into()]));
    world.clock.advance_ms(11);
    assert_eq!((of(State::Ended).await, of(State::Live).await), (vec!["a".into()], vec!["b".into()]));
    assert_eq!(world.truth.position().await.unwrap().seq, Seq(2), "time makes no change");
}

/// More than one who asks is to wait for.
async fn states_that_many_rules_leave_at_once_are_exact(world: World) {
    let mut list = "id,path,destination,expiresAt,maxClicks\n".to_owned();
    for number in 0..2500 {
        list += &format!("{number:04},/{number:04},/x,{},\n", START_MS + 10);
        list += &format!("spent {number:04},/spent/{number:04},/x,,1\n");
    }
    list += "live,/live,/x,,\nstays,/stays,/x,,2\n";
    import_with(&world, list, ImportOptions::default()).await;
    // What workers held that have died.
    let held = "INSERT INTO blocks (worker, number, rule, permits, deadline_ms, standing)
        SELECT 'w', row_number() OVER (), id, 1";
    world.execute(&format!("{held}, {}, 0 FROM rules WHERE path LIKE '/s%'", START_MS + 10)).await;
    world.clock.advance_ms(11);
    let of = |state| {
        let mut filter = Filter::default();
        filter.state = Some(state);
        filter
    };
    let due = format!("rules WHERE next_at <= {}", START_MS + 11);
    let ended: Vec<_> = (0..5000)
        .map(|it| if it < 2500 { format!("{it:04}") } else { format!("spent {:04}", it - 2500) })
        .collect();
    assert_eq!(pages(&world, &of(State::Live), 10).await, (vec!["live".to_owned(), "stays".to_owned()], 1));
    assert_eq!(world.rows_of(&due).await, 1500, "one who asks settles some, and not all");
    // More are settled from page to page.
    assert_eq!(pages(&world, &of(State::Ended), 1000).await.0, ended);
    assert_eq!(world.rows_of(&due).await, 0);
    assert_eq!(pages(&world, &of(State::Ended), 1000).await, (ended, 5));
}
