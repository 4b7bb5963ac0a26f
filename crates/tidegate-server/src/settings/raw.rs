//! What can be set, each setting once: from here come the names that a file, the
//! environment and `--set` know, and the list in `--help`.
//!
//! Everything is optional here. What is absent gets its default, and what
//! depends on two settings is checked, when all sources have spoken.

use std::collections::BTreeMap;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use tidegate::limit::{OnLapse, Period, WhenFull};
use tidegate::session::Reap;
use tidegate::store::Declarations;
use tidegate::{AfterLoss, ClosedStatus, Cost, Name, Rate, Share};

use super::parse::{
    AlgorithmName, HardLimitFactor, OutageName, PageWhenFull, Parse, Prefix, SafetyBuffer, SpikeRatio,
};
use super::{Listen, LogFormat, Readiness, StoreUrl};

/// Why a setting could not be set.
#[derive(Debug)]
pub(crate) enum Refused {
    /// There is none of that name.
    Unknown,
    /// There are several below that name.
    Group,
    /// The value is not allowed; the text says what is.
    Value(String),
}

/// A setting, or a group of them.
pub(crate) trait Node {
    /// Sets what is at `path`.
    fn set(&mut self, path: &[&str], value: &str) -> Result<(), Refused>;

    /// Adds what there is below `path`, with what it is for.
    fn list(path: &str, about: &'static str, to: &mut Vec<(String, &'static str)>);
}

/// A single setting.
#[derive(Debug)]
pub(crate) struct Leaf<T>(pub(crate) Option<T>);

impl<T> Default for Leaf<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T> Leaf<T> {
    pub(crate) fn is_set(&self) -> bool {
        self.0.is_some()
    }

    pub(crate) fn or(self, default: T) -> T {
        self.0.unwrap_or(default)
    }
}

impl<T: Parse> Node for Leaf<T> {
    fn set(&mut self, path: &[&str], value: &str) -> Result<(), Refused> {
        if !path.is_empty() {
            return Err(Refused::Unknown);
        }
        self.0 = Some(T::parse(value).map_err(Refused::Value)?);
        Ok(())
    }

    fn list(path: &str, about: &'static str, to: &mut Vec<(String, &'static str)>) {
        to.push((path.to_owned(), about));
    }
}

impl<'de, T: Parse> Deserialize<'de> for Leaf<T> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // As text whatever it looks like: `rate: 5` and `rate: 5/s` are both rates.
        match Option::<String>::deserialize(deserializer)? {
            None => Ok(Self(None)),
            Some(text) => T::parse(&text).map(|value| Self(Some(value))).map_err(|refused| {
                use serde::de::Error as _;
                D::Error::custom(refused)
            }),
        }
    }
}

impl<T: Node + Default> Node for BTreeMap<String, T> {
    fn set(&mut self, path: &[&str], value: &str) -> Result<(), Refused> {
        let Some((name, rest)) = path.split_first() else { return Err(Refused::Group) };
        if let Some(node) = self.get_mut(*name) {
            return node.set(rest, value);
        }
        // Kept only if it was set: a misspelt setting leaves no empty limit.
        let mut node = T::default();
        node.set(rest, value)?;
        self.insert((*name).to_owned(), node);
        Ok(())
    }

    fn list(path: &str, about: &'static str, to: &mut Vec<(String, &'static str)>) {
        T::list(&format!("{path}.NAME"), about, to);
    }
}

