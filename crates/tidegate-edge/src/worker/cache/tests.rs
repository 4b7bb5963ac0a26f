//! The cache beside naive ones.

mod hit_rate;
mod model;
mod threads;

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use super::*;
use crate::rule::{Rule, Terms};
use crate::truth::Digest;

pub(super) fn rule(id: &str, path: &str, change: impl FnOnce(&mut Terms)) -> Rule {
    let mut terms = Terms::new(path, "https://www.example.com/landing/page-12345678");
    change(&mut terms);
    Rule { id: id.into(), terms, clicks: 0, version: 1, created_at: 0, updated_at: 0 }
}

pub(super) fn entry(number: usize, change: impl FnOnce(&mut Terms)) -> Entry {
    let rule = rule(&format!("{number:08}"), &path(number), change);
    Entry::new(&rule, 0, Digest::default())
}

pub(super) fn path(number: usize) -> String {
    format!("/promo/2024/{number:08}")
}

pub(super) fn hash(host: u32, path: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (host, path).hash(&mut hasher);
    hasher.finish()
}

/// The cache's faces by number, for host 0.
impl Cache {
    fn put(&mut self, number: usize, change: impl FnOnce(&mut Terms)) -> Inserted {
        self.insert(hash(0, &path(number)), &entry(number, change), 0)
    }

    fn hit(&self, number: usize) -> Option<Hit<'_>> {
        self.get(hash(0, &path(number)), 0, &path(number))
    }

    /// All that is kept, in no order.
    fn iter(&self) -> impl Iterator<Item = View<'_>> {
        self.shards.iter().flat_map(|shard| shard.slots.iter().map(|slot| self.log.view(slot.location)))
    }

    /// All rules are read anew, and those are still so.
    fn read_anew(&mut self, hash: impl Fn(&View<'_>) -> u64, is_same: impl Fn(&View<'_>) -> bool) {
        let mut from = Some(0);
        while let Some(shard) = from {
            from = self.forget_seen(shard, 3);
        }
        for view in self.iter().filter(|view| is_same(view)) {
            assert!(self.note_seen(&Seen { key: hash(&view), host: view.host(), version: view.hash() }));
        }
        self.keep_seen();
    }

    /// What is really there.
    fn counted_bytes(&self) -> usize {
        let slots = self.shards.iter().map(|it| it.slots.bytes());
        self.empty_index_bytes() + slots.sum::<usize>() + self.log.counted_bytes()
    }
}

#[test]
fn a_shard_is_one_line_and_a_slot_is_twelve_bytes() {
    assert_eq!((size_of::<Shard>(), size_of::<Slot>()), (64, 12));
}

#[test]
fn who_leaves_is_who_was_not_asked_for() {
    let mut cache = Cache::new(1 << 20, 1);
    let count = (0..).take_while(|&number| cache.put(number, |_| ()).evicted == 0).count();
    let wanted = count / 2..count / 2 + count / 10;
    for number in count..3 * count {
        let _ = cache.put(number, |_| ());
        if number % 100 == 0 {
            wanted.clone().for_each(|number| assert!(cache.hit(number).is_some(), "{number}"));
        }
    }
    let others = (0..count).filter(|number| !wanted.contains(number));
    assert_eq!(others.filter(|&number| cache.hit(number).is_some()).count(), 0);
}

#[test]
fn what_has_just_come_or_changed_is_there_however_full_it_is() {
    let mut cache = Cache::new(64 << 10, 8);
    for number in 0..5_000 {
        assert!(cache.put(number, |_| ()).is_kept);
        assert!(cache.hit(number).is_some());
        let changed = number / 2;
        let _ = cache.put(changed, |it| it.destination = format!("/{number}"));
        let location = cache.hit(changed).map(|it| it.view().redirect("/", None).location.into_owned());
        assert_eq!(location, Some(format!("/{number}")));
    }
    assert!(cache.stats().evicted > 4_000);
}

#[test]
fn a_round_goes_as_many_items_below_the_bound_as_it_is_told_and_no_more_than_a_segment_further() {
    for batch in [0, 100, 1_000, 5_000] {
        let mut cache = Cache::new(32 << 20, batch);
        let (number, evicted) = (0..)
            .map(|number| (number, cache.put(number, |_| ()).evicted))
            .find(|&(_, evicted)| evicted > 0)
            .unwrap();
        let two_segments = 2 * (64 << 10) / 97;
        assert!((batch..batch + two_segments).contains(&evicted), "{evicted} for {batch}");
        let stats = cache.stats();
        assert_eq!((stats.evictions, stats.evicted), (1, evicted as u64));
        let room = (number + 1..).take_while(|&number| cache.put(number, |_| ()).evicted == 0).count();
        assert!(room + two_segments > batch, "room for {room} after {batch}");
    }
}

