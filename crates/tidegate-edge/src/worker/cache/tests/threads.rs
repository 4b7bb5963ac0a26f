//! Readers beside a writer.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::RwLock;

use super::*;

#[test]
fn clicks_of_many_threads_are_all_there_whoever_leaves_meanwhile() {
    const KEYS: usize = 300;
    const CLICKS: usize = 20_000;
    // For about half of them.
    let cache = RwLock::new(Cache::new(24 << 10, 1));
    let is_over = AtomicBool::new(false);
    let mut counted: BTreeMap<Box<str>, u64> = BTreeMap::new();
    let mut count = |clicks: Vec<Clicked>| {
        for it in clicks {
            *counted.entry(it.id).or_default() += it.clicks;
        }
    };
    let mut made: BTreeMap<Box<str>, u64> = BTreeMap::new();
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..3)
            .map(|reader| {
                let cache = &cache;
                scope.spawn(move || {
                    let mut made = vec![0; KEYS];
                    let mut number = reader;
                    for _ in 0..CLICKS {
                        number = (number * 7 + 13) % KEYS;
                        if let Some(hit) = cache.read().hit(number) {
                            assert_eq!(hit.view().id(), format!("{number:08}"));
                            hit.click();
                            made[number] += 1;
                        }
                    }
                    made
                })
            })
            .collect();
        let taker = scope.spawn(|| {
            let mut taken = Vec::new();
            while !is_over.load(Ordering::Relaxed) {
                taken.extend(cache.read().take_clicks(7));
            }
            taken
        });
        let mut number = 0;
        while readers.iter().any(|it| !it.is_finished()) {
            number = (number + 1) % KEYS;
            count(cache.write().put(number, |_| ()).clicks);
            let removed = cache.write().remove(hash(0, &path(number / 2)), 0, &path(number / 2));
            count(removed.into_iter().collect());
        }
        for (number, clicks) in readers.into_iter().flat_map(|it| it.join().unwrap().into_iter().enumerate())
        {
            *made.entry(format!("{number:08}").into()).or_default() += clicks;
        }
        is_over.store(true, Ordering::Relaxed);
        count(taker.join().unwrap());
    });
    count(cache.read().take_clicks(usize::MAX));
    counted.retain(|_, clicks| *clicks > 0);
    made.retain(|_, clicks| *clicks > 0);
    assert!(!made.is_empty());
    assert_eq!(counted, made);
}
