//! The limit on Redis: thin over its scripts. `docs/redis-keys.md` has the keys.

mod all;
mod listing;
mod reply;

use std::hash::Hasher as _;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use compact_str::{CompactString, ToCompactString as _};
use parking_lot::RwLock;
use redis::Value;
use siphasher::sip::SipHasher24;

pub(super) use self::all::{Part, take_all};
use self::reply::{Booked, Reply, booked, reply, wanted_retry};
use super::algorithm::{Algorithm, Request};
use super::decision::{Cause, Decision, Quota, Rejected, Source, Wait};
use super::declared::Longest;
use super::lease::{Grant, Report};
use super::listing::member;
use super::options::LimitOptions;
use super::overrides::Override;
use super::receipt::{Receipt, ReceiptText};
use super::reservation::{self, OnLapse, Reservation, Reserve, Settle};
use super::token::MAX_TICKS;
use super::usage::MAX_REFUNDS;
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

/// The index of a limit's overrides, and that of its pending reservations.
const OVERRIDES_BY_END: &str = "overrides";
const PENDING: &str = "pending";

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

/// A limit on Redis.
#[derive(Debug)]
pub(super) struct OnRedis {
    store: RedisStore,
    algorithm: Algorithm,
    /// What its keys start with, after the partition's prefix.
    root: String,
    hold: Hold,
    /// What scripts get to know of it.
    description: RwLock<Description>,
    override_args: Arc<[CompactString]>,
    /// Some key has an override: takes send its key along.
    has_overrides: AtomicBool,
    /// How far the store's clock is ahead of ours, as far as it mattered yet.
    skew_ms: AtomicI64,
}

/// What scripts are told of a limit, which changes when others use other settings.
#[derive(Debug)]
struct Description {
    /// Of a sliding limit: what others count by, if that is longer.
    longest: Option<Longest>,
    /// Without and with keys of overrides.
    shared: [Arc<[CompactString]>; 2],
}

