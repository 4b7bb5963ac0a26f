//! Redirects: rules, the database that is the truth about them, and the one normalisation that everything goes by.
//!
//! The crate knows nothing of sockets: a server gives it requests and sends what it answers.

mod error;
pub mod formats;
pub mod path;
pub mod rule;
pub mod stream;
pub mod truth;
pub mod worker;

pub use crate::error::{Error, ErrorKind, Result};
