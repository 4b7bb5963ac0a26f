//! The limit in this process: exact, synchronous, bounded in keys.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::algorithm::{Algorithm, Request, Terms};
use super::calendar::Calendar;
use super::decision::{Cause, Decision, Quota, Rejected, Source, Wait};
use super::hours::Hours;
use super::listing::Index;
use super::options::LimitOptions;
use super::overrides::{Overridden, Override};
use super::receipt::{Receipt, ReceiptText};
use super::reservation::{Book, OnLapse};
use super::rule::Rule;
use super::sliding::Sliding;
use super::suppressed::Suppressed;
use super::tally::{SharedTally, Tally};
use super::token::Token;
use super::verdict::Verdict;
use crate::bounds::{Cost, Rate, WhenFull};
use crate::clock::{Clock, Timestamp};
use crate::error::Result;
use crate::key::Key;
use crate::random::Random;
use crate::store::Secret;
use crate::store::memory::{Lookup, Swept, Table};

/// A limit in this process. Clones share their state.
///
/// ```
/// use std::time::Duration;
/// use tidegate::{Cost, Key, limit::{InProcess, Sliding}};
///
/// let limit = InProcess::new(Sliding::new("5/s".parse()?, Duration::from_secs(60))?);
/// let user = Key::new("user_123")?;
/// for _ in 0..300 {
///     assert!(limit.take(user, Cost::ONE)?.is_admitted());
/// }
/// assert!(!limit.take(user, Cost::ONE)?.is_admitted());
/// # Ok::<(), tidegate::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct InProcess {
    pub(super) shared: Arc<Shared>,
}

#[derive(Debug)]
pub(super) struct Shared {
    algorithm: Algorithm,
    window_size_seconds: u64,
    clock: Clock,
    random: Random,
    when_full: WhenFull,
    on_lapse: OnLapse,
    max_reservations: usize,
    engine: Engine,
    overrides: Table<Overridden>,
    overrides_by_end: Index,
    reservations: Table<Book>,
    pending_by_deadline: Index,
    /// Of a limit by the hour: what counted at most without a subject.
    hours: Option<Hours>,
    /// Decisions about keys beyond the cap.
    overflow: SharedTally,
    /// What receipts in text are checked by.
    secret: Secret,
}

/// What counts, by algorithm: a closed enum, so that nothing is boxed.
#[derive(Debug)]
enum Engine {
    Sliding(Counted<Sliding>),
    Suppressed(Counted<Suppressed>),
    Token(Counted<Token>),
    Calendar(Counted<Calendar>),
}

/// The keys of a limit.
#[derive(Debug)]
pub(super) struct Counted<R: Rule> {
    pub(super) rule: R,
    pub(super) table: Table<R::State, Tally>,
    /// What the keys beyond the cap share, by setting.
    overflow: Mutex<R::State>,
}

#[inline(always)]
fn charge<R: Rule>(
    rule: &R,
    state: &mut R::State,
    now_ms: u64,
    request: Request,
    tally: &mut Tally,
) -> Verdict {
    let verdict = rule.take(state, now_ms, request);
    tally.count(verdict.is_admitted());
    verdict
}

impl<R: Rule> Counted<R> {
    fn new(rule: R, max_keys: usize, slack_ms: u64) -> Self {
        Self { rule, table: Table::new(max_keys, slack_ms), overflow: Mutex::default() }
    }

    /// Charges if it fits; what to say, and to whom. `request` is made where it is used:
    /// what a closure holds is written to memory first. And a key that is there is not
    /// charged by a closure: that would be one function too many.
    #[inline(always)]
    fn take(&self, key: Key<'_>, now: Timestamp, request: impl Fn() -> Request) -> Lookup<(Verdict, u32)> {
        let Self { rule, table, .. } = self;
        let now_ms = now.as_millis();
        let key = rule.entry(key.as_str(), now_ms);
        let mut held = table.hold(&key);
        if let Some((state, subject, tally)) = held.entry() {
            return Lookup::Found((charge(rule, state, now_ms, request(), tally), subject));
        }
        let hash = held.hash;
        drop(held);
        table.insert(hash, &key, now, rule, |state, subject, tally| {
            let verdict = charge(rule, state, now_ms, request(), tally);
            ((verdict, subject), verdict.is_admitted() || R::RECORDS_ALL)
        })
    }
}

