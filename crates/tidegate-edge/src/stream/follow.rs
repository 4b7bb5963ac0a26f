//! The other end of the stream: every change once and in order, whatever arrives.

use super::event::{Event, Message};
use super::mark::Mark;
use crate::truth::Position;

/// Keeps a follower's place.
///
/// One that has no rules yet, or is told to begin anew, reads all of them, says so by [`loaded`](Self::loaded) with the
/// place they were read at, and then takes the messages that came meanwhile: those at or before that place are
/// [passed over](Step::Known).
#[derive(Debug, Clone, Default)]
pub struct Follower {
    mark: Option<Mark>,
    begun: Vec<Event>,
    /// How often in a row it was said that the database stands before this.
    behind: u32,
}

/// Who has read all rules is further than a stream that began before, for a moment. That it is still so when the database
/// has said that often where it stands, with no change between, is no such moment: word of its going back was lost.
const BEHIND: u32 = 3;

/// What is to be done with a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// These are one change: to be applied together, now.
    Apply(Vec<Event>),
    /// Nothing: the rest of the change is to come.
    Wait,
    /// Nothing: that was applied before.
    Known,
    /// The database stands there, and the follower with it if count and digest are its own.
    Compare(Position),
    /// All rules are to be read anew, at that place or later.
    Reload {
        /// Where they are to be read at least.
        from: Mark,
        /// Why.
        reason: String,
    },
}

impl Follower {
    /// One that goes on from there.
    pub fn at(mark: Mark) -> Self {
        Self { mark: Some(mark), begun: Vec::new(), behind: 0 }
    }

    /// Where it is: what to resume by. None if it has to read all rules first.
    pub fn mark(&self) -> Option<&Mark> {
        self.mark.as_ref()
    }

    /// All rules were read at that place.
    pub fn loaded(&mut self, at: Mark) {
        *self = Self::at(at);
    }

    /// The connection ended: what of a change has come without its rest comes again.
    pub fn cut(&mut self) {
        self.begun.clear();
    }

    /// What to do with the next message.
    pub fn take(&mut self, message: Message) -> Step {
        let Message { mark, event } = message;
        let Some(mark) = mark else {
            self.begun.push(event);
            return Step::Wait;
        };
        let mut events = std::mem::take(&mut self.begun);
        let behind = std::mem::take(&mut self.behind) + 1;
        let reload = |from: Mark, reason: String| Step::Reload { from, reason };
        let Some(own) = &self.mark else {
            return reload(mark, "nothing was read yet".to_owned());
        };
        match event {
            // Whoever has read all rules there knows what came of it. Who is further by its own account may have come
            // there before the database went back.
            Event::Resync { reason } => {
                if *own == mark {
                    return Step::Known;
                }
                self.mark = None;
                reload(mark, reason)
            }
            _ if own.epoch != mark.epoch => {
                self.mark = None;
                reload(mark, "the database may have gone back".to_owned())
            }
            Event::Sync(_) if own.seq > mark.seq && behind < BEHIND => {
                self.behind = behind;
                Step::Known
            }
            Event::Sync(position) if *own == mark => Step::Compare(position),
            Event::Sync(_) => {
                self.mark = None;
                reload(mark, "what is here is not what the database has".to_owned())
            }
            _ if mark.seq <= own.seq => Step::Known,
            _ if mark.seq != own.seq.next() => {
                self.mark = None;
                reload(mark, "a change is missing".to_owned())
            }
            event => {
                events.push(event);
                self.mark = Some(mark);
                Step::Apply(events)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::truth::{Digest, Seq};

    fn mark(seq: u64, text: &str) -> Mark {
        Mark { epoch: "e".to_owned(), seq: Seq(seq), digest: Digest::of("", 0, text) }
    }

    /// Whoever was not told that the database has gone back finds out by where it says that it stands.
    #[test]
    fn who_stays_further_than_the_database_begins_anew() {
        let sync = |seq: u64| {
            let at = mark(seq, "kept");
            let position =
                Position { epoch: at.epoch.clone(), seq: at.seq, count: 0, digest: at.digest, time_ms: 0 };
            Message { mark: Some(at), event: Event::Sync(position) }
        };
        let change = |seq: u64| Message {
            mark: Some(mark(seq, "kept")),
            event: Event::Create { body: String::new() },
        };
        let mut follower = Follower::at(mark(10, "lost"));
        for seq in [7, 7] {
            assert_eq!(follower.take(sync(seq)), Step::Known);
        }
        assert_eq!(follower.take(change(8)), Step::Known, "the stream comes nearer");
        for seq in [8, 8] {
            assert_eq!(follower.take(sync(seq)), Step::Known);
        }
        assert!(matches!(follower.take(sync(8)), Step::Reload { .. }));
        assert_eq!(follower.mark(), None);
    }

    /// A backup was put in the place of the database, which has the same name and smaller numbers.
    #[test]
    fn who_is_further_than_the_database_begins_anew() {
        let mut follower = Follower::at(mark(10, "lost"));
        let resync = |at: &Mark| Message {
            mark: Some(at.clone()),
            event: Event::Resync { reason: "the database has gone back".to_owned() },
        };
        let here = mark(7, "kept");
        let step = follower.take(resync(&here));
        assert!(matches!(&step, Step::Reload { from, .. } if *from == here), "{step:?}");
        assert_eq!(follower.mark(), None, "who is cut off now does not go on from where it was");
        follower.loaded(here.clone());
        assert_eq!(follower.take(resync(&here)), Step::Known, "that is where it has read them");
    }
}
