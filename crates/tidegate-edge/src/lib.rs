//! Redirects: rules, what a request is answered by them, and the one normalisation that everything goes by.
//!
//! The crate knows nothing of sockets: a server gives it requests and sends what it answers.

pub mod path;
pub mod rule;