/// Does the same whatever the algorithm is.
macro_rules! with {
    ($engine:expr, $counted:ident => $do:expr) => {
        match $engine {
            Engine::Sliding($counted) => $do,
            Engine::Suppressed($counted) => $do,
            Engine::Token($counted) => $do,
            Engine::Calendar($counted) => $do,
        }
    };
}

// Behind the macro, which they use.
mod all;
mod charges;
mod hours;
mod listing;
mod reservations;

pub(super) use self::all::{Part, take_all};
pub(super) use self::charges::{charge_all, hours_of, release_all};

impl InProcess {
    /// How many keys are kept unless something else is asked for.
    pub const DEFAULT_MAX_KEYS: usize = 1_000_000;

    /// A limit on the system's clock, with the default options.
    pub fn new(algorithm: impl Into<Algorithm>) -> Self {
        Self::checked(algorithm.into(), &LimitOptions::default(), Clock::system(), Random::default())
    }

    /// A limit on `clock`. Of the options it goes by those about keys and reservations: there is
    /// no store that could be away.
    pub fn with(algorithm: impl Into<Algorithm>, options: &LimitOptions, clock: Clock) -> Result<Self> {
        options.check()?;
        Ok(Self::checked(algorithm.into(), options, clock, Random::default()))
    }

    /// One whose options were checked.
    pub(super) fn checked(
        algorithm: Algorithm,
        options: &LimitOptions,
        clock: Clock,
        random: Random,
    ) -> Self {
        let LimitOptions { max_keys, when_full, on_lapse, max_reservations, .. } = *options;
        let slack_ms = clock.slack_ms();
        let engine = match algorithm {
            Algorithm::Sliding(rule) => Engine::Sliding(Counted::new(rule, max_keys, slack_ms)),
            Algorithm::Suppressed(rule) => Engine::Suppressed(Counted::new(rule, max_keys, slack_ms)),
            Algorithm::Token(rule) => Engine::Token(Counted::new(rule, max_keys, slack_ms)),
            Algorithm::Calendar(rule) => Engine::Calendar(Counted::new(rule, max_keys, slack_ms)),
        };
        let window_size_seconds = algorithm.window_size_seconds();
        let (overrides, reservations) = (Table::new(max_keys, slack_ms), Table::new(max_keys, slack_ms));
        let overflow = SharedTally::default();
        let hours = algorithm.is_by_the_hour().then(Hours::default);
        Self {
            shared: Arc::new(Shared {
                algorithm,
                window_size_seconds,
                clock,
                random,
                when_full,
                on_lapse,
                max_reservations,
                engine,
                overrides,
                overrides_by_end: Index::default(),
                reservations,
                pending_by_deadline: Index::default(),
                hours,
                overflow,
                secret: Secret::random(),
            }),
        }
    }

    /// Charges `cost` to `key` if it fits.
    #[inline]
    pub fn take(&self, key: Key<'_>, cost: Cost) -> Result<Decision> {
        match &self.shared.engine {
            Engine::Sliding(_) if key == Key::EVERYONE => self.take_other(key, cost),
            Engine::Sliding(counted) => self.take_plain(counted, key, cost.get()),
            Engine::Token(counted) => self.take_plain(counted, key, cost.get()),
            Engine::Suppressed(_) | Engine::Calendar(_) => self.take_other(key, cost),
        }
    }

