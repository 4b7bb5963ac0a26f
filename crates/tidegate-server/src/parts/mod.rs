//! The parts of the server: what is set of each, and what is open. No protocol owns them:
//! HTTP, the command line with `--store` and whatever is to come stand on them.
//!
//! A kind of part is an implementation of `PartOptions` in a file of its own, and a line in
//! each of the lists here: what can be set, what is set, what is open.

mod declared;
mod hot;
mod limits;
mod named;
mod open;
mod opened;
mod sessions;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::mem::take;

use tidegate::hot::HotOptions;
use tidegate::session::SessionOptions;
use tidegate::store::{Declarations, Part, PartKind};
use tidegate::{Name, Tidegate};

use self::declared::AnySettings;
use self::hot::RawHot;
pub use self::limits::LimitSettings;
use self::limits::RawLimit;
pub use self::named::Named;
pub(crate) use self::open::Access;
pub(crate) use self::opened::{Opened, PartError, Unknown};
use self::sessions::RawSessions;
use crate::settings::raw::{Leaf, Node, RawHttp, RawLog, RawStore, group};
use crate::settings::{Listen, SettingsError};

/// The options of a part: one implementation for each kind of part.
pub(crate) trait PartOptions: Debug + Clone + Send + Sync + 'static {
    const ABOUT: &'static About;

    /// The same as it is written, before it is checked.
    type Raw: Node + Default;

    /// The part, open.
    type Open: Debug + Clone + Send + Sync + 'static;

    /// Those of the part called `name`.
    fn read(name: &str, raw: Self::Raw) -> Result<Self, SettingsError>;

    /// What the store declares of them.
    fn declared(&self, name: &Name) -> Part;

    fn open(&self, gate: &Tidegate, name: &str) -> tidegate::Result<Self::Open>;

    /// Leaves out what is not worth while for a single request.
    fn for_one_request(&mut self) {}
}

/// What is said about a kind of part.
#[derive(Debug)]
pub(crate) struct About {
    pub(crate) kind: PartKind,
    /// What their settings are below.
    pub(crate) group: &'static str,
    /// What one is called.
    pub(crate) noun: &'static str,
    /// The same where it could be of another kind.
    pub(crate) full_noun: &'static str,
    /// The one that there is if nobody has written down any.
    pub(crate) implied: &'static str,
    /// A setting that says what one is.
    pub(crate) example: &'static str,
    /// Whether one that nobody has written down is opened by its first use: it looks after
    /// itself in the background, on a store where others may use its names.
    pub(crate) opens_by_use: bool,
}

impl About {
    /// All kinds.
    pub(crate) fn all() -> impl Iterator<Item = &'static About> {
        PartSettings::default().each().map(|settings| settings.about()).into_iter()
    }
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

/// What is set of all parts.
#[derive(Debug, Clone, Default)]
pub struct PartSettings {
    /// The limits.
    pub limits: Vec<Named<LimitSettings>>,
    /// The spaces of hot pages.
    pub hot: Vec<Named<HotOptions>>,
    /// The spaces of sessions.
    pub sessions: Vec<Named<SessionOptions>>,
}

impl PartSettings {
    pub(crate) fn read(raw: &mut RawSettings) -> Result<Self, SettingsError> {
        Ok(Self {
            limits: Named::read_all(take(&mut raw.limits))?,
            hot: Named::read_all(take(&mut raw.hot))?,
            sessions: Named::read_all(take(&mut raw.sessions))?,
        })
    }

    fn each(&self) -> [&dyn AnySettings; 3] {
        [&self.limits, &self.hot, &self.sessions]
    }

    fn each_mut(&mut self) -> [&mut dyn AnySettings; 3] {
        [&mut self.limits, &mut self.hot, &mut self.sessions]
    }
}

/// An open store, and what is open on it.
#[derive(Debug)]
pub struct Parts {
    gate: Tidegate,
    pub(crate) limits: Opened<LimitSettings>,
    pub(crate) hot: Opened<HotOptions>,
    pub(crate) sessions: Opened<SessionOptions>,
}

impl Parts {
    /// What `settings` say, on `gate`.
    pub fn open(gate: Tidegate, settings: &PartSettings) -> Result<Self, SettingsError> {
        Ok(Self {
            limits: Opened::open(&gate, &settings.limits)?,
            hot: Opened::open(&gate, &settings.hot)?,
            sessions: Opened::open(&gate, &settings.sessions)?,
            gate,
        })
    }

    /// The store.
    pub fn gate(&self) -> &Tidegate {
        &self.gate
    }
}

#[cfg(test)]
mod tests;
