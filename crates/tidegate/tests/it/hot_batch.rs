//! Edits that are recorded together: in whatever order they are sent, the same becomes of them.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestCaseResult, TestRunner};
use tidegate::clock::Timestamp;
use tidegate::hot::{Edit, HotOptions, Recorded, WhenFull};

use crate::hot::{MINUTE, START_MS, Space, key, options};
use crate::kit::REDIS;
use crate::session_world::orders;

/// Page, id, editor, and how long ago.
type Sent = (u8, u16, u8, Option<i64>);

fn sent() -> impl Strategy<Value = (Vec<Sent>, Vec<Sent>)> {
    let late = prop_oneof![3 => Just(None), 6 => (0..20_i64).prop_map(|it| Some(it * 60_000)), 1 => Just(Some(-5000))];
    let one = (0..4_u8, 0..30_u16, 0..3_u8, late);
    prop::collection::vec(one, 1..80).prop_flat_map(|sent| (Just(sent.clone()), Just(sent).prop_shuffle()))
}

fn bounds() -> impl Strategy<Value = HotOptions> {
    (1..4_u32, 1..20_usize, 1..5_usize, 1..5_usize, any::<bool>()).prop_map(
        |(hot, more, tracked, activity, replaces)| {
            options(|it| {
                it.hot_threshold = hot;
                it.max_members_per_page = hot as usize + more;
                (it.max_tracked, it.max_activity) = (tracked, activity);
                it.window_duration = std::time::Duration::from_secs(900);
                it.spike_minimum = 2;
                it.when_full = if replaces { WhenFull::ReplaceColdest } else { WhenFull::Refuse };
            })
        },
    )
}

/// What became of all, and all that can be asked then.
async fn outcome(space: &Space, sent: &[Sent]) -> (BTreeMap<Sent, Vec<String>>, Vec<String>) {
    space.set(START_MS + 30 * MINUTE);
    let texts: Vec<_> = sent
        .iter()
        .map(|(page, id, editor, _)| [format!("p{page}"), format!("e{id}"), format!("u{editor}")])
        .collect();
    let mut edits = Vec::new();
    for ([page, id, editor], (.., late_ms)) in texts.iter().zip(sent) {
        let at = late_ms.map(|it| Timestamp::from_millis(space.now().strict_add_signed(-it)));
        edits.push(Edit { at, ..Edit::new(key(page), id, editor) });
    }
    let mut watch = space.hot.watch(Some("0-0")).await.unwrap();
    let recorded = space.hot.record_many(&edits).await.unwrap();
    let mut by_edit: BTreeMap<Sent, Vec<String>> = BTreeMap::new();
    let mut events = 0;
    for (sent, recorded) in sent.iter().zip(&recorded) {
        events += usize::from(matches!(recorded, Recorded::Promoted { .. }));
        by_edit.entry(*sent).or_default().push(format!("{recorded:?}"));
    }
    by_edit.values_mut().for_each(|it| it.sort());
    let mut seen = vec![format!("{:?}", space.hot.list(99).await.unwrap())];
    for page in 0..4 {
        let page = format!("p{page}");
        seen.push(format!("{:?} {:?}", space.stats(&page).await, space.window(&page).await));
    }
    for event in crate::hot::events(&mut watch, events).await {
        seen.push(format!("{:?} {} {} {:?}", event.kind, event.page, event.edits, event.at));
    }
    (by_edit, seen)
}

fn check(on: &'static str, url: &str, cases: u64) {
    let config = Config { cases: cases as u32, failure_persistence: None, ..Config::default() };
    TestRunner::new(config)
        .run(&(bounds(), sent()), |(options, (one, other))| -> TestCaseResult {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let first = outcome(&Space::on(on, url, options.clone()).await, &one).await;
                let second = outcome(&Space::on(on, url, options).await, &other).await;
                prop_assert_eq!(first, second);
                Ok::<(), TestCaseError>(())
            })
        })
        .unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn the_order_inside_a_batch_does_not_matter() {
    check("memory", "memory:", orders(1500));
    check("redis", &REDIS.url(), orders(300));
}

