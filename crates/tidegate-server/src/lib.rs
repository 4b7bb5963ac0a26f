//! The server: the library's limits, hot pages and sessions over HTTP, and a command line
//! for all of it.
//!
//! Where to look:
//! - [`settings`]: defaults, file, environment and flags become checked values.
//! - [`parts`]: what is open, owned by no protocol.
//! - [`http`]: the operations, as requests and responses.
//! - [`serve`]: the API on a listener, until it shall end.
//! - [`cli`]: the commands.
//! - [`log`]: the log.
//!
//! Nothing here decides whether a take is admitted: that is the library's.

mod address;
mod api;
pub mod cli;
mod connection;
mod edge;
pub mod http;
mod lines;
pub mod log;
mod moment;
mod outcomes;
pub mod parts;
mod readiness;
pub mod serve;
pub mod settings;
