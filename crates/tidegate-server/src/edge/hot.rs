//! Links that are redirected most right now: a sample of redirects, in a space of this process that only counts.
//!
//! A redirect that is noted costs a lock that nobody waits for; of many only some are, so that a flood of them costs nothing.
//! What was noted is added up by link and counted off their way.

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tidegate::Key;
use tidegate::hot::{Count, HotOptions, HotPage, InProcess};
use tidegate::limit::WhenFull;
use tidegate_edge::path::{normalised, normalised_host};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// What redirects are gathered for.
const GATHERED: Duration = Duration::from_millis(100);

/// How many of them at most.
const MAX_GATHERED: usize = 40;

/// The most a second that are noted.
pub(crate) const SAMPLED_PER_SECOND: u64 = MAX_GATHERED as u64 * 10;

/// For how long one counts.
pub(crate) const WINDOW: Duration = Duration::from_secs(60);

/// Of the longest names so much is kept as it is.
const CUT_BYTES: usize = 200;

/// The links of a worker. The background task ends with it.
#[derive(Debug)]
pub(crate) struct HotLinks {
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    space: InProcess,
    gathered: Mutex<Vec<(String, String)>>,
    is_full: AtomicBool,
    noted: Notify,
    hasher: RandomState,
}

impl Drop for HotLinks {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl HotLinks {
    /// Needs a tokio runtime.
    pub(super) fn start() -> Result<Self, String> {
        let options = HotOptions::default()
            .hot_threshold(1)
            .window_duration(WINDOW)
            .max_tracked(1000)
            .max_members_per_page(0)
            .when_full(WhenFull::ReplaceColdest)
            .max_activity(1000)
            .max_bytes(16 << 20);
        let shared = Arc::new(Shared {
            space: InProcess::new(options).map_err(|error| error.to_string())?,
            gathered: Mutex::new(Vec::with_capacity(MAX_GATHERED)),
            is_full: AtomicBool::new(false),
            noted: Notify::new(),
            hasher: RandomState::new(),
        });
        let task = tokio::spawn(gather(Arc::clone(&shared)));
        Ok(Self { shared, task })
    }

    /// A request was redirected.
    #[inline]
    pub(super) fn note(&self, host: &str, path: &str) {
        if !self.shared.is_full.load(Ordering::Relaxed) {
            self.shared.note(host, path);
        }
    }

    /// The hottest, the hottest first.
    pub(crate) fn list(&self, limit: usize) -> Vec<HotPage> {
        self.shared.space.cleanup();
        self.shared.space.list(limit)
    }
}

impl Shared {
    fn note(&self, host: &str, path: &str) {
        // Whoever would have to wait is not noted.
        let Some(mut gathered) = self.gathered.try_lock() else { return };
        if gathered.is_empty() {
            self.noted.notify_one();
        }
        gathered.push((host.to_owned(), path.to_owned()));
        if gathered.len() >= MAX_GATHERED {
            self.is_full.store(true, Ordering::Relaxed);
        }
    }

    /// Counts what was noted, all of a link together.
    fn count(&self, noted: &[(String, String)]) {
        let mut links: BTreeMap<String, u64> = BTreeMap::new();
        for (host, path) in noted {
            let Some((host, path)) = normalised_host(host).zip(normalised(path)) else { continue };
            let link = cut(format!("{host}{path}"), |link| self.hasher.hash_one(link));
            *links.entry(link).or_default() += 1;
        }
        // A link that is none of a key's form is not counted.
        let keys = links.iter().filter_map(|(link, count)| Some(Count::new(Key::new(link).ok()?, *count)));
        let _ = self.space.count_many(&keys.collect::<Vec<_>>());
    }
}

async fn gather(shared: Arc<Shared>) {
    loop {
        shared.noted.notified().await;
        tokio::time::sleep(GATHERED).await;
        let gathered = {
            let mut gathered = shared.gathered.lock();
            let taken = std::mem::replace(&mut *gathered, Vec::with_capacity(MAX_GATHERED));
            shared.is_full.store(false, Ordering::Relaxed);
            taken
        };
        shared.count(&gathered);
    }
}

/// A name that fits a key: the end of a long one is a number made of all of it.
fn cut(link: String, hash: impl FnOnce(&str) -> u64) -> String {
    if link.len() <= tidegate::key::MAX_KEY_BYTES {
        return link;
    }
    // Hosts and paths are ASCII by now, and cut anywhere.
    format!("{}~{:016x}", link.get(..CUT_BYTES).unwrap_or_default(), hash(&link))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_links_are_cut_and_told_apart() {
        let hasher = RandomState::new();
        let cut = |link: &str| cut(link.to_owned(), |link| hasher.hash_one(link));
        assert_eq!(cut("a.example/b"), "a.example/b");
        let (long, other) =
            (format!("a.example/{}x", "b".repeat(300)), format!("a.example/{}y", "b".repeat(300)));
        assert_eq!(cut(&long).len(), CUT_BYTES + 17);
        assert!(long.starts_with(&cut(&long)[..CUT_BYTES]));
        assert_ne!(cut(&long), cut(&other));
    }

    #[tokio::test(start_paused = true)]
    async fn redirects_are_counted_and_no_more_than_so_many() {
        let links = HotLinks::start().unwrap();
        for _ in 0..3 {
            links.note("A.example:80", "/x/../hot");
        }
        links.note("a.example", "/cold");
        tokio::time::sleep(GATHERED * 2).await;
        let listed: Vec<_> = links.list(10).into_iter().map(|it| (it.page, it.edits)).collect();
        assert_eq!(listed, [("a.example/hot".to_owned(), 3), ("a.example/cold".to_owned(), 1)]);
        for _ in 0..MAX_GATHERED * 3 {
            links.note("a.example", "/flood");
        }
        tokio::time::sleep(GATHERED * 2).await;
        assert_eq!(links.list(1)[0].edits, MAX_GATHERED as u64);
    }
}