/// More than fit into a call, of one page and of many: each is counted once.
#[tokio::test]
async fn a_batch_of_any_size_is_counted_once() {
    for space in Space::everywhere(|it| it.max_tracked = 3000).await {
        let on = space.on;
        let names: Vec<_> = (0..700).map(|number| format!("page {number}")).collect();
        let ids: Vec<_> = (0..1300).map(|number| format!("e{number:04}")).collect();
        let mut edits: Vec<_> = ids.iter().map(|id| Edit::new(key("often"), id, "bot")).collect();
        edits.extend(names.iter().flat_map(|name| ids[..2].iter().map(|id| Edit::new(key(name), id, "bot"))));
        let recorded = space.hot.record_many(&edits).await.unwrap();
        let count = |kind: &str| recorded.iter().filter(|it| it.as_str() == kind).count();
        assert_eq!((count("promoted"), count("added"), count("remembered")), (701, 1298, 701), "{on}");
        let again = space.hot.record_many(&edits[1200..]).await.unwrap();
        assert!(again.iter().all(|it| *it == Recorded::Duplicate), "{on}");
        assert_eq!(space.stats("often").await.edits_last_hour, 1300, "{on}");
        assert_eq!(space.list(2).await[0], ("often".to_owned(), 1300), "{on}");
        assert_eq!(space.hot.tracked().await.unwrap(), 701, "{on}");
    }
}

/// An id counts once in a batch however many edits are between, wherever the page is; unless the first was too late.
#[tokio::test]
async fn an_id_counts_once_in_a_batch_of_any_size() {
    for space in Space::everywhere(|it| (it.hot_threshold, it.max_members_per_page) = (1, 100)).await {
        let on = space.on;
        let now = START_MS + 2 * crate::hot::HOUR;
        space.set(now);
        let made = |page, id, ago| {
            let at = Some(Timestamp::from_millis(now - ago));
            Edit { at, ..Edit::new(key(page), id, "bot") }
        };
        let ids: Vec<_> = (0..1300).map(|number| format!("e{number:04}")).collect();
        let mut edits = vec![made("p", "late", crate::hot::HOUR), made("p", "late", 5), made("p", "late", 4)];
        edits.extend(ids.iter().enumerate().map(|(number, id)| made("p", id, 3_000_000 - number as u64)));
        // Of one that has made room for others by now, and of one that is in another call.
        edits.extend([made("p", "e0000", 10), made("p", "e0600", 10), made("q", "e0000", 10)]);
        let recorded = space.hot.record_many(&edits).await.unwrap();
        let count = |kind: &str| recorded.iter().filter(|it| it.as_str() == kind).count();
        assert_eq!(recorded[0], Recorded::TooLate, "{on}");
        assert_eq!(recorded[1], Recorded::Added, "{on}: the first was not recorded");
        let last: Vec<_> = recorded[1303..].iter().map(Recorded::as_str).collect();
        assert_eq!(last, ["duplicate", "duplicate", "promoted"], "{on}");
        assert_eq!((count("promoted"), count("added"), count("duplicate")), (2, 1300, 3), "{on}");
        assert_eq!(space.stats("p").await.total_edits, 1301, "{on}");
    }
}

/// What a page had when a call came is known until the call is over, and is forgotten with the next, on every store.
#[tokio::test]
async fn what_a_page_had_is_known_for_as_long_on_every_store() {
    let mut seen = Vec::new();
    for space in Space::everywhere(|it| (it.hot_threshold, it.max_members_per_page) = (1, 10)).await {
        space.record("p", "known").await;
        space.set(START_MS + 1000);
        let ids: Vec<_> = (0..700).map(|number| format!("e{number:04}")).collect();
        let mut edits: Vec<_> = ids.iter().map(|id| Edit::new(key("p"), id, "bot")).collect();
        edits.push(Edit::new(key("p"), "known", "bot"));
        let recorded = space.hot.record_many(&edits).await.unwrap();
        seen.push((recorded[700].clone(), space.stats("p").await.total_edits));
    }
    assert!(seen.iter().all(|it| *it == seen[0]), "{seen:?}");
}

