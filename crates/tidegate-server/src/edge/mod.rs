//! Redirects on a listener of their own: a worker of the rules ([`tidegate_edge::worker`]), what it answers with
//! ([`answers`]), where it has its rules from ([`origin`]) and the service that a listener serves ([`EdgeService`]).

mod answers;
mod hot;
mod open;
mod origin;
mod page;
mod proxies;
mod remote;
mod service;

pub(crate) use self::hot::{SAMPLED_PER_SECOND, WINDOW};
pub(crate) use self::open::OpenEdge;
pub(crate) use self::page::Page;
pub(crate) use self::proxies::Proxies;
pub(crate) use self::service::EdgeService;
