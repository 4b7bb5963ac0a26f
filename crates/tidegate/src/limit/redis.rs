//! The limit on Redis: thin over its scripts. `docs/redis-keys.md` has the keys.

mod all;
mod charges;
mod codes;
mod leases;
mod listing;
mod overrides;
mod reply;
mod reservations;
mod scripts;

use std::hash::Hasher as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use compact_str::{CompactString, ToCompactString as _};
use parking_lot::RwLock;
use siphasher::sip::SipHasher24;

pub(super) use self::all::{Part, take_all};
pub(super) use self::charges::{ChargePart, Prepared, charge_all, hours_of, release_all};
use self::reply::{REPLIES, Reply};
pub(super) use self::scripts::LOOK;
use self::scripts::Scripts;
use super::algorithm::{Algorithm, Request};
use super::decision::{Cause, Decision, Quota, Rejected, Source, Wait};
use super::declared::Longest;
use super::receipt::{Receipt, ReceiptText};
use super::usage::MAX_REFUNDS;
use crate::bounds::Cost;
use crate::error::{Error, Result};
use crate::key::{Key, Name, escape};
use crate::store::DeclaredSettings;
use crate::store::redis::{Args, Call, Keys, MARKER_TTL, RedisStore, Script};

/// The index of a limit's overrides, and that of its pending reservations.
const OVERRIDES_BY_END: &str = "overrides";
const PENDING_BY_DEADLINE: &str = "pending";

/// What a limit remembers of a key by ids: records, and when they are forgotten.
const RECORDS: [&str; 2] = ["reservations", "reservations_due"];

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
    shared_args: [Arc<[CompactString]>; 2],
}

impl Description {
    fn new(
        lives: &[CompactString],
        algorithm: &Algorithm,
        root: &str,
        hold: Hold,
        longest: Option<Longest>,
    ) -> Self {
        let shared_args = ["0", "1"].map(|with_overrides| {
            let args = lives.iter().cloned().chain([with_overrides.to_compact_string()]);
            args.chain(describe(algorithm, root, hold, longest)).collect()
        });
        Self { longest, shared_args }
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
        // How much longer than their data keys live, and how long a marker does.
        let lives = [store.clock().slack_ms(), MARKER_TTL.as_millis() as u64];
        let lives = lives.map(|ms| ms.to_compact_string());
        let longest = match &algorithm {
            Algorithm::Sliding(sliding) => Some(Longest::of(sliding, &[])),
            _ => None,
        };
        Self {
            description: RwLock::new(Description::new(&lives, &algorithm, &root, hold, longest)),
            override_args: lives.into_iter().chain([root.to_compact_string()]).collect(),
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
            let lives = &self.override_args[..2];
            *self.description.write() =
                Description::new(lives, &self.algorithm, &self.root, self.hold, longest);
        }
    }

