//! The background loop: bounded batches, jitter, a clean end.
//!
//! A job handles at most one batch per call and says how much it did, and
//! whether there is more. If there is, the next batch follows at once: a reaper
//! that was away catches up without ever holding anything for long.

use std::hash::{BuildHasher as _, RandomState};
use std::num::NonZeroUsize;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::clock;
use crate::error::Result;
use crate::log;
use crate::metrics::{Counter, Histogram, Metrics, SECONDS};

/// How a reaper runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rhythm {
    /// From one run to the next, give or take a tenth.
    pub(crate) interval: Duration,
    /// The most a job may look at per call.
    pub(crate) batch: NonZeroUsize,
}

/// What a job did in one call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Progress {
    pub(crate) items: usize,
    pub(crate) is_more: bool,
}

/// Handles of one reaper.
#[derive(Debug, Clone)]
pub(crate) struct ReaperMetrics {
    /// Which one, for the log.
    name: &'static str,
    /// Of which space, if it is one's own.
    space: Option<String>,
    runs: Counter,
    items: Counter,
    failures: Counter,
    seconds: Histogram,
}

impl ReaperMetrics {
    /// Those of the loop called `name`.
    pub(crate) fn new(metrics: &Metrics, name: &'static str) -> Self {
        let labels = [("reaper", name)];
        let counter = |name, help| metrics.counter(name, help, &labels);
        Self {
            name,
            space: None,
            runs: counter("tidegate_reaper_runs", "Runs of a background loop"),
            items: counter("tidegate_reaper_items", "Items it handled"),
            failures: counter("tidegate_reaper_failures", "Runs that failed"),
            seconds: metrics.histogram("tidegate_reaper_seconds", "Time per run", &labels, SECONDS),
        }
    }

    /// The same, of the loop of one space.
    pub(crate) fn in_space(self, space: &str) -> Self {
        Self { space: Some(space.to_owned()), ..self }
    }

    fn ran(&self, items: usize, took: Duration) {
        self.runs.inc();
        self.items.inc_by(items as u64);
        self.seconds.observe(took.as_secs_f64());
    }
}

/// A running loop. It ends when this is dropped, or stopped.
#[derive(Debug)]
pub(crate) struct Reaper {
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Reaper {
    /// Runs `job(batch)` again and again.
    pub(crate) fn start<J, F>(rhythm: Rhythm, metrics: ReaperMetrics, mut job: J) -> Self
    where
        J: FnMut(usize) -> F + Send + 'static,
        F: Future<Output = Result<Progress>> + Send,
    {
        let (stop, mut stopped) = watch::channel(false);
        let task = tokio::spawn(async move {
            let random = RandomState::new();
            loop {
                let pause = jitter(rhythm.interval, random.hash_one(clock::monotonic()));
                tokio::select! {
                    _ = stopped.changed() => return,
                    () = tokio::time::sleep(pause) => {}
                }
                let started = clock::monotonic();
                let mut items = 0;
                loop {
                    match job(rhythm.batch.get()).await {
                        Ok(progress) => {
                            items += progress.items;
                            if !progress.is_more || *stopped.borrow() {
                                break;
                            }
                        }
                        Err(error) => {
                            let (reaper, space) = (metrics.name, metrics.space.as_deref());
                            log::warn!(reaper, space, %error, "reaper failed, the next run will try again");
                            metrics.failures.inc();
                            break;
                        }
                    }
                    tokio::task::yield_now().await;
                }
                metrics.ran(items, started.elapsed());
            }
        });
        Self { stop, task }
    }

    /// Runs `work` until it sees that it is to stop, and has ended.
    pub(crate) fn spawn<F>(work: impl FnOnce(watch::Receiver<bool>) -> F) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (stop, stopped) = watch::channel(false);
        Self { stop, task: tokio::spawn(work(stopped)) }
    }

    /// Runs `job` with a clone of `of` each time.
    pub(crate) fn of<P, J, F>(of: &P, rhythm: Rhythm, metrics: ReaperMetrics, job: J) -> Self
    where
        P: Clone + Send + 'static,
        J: Fn(P, usize) -> F + Send + 'static,
        F: Future<Output = Result<Progress>> + Send,
    {
        let of = of.clone();
        Self::start(rhythm, metrics, move |batch| job(of.clone(), batch))
    }

    /// Ends the loop after the batch it is in.
    pub(crate) async fn stop(self) {
        // A loop that has ended already is stopped.
        let _ = self.stop.send(true);
        let _ = self.task.await;
    }
}

/// `interval` give or take a tenth.
fn jitter(interval: Duration, random: u64) -> Duration {
    interval.mul_f64(0.9 + 0.2 * (random % 1024) as f64 / 1024.0)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn rhythm(interval: Duration) -> Rhythm {
        Rhythm { interval, batch: NonZeroUsize::new(10).unwrap() }
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_batch_is_followed_at_once_and_a_short_one_by_a_pause() {
        let metrics = Metrics::default();
        let left = Arc::new(AtomicUsize::new(35));
        let (seen, mut batches) = tokio::sync::mpsc::unbounded_channel();
        let job = {
            let left = left.clone();
            move |batch: usize| {
                let handled = left.load(Ordering::Relaxed).min(batch);
                left.fetch_sub(handled, Ordering::Relaxed);
                let _ = seen.send(handled);
                async move { Ok(Progress { items: handled, is_more: handled == batch }) }
            }
        };
        let reaper =
            Reaper::start(rhythm(Duration::from_secs(60)), ReaperMetrics::new(&metrics, "test"), job);
        let mut handled = Vec::new();
        for _ in 0..4 {
            handled.push(batches.recv().await.unwrap());
        }
        assert_eq!(handled, [10, 10, 10, 5]);
        assert_eq!(batches.recv().await, Some(0), "the next run comes by itself");
        reaper.stop().await;
        assert!(batches.recv().await.is_none(), "a stopped reaper never runs again");
        let mut registry = prometheus_client::registry::Registry::default();
        metrics.register(&mut registry);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        assert!(text.contains(r#"tidegate_reaper_items_total{reaper="test"} 35"#), "{text}");
        assert!(text.contains(r#"tidegate_reaper_runs_total{reaper="test"} 2"#), "{text}");
    }

    #[test]
    fn jitter_is_a_tenth_at_most() {
        for random in 0..2048 {
            let pause = jitter(Duration::from_secs(100), random);
            assert!((90.0..=110.0).contains(&pause.as_secs_f64()));
        }
    }
}
