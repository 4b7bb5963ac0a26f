//! What can be set of a limit: which settings belong to an algorithm, and what they amount to.

use std::num::{NonZeroU32, NonZeroUsize};
use std::time::Duration;

use tidegate::bounds::MAX_COUNT;
use tidegate::limit::{
    Algorithm, Calendar, LeaseOptions, Limit, LimitOptions, OnLapse, Period, Sliding, Suppressed, Token,
    WhenFull,
};
use tidegate::store::{Part, PartKind};
use tidegate::{AfterLoss, ClosedStatus, Cost, Error, Name, Outage, Rate, Share, Tidegate};

use crate::parts::{About, LimitSettings, PartOptions};
use crate::settings::SettingsError;
use crate::settings::parse::{Prefix, and, choice, choices, from_str, named, read_by};
use crate::settings::raw::{Leaf, group};

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
    hard_limit_factor: Leaf<f64>,
    /// token: permits at once (the number in the rate: 5/s has 5)
    burst: Leaf<Cost>,
    /// calendar: permits per period, the buffer included (5000)
    limit: Leaf<Cost>,
    /// calendar: minute, hour or day, in UTC (hour)
    period: Leaf<Period>,
    /// calendar: permits that are never given out, fewer than the limit (25)
    safety_buffer: Leaf<u64>,
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

const MINUTE: Duration = Duration::from_secs(60);

/// Those of the pipeline that this limit comes from.
const CALENDAR_LIMIT: u64 = 5000;
const SAFETY_BUFFER: u64 = 25;

impl PartOptions for LimitSettings {
    const ABOUT: &About = &About {
        kind: PartKind::Limit,
        group: "limits",
        noun: "limit",
        full_noun: "limit",
        implied: "api",
        example: "rate=5/s",
        opens_by_use: false,
        environment: &[],
    };

    type Raw = RawLimit;
    type Open = Limit;

    fn read(name: &str, raw: RawLimit) -> Result<Self, SettingsError> {
        unknown_settings(name, &raw)?;
        let options = options(name, &raw)?;
        Ok(Self { algorithm: algorithm(name, &raw)?, options })
    }

    fn declared(&self, name: &Name) -> Part {
        self.options.declared(name, &self.algorithm)
    }

    fn open(&self, gate: &Tidegate, name: &str) -> tidegate::Result<Limit> {
        gate.limit(name, self.algorithm, self.options.clone())
    }

    /// One request is not worth a block of permits.
    fn for_one_request(&mut self) {
        self.options.lease = None;
    }
}

/// Refuses a setting that is another algorithm's: it would have no effect.
fn unknown_settings(limit: &str, raw: &RawLimit) -> Result<(), SettingsError> {
    use AlgorithmName::{Calendar, Sliding, Smooth, Suppressed, Token};
    let own = raw.algorithm.0.unwrap_or(Sliding);
    let windowed: &[_] = &[Sliding, Suppressed, Smooth];
    let counted: &[_] = &[Sliding, Calendar];
    for (setting, is_set, whose) in [
        ("rate", raw.rate.is_set(), &[Sliding, Suppressed, Smooth, Token][..]),
        ("window", raw.window.is_set(), windowed),
        ("coalesce", raw.coalesce.is_set(), windowed),
        ("hard_limit_factor", raw.hard_limit_factor.is_set(), &[Suppressed]),
        ("burst", raw.burst.is_set(), &[Token]),
        ("limit", raw.limit.is_set(), &[Calendar]),
        ("period", raw.period.is_set(), &[Calendar]),
        ("safety_buffer", raw.safety_buffer.is_set(), &[Calendar]),
        ("counter_ttl", raw.counter_ttl.is_set(), &[Calendar]),
        ("on_lapse", raw.on_lapse.is_set(), counted),
        ("max_reservations", raw.max_reservations.is_set(), counted),
        ("lease", raw.lease.0 == Some(true), counted),
        ("lease_duration", raw.lease_duration.is_set(), counted),
    ] {
        if is_set && !whose.contains(&own) {
            let whose: Vec<_> = whose.iter().map(|name| name.as_str()).collect();
            return Err(SettingsError(format!(
                "`limits.{limit}.{setting}`: {} limits have no such setting: {} limits do (`limits.{limit}.algorithm`)",
                own.as_str(),
                and(&whose)
            )));
        }
    }
    Ok(())
}

fn algorithm(name: &str, raw: &RawLimit) -> Result<Algorithm, SettingsError> {
    let rate = raw.rate.0.unwrap_or(Rate::per_second(5));
    let sliding = || {
        let sliding = Sliding::new(rate, raw.window.0.unwrap_or(MINUTE))?;
        raw.coalesce.0.map_or(Ok(sliding), |coalesce| sliding.with_coalesce(coalesce))
    };
    let algorithm = match raw.algorithm.0.unwrap_or(AlgorithmName::Sliding) {
        AlgorithmName::Sliding => sliding().map(Into::into),
        AlgorithmName::Suppressed => {
            let factor = raw.hard_limit_factor.0.unwrap_or(1.0);
            sliding().and_then(|sliding| Suppressed::new(sliding, factor)).map(Into::into)
        }
        AlgorithmName::Smooth => sliding().map(|sliding| Suppressed::smooth(sliding).into()),
        AlgorithmName::Token => {
            Token::new(rate, raw.burst.0.unwrap_or_else(|| burst_of(rate))).map(Into::into)
        }
        AlgorithmName::Calendar => return calendar(name, raw),
    };
    algorithm.map_err(|error| SettingsError(format!("`limits.{name}`: {error}")))
}

