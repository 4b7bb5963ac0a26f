//! What is answered about the spaces.

use serde::Serialize;
use tidegate::session::{Reap, SessionOptions};

/// The spaces and how their sessions live.
#[derive(Debug, Serialize)]
pub(super) struct Spaces<'a> {
    spaces: Vec<Space<'a>>,
}

#[derive(Debug, Serialize)]
struct Space<'a> {
    space: &'a str,
    grace_ms: u64,
    holder_lease_ms: u64,
    session_ttl_ms: u64,
    retention_ms: u64,
    batch: usize,
    cleanup_interval_ms: u64,
    reap: &'static str,
    claim_lease_ms: u64,
    max_attempts: u32,
    max_holders: usize,
    max_sessions: usize,
    migration_lease_ms: u64,
    reconcile_interval_ms: u64,
}

impl<'a> Spaces<'a> {
    pub(super) fn of(spaces: impl Iterator<Item = (&'a str, &'a SessionOptions)>) -> Self {
        Self { spaces: spaces.map(|(name, options)| Space::new(name, options)).collect() }
    }
}

impl<'a> Space<'a> {
    fn new(space: &'a str, options: &SessionOptions) -> Self {
        // Sixty days at most.
        let ms = |lasting: std::time::Duration| lasting.as_millis() as u64;
        Self {
            space,
            grace_ms: ms(options.grace),
            holder_lease_ms: ms(options.holder_lease),
            session_ttl_ms: ms(options.session_ttl),
            retention_ms: ms(options.retention),
            batch: options.batch,
            cleanup_interval_ms: ms(options.cleanup_interval),
            reap: match options.reap {
                Reap::Claims => "claims",
                _ => "cleanup",
            },
            claim_lease_ms: ms(options.claim_lease),
            max_attempts: options.max_attempts,
            max_holders: options.max_holders,
            max_sessions: options.max_sessions,
            migration_lease_ms: ms(options.migration_lease),
            reconcile_interval_ms: ms(options.reconcile_interval),
        }
    }
}
