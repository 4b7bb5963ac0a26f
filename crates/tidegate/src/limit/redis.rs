//! The limit on Redis: thin over its scripts. `docs/redis-keys.md` has the keys.

use std::hash::Hasher as _;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use compact_str::{CompactString, ToCompactString as _};
use parking_lot::RwLock;
use redis::Value;
use siphasher::sip::SipHasher24;

use super::LimitOptions;
use super::algorithm::{Algorithm, Ask};
use super::decision::{Decision, Quota, Receipt, Rejected, Source, Wait};
use super::declared::Longest;
use super::lease::{Grant, Report};
use super::overrides::Override;
use super::reservation::{self, OnLapse, Reservation, ReservationState, Reserve, Settle};
use super::token::MAX_TICKS;
use super::usage::MAX_REFUNDS;
use super::verdict::{Outcome, Verdict};
use crate::bounds::{Cost, Rate};
use crate::clock;
use crate::error::{Error, Result};
use crate::key::{Key, Name, escape};
use crate::store::DeclaredSettings;
use crate::store::redis::{Call, MARKER_TTL, RedisStore, Script};

const RATE: &str = include_str!("rate.lua");
const RULES: &str = include_str!("rules.lua");
const SLIDING_LUA: &str = include_str!("sliding.lua");
const SUPPRESSED_LUA: &str = include_str!("suppressed.lua");
const TOKEN_LUA: &str = include_str!("token.lua");
const CALENDAR_LUA: &str = include_str!("calendar.lua");

/// The scripts of one algorithm.
struct Scripts {
    take: Script,
    peek: Script,
    refund: Script,
    reset: Script,
    reserve: Script,
    lease: Script,
}

impl Scripts {
    fn new(name: &str, algorithm: &str) -> Self {
        let alias = format!("local algorithm = {name}");
        let script = |operation| Script::new(&[RATE, algorithm, RULES, &alias, operation]);
        Self {
            take: script(include_str!("take.lua")),
            peek: script(include_str!("peek.lua")),
            refund: script(include_str!("refund.lua")),
            reset: script(include_str!("reset.lua")),
            reserve: script(include_str!("reserve.lua")),
            lease: script(include_str!("lease.lua")),
        }
    }
}

static SLIDING: LazyLock<Scripts> = LazyLock::new(|| Scripts::new("sliding", SLIDING_LUA));
static SUPPRESSED: LazyLock<Scripts> = LazyLock::new(|| Scripts::new("suppressed", SUPPRESSED_LUA));
static TOKEN: LazyLock<Scripts> = LazyLock::new(|| Scripts::new("token", TOKEN_LUA));
static CALENDAR: LazyLock<Scripts> = LazyLock::new(|| Scripts::new("calendar", CALENDAR_LUA));
static OVERRIDE: LazyLock<Script> = LazyLock::new(|| Script::new(&[RATE, include_str!("override.lua")]));
static TAKE_ALL: LazyLock<Script> = LazyLock::new(|| {
    let algorithms = [RATE, SLIDING_LUA, SUPPRESSED_LUA, TOKEN_LUA, CALENDAR_LUA, RULES];
    Script::new(&[&algorithms[..], &[include_str!("take_all.lua")]].concat())
});

/// A limit on Redis.
#[derive(Debug)]
pub(super) struct OnRedis {
    store: RedisStore,
    algorithm: Algorithm,
    /// What its keys start with, after the partition's prefix.
    root: String,
    hold: Hold,
    /// What scripts are told.
    told: RwLock<Told>,
    override_shared: Arc<[CompactString]>,
    /// Some key has an override: takes send its key along.
    has_overrides: AtomicBool,
    /// How far the store's clock is ahead of ours, as far as it mattered yet.
    skew_ms: AtomicI64,
}

/// What scripts are told of a limit, which changes when others use other settings.
#[derive(Debug)]
struct Told {
    /// Of a sliding limit: what others count by, if that is longer.
    longest: Option<Longest>,
    /// Without and with keys of overrides.
    shared: [Arc<[CompactString]>; 2],
}

