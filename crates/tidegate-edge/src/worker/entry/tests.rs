//! An entry and the rule that it was made of, side by side.

use proptest::option::of;
use proptest::prelude::*;

use super::*;
use crate::rule::{Answer, Code, Query, RedirectRef, State, Terms};

prop_compose! {
    /// With whatever a rule can have, checked or not. Times and clicks are few, so that requests come close to them.
    fn rules()(
        (path, destination, fallback) in (
            "(/[a-bü]{0,2}){1,2}(/\\*)?",
            "(https://example\\.com|/)[a-c/ü\" %]{0,70}(\\?[a-b=&]{0,6})?(#[a-c]{0,3})?",
            of("[ -~ü]{0,80}"),
        ),
        (code, query, append_rest, enabled) in (0..4_usize, 0..3_usize, any::<bool>(), prop::bool::weighted(0.9)),
        (starts_at, expires_at, max_clicks) in (of(0..5_u64), of(0..10_u64), of(1..3_u64)),
        max_age in of(any::<u32>()),
        (id, clicks, note) in ("[a-z0-9ü:]{1,100}", 0..4_u64, "[a-z]{0,4}"),
    ) -> Rule {
        let mut terms = Terms::new(path, destination);
        (terms.fallback, terms.append_rest, terms.enabled, terms.note) = (fallback, append_rest, enabled, note);
        (terms.starts_at, terms.expires_at, terms.max_clicks) = (starts_at, expires_at, max_clicks);
        terms.max_age = max_age;
        terms.code = [Code::MovedPermanently, Code::Found, Code::TemporaryRedirect, Code::PermanentRedirect][code];
        terms.query = [Query::Off, Query::Append, Query::Merge][query];
        Rule { id, terms, clicks, version: 1, created_at: 0, updated_at: 0 }
    }
}

/// What a worker answers that knows how often the rule was clicked.
fn answer(entry: &Entry, clicks: u64, path: &str, query: Option<&str>, now_ms: u64) -> Answer {
    let view = entry.view();
    let is_spent = view.max_clicks().is_some_and(|most| clicks >= most);
    match view.state(now_ms) {
        State::Disabled | State::Scheduled => Answer::None,
        State::Live if !is_spent => Answer::Redirect(view.redirect(path, query).into_owned()),
        _ => view.ended().map_or(Answer::Gone, |it| Answer::Redirect(it.into_owned())),
    }
}

proptest! {
    #[test]
    fn an_entry_answers_as_its_rule_does(
        rule in rules(),
        path in "(/[a-b]{0,2}){1,4}",
        query in of("[a-b=&#ü ]{0,8}"),
        now_ms in 0..12_u64,
    ) {
        let entry = Entry::new(&rule, 0, Digest::default());
        let (path, query) = (&*path, query.as_deref());
        let unspent = Rule { clicks: 0, ..rule.clone() };
        prop_assert_eq!(entry.view().state(now_ms), unspent.state(now_ms));
        prop_assert_eq!(answer(&entry, rule.clicks, path, query, now_ms), rule.answer(path, query, now_ms));
        prop_assert_eq!(entry.view().redirect(path, query).into_owned(), rule.terms.redirect(path, query));
        let ended = entry.view().ended().map(RedirectRef::into_owned);
        prop_assert_eq!(ended.map_or(Answer::Gone, Answer::Redirect), rule.terms.ended());
    }

    #[test]
    fn every_field_that_is_kept_comes_back(
        rule in rules(), host in any::<u32>(), shift in 0..64_u32, version in any::<u64>(),
        created_at in any::<u64>(),
    ) {
        let rule = Rule { created_at: created_at >> shift, ..rule };
        let hash = Digest::of(&rule.id, version, "");
        let entry = Entry::new(&rule, host, hash);
        let view = entry.view();
        let terms = &rule.terms;
        prop_assert_eq!((view.host(), view.hash()), (host, hash.first_half()));
        prop_assert_eq!(view.created_at(), rule.created_at);
        prop_assert_eq!((view.path(), view.id(), view.folder()), (&*terms.path, &*rule.id, terms.folder()));
        prop_assert_eq!((view.expires_at(), view.max_clicks()), (terms.expires_at, terms.max_clicks));
        terms.prepared(|parts| {
            prop_assert_eq!(view.parts(), parts);
            Ok(())
        })?;
        prop_assert_eq!(view.text_len(), entry.text().len());
        prop_assert!(entry.bytes() >= entry.text().len());
    }
}

#[test]
fn nothing_is_allocated_for_what_is_sent_as_it_is() {
    let mut terms = Terms::new("/a", "https://example.com/ü?a#b");
    (terms.max_clicks, terms.fallback) = (Some(1), Some("/over".to_owned()));
    let rule = Rule { id: "a".into(), terms, clicks: 0, version: 1, created_at: 0, updated_at: 0 };
    let entry = Entry::new(&rule, 0, Digest::default());
    for redirect in [entry.view().redirect("/a", Some("b=c")), entry.view().ended().unwrap()] {
        assert!(matches!(redirect.location, std::borrow::Cow::Borrowed(_)), "{redirect:?}");
    }
}

/// The size that memory is planned by: all of a plain rule but its texts fits beside them in what the allocator gives.
#[test]
fn a_plain_rule_takes_two_dozen_bytes_beside_its_texts() {
    let terms = Terms::new("/".repeat(20), "/".repeat(45));
    let created_at = 1_800_000_000_000;
    let rule = Rule { id: "12345678".into(), terms, clicks: 0, version: 1, created_at, updated_at: 0 };
    let entry = Entry::new(&rule, 50, Digest::of("a", 1, "{}"));
    assert!(entry.0.len() <= 20 + 45 + 8 + 23, "{}", entry.0.len());
    assert_eq!(entry.bytes(), 96);
}
