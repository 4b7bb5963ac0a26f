//! What an algorithm does in this process.

use std::borrow::Cow;
use std::fmt::Debug;

use super::algorithm::{Request, Terms};
use super::calendar::{Calendar, Count};
use super::receipt::Receipt;
use super::sliding::Sliding;
use super::suppressed::{Offered, Suppressed};
use super::token::{Level, Token};
use super::usage::Usage;
use super::verdict::Verdict;
use crate::store::memory::Entry;

/// An algorithm with its numbers. Scripts do the same on Redis.
pub(super) trait Rule: Debug + Copy {
    /// What it knows of a key.
    type State: Entry<Context = Self> + Debug;

    /// Whether a take that was refused is recorded too.
    const RECORDS_ALL: bool = false;

    /// What a key is judged by unless something else is asked for.
    fn terms(&self) -> Terms;

    /// Charges if it fits.
    fn take(&self, state: &mut Self::State, now_ms: u64, request: Request) -> Verdict;

    /// What a take would be told.
    fn peek(&self, state: &Self::State, now_ms: u64, request: Request) -> Verdict;

    /// The terms of the last `take_with`.
    fn remembered(&self, state: &Self::State, now_ms: u64) -> Option<Terms>;

    /// Gives back one charge, once.
    fn refund(&self, state: &mut Self::State, now_ms: u64, receipt: Receipt) -> u64;

    /// Forgets all charges, and voids their receipts.
    fn reset(&self, state: &mut Self::State, now_ms: u64);

    /// The moments whose entries a reset forgets.
    fn moments(&self, now_ms: u64) -> Vec<u64> {
        vec![now_ms]
    }

    /// The entry that a key has at this moment.
    #[inline]
    fn entry<'a>(&self, key: &'a str, now_ms: u64) -> Cow<'a, str> {
        let _ = now_ms;
        Cow::Borrowed(key)
    }
}

impl Rule for Sliding {
    type State = Usage;

    #[inline]
    fn terms(&self) -> Terms {
        [self.capacity(), 0]
    }

    #[inline(always)]
    fn take(&self, state: &mut Usage, now_ms: u64, request: Request) -> Verdict {
        state.take(self.grid(), now_ms, request)
    }

    fn peek(&self, state: &Usage, now_ms: u64, request: Request) -> Verdict {
        state.peek(self.grid(), now_ms, request)
    }

    fn remembered(&self, state: &Usage, now_ms: u64) -> Option<Terms> {
        state.remembered(self.grid(), now_ms)
    }

    fn refund(&self, state: &mut Usage, now_ms: u64, receipt: Receipt) -> u64 {
        state.refund(self.grid(), now_ms, receipt)
    }

    fn reset(&self, state: &mut Usage, _: u64) {
        state.reset();
    }
}

impl Entry for Usage {
    type Context = Sliding;

    fn end_ms(&self, rule: &Sliding) -> u64 {
        self.end_of_life_ms(rule.grid())
    }

    fn is_absurd(&self, rule: &Sliding, now_ms: u64) -> bool {
        Self::is_absurd(self, rule.grid(), now_ms)
    }
}

impl Rule for Suppressed {
    type State = Offered;

    const RECORDS_ALL: bool = true;

    #[inline]
    fn terms(&self) -> Terms {
        Suppressed::terms(self)
    }

    fn take(&self, state: &mut Offered, now_ms: u64, request: Request) -> Verdict {
        state.take(self, now_ms, request)
    }

    fn peek(&self, state: &Offered, now_ms: u64, request: Request) -> Verdict {
        state.peek(self, now_ms, request)
    }

    fn remembered(&self, state: &Offered, now_ms: u64) -> Option<Terms> {
        state.remembered(self, now_ms)
    }

    /// A call by chance has no receipt.
    fn refund(&self, _: &mut Offered, _: u64, _: Receipt) -> u64 {
        0
    }

    fn reset(&self, state: &mut Offered, _: u64) {
        *state = Offered::default();
    }
}

impl Rule for Token {
    type State = Level;

    #[inline]
    fn terms(&self) -> Terms {
        Token::terms(self)
    }

    #[inline(always)]
    fn take(&self, state: &mut Level, now_ms: u64, request: Request) -> Verdict {
        state.take(self, now_ms, request)
    }

    fn peek(&self, state: &Level, now_ms: u64, request: Request) -> Verdict {
        state.peek(self, now_ms, request)
    }

    fn remembered(&self, state: &Level, now_ms: u64) -> Option<Terms> {
        state.remembered(self, now_ms)
    }

    fn refund(&self, state: &mut Level, now_ms: u64, receipt: Receipt) -> u64 {
        state.refund(self, now_ms, receipt)
    }

    fn reset(&self, state: &mut Level, now_ms: u64) {
        state.reset(self, now_ms);
    }
}

impl Rule for Calendar {
    type State = Count;

    #[inline]
    fn terms(&self) -> Terms {
        [self.capacity(), 0]
    }

    fn take(&self, state: &mut Count, now_ms: u64, request: Request) -> Verdict {
        state.take(self, now_ms, request)
    }

    fn peek(&self, state: &Count, now_ms: u64, request: Request) -> Verdict {
        state.peek(self, now_ms, request)
    }

    fn remembered(&self, state: &Count, _: u64) -> Option<Terms> {
        state.remembered()
    }

    fn refund(&self, state: &mut Count, _: u64, receipt: Receipt) -> u64 {
        state.refund(receipt)
    }

    fn reset(&self, state: &mut Count, _: u64) {
        state.reset();
    }

    /// In the next window there are only reservations, and they go too.
    fn moments(&self, now_ms: u64) -> Vec<u64> {
        vec![now_ms, now_ms + self.period().as_millis()]
    }

    fn entry<'a>(&self, key: &'a str, now_ms: u64) -> Cow<'a, str> {
        Cow::Owned(Calendar::entry(self, key, now_ms).into())
    }
}