impl Told {
    fn new(
        common: &[CompactString],
        algorithm: &Algorithm,
        root: &str,
        hold: Hold,
        longest: Option<Longest>,
    ) -> Self {
        let shared = ["0", "1"].map(|with_overrides| {
            let shared = common.iter().cloned().chain([with_overrides.to_compact_string()]);
            shared.chain(describe(algorithm, root, hold, longest)).collect()
        });
        Self { longest, shared }
    }
}

/// Whether a limit refuses after a loss, and for how much longer than a window: as long
/// as permits may be spent that were set aside before it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hold(pub(super) Option<Duration>);

/// What a script says of one item.
enum Reply {
    /// What was decided, and the window in seconds if it is not the limit's own.
    Verdict(Verdict, Option<u64>),
    /// Refused after a loss, for so long.
    Held(u64),
    /// The store's time: ours is off.
    Elsewhere(u64),
    /// Send the override's key along.
    WantsOverride,
}

impl OnRedis {
    pub(super) fn new(
        store: RedisStore,
        name: &Name,
        prefix: Key<'_>,
        algorithm: Algorithm,
        hold: Hold,
    ) -> Self {
        let root = format!("{}:{}:", escape(prefix.as_str()), name.as_str());
        let common = [store.clock().slack_ms(), MARKER_TTL.as_millis() as u64];
        let common: Vec<_> = common.iter().map(|n| n.to_compact_string()).collect();
        let longest = match &algorithm {
            Algorithm::Sliding(sliding) => Some(Longest::of(sliding, &[])),
            _ => None,
        };
        Self {
            told: RwLock::new(Told::new(&common, &algorithm, &root, hold, longest)),
            override_shared: common.iter().cloned().chain([root.to_compact_string()]).collect(),
            store,
            algorithm,
            root,
            hold,
            has_overrides: AtomicBool::new(false),
            skew_ms: AtomicI64::new(0),
        }
    }

    /// Takes into account that others use these settings.
    pub(super) fn respect(&self, others: &[DeclaredSettings]) {
        let Algorithm::Sliding(sliding) = &self.algorithm else { return };
        let longest = Some(Longest::of(sliding, others));
        if self.told.read().longest != longest {
            let common = &self.override_shared[..2];
            *self.told.write() = Told::new(common, &self.algorithm, &self.root, self.hold, longest);
        }
    }