macro_rules! group {
    ($name:ident { $(#[doc = $about:literal] $field:ident: $type:ty,)* }) => {
        #[derive(Debug, Default, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub(crate) struct $name {
            $(#[doc = $about] pub(crate) $field: $type,)*
        }

        impl Node for $name {
            fn set(&mut self, path: &[&str], value: &str) -> Result<(), Refused> {
                let Some((first, rest)) = path.split_first() else { return Err(Refused::Group) };
                $(if *first == stringify!($field) {
                    return self.$field.set(rest, value);
                })*
                Err(Refused::Unknown)
            }

            fn list(path: &str, _: &'static str, to: &mut Vec<(String, &'static str)>) {
                let dot = if path.is_empty() { "" } else { "." };
                $(<$type as Node>::list(
                    &format!("{path}{dot}{}", stringify!($field)),
                    $about.trim_ascii(),
                    to,
                );)*
            }
        }
    };
}

group!(RawSettings {
    /// address to listen on; port 0 picks a free one (127.0.0.1:8080)
    listen: Leaf<Listen>,
    /// where state is kept
    store: RawStore,
    /// a limit or space that the store declares with other settings: replace or strict (replace)
    declarations: Leaf<Declarations>,
    /// the limits by name; one called `api` if there are none
    limits: BTreeMap<String, RawLimit>,
    /// the spaces of hot pages by name; one called `main` if there are none
    hot: BTreeMap<String, RawHot>,
    /// the spaces of sessions by name; one called `main` if there are none
    sessions: BTreeMap<String, RawSessions>,
    /// bounds on connections and requests
    http: RawHttp,
    /// what is said on standard error
    log: RawLog,
});

group!(RawStore {
    /// memory:, redis://, rediss://, redis-cluster:// or rediss-cluster:// (memory:)
    url: Leaf<StoreUrl>,
    /// prefix of every Redis key (none)
    namespace: Leaf<Name>,
    /// how many partitions keys are spread over (1, in a cluster 64)
    partitions: Leaf<NonZeroU32>,
    /// how long a call may take (100ms)
    deadline: Leaf<Duration>,
    /// how long connecting may take (500ms)
    connect_timeout: Leaf<Duration>,
    /// send small packets at once (true)
    nodelay: Leaf<bool>,
    /// idle time of a connection after which the system looks whether the other side is there; 0s: never (30s)
    keepalive: Leaf<Duration>,
    /// how often the store is asked whether it is still there (5s)
    check_interval: Leaf<Duration>,
    /// PEM file of the authority to trust for rediss:// (the system's)
    tls_ca: Leaf<PathBuf>,
});

group!(RawLimit {
    /// how to count: sliding, suppressed, smooth, token or calendar (sliding)
    algorithm: Leaf<AlgorithmName>,
    /// permits per /s, /m, /h or /d (5/s)
    rate: Leaf<Rate>,
    /// length of the window, whole seconds (60s)
    window: Leaf<Duration>,
    /// width of a bucket (a hundredth of the window)
    coalesce: Leaf<Duration>,
    /// suppressed: above this times the capacity none pass, 1 to 1000 (1)
    hard_limit_factor: Leaf<HardLimitFactor>,
    /// token: permits at once (the number in the rate: 5/s has 5)
    burst: Leaf<Cost>,
    /// calendar: permits per period, the buffer included (5000)
    limit: Leaf<Cost>,
    /// calendar: minute, hour or day, in UTC (hour)
    period: Leaf<Period>,
    /// calendar: permits that are never given out, fewer than the limit (25)
    safety_buffer: Leaf<SafetyBuffer>,
    /// calendar: how long Redis keeps a counter, at least to its window's end (2h)
    counter_ttl: Leaf<Duration>,
    /// while the store is away: open, closed or local (open)
    outage: Leaf<OutageName>,
    /// status of a refusal that is the store's doing (`outage: closed`, `after_loss: hold`): 429 or 503 (429)
    closed_status: Leaf<ClosedStatus>,
    /// share of the limit for `outage: local`, above 0 up to 1
    local_share: Leaf<Share>,
    /// number of servers, for local_share (an equal share) and lease (8)
    nodes: Leaf<NonZeroU32>,
    /// after the store lost charges: admit or hold (admit)
    after_loss: Leaf<AfterLoss>,
    /// most keys held in this process (1000000)
    max_keys: Leaf<NonZeroUsize>,
    /// what a key beyond max_keys gets: refuse or share (refuse)
    when_full: Leaf<WhenFull>,
    /// what becomes of a reservation at its deadline: spend or give_back (spend)
    on_lapse: Leaf<OnLapse>,
    /// most ids of reservations that a key remembers (10000)
    max_reservations: Leaf<NonZeroUsize>,
    /// spend permits in this process, in blocks taken from Redis (false)
    lease: Leaf<bool>,
    /// how long a block may be held (a tenth of the window, at most 5s)
    lease_duration: Leaf<Duration>,
    /// what its Redis keys start with (trypema; token: tidegate, calendar: courtlistener)
    prefix: Leaf<Prefix>,
});

group!(RawHot {
    /// most hot pages at a time (1000)
    max_tracked: Leaf<NonZeroUsize>,
    /// edits within the window that make a hot page trending (5)
    promotion_threshold: Leaf<NonZeroU32>,
    /// for how long an edit counts, whole seconds (1h)
    window_duration: Leaf<Duration>,
    /// most edits kept of a hot page, up to 4000: the newest (100)
    max_members_per_page: Leaf<NonZeroUsize>,
    /// edits within ten minutes that make a page hot, up to 100 (2)
    hot_threshold: Leaf<NonZeroU32>,
    /// how often pages whose window is empty are looked for (5m)
    cleanup_interval: Leaf<Duration>,
    /// what a page beyond max_tracked meets: reject or replace_coldest (reject)
    when_full: Leaf<PageWhenFull>,
    /// how many times faster than before makes a page spiking, 1 to 1000 (3)
    spike_ratio: Leaf<SpikeRatio>,
    /// edits within five minutes below which no page is spiking (5)
    spike_minimum: Leaf<NonZeroU32>,
    /// most pages that are not hot whose edits are remembered (100000)
    max_activity: Leaf<NonZeroUsize>,
    /// most bytes that a space in this process uses (268435456)
    max_bytes: Leaf<NonZeroUsize>,
    /// over how many partitions pages are spread, up to 64; each has its part of the bounds (1)
    partitions: Leaf<NonZeroU32>,
});

group!(RawSessions {
    /// how long a session may be without holders before it is an orphan (30s)
    grace: Leaf<Duration>,
    /// how long a holder holds after its last heartbeat (45s)
    holder_lease: Leaf<Duration>,
    /// how long after the last sign of a holder a session can be resumed (24h)
    session_ttl: Leaf<Duration>,
    /// how long what is not reaped is kept, session and index, up to 60 days (7d)
    retention: Leaf<Duration>,
    /// orphans handled at a time in the background, up to 1000 (100)
    batch: Leaf<NonZeroUsize>,
    /// how often orphans are looked for (30s)
    cleanup_interval: Leaf<Duration>,
    /// who deletes orphans: cleanup (this server) or claims (whoever claims them) (cleanup)
    reap: Leaf<Reap>,
    /// how long a claim holds before it returns (60s)
    claim_lease: Leaf<Duration>,
    /// claims of one session before it is put aside as dead, up to 1000 (5)
    max_attempts: Leaf<NonZeroU32>,
    /// most holders of one session, up to 10000 (1000)
    max_holders: Leaf<NonZeroUsize>,
    /// most sessions, over several partitions each has its part (1000000)
    max_sessions: Leaf<NonZeroUsize>,
    /// how long holders of a session that an older program left active have to come back (1h)
    migration_lease: Leaf<Duration>,
    /// how often index and sessions are compared and mended (7d)
    reconcile_interval: Leaf<Duration>,
});

group!(RawHttp {
    /// how long a request's head may take (5s)
    header_timeout: Leaf<Duration>,
    /// how long a connection may be idle between requests (75s)
    idle_timeout: Leaf<Duration>,
    /// how long a request may take, its body included (10s)
    request_timeout: Leaf<Duration>,
    /// how long edits sent in bulk may take, however many (10m)
    bulk_timeout: Leaf<Duration>,
    /// how long a client of events may take nothing of what waits for it (1m)
    stall_timeout: Leaf<Duration>,
    /// longest request body, other than of edits in bulk (65536)
    max_body_bytes: Leaf<NonZeroUsize>,
    /// most connections at a time; more wait to be accepted (10000)
    max_connections: Leaf<NonZeroUsize>,
    /// how long requests in flight may take after SIGTERM (10s)
    shutdown_deadline: Leaf<Duration>,
    /// how long after SIGTERM /readyz says 503 while requests are still taken (0s)
    drain_delay: Leaf<Duration>,
    /// when /readyz says 200: any (something can be answered) or all (every partition is reached) (any)
    readiness: Leaf<Readiness>,
    /// listen on addresses that other machines reach: whoever does may do everything (false)
    trusted_network: Leaf<bool>,
    /// most connections that wait to be accepted, up to 65535; the system may have less (1024)
    backlog: Leaf<NonZeroUsize>,
    /// log every answer at level info: who asked, what, the status and how long it took (false)
    access_log: Leaf<bool>,
});

group!(RawLog {
    /// error, warn, info, debug or trace (info)
    level: Leaf<tracing::Level>,
    /// text or json (text)
    format: Leaf<LogFormat>,
});

/// Every setting with what it is for; the name of a limit or a space is `NAME`.
pub(crate) fn list() -> Vec<(String, &'static str)> {
    let mut all = Vec::new();
    RawSettings::list("", "", &mut all);
    all
}
