//! What reservations hold, in this process: charges to other buckets or windows
//! than those of the moment.

use super::algorithm::{Request, Terms};
use super::calendar::{Calendar, Count, rest_ms};
use super::memory::{Counted, InProcess};
use super::reservation::{Held, Holder, NotHeld, OnLapse, Place};
use super::rule::Rule;
use super::sliding::Sliding;
use super::verdict::{Outcome, Verdict};
use crate::clock::Timestamp;
use crate::key::Key;
use crate::store::memory::Lookup;

/// A key of a limit, at a moment.
pub(super) struct At<'a, R: Rule> {
    pub(super) limit: &'a InProcess,
    pub(super) counted: &'a Counted<R>,
    pub(super) key: Key<'a>,
    pub(super) now: Timestamp,
    pub(super) terms: Terms,
}

impl<R: Rule> At<'_, R> {
    fn now_ms(&self) -> u64 {
        self.now.as_millis()
    }

    fn request(&self, cost: u64) -> Request {
        Request { cost, terms: self.terms, remember: false, draw: 0.0 }
    }

    /// Judges a cost at `now_ms`, and does `charge` if it fits; a decision like others if
    /// it `is_counted`.
    fn if_it_fits<T>(
        &self,
        now_ms: u64,
        cost: u64,
        is_counted: bool,
        charge: impl FnOnce(&mut R::State) -> Option<T>,
    ) -> Result<T, NotHeld> {
        let Counted { rule, table, .. } = self.counted;
        let found =
            table.upsert(&rule.entry(self.key.as_str(), now_ms), self.now, rule, |state, _, tally| {
                let verdict = rule.peek(state, now_ms, self.request(cost));
                let fits = verdict.outcome == Outcome::Fits;
                if is_counted {
                    tally.count(fits);
                }
                if !fits {
                    return (Err(self.refused(verdict, cost)), false);
                }
                (charge(state).ok_or(NotHeld::TooMany), true)
            });
        match found {
            Lookup::Found(held) => held,
            // Beyond the cap nothing can be held, whatever the setting.
            Lookup::Full => {
                Err(NotHeld::Refused(self.limit.no_room(self.counted, self.now, self.request(cost))))
            }
        }
    }

    fn refused(&self, verdict: Verdict, cost: u64) -> NotHeld {
        NotHeld::Refused(verdict.into_decision(cost, 0, self.limit.window_size_seconds()))
    }

    /// Charges a cost whose hold is gone, if it fits.
    fn charge_anew(&self, cost: u64) -> bool {
        let (rule, now_ms) = (&self.counted.rule, self.now_ms());
        self.if_it_fits(now_ms, cost, false, |state| Some(rule.take(state, now_ms, self.request(cost))))
            .is_ok()
    }
}

/// The same, and it is noted what counts then.
pub(super) struct Noted<'a> {
    pub(super) holder: &'a dyn Holder,
    pub(super) limit: &'a InProcess,
    pub(super) key: Key<'a>,
}

impl Holder for Noted<'_> {
    fn hold(&self, cost: u64, lasting_ms: u64, on_lapse: OnLapse) -> Result<Place, NotHeld> {
        let held = self.holder.hold(cost, lasting_ms, on_lapse)?;
        self.limit.note_standing(self.key);
        Ok(held)
    }

    fn spend(&self, held: &Held) -> bool {
        let is_spent = self.holder.spend(held);
        if is_spent {
            self.limit.note_standing(self.key);
        }
        is_spent
    }

    fn give_back(&self, held: &Held) {
        self.holder.give_back(held);
    }
}

impl Holder for At<'_, Sliding> {
    fn hold(&self, cost: u64, lasting_ms: u64, on_lapse: OnLapse) -> Result<Place, NotHeld> {
        let (grid, now_ms) = (self.counted.rule.grid(), self.now_ms());
        let is_lent = on_lapse == OnLapse::GiveBack;
        self.if_it_fits(now_ms, cost, true, |usage| {
            Some(Place { at: usage.hold(grid, now_ms, cost, lasting_ms, is_lent), spans: false })
        })
    }

    fn spend(&self, held: &Held) -> bool {
        let (grid, Held { cost, place, .. }) = (self.counted.rule.grid(), *held);
        let settled = self
            .counted
            .table
            .get(self.key.as_str(), |usage| usage.settle(grid, self.now_ms(), place.at, cost, cost));
        settled == Some(cost) || self.charge_anew(cost)
    }

    fn give_back(&self, held: &Held) {
        let grid = self.counted.rule.grid();
        self.counted
            .table
            .get(self.key.as_str(), |usage| usage.settle(grid, self.now_ms(), held.place.at, held.cost, 0));
    }
}