#[test]
fn a_round_does_not_look_at_all_there_is() {
    let mut cache = Cache::new(8 << 20, 100);
    let count = (0..).take_while(|&number| cache.put(number, |_| ()).evicted == 0).count();
    (0..2 * count).for_each(|number| _ = cache.hit(number));
    let evicted = (count + 1..).map(|number| cache.put(number, |_| ()).evicted).find(|&it| it > 0).unwrap();
    assert!(evicted >= 100);
    let shards = cache.shards.iter_mut();
    let slots = shards.flat_map(|it| {
        (0..it.slots.len()).map(|at| it.slots.at_mut(at).marks.was_visited()).collect::<Vec<_>>()
    });
    let visited = slots.filter(|&it| it).count();
    assert!(count > 60_000 && visited > count - 12_000, "{visited} of {count}");
}

#[test]
fn one_that_is_larger_than_the_bound_is_not_kept_and_nobody_leaves_for_it() {
    let mut cache = Cache::new(MIN_BOUND_BYTES, 8);
    (0..10).for_each(|number| _ = cache.put(number, |_| ()));
    cache.hit(3).unwrap().click();
    let inserted = cache.put(3, |it| it.destination = "/".repeat(5_000));
    assert_eq!((inserted.is_kept, inserted.evicted, cache.len()), (false, 0, 9));
    assert_eq!(inserted.clicks, [Clicked { id: "00000003".into(), created_at: 0, clicks: 1 }]);
    assert!(cache.hit(3).is_none(), "what it was is not so any more");
}

#[test]
fn a_smaller_bound_holds_at_once() {
    let mut cache = Cache::new(1 << 20, 1);
    for number in 0..5_000 {
        let _ = cache.put(number, |_| ());
        cache.hit(number).unwrap().click();
    }
    let clicks = cache.set_bound_bytes(1 << 18, 7);
    assert!(cache.bytes() <= 1 << 18 && cache.bytes() > 200 << 10, "{}", cache.bytes());
    assert_eq!(clicks.len() + cache.len(), 5_000);
    assert_eq!(cache.stats().last_eviction_ms, Some(7));
    let _ = cache.set_bound_bytes(0, 8);
    assert!(cache.bytes() <= cache.stats().bound_bytes);
    assert_eq!(cache.bytes(), cache.counted_bytes());
}

#[test]
fn what_has_ended_leaves_and_what_has_not_is_not_looked_at() {
    let mut cache = Cache::new(64 << 20, 1);
    for number in 0..100_000 {
        let _ = cache.put(number, |it| it.expires_at = Some(1_000_000 + number as u64));
    }
    for number in [5, 50_000, 99_999] {
        let _ = cache.put(number, |it| it.expires_at = Some(10));
    }
    cache.hit(5).unwrap().click();
    assert_eq!(cache.sweep(10, 100).removed, 0, "live at the very millisecond");
    let swept = cache.sweep(11, 100);
    assert_eq!((swept.removed, swept.is_done, cache.len()), (3, true, 99_997));
    assert_eq!(swept.clicks, [Clicked { id: "00000005".into(), created_at: 0, clicks: 1 }]);
    assert!(swept.looked_at < 1_000, "{}", swept.looked_at);
    assert_eq!(cache.sweep(11, 100).looked_at, 0, "shards know better now");
    // In steps, all of them in the end.
    let steps: Vec<_> = std::iter::repeat_with(|| cache.sweep(u64::MAX, 10_000)).take(12).collect();
    assert!(steps.iter().all(|it| it.removed <= 10_000 && it.looked_at <= 20_000));
    assert!(!steps[0].is_done && steps[11].is_done);
    assert_eq!((cache.len(), cache.stats().expired), (0, 100_000));
}

#[test]
fn what_changes_over_and_over_takes_no_more_than_what_stays_as_it_is() {
    let mut cache = Cache::new(64 << 20, 1);
    (0..10_000).for_each(|number| _ = cache.put(number, |_| ()));
    let before = cache.bytes();
    for turn in 0..100_000 {
        let _ = cache
            .put(turn * 7919 % 10_000, |it| it.destination = format!("https://www.example.com/{turn:022}"));
    }
    assert!(cache.bytes() < before * 115 / 100, "{} after {before}", cache.bytes());
    for number in (0..10_000).filter(|number| number % 10 > 0) {
        assert!(cache.remove(hash(0, &path(number)), 0, &path(number)).is_some());
    }
    let segments = (cache.log.bytes() - cache.log.empty_bytes()) / (64 << 10);
    assert!(segments <= 5, "{segments} for 100 KB");
    let found = (0..1_000).map(|number| cache.hit(number * 10).unwrap().view().id().to_owned());
    assert!(found.zip(0..).all(|(id, number)| id == format!("{:08}", number * 10)));
}

/// Locations are coarser then.
#[test]
fn bounds_of_many_gigabytes_are_no_different() {
    let mut cache = Cache::new(40 << 30, 1);
    for turn in 0..30_000 {
        let _ = cache.put(turn % 3_000, |it| it.destination = "/x".repeat(turn % 50));
    }
    for number in 0..3_000 {
        let hit = cache.hit(number).unwrap();
        assert_eq!((hit.view().id(), hit.view().path()), (&*format!("{number:08}"), &*path(number)));
    }
    assert_eq!(cache.bytes(), cache.counted_bytes());
    cache.keep_seen();
    assert_eq!(cache.drop_unseen(usize::MAX), (true, Vec::new()));
    assert_eq!((cache.len(), cache.hit(1).is_none()), (0, true));
}

