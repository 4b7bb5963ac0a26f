//! Reservations: every charge with the time until which it counts, every reservation with
//! where it stands.

use std::collections::HashMap;

use crate::limit::ReservationState::{Committed, Lapsed, Pending, Released};
use crate::limit::{Algorithm, OnLapse, ReservationState};

/// What one key has used and holds.
#[derive(Debug)]
pub struct ReservationModel {
    algorithm: Algorithm,
    on_lapse: OnLapse,
    /// What counts, from when on and until when; whose reservation it is.
    charges: Vec<Charge>,
    reservations: HashMap<u8, (u64, ReservationState, u64)>,
    takes: usize,
}

#[derive(Debug)]
struct Charge {
    cost: u64,
    from: u64,
    until: u64,
    reservation: Option<u8>,
    /// Which take it was.
    take: Option<usize>,
}

impl ReservationModel {
    /// A key that nobody has used.
    pub fn new(algorithm: Algorithm, on_lapse: OnLapse) -> Self {
        Self { algorithm, on_lapse, charges: Vec::new(), reservations: HashMap::new(), takes: 0 }
    }

    /// From when and until when a charge of the moment `at` counts.
    fn span(&self, at: u64) -> (u64, u64) {
        match &self.algorithm {
            Algorithm::Sliding(sliding) => {
                let grid = sliding.coalesce().as_millis() as u64;
                (0, (at / grid + 1) * grid + sliding.window().as_millis())
            }
            Algorithm::Calendar(calendar) => {
                let period = calendar.period().as_millis();
                (at / period * period, (at / period + 1) * period)
            }
            _ => unreachable!(),
        }
    }

    fn used(&self, now: u64) -> u64 {
        self.charges.iter().filter(|it| it.from <= now && now < it.until).map(|it| it.cost).sum()
    }

    /// What is left.
    pub fn remaining(&self, now: u64) -> u64 {
        self.algorithm.capacity() - self.used(now)
    }

    /// When a cost fits, by trying every moment at which something changes.
    pub fn wait(&self, now: u64, cost: u64) -> Option<u64> {
        let capacity = self.algorithm.capacity();
        let mut moments: Vec<u64> = self.charges.iter().map(|it| it.until).filter(|at| *at > now).collect();
        moments.sort_unstable();
        let fits = |at: &u64| self.used(*at) + cost <= capacity;
        (cost <= capacity).then(|| moments.into_iter().find(fits).expect("it fits in the end") - now)
    }

    /// When all of a calendar limit is free: with the last window that holds something.
    pub fn reset_after(&self, now: u64) -> u64 {
        let counts = |it: &&Charge| self.used(now.max(it.from)) > 0 && now.max(it.from) < it.until;
        let ends = self.charges.iter().filter(counts).map(|it| self.span(now.max(it.from)).1 - now);
        ends.max().unwrap_or(0)
    }

    /// Takes; whether it fits.
    pub fn take(&mut self, now: u64, cost: u64) -> bool {
        let fits = self.used(now) + cost <= self.algorithm.capacity();
        if fits {
            let (from, until) = self.span(now);
            let take = Some(self.takes);
            self.charges.push(Charge { cost, from, until, reservation: None, take });
            self.takes += 1;
        }
        fits
    }

    /// Gives back a take, if it still counts.
    pub fn refund(&mut self, now: u64, take: usize) -> u64 {
        let is_it = |it: &Charge| it.take == Some(take) && it.from <= now && now < it.until;
        let Some(at) = self.charges.iter().position(is_it) else { return 0 };
        self.charges.remove(at).cost
    }

    /// Forgets everything.
    pub fn reset(&mut self) {
        self.charges.clear();
        self.reservations.clear();
    }

    /// Where a reservation stands, or none if it was refused.
    pub fn reserve(&mut self, now: u64, id: u8, cost: u64, lasting: u64) -> Option<ReservationState> {
        if self.reservations.contains_key(&id) {
            return self.state(now, id);
        }
        let deadline = now + lasting;
        let spends = self.on_lapse == OnLapse::Spend;
        let windows: Vec<(u64, u64)> = match &self.algorithm {
            Algorithm::Sliding(_) if spends => vec![self.span(deadline)],
            Algorithm::Sliding(sliding) => {
                let (grid, window) = (sliding.coalesce().as_millis() as u64, sliding.window().as_millis());
                vec![(0, (deadline - window).div_ceil(grid) * grid + window)]
            }
            _ => {
                let both = [self.span(now), self.span(deadline)];
                let end =
                    |(from, until): (u64, u64)| (from, if spends { until } else { until.min(deadline) });
                if both[0] == both[1] { vec![end(both[0])] } else { both.map(end).to_vec() }
            }
        };
        let capacity = self.algorithm.capacity();
        if windows.iter().any(|(from, _)| self.used(now.max(*from)) + cost > capacity) {
            return None;
        }
        let held = windows.iter().map(|(from, until)| Charge {
            cost,
            from: *from,
            until: *until,
            reservation: Some(id),
            take: None,
        });
        self.charges.extend(held);
        self.reservations.insert(id, (cost, Pending, deadline));
        self.state(now, id)
    }

    /// Where a reservation stands.
    pub fn state(&self, now: u64, id: u8) -> Option<ReservationState> {
        let (_, state, deadline) = self.reservations.get(&id)?;
        Some(if *state == Pending && *deadline <= now { Lapsed } else { *state })
    }

    fn end(&mut self, id: u8, state: ReservationState) -> Option<ReservationState> {
        self.reservations.get_mut(&id)?.1 = state;
        Some(state)
    }

    /// Commits; where it stands then.
    pub fn commit(&mut self, now: u64, id: u8) -> Option<ReservationState> {
        let (cost, state, _) = *self.reservations.get(&id)?;
        match (state, self.state(now, id)?) {
            (Pending, Pending) => {
                self.charges.retain(|it| it.reservation != Some(id));
                let (from, until) = self.span(now);
                self.charges.push(Charge { cost, from, until, reservation: None, take: None });
                self.end(id, Committed)
            }
            (Pending, Lapsed) if self.on_lapse == OnLapse::Spend => self.end(id, Committed),
            (_, state) => self.end(id, state),
        }
    }

    /// Releases; where it stands then.
    pub fn release(&mut self, now: u64, id: u8) -> Option<ReservationState> {
        match self.state(now, id)? {
            Pending => {
                self.charges.retain(|it| it.reservation != Some(id));
                self.end(id, Released)
            }
            state => self.end(id, state),
        }
    }
}
