//! From what was set to what is meant: defaults, ranges, and what depends on
//! more than one setting.

use std::time::Duration;

use tidegate::store::{Declarations, StoreOptions};

use super::raw::{Leaf, RawHttp, RawStore};
use super::{HttpSettings, Listen, LogSettings, Settings, SettingsError, StoreSettings, StoreUrl};
use crate::parts::{EdgeSettings, PartSettings, RawSettings, RulesSettings, SingleOptions as _};

const MILLISECOND: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

pub(super) fn settings(mut raw: RawSettings) -> Result<Settings, SettingsError> {
    let parts = PartSettings::read(&mut raw);
    Ok(Settings {
        is_listen_set: raw.listen.is_set(),
        listen: raw.listen.or(Listen("127.0.0.1:8080".to_owned())),
        store: store(raw.store, raw.declarations)?,
        parts: parts?,
        rules: RulesSettings::read(raw.rules)?,
        edge: EdgeSettings::read(raw.edge)?,
        http: http(raw.http)?,
        log: raw.log.over(LogSettings::default()),
    })
}

fn store(raw: RawStore, declarations: Leaf<Declarations>) -> Result<StoreSettings, SettingsError> {
    let mut options = StoreOptions::default();
    options.namespace = raw.namespace.0;
    options.partitions = raw.partitions.0.map(Into::into);
    options.deadline = raw.deadline.or(options.deadline);
    options.connect_timeout = raw.connect_timeout.or(options.connect_timeout);
    options.nodelay = raw.nodelay.or(options.nodelay);
    options.check_interval = raw.check_interval.or(options.check_interval);
    options.unhealthy_after = raw.unhealthy_after.or(options.unhealthy_after);
    options.declarations = declarations.or(options.declarations);
    // Zero is a choice: nobody looks.
    let keepalive = raw.keepalive.0.or(options.keepalive).filter(|keepalive| !keepalive.is_zero());
    options.keepalive = keepalive;
    between("store.deadline", options.deadline, MILLISECOND, MINUTE)?;
    between("store.connect_timeout", options.connect_timeout, MILLISECOND, MINUTE)?;
    let least = if keepalive.is_some_and(|keepalive| keepalive < SECOND) { SECOND } else { Duration::ZERO };
    between("store.keepalive", keepalive.unwrap_or_default(), least, 2 * HOUR)?;
    between("store.check_interval", options.check_interval, 10 * MILLISECOND, HOUR)?;
    Ok(StoreSettings { url: raw.url.or(StoreUrl("memory:".to_owned())), options, tls_ca: raw.tls_ca.0 })
}

fn http(raw: RawHttp) -> Result<HttpSettings, SettingsError> {
    let http = raw.over(HttpSettings::default());
    for (setting, value, least, most) in [
        ("http.header_timeout", http.header_timeout, MILLISECOND, HOUR),
        ("http.idle_timeout", http.idle_timeout, MILLISECOND, HOUR),
        ("http.request_timeout", http.request_timeout, MILLISECOND, HOUR),
        ("http.bulk_timeout", http.bulk_timeout, MILLISECOND, 24 * HOUR),
        ("http.stall_timeout", http.stall_timeout, MILLISECOND, HOUR),
        // Zero is a choice: whatever is in flight is cut.
        ("http.shutdown_deadline", http.shutdown_deadline, Duration::ZERO, HOUR),
        ("http.drain_delay", http.drain_delay, Duration::ZERO, HOUR),
    ] {
        between(setting, value, least, most)?;
    }
    for (setting, value, most) in [
        ("http.max_body_bytes", http.max_body_bytes, 16 << 20),
        ("http.max_connections", http.max_connections, 1_000_000),
        ("http.backlog", http.backlog, 65_535),
    ] {
        if value > most {
            return Err(SettingsError(format!("`{setting}`: {value} is not allowed: 1 to {most} are")));
        }
    }
    Ok(http)
}

/// Refuses a `value` below `least` or above `most`.
pub(crate) fn between(
    setting: &str,
    value: Duration,
    least: Duration,
    most: Duration,
) -> Result<(), SettingsError> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    let [value, least, most] = [value, least, most].map(humantime::format_duration);
    Err(SettingsError(format!("`{setting}`: {value} is not allowed: {least} to {most} are")))
}
