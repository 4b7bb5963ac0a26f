//! Charges by an id: what each limit knows of each.

use std::collections::HashMap;

use super::{Charge, Expected, Modelled, take_all};

/// What was charged by an id to one limit.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Known {
    cost: u64,
    /// The limits that were charged together.
    together: Vec<usize>,
    charge: Charge,
    is_released: bool,
    /// It was released before it came.
    is_void: bool,
}

/// What limits know of charges, by limit, key and id.
#[derive(Debug, Default)]
pub struct Charges(HashMap<(usize, String, u8), Known>);

/// What a charge is told.
#[derive(Debug, Clone, PartialEq)]
pub enum Charged {
    /// Charged: whether by this request, and where each limit stands.
    Charged(bool, Vec<Expected>),
    /// The id was released.
    Released,
    /// Refused; what each limit said.
    Refused(Vec<Expected>),
    /// The id is of something else.
    Conflict,
}

/// What a release is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GivenBack {
    /// Given back: whether by this request.
    Released(bool),
    /// Nobody knows of the id.
    Unknown,
    /// The id is of something else.
    Conflict,
}

fn sorted(limits: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut limits: Vec<_> = limits.collect();
    limits.sort_unstable();
    limits
}

impl Charges {
    /// Charges several by an id; none of them draws.
    pub fn charge(
        &mut self,
        limits: &mut [Modelled],
        key: &str,
        now: u64,
        id: u8,
        request: &[(usize, u64)],
    ) -> Charged {
        let together = sorted(request.iter().map(|(limit, _)| *limit));
        let mut known = None;
        for (limit, cost) in request {
            let Some(found) = self.0.get(&(*limit, key.to_owned(), id)) else { continue };
            if !found.is_void && found.cost != *cost || found.together != together {
                return Charged::Conflict;
            }
            known = Some(found.is_released);
        }
        match known {
            Some(true) => return Charged::Released,
            Some(false) => {
                let stand = |(limit, _): &(usize, u64)| limits[*limit].judge(key, now, 1);
                return Charged::Charged(false, request.iter().map(stand).collect());
            }
            None => {}
        }
        let drawn: Vec<_> = request.iter().map(|(limit, cost)| (*limit, *cost, 0.0)).collect();
        let answers = take_all(limits, key, now, &drawn);
        let expected: Vec<_> = answers.iter().map(|(expected, _)| *expected).collect();
        if !expected.iter().all(Expected::is_admitted) {
            return Charged::Refused(expected);
        }
        for ((limit, cost), (_, charge)) in request.iter().zip(answers) {
            let charge = charge.expect("it was charged");
            let known =
                Known { cost: *cost, together: together.clone(), charge, is_released: false, is_void: false };
            self.0.insert((*limit, key.to_owned(), id), known);
        }
        Charged::Charged(true, expected)
    }

    /// Gives back what an id has charged.
    pub fn release(
        &mut self,
        limits: &mut [Modelled],
        key: &str,
        now: u64,
        id: u8,
        request: &[usize],
    ) -> GivenBack {
        let together = sorted(request.iter().copied());
        let of = |limit: usize| (limit, key.to_owned(), id);
        let known: Vec<_> = request.iter().filter(|limit| self.0.contains_key(&of(**limit))).collect();
        if known.iter().any(|limit| self.0[&of(**limit)].together != together) {
            return GivenBack::Conflict;
        }
        if known.iter().all(|limit| self.0[&of(**limit)].is_void) {
            for limit in request {
                let charge = Charge::default();
                let void =
                    Known { cost: 0, together: together.clone(), charge, is_released: true, is_void: true };
                self.0.insert(of(*limit), void);
            }
            return GivenBack::Unknown;
        }
        let mut is_new = false;
        for limit in &known {
            let found = self.0.get_mut(&of(**limit)).expect("it is known");
            if !found.is_released {
                limits[**limit].rule.give_back(key, now, found.charge);
                (found.is_released, is_new) = (true, true);
            }
        }
        GivenBack::Released(is_new)
    }

    /// A limit forgets what it knows of a key.
    pub fn reset(&mut self, limit: usize, key: &str) {
        self.0.retain(|(of, held_by, _), _| *of != limit || held_by != key);
    }
}
