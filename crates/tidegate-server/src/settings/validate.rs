//! From what was set to what is meant: defaults, ranges, and what depends on
//! more than one setting.

use std::num::NonZeroUsize;
use std::time::Duration;

use tidegate::store::Declarations;

use super::raw::{Leaf, RawHttp, RawLog, RawStore};
use super::{HttpSettings, Listen, LogFormat, LogSettings, Settings, SettingsError, StoreSettings, StoreUrl};
use crate::parts::{PartSettings, RawSettings};

const MILLISECOND: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

pub(super) fn settings(mut raw: RawSettings) -> Result<Settings, SettingsError> {
    let parts = PartSettings::read(&mut raw);
    Ok(Settings {
        listen: raw.listen.or(Listen("127.0.0.1:8080".to_owned())),
        store: store(raw.store, raw.declarations)?,
        parts: parts?,
        http: http(raw.http)?,
        log: log(raw.log),
    })
}

fn store(raw: RawStore, declarations: Leaf<Declarations>) -> Result<StoreSettings, SettingsError> {
    let deadline = raw.deadline.or(Duration::from_millis(100));
    let connect_timeout = raw.connect_timeout.or(Duration::from_millis(500));
    let keepalive = raw.keepalive.or(Duration::from_secs(30));
    let check_interval = raw.check_interval.or(Duration::from_secs(5));
    Ok(StoreSettings {
        url: raw.url.or(StoreUrl("memory:".to_owned())),
        namespace: raw.namespace.0,
        partitions: raw.partitions.0.map(Into::into),
        deadline: between("store.deadline", deadline, MILLISECOND, MINUTE)?,
        connect_timeout: between("store.connect_timeout", connect_timeout, MILLISECOND, MINUTE)?,
        nodelay: raw.nodelay.or(true),
        keepalive: match between("store.keepalive", keepalive, Duration::ZERO, 2 * HOUR)? {
            // Zero is a choice: nobody looks.
            Duration::ZERO => None,
            keepalive if keepalive < SECOND => Some(between("store.keepalive", keepalive, SECOND, 2 * HOUR)?),
            keepalive => Some(keepalive),
        },
        check_interval: between("store.check_interval", check_interval, 10 * MILLISECOND, HOUR)?,
        tls_ca: raw.tls_ca.0,
        declarations: declarations.or(Declarations::default()),
    })
}

fn http(raw: RawHttp) -> Result<HttpSettings, SettingsError> {
    let default = HttpSettings::default();
    let header_timeout = raw.header_timeout.or(default.header_timeout);
    let idle_timeout = raw.idle_timeout.or(default.idle_timeout);
    let request_timeout = raw.request_timeout.or(default.request_timeout);
    let bulk_timeout = raw.bulk_timeout.or(default.bulk_timeout);
    let stall_timeout = raw.stall_timeout.or(default.stall_timeout);
    let shutdown_deadline = raw.shutdown_deadline.or(default.shutdown_deadline);
    let drain_delay = raw.drain_delay.or(default.drain_delay);
    Ok(HttpSettings {
        header_timeout: between("http.header_timeout", header_timeout, MILLISECOND, HOUR)?,
        idle_timeout: between("http.idle_timeout", idle_timeout, MILLISECOND, HOUR)?,
        request_timeout: between("http.request_timeout", request_timeout, MILLISECOND, HOUR)?,
        bulk_timeout: between("http.bulk_timeout", bulk_timeout, MILLISECOND, 24 * HOUR)?,
        stall_timeout: between("http.stall_timeout", stall_timeout, MILLISECOND, HOUR)?,
        max_body_bytes: match raw.max_body_bytes.0 {
            Some(bytes) => at_most("http.max_body_bytes", bytes, 16 << 20)?,
            None => default.max_body_bytes,
        },
        max_connections: match raw.max_connections.0 {
            Some(connections) => at_most("http.max_connections", connections, 1_000_000)?,
            None => default.max_connections,
        },
        // Zero is a choice: whatever is in flight is cut.
        shutdown_deadline: between("http.shutdown_deadline", shutdown_deadline, Duration::ZERO, HOUR)?,
        drain_delay: between("http.drain_delay", drain_delay, Duration::ZERO, HOUR)?,
        readiness: raw.readiness.or(default.readiness),
        trusted_network: raw.trusted_network.or(default.trusted_network),
        backlog: match raw.backlog.0 {
            // At most sixteen bits.
            Some(backlog) => at_most("http.backlog", backlog, 65_535)? as u32,
            None => default.backlog,
        },
        access_log: raw.access_log.or(default.access_log),
    })
}

fn log(raw: RawLog) -> LogSettings {
    LogSettings { level: raw.level.or(tracing::Level::INFO), format: raw.format.or(LogFormat::Text) }
}

/// `value` if it is at least `least` and at most `most`.
fn between(
    setting: &str,
    value: Duration,
    least: Duration,
    most: Duration,
) -> Result<Duration, SettingsError> {
    if (least..=most).contains(&value) {
        return Ok(value);
    }
    let show = humantime::format_duration;
    Err(SettingsError(format!(
        "`{setting}`: {} is not allowed: {} to {} are",
        show(value),
        show(least),
        show(most)
    )))
}

/// `value` if it is at most `most`.
fn at_most(setting: &str, value: NonZeroUsize, most: usize) -> Result<usize, SettingsError> {
    if value.get() <= most {
        return Ok(value.get());
    }
    Err(SettingsError(format!("`{setting}`: {value} is not allowed: 1 to {most} are")))
}
