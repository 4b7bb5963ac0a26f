//! Random histories.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tidegate::clock::{ManualClock, Timestamp};
use tidegate::random::Random;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::list::{Epoch, Seen};
use super::origin::{Faults, Made, SimOrigin, made};
use crate::rule::{Rule, Terms};
use crate::truth::Seq;
use crate::worker::key::KeyHasher;
use crate::worker::truth_time::Pace;
use crate::worker::{Hydrate, Outcome, Request, Worker, WorkerOptions};

const HOSTS: [&str; 5] = ["a.example", "b.a.example", "*.a.example", "*.example", "*"];
const ASKED: [&str; 5] = ["a.example", "b.a.example", "c.b.a.example", "z.example", "10.0.0.1"];

pub(super) struct History {
    seed: u64,
    random: Random,
    clock: ManualClock,
    origin: SimOrigin,
    worker: Worker<SimOrigin>,
    options: WorkerOptions,
    requests: JoinSet<()>,
    /// Redirects by rules with so many clicks, unless permits of one were forgotten.
    spent: Arc<parking_lot::Mutex<HashMap<Made, Option<u64>>>>,
    /// How often those may redirect, by the version that says most.
    most: Arc<parking_lot::Mutex<HashMap<Made, u64>>>,
    next_id: u64,
    /// Paths that there are.
    paths: u64,
    is_faulty: bool,
}

impl History {
    /// How often its filter was made anew since the worker last began.
    pub(super) async fn run(seed: u64) -> u64 {
        let mut history = Self::new(seed);
        let steps = 80 + history.below(160);
        for _ in 0..steps {
            history.step().await;
        }
        history.end().await;
        history.worker.core.metrics.growths.get()
    }

    fn new(seed: u64) -> Self {
        let random = Random::seeded(seed);
        let clock = ManualClock::at(Timestamp::from_millis(1_000_000));
        let origin = SimOrigin::new(clock.clone(), Random::seeded(seed ^ 0xABCD));
        let mut options = WorkerOptions::new("w");
        // From room for a handful of rules to room for all of them.
        options.max_bytes = 40_000 + (random.bits() % 6 * 60_000) as usize;
        options.eviction_batch = 1 + (random.bits() % 20) as usize;
        options.hydrate = if random.bits().is_multiple_of(3) { Hydrate::Bodies } else { Hydrate::Keys };
        options.random = Random::seeded(seed ^ 0x1234);
        options.clock = clock.clone().into();
        options.growth_spread = Duration::from_millis(random.bits() % 4 * 30);
        if random.bits().is_multiple_of(6) {
            options.max_folder_bytes = Some(3000);
        }
        let worker = Self::worker(&origin, &options, &clock, seed);
        // In some histories the filter grows several times.
        let paths = if random.bits().is_multiple_of(4) { 700 } else { 12 };
        Self {
            seed,
            clock,
            origin,
            worker,
            options,
            requests: JoinSet::new(),
            spent: Arc::default(),
            most: Arc::default(),
            next_id: 0,
            paths,
            is_faulty: !random.bits().is_multiple_of(4),
            random,
        }
    }

    fn worker(
        origin: &SimOrigin,
        options: &WorkerOptions,
        clock: &ManualClock,
        seed: u64,
    ) -> Worker<SimOrigin> {
        let pace = Pace::Manual(clock.clone());
        let worker = Worker::with(origin.clone(), options.clone(), pace, KeyHasher::seeded(seed));
        // In some histories there is no room for a filter once there are more than a few rules.
        if seed % 7 == 3 {
            worker.core.write(|state| state.bounds.filter = 200);
        }
        worker
    }

    fn below(&self, most: u64) -> u64 {
        self.random.bits() % most
    }

