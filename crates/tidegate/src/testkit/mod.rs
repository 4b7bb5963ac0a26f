//! What tests talk to: real servers, a proxy that breaks things, cases that
//! every store must pass, and models that say what is right.
//!
//! Each room has a `Face`: what can be asked of it, be it of the library or over HTTP. Cases and
//! random histories are written once, against it; tests only make faces.
//!
//! A missing server is a failed test that says how to get it, never a skipped
//! one. Nothing here sleeps: everything waits for an event, with a deadline.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

pub mod history;
pub mod hot;
pub mod limit;
mod proxy;
pub mod run;
mod server;
pub mod session;

pub use self::proxy::{Fault, FaultProxy};
pub use self::server::{RedisCluster, RedisServer, TlsServer};

use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, ErrorKind};

/// Makes a module with a test for each case of a room, run against a kit: what the suites of the
/// rooms are made by.
#[macro_export]
macro_rules! conformance_cases {
    ($room:ident, $store:ident, $kit:expr; $($case:ident)*) => {
        mod $store {
            use super::*;
            $(
                #[tokio::test]
                async fn $case() {
                    $crate::testkit::$room::$case(&$kit).await;
                }
            )*
        }
    };
}

/// An error of this kind, for a face that reads it from an answer.
pub fn error(kind: ErrorKind, text: String) -> Error {
    Error::new(kind, text)
}

/// A word that no other test uses, in this process or another.
pub fn unique(what: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("{what}-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}
