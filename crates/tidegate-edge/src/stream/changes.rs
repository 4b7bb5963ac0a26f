//! The changes of one follower.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use tidegate::clock::monotonic;
use tokio::sync::watch;

use super::event::{Event, Message};
use super::mark::Mark;
use super::tail::{Behind, Reading, TOGETHER};
use crate::error::Result;
use crate::truth::{Digest, LogRow, Position, Seq, Truth};

/// Changes from a place on.
#[derive(Debug)]
pub struct Changes {
    tail: Arc<Reading>,
    moved: watch::Receiver<u64>,
    life: u64,
    /// How far messages were made, and how many rules there are then, once that is known.
    made: Mark,
    count: Option<u64>,
    /// Where who has taken all messages is.
    told: Mark,
    waiting: VecDeque<Message>,
    /// Whether it has been where the tail keeps changes.
    is_up: bool,
    sync_at: Instant,
}

/// What comes next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// A message.
    Message(Message),
    /// The end, with its reason: who comes back goes on where it was.
    Cut(String),
}

impl Changes {
    pub(super) async fn begin(tail: Arc<Reading>, after: Option<Mark>) -> Result<Self> {
        let moved = tail.moved();
        tail.begin().await?;
        // Whatever happens to the log from here on is noticed by the life.
        let life = tail.place().0;
        let now = tail.truth().position().await?;
        let here = Mark::from(&now);
        let reason = match &after {
            None => None,
            Some(after) => cannot_resume(tail.truth(), after, &now).await?,
        };
        // Who is cut off before it hears that it has to begin anew comes back with what it had, and hears it then.
        let told = after.clone().unwrap_or_else(|| here.clone());
        let (mark, count) = match (after, &reason) {
            (Some(after), None) => (after, None),
            _ => (here, Some(now.count)),
        };
        let sync_at = monotonic();
        let is_up = !matches!(tail.behind(life, mark.seq, 0), Behind::TooMuch);
        let mut changes =
            Self { moved, life, told, made: mark, count, waiting: VecDeque::new(), is_up, sync_at, tail };
        if let Some(reason) = reason {
            changes.resync(reason);
        }
        Ok(changes)
    }

    /// Where who has taken all messages so far is.
    pub fn mark(&self) -> &Mark {
        &self.told
    }

    /// What comes next, whenever there is something. To give up waiting loses nothing.
    pub async fn next(&mut self) -> Result<Next> {
        loop {
            if let Some(message) = self.waiting.pop_front() {
                if let Some(mark) = &message.mark {
                    self.told = mark.clone();
                }
                return Ok(Next::Message(message));
            }
            if self.sync_at <= monotonic() && self.sync() {
                continue;
            }
            // What moves while this looks wakes it at once.
            self.moved.borrow_and_update();
            match self.tail.behind(self.life, self.made.seq, TOGETHER) {
                Behind::Rows(rows) => {
                    self.is_up = true;
                    rows.iter().for_each(|row| self.tell(row));
                }
                Behind::Nothing => {
                    self.is_up = true;
                    self.wait().await;
                }
                Behind::TooMuch if self.is_up => {
                    return Ok(Next::Cut("too far behind: go on from the last id".to_owned()));
                }
                Behind::TooMuch => self.replay().await?,
                Behind::Gone(reason) => {
                    let (life, position) = self.tail.place();
                    let Some(position) = position else { continue };
                    (self.life, self.made, self.count) = (life, Mark::from(&position), Some(position.count));
                    self.resync(reason);
                }
            }
        }
    }

    /// Waits for a change, or until it is time to say where the database stands.
    async fn wait(&mut self) {
        // Where it stands is not known while the database is away: looked at again with the next sign of life.
        let until = self.sync_at.max(monotonic() + self.tail.options().poll);
        tokio::select! {
            _ = self.moved.changed() => {}
            () = tokio::time::sleep_until(until.into()) => {}
        }
    }

    /// What is behind from the log itself, for who was away.
    async fn replay(&mut self) -> Result<()> {
        match self.tail.truth().log(self.made.seq, TOGETHER).await? {
            Some(rows) if rows.first().is_some_and(|row| row.digest_before() == self.made.digest) => {
                rows.iter().for_each(|row| self.tell(row));
            }
            _ => {
                let position = self.tail.truth().position().await?;
                (self.made, self.count) = (Mark::from(&position), Some(position.count));
                self.resync("the log does not go back so far".to_owned());
            }
        }
        Ok(())
    }

    fn tell(&mut self, row: &LogRow) {
        self.made = Mark { epoch: self.made.epoch.clone(), seq: row.seq, digest: row.digest };
        self.count = Some(row.count);
        let mut events = Event::of(row);
        let last = events.pop();
        self.waiting.extend(events.into_iter().map(|event| Message { mark: None, event }));
        self.waiting.extend(last.map(|event| Message { mark: Some(self.made.clone()), event }));
    }

    fn resync(&mut self, reason: String) {
        let mark = Some(self.made.clone());
        self.waiting.push_back(Message { mark, event: Event::Resync { reason } });
    }

    /// Says where the database stood at this place, and what time it is there; not while either is not known.
    fn sync(&mut self) -> bool {
        let place = self.tail.place().1.filter(|at| at.seq == self.made.seq && at.digest == self.made.digest);
        let count = self.count.or(place.map(|at| at.count));
        let Some((count, time_ms)) = count.zip(self.tail.time_ms()) else { return false };
        let Mark { epoch, seq, digest } = self.made.clone();
        let event = Event::Sync(Position { epoch, seq, count, digest, time_ms });
        self.waiting.push_back(Message { mark: Some(self.made.clone()), event });
        self.sync_at = monotonic() + self.tail.options().heartbeat;
        true
    }
}

/// Why who has applied all changes up to there cannot go on, if so.
pub(super) async fn cannot_resume(truth: &Truth, after: &Mark, now: &Position) -> Result<Option<String>> {
    let reason = match () {
        () if after.epoch != now.epoch => "the database may have gone back",
        () if after.seq > now.seq => "the database has gone back",
        () => match digest_at(truth, after.seq, now).await? {
            Some(digest) if digest == after.digest => return Ok(None),
            Some(_) => "the database has gone back, and on by another way",
            None => "the log does not go back so far",
        },
    };
    Ok(Some(reason.to_owned()))
}

/// Of all rules after that change.
async fn digest_at(truth: &Truth, seq: Seq, now: &Position) -> Result<Option<Digest>> {
    if seq == now.seq {
        return Ok(Some(now.digest));
    }
    let rows = truth.log(seq, 1).await?;
    Ok(rows.and_then(|rows| rows.first().map(LogRow::digest_before)))
}