    fn scripts(&self) -> &'static Scripts {
        match self.algorithm {
            Algorithm::Sliding(_) => &SLIDING,
            Algorithm::Suppressed(_) => &SUPPRESSED,
            Algorithm::Token(_) => &TOKEN,
            Algorithm::Calendar(_) => &CALENDAR,
        }
    }

    /// The keys of one item, its override's last if it is to be sent along; and
    /// which window comes first, where the calendar decides.
    fn keys(&self, prefix: &str, key: Key<'_>, with_override: bool) -> (Vec<String>, u64) {
        let (root, text) = (&self.root, key.as_str());
        let one = |family: &str| vec![format!("{prefix}{root}{family}{text}")];
        let (mut keys, first) = match self.algorithm {
            Algorithm::Sliding(_) => (one("absolute:h:"), 0),
            Algorithm::Suppressed(_) => (one("suppressed:h:"), 0),
            Algorithm::Token(_) => (one("token:"), 0),
            Algorithm::Calendar(calendar) => {
                let first = calendar.window(self.now_ms()).saturating_sub(1);
                let keys = (first..first + 3).flat_map(|window| {
                    let label = calendar.period().label(window);
                    let subject = if text.is_empty() { String::new() } else { format!(":{text}") };
                    [
                        format!("{prefix}{root}{label}{subject}"),
                        format!("{prefix}{root}beside:{label}:{text}"),
                    ]
                });
                (keys.collect(), first)
            }
        };
        if with_override {
            keys.push(format!("{prefix}{root}override:{text}"));
        }
        (keys, first)
    }

    /// The store's time, as far as we know it.
    fn now_ms(&self) -> u64 {
        let ours = self.store.client_clock().now().as_millis();
        ours.saturating_add_signed(self.skew_ms.load(Ordering::Relaxed))
    }

    /// Whether this is the store.
    pub(super) fn is_on(&self, store: &RedisStore) -> bool {
        self.store.is(store)
    }

    fn learn_skew(&self, store_ms: u64) {
        let ours = self.store.client_clock().now().as_millis();
        self.skew_ms.store(store_ms.wrapping_sub(ours) as i64, Ordering::Relaxed);
    }

    /// Runs a script for one item, whose own arguments depend on which window comes
    /// first. Asks again if the script needs other keys: it has done nothing then.
    async fn run(
        &self,
        script: &'static Script,
        key: Key<'_>,
        own: impl Fn(u64) -> Vec<CompactString>,
    ) -> Result<Value> {
        self.run_with(script, key, &[], own).await
    }

    /// The same, with more keys: those of these families.
    async fn run_with(
        &self,
        script: &'static Script,
        key: Key<'_>,
        families: &[&str],
        own: impl Fn(u64) -> Vec<CompactString>,
    ) -> Result<Value> {
        let mut attempts = 0;
        loop {
            let place = self.store.place(key.as_str());
            let with_override = self.has_overrides.load(Ordering::Relaxed);
            let (mut keys, first) = self.keys(&place.prefix, key, with_override);
            let of = |family: &&str| format!("{}{}{family}:{}", place.prefix, self.root, key.as_str());
            keys.extend(families.iter().map(of));
            let more_keys = keys.split_off(1);
            let call = Call {
                script,
                shared: self.told.read().shared[usize::from(with_override)].clone(),
                key: keys.swap_remove(0),
                common: Arc::default(),
                items: 1,
                more_keys,
                own: own(first),
                now_ms: self.store.set_time_ms(),
            };
            let value = self.store.call(place.partition, call).await?;
            attempts += 1;
            match asks_again(&value) {
                Some(Reply::Elsewhere(store_ms)) if attempts < 3 => self.learn_skew(store_ms),
                Some(_) if attempts < 3 => self.has_overrides.store(true, Ordering::Relaxed),
                _ => return Ok(value),
            }
        }
    }

    /// Tells keys apart, and those of one limit from those of another: the same
    /// on every node.
    fn subject(&self, key: Key<'_>) -> u32 {
        let mut hasher = SipHasher24::new_with_key(b"tidegate-receipt");
        hasher.write(self.root.as_bytes());
        hasher.write(key.as_str().as_bytes());
        hasher.finish() as u32
    }

    /// The arguments of a take.
    fn asked(&self, ask: &Ask, first: u64) -> Vec<CompactString> {
        let [a, b] = if ask.remember { ask.terms } else { [0; 2] };
        let numbers = [ask.cost, a, b].map(|n| n.to_compact_string());
        match self.algorithm {
            Algorithm::Sliding(_) => numbers[..2].to_vec(),
            Algorithm::Token(_) => numbers.to_vec(),
            Algorithm::Suppressed(_) => numbers.into_iter().chain([exact(ask.draw)]).collect(),
            Algorithm::Calendar(_) => numbers.into_iter().chain([first.to_compact_string()]).collect(),
        }
    }

    pub(super) async fn take(&self, key: Key<'_>, ask: Ask) -> Result<Decision> {
        let value = self.run(&self.scripts().take, key, |first| self.asked(&ask, first)).await?;
        self.decision(reply(&value)?, key, &ask)
    }

    pub(super) async fn peek(&self, key: Key<'_>, cost: Cost) -> Result<Decision> {
        let ask = Ask { cost: cost.get(), terms: self.algorithm.terms(), remember: false, draw: 0.0 };
        let own = |first: u64| [first, cost.get()].iter().map(|n| n.to_compact_string()).collect();
        let value = self.run(&self.scripts().peek, key, own).await?;
        self.decision(reply(&value)?, key, &ask)
    }

    pub(super) async fn refund(&self, key: Key<'_>, receipt: Receipt) -> Result<u64> {
        if receipt.subject != self.subject(key) {
            return Ok(0);
        }
        let own = |first| {
            let numbers = [receipt.bucket, receipt.offset, receipt.cost, MAX_REFUNDS as u64, first];
            numbers.iter().map(|n| n.to_compact_string()).collect()
        };
        match self.run(&self.scripts().refund, key, own).await? {
            Value::Int(given_back) => Ok(given_back as u64),
            other => Err(unexpected(&other)),
        }
    }

    pub(super) async fn reset(&self, key: Key<'_>) -> Result<()> {
        let families = ["reservations", "reservations_due", "leases"];
        let own = |first: u64| vec![first.to_compact_string()];
        match self.run_with(&self.scripts().reset, key, &families, own).await? {
            Value::Int(_) => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    pub(super) async fn reserve(
        &self,
        key: Key<'_>,
        id: &str,
        cost: Cost,
        lasting: Duration,
        options: &LimitOptions,
    ) -> Result<Reserve> {
        let lasting_ms = reservation::check(id, lasting, self.algorithm.holding_ms()?)?;
        let max = options.max_reservations;
        let value = self.reservations(key, id, "reserve", cost.get(), lasting_ms, options).await?;
        match booked(&value)? {
            Booked::Reservation(reservation) => Ok(reservation.into()),
            Booked::OtherCost(other) => Err(reservation::conflict(id, cost.get(), other)),
            Booked::TooMany => Err(reservation::too_many(max)),
            Booked::Unknown => Err(unexpected(&value)),
            Booked::Other(reply) => {
                let ask = Ask { cost: cost.get(), terms: self.algorithm.terms(), remember: false, draw: 0.0 };
                Ok(Reserve::Refused(self.decision(reply, key, &ask)?))
            }
        }
    }

    pub(super) async fn settle(
        &self,
        key: Key<'_>,
        id: &str,
        what: Settle,
        options: &LimitOptions,
    ) -> Result<Option<Reservation>> {
        reservation::check_id(id)?;
        self.algorithm.holding_ms()?;
        let value = self.reservations(key, id, what.as_str(), 0, 0, options).await?;
        match booked(&value)? {
            Booked::Reservation(reservation) => Ok(Some(reservation)),
            Booked::Unknown => Ok(None),
            // After a loss nothing is known, and it is not guessed.
            Booked::Other(Reply::Held(_)) => {
                Err(Error::unavailable("the store lost writes: reservations cannot be settled for a window"))
            }
            _ => Err(unexpected(&value)),
        }
    }

    async fn reservations(
        &self,
        key: Key<'_>,
        id: &str,
        what: &str,
        cost: u64,
        lasting_ms: u64,
        options: &LimitOptions,
    ) -> Result<Value> {
        let gives_back = u64::from(options.on_lapse == OnLapse::GiveBack);
        let remembered_ms = reservation::remembered_ms(self.algorithm.holding_ms()?);
        let own = |first: u64| {
            let numbers =
                [first, cost, lasting_ms, gives_back, options.max_reservations as u64, remembered_ms];
            let texts = [CompactString::from(what), CompactString::from(id)];
            texts.into_iter().chain(numbers.map(|n| n.to_compact_string())).collect()
        };
        self.run_with(&self.scripts().reserve, key, &["reservations", "reservations_due"], own).await
    }

    /// The clock that a lease ends by: a test's own, if it set one.
    pub(super) fn since_boot(&self) -> Duration {
        match self.store.set_time_ms() {
            Some(now_ms) => Duration::from_millis(now_ms),
            None => clock::since_boot(),
        }
    }

    /// Asks for a block of `wanted` permits, and tells what became of up to two.
    pub(super) async fn lease(
        &self,
        key: Key<'_>,
        id: &str,
        wanted: u64,
        lasting: Duration,
        reports: &[Report],
    ) -> Result<Grant> {
        let own = |first: u64| {
            let mut own = vec![first.to_compact_string(), id.into(), wanted.to_compact_string()];
            own.push(lasting.as_millis().to_compact_string());
            for at in 0..2 {
                own.extend(match reports.get(at) {
                    Some(told) => {
                        [told.id.clone(), told.spent.to_compact_string(), told.returned.to_compact_string()]
                    }
                    None => ["", "0", "0"].map(CompactString::from),
                });
            }
            own
        };
        let value = self.run_with(&self.scripts().lease, key, &["leases"], own).await?;
        if let Ok(Reply::Held(held_ms)) = reply(&value) {
            let capacity = self.algorithm.capacity();
            let (granted, lasting_ms, free) = (0, 0, 0);
            return Ok(Grant {
                granted,
                lasting_ms,
                capacity,
                free,
                reset_after_ms: held_ms,
                dry_ms: held_ms,
            });
        }
        match redis::from_redis_value::<Vec<u64>>(value.clone()).as_deref() {
            Ok(&[10, granted, lasting_ms, capacity, free, reset_after_ms, dry_ms]) => {
                Ok(Grant { granted, lasting_ms, capacity, free, reset_after_ms, dry_ms })
            }
            _ => Err(unexpected(&value)),
        }
    }

    /// Sets, ends or tells an override: `new` is how long and what, none to tell.
    async fn override_call(&self, key: Key<'_>, own: [CompactString; 4]) -> Result<Option<Override>> {
        let place = self.store.place(key.as_str());
        let call = Call {
            script: &OVERRIDE,
            shared: self.override_shared.clone(),
            key: format!("{}{}override:{}", place.prefix, self.root, key.as_str()),
            common: Arc::default(),
            items: 1,
            more_keys: Vec::new(),
            own: own.to_vec(),
            now_ms: self.store.set_time_ms(),
        };
        let value = self.store.call(place.partition, call).await?;
        let (left_ms, rate): (u64, String) =
            redis::from_redis_value(value).map_err(|error| unexpected(&error))?;
        if left_ms == 0 {
            return Ok(None);
        }
        let rate: Rate = rate.parse()?;
        Ok(Some(Override { rate, lasting: Duration::from_millis(left_ms) }))
    }

    pub(super) async fn set_override(&self, key: Key<'_>, new: Override) -> Result<Override> {
        // One that the limit cannot have now is refused now.
        self.algorithm.terms_of(new.rate)?;
        let (permit, drain) = new.rate.per_microsecond_within(MAX_TICKS);
        let [lasting, permit, drain] =
            [new.lasting_ms(), permit, drain].map(|number| number.to_compact_string());
        let own = [lasting, new.rate.to_compact_string(), permit, drain];
        self.has_overrides.store(true, Ordering::Relaxed);
        Ok(self.override_call(key, own).await?.unwrap_or(new))
    }

    pub(super) async fn get_override(&self, key: Key<'_>) -> Result<Option<Override>> {
        self.override_call(key, ["", "", "", ""].map(CompactString::from)).await
    }

    pub(super) async fn clear_override(&self, key: Key<'_>) -> Result<()> {
        self.override_call(key, ["0", "", "", ""].map(CompactString::from)).await.map(|_| ())
    }

    fn decision(&self, reply: Reply, key: Key<'_>, ask: &Ask) -> Result<Decision> {
        let window_size_seconds = self.algorithm.window_size_seconds();
        match reply {
            Reply::Verdict(verdict, seconds) => {
                let seconds = seconds.unwrap_or(window_size_seconds);
                Ok(verdict.dress(ask.cost, self.subject(key), seconds))
            }
            // Nothing is known of the key, and nothing of it counts once the hold
            // is over.
            Reply::Held(held_ms) => {
                let capacity = self.algorithm.capacity_of(ask.terms);
                let wait = Wait { retry_after_ms: held_ms, remaining_after_waiting: capacity };
                let wait = (ask.cost <= capacity).then_some(wait);
                let quota = Quota { capacity, remaining: 0, reset_after_ms: held_ms, window_size_seconds };
                Ok(Decision::Rejected(Rejected { wait, quota, source: Source::Policy }))
            }
            Reply::Elsewhere(store_ms) => Err(Error::internal(format!(
                "the store's clock shows {store_ms}, ours is off and the difference changes"
            ))),
            Reply::WantsOverride => Err(Error::internal("a script asked for an override's key twice")),
        }
    }
}

/// What a script is told of a limit.
fn describe(algorithm: &Algorithm, root: &str, hold: Hold, longest: Option<Longest>) -> Vec<CompactString> {
    let hold = hold.0.map_or("no".into(), |longer| longer.as_millis().to_compact_string());
    let numbers: &[u64] = match algorithm {
        Algorithm::Sliding(sliding) => &sliding.numbers(),
        Algorithm::Suppressed(suppressed) => &suppressed.numbers(),
        Algorithm::Token(token) => &token.numbers(),
        Algorithm::Calendar(calendar) => &calendar.numbers(),
    };
    let terms = algorithm.terms();
    let longest = longest.map(|it| [it.window_ms, it.capacity]);
    let numbers = terms.iter().chain(numbers).chain(longest.iter().flatten()).map(|n| n.to_compact_string());
    [hold, root.to_compact_string()].into_iter().chain(numbers).collect()
}

/// One limit of a take from several.
pub(super) struct Part<'a> {
    pub(super) limit: &'a OnRedis,
    pub(super) ask: Ask,
}

