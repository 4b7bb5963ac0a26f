//! Edits of hot pages that are not in their window: ours on Redis, by what each window
//! holds right after the edit; the seed's by its rules.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use anyhow::Result;
use tidegate::Key;
use tidegate::clock::{Clock, ManualClock, Timestamp};
use tidegate::hot::HotOptions;
use tidegate::store::StoreOptions;

use super::SEED;
use super::recorders::open;
use super::seed::{Settings, replay};
use super::trace::{Line, PAGES, day};
use crate::progress;
use crate::redis_server::RedisServer;
use crate::report::{Figure, Goal};
use crate::rounds::Effort;

pub(super) async fn figures(effort: Effort, trace: Option<&Path>) -> Result<Vec<Figure>> {
    progress("hot.lost_edits: a day of edits");
    let lines = day(trace, effort.pick(PAGES / 5, PAGES))?;
    let options = HotOptions::default();
    let settings = Settings {
        hot_threshold: options.hot_threshold.into(),
        window_s: options.window_duration.as_secs() as i64,
        max_tracked: options.max_tracked,
        max_members: options.max_members_per_page as isize,
    };
    let theirs = replay(&lines, settings);
    let ours = ours(&lines, options).await?;
    let none = Goal::AtMost(0.0);
    let figure =
        |name, ours: usize, peer: usize| Figure::ours(name, "edits", ours as f64).beside(SEED, peer as f64);
    Ok(vec![
        figure("hot.lost_edits", ours.lost, theirs.lost).own_goal(none),
        figure("hot.lost_edits.first", ours.lost_first, theirs.before_promotion).own_goal(none),
        figure("hot.lost_edits.of", ours.to_hot_pages, theirs.to_hot_pages),
    ])
}

#[derive(Default)]
struct Seen {
    to_hot_pages: usize,
    lost: usize,
    lost_first: usize,
}

/// Replays the day, and looks into the window after each edit of a hot page.
async fn ours(lines: &[Line], options: HotOptions) -> Result<Seen> {
    let server = RedisServer::start()?;
    let clock = ManualClock::at(Timestamp::from_millis(lines.first().map_or(0, |line| line.at_ms)));
    let mut store = StoreOptions::default();
    store.clock = Clock::from(clock.clone());
    let gate = open(&server.url(), store).await?;
    let (window_ms, threshold) = (options.window_duration.as_millis() as u64, options.hot_threshold as usize);
    let hot = gate.hot("pages", options)?;
    let mut seen = Seen::default();
    // By page, its edits since ten minutes before it became hot.
    let mut expected: HashMap<&str, Vec<&Line>> = HashMap::new();
    for line in lines {
        clock.set(Timestamp::from_millis(line.at_ms));
        hot.record(&line.edit()?).await?;
        let edits = expected.entry(&line.page).or_default();
        let was_hot =
            edits.len() >= threshold && edits.last().is_some_and(|last| last.at_ms + window_ms > line.at_ms);
        if !was_hot && edits.first().is_some_and(|first| first.at_ms + 600_000 <= line.at_ms) {
            edits.clear();
        }
        edits.push(line);
        seen.to_hot_pages += usize::from(was_hot);
        if edits.len() < threshold {
            continue;
        }
        let range = Timestamp::from_millis(0)..=Timestamp::from_millis(line.at_ms);
        let window = hot.window(Key::new(&line.page)?, range).await?;
        let kept: HashSet<&str> = window.iter().map(|edit| &*edit.id).collect();
        let in_window = edits.iter().filter(|edit| edit.at_ms + window_ms > line.at_ms);
        let missing = in_window.filter(|edit| !kept.contains(&*edit.id)).count();
        match was_hot {
            true => seen.lost += missing,
            false => seen.lost_first += missing,
        }
    }
    gate.shutdown().await;
    Ok(seen)
}
