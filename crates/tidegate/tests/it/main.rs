//! Everything that needs a server, a proxy or a lot of histories: one binary, so
//! that it is linked once.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod conformance;
mod differential;
mod keeper;
mod keys;
mod kit;
mod loss;
mod outage;
mod soak;
mod timing;