    #[inline(never)]
    fn take_other(&self, key: Key<'_>, cost: Cost) -> Result<Decision> {
        Ok(self.decide(key, self.plain(cost.get())))
    }

    /// What nearly all takes are. Not through [`decide`](Self::decide): there all algorithms
    /// share a function, and the largest of them sets its cost.
    #[inline(never)]
    fn take_plain<R: Rule>(&self, counted: &Counted<R>, key: Key<'_>, cost: u64) -> Result<Decision> {
        let Shared { clock, overrides, window_size_seconds, .. } = &*self.shared;
        let now = clock.now();
        let (mut terms, mut seconds) = (counted.rule.terms(), *window_size_seconds);
        if overrides.len() > 0
            && let Some(overridden) = self.overridden(key, now)
        {
            (terms, seconds) = (overridden, self.window_seconds_of(overridden));
        }
        let request = move || Request { cost, terms, remember: false, draw: 0.0 };
        match counted.take(key, now, request) {
            Lookup::Found((verdict, subject)) => verdict.into_result(cost, subject, seconds),
            Lookup::Full => Ok(self.decide_overflow(counted, now, request(), true)),
        }
    }

    /// The same against `rate` instead of the configured one; a later
    /// [`peek`](Self::peek) judges by it too, until a plain take, be it refused.
    pub fn take_with(&self, key: Key<'_>, rate: Rate, cost: Cost) -> Result<Decision> {
        let terms = self.shared.algorithm.terms_of(rate)?;
        Ok(self.decide(key, Request { terms, remember: true, ..self.plain(cost.get()) }))
    }

    /// A request by the configured terms.
    #[inline]
    fn plain(&self, cost: u64) -> Request {
        let Shared { algorithm, random, .. } = &*self.shared;
        let draw = if algorithm.draws() { random.draw() } else { 0.0 };
        Request { cost, terms: algorithm.terms(), remember: false, draw }
    }

    pub(super) fn decide(&self, key: Key<'_>, request: Request) -> Decision {
        let now = self.shared.clock.now();
        let request = self.by_override(key, now, request);
        let decision = with!(&self.shared.engine, counted => self.take_on(counted, key, now, request));
        self.note(key, now, &decision);
        decision
    }

    /// The same request, by the key's override if there is one.
    #[inline]
    fn by_override(&self, key: Key<'_>, now: Timestamp, request: Request) -> Request {
        match self.shared.overrides.len() {
            0 => request,
            _ if request.remember => request,
            _ => Request { terms: self.overridden(key, now).unwrap_or(request.terms), ..request },
        }
    }

    #[inline(never)]
    fn overridden(&self, key: Key<'_>, now: Timestamp) -> Option<Terms> {
        self.shared.overrides.get(key.as_str(), |found| found.terms_at(now)).flatten()
    }

    fn take_on<R: Rule>(
        &self,
        counted: &Counted<R>,
        key: Key<'_>,
        now: Timestamp,
        request: Request,
    ) -> Decision {
        match counted.take(key, now, move || request) {
            Lookup::Found((verdict, subject)) => {
                verdict.into_decision(request.cost, subject, self.window_seconds_of(request.terms))
            }
            Lookup::Full => self.decide_overflow(counted, now, request, true),
        }
    }

    /// What the next take of one permit would be told.
    pub fn peek(&self, key: Key<'_>) -> Result<Decision> {
        self.peek_for(key, Cost::ONE)
    }

    /// What the next take of `cost` would be told.
    pub fn peek_for(&self, key: Key<'_>, cost: Cost) -> Result<Decision> {
        let terms = self.shared.algorithm.terms();
        Ok(self.peek_by(key, Request { cost: cost.get(), terms, remember: false, draw: 0.0 }))
    }

    /// The same, where the terms of `request` are the configured ones.
    pub(super) fn peek_by(&self, key: Key<'_>, request: Request) -> Decision {
        let now = self.shared.clock.now();
        let request = self.by_override(key, now, request);
        with!(&self.shared.engine, counted => self.peek_on(counted, key, now, request))
    }

