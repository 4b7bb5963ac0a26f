//! The limit in this process: exact, synchronous, bounded in keys.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::algorithm::{Algorithm, Ask, Terms};
use super::calendar::Calendar;
use super::decision::{Decision, Quota, Receipt, Rejected, Source, Wait};
use super::hold::At;
use super::overrides::{Overridden, Override};
use super::reservation::{self, Book, Holder, Reservation, Reserve, Settle};
use super::rule::Rule;
use super::sliding::Sliding;
use super::suppressed::Suppressed;
use super::token::Token;
use super::verdict::Verdict;
use super::{LimitOptions, WhenFull, no_reservations};
use crate::bounds::{Cost, Rate};
use crate::clock::{Clock, Timestamp};
use crate::error::{Error, Result};
use crate::key::Key;
use crate::random::Random;
use crate::store::memory::{Lookup, Swept, Table, Tally};

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
    engine: Engine,
    overrides: Table<Overridden>,
    reservations: Table<Book>,
    /// Decisions about keys beyond the cap.
    beyond: Beyond,
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
    pub(super) table: Table<R::State>,
    /// What the keys beyond the cap share, by setting.
    overflow: Mutex<R::State>,
}

#[inline(always)]
fn charge<R: Rule>(rule: &R, state: &mut R::State, now_ms: u64, ask: Ask, tally: &mut Tally<'_>) -> Verdict {
    let verdict = rule.take(state, now_ms, ask);
    let admitted = verdict.is_admitted();
    *tally.admitted += u64::from(admitted);
    *tally.rejected += u64::from(!admitted);
    verdict
}

impl<R: Rule> Counted<R> {
    fn new(rule: R, max_keys: usize, slack_ms: u64) -> Self {
        Self { rule, table: Table::new(max_keys, slack_ms), overflow: Mutex::default() }
    }

    /// Charges if it fits; what to say, and to whom. `ask` is made where it is used:
    /// what a closure holds is written to memory first. And a key that is there is not
    /// charged by a closure: that would be one function too many.
    #[inline(always)]
    fn take(&self, key: Key<'_>, now: Timestamp, ask: impl Fn() -> Ask) -> Lookup<(Verdict, u32)> {
        let Self { rule, table, .. } = self;
        let now_ms = now.as_millis();
        let key = rule.entry(key.as_str(), now_ms);
        let mut held = table.hold(&key);
        if let Some((state, subject, mut tally)) = held.entry() {
            return Lookup::Found((charge(rule, state, now_ms, ask(), &mut tally), subject));
        }
        let hash = held.hash;
        drop(held);
        table.insert(hash, &key, now, rule, |state, subject, tally| {
            let verdict = charge(rule, state, now_ms, ask(), tally);
            ((verdict, subject), verdict.is_admitted() || R::RECORDS_ALL)
        })
    }
}

#[derive(Debug, Default)]
struct Beyond {
    admitted: AtomicU64,
    rejected: AtomicU64,
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

impl InProcess {
    /// How many keys are kept unless something else is asked for.
    pub const DEFAULT_MAX_KEYS: usize = 1_000_000;

    /// A limit on the system's clock, for up to a million keys at a time.
    pub fn new(algorithm: impl Into<Algorithm>) -> Self {
        Self::with(algorithm, Clock::system(), Self::DEFAULT_MAX_KEYS, WhenFull::default())
    }

    /// A limit on `clock` that never holds more than `max_keys` keys.
    pub fn with(algorithm: impl Into<Algorithm>, clock: Clock, max_keys: usize, when_full: WhenFull) -> Self {
        Self::with_random(algorithm, clock, Random::default(), max_keys, when_full)
    }

