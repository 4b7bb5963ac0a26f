//! The server: the library's limits, hot pages and sessions over HTTP, and a command line
//! for all of it.
//!
//! Where to look:
//! - [`settings`]: defaults, file, environment and flags become checked values.
//! - [`http`]: the operations, as requests and responses.
//! - [`serve`]: connections, timeouts, the way down.
//! - [`cli`]: the commands.
//! - [`log`]: the log.
//!
//! Nothing here decides whether a take is admitted: that is the library's.

mod access_log;
mod api;

mod chunks;
pub mod cli;
mod connection;
mod fast_path;
pub mod http;
mod lines;
mod listen;
pub mod log;
mod moment;
mod outcomes;
mod readiness;
mod request_head;
mod request_stream;
pub mod serve;
pub mod settings;
mod timeouts;