    fn pick<'a, T: ?Sized>(&self, from: &[&'a T]) -> &'a T {
        from[self.below(from.len() as u64) as usize]
    }

    fn path(&self) -> String {
        let number = self.below(self.paths);
        match number % 5 {
            0 => format!("/docs/{}", number / 5),
            1 => format!("/docs/deep/{}", number / 5),
            2 => "/docs".to_owned(),
            _ => format!("/{number}"),
        }
    }

    async fn step(&mut self) {
        match self.below(100) {
            0..=24 => self.change(),
            25..=26 => (0..40 + self.below(200)).for_each(|_| self.change()),
            27..=46 => self.deliver(),
            47..=79 => self.request(),
            80..=84 => self.clock.advance_ms(self.below(700)),
            85 => self.step_the_clock(),
            86..=88 => self.origin.world.lock().streams += 1,
            89..=91 => self.change_faults(),
            92 if self.is_faulty => self.go_back(),
            93 => self.restart().await,
            _ => sleep(Duration::from_millis(self.below(300))).await,
        }
        self.origin.changed.notify_waiters();
        sleep(Duration::from_millis(self.below(3))).await;
        while let Some(ended) = self.requests.try_join_next() {
            ended.unwrap();
        }
    }

    /// One change of a rule.
    fn change(&mut self) {
        let now_ms = self.clock.now().as_millis();
        let mut world = self.origin.world.lock();
        world.made += 1;
        let created_at = world.made;
        let epoch = world.epoch_mut();
        let rules = Arc::clone(&epoch.now().rules);
        let mut is_new = rules.is_empty() || self.below(3) != 0 && rules.len() < 900;
        let new = |id: String| {
            let terms = Terms::new("/", "/");
            Rule { id, terms, clicks: 0, version: 0, created_at, updated_at: 0 }
        };
        let mut rule = if is_new {
            // Some ids come again, of rules that are no more.
            let again = format!("a{}", self.below(8));
            if self.below(2) == 0 && rules.iter().all(|it| it.id != again) {
                new(again)
            } else {
                self.next_id += 1;
                new(format!("r{}", self.next_id))
            }
        } else {
            (*rules[self.below(rules.len() as u64) as usize]).clone()
        };
        if !is_new && self.below(3) == 0 {
            epoch.change(&rule.id, None);
            // And some come again at once.
            if self.below(2) == 0 {
                return;
            }
            (rule, is_new) = (new(rule.id), true);
        }
        rule.version += 1;
        let terms = &mut rule.terms;
        terms.destination = format!("https://d.example/{}/{}/{}", rule.id, rule.created_at, rule.version);
        if is_new || self.below(3) == 0 {
            let path = self.path();
            let path = if self.below(4) == 0 { format!("{path}/*") } else { path };
            let (host, path) = (self.pick(&HOSTS).to_owned(), path);
            if epoch.now().has_place(&host, &path) {
                return;
            }
            (terms.host, terms.path) = (host, path);
        }
        if is_new && self.below(4) == 0 {
            terms.max_clicks = Some(1 + self.below(6));
        } else if let Some(most) = &mut terms.max_clicks {
            *most += self.below(3);
        }
        if self.below(6) == 0 {
            terms.enabled = !terms.enabled;
        }
        match self.below(8) {
            0 => terms.starts_at = Some(now_ms + self.below(1500)),
            1 => terms.expires_at = Some(now_ms + self.below(1500)),
            2 => (terms.starts_at, terms.expires_at) = (None, None),
            _ => {}
        }
        if let Some(most) = rule.terms.max_clicks {
            self.most.lock().insert(made(&rule), most);
        }
        epoch.change(&rule.id.clone(), Some(rule));
    }

    /// Lets the stream go on, somewhat.
    fn deliver(&self) {
        let mut world = self.origin.world.lock();
        let head = world.epoch().head();
        let behind = head.0 - world.sent.0.min(head.0);
        world.sent = Seq(world.sent.0 + if self.below(2) == 0 { behind } else { self.below(behind + 1) });
    }

    fn step_the_clock(&self) {
        let now_ms = self.clock.now().as_millis();
        // Only forward: the worker counts time by the same clock, which never goes back.
        self.clock.set(Timestamp::from_millis(now_ms + self.below(5000)));
    }

    fn change_faults(&self) {
        let one = |many: u64| (self.below(2) == 0).then_some(many);
        let late_grants = (self.below(2) == 0).then_some(Duration::from_millis(self.below(200)));
        let faults = match self.below(4) {
            _ if !self.is_faulty => Faults { is_slow: self.below(3) == 0, late_grants, ..Faults::default() },
            0 => Faults { late_grants, ..Faults::default() },
            1 => Faults { is_slow: true, garbled: one(4), late_grants, ..Faults::default() },
            2 => Faults { garbled: one(3), broken_snapshots: one(2), ..Faults::default() },
            _ => Faults { is_away: self.below(2) == 0, is_slow: self.below(2) == 0, ..Faults::default() },
        };
        self.origin.world.lock().faults = faults;
    }

    /// The database is put back to an older state, which it may not know itself.
    fn go_back(&self) {
        let mut world = self.origin.world.lock();
        let epoch = world.epoch();
        let back = self.below(epoch.moments.len() as u64);
        let seq = Seq(epoch.first + back);
        let moment = epoch.at(seq).unwrap().clone();
        let name = match self.below(2) {
            0 => epoch.name.clone(),
            _ => format!("e{}", world.epochs.len()),
        };
        world.epochs.push(Epoch::new(name, seq.0, moment));
        world.sent = seq;
        // Permits that it had granted are forgotten, and workers may spend them yet: of these rules nothing is promised.
        let mut spent = self.spent.lock();
        for rule in world.granted.keys() {
            spent.insert(rule.clone(), None);
        }
        world.granted.clear();
        world.blocks.clear();
    }

    async fn restart(&mut self) {
        self.requests.abort_all();
        while self.requests.join_next().await.is_some() {}
        self.worker.stop().await;
        // Its numbers are higher than those of the one before.
        self.clock.advance_ms(1);
        self.worker = Self::worker(&self.origin, &self.options, &self.clock, self.seed);
    }

    /// A request, and what may be seen by it.
    fn request(&mut self) {
        let (host, path) = (self.pick(&ASKED).to_owned(), self.path() + self.pick(&["", "", "/", "/x"]));
        let (worker, origin, clock, seed) =
            (self.worker.clone(), self.origin.clone(), self.clock.clone(), self.seed);
        let (spent, most) = (Arc::clone(&self.spent), Arc::clone(&self.most));
        let is_head = self.below(4) == 0;
        self.requests.spawn(async move {
            let applied = worker.progress().applied;
            let began_ms = clock.now().as_millis();
            let (epochs, had_faults) = {
                let world = origin.world.lock();
                (world.epochs.len(), world.faults.is_away || world.faults.is_slow)
            };
            let request = Request { host: &host, path: &path, query: None, is_head };
            let is_pending = worker.try_answer(&Request { is_head: true, ..request }, |_, _| ()).is_err();
            let seen = worker.answer(&request, |outcome, _| seen(&outcome)).await;
            let world = origin.world.lock();
            let ended_ms = clock.now().as_millis();
            if seen == Seen::Unavailable
                && (is_pending || had_faults || world.faults.is_away || world.faults.is_slow)
            {
                return;
            }
            // From what was applied when it came; all of later times of the database.
            let is_at =
                |epoch: &Epoch| applied.as_ref().is_some_and(|it| epoch.mark(it.seq).as_ref() == Some(it));
            let applied_in = world.epochs.iter().rposition(is_at);
            let may_be_spent =
                |rule: &Rule| world.is_spent(rule) || spent.lock().get(&made(rule)) == Some(&None);
            let mut may_see = Vec::new();
            for (number, epoch) in world.epochs.iter().enumerate() {
                let is_of = applied_in == Some(number);
                if !is_of && number + 1 < epochs {
                    continue;
                }
                let from = applied.as_ref().filter(|_| is_of).map_or(epoch.first, |it| it.seq.0);
                for seq in from..=epoch.head().0 {
                    let moment = epoch.at(Seq(seq)).unwrap();
                    for now_ms in moment.times(&host, &path, began_ms, ended_ms) {
                        let (seen_there, rule) = moment.may_see(&host, &path, now_ms, may_be_spent);
                        if seen_there.contains(&seen) {
                            if let Some(rule) = rule
                                && rule.terms.max_clicks.is_some()
                                && let Some(most) = most.lock().get(&made(rule))
                                && matches!(&seen, Seen::Redirect(to) if *to == rule.terms.destination)
                                && !is_head
                                && let Some(count) = spent.lock().entry(made(rule)).or_insert(Some(0))
                            {
                                *count += 1;
                                assert!(
                                    *count <= *most,
                                    "seed {seed}: {count} of {most} clicks of {}",
                                    rule.id
                                );
                            }
                            return;
                        }
                        may_see.push((epoch.name.clone(), seq, seen_there));
                    }
                }
            }
            may_see.dedup_by(|a, b| a.2 == b.2);
            panic!(
                "seed {seed}: {host}{path} saw {seen:?}, applied {applied:?}, {:?}, and may see {may_see:?}",
                worker.explain(&host, &path)
            );
        });
    }

    /// With nothing in the way, the worker ends with exactly what the list has.
    async fn end(&mut self) {
        {
            let mut world = self.origin.world.lock();
            world.faults = Faults::default();
            world.sent = world.epoch().head();
        }
        self.origin.changed.notify_waiters();
        while let Some(ended) = self.requests.join_next().await {
            ended.unwrap();
        }
        let head = {
            let world = self.origin.world.lock();
            world.epoch().mark(world.epoch().head())
        };
        for _ in 0..2000 {
            if self.worker.progress().applied == head {
                break;
            }
            sleep(Duration::from_millis(20)).await;
        }
        let progress = self.worker.progress();
        assert_eq!(progress.applied, head, "seed {}: {progress:?}", self.seed);
        let report = self.worker.report();
        assert!(report.bytes <= report.max_bytes, "seed {}: {report:?}", self.seed);
        assert!(report.bytes <= report.peak_bytes, "seed {}: {report:?}", self.seed);
        let core = &self.worker.core;
        for _ in 0..100 {
            if core.reserved.get() == 0 {
                break;
            }
            sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(core.reserved.get(), 0, "seed {}: room is set aside for nobody", self.seed);
        for host in ASKED {
            for number in 0..self.paths.min(60) {
                for path in
                    [format!("/{number}"), format!("/docs/{}", number / 5), "/docs/deep/3/x".to_owned()]
                {
                    let request = Request { host, path: &path, query: None, is_head: true };
                    let seen = self.worker.answer(&request, |outcome, _| seen(&outcome)).await;
                    let world = self.origin.world.lock();
                    let now_ms = self.clock.now().as_millis();
                    let may_be_spent = |rule: &Rule| {
                        world.is_spent(rule) || self.spent.lock().get(&made(rule)) == Some(&None)
                    };
                    let (mut may_see, rule) = world.epoch().now().may_see(host, &path, now_ms, may_be_spent);
                    // Whoever only asks is told what who would spend is.
                    if let Some(rule) = rule
                        && world.is_spent(rule)
                        && self.spent.lock().get(&made(rule)) != Some(&None)
                    {
                        may_see.retain(|it| *it != Seen::Redirect(rule.terms.destination.clone()));
                    }
                    assert!(
                        may_see.contains(&seen),
                        "seed {}: {host}{path}: {seen:?} and not {may_see:?}",
                        self.seed
                    );
                }
            }
        }
    }
}

pub(super) fn seen(outcome: &Outcome<'_>) -> Seen {
    match outcome {
        Outcome::Redirect(redirect) => Seen::Redirect(redirect.location.to_string()),
        Outcome::Gone => Seen::Gone,
        Outcome::NotFound => Seen::NotFound,
        Outcome::Unavailable { .. } => Seen::Unavailable,
        other => panic!("{other:?}"),
    }
}
