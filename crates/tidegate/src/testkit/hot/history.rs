//! The same random edits on a space and on the model: every answer and every event must
//! agree. Among them are duplicates, late ones, early ones and some from the future, and a
//! clock that steps back. In spaces that only count, counts are in the place of edits.

use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{TestCaseError, TestCaseResult};

use super::face::SOON;
use super::{Face, HotModel, KINDS, Kit};
use crate::clock::Timestamp;
use crate::hot::{Count, Edit, HotOptions, HotPage, MAX_AT_ONCE, WhenFull};
use crate::key::Key;
use crate::testkit::history;

#[derive(Debug, Clone)]
enum Op {
    Record { page: u8, id: u16, editor: u8, change: i64, late_ms: i64 },
    Many(Vec<(u8, u16, i64)>),
    Stats { page: u8 },
    IsHot { page: u8 },
    Remove { page: u8 },
    Window { page: u8, from_ms: i64, to_ms: i64 },
    List { limit: usize },
    Tracked,
    Cleanup,
    Flush,
    Move { by_ms: i64 },
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let page = prop_oneof![4 => 0..4_u8, 2 => 0..12_u8];
    // A window, or ten minutes, to the millisecond.
    let edge = (prop::sample::select(vec![60_000, 600_000, 900_000, 3_600_000]), -1..2_i64)
        .prop_map(|(ms, off_ms)| ms + off_ms);
    let late = prop_oneof![
        6 => Just(0_i64),
        2 => 0..400_000_i64,
        1 => 0..5_000_000_i64,
        1 => -90_000..0_i64,
        1 => edge.clone(),
    ];
    let op = prop_oneof![
        14 => (page.clone(), 0..400_u16, 0..5_u8, -50..50_i64, late.clone())
            .prop_map(|(page, id, editor, change, late_ms)| Op::Record { page, id, editor, change, late_ms }),
        2 => prop::collection::vec((page.clone(), 0..400_u16, late), 1..30).prop_map(Op::Many),
        2 => page.clone().prop_map(|page| Op::Stats { page }),
        1 => page.clone().prop_map(|page| Op::IsHot { page }),
        1 => page.clone().prop_map(|page| Op::Remove { page }),
        1 => (page, -4_000_000..0_i64, -1_000_000..1000_i64)
            .prop_map(|(page, from_ms, to_ms)| Op::Window { page, from_ms, to_ms }),
        1 => (0..8_usize).prop_map(|limit| Op::List { limit }),
        1 => Just(Op::Tracked),
        1 => Just(Op::Cleanup),
        2 => Just(Op::Flush),
        5 => (0..40_000_i64).prop_map(|by_ms| Op::Move { by_ms }),
        1 => (0..900_000_i64).prop_map(|by_ms| Op::Move { by_ms }),
        1 => edge.prop_map(|by_ms| Op::Move { by_ms }),
        1 => prop_oneof![8 => -2000..0_i64, 2 => -90_000..0_i64, 1 => -20_000_000..20_000_000_i64]
            .prop_map(|by_ms| Op::Move { by_ms }),
    ];
    prop::collection::vec(op, 1..120)
}

fn spaces() -> impl Strategy<Value = HotOptions> {
    let window = prop_oneof![Just(60_u64), Just(900), Just(3600)];
    let slots = prop_oneof![Just(60_u32), Just(1), Just(7), Just(128)];
    // Of a page whose edits are kept, and of one that is only counted.
    let kinds = prop_oneof![
        4 => (1..4_u32, 0..6_usize).prop_map(|(hot, more)| (hot, hot as usize + more, Duration::ZERO)),
        1 => (1..13_u32).prop_map(|hot| (hot, 0, Duration::ZERO)),
        // So long that only a flush that is asked for sends them.
        1 => (1..13_u32).prop_map(|hot| (hot, 0, Duration::from_secs(60))),
    ];
    (kinds, 1..9_u32, window, 1..6_usize, any::<bool>(), 1..9_usize, slots).prop_map(
        |((hot, members, gather), promotion, window, tracked, replaces, activity, count_slots)| HotOptions {
            hot_threshold: hot,
            promotion_threshold: promotion,
            window_duration: Duration::from_secs(window),
            max_tracked: tracked,
            max_members_per_page: members,
            count_slots,
            gather,
            when_full: if replaces { WhenFull::ReplaceColdest } else { WhenFull::Refuse },
            max_activity: activity,
            spike_minimum: 3,
            ..HotOptions::default()
        },
    )
}

