//! Hashes of keys: one number for a host and a path, by which the filter and the cache know a rule.
//!
//! The path is hashed once however many hosts could have it, and then mixed with the hash of each host. The seed is this
//! process's own: nobody outside can choose paths that collide. It follows that the hashes mean nothing elsewhere: who
//! keeps what is decided by [`owner`](super::owner).

use std::hash::{BuildHasher as _, Hasher as _};

use foldhash::SharedSeed;
use foldhash::fast::SeedableRandomState;

/// Makes hashes of keys, from one seed.
#[derive(Debug, Clone)]
pub struct KeyHasher(SeedableRandomState);

/// The hash of a path, for whatever hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathHash(u64);

/// The hash of a host. It depends on the name alone, so who numbers hosts otherwise has the same hashes of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostHash(u64);

impl KeyHasher {
    /// With a seed that nobody knows.
    pub fn random() -> Self {
        Self(SeedableRandomState::random())
    }

    /// With this seed: the same hashes every time, for a test.
    pub fn seeded(seed: u64) -> Self {
        Self(SeedableRandomState::with_seed(seed, SharedSeed::global_fixed()))
    }

    /// The hash of a path, which is to be normalised.
    ///
    /// ```
    /// use tidegate_edge::worker::key::KeyHasher;
    ///
    /// let hasher = KeyHasher::random();
    /// let path = hasher.path("/docs");
    /// assert_ne!(path.of_host(hasher.host("*")), path.of_host(hasher.host("example.com")));
    /// ```
    #[inline]
    pub fn path(&self, path: &str) -> PathHash {
        let mut hasher = self.0.build_hasher();
        hasher.write(path.as_bytes());
        PathHash(hasher.finish())
    }

    /// The hash of a host, as rules have it.
    pub fn host(&self, name: &str) -> HostHash {
        let mut hasher = self.0.build_hasher();
        hasher.write(name.as_bytes());
        HostHash(hasher.finish())
    }
}

impl PathHash {
    /// The hash of this path and a host. All of its bits are alike: some of them are as good as others.
    #[inline]
    pub fn of_host(self, host: HostHash) -> u64 {
        // A product, so that a path and a host of the same text are not nothing together.
        mix(self.0 ^ host.0.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }
}

/// Makes every bit depend on all of them, and loses nothing: different numbers stay different.
#[inline]
pub(super) fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    bits = (bits ^ (bits >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    bits ^ (bits >> 32)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// Paths as people have them: alike but for a few characters, of all lengths.
    fn paths() -> impl Iterator<Item = String> {
        (0..10_000).map(|it| match it % 5 {
            0 => format!("/{it}"),
            1 => format!("/{}", "a".repeat(it / 5)),
            2 => format!("/campaigns/summer/2026/products/{it}/reviews"),
            3 => format!("/{it:x}/"),
            _ => format!("/docs/{}", (0..it % 40).map(|at| format!("{}/", it ^ at)).collect::<String>()),
        })
    }

    fn hashes(hasher: &KeyHasher) -> Vec<u64> {
        let hosts: Vec<_> = (0..100).map(|host| hasher.host(&format!("www{host}.example.com"))).collect();
        let of_hosts = |path: String| {
            let path = hasher.path(&path);
            hosts.iter().map(|host| path.of_host(*host)).collect::<Vec<_>>()
        };
        paths().flat_map(of_hosts).collect()
    }

    #[test]
    fn a_million_hosts_and_paths_have_as_many_hashes() {
        let paths: HashSet<_> = paths().collect();
        assert_eq!(paths.len(), 10_000, "the test's own paths");
        let mut hashes = hashes(&KeyHasher::random());
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), 1_000_000);
    }

    /// The filter takes the highest bits and the lowest, hash tables the lowest and the highest seven.
    #[test]
    fn any_part_of_the_bits_collides_as_often_as_chance_has_it() {
        const BITS: u32 = 26;
        let hashes = hashes(&KeyHasher::random());
        let places = f64::from(1 << BITS);
        let expected = places * (1.0 - (-1_000_000.0 / places).exp());
        for rotated in (0..64).step_by(6) {
            let mut seen = vec![0_u64; 1 << (BITS - 6)];
            for hash in &hashes {
                let place = (hash.rotate_right(rotated) & ((1 << BITS) - 1)) as usize;
                seen[place / 64] |= 1 << (place % 64);
            }
            let different: u32 = seen.iter().map(|it| it.count_ones()).sum();
            // Of a million about 7,400 collide, give or take 86.
            let off = f64::from(different) - expected;
            assert!(
                off.abs() < 600.0,
                "{different} of a million from bit {rotated} on, {expected} are expected"
            );
        }
    }

    /// Otherwise two keys that collide would collide with every other host too.
    #[test]
    fn what_another_host_changes_depends_on_the_path() {
        let hasher = KeyHasher::random();
        let mut changed = [0; 64];
        for path in paths() {
            let path = hasher.path(&path);
            let change = path.of_host(hasher.host("a")) ^ path.of_host(hasher.host("b"));
            (0..64).for_each(|bit| changed[bit] += change >> bit & 1);
        }
        // Half of 10,000 times, give or take 50.
        assert!(changed.iter().all(|it| (4_500..5_500).contains(it)), "{changed:?}");
    }

    #[test]
    fn a_seed_decides_and_so_does_every_byte() {
        let hash = |seed, path: &str, host: &str| {
            let hasher = KeyHasher::seeded(seed);
            hasher.path(path).of_host(hasher.host(host))
        };
        let one = hash(7, "/docs", "a");
        assert_eq!(one, hash(7, "/docs", "a"));
        for other in
            [hash(8, "/docs", "a"), hash(7, "/docs/", "a"), hash(7, "/Docs", "a"), hash(7, "/docs", "b")]
        {
            assert_ne!(one, other);
        }
        let path = "/docs";
        assert_ne!(KeyHasher::random().path(path), KeyHasher::random().path(path));
    }
}
