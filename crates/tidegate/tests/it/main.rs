//! Everything that needs a server, a proxy or a lot of histories: one binary, so
//! that it is linked once.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod acl;
mod chance;
mod conformance;
mod connections;
mod declarations;
mod differential;
mod full_memory;
mod hot;
mod hot_audit;
mod hot_bounds;
mod hot_corrupt;
mod hot_events;
mod hot_flaws;
mod hot_full;
mod hot_memory;
mod hot_outage;
mod hot_repair;
mod idle_connections;
mod keeper;
mod key_names;
mod keys;
mod kit;
mod layer;
mod lease;
mod limit_corrupt;
mod listing;
mod log_lines;
mod loss;
mod moved_slots;
mod outage;
mod override_rates;
mod overrides;
mod pages;
mod ranges;
mod reservations;
mod session;
mod session_audit;
mod session_corrupt;
mod session_effects;
mod session_flaws;
mod session_foreign;
mod session_hold;
mod session_hold_log;
mod session_interleavings;
mod session_migration;
mod session_outage;
mod session_reaper;
mod session_rollback;
mod session_world;
mod skew;
mod soak;
mod space_names;
mod timing;