fn name(page: u8) -> String {
    format!("en:{{page}}/{page}?")
}

/// How many are counted where an edit would have this id: mostly few.
fn count_of(id: u16) -> u64 {
    match id {
        399 => MAX_AT_ONCE,
        390..399 => 10_u64.pow(u32::from(id - 390)),
        _ => u64::from(1 + id % 20),
    }
}

/// A space, and the model beside it.
struct Pair<'a, F> {
    face: &'a F,
    only_counts: bool,
    model: HotModel,
}

impl<F: Face> Pair<'_, F> {
    fn now(&self) -> u64 {
        self.face.clock().now().as_millis()
    }

    /// So long before now.
    fn moment(&self, late_ms: i64) -> Option<Timestamp> {
        Some(Timestamp::from_millis(self.now().strict_add_signed(-late_ms)))
    }

    async fn record_many(&mut self, many: &[(u8, u16, i64)]) -> TestCaseResult {
        let now = self.now();
        let texts: Vec<_> = many.iter().map(|(page, id, _)| (name(*page), format!("e{id}"))).collect();
        let edits: Vec<_> = texts
            .iter()
            .zip(many)
            .map(|((page, id), (_, _, late_ms))| {
                let edit = Edit::new(Key::new(page).expect("a page"), id, "bot");
                Edit { at: self.moment(*late_ms), ..edit }
            })
            .collect();
        let recorded = self.face.record_many(&edits).await.expect("an answer");
        let expected = self.model.record_many(now, &edits);
        prop_assert!(recorded.is(&expected), "{:?} is not {:?}", recorded, expected);
        Ok(())
    }

    async fn count_many(&mut self, many: &[(u8, u16, i64)]) -> TestCaseResult {
        let texts: Vec<_> = many.iter().map(|(page, id, _)| (name(*page), count_of(*id))).collect();
        let counts: Vec<_> =
            texts.iter().map(|(page, count)| Count::new(Key::new(page).expect("a page"), *count)).collect();
        let counted = self.face.count_many(&counts).await.expect("an answer");
        let expected = self.model.count_many(self.now(), &counts);
        prop_assert!(counted.is(&expected), "{:?} is not {:?}", counted, expected);
        Ok(())
    }

    async fn list(&mut self, limit: usize) -> TestCaseResult {
        let now = self.now();
        let list = self.face.list_after(None, limit).await.expect("a list");
        prop_assert_eq!(list, self.model.list(now, limit));
        // Page by page it is all there is, each once.
        let (all, size) = (self.model.list(now, 1000), 1 + limit % 3);
        let mut paged: Vec<HotPage> = Vec::new();
        loop {
            let page = self.face.list_after(paged.last(), size).await.expect("a list");
            let is_last = page.len() < size;
            paged.extend(page);
            if is_last || paged.len() > all.len() {
                break;
            }
        }
        prop_assert_eq!(paged, all, "by {}", size);
        self.tracked().await
    }

    async fn tracked(&mut self) -> TestCaseResult {
        let (now, tracked) = (self.now(), self.face.tracked().await.expect("a count"));
        prop_assert_eq!(tracked, self.model.tracked(now));
        Ok(())
    }

    async fn step(&mut self, op: &Op) -> TestCaseResult {
        let (now, face) = (self.now(), self.face);
        match op {
            Op::Record { page, id, .. } if self.only_counts => {
                let counted = face.count(&name(*page), count_of(*id)).await.expect("an answer");
                prop_assert_eq!(counted, self.model.count(now, &name(*page), count_of(*id)));
            }
            Op::Many(many) if self.only_counts => self.count_many(many).await?,
            Op::Record { page, id, editor, change, late_ms } => {
                let (page, id) = (name(*page), format!("e{id}"));
                // One of them is nobody.
                let editor = if *editor == 0 { String::new() } else { format!("user{editor}") };
                let at = if *late_ms == 0 { None } else { self.moment(*late_ms) };
                let key = Key::new(&page).expect("a page");
                let edit = Edit { page: key, id: &id, editor: &editor, byte_change: *change, at };
                let recorded = face.record(&edit).await.expect("an answer");
                prop_assert_eq!(recorded, self.model.record(now, &edit));
            }
            Op::Many(many) => self.record_many(many).await?,
            Op::Stats { page } => {
                let stats = face.stats(&name(*page)).await.expect("stats");
                prop_assert_eq!(stats, self.model.stats(now, &name(*page)));
            }
            Op::IsHot { page } => {
                if let Some(is_hot) = face.is_hot(&name(*page)).await.expect("an answer") {
                    prop_assert_eq!(is_hot, self.model.is_hot(now, &name(*page)));
                }
            }
            Op::Remove { page } => {
                let removed = face.remove(&name(*page)).await.expect("an answer");
                prop_assert_eq!(removed, self.model.remove(now, &name(*page)));
            }
            Op::Window { page, from_ms, to_ms } => {
                let (from, to) = (now.strict_add_signed(*from_ms), now.strict_add_signed(*to_ms));
                let range = Timestamp::from_millis(from)..=Timestamp::from_millis(to);
                let window = face.window(&name(*page), range).await.expect("a window");
                prop_assert_eq!(window, self.model.window_of(now, &name(*page), from, to));
            }
            Op::List { limit } => self.list(*limit).await?,
            Op::Tracked => self.tracked().await?,
            Op::Cleanup => {
                let cleaned = face.cleanup().await.expect("a count");
                prop_assert_eq!(cleaned, self.model.cleanup(now));
            }
            Op::Flush => {
                face.flush().await.expect("all of it is sent");
                self.model.flush(now);
            }
            Op::Move { by_ms } => {
                face.clock().set(Timestamp::from_millis(now.strict_add_signed(*by_ms)));
            }
        }
        Ok(())
    }

    /// What is counted is what has happened, whoever came upon it; and it is told, in order.
    async fn events(&self, watch: &mut F::Watch) -> TestCaseResult {
        let metrics = self.face.metrics().await;
        for kind in KINDS {
            let labels = format!("space=\"{}\",kind=\"{}\"", self.face.space(), kind.as_str());
            let line = format!("tidegate_hot_events_total{{{labels}}} ");
            let counted = metrics.lines().find_map(|found| found.strip_prefix(&line));
            let happened = self.model.events.iter().filter(|event| event.0 == kind).count();
            prop_assert_eq!(counted.map(str::to_owned), Some(happened.to_string()), "{}", kind.as_str());
        }
        for (number, expected) in self.model.events.iter().enumerate() {
            let event = self.face.next(watch).await.expect("an event");
            prop_assert_eq!(&event, expected, "event {}", number);
        }
        Ok(())
    }
}

