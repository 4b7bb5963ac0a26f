//! The server from outside: its routes, its settings, its commands, its life.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod algorithms;
mod all;
mod api;
mod bad_input;
mod chaos;
mod cli;
mod config;
mod conformance;
mod corrupt;
mod declarations;
mod fast_path;
mod hot;
mod hot_bulk;
mod hot_cli;
mod hot_corrupt;
mod hot_events;
mod hot_redis;
mod hot_replay;
mod layout;
mod lifecycle;
mod listing;
mod metrics;
mod on_redis;
mod openapi;
mod outage;
mod overrides;
mod readiness;
mod receipts;
mod reservations;
mod session;
mod session_alerts;
mod session_chaos;
mod session_checked;
mod session_cli;
mod session_corrupt;
mod session_history;
mod session_reconcile;
mod session_redis;
mod session_stall;
mod space_names;
mod store_log;
mod support;
mod timing;
mod together;