/// A page that was refused is remembered, in a batch too, and gives way to the next where there is room for one.
#[tokio::test]
async fn who_is_refused_in_a_batch_counts_as_remembered() {
    let bounds = |it: &mut HotOptions| {
        (it.hot_threshold, it.max_tracked, it.max_activity) = (2, 1, 1);
        it.when_full = WhenFull::Refuse;
    };
    for space in Space::everywhere(bounds).await {
        let on = space.on;
        let edit = |page, id| Edit::new(key(page), id, "bot");
        space.hot.record_many(&[edit("hot", "1"), edit("hot", "2")]).await.unwrap();
        let recorded =
            space.hot.record_many(&[edit("a", "1"), edit("a", "2"), edit("c", "1")]).await.unwrap();
        assert_eq!(recorded, [Recorded::Remembered, Recorded::Rejected, Recorded::Remembered], "{on}");
        let again = space.hot.record(&edit("a", "3")).await.unwrap();
        assert_eq!(again, Recorded::Remembered, "{on}: it was forgotten");
    }
}

/// Of several edits of now to a hot page only those that it has are duplicates: the others are new, each once.
#[tokio::test]
async fn only_those_that_a_page_has_are_duplicates_among_several() {
    // Nothing of the page changes but what it has.
    for space in Space::everywhere(|it| (it.hot_threshold, it.promotion_threshold) = (1, 100)).await {
        let on = space.on;
        let edit = |id| Edit::new(key("p"), id, "bot");
        space.hot.record_many(&[edit("b"), edit("d")]).await.unwrap();
        space.set(START_MS + 1000);
        let all = ["a", "b", "c", "d", "e"].map(edit);
        let recorded = space.hot.record_many(&all).await.unwrap();
        let met: Vec<_> = recorded.iter().map(Recorded::as_str).collect();
        assert_eq!(met, ["added", "duplicate", "added", "duplicate", "added"], "{on}");
        assert_eq!(space.window("p").await, ["b@0", "d@0", "a@1000", "c@1000", "e@1000"], "{on}");
        let again = space.hot.record_many(&all).await.unwrap();
        assert!(again.iter().all(|it| *it == Recorded::Duplicate), "{on}: {again:?}");
        assert_eq!(space.list(1).await, [("p".to_owned(), 5)], "{on}");
    }
}

/// Some of several pages, by their numbers.
type Which = fn(usize) -> bool;

/// On Redis pages are asked together how many of them are hot, and then only as many are looked for.
#[tokio::test]
async fn pages_that_are_hot_and_others_may_come_in_any_order_in_one_call() {
    // Which of forty are hot, and which have had one edit.
    let mixes: [[Which; 2]; 4] = [
        [|it| it % 5 == 1 || it % 5 == 4, |it| it % 5 == 3],
        [|it| it > 2, |_| false],
        [|it| it % 2 == 1, |it| it % 2 == 0],
        [|it| it % 16 == 15, |it| it % 7 == 1],
    ];
    let set = |it: &mut HotOptions| (it.hot_threshold, it.max_tracked) = (2, 1000);
    for space in [Space::memory(set).await, Space::redis(set).await, Space::cluster(set).await] {
        for (mix, [is_hot, is_remembered]) in mixes.into_iter().enumerate() {
            let pages: Vec<_> = (0..40).map(|number| format!("{mix} page {number:02}")).collect();
            let some = |which: Which| -> Vec<String> {
                (0..40).filter(|it| which(*it)).map(|it| pages[it].clone()).collect()
            };
            space.fill(&some(is_hot), 2).await;
            space.fill(&some(is_remembered), 1).await;
            let edits: Vec<_> = pages.iter().map(|page| Edit::new(key(page), "last", "ann")).collect();
            let recorded = space.hot.record_many(&edits).await.unwrap();
            for (number, recorded) in recorded.into_iter().enumerate() {
                let expected = match (is_hot(number), is_remembered(number)) {
                    (true, _) => Recorded::Added,
                    (_, true) => Recorded::Promoted { replaced: None },
                    _ => Recorded::Remembered,
                };
                assert_eq!(recorded, expected, "{}: mix {mix}, page {number}", space.on);
            }
        }
    }
}