    /// The keys of one item, its override's last if it is to be sent along; and
    /// which window comes first, where the calendar decides.
    fn keys(&self, prefix: &str, key: Key<'_>, with_override: bool) -> (Keys, u64) {
        let (root, text) = (&self.root, key.as_str());
        let one = |family: &str| Keys::from([format!("{prefix}{root}{family}{text}")]);
        let (mut keys, first) = match self.algorithm {
            Algorithm::Sliding(_) => (one("absolute:h:"), 0),
            Algorithm::Suppressed(_) => (one("suppressed:h:"), 0),
            Algorithm::Token(_) => (one("token:"), 0),
            Algorithm::Calendar(calendar) => {
                let first = self.first_window();
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

    /// Which window comes first of those whose keys are sent, where the calendar decides.
    fn first_window(&self) -> u64 {
        match self.algorithm {
            Algorithm::Calendar(calendar) => calendar.window(self.now_ms()).saturating_sub(1),
            _ => 0,
        }
    }

    /// What scripts are told of it alone.
    fn described(&self, with_override: bool) -> Arc<[CompactString]> {
        self.description.read().shared_args[usize::from(with_override)].clone()
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

    /// Whether another limit is on the same.
    pub(super) fn shares_its_store(&self, other: &Self) -> bool {
        self.store.is(&other.store)
    }

    /// A key that stands beside that of `key`.
    fn beside(&self, prefix: &str, family: &str, key: Key<'_>) -> String {
        format!("{prefix}{}{family}:{}", self.root, key.as_str())
    }

    fn learn_skew(&self, store_ms: u64) {
        let ours = self.store.client_clock().now().as_millis();
        self.skew_ms.store(store_ms.wrapping_sub(ours) as i64, Ordering::Relaxed);
    }

    /// Runs a script for one item, whose own arguments depend on which window comes
    /// first. Asks again if the script needs other keys: it has done nothing then.
    async fn run(&self, script: &'static Script, key: Key<'_>, args: impl Fn(u64) -> Args) -> Result<Reply> {
        self.run_with(script, key, &[], &[], args).await
    }

    /// The same, with more keys: those of these families, and indices of the limit's.
    async fn run_with(
        &self,
        script: &'static Script,
        key: Key<'_>,
        families: &[&str],
        indices: &[&str],
        args: impl Fn(u64) -> Args,
    ) -> Result<Reply> {
        let mut attempts = 0;
        loop {
            let place = self.store.place(key.as_str());
            let with_override = self.has_overrides.load(Ordering::Relaxed);
            let (keys, first) = self.keys(&place.prefix, key, with_override);
            let of = |family: &&str| self.beside(&place.prefix, family, key);
            let mut call = Call::new(script)
                .shared_args(self.described(with_override))
                .keys(keys)
                .keys(families.iter().map(of))
                .args(args(first));
            if !indices.is_empty() {
                let indices = indices.iter().map(|index| self.index(&place.prefix, index));
                call = call.shared_keys(indices.collect());
            }
            attempts += 1;
            match Reply::read(&self.store.call(place.partition, call).await?)? {
                Reply::Elsewhere(store_ms) if attempts < 3 => self.learn_skew(store_ms),
                Reply::WantsOverride if attempts < 3 => self.has_overrides.store(true, Ordering::Relaxed),
                reply => return Ok(reply),
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
    fn take_args(&self, request: &Request, first: u64) -> Args {
        let [a, b] = if request.remember { request.terms } else { [0; 2] };
        let numbers = [request.cost, a, b].map(|n| n.to_compact_string());
        match self.algorithm {
            Algorithm::Sliding(_) => numbers.into_iter().take(2).collect(),
            Algorithm::Token(_) => numbers.into(),
            Algorithm::Suppressed(_) => numbers.into_iter().chain([exact(request.draw)]).collect(),
            Algorithm::Calendar(_) => numbers.into_iter().chain([first.to_compact_string()]).collect(),
        }
    }

    pub(super) async fn take(&self, key: Key<'_>, request: Request) -> Result<Decision> {
        let args = |first| self.take_args(&request, first);
        let reply = self.run(&Scripts::of(&self.algorithm).take, key, args).await?;
        self.decision(reply, key, &request)
    }

    pub(super) async fn peek(&self, key: Key<'_>, cost: Cost) -> Result<Decision> {
        let args = |first: u64| [first, cost.get()].into_iter().map(|n| n.to_compact_string()).collect();
        let reply = self.run(&Scripts::of(&self.algorithm).peek, key, args).await?;
        self.decision(reply, key, &self.plain(cost))
    }

    /// A request by the configured terms, where no chance decides.
    fn plain(&self, cost: Cost) -> Request {
        Request { cost: cost.get(), terms: self.algorithm.terms(), remember: false, draw: 0.0 }
    }

    pub(super) async fn refund(&self, key: Key<'_>, receipt: Receipt) -> Result<u64> {
        if receipt.subject != self.subject(key) {
            return Ok(0);
        }
        let args = |first| {
            let numbers = [receipt.bucket, receipt.offset, receipt.cost, MAX_REFUNDS as u64, first];
            numbers.into_iter().map(|n| n.to_compact_string()).collect()
        };
        match self.run(&Scripts::of(&self.algorithm).refund, key, args).await? {
            Reply::Count(given_back) => Ok(given_back),
            other => Err(REPLIES.unexpected(&other)),
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
        let indices = [PENDING_BY_DEADLINE, OVERRIDES_BY_END];
        let args = |first: u64| Args::from_iter([first.to_compact_string(), key.as_str().into()]);
        let script = &Scripts::of(&self.algorithm).reset;
        match self.run_with(script, key, &families, &indices, args).await? {
            Reply::Count(_) => Ok(()),
            other => Err(REPLIES.unexpected(&other)),
        }
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
            other => Err(REPLIES.unexpected(&other)),
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