    pub(super) fn with_random(
        algorithm: impl Into<Algorithm>,
        clock: Clock,
        random: Random,
        max_keys: usize,
        when_full: WhenFull,
    ) -> Self {
        let (algorithm, slack_ms) = (algorithm.into(), clock.slack_ms());
        let engine = match algorithm {
            Algorithm::Sliding(rule) => Engine::Sliding(Counted::new(rule, max_keys, slack_ms)),
            Algorithm::Suppressed(rule) => Engine::Suppressed(Counted::new(rule, max_keys, slack_ms)),
            Algorithm::Token(rule) => Engine::Token(Counted::new(rule, max_keys, slack_ms)),
            Algorithm::Calendar(rule) => Engine::Calendar(Counted::new(rule, max_keys, slack_ms)),
        };
        let window_size_seconds = algorithm.window_size_seconds();
        let (overrides, reservations) = (Table::new(max_keys, slack_ms), Table::new(max_keys, slack_ms));
        let beyond = Beyond::default();
        Self {
            shared: Arc::new(Shared {
                algorithm,
                window_size_seconds,
                clock,
                random,
                when_full,
                engine,
                overrides,
                reservations,
                beyond,
            }),
        }
    }

    /// Charges `cost` to `key` if it fits.
    #[inline]
    pub fn take(&self, key: Key<'_>, cost: Cost) -> Result<Decision> {
        match &self.shared.engine {
            Engine::Sliding(counted) => self.take_plain(counted, key, cost.get()),
            Engine::Token(counted) => self.take_plain(counted, key, cost.get()),
            Engine::Suppressed(_) | Engine::Calendar(_) => self.take_other(key, cost),
        }
    }

    #[inline(never)]
    fn take_other(&self, key: Key<'_>, cost: Cost) -> Result<Decision> {
        Ok(self.ask(key, self.plain(cost.get())))
    }

    /// What nearly all takes are. Not through [`ask`](Self::ask): there all algorithms
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
        let ask = move || Ask { cost, terms, remember: false, draw: 0.0 };
        match counted.take(key, now, ask) {
            Lookup::Found((verdict, subject)) => verdict.answer(cost, subject, seconds),
            Lookup::Full => Ok(self.beyond_the_cap(counted, now, ask(), true)),
        }
    }

    /// The same against `rate` instead of the configured one; a later
    /// [`peek`](Self::peek) judges by it too, until a plain take, be it refused.
    pub fn take_with(&self, key: Key<'_>, rate: Rate, cost: Cost) -> Result<Decision> {
        let terms = self.shared.algorithm.terms_of(rate)?;
        Ok(self.ask(key, Ask { terms, remember: true, ..self.plain(cost.get()) }))
    }

    /// An ask by the configured terms.
    #[inline]
    fn plain(&self, cost: u64) -> Ask {
        let Shared { algorithm, random, .. } = &*self.shared;
        let draw = if algorithm.draws() { random.draw() } else { 0.0 };
        Ask { cost, terms: algorithm.terms(), remember: false, draw }
    }

    pub(super) fn ask(&self, key: Key<'_>, ask: Ask) -> Decision {
        let now = self.shared.clock.now();
        let ask = self.by_override(key, now, ask);
        with!(&self.shared.engine, counted => self.take_on(counted, key, now, ask))
    }

    /// The same ask, by the key's override if there is one.
    #[inline]
    fn by_override(&self, key: Key<'_>, now: Timestamp, ask: Ask) -> Ask {
        match self.shared.overrides.len() {
            0 => ask,
            _ if ask.remember => ask,
            _ => Ask { terms: self.overridden(key, now).unwrap_or(ask.terms), ..ask },
        }
    }

    #[inline(never)]
    fn overridden(&self, key: Key<'_>, now: Timestamp) -> Option<Terms> {
        self.shared.overrides.get(key.as_str(), |found| found.terms_at(now)).flatten()
    }

    fn take_on<R: Rule>(&self, counted: &Counted<R>, key: Key<'_>, now: Timestamp, ask: Ask) -> Decision {
        match counted.take(key, now, move || ask) {
            Lookup::Found((verdict, subject)) => {
                verdict.dress(ask.cost, subject, self.window_seconds_of(ask.terms))
            }
            Lookup::Full => self.beyond_the_cap(counted, now, ask, true),
        }
    }