/// What a script is told of several limits.
fn describe_all(parts: &[Part<'_>], store: &RedisStore, with_overrides: bool) -> Arc<[CompactString]> {
    let common = [store.clock().slack_ms(), MARKER_TTL.as_millis() as u64, u64::from(with_overrides)];
    let common = common.into_iter().chain([parts.len() as u64]).map(|n| n.to_compact_string());
    let limits = parts.iter().flat_map(|Part { limit, .. }| {
        let name = match limit.algorithm {
            Algorithm::Suppressed(_) => "suppressed",
            other => other.name(),
        };
        let longest = limit.told.read().longest;
        let described = describe(&limit.algorithm, &limit.root, limit.hold, longest);
        // Beside its numbers it is described by four more.
        [name.into(), (described.len() - 4).to_compact_string()].into_iter().chain(described)
    });
    common.chain(limits).collect()
}

/// Charges `key` under all of `parts`, or under none; the decisions by their place,
/// or only that of one that refuses for all.
pub(super) async fn take_all(parts: &[Part<'_>], key: Key<'_>) -> Result<Vec<(usize, Decision)>> {
    let Some(Part { limit: one, .. }) = parts.first() else { return Ok(Vec::new()) };
    let mut attempts = 0;
    loop {
        let place = one.store.place(key.as_str());
        let with_override = parts.iter().any(|part| part.limit.has_overrides.load(Ordering::Relaxed));
        let (mut keys, mut own) = (Vec::new(), Vec::new());
        for Part { limit, ask } in parts {
            let (its, first) = limit.keys(&place.prefix, key, with_override);
            keys.extend(its);
            let [a, b] = if ask.remember { ask.terms } else { [0; 2] };
            own.extend([ask.cost, a, b].map(|n| n.to_compact_string()));
            own.push(if limit.algorithm.draws() { exact(ask.draw) } else { first.to_compact_string() });
        }
        let more_keys = keys.split_off(1);
        let call = Call {
            script: &TAKE_ALL,
            shared: describe_all(parts, &one.store, with_override),
            key: keys.swap_remove(0),
            common: Arc::default(),
            items: 1,
            more_keys,
            own,
            now_ms: one.store.set_time_ms(),
        };
        let value = one.store.call(place.partition, call).await?;
        attempts += 1;
        let Value::Array(items) = &value else { return Err(unexpected(&value)) };
        let Some((Value::Int(head), answers)) = items.split_first() else { return Err(unexpected(&value)) };
        match (head, answers) {
            // All were judged.
            (-2 | -1, answers) if answers.len() == parts.len() => {
                let decide = |(index, (part, it)): (usize, (&Part<'_>, &Value))| {
                    Ok((index, part.limit.decision(reply(it)?, key, &part.ask)?))
                };
                return parts.iter().zip(answers).enumerate().map(decide).collect();
            }
            // One refuses everything after a loss; the others were not asked.
            (index @ 1.., [held]) => {
                let index = *index as usize - 1;
                let part = parts.get(index).ok_or_else(|| unexpected(&value))?;
                return Ok(vec![(index, part.limit.decision(reply(held)?, key, &part.ask)?)]);
            }
            (0, [other]) if attempts < 4 => match reply(other)? {
                Reply::Elsewhere(store_ms) => {
                    parts.iter().for_each(|part| part.limit.learn_skew(store_ms));
                }
                _ => parts.iter().for_each(|part| part.limit.has_overrides.store(true, Ordering::Relaxed)),
            },
            _ => return Err(unexpected(&value)),
        }
    }
}

/// What a script says of a reservation.
enum Booked {
    Reservation(Reservation),
    /// The id was used for this cost.
    OtherCost(u64),
    TooMany,
    Unknown,
    Other(Reply),
}

fn booked(value: &Value) -> Result<Booked> {
    let Value::Array(items) = value else { return Err(unexpected(value)) };
    let number = |at: usize| match items.get(at) {
        Some(Value::Int(number)) => Ok(*number as u64),
        _ => Err(unexpected(value)),
    };
    match (number(0)?, items.len()) {
        (6, 5) => {
            let state = match number(2)? {
                0 => ReservationState::Pending,
                1 => ReservationState::Committed,
                2 => ReservationState::Released,
                3 => ReservationState::Lapsed,
                _ => return Err(unexpected(value)),
            };
            let (cost, expires_in_ms, is_new) = (number(1)?, number(3)?, number(4)? == 1);
            Ok(Booked::Reservation(Reservation { cost, state, expires_in_ms, is_new }))
        }
        (7, 2) => Ok(Booked::OtherCost(number(1)?)),
        (8, 1) => Ok(Booked::TooMany),
        (9, 1) => Ok(Booked::Unknown),
        _ => reply(value).map(Booked::Other),
    }
}

/// Whether a script has done nothing, for want of other keys.
fn asks_again(value: &Value) -> Option<Reply> {
    let Value::Array(items) = value else { return None };
    match items[..] {
        [Value::Int(3), Value::Int(store_ms)] => Some(Reply::Elsewhere(store_ms as u64)),
        [Value::Int(4)] => Some(Reply::WantsOverride),
        _ => None,
    }
}

fn reply(value: &Value) -> Result<Reply> {
    let Value::Array(items) = value else { return Err(unexpected(value)) };
    let mut numbers = [0_u64; 7];
    if items.len() > numbers.len() {
        return Err(unexpected(value));
    }
    for (number, item) in numbers.iter_mut().zip(items) {
        *number = match item {
            Value::Int(it) => *it as u64,
            // The one number that is not whole, as it is in memory.
            Value::BulkString(packed) => {
                let bits = packed.first_chunk().filter(|_| packed.len() == 8);
                u64::from_le_bytes(*bits.ok_or_else(|| unexpected(value))?)
            }
            _ => return Err(unexpected(value)),
        };
    }
    let [code, capacity, remaining, reset_after_ms, a, b, _] = numbers;
    let seconds = matches!(items.len(), 5 | 7).then(|| numbers[items.len() - 1]);
    let verdict =
        |outcome| Ok(Reply::Verdict(Verdict { outcome, capacity, remaining, reset_after_ms, a, b }, seconds));
    match (code, items.len()) {
        (1, 6 | 7) => verdict(Outcome::Admitted),
        (1, 4 | 5) => verdict(Outcome::Fits),
        (0, 6 | 7) if a as i64 == -1 => verdict(Outcome::NeverFits),
        (0, 6 | 7) => verdict(Outcome::Rejected),
        (2, 2) => Ok(Reply::Held(capacity)),
        (3, 2) => Ok(Reply::Elsewhere(capacity)),
        (4, 1) => Ok(Reply::WantsOverride),
        (5, 6) => verdict(if b == 1 { Outcome::LetThrough } else { Outcome::HeldBack }),
        _ => Err(unexpected(value)),
    }
}

/// A number as text from which the same number is read again.
fn exact(number: f64) -> CompactString {
    compact_str::format_compact!("{number:?}")
}

fn unexpected(reply: &(impl std::fmt::Debug + ?Sized)) -> Error {
    Error::internal(format!("a script of the limit answered {reply:?}"))
}
