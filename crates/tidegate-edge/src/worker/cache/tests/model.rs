//! Random histories, compared step by step with a map that forgets nothing.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone)]
enum Step {
    Insert { key: Key, id: u8, expires_at: Option<u64>, extra: usize },
    Get(Key),
    Click(Key),
    Remove(Key),
    Take(usize),
    Sweep { now_ms: u64, limit: usize },
    ReadAnew(u8),
    DropUnseen(usize),
    Bound(usize),
}

type Key = (u32, u8);

fn steps() -> impl Strategy<Value = Step> {
    let key = || (0..3_u32, 0..40_u8);
    let extra = prop_oneof![5 => 0..100_usize, 4 => 100..900_usize, 1 => 0..3_000_usize];
    prop_oneof![
        9 => (key(), 0..60_u8, proptest::option::of(0..100_u64), extra)
            .prop_map(|(key, id, expires_at, extra)| Step::Insert { key, id, expires_at, extra }),
        4 => key().prop_map(Step::Get),
        4 => key().prop_map(Step::Click),
        2 => key().prop_map(Step::Remove),
        1 => (0..10_usize).prop_map(Step::Take),
        1 => (0..100_u64, 0..5_usize).prop_map(|(now_ms, limit)| Step::Sweep { now_ms, limit }),
        1 => (0..60_u8).prop_map(Step::ReadAnew),
        1 => (0..30_usize).prop_map(Step::DropUnseen),
        1 => (0..40_000_usize).prop_map(Step::Bound),
    ]
}

/// How keys are hashed: well, all alike, or into a few.
fn hashed(by: usize, key: Key) -> u64 {
    let well = hash(key.0, &text(key));
    [well, 0, well & (0b101 << 61)][by]
}

fn text(key: Key) -> String {
    format!("/{}", key.1)
}

/// What was last said of a key: the entry's id, the number of its step, its end.
type Said = (String, u64, Option<u64>);

struct Model {
    cache: Cache,
    by: usize,
    said: BTreeMap<Key, Said>,
    /// Clicks by id: those made, and those that came out.
    clicked: BTreeMap<String, u64>,
    counted: BTreeMap<String, u64>,
    /// Whether a key may be missing that was not removed.
    may_miss: bool,
}

impl Model {
    fn count(&mut self, clicks: impl IntoIterator<Item = Clicked>) {
        for Clicked { id, clicks, .. } in clicks {
            *self.counted.entry(id.into()).or_default() += clicks;
        }
    }

    /// Whether all have left who were not seen.
    fn drop_unseen(&mut self, limit: usize) -> bool {
        let (are_all, clicks) = self.cache.drop_unseen(limit);
        self.count(clicks);
        are_all
    }

    fn look(&mut self, key: Key, clicks: bool) -> Result<(), TestCaseError> {
        let hit = self.cache.get(hashed(self.by, key), key.0, &text(key));
        let Some(hit) = hit else {
            prop_assert!(self.may_miss || !self.said.contains_key(&key), "{key:?} is missing");
            return Ok(());
        };
        let view = *hit.view();
        let found = (view.id().to_owned(), view.created_at(), view.expires_at());
        prop_assert_eq!(Some(&found), self.said.get(&key));
        prop_assert_eq!((view.host(), view.path()), (key.0, &*text(key)));
        if clicks {
            hit.click();
            *self.clicked.entry(found.0).or_default() += 1;
        }
        Ok(())
    }