#[test]
fn keys_with_the_same_hash_are_told_apart() {
    let mut cache = Cache::new(1 << 20, 1);
    for (host, number) in (0..3).flat_map(|host| (0..200).map(move |number| (host, number))) {
        let rule = rule(&format!("{host}-{number}"), &path(number), |_| ());
        let _ = cache.insert(7, &Entry::new(&rule, host, Digest::default()), 0);
    }
    assert_eq!(cache.len(), 600);
    for (host, number) in (0..3).flat_map(|host| (0..200).map(move |number| (host, number))) {
        let hit = cache.get(7, host, &path(number)).unwrap();
        assert_eq!(hit.view().id(), format!("{host}-{number}"));
        assert!(
            cache.get(1 << 60, host, &path(number)).is_none() && cache.get(7, 3, &path(number)).is_none()
        );
    }
    assert_eq!(cache.remove(7, 1, &path(5)).map(|it| it.id), Some("1-5".into()));
    assert!(cache.get(7, 1, &path(5)).is_none() && cache.get(7, 2, &path(5)).is_some());
}

#[test]
fn clicks_are_taken_piece_by_piece_and_go_on_with_their_rule() {
    let mut cache = Cache::new(1 << 20, 1);
    for number in 0..1_000 {
        let _ = cache.put(number, |_| ());
        (0..=number % 3).for_each(|_| cache.hit(number).unwrap().click());
    }
    // Changed meanwhile, and in one case by another rule.
    assert_eq!(cache.put(1, |it| it.destination = "/b".into()).clicks, []);
    let other = Entry::new(&rule("other", &path(2), |_| ()), 0, Digest::default());
    let left = cache.insert(hash(0, &path(2)), &other, 0).clicks;
    assert_eq!(left, [Clicked { id: "00000002".into(), created_at: 0, clicks: 3 }]);
    let pieces: Vec<_> = std::iter::repeat_with(|| cache.take_clicks(300)).take(5).collect();
    assert_eq!(pieces.iter().map(Vec::len).collect::<Vec<_>>(), [300, 300, 300, 99, 0]);
    let mut taken: Vec<_> = pieces.into_iter().flatten().collect();
    taken.sort_by(|a, b| a.id.cmp(&b.id));
    let expected = (0..1_000).filter(|&number| number != 2);
    let expected = expected.map(|number| Clicked {
        id: format!("{number:08}").into(),
        created_at: 0,
        clicks: number % 3 + 1,
    });
    assert_eq!(taken, expected.collect::<Vec<_>>());
}

#[test]
fn more_clicks_than_there_is_room_for_are_not_counted_and_spoil_nothing() {
    let mut cache = Cache::new(1 << 20, 1);
    let _ = cache.put(1, |_| ());
    let most = Marks::MAX_CLICKS;
    let mut shards = cache.shards.iter_mut().filter(|it| it.slots.len() > 0);
    shards.next().unwrap().slots.at_mut(0).marks.set_clicks(most - 1);
    (0..5).for_each(|_| cache.hit(1).unwrap().click());
    cache.shards.iter().for_each(|it| shard::note_clicked(&it.clicked, u64::MAX));
    assert_eq!(
        cache.take_clicks(10),
        [Clicked { id: "00000001".into(), created_at: 0, clicks: u64::from(most) }]
    );
    cache.hit(1).unwrap().click();
    assert_eq!(cache.take_clicks(10), [Clicked { id: "00000001".into(), created_at: 0, clicks: 1 }]);
}

/// Rules of which another version is read are not there from one moment on, and leave a few at a time.
#[test]
fn who_is_not_seen_when_all_are_read_leaves_with_its_clicks() {
    let mut cache = Cache::new(1 << 20, 1);
    for number in 0..1_000 {
        let _ = cache.put(number, |_| ());
        cache.hit(number).unwrap().click();
    }
    let stays = |number: usize| number.is_multiple_of(10);
    cache.read_anew(|view| hash(view.host(), view.path()), |view| view.id().ends_with('0'));
    assert!((0..1_000).all(|number| cache.hit(number).is_some() == stays(number)), "from one moment on");
    assert_eq!(cache.len(), 1_000);
    // Who comes meanwhile is new.
    let _ = cache.put(1, |_| ());
    let (mut left, mut steps, mut are_all) = (Vec::new(), 0, false);
    while !are_all {
        let before = cache.len();
        let (is_last, clicks) = cache.drop_unseen(50);
        assert!(before - cache.len() < 150, "{} at once", before - cache.len());
        (are_all, steps) = (is_last, steps + 1);
        left.extend(clicks);
    }
    assert!(steps > 5, "{steps}");
    assert_eq!((left.len(), cache.len(), cache.iter().count()), (899, 101, 101));
    assert!((0..1_000).all(|number| cache.hit(number).is_some() == (stays(number) || number == 1)));
    assert_eq!(cache.bytes(), cache.counted_bytes());
}