/// As many as the rate names: 5/s has 5, 100/m has 100, and 0.5/s has 1.
fn burst_of(rate: Rate) -> Cost {
    let written = rate.to_string();
    let whole = written.split(['.', '/']).next().and_then(|whole| whole.parse().ok());
    whole.and_then(|whole| Cost::new(whole).ok()).unwrap_or(Cost::ONE)
}

fn calendar(name: &str, raw: &RawLimit) -> Result<Algorithm, SettingsError> {
    let limit = raw.limit.0.map_or(CALENDAR_LIMIT, Cost::get);
    let buffer = raw.safety_buffer.0.unwrap_or(SAFETY_BUFFER);
    if buffer >= limit {
        let default = if raw.safety_buffer.is_set() { "" } else { ", the default," };
        return Err(SettingsError(format!(
            "`limits.{name}.safety_buffer`: {buffer}{default} leaves nothing of a limit of {limit}: 0 to {} are allowed",
            limit - 1
        )));
    }
    let made = || {
        let calendar =
            Calendar::new(limit, raw.period.0.unwrap_or(Period::Hour))?.with_safety_buffer(buffer)?;
        raw.counter_ttl.0.map_or(Ok(calendar), |ttl| calendar.with_counter_ttl(ttl))
    };
    made().map(Into::into).map_err(|error: Error| SettingsError(format!("`limits.{name}`: {error}")))
}

fn options(name: &str, raw: &RawLimit) -> Result<LimitOptions, SettingsError> {
    let mut options = LimitOptions::default();
    options.outage = match raw.outage.0.unwrap_or(OutageName::Open) {
        OutageName::Open => Outage::Open,
        OutageName::Closed => Outage::Closed,
        OutageName::Local => {
            let share = raw.local_share.0.or(raw.nodes.0.map(Share::one_of));
            Outage::Local(share.ok_or_else(|| {
                SettingsError(format!(
                    "`limits.{name}.outage`: `local` needs `local_share` (above 0, up to 1) or `nodes` (how many servers there are)"
                ))
            })?)
        }
    };
    options.closed_status = raw.closed_status.0.unwrap_or(options.closed_status);
    options.after_loss = raw.after_loss.0.unwrap_or(options.after_loss);
    options.max_keys = raw.max_keys.0.map_or(options.max_keys, Into::into);
    options.when_full = raw.when_full.0.unwrap_or(options.when_full);
    options.on_lapse = raw.on_lapse.0.unwrap_or(options.on_lapse);
    options.max_reservations = raw.max_reservations.0.map_or(options.max_reservations, Into::into);
    options.lease = lease(name, raw)?;
    options.prefix = raw.prefix.0.as_ref().map(|prefix| prefix.0.clone());
    Ok(options)
}

fn lease(name: &str, raw: &RawLimit) -> Result<Option<LeaseOptions>, SettingsError> {
    if raw.lease.0 != Some(true) {
        return match raw.lease_duration.0 {
            None => Ok(None),
            Some(_) => Err(SettingsError(format!("`limits.{name}.lease_duration`: needs `lease: true`"))),
        };
    }
    let mut lease = LeaseOptions::default();
    lease.duration = raw.lease_duration.0;
    lease.nodes = raw.nodes.0.unwrap_or(lease.nodes);
    Ok(Some(lease))
}

named! {
    /// How a limit counts, by name; its numbers are settings of their own.
    pub(crate) enum AlgorithmName {
        Sliding = "sliding",
        Suppressed = "suppressed",
        Smooth = "smooth",
        Token = "token",
        Calendar = "calendar",
    }

    /// The outage policy's name; its share is a setting of its own.
    pub(crate) enum OutageName {
        Open = "open",
        Closed = "closed",
        Local = "local",
    }
}

choices! {
    ClosedStatus: "429" TooManyRequests, "503" ServiceUnavailable;
    AfterLoss: "admit" Admit, "hold" Hold;
    WhenFull: "refuse" Refuse, "share" Share;
    OnLapse: "spend" Spend, "give_back" GiveBack;
}

read_by! {
    Period: |text| choice(text, &[Period::Minute, Period::Hour, Period::Day].map(|it| (it.as_str(), it)));
    /// Permits, at least one.
    Cost: |text| {
        let permits = text.parse().ok().and_then(|permits| Cost::new(permits).ok());
        permits.ok_or_else(|| format!("{text:?} is not allowed: whole numbers from 1 to {MAX_COUNT} are"))
    };
    Rate: from_str;
    Share: |text| {
        let why = "is not a share: a number above 0 and up to 1 is, like 0.5";
        let fraction = text.parse().map_err(|_| format!("{text:?} {why}"))?;
        Share::fraction(fraction).map_err(|error| error.to_string())
    };
}