async fn agree<K: Kit>(kit: &K, options: HotOptions, history: &[Op], is_live: bool) -> TestCaseResult {
    let face = &kit.fresh(options.clone()).await;
    let live = if is_live { Some(face.watch().await.expect("events")) } else { None };
    let model = HotModel::new(options.clone()).gathering(kit.gathers());
    let mut pair = Pair { face, only_counts: options.only_counts(), model };
    for (number, op) in history.iter().enumerate() {
        let agreed = pair.step(op).await;
        agreed.map_err(|error| TestCaseError::fail(format!("step {number}, {op:?}: {error}")))?;
    }
    let mut watch = match live {
        Some(watch) => watch,
        None => face.watch().await.expect("events"),
    };
    let events = tokio::time::timeout(SOON, pair.events(&mut watch)).await;
    events.unwrap_or_else(|_| Err(TestCaseError::fail("an event is missing")))
}

/// Runs so many random operations on spaces of `kit` and on the model.
pub fn check<K: Kit>(kit: &K, operations: usize) {
    // Whoever watches while it happens waits for the store to be asked again; whoever comes after does not.
    let is_live = prop::bool::weighted(0.1);
    // Histories have 60 operations in the mean.
    history::run(operations / 60, &(spaces(), ops(), is_live), async |(options, history, is_live)| {
        agree(kit, options, &history, is_live).await
    });
}
