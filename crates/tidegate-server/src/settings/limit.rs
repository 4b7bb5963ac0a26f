//! The settings of one limit: which belong to its algorithm, and what they amount to.

use std::time::Duration;

use tidegate::limit::{Algorithm, Calendar, LeaseOptions, LimitOptions, Period, Sliding, Suppressed, Token};
use tidegate::{Cost, Error, Name, Outage, Rate, Share};

use super::parse::{AlgorithmName, OutageName, and};
use super::raw::RawLimit;
use super::{LimitSettings, SettingsError};

const MINUTE: Duration = Duration::from_secs(60);

/// Those of the pipeline that this limit comes from.
const CALENDAR_LIMIT: u64 = 5000;
const SAFETY_BUFFER: u64 = 25;

pub(super) fn limit(name: String, raw: &RawLimit, is_implied: bool) -> Result<LimitSettings, SettingsError> {
    let checked = Name::new(&name).map_err(|error| SettingsError(format!("`limits`: {error}")))?;
    strangers(&name, raw)?;
    let options = options(&name, raw)?;
    let algorithm = algorithm(&name, raw)?;
    Ok(LimitSettings { name: checked, algorithm, options, is_implied })
}

/// Refuses a setting that is another algorithm's: it would have no effect.
fn strangers(limit: &str, raw: &RawLimit) -> Result<(), SettingsError> {
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
            let factor = raw.hard_limit_factor.0.map_or(1.0, |factor| factor.0);
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
    let buffer = raw.safety_buffer.0.map_or(SAFETY_BUFFER, |buffer| buffer.0);
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
    if let Some(max_keys) = raw.max_keys.0 {
        options.max_keys = max_keys.get();
    }
    options.when_full = raw.when_full.0.unwrap_or(options.when_full);
    options.on_lapse = raw.on_lapse.0.unwrap_or(options.on_lapse);
    if let Some(max_reservations) = raw.max_reservations.0 {
        options.max_reservations = max_reservations.get();
    }
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
