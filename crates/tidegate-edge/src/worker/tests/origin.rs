//! The truth as a worker meets it in a test: a list of rules behind a way on which everything can go wrong.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tidegate::clock::ManualClock;
use tidegate::random::Random;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::list::{Epoch, Moment};
use crate::error::{Error, Result};
use crate::rule::Rule;
use crate::stream::{Event, Mark, Message, Next};
use crate::truth::{
    Ask, Counted, Digest, Fields, Grant, Granted, Report, Resolution, Return, Returned, Seq, body,
};
use crate::worker::{Origin, OriginChanges, OriginSnapshot};

/// What goes wrong just now.
#[derive(Debug, Clone, Default)]
pub(super) struct Faults {
    /// Nothing can be had.
    pub(super) is_away: bool,
    /// Answers to fetches and to who asks for permits come so late.
    pub(super) delay: Option<Duration>,
    /// Answers to who asks for permits are decided at once, and come so late.
    pub(super) late_grants: Option<Duration>,
    /// Blocks that are given back take so long.
    pub(super) slow_returns: Option<Duration>,
    /// Answers to fetches are held back.
    pub(super) is_slow: bool,
    /// Messages of streams come so late, and so does the time that they tell.
    pub(super) late_messages: Option<Duration>,
    /// One event in so many is sent twice, left out, or sent after the next.
    pub(super) garbled: Option<u64>,
    /// One snapshot in so many breaks off, or has a line missing.
    pub(super) broken_snapshots: Option<u64>,
    /// Who asks for a snapshot meets a bug, once.
    pub(super) has_bug: bool,
}

/// A rule's id, and when it was made: another one of that id is another rule.
pub(super) type Made = (String, u64);

#[derive(Debug)]
pub(super) struct World {
    pub(super) epochs: Vec<Epoch>,
    pub(super) faults: Faults,
    /// How far streams are sent, in the present epoch.
    pub(super) sent: Seq,
    /// Streams that were opened before are cut.
    pub(super) streams: u64,
    /// Rules that were made so far: which one that was is when it was made.
    pub(super) made: u64,
    /// Permits that went out, by rule.
    pub(super) granted: HashMap<Made, u64>,
    /// Those of them that came back spent.
    pub(super) consumed: HashMap<Made, u64>,
    /// By worker and number.
    pub(super) blocks: HashMap<(String, u64), (Made, u64)>,
    /// Those that were given back before they were asked for.
    pub(super) refused: HashSet<(String, u64)>,
    pub(super) clicks: HashMap<String, u64>,
    pub(super) fetches: u64,
    /// How often a block was given back, how many are just now, and were at most.
    pub(super) returns: u64,
    pub(super) returning: usize,
    pub(super) most_returning: usize,
    /// When somebody wanted to follow, by tokio's time.
    pub(super) connects: Vec<Instant>,
    /// When somebody wanted all keys, by tokio's time.
    pub(super) readings: Vec<Instant>,
}

/// Tokio's time, which a test passes at once.
pub(super) fn now() -> Instant {
    tokio::time::sleep(Duration::ZERO).deadline()
}

pub(super) fn made(rule: &Rule) -> Made {
    (rule.id.clone(), rule.created_at)
}

/// Clones are one.
#[derive(Debug, Clone)]
pub(super) struct SimOrigin {
    pub(super) world: Arc<Mutex<World>>,
    pub(super) changed: Arc<Notify>,
    pub(super) clock: ManualClock,
    pub(super) random: Random,
}

impl World {
    pub(super) fn epoch(&self) -> &Epoch {
        self.epochs.last().unwrap()
    }

    /// Whether no permit of a rule is to be had any more, as workers have told.
    pub(super) fn is_spent(&self, rule: &Rule) -> bool {
        let consumed = self.consumed.get(&made(rule)).copied().unwrap_or_default();
        rule.terms.max_clicks.is_some_and(|most| consumed >= most)
    }

