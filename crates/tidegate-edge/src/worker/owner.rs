//! Which of several workers keep a rule's body, by rendezvous hashing.
//!
//! Each worker has a score for each key, and the highest ones own it. So every node knows the owners from the names
//! alone, keys are spread evenly, and a worker that comes or goes moves only the keys that it gets or had.

use std::hash::Hasher as _;
use std::iter;

use siphasher::sip::SipHasher24;

use super::key::mix;
use crate::error::{Error, Result};

/// The same on every node and in every release: a change would move all bodies, and nodes that have it would not agree
/// with those that do not.
const KEY: &[u8; 16] = b"tidegate-owners1";

/// The most workers that may share rules. A score of each is computed for every key.
const MAX_NAMES: usize = 256;

/// Workers that share rules, and how many of them keep each.
#[derive(Debug, Clone)]
pub struct Owners {
    workers: Vec<Worker>,
    replicas: usize,
}

#[derive(Debug, Clone)]
struct Worker {
    name: String,
    hash: u64,
}

impl Owners {
    /// Workers of these names, each key with `replicas` of them. The order of names does not matter.
    ///
    /// ```
    /// use tidegate_edge::worker::owner::{Owners, owner_hash};
    ///
    /// let owners = Owners::new(["a", "b", "c"], 2)?;
    /// let key = owner_hash("example.com", "/docs");
    /// let names: Vec<_> = owners.of(key).collect();
    /// assert_eq!(names.len(), 2);
    /// assert!(owners.is_owner(names[1], key));
    /// # Ok::<_, tidegate_edge::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If there are no names or too many, one is empty or there twice, or there are fewer names than replicas.
    pub fn new<N: Into<String>>(names: impl IntoIterator<Item = N>, replicas: usize) -> Result<Self> {
        let named = |name: N| {
            let name = name.into();
            Worker { hash: name_hash(&name), name }
        };
        let mut workers: Vec<_> = names.into_iter().map(named).collect();
        // In one order, so that equal scores are decided alike everywhere.
        workers.sort_by(|a, b| a.name.cmp(&b.name));
        let count = workers.len();
        if !(1..=MAX_NAMES).contains(&count) {
            return Err(Error::config(format!("{count} workers cannot share rules: 1 to {MAX_NAMES} can")));
        }
        if workers.iter().any(|it| it.name.is_empty()) {
            return Err(Error::config("the name of a worker is empty"));
        }
        if let Some(twice) = workers.windows(2).find(|it| it[0].name == it[1].name) {
            return Err(Error::config(format!("two workers are called {:?}", twice[0].name)));
        }
        if !(1..=count).contains(&replicas) {
            return Err(Error::config(format!(
                "{replicas} replicas are not allowed: 1 to {count} are, a worker each"
            )));
        }
        Ok(Self { workers, replicas })
    }

    /// The names of those who keep a key, the first owner first. Nothing is allocated.
    pub fn of(&self, key: u64) -> impl Iterator<Item = &str> {
        let next = move |last: &(u64, usize)| self.ranks(key).filter(|rank| rank < last).max();
        let first = self.ranks(key).max();
        iter::successors(first, next).take(self.replicas).map(|(_, at)| &*self.workers[at].name)
    }

    /// Whether the worker of this name keeps a key.
    pub fn is_owner(&self, name: &str, key: u64) -> bool {
        let own = self.ranks(key).zip(&self.workers).find(|(_, it)| it.name == name);
        own.is_some_and(|(own, _)| self.ranks(key).filter(|rank| *rank > own).count() < self.replicas)
    }

    /// What each has for a key; the highest own it. No two are equal, whatever the hashes.
    fn ranks(&self, key: u64) -> impl Iterator<Item = (u64, usize)> {
        self.workers.iter().enumerate().map(move |(at, it)| (mix(it.hash ^ key), at))
    }

    /// All names, in their order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.workers.iter().map(|it| &*it.name)
    }
}

/// What owners of a host and path are decided by, both normalised: the same number on every node, unlike
/// [those of the cache](super::key).
pub fn owner_hash(host: &str, path: &str) -> u64 {
    let mut hasher = SipHasher24::new_with_key(KEY);
    hasher.write(host.as_bytes());
    // A path begins with a slash, and no host has one in it: neither runs into the other.
    hasher.write(path.as_bytes());
    hasher.finish()
}