    fn peek_on<R: Rule>(
        &self,
        counted: &Counted<R>,
        key: Key<'_>,
        now: Timestamp,
        request: Request,
    ) -> Decision {
        let Counted { rule, table, .. } = counted;
        let now_ms = now.as_millis();
        let look = |state: &R::State| {
            let terms = rule.remembered(state, now_ms).unwrap_or(request.terms);
            (rule.peek(state, now_ms, Request { terms, ..request }), terms)
        };
        let (verdict, terms) = match table.get(&rule.entry(key.as_str(), now_ms), |state| look(state)) {
            Some(found) => found,
            None if table.is_full(now) => return self.decide_overflow(counted, now, request, false),
            None => look(&R::State::default()),
        };
        verdict.into_decision(request.cost, 0, self.window_seconds_of(terms))
    }

    /// The window of a key that is judged by such terms.
    fn window_seconds_of(&self, terms: Terms) -> u64 {
        self.shared.algorithm.window_seconds_of(terms)
    }

    /// Gives back the charge that `receipt` is for, once; how much that was.
    /// Nothing if the charge no longer counts.
    pub fn refund(&self, key: Key<'_>, receipt: Receipt) -> Result<u64> {
        let now_ms = self.shared.clock.now().as_millis();
        with!(&self.shared.engine, counted => {
            let entry = counted.rule.entry(key.as_str(), now_ms);
            if receipt.subject != counted.table.subject(&entry) {
                return Ok(0);
            }
            let refund = |state: &mut _| counted.rule.refund(state, now_ms, receipt);
            Ok(counted.table.get(&entry, refund).unwrap_or(0))
        })
    }

    /// A receipt of `key` as text, to be read by this limit; none if it is not of this key.
    pub fn receipt_text(&self, key: Key<'_>, receipt: Receipt) -> Option<ReceiptText> {
        let is_of_key = receipt.subject == self.subject(key);
        is_of_key.then(|| receipt.to_text(self.shared.secret, "", key.as_str()))
    }

    /// The receipt of `key` that a text is; an error if it is none, or was made up.
    pub fn read_receipt(&self, key: Key<'_>, text: &str) -> Result<Receipt> {
        ReceiptText::read(text, self.shared.secret, "", key.as_str(), self.subject(key))
    }

    /// What receipts of a key have of it.
    fn subject(&self, key: Key<'_>) -> u32 {
        let now_ms = self.shared.clock.now().as_millis();
        with!(&self.shared.engine, counted => {
            counted.table.subject(&counted.rule.entry(key.as_str(), now_ms))
        })
    }

    /// Judges `key` by `rate` instead of the configured one for a while.
    pub fn set_override(&self, key: Key<'_>, rate: Rate, lasting: Duration) -> Result<Override> {
        let Shared { algorithm, clock, overrides, overrides_by_end, .. } = &*self.shared;
        let new = Override::new(rate, lasting)?;
        let (now, terms) = (clock.now(), algorithm.terms_of(rate)?);
        overrides_by_end.sweep(now.as_millis());
        let set = |found: &mut Overridden, _: u32, (): &mut ()| {
            let before_ms = found.until_ms();
            *found = Overridden::from_now(now, terms, new);
            overrides_by_end.moved(key.as_str(), before_ms, found.until_ms());
            ((), true)
        };
        match overrides.upsert(key.as_str(), now, &(), set) {
            Lookup::Found(()) => Ok(new),
            Lookup::Full => Err(Override::too_many()),
        }
    }

    /// The override of `key`, with what it has left.
    pub fn get_override(&self, key: Key<'_>) -> Result<Option<Override>> {
        let now = self.shared.clock.now();
        Ok(self.shared.overrides.get(key.as_str(), |found| found.at(now)).flatten())
    }

