//! The parts of the server: what is set of each, and what is open. No protocol owns them:
//! HTTP, the command line with `--store` and whatever is to come stand on them.
//!
//! A kind of part is an implementation of `PartOptions`, in its folder beside its bodies
//! (`http/<part>/settings.rs`), and a line in the list of `kinds!`. Rules are no such kind: there is one set of them, in a
//! database of its own and not on the store, so they implement `SingleOptions`; and so do redirects, which stand on them.

mod declared;
mod named;
mod open;
mod opened;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::mem::take;

use tidegate::hot::HotOptions;
use tidegate::limit::{Algorithm, LimitOptions};
use tidegate::run::{QuotaOptions, RunOptions};
use tidegate::session::SessionOptions;
use tidegate::store::{DEFAULT_SPACE, Declaration, Declarations, Part, PartKind};
use tidegate::{Name, Tidegate};
use tidegate_edge::truth::TruthOptions;
use tidegate_edge::worker::WorkerOptions;

pub(crate) use self::declared::read_declared;
pub use self::named::Named;
pub(crate) use self::open::Access;
pub(crate) use self::opened::{Opened, PartError, Unknown};
use crate::address::Address;
use crate::edge::{Page, Proxies};
use crate::settings::parse::named;
use crate::settings::raw::{Leaf, Node, RawHttp, RawLog, RawStore, group};
use crate::settings::{Listen, RulesUrl, SettingsError};

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

    /// The same of what comes with it and is declared by itself, as far as it is written down.
    fn declared_beside(&self) -> Vec<Part> {
        Vec::new()
    }

    /// Whether a declaration is of such, and can be read.
    fn reads_beside(_declared: &Declaration) -> bool {
        false
    }

    /// Goes by what the store declares of that, where it is not written down; if it `is_all` that is known, by nothing
    /// else.
    fn adopt_beside(&mut self, _declared: &[Declaration], _is_all: bool) -> Result<(), SettingsError> {
        Ok(())
    }

    /// Leaves out what is not worth while for a single request.
    fn for_one_request(&mut self) {}
}

/// The options of a part of which there is one or none, on no store.
pub(crate) trait SingleOptions: Debug + Clone + Send + Sync + 'static {
    /// What its settings are below.
    const GROUP: &'static str;

    /// Settings that older programs have other names for.
    const ENVIRONMENT: &'static [Variable] = &[];

    /// The same as it is written, before it is checked.
    type Raw: Node + Default;

    /// The part, open.
    type Open: Debug + Clone + Send + Sync + 'static;

    /// What it stands on.
    type Beside: Sync;

    /// None if there is to be none.
    fn read(raw: Self::Raw) -> Result<Option<Self>, SettingsError>;

    fn open(&self, beside: &Self::Beside) -> impl Future<Output = Result<Self::Open, SettingsError>> + Send;
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
    /// Settings that older programs have other names for.
    pub(crate) environment: &'static [Variable],
}

/// A variable of the environment, by the name that it has elsewhere.
#[derive(Debug)]
pub(crate) struct Variable {
    pub(crate) name: &'static str,
    /// The path of the setting below a part.
    pub(crate) setting: &'static str,
    /// What its number is of.
    pub(crate) unit: &'static str,
}

impl About {
    /// That of a kind.
    pub(crate) fn of(kind: PartKind) -> Option<&'static Self> {
        Self::all().find(|about| about.kind == kind)
    }

    /// What is said about spaces of a kind; one that nobody has written down is open at once.
    pub(crate) const fn spaces(
        kind: PartKind,
        group: &'static str,
        full_noun: &'static str,
        example: &'static str,
    ) -> Self {
        let (noun, implied) = ("space", DEFAULT_SPACE);
        Self { kind, group, noun, full_noun, implied, example, opens_by_use: false, environment: &[] }
    }
}

/// What a limit counts by, and what it does beside counting.
#[derive(Debug, Clone)]
pub struct LimitSettings {
    /// What it counts by.
    pub algorithm: Algorithm,
    /// What it does beside counting.
    pub options: LimitOptions,
}

/// A space of runs, and the quota of their family.
#[derive(Debug, Clone)]
pub struct RunSettings {
    /// How its runs live.
    pub options: RunOptions,
    /// What the other side allows in an hour.
    pub quota: QuotaSettings,
}

/// The quota of a family of runs, as far as it is known.
#[derive(Debug, Clone)]
pub enum QuotaSettings {
    /// It is written down.
    Written(QuotaOptions),
    /// It is not: by the defaults, or as the store declares it.
    Implied(QuotaOptions),
    /// Nobody has said what it is, and it is not guessed.
    Unknown,
}

/// Where the rules of redirects are kept, and how.
#[derive(Debug, Clone)]
pub struct RulesSettings {
    /// The database.
    pub url: RulesUrl,
    /// How it is kept.
    pub options: TruthOptions,
}

