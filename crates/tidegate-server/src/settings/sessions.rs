//! The settings of spaces of sessions.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::time::Duration;

use tidegate::Name;
use tidegate::session::SessionOptions;
use tidegate::store::{DEFAULT_SPACE, PartKind};

use super::names::one_name_each;
use super::raw::{Leaf, RawSessions};
use super::{SessionSettings, SettingsError};

pub(super) fn all(mut spaces: BTreeMap<String, RawSessions>) -> Result<Vec<SessionSettings>, SettingsError> {
    let is_implied = spaces.is_empty();
    if is_implied {
        spaces.insert(DEFAULT_SPACE.to_owned(), RawSessions::default());
    }
    one_name_each(PartKind::Sessions, &spaces)?;
    spaces.into_iter().map(|(name, raw)| sessions(name, raw, is_implied)).collect()
}

pub(super) fn sessions(
    name: String,
    raw: RawSessions,
    is_implied: bool,
) -> Result<SessionSettings, SettingsError> {
    let checked = Name::new(&name).map_err(|error| SettingsError(format!("`sessions`: {error}")))?;
    let options = options(raw);
    options.check().map_err(|error| SettingsError(format!("`sessions.{name}`: {error}")))?;
    Ok(SessionSettings { name: checked, options, is_implied })
}

fn options(raw: RawSessions) -> SessionOptions {
    let mut options = SessionOptions::default();
    let lasts = |given: Leaf<Duration>, default: &mut Duration| *default = given.or(*default);
    lasts(raw.grace, &mut options.grace);
    lasts(raw.holder_lease, &mut options.holder_lease);
    lasts(raw.session_ttl, &mut options.session_ttl);
    lasts(raw.retention, &mut options.retention);
    lasts(raw.cleanup_interval, &mut options.cleanup_interval);
    lasts(raw.claim_lease, &mut options.claim_lease);
    lasts(raw.migration_lease, &mut options.migration_lease);
    lasts(raw.reconcile_interval, &mut options.reconcile_interval);
    let count =
        |given: Leaf<NonZeroUsize>, default: &mut usize| *default = given.0.map_or(*default, Into::into);
    count(raw.batch, &mut options.batch);
    count(raw.max_holders, &mut options.max_holders);
    count(raw.max_sessions, &mut options.max_sessions);
    options.max_attempts = raw.max_attempts.0.map_or(options.max_attempts, Into::into);
    options.reap = raw.reap.or(options.reap);
    options
}