impl Description {
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
            description: RwLock::new(Description::new(&common, &algorithm, &root, hold, longest)),
            override_args: common.iter().cloned().chain([root.to_compact_string()]).collect(),
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
        if self.description.read().longest != longest {
            let common = &self.override_args[..2];
            *self.description.write() =
                Description::new(common, &self.algorithm, &self.root, self.hold, longest);
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

    /// An index of the limit in a partition.
    fn index(&self, prefix: &str, index: &str) -> String {
        format!("{prefix}{}{index}", self.root)
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
        self.run_with(script, key, &[], &[], own).await
    }

    /// The same, with more keys: those of these families, and indices of the limit's.
    async fn run_with(
        &self,
        script: &'static Script,
        key: Key<'_>,
        families: &[&str],
        indices: &[&str],
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
                shared_args: self.description.read().shared[usize::from(with_override)].clone(),
                key: keys.swap_remove(0),
                shared_keys: indices.iter().map(|index| self.index(&place.prefix, index)).collect(),
                items: 1,
                more_keys,
                item_args: own(first),
                now_ms: self.store.set_time_ms(),
            };
            let value = self.store.call(place.partition, call).await?;
            attempts += 1;
            match wanted_retry(&value) {
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
    fn take_args(&self, request: &Request, first: u64) -> Vec<CompactString> {
        let [a, b] = if request.remember { request.terms } else { [0; 2] };
        let numbers = [request.cost, a, b].map(|n| n.to_compact_string());
        match self.algorithm {
            Algorithm::Sliding(_) => numbers[..2].to_vec(),
            Algorithm::Token(_) => numbers.to_vec(),
            Algorithm::Suppressed(_) => numbers.into_iter().chain([exact(request.draw)]).collect(),
            Algorithm::Calendar(_) => numbers.into_iter().chain([first.to_compact_string()]).collect(),
        }
    }

    pub(super) async fn take(&self, key: Key<'_>, request: Request) -> Result<Decision> {
        let value = self.run(&self.scripts().take, key, |first| self.take_args(&request, first)).await?;
        self.decision(reply(&value)?, key, &request)
    }

    pub(super) async fn peek(&self, key: Key<'_>, cost: Cost) -> Result<Decision> {
        let request = Request { cost: cost.get(), terms: self.algorithm.terms(), remember: false, draw: 0.0 };
        let own = |first: u64| [first, cost.get()].iter().map(|n| n.to_compact_string()).collect();
        let value = self.run(&self.scripts().peek, key, own).await?;
        self.decision(reply(&value)?, key, &request)
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

    pub(super) fn receipt_text(&self, key: Key<'_>, receipt: Receipt) -> Option<ReceiptText> {
        let is_of_key = receipt.subject == self.subject(key);
        let secret = self.store.secret().filter(|_| is_of_key)?;
        Some(receipt.to_text(secret, &self.root, key.as_str()))
    }

    pub(super) fn read_receipt(&self, key: Key<'_>, text: &str) -> Result<Receipt> {
        let secret = self.store.secret().ok_or_else(|| {
            Error::unavailable("the store's first partition, which knows receipts, was never reached")
        })?;
        ReceiptText::read(text, secret, &self.root, key.as_str(), self.subject(key))
    }

    pub(super) async fn reset(&self, key: Key<'_>) -> Result<()> {
        let families = ["reservations", "reservations_due", "leases", "override"];
        let indices = [PENDING, OVERRIDES_BY_END];
        let own = |first: u64| vec![first.to_compact_string(), key.as_str().into()];
        match self.run_with(&self.scripts().reset, key, &families, &indices, own).await? {
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
        let value = self.reservation_call(key, id, "reserve", cost.get(), lasting_ms, options).await?;
        match booked(&value)? {
            Booked::Reservation(reservation) => Ok(reservation.into()),
            Booked::OtherCost(other) => Err(reservation::conflict(id, cost.get(), other)),
            Booked::TooMany => Err(reservation::too_many(max)),
            Booked::Unknown => Err(unexpected(&value)),
            Booked::Other(reply) => {
                let request =
                    Request { cost: cost.get(), terms: self.algorithm.terms(), remember: false, draw: 0.0 };
                Ok(Reserve::Refused(self.decision(reply, key, &request)?))
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
        let value = self.reservation_call(key, id, what.as_str(), 0, 0, options).await?;
        match booked(&value)? {
            Booked::Reservation(reservation) => Ok(Some(reservation)),
            Booked::Unknown => Ok(None),
            // After a loss nothing is known, and it is not guessed.
            Booked::Other(Reply::Held(_)) => {
                self.store.meet_loss(key.as_str());
                Err(Error::unavailable("the store lost writes: reservations cannot be settled for a window"))
            }
            _ => Err(unexpected(&value)),
        }
    }

    async fn reservation_call(
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
            let member = [member(key, id)];
            texts.into_iter().chain(numbers.map(|n| n.to_compact_string())).chain(member).collect()
        };
        let families = ["reservations", "reservations_due"];
        self.run_with(&self.scripts().reserve, key, &families, &[PENDING], own).await
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
                    Some(report) => [
                        report.id.clone(),
                        report.spent.to_compact_string(),
                        report.returned.to_compact_string(),
                    ],
                    None => ["", "0", "0"].map(CompactString::from),
                });
            }
            own
        };
        let value = self.run_with(&self.scripts().lease, key, &["leases"], &[], own).await?;
        if let Ok(Reply::Held(held_ms)) = reply(&value) {
            self.store.meet_loss(key.as_str());
            let capacity = self.algorithm.capacity();
            return Ok(Grant {
                granted: 0,
                lasting_ms: 0,
                capacity,
                free: 0,
                reset_after_ms: held_ms,
                dry_ms: held_ms,
                is_held: true,
            });
        }
        match redis::from_redis_value::<Vec<u64>>(value.clone()).as_deref() {
            Ok(&[10, granted, lasting_ms, capacity, free, reset_after_ms, dry_ms]) => {
                Ok(Grant { granted, lasting_ms, capacity, free, reset_after_ms, dry_ms, is_held: false })
            }
            _ => Err(unexpected(&value)),
        }
    }

    /// Sets, ends or tells an override: `new` is how long and what, none to tell.
    async fn override_call(&self, key: Key<'_>, own: [CompactString; 4]) -> Result<Option<Override>> {
        let place = self.store.place(key.as_str());
        let own = own.into_iter().chain([key.as_str().to_compact_string()]);
        let call = Call {
            script: &OVERRIDE,
            shared_args: self.override_args.clone(),
            key: format!("{}{}override:{}", place.prefix, self.root, key.as_str()),
            shared_keys: Arc::new([self.index(&place.prefix, OVERRIDES_BY_END)]),
            items: 1,
            more_keys: Vec::new(),
            item_args: own.collect(),
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

    fn decision(&self, reply: Reply, key: Key<'_>, request: &Request) -> Result<Decision> {
        let window_size_seconds = self.algorithm.window_size_seconds();
        match reply {
            Reply::Verdict(verdict, seconds) => {
                let seconds = seconds.unwrap_or(window_size_seconds);
                Ok(verdict.into_decision(request.cost, self.subject(key), seconds))
            }
            // Nothing is known of the key, and nothing of it counts once the hold
            // is over.
            Reply::Held(held_ms) => {
                self.store.meet_loss(key.as_str());
                let capacity = self.algorithm.capacity_of(request.terms);
                let wait = Wait { retry_after_ms: held_ms, remaining_after_waiting: capacity };
                let wait = (request.cost <= capacity).then_some(wait);
                let quota = Quota { capacity, remaining: 0, reset_after_ms: held_ms, window_size_seconds };
                let (source, cause) = (Source::Policy, Cause::StoreLoss);
                Ok(Decision::Rejected(Rejected { wait, quota, source, cause }))
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

/// A number as text from which the same number is read again.
fn exact(number: f64) -> CompactString {
    compact_str::format_compact!("{number:?}")
}

fn unexpected(reply: &(impl std::fmt::Debug + ?Sized)) -> Error {
    Error::internal(format!("a script of the limit answered {reply:?}"))
}
