//! What can be set of a space of sessions.

use std::num::{NonZeroU32, NonZeroUsize};
use std::time::Duration;

use tidegate::session::{Reap, SessionOptions, Sessions};
use tidegate::store::{Part, PartKind};
use tidegate::{Name, Tidegate};

use crate::parts::{About, PartOptions};
use crate::settings::SettingsError;
use crate::settings::parse::choices;
use crate::settings::raw::{Leaf, group};

group!(RawSessions for SessionOptions {
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

impl PartOptions for SessionOptions {
    const ABOUT: &About = &About {
        opens_by_use: true,
        ..About::spaces(PartKind::Sessions, "sessions", "space of sessions", "grace=30s")
    };

    type Raw = RawSessions;
    type Open = Sessions;

    fn read(name: &str, raw: RawSessions) -> Result<Self, SettingsError> {
        let options = raw.over(Self::default());
        options.check().map_err(|error| SettingsError(format!("`sessions.{name}`: {error}")))?;
        Ok(options)
    }

    fn declared(&self, name: &Name) -> Part {
        self.declared(name)
    }

    fn open(&self, gate: &Tidegate, name: &str) -> tidegate::Result<Sessions> {
        gate.sessions(name, self.clone())
    }
}

choices! {
    Reap: "cleanup" Cleanup, "claims" Claims;
}