    fn step(&mut self, number: u64, step: Step) -> Result<(), TestCaseError> {
        match step {
            Step::Insert { key, id, expires_at, extra } => {
                let id = format!("rule-{id}");
                let rule = rule(&id, &text(key), |it| {
                    it.destination = "/".repeat(extra);
                    it.expires_at = expires_at;
                });
                let entry =
                    Entry::new(&Rule { created_at: number, ..rule }, key.0, Digest::of("", number, ""));
                let is_first = !self.said.contains_key(&key);
                let had_room = self.cache.has_room_for(hashed(self.by, key), &entry);
                let inserted = self.cache.insert(hashed(self.by, key), &entry, number);
                prop_assert!(inserted.evicted == 0 || !had_room, "there was room");
                prop_assert!(!is_first || inserted.is_kept || inserted.evicted == 0);
                prop_assert_eq!(inserted.is_kept, self.cache.iter().any(|it| it.created_at() == number));
                self.may_miss |= inserted.evicted > 0 || !inserted.is_kept;
                self.count(inserted.clicks);
                self.said.insert(key, (id, number, expires_at));
            }
            Step::Get(key) => self.look(key, false)?,
            Step::Click(key) => self.look(key, true)?,
            Step::Remove(key) => {
                let removed = self.cache.remove(hashed(self.by, key), key.0, &text(key));
                let said = self.said.remove(&key);
                prop_assert!(removed.is_some() || self.may_miss || said.is_none());
                // One that is not there any more may not have left yet.
                let is_it = |it: &Clicked| said.as_ref().is_some_and(|said| *it.id == *said.0);
                prop_assert!(
                    removed.as_ref().is_none_or(|it| is_it(it) || self.cache.unseen_left_to.is_some())
                );
                self.count(removed);
            }
            Step::Take(max) => {
                let taken = self.cache.take_clicks(max);
                prop_assert!(taken.len() <= max && taken.iter().all(|it| it.clicks > 0));
                self.count(taken);
            }
            Step::Sweep { now_ms, limit } => {
                let swept = self.cache.sweep(now_ms, limit);
                prop_assert!(swept.removed <= limit);
                let is_over = |view: View<'_>| view.expires_at().is_some_and(|it| it < now_ms);
                prop_assert_eq!(swept.is_done, !self.cache.iter().any(is_over));
                self.count(swept.clicks);
                let there: Vec<_> = self.cache.iter().map(|it| it.created_at()).collect();
                let stays = |said: &Said| there.contains(&said.1) || said.2.is_none_or(|it| it >= now_ms);
                self.said.retain(|_, said| stays(said));
            }
            Step::ReadAnew(least) => {
                // Those who were not seen the last time have left before.
                while !self.drop_unseen(10) {}
                let is_same = |id: &str| id.len() > 6 || id > &*format!("rule-{least}");
                let by = self.by;
                let hash = |view: &View<'_>| hashed(by, (view.host(), view.path()[1..].parse().unwrap()));
                self.cache.read_anew(hash, |view| is_same(view.id()));
                self.said.retain(|_, said| is_same(&said.0));
            }
            Step::DropUnseen(limit) => drop(self.drop_unseen(limit)),
            Step::Bound(bytes) => {
                let before = self.cache.stats().evicted;
                let left = self.cache.set_bound_bytes(bytes, number);
                self.count(left);
                self.may_miss |= self.cache.stats().evicted > before;
            }
        }
        Ok(())
    }

    fn check(&self, most: usize) -> Result<(), TestCaseError> {
        let stats = self.cache.stats();
        prop_assert!(stats.bytes <= stats.bound_bytes, "{stats:?}");
        prop_assert!(stats.peak_bytes <= most, "{stats:?}, it was bounded by {most}");
        prop_assert_eq!(stats.bytes, self.cache.counted_bytes());
        prop_assert_eq!(stats.len, self.cache.iter().count());
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn it_says_what_it_was_told_last_within_its_bound_and_loses_no_click(
        steps in prop::collection::vec(steps(), 1..400),
        by in 0..3_usize,
        bound_bytes in prop_oneof![3 => 16_000..40_000_usize, 1 => Just(1 << 20)],
        eviction_batch in 0..10_usize,
    ) {
        let cache = Cache::new(bound_bytes, eviction_batch);
        let mut most = cache.stats().bound_bytes;
        let mut model = Model {
            cache, by, said: BTreeMap::new(), clicked: BTreeMap::new(), counted: BTreeMap::new(), may_miss: false,
        };
        for (number, step) in (1..).zip(steps) {
            model.step(number, step)?;
            most = most.max(model.cache.stats().bound_bytes);
            model.check(most)?;
        }
        let taken = model.cache.take_clicks(usize::MAX);
        model.count(taken);
        model.counted.retain(|_, clicks| *clicks > 0);
        prop_assert_eq!(model.clicked, model.counted);
    }
}