    pub(super) fn epoch_mut(&mut self) -> &mut Epoch {
        self.epochs.last_mut().unwrap()
    }
}

impl SimOrigin {
    pub(super) fn new(clock: ManualClock, random: Random) -> Self {
        let moment = Moment { rules: Arc::default(), digest: Digest::default() };
        let world = World {
            epochs: vec![Epoch::new("e0".to_owned(), 0, moment)],
            faults: Faults::default(),
            sent: Seq(0),
            streams: 0,
            made: 0,
            granted: HashMap::new(),
            consumed: HashMap::new(),
            blocks: HashMap::new(),
            refused: HashSet::new(),
            clicks: HashMap::new(),
            fetches: 0,
            returns: 0,
            returning: 0,
            most_returning: 0,
            connects: Vec::new(),
            readings: Vec::new(),
        };
        Self { world: Arc::new(Mutex::new(world)), changed: Arc::default(), clock, random }
    }

    fn one_in(&self, many: Option<u64>) -> bool {
        many.is_some_and(|many| self.random.bits().is_multiple_of(many))
    }

    fn now_ms(&self) -> u64 {
        self.clock.now().as_millis()
    }

    fn there(&self) -> Result<()> {
        match self.world.lock().faults.is_away {
            true => Err(Error::unavailable("away")),
            false => Ok(()),
        }
    }

    async fn delay(&self) {
        let delay = self.world.lock().faults.delay;
        if let Some(delay) = delay {
            tokio::time::sleep(delay).await;
        }
    }

    fn grant_now(&self, ask: Ask) -> Result<Granted> {
        let mut world = self.world.lock();
        let world = &mut *world;
        let epoch = world.epochs.last().unwrap();
        let Some(rule) = epoch.now().rules.iter().find(|it| it.id == ask.rule) else {
            return Ok(Granted { grant: Grant::Unknown, created_at: None });
        };
        let created_at = Some(rule.created_at);
        let Some(most) = rule.terms.max_clicks else {
            return Ok(Granted { grant: Grant::Unbounded, created_at });
        };
        if world.refused.contains(&(ask.worker.clone(), ask.number)) {
            return Ok(Granted { grant: Grant::Wait { retry_after: Duration::ZERO }, created_at });
        }
        let made = made(rule);
        let granted = world.granted.entry(made.clone()).or_default();
        let permits = most.saturating_sub(*granted).min(ask.wanted).min(3);
        let grant = if permits == 0 {
            let is_held = world.blocks.values().any(|(rule, left)| *rule == made && *left > 0);
            match is_held {
                true => Grant::Wait { retry_after: Duration::from_millis(50) },
                false => Grant::Spent,
            }
        } else {
            *granted += permits;
            world.blocks.insert((ask.worker, ask.number), (made, permits));
            Grant::Block { permits, life: Duration::from_secs(10), epoch: epoch.name.clone() }
        };
        // Debited all the same, whether the answer arrives or not.
        if self.random.bits().is_multiple_of(8) {
            return Err(Error::unavailable("the answer was lost"));
        }
        Ok(Granted { grant, created_at })
    }

    async fn wait(&self) {
        // What changes between a look and the wait is seen by the next look.
        let _ = tokio::time::timeout(Duration::from_millis(5), self.changed.notified()).await;
    }
}

#[derive(Debug)]
pub(super) struct SimChanges {
    origin: SimOrigin,
    stream: u64,
    /// Which of the times between two goings back it is: they may have one name.
    epoch: usize,
    at: Seq,
    waiting: VecDeque<Message>,
    syncs: u32,
}

impl SimChanges {
    /// Sends a row, or something else.
    fn send(&mut self, messages: Vec<Message>) {
        let garbled = self.origin.world.lock().faults.garbled;
        for message in messages {
            match self.origin.one_in(garbled) {
                false => self.waiting.push_back(message),
                true => match self.origin.random.bits() % 3 {
                    0 => self.waiting.extend([message.clone(), message]),
                    1 => {}
                    _ => {
                        let last = self.waiting.pop_back();
                        self.waiting.push_back(message);
                        self.waiting.extend(last);
                    }
                },
            }
        }
    }
}