    /// What the next take of one permit would be told.
    pub fn peek(&self, key: Key<'_>) -> Result<Decision> {
        self.peek_for(key, Cost::ONE)
    }

    /// What the next take of `cost` would be told.
    pub fn peek_for(&self, key: Key<'_>, cost: Cost) -> Result<Decision> {
        let terms = self.shared.algorithm.terms();
        Ok(self.peek_by(key, Ask { cost: cost.get(), terms, remember: false, draw: 0.0 }))
    }

    /// The same, where the terms of `ask` are the configured ones.
    pub(super) fn peek_by(&self, key: Key<'_>, ask: Ask) -> Decision {
        let now = self.shared.clock.now();
        let ask = self.by_override(key, now, ask);
        with!(&self.shared.engine, counted => self.peek_on(counted, key, now, ask))
    }

    fn peek_on<R: Rule>(&self, counted: &Counted<R>, key: Key<'_>, now: Timestamp, ask: Ask) -> Decision {
        let Counted { rule, table, .. } = counted;
        let now_ms = now.as_millis();
        let look = |state: &R::State| {
            let terms = rule.remembered(state, now_ms).unwrap_or(ask.terms);
            (rule.peek(state, now_ms, Ask { terms, ..ask }), terms)
        };
        let (verdict, terms) = match table.get(&rule.entry(key.as_str(), now_ms), |state| look(state)) {
            Some(found) => found,
            None if table.is_full(now) => return self.beyond_the_cap(counted, now, ask, false),
            None => look(&R::State::default()),
        };
        verdict.dress(ask.cost, 0, self.window_seconds_of(terms))
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

    /// Forgets what `key` has used; receipts and reservations from before are void.
    pub fn reset(&self, key: Key<'_>) -> Result<()> {
        let Shared { clock, engine, reservations, .. } = &*self.shared;
        let now = clock.now();
        let now_ms = now.as_millis();
        // Under the lock of its reservations: they are void too.
        let reset = || {
            with!(engine, counted => {
                for moment_ms in counted.rule.moments(now_ms) {
                    let entry = counted.rule.entry(key.as_str(), moment_ms);
                    counted.table.get(&entry, |state| counted.rule.reset(state, moment_ms));
                }
            });
        };
        let found = reservations.upsert(key.as_str(), now, &(), |book: &mut Book, _, _| {
            *book = Book::default();
            (reset(), false)
        });
        if matches!(found, Lookup::Full) {
            // It has none, and cannot get any.
            reset();
        }
        Ok(())
    }

    /// Judges `key` by `rate` instead of the configured one for a while.
    pub fn set_override(&self, key: Key<'_>, rate: Rate, lasting: Duration) -> Result<Override> {
        let Shared { algorithm, clock, overrides, .. } = &*self.shared;
        let new = Override::new(rate, lasting)?;
        let (now, terms) = (clock.now(), algorithm.terms_of(rate)?);
        let set = |found: &mut Overridden, _: u32, _: &mut Tally<'_>| {
            *found = Overridden::from_now(now, terms, new);
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
        self.shared.overrides.get(key.as_str(), |found| *found = Overridden::default());
        Ok(())
    }

    /// The most permits under such terms.
    pub(super) fn capacity_of(&self, terms: Terms) -> u64 {
        self.shared.algorithm.capacity_of(terms)
    }

    pub(super) fn clock(&self) -> &Clock {
        &self.shared.clock
    }

    /// Does something with the reservations of a key.
    fn booked<T>(
        &self,
        key: Key<'_>,
        options: &LimitOptions,
        act: impl FnOnce(&mut Book, &dyn Holder, &reservation::Terms) -> T,
    ) -> Result<T> {
        let Shared { algorithm, clock, engine, reservations, .. } = &*self.shared;
        let now = clock.now();
        let ask = self.by_override(key, now, self.plain(1));
        let LimitOptions { on_lapse, max_reservations, .. } = *options;
        let terms = reservation::Terms {
            now_ms: now.as_millis(),
            remembered_ms: reservation::remembered_ms(algorithm.holding_ms()?),
            max: max_reservations,
            on_lapse,
        };
        let found = reservations.upsert(key.as_str(), now, &(), |book: &mut Book, _, _| {
            let done = match engine {
                Engine::Sliding(counted) => {
                    act(book, &At { limit: self, counted, key, now, terms: ask.terms }, &terms)
                }
                Engine::Calendar(counted) => {
                    act(book, &At { limit: self, counted, key, now, terms: ask.terms }, &terms)
                }
                // It has been asked above how long they hold.
                Engine::Suppressed(_) | Engine::Token(_) => return (None, false),
            };
            (Some(done), !book.is_empty())
        });
        match found {
            Lookup::Found(Some(done)) => Ok(done),
            Lookup::Found(None) => Err(no_reservations(algorithm)),
            Lookup::Full => {
                Err(Error::unavailable("there are as many keys with reservations as are allowed"))
            }
        }
    }

    pub(super) fn reserve(
        &self,
        key: Key<'_>,
        id: &str,
        cost: Cost,
        lasting: Duration,
        options: &LimitOptions,
    ) -> Result<Reserve> {
        let lasting_ms = reservation::check(id, lasting, self.shared.algorithm.holding_ms()?)?;
        self.booked(key, options, |book, holder, terms| {
            book.reserve(holder, terms, id, cost.get(), lasting_ms)
        })?
    }

    pub(super) fn settle(
        &self,
        key: Key<'_>,
        id: &str,
        what: Settle,
        options: &LimitOptions,
    ) -> Result<Option<Reservation>> {
        reservation::check_id(id)?;
        self.booked(key, options, |book, holder, terms| match what {
            Settle::Commit => book.commit(holder, terms, id),
            Settle::Release => book.release(holder, terms, id),
            Settle::See => book.see(terms.now_ms, id),
        })
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
        let looked_at = keys.looked_at.max(overrides.looked_at).max(reservations.looked_at);
        Swept { looked_at, dropped: keys.dropped }
    }

    /// Decisions so far by outcome and source.
    pub(super) fn tallies(&self) -> [(&'static str, Source, u64); 4] {
        let (admitted, rejected) = with!(&self.shared.engine, counted => counted.table.tallies());
        let beyond = &self.shared.beyond;
        [
            ("admitted", Source::Store, admitted),
            ("rejected", Source::Store, rejected),
            ("admitted", Source::Policy, beyond.admitted.load(Ordering::Relaxed)),
            ("rejected", Source::Policy, beyond.rejected.load(Ordering::Relaxed)),
        ]
    }

    /// Decides about a key for which there is no room; `counts` unless it is
    /// only a peek.
    #[cold]
    fn beyond_the_cap<R: Rule>(
        &self,
        counted: &Counted<R>,
        now: Timestamp,
        ask: Ask,
        counts: bool,
    ) -> Decision {
        let Shared { when_full, .. } = &*self.shared;
        let decision = match when_full {
            WhenFull::Refuse => self.no_room(counted, now, ask),
            WhenFull::Share => {
                let now_ms = now.as_millis();
                let mut shared = counted.overflow.lock();
                let verdict = match counts {
                    true => counted.rule.take(&mut shared, now_ms, ask),
                    false => counted.rule.peek(&shared, now_ms, ask),
                };
                // A receipt would not be for this key's own charge.
                let seconds = self.window_seconds_of(ask.terms);
                verdict.dress(ask.cost, 0, seconds).decided_by(Source::Policy)
            }
        };
        if counts {
            self.count_beyond(decision.is_admitted());
        }
        decision
    }

    fn count_beyond(&self, is_admitted: bool) {
        let Beyond { admitted, rejected } = &self.shared.beyond;
        let counter = if is_admitted { admitted } else { rejected };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn no_room<R: Rule>(&self, counted: &Counted<R>, now: Timestamp, ask: Ask) -> Decision {
        let capacity = self.shared.algorithm.capacity_of(ask.terms);
        let first_idle_ms = counted.table.next_due().as_millis();
        let retry_after_ms = first_idle_ms.saturating_sub(now.as_millis()).max(1);
        let wait = Wait { retry_after_ms, remaining_after_waiting: capacity };
        let wait = (ask.cost <= capacity).then_some(wait);
        let window_size_seconds = self.window_seconds_of(ask.terms);
        let quota = Quota { capacity, remaining: 0, reset_after_ms: retry_after_ms, window_size_seconds };
        Decision::Rejected(Rejected { wait, quota, source: Source::Policy })
    }
}

/// One limit of a take from several.
pub(super) struct Part<'a> {
    pub(super) limit: &'a InProcess,
    pub(super) ask: Ask,
}

/// Charges `key` under all of `parts`, or under none; the decision of each, in
/// order. All states are locked at once, in an order that all callers keep.
pub(super) fn take_all(parts: &[Part<'_>], key: Key<'_>, now: Timestamp) -> Vec<Decision> {
    let mut order: Vec<usize> = (0..parts.len()).collect();
    order.sort_by_key(|index| Arc::as_ptr(&parts[*index].limit.shared) as usize);
    let mut decisions = vec![None; parts.len()];
    descend(parts, &order, key, now, true, &mut decisions);
    decisions.into_iter().flatten().collect()
}

/// Judges the first limit of `order`, then the rest with its state still locked;
/// charges it if all of them fit. Whether they do.
fn descend(
    parts: &[Part<'_>],
    order: &[usize],
    key: Key<'_>,
    now: Timestamp,
    fits_so_far: bool,
    decisions: &mut [Option<Decision>],
) -> bool {
    let Some((index, rest)) = order.split_first() else { return fits_so_far };
    let Part { limit, ask } = &parts[*index];
    let ask = limit.by_override(key, now, *ask);
    with!(&limit.shared.engine, counted => {
        let Counted { rule, table, overflow } = counted;
        let now_ms = now.as_millis();
        let seconds = limit.window_seconds_of(ask.terms);
        let charge = |state: &mut _, fits: bool, rest: bool| -> Option<Verdict> {
            // By chance and refused: recorded all the same.
            (rest || !fits && records_all(rule)).then(|| rule.take(state, now_ms, ask))
        };
        let mut go_on = |fits| descend(parts, rest, key, now, fits_so_far && fits, decisions);
        let entry = rule.entry(key.as_str(), now_ms);
        let found = table.upsert(&entry, now, rule, |state, subject, tally| {
            let judged = rule.peek(state, now_ms, ask);
            let all_fit = go_on(judged.is_admitted());
            let charged = charge(state, judged.is_admitted(), all_fit);
            *tally.admitted += u64::from(all_fit);
            *tally.rejected += u64::from(!all_fit);
            ((charged.unwrap_or(judged), subject, all_fit), charged.is_some())
        });
        let (decision, all_fit) = match found {
            Lookup::Found((verdict, subject, all_fit)) => (verdict.dress(ask.cost, subject, seconds), all_fit),
            Lookup::Full if limit.shared.when_full == WhenFull::Refuse => {
                go_on(false);
                limit.count_beyond(false);
                (limit.no_room(counted, now, ask), false)
            }
            Lookup::Full => {
                let mut state = overflow.lock();
                let judged = rule.peek(&state, now_ms, ask);
                let all_fit = go_on(judged.is_admitted());
                let verdict = charge(&mut state, judged.is_admitted(), all_fit).unwrap_or(judged);
                limit.count_beyond(all_fit);
                (verdict.dress(ask.cost, 0, seconds).decided_by(Source::Policy), all_fit)
            }
        };
        decisions[*index] = Some(decision);
        all_fit
    })
}

fn records_all<R: Rule>(_: &R) -> bool {
    R::RECORDS_ALL
}
