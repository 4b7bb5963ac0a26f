//! Short-lived state of a service inside hard bounds of time and memory.
//!
//! One [`Tidegate`] opens one store, in this process or on Redis, Valkey or
//! their Cluster, and hands out parts that answer alike on each: [`limit`], [`hot`],
//! [`session`] and [`run`].
//!
//! Where to look:
//! - [`limit`]: rate limits.
//! - [`hot`]: which pages are hot right now.
//! - [`session`]: who is connected, and what was left behind.
//! - [`run`]: what a pipeline has done, and what it has not.
//! - [`store`]: where state is kept; deadlines, scripts, partitions.
//! - [`doctor`]: what is wrong with a store.
//! - [`outage`]: what is answered while the store is away.
//! - [`clock`], [`random`]: time and chance, and how a test sets them.
//! - [`bounds`], [`key`], [`error`]: numbers, names, errors.
//!
//! Features, all on unless default features are off:
//! - `hot`, `run`, `session`: those parts. Limits are always there.
//! - `redis`: stores that processes share, all parts, and with them [`Tidegate`], what runs in the
//!   background and the calls that wait. Without it there are the parts in this process,
//!   [`limit::InProcess`], [`hot::InProcess`], [`session::InProcess`] and [`run::InProcess`], which
//!   are synchronous and need no runtime.
//! - `metrics`: what a [`Tidegate`] counts, for a `prometheus-client` registry.
//! - `tracing`: what is to be said to people, as events of `tracing`.
//!
//! And off unless asked for: `tower`, a limit in front of an axum or tower service.
//!
//! This crate knows nothing of configuration files or of a command line, and of HTTP
//! only what a decision is told by: `limit::headers`, and with the feature `tower` a
//! layer.

// What only one feature needs is not worth a gate of its own.
#![cfg_attr(
    not(all(feature = "redis", feature = "metrics", feature = "tracing")),
    allow(dead_code, unused_imports, unused_macros, unused_variables, rustdoc::broken_intra_doc_links)
)]

mod answer;
pub mod bounds;
pub mod clock;
#[cfg(feature = "redis")]
pub mod doctor;
pub mod error;
#[cfg(feature = "redis")]
mod gate;
#[cfg(feature = "hot")]
pub mod hot;
#[cfg(feature = "run")]
mod hour;
pub mod key;
pub mod limit;
mod log;
mod metrics;
pub mod outage;
mod page;
pub mod random;
mod ranges;
#[cfg(feature = "redis")]
mod reaper;
#[cfg(feature = "redis")]
mod registry;
#[cfg(feature = "run")]
pub mod run;
#[cfg(feature = "session")]
pub mod session;
mod setters;
pub mod store;
#[cfg(feature = "testkit")]
pub mod testkit;

pub use crate::answer::Answer;
pub use crate::bounds::{Cost, Rate, WhenFull, Window};
pub use crate::error::{Error, ErrorKind, Result};
#[cfg(feature = "redis")]
pub(crate) use crate::gate::Background;
#[cfg(feature = "redis")]
pub use crate::gate::Tidegate;
pub use crate::key::{Key, Name};
pub use crate::outage::{AfterLoss, ClosedStatus, Outage, OutageReason, Share};
pub use crate::page::{Cursor, MAX_PAGE, Page};

/// The kinds of parts there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum PartKind {
    /// A limit.
    Limit,
    /// A space of hot pages.
    Hot,
    /// A space of sessions.
    Sessions,
    /// A space of runs.
    Runs,
    /// The quota of a family of runs.
    Quota,
}

impl PartKind {
    pub(crate) const ALL: [Self; 5] = [Self::Limit, Self::Hot, Self::Sessions, Self::Runs, Self::Quota];

    /// The word for it in declarations and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Limit => "limit",
            Self::Hot => "hot",
            Self::Sessions => "sessions",
            Self::Runs => "runs",
            Self::Quota => "quota",
        }
    }

    /// What is known of its keys.
    #[cfg(feature = "redis")]
    pub(crate) fn keys(self) -> &'static dyn doctor::PartKeys {
        match self {
            Self::Limit => &limit::LimitKeys,
            Self::Hot => &hot::HotKeys,
            Self::Sessions => &session::SessionKeys,
            Self::Runs => &run::RunKeys,
            Self::Quota => &run::QuotaKeys,
        }
    }
}

/// The examples of the guide and the README are tests.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../../README.md")]
    struct Readme;
    #[doc = include_str!("../../../docs/guide.md")]
    struct Guide;
}
