//! Nanoseconds per edit in this process, beside a sketch that counts and keeps no
//! windows.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, ensure};
use heavykeeper::TopK;
use tidegate::hot::{Hot, HotOptions, Recorded};
use tidegate::{Key, Tidegate};

use super::HEAVYKEEPER;
use super::mix::{DayMix, HotMix};
use super::trace::Line;
use crate::progress;
use crate::report::{Figure, Goal};
use crate::rounds::{Effort, alternate, time};

/// The peer finds a hundred, in a sketch that is wide enough to find nearly all.
const TOP: usize = 100;
const WIDTH: usize = 8_192;
const DEPTH: usize = 4;
const DECAY: f64 = 0.9;

pub(super) fn figures(effort: Effort, trace: Option<&Path>) -> Result<Vec<Figure>> {
    progress("hot.memory: time");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let gate = runtime.block_on(Tidegate::open("memory:"))?;
    let bench = Bench { runtime, gate, effort };
    let (mut day, mut hot) = (DayMix::new(trace)?, HotMix::new());
    let edits = effort.pick(20_000, 100_000);
    let figure = |name, most, [ours, peer]: [f64; 2]| {
        Figure::ours(name, "ns", ours).beside(HEAVYKEEPER, peer).goal(Goal::AtMost(most))
    };
    let (days, pages, mut views) = (HotOptions::default(), HotOptions::default(), HotMix::new());
    let mut only_counts = HotOptions::default();
    only_counts.max_members_per_page = 0;
    Ok(vec![
        figure("hot.memory.record_ns", 2.5, bench.run("day", days, edits, |count| day.take(count))?),
        figure(
            "hot.memory.record_ns.hot_only",
            3.0,
            bench.run("hot", pages, edits, |count| hot.take(count))?,
        ),
        figure(
            "hot.memory.count_ns",
            1.5,
            bench.run("views", only_counts, edits, |count| views.take(count))?,
        ),
    ])
}

struct Bench {
    runtime: tokio::runtime::Runtime,
    gate: Tidegate,
    effort: Effort,
}

impl Bench {
    /// Both go on where they left off, with new edits in each round.
    fn run(
        &self,
        space: &str,
        options: HotOptions,
        edits: usize,
        mut take: impl FnMut(usize) -> Arc<[Line]>,
    ) -> Result<[f64; 2]> {
        let only_counts = options.max_members_per_page == 0;
        let hot = self.runtime.block_on(async { self.gate.hot(space, options) })?;
        let mut sketch: TopK<String> = TopK::new(TOP, WIDTH, DEPTH, DECAY);
        let rounds = self.effort.rounds;
        let turns: Vec<Arc<[Line]>> = (0..=rounds).map(|_| take(edits)).collect();
        let (mut mine, mut theirs) = (turns.iter(), turns.iter());
        let none: Arc<[Line]> = Arc::new([]);
        alternate(
            rounds,
            [&mut || self.record(&hot, only_counts, mine.next().unwrap_or(&none)), &mut || {
                let lines = theirs.next().unwrap_or(&none);
                let taken = time(|| lines.iter().for_each(|line| sketch.add(&line.page, 1)));
                Ok(taken.as_nanos() as f64 / lines.len() as f64)
            }],
        )
    }

    fn record(&self, hot: &Hot, only_counts: bool, lines: &[Line]) -> Result<f64> {
        if only_counts {
            return self.count(hot, lines);
        }
        let edits: Vec<_> = lines.iter().map(Line::edit).collect::<Result<_>>()?;
        let mut lost = 0;
        let taken = self.runtime.block_on(async {
            let start = tidegate::clock::monotonic();
            for edit in &edits {
                match hot.record(edit).await {
                    Ok(
                        Recorded::Remembered
                        | Recorded::Promoted { .. }
                        | Recorded::Added
                        | Recorded::Counted,
                    ) => {}
                    // At this pace more become hot than there is room for.
                    Ok(Recorded::Rejected) => {}
                    _ => lost += 1,
                }
            }
            start.elapsed()
        });
        ensure!(lost == 0, "{lost} edits are lost");
        Ok(taken.as_nanos() as f64 / lines.len() as f64)
    }

    fn count(&self, hot: &Hot, lines: &[Line]) -> Result<f64> {
        let pages: Vec<_> = lines.iter().map(|line| Key::new(&line.page)).collect::<Result<_, _>>()?;
        let mut lost = 0;
        let taken = self.runtime.block_on(async {
            let start = tidegate::clock::monotonic();
            for page in &pages {
                let is_counted = matches!(
                    hot.count(*page, 1).await,
                    Ok(Recorded::Remembered
                        | Recorded::Promoted { .. }
                        | Recorded::Counted
                        | Recorded::Rejected)
                );
                lost += u64::from(!is_counted);
            }
            start.elapsed()
        });
        ensure!(lost == 0, "{lost} counts are lost");
        Ok(taken.as_nanos() as f64 / pages.len() as f64)
    }
}
