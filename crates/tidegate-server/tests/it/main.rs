//! The server from outside: its routes, its settings, its commands, its life.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod api;
mod bad_input;
mod cli;
mod config;
mod conformance;
mod lifecycle;
mod outage;
mod support;
mod timing;
mod together;