impl OriginChanges for SimChanges {
    async fn next(&mut self) -> Result<Next> {
        loop {
            self.origin.there()?;
            let origin = self.origin.clone();
            let mut new = Vec::new();
            {
                let world = origin.world.lock();
                if world.streams > self.stream {
                    return Ok(Next::Cut("cut".to_owned()));
                }
                let epoch = world.epoch();
                if world.epochs.len() != self.epoch {
                    let mark = epoch.mark(epoch.head());
                    (self.epoch, self.at) = (world.epochs.len(), epoch.head());
                    self.waiting.clear();
                    new.push(Message { mark, event: Event::Resync { reason: "gone back".to_owned() } });
                } else if self.waiting.is_empty() && self.at < world.sent {
                    let row = &epoch.rows[(self.at.0 - epoch.first) as usize];
                    self.at = self.at.next();
                    let (last, front) = row.events.split_last().unwrap();
                    new.extend(front.iter().map(|event| Message { mark: None, event: event.clone() }));
                    new.push(Message { mark: epoch.mark(self.at), event: last.clone() });
                } else if self.waiting.is_empty() && self.syncs > 0 {
                    self.syncs -= 1;
                    let event = Event::Sync(epoch.position(self.at, origin.now_ms()));
                    self.waiting.push_back(Message { mark: epoch.mark(self.at), event });
                }
            }
            self.send(new);
            match self.waiting.pop_front() {
                Some(message) => {
                    let late = origin.world.lock().faults.late_messages;
                    if let Some(late) = late {
                        tokio::time::sleep(late).await;
                    }
                    return Ok(Next::Message(message));
                }
                None => {
                    origin.wait().await;
                    self.syncs = self.syncs.max(u32::from(origin.random.bits().is_multiple_of(8)));
                }
            }
        }
    }
}

#[derive(Debug)]
pub(super) struct SimSnapshot {
    pieces: VecDeque<Vec<u8>>,
    breaks: bool,
}

impl OriginSnapshot for SimSnapshot {
    async fn next(&mut self) -> Result<Option<Vec<u8>>> {
        tokio::time::sleep(Duration::from_millis(1)).await;
        if self.breaks && self.pieces.len() < 2 {
            return Err(Error::unavailable("a snapshot broke off"));
        }
        Ok(self.pieces.pop_front())
    }
}

/// A block that is being given back, until that is over or was given up.
struct Returning(Arc<Mutex<World>>);

impl Drop for Returning {
    fn drop(&mut self) {
        self.0.lock().returning -= 1;
    }
}

impl Origin for SimOrigin {
    type Changes = SimChanges;
    type Snapshot = SimSnapshot;

    async fn changes(&self, _: &str, after: Option<&Mark>) -> Result<SimChanges> {
        self.world.lock().connects.push(now());
        self.there()?;
        let world = self.world.lock();
        let epoch = world.epoch();
        let mut changes = SimChanges {
            origin: self.clone(),
            stream: world.streams,
            epoch: world.epochs.len(),
            at: world.sent,
            waiting: VecDeque::new(),
            syncs: 1,
        };
        if let Some(after) = after {
            if epoch.mark(after.seq).as_ref() == Some(after) {
                changes.at = after.seq;
            } else {
                let mark = epoch.mark(epoch.head());
                changes.at = epoch.head();
                let event = Event::Resync { reason: "not to be resumed".to_owned() };
                changes.waiting.push_back(Message { mark, event });
            }
        }
        Ok(changes)
    }