impl At<'_, Calendar> {
    /// The first moment of a window.
    fn start_ms(&self, window: u64) -> u64 {
        window * self.counted.rule.period().as_millis()
    }

    /// Takes what is held out of a window; whether it was there.
    fn remove(&self, held: &Held, window: u64) -> bool {
        let lent_until_ms = (held.on_lapse == OnLapse::GiveBack).then_some(held.deadline_ms);
        if window > held.place.at {
            self.of_window(held.place.at, |count| count.drop_ahead(held.cost, lent_until_ms));
        }
        let remove = |count: &mut Count| count.remove(held.cost, lent_until_ms, self.now_ms());
        self.of_window(window, remove).unwrap_or(false)
    }

    /// What a window has of the key, if it has anything.
    fn of_window<T>(&self, window: u64, act: impl FnOnce(&mut Count) -> T) -> Option<T> {
        let entry = Rule::entry(&self.counted.rule, self.key.as_str(), self.start_ms(window));
        self.counted.table.get(&entry, act)
    }

    /// Whether a window can still be reached: as the scripts, which know the one
    /// before and the one after that of the moment.
    fn is_near(&self, window: u64) -> bool {
        window.abs_diff(self.counted.rule.window(self.now_ms())) <= 1
    }

    fn put(&self, window: u64, cost: u64, until_ms: Option<u64>) -> Result<(), NotHeld> {
        let (rule, now_ms) = (&self.counted.rule, self.now_ms());
        let judged_at_ms = if window == rule.window(now_ms) { now_ms } else { self.start_ms(window) };
        let is_counted = window == rule.window(now_ms);
        self.if_it_fits(judged_at_ms, cost, is_counted, |count| match until_ms {
            None => {
                count.add(window, cost);
                Some(())
            }
            Some(until_ms) => count.lend(now_ms, window, cost, until_ms).then_some(()),
        })
    }
}

impl Holder for At<'_, Calendar> {
    fn hold(&self, cost: u64, lasting_ms: u64, on_lapse: OnLapse) -> Result<Place, NotHeld> {
        let (rule, now_ms) = (&self.counted.rule, self.now_ms());
        let window = rule.window(now_ms);
        let deadline_ms = now_ms + lasting_ms;
        let until_ms = (on_lapse == OnLapse::GiveBack).then_some(deadline_ms);
        // One that is given back when the next window begins does not reach into it.
        let reach_ms = lasting_ms - u64::from(until_ms.is_some());
        let place = Place { at: window, spans: reach_ms >= rest_ms(rule, now_ms) };
        self.put(window, cost, until_ms)?;
        if place.spans
            && let Err(not_held) = self.put(window + 1, cost, until_ms)
        {
            self.remove(&Held { cost, deadline_ms, place, on_lapse }, window);
            return Err(self.until_the_next_is_over(not_held));
        }
        if place.spans {
            self.of_window(window, |count| count.hold_ahead(cost, until_ms));
        }
        Ok(place)
    }

    fn spend(&self, held: &Held) -> bool {
        let window = self.counted.rule.window(self.now_ms());
        let Place { at, spans } = held.place;
        let is_held = at == window || spans && at + 1 == window;
        if is_held && held.on_lapse == OnLapse::GiveBack {
            // In one step, so that nobody else gets it meanwhile.
            let (rule, now_ms) = (&self.counted.rule, self.now_ms());
            let entry = Rule::entry(rule, self.key.as_str(), now_ms);
            let moved = self.counted.table.get(&entry, |count| {
                let is_there = count.remove(held.cost, Some(held.deadline_ms), now_ms);
                if is_there {
                    count.add(window, held.cost);
                }
                is_there
            });
            if spans {
                self.remove(held, if at == window { at + 1 } else { at });
            }
            if moved == Some(true) {
                return true;
            }
        } else if is_held {
            // It is spent in this window, and in no other.
            if spans {
                self.remove(held, if at == window { at + 1 } else { at });
            }
            return true;
        }
        self.charge_anew(held.cost)
    }

    fn give_back(&self, held: &Held) {
        let Place { at, spans } = held.place;
        for window in at..=at + u64::from(spans) {
            if self.is_near(window) {
                self.remove(held, window);
            }
        }
    }
}

impl At<'_, Calendar> {
    /// A refusal by the next window ends with it.
    fn until_the_next_is_over(&self, not_held: NotHeld) -> NotHeld {
        use super::decision::{Decision, Rejected, Wait};
        let NotHeld::Refused(Decision::Rejected(Rejected { wait, mut quota, source, cause })) = not_held
        else {
            return not_held;
        };
        let rule = &self.counted.rule;
        let wait_ms = rest_ms(rule, self.now_ms()) + rule.period().as_millis();
        quota.reset_after_ms = wait_ms;
        let wait = wait.map(|_| Wait { retry_after_ms: wait_ms, remaining_after_waiting: quota.capacity });
        NotHeld::Refused(Decision::Rejected(Rejected { wait, quota, source, cause }))
    }
}