/// How redirects are served.
#[derive(Debug, Clone)]
pub struct EdgeSettings {
    /// Where to.
    pub listen: Listen,
    /// How many threads redirect, and do nothing else.
    pub threads: usize,
    /// Whose rules are followed, if not those of this server.
    pub(crate) origin: Option<Address>,
    /// How the worker keeps them.
    pub options: WorkerOptions,
    /// Who may say which host was asked for.
    pub(crate) trusted_proxies: Proxies,
    /// What 404 says.
    pub(crate) not_found: Option<Page>,
    /// What 410 says.
    pub(crate) gone: Option<Page>,
    /// Whether answers say how old what is known is.
    pub has_age_header: bool,
    /// When the server is ready.
    pub readiness: EdgeReadiness,
}

impl EdgeSettings {
    /// Whether another server's rules are followed.
    pub(crate) fn has_origin(&self) -> bool {
        self.origin.is_some()
    }
}

named! {
    /// When a server that redirects is ready.
    pub enum EdgeReadiness {
        /// Once it has read all keys, whatever becomes of its origin.
        Loaded = "loaded",
        /// While its origin is there, too.
        Connected = "connected",
    }
}

/// The kinds of parts, by what their settings are below: what can be set, what is set and what
/// is open of each are made from this one list.
macro_rules! kinds {
    ($(#[doc = $about:literal] $group:ident: $options:ty,)+) => {
        group!(RawSettings {
            /// address to listen on; port 0 picks a free one (127.0.0.1:8080)
            listen: Leaf<Listen>,
            /// where state is kept
            store: RawStore,
            /// a limit or space that the store declares with other settings: replace or strict (replace)
            declarations: Leaf<Declarations>,
            $(#[doc = $about] $group: BTreeMap<String, <$options as PartOptions>::Raw>,)+
            /// the rules of redirects
            rules: <RulesSettings as SingleOptions>::Raw,
            /// redirects by them
            edge: <EdgeSettings as SingleOptions>::Raw,
            /// bounds on connections and requests
            http: RawHttp,
            /// what is said on standard error
            log: RawLog,
        });

        /// What is set of all parts.
        #[derive(Debug, Clone, Default)]
        pub struct PartSettings {
            $(#[doc = $about] pub $group: Vec<Named<$options>>,)+
        }

        impl PartSettings {
            pub(crate) fn read(raw: &mut RawSettings) -> Result<Self, SettingsError> {
                Ok(Self { $($group: Named::read_all(take(&mut raw.$group))?,)+ })
            }

            fn set(
                &mut self,
                declared: &[Declaration],
                shall_be: impl Fn(Option<bool>) -> bool + Copy,
            ) -> Result<(), SettingsError> {
                $(Named::set(&mut self.$group, declared, shall_be)?;)+
                Ok(())
            }

            /// By the kind of each, its name, and whether it is implied.
            fn retain(&mut self, is_kept: impl Fn(PartKind, &str, bool) -> bool) {
                $(self.$group.retain(|it| is_kept(it.kind(), it.name.as_str(), it.is_implied));)+
            }

            /// Leaves out what is not worth while for a single request.
            fn for_one_request(&mut self) {
                $(self.$group.iter_mut().for_each(|it| it.options.for_one_request());)+
            }

            /// What is written down, as it is declared.
            pub fn written(&self) -> Vec<Part> {
                [$(Named::written(&self.$group)),+].concat()
            }

            /// Whether there is such a part.
            pub fn has(&self, kind: PartKind, name: &str) -> bool {
                $(self.$group.iter().any(|it| it.kind() == kind && it.is_called(name)))||+
            }

            fn reads_beside(declared: &Declaration) -> bool {
                $(<$options as PartOptions>::reads_beside(declared))||+
            }

            fn adopt_beside(&mut self, declared: &[Declaration], is_all: bool) -> Result<(), SettingsError> {
                $(self.$group.iter_mut().try_for_each(|it| it.options.adopt_beside(declared, is_all))?;)+
                Ok(())
            }
        }

        impl About {
            /// All kinds.
            pub(crate) fn all() -> impl Iterator<Item = &'static About> {
                [$(<$options as PartOptions>::ABOUT),+].into_iter()
            }
        }

        /// An open store, and what is open on it.
        #[derive(Debug)]
        pub struct Parts {
            gate: Tidegate,
            pub(crate) rules: Option<<RulesSettings as SingleOptions>::Open>,
            pub(crate) edge: Option<<EdgeSettings as SingleOptions>::Open>,
            $(pub(crate) $group: Opened<$options>,)+
        }

        impl Parts {
            /// What `settings` say, on `gate`; no rules, and no redirects.
            pub fn open(gate: Tidegate, settings: &PartSettings) -> Result<Self, SettingsError> {
                Ok(Self { $($group: Opened::open(&gate, &settings.$group)?,)+ gate, rules: None, edge: None })
            }
        }
    };
}

kinds! {
    /// the limits by name; one called `api` if there are none
    limits: LimitSettings,
    /// the spaces of hot pages by name; one called `main` if there are none
    hot: HotOptions,
    /// the spaces of sessions by name; one called `main` if there are none
    sessions: SessionOptions,
    /// the spaces of runs by name; one called `main` if there are none
    runs: RunSettings,
}

impl Parts {
    /// The store.
    pub fn gate(&self) -> &Tidegate {
        &self.gate
    }
}

#[cfg(test)]
mod tests;
