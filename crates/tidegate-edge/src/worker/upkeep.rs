//! What a worker does beside answering and following: tells of clicks, gives permits back, says how far it is, lets go of
//! rules that have ended.

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, StreamExt as _};
use tokio::time::{MissedTickBehavior, interval, sleep};

use super::core::Core;
use super::hosts::Folder;
use super::origin::Origin;
use crate::truth::{Return, Seq};

/// How often it looks.
const TICK: Duration = Duration::from_millis(250);

/// Looks between two tellings of clicks, and between two sweeps of rules that have ended.
const TELL: u64 = 4;
const SWEEP: u64 = 240;

/// Blocks that are given back in one look, and how many of them are on their way at a time: the truth writes together what
/// has come meanwhile.
const RETURNED: usize = 4096;
const TOGETHER: usize = 64;

/// Rules whose clicks are told of at once. Those of others stay where they were counted until it is their turn, so that
/// telling costs the database no more however many links are clicked.
const TOLD: usize = 500;

/// Rules that leave in one step of a sweep: lookups wait for no more.
const SWEPT: usize = 1000;

pub(super) async fn upkeep<O: Origin>(core: Arc<Core<O>>) {
    // Those that begin together do not tell of themselves together.
    sleep((TICK * TELL as u32).mul_f64(core.options.random.draw())).await;
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let checks = core.options.check_interval.as_millis().div_ceil(TICK.as_millis()).max(1) as u64;
    let mut told = None;
    for tick in 0_u64.. {
        ticks.tick().await;
        core.give_back(None).await;
        if tick % TELL == 0 {
            core.tell_clicks().await;
            core.tell_applied(&mut told).await;
        }
        if tick % SWEEP == SWEEP - 1 {
            core.sweep();
        }
        if tick % checks == checks - 1 {
            core.correct();
        }
    }
}

impl<O: Origin> Core<O> {
    /// Gives back blocks, of a rule or of all, that have ended or that nobody spends. How many; none if the truth did
    /// not hear of all of them.
    pub(super) async fn give_back(&self, of: Option<&str>) -> Option<usize> {
        let due = self.blocks.due_returns(of, self.pace.elapsed_ms(), RETURNED);
        let count = due.len();
        let mut returns = stream::iter(due).map(|it| self.give_back_one(it)).buffer_unordered(TOGETHER);
        while let Some(is_heard_of) = returns.next().await {
            // The others are not tried: each would wait for as long.
            if !is_heard_of {
                return None;
            }
        }
        Some(count)
    }

    /// Whether the truth has heard of it.
    async fn give_back_one(&self, it: Return) -> bool {
        let number = it.number;
        let returned = tokio::time::timeout(self.options.deadline, self.origin.give_back(it)).await;
        let is_heard_of = matches!(returned, Ok(Ok(_)));
        if is_heard_of {
            self.blocks.returned(number);
        }
        is_heard_of
    }

    /// Tells the truth of all clicks that there are. Whether it has heard of all.
    pub(super) async fn tell_all_clicks(&self) -> bool {
        loop {
            let gathered = self.gather_clicks(TOLD);
            if !self.tell_gathered().await {
                return false;
            }
            if gathered < TOLD {
                return true;
            }
        }
    }

    /// Tells the truth of clicks whose turn it is.
    async fn tell_clicks(&self) {
        self.gather_clicks(TOLD);
        self.tell_gathered().await;
    }

    /// Whether the truth has heard of all that was gathered.
    async fn tell_gathered(&self) -> bool {
        while let Some(report) = self.clicks.next() {
            let number = report.number;
            let told = tokio::time::timeout(self.options.deadline, self.origin.report(report)).await;
            if !matches!(told, Ok(Ok(()))) {
                return false;
            }
            self.clicks.told(number);
        }
        true
    }

    /// Clicks of so many rules for one path, and of all for folders; how many rules.
    fn gather_clicks(&self, max: usize) -> usize {
        let gathered = self.read(|state| {
            let mut gathered = state.cache.take_clicks(max);
            if let Some((_, foreign)) = &state.foreign {
                gathered.extend(foreign.take_clicks(max));
            }
            gathered.extend(state.hosts.each_folder().filter_map(Folder::take_clicks));
            gathered
        });
        self.clicks.add(&gathered);
        gathered.len()
    }

    async fn tell_applied(&self, told: &mut Option<Seq>) {
        let Some(seq) = self.applied().map(|mark| mark.seq) else { return };
        if *told != Some(seq) {
            let said = self.origin.applied(&self.options.name, seq);
            if matches!(tokio::time::timeout(self.options.deadline, said).await, Ok(Ok(()))) {
                *told = Some(seq);
            }
        }
    }

    /// Lets go of rules that have ended: they would answer 410, which the database can say too, if it is there.
    fn sweep(&self) {
        if !self.following.lock().is_connected {
            return;
        }
        let now_ms = self.now_ms();
        while self.write(|state| state.sweep(now_ms, SWEPT)) == SWEPT {}
    }
}
