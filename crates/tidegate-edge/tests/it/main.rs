//! Everything that needs a database.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod budget;
mod clicks;
mod conformance;
mod crowd;
mod flaws;
mod followers;
mod histories;
mod import;
mod import_lists;
mod killed;
mod killed_writes;
mod kit;
mod list;
mod postgres;
mod postgres_import;
mod postgres_outages;
mod replica;
mod sqlite;
mod stream;
mod writers;