    async fn snapshot(&self, fields: Fields, from: Option<&Mark>) -> Result<SimSnapshot> {
        self.there()?;
        let had_bug = std::mem::take(&mut self.world.lock().faults.has_bug);
        assert!(!had_bug, "a bug that a test has planted");
        let mut world = self.world.lock();
        world.readings.push(now());
        let epoch = world.epoch();
        let head = epoch.head();
        if let Some(from) = from {
            let is_known = world.epochs.iter().any(|it| it.mark(from.seq).as_ref() == Some(from));
            assert!(is_known, "{from} is asked for, and {head} is the last");
        }
        let mut lines = vec![serde_json::to_string(&epoch.position(head, self.now_ms())).unwrap()];
        for rule in epoch.now().rules.iter() {
            let text = body(rule).unwrap();
            lines.push(match fields {
                Fields::Keys if rule.terms.folder().is_none() => {
                    let hash = Digest::of(&rule.id, rule.version, &text);
                    serde_json::json!({"host": rule.terms.host, "path": rule.terms.path, "hash": hash})
                        .to_string()
                }
                _ => text,
            });
        }
        let (garbled, broken) = (world.faults.broken_snapshots, world.faults.broken_snapshots);
        if self.one_in(garbled) && lines.len() > 1 {
            lines.remove(1 + (self.random.bits() % (lines.len() as u64 - 1)) as usize);
        }
        let text = lines.join("\n") + "\n";
        let pieces = text.as_bytes().chunks(997).map(<[u8]>::to_vec).collect();
        Ok(SimSnapshot { pieces, breaks: self.one_in(broken) })
    }

    async fn resolve(&self, host: &str, path: &str) -> Result<Resolution> {
        self.there()?;
        let resolution = {
            let mut world = self.world.lock();
            world.fetches += 1;
            let epoch = world.epoch();
            let mut found = epoch.now().resolve(host, path, epoch.position(epoch.head(), self.now_ms()));
            for rule in found.passed.iter_mut().chain(&mut found.rule) {
                rule.clicks = world.consumed.get(&made(rule)).copied().unwrap_or_default();
            }
            found
        };
        // It is read, and then it takes its time.
        self.delay().await;
        while self.world.lock().faults.is_slow {
            self.wait().await;
        }
        self.there()?;
        Ok(resolution)
    }

    async fn grant(&self, ask: Ask) -> Result<Granted> {
        self.there()?;
        self.delay().await;
        let granted = self.grant_now(ask)?;
        // It is decided, and then it takes its time.
        let late = self.world.lock().faults.late_grants;
        if let Some(late) = late {
            tokio::time::sleep(late).await;
        }
        Ok(granted)
    }

    async fn give_back(&self, it: Return) -> Result<Returned> {
        let slow = {
            let mut world = self.world.lock();
            world.returns += 1;
            world.returning += 1;
            world.most_returning = world.most_returning.max(world.returning);
            world.faults.slow_returns
        };
        let under_way = Returning(Arc::clone(&self.world));
        if let Some(slow) = slow {
            tokio::time::sleep(slow).await;
        }
        drop(under_way);
        self.there()?;
        let mut world = self.world.lock();
        let world = &mut *world;
        let block = (it.worker, it.number);
        let Some((rule, permits)) = world.blocks.remove(&block) else {
            world.refused.insert(block);
            return Ok(Returned::Unknown);
        };
        assert!(it.spent <= permits, "{} of {permits} were spent", it.spent);
        let granted = world.granted.entry(rule.clone()).or_default();
        *granted -= permits - it.spent;
        *world.consumed.entry(rule.clone()).or_default() += it.spent;
        *world.clicks.entry(rule.0).or_default() += it.spent;
        Ok(Returned::Counted)
    }

    async fn report(&self, report: Report) -> Result<()> {
        self.there()?;
        let mut world = self.world.lock();
        for Counted { id, created_at, clicks } in report.clicks {
            let rules = &world.epoch().now().rules;
            if rules.iter().any(|rule| rule.id == id && created_at.is_none_or(|it| it == rule.created_at)) {
                *world.clicks.entry(id).or_default() += clicks;
            }
        }
        Ok(())
    }

    async fn applied(&self, _: &str, _: Seq) -> Result<()> {
        self.there()
    }
}