    /// Ends the override of `key`.
    pub fn clear_override(&self, key: Key<'_>) -> Result<()> {
        let Shared { overrides, overrides_by_end, .. } = &*self.shared;
        overrides.get(key.as_str(), |found| {
            overrides_by_end.moved(key.as_str(), found.until_ms(), 0);
            *found = Overridden::default();
        });
        Ok(())
    }

    /// The most permits under such terms.
    pub(super) fn capacity_of(&self, terms: Terms) -> u64 {
        self.shared.algorithm.capacity_of(terms)
    }

    pub(super) fn clock(&self) -> &Clock {
        &self.shared.clock
    }

    pub(super) fn window_size_seconds(&self) -> u64 {
        self.shared.window_size_seconds
    }

    /// How many keys are held.
    pub fn keys(&self) -> usize {
        with!(&self.shared.engine, counted => counted.table.len())
    }

    /// Drops keys that have been idle for long enough, looking at up to `limit`;
    /// how many. New keys clear away old ones too: this is for a limit that has
    /// none for a while.
    pub fn sweep(&self, limit: usize) -> usize {
        self.swept(limit).dropped
    }

    pub(super) fn swept(&self, limit: usize) -> Swept {
        let now = self.shared.clock.now();
        let keys = with!(&self.shared.engine, counted => counted.table.sweep(now, limit, &counted.rule));
        let overrides = self.shared.overrides.sweep(now, limit, &());
        let reservations = self.shared.reservations.sweep(now, limit, &());
        self.shared.overrides_by_end.sweep(now.as_millis());
        self.shared.pending_by_deadline.sweep(now.as_millis());
        let looked_at = keys.looked_at.max(overrides.looked_at).max(reservations.looked_at);
        Swept { looked_at, dropped: keys.dropped }
    }

    /// Decisions so far by outcome and source.
    pub(super) fn tallies(&self) -> Vec<(&'static str, Source, u64)> {
        let held = with!(&self.shared.engine, counted => counted.table.beside());
        [held.rows(Source::Store), self.shared.overflow.read().rows(Source::Policy)].concat()
    }

    /// Decides about a key for which there is no room; `counts` unless it is
    /// only a peek.
    #[cold]
    fn decide_overflow<R: Rule>(
        &self,
        counted: &Counted<R>,
        now: Timestamp,
        request: Request,
        counts: bool,
    ) -> Decision {
        let Shared { when_full, .. } = &*self.shared;
        let decision = match when_full {
            WhenFull::Share => {
                let now_ms = now.as_millis();
                let mut shared = counted.overflow.lock();
                let verdict = match counts {
                    true => counted.rule.take(&mut shared, now_ms, request),
                    false => counted.rule.peek(&shared, now_ms, request),
                };
                // A receipt would not be for this key's own charge.
                let seconds = self.window_seconds_of(request.terms);
                verdict.into_decision(request.cost, 0, seconds).decided_by(Source::Policy)
            }
            _ => self.no_room(counted, now, request),
        };
        if counts {
            self.shared.overflow.count(decision.is_admitted());
        }
        decision
    }

    pub(super) fn no_room<R: Rule>(
        &self,
        counted: &Counted<R>,
        now: Timestamp,
        request: Request,
    ) -> Decision {
        let capacity = self.shared.algorithm.capacity_of(request.terms);
        let first_idle_ms = counted.table.next_due().as_millis();
        let retry_after_ms = first_idle_ms.saturating_sub(now.as_millis()).max(1);
        let wait = Wait { retry_after_ms, remaining_after_waiting: capacity };
        let wait = (request.cost <= capacity).then_some(wait);
        let window_size_seconds = self.window_seconds_of(request.terms);
        let quota = Quota { capacity, remaining: 0, reset_after_ms: retry_after_ms, window_size_seconds };
        Decision::Rejected(Rejected { wait, quota, source: Source::Policy, cause: Cause::TooManyKeys })
    }
}