fn name_hash(name: &str) -> u64 {
    let mut hasher = SipHasher24::new_with_key(KEY);
    hasher.write(name.as_bytes());
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;
    use proptest::sample::subsequence;

    use super::*;

    const KEYS: usize = 100_000;

    fn keys() -> Vec<u64> {
        (0..KEYS).map(|it| owner_hash("example.com", &format!("/{it}"))).collect()
    }

    fn names(count: usize) -> Vec<String> {
        (0..count).map(|it| format!("worker-{it}")).collect()
    }

    fn owners(count: usize, replicas: usize) -> Owners {
        Owners::new(names(count), replicas).unwrap()
    }

    #[test]
    fn keys_are_spread_evenly_and_one_more_worker_gets_its_part_of_them() {
        let keys = keys();
        let mut before = vec!["worker-0"; KEYS];
        let (names, mut worst) = (names(20), 0.0_f64);
        let mut look = |what: &str, count: usize, even: f64| {
            let off = (count as f64 / even - 1.0).abs();
            assert!(off < 0.1, "{what}: {count} keys, {even} would be even");
            worst = worst.max(off);
        };
        for count in 2..=20 {
            let owners = owners(count, 1);
            let even = KEYS as f64 / count as f64;
            let mut kept: HashMap<&str, usize> = HashMap::new();
            for (key, before) in keys.iter().zip(&mut before) {
                let owner = owners.of(*key).next().unwrap();
                *kept.entry(owner).or_default() += 1;
                if owner != *before {
                    assert_eq!(owner, names[count - 1], "it has moved, but not to who is new");
                    *before = &names[count - 1];
                }
            }
            assert_eq!(kept.len(), count);
            kept.into_iter().for_each(|(name, kept)| look(&format!("{name} of {count}"), kept, even));
        }
        for (count, replicas) in [(2, 2), (3, 2), (20, 3)] {
            let owners = owners(count, replicas);
            let mut kept: HashMap<&str, usize> = HashMap::new();
            keys.iter().for_each(|key| owners.of(*key).for_each(|name| *kept.entry(name).or_default() += 1));
            let even = (KEYS * replicas) as f64 / count as f64;
            kept.into_iter()
                .for_each(|(name, kept)| look(&format!("{name} of {count}, {replicas} each"), kept, even));
        }
        println!("at most {:.1} % off", worst * 100.0);
    }

    proptest! {
        #[test]
        fn the_order_of_names_does_not_matter_and_replicas_are_different_workers(
            mut shuffled in Just(names(8)).prop_shuffle(),
            replicas in 1_usize..=8,
            key: u64,
        ) {
            let before: Vec<_> = owners(8, replicas).of(key).map(str::to_owned).collect();
            let all = Owners::new(shuffled.clone(), replicas).unwrap();
            prop_assert_eq!(&all.of(key).collect::<Vec<_>>(), &before);
            for name in &shuffled {
                prop_assert_eq!(all.is_owner(name, key), before.contains(name));
            }
            prop_assert!(!all.is_owner("worker", key));
            let fewer = Owners::new(shuffled.clone(), replicas.max(2) - 1).unwrap();
            prop_assert!(fewer.of(key).eq(before.iter().take(replicas.max(2) - 1)));
            shuffled.sort();
            shuffled.retain(|name| before.contains(name));
            prop_assert_eq!(shuffled.len(), replicas);
        }

        #[test]
        fn who_leaves_is_followed_by_the_next_in_rank(
            stay in subsequence(names(10), 3..10),
            replicas in 1_usize..=3,
            key: u64,
        ) {
            let ranked: Vec<_> = owners(10, 10).of(key).map(str::to_owned).collect();
            let expected: Vec<_> = ranked.into_iter().filter(|name| stay.contains(name)).take(replicas).collect();
            let left = Owners::new(stay, replicas).unwrap();
            prop_assert_eq!(left.of(key).collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn it_is_the_same_for_ever() {
        let key = owner_hash("example.com", "/docs");
        assert_eq!(key, 12_060_747_277_276_193_136, "bodies would all move");
        assert_eq!(owners(5, 3).of(key).collect::<Vec<_>>(), ["worker-0", "worker-4", "worker-2"]);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let error =
            |names: &[&str], replicas| Owners::new(names.iter().copied(), replicas).unwrap_err().to_string();
        assert_eq!(error(&[], 1), "0 workers cannot share rules: 1 to 256 can");
        assert_eq!(error(&["a"; 257], 1), "257 workers cannot share rules: 1 to 256 can");
        assert_eq!(error(&["a", "b", "a"], 1), "two workers are called \"a\"");
        assert_eq!(error(&["a", ""], 1), "the name of a worker is empty");
        assert_eq!(error(&["a", "b"], 0), "0 replicas are not allowed: 1 to 2 are, a worker each");
        assert_eq!(error(&["a", "b"], 3), "3 replicas are not allowed: 1 to 2 are, a worker each");
    }
}
