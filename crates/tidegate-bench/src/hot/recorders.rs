//! Who records on Redis, and how many at a time.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use tidegate::clock::monotonic;
use tidegate::hot::{Count, Hot, HotOptions, Recorded};
use tidegate::store::StoreOptions;
use tidegate::{Key, Tidegate};
use tokio::task::JoinSet;

use super::trace::Line;

/// Tasks that record at the same time.
pub(super) const TASKS: usize = 64;

/// Edits of a batch.
pub(super) const BATCH: usize = 128;

/// Edits of a bulk: as many as one call takes.
pub(super) const BULK: usize = 512;

/// Something that records an edit.
pub(super) trait Recorder: Clone + Send + Sync + 'static {
    fn record(&self, line: &Line, task: usize) -> impl Future<Output = Result<()>> + Send;

    /// Records several; one by one, unless there is a better way.
    fn record_many(&self, lines: &[Line], task: usize) -> impl Future<Output = Result<()>> + Send {
        async move {
            for line in lines {
                self.record(line, task).await?;
            }
            Ok(())
        }
    }
}

/// Records all lines, spread over the tasks; how long all of it took.
pub(super) async fn drive(recorder: &impl Recorder, lines: &Arc<[Line]>, batch: usize) -> Result<Duration> {
    let start = monotonic();
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let (recorder, lines) = (recorder.clone(), lines.clone());
        tasks.spawn(async move {
            for chunk in lines.chunks(batch).skip(task).step_by(TASKS) {
                match chunk {
                    [line] => recorder.record(line, task).await?,
                    chunk => recorder.record_many(chunk, task).await?,
                }
            }
            anyhow::Ok(())
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.context("a task failed")??;
    }
    Ok(start.elapsed())
}

/// Our tracker.
#[derive(Clone)]
pub(super) struct Ours(pub(super) Hot);

impl Recorder for Ours {
    async fn record(&self, line: &Line, _: usize) -> Result<()> {
        check(&self.0.record(&line.edit()?).await?)
    }

    async fn record_many(&self, lines: &[Line], _: usize) -> Result<()> {
        let edits: Vec<_> = lines.iter().map(Line::edit).collect::<Result<_>>()?;
        self.0.record_many(&edits).await?.iter().try_for_each(check)
    }
}

/// The same, of views: how many there were, and nothing else of them.
#[derive(Clone)]
pub(super) struct Views(pub(super) Hot);

impl Recorder for Views {
    async fn record(&self, line: &Line, _: usize) -> Result<()> {
        check(&self.0.count(Key::new(&line.page)?, 1).await?)
    }

    async fn record_many(&self, lines: &[Line], _: usize) -> Result<()> {
        let counts: Vec<_> =
            lines.iter().map(|line| Ok(Count::new(Key::new(&line.page)?, 1))).collect::<Result<_>>()?;
        self.0.count_many(&counts).await?.iter().try_for_each(check)
    }
}

/// Every edit is new, and the store is there.
fn check(recorded: &Recorded) -> Result<()> {
    let is_lost = matches!(recorded, Recorded::Dropped | Recorded::Duplicate | Recorded::TooLate);
    ensure!(!is_lost, "ours answered {recorded:?}");
    Ok(())
}

/// Opens our store. A machine that is busy with something else must not turn
/// into an outage, so calls may take their time.
pub(super) async fn open(url: &str, mut options: StoreOptions) -> Result<Tidegate> {
    options.deadline = Duration::from_secs(10);
    let gate = Tidegate::open_with(url, options).await?;
    gate.store().check()?;
    Ok(gate)
}

/// The settings of `config/prod.yaml`.
pub(super) fn production() -> HotOptions {
    let mut options = HotOptions::default();
    options.max_tracked = 5000;
    options.promotion_threshold = 10;
    options.window_duration = Duration::from_secs(1800);
    options.max_members_per_page = 200;
    options.hot_threshold = 3;
    options.cleanup_interval = Duration::from_secs(120);
    options
}
