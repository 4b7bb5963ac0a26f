//! What every space of sessions must do, whatever it stands on.
//!
//! The cases are written once, against [`Face`]: a space as a caller sees it, be it the
//! library's or one behind HTTP. A store joins by telling how to make fresh ones ([`Kit`]),
//! naming itself in [`session_conformance!`](crate::session_conformance), and running
//! [random histories](history::check) beside the [model](SessionModel).

pub mod answers;
mod cases;
mod face;
pub mod history;
mod model;
mod op;

pub use self::cases::*;
pub use self::face::{Face, Granted, Held, Kit, Library, options};
pub use self::model::SessionModel;

/// The time at which every space starts.
pub const START_MS: u64 = 1_700_000_000_000;

/// A session that nobody ever made.
pub const NOBODY: &str = "67e55044-10b1-426f-9247-bb680e5fe0c8";

/// Runs every case against a kit: `session_conformance!(memory, make_kit())` makes a module
/// `memory` with a test per case.
#[macro_export]
macro_rules! session_conformance {
    ($store:ident, $kit:expr) => {
        $crate::conformance_cases!(session, $store, $kit;
            a_lease_ends_at_its_last_millisecond_and_the_session_with_it
            an_orphan_is_due_when_its_grace_is_over_and_not_before
            after_its_ttl_a_session_is_gone_for_clients_and_still_there_for_reapers
            an_activated_session_waits_a_lease_for_somebody_to_connect
            bounds_on_holders_and_sessions_are_exact
            names_may_be_anything_and_meet_nobody_elses
            pages_of_a_list_are_the_list
            a_clock_that_was_absurdly_ahead_holds_nothing_for_ever
            a_clock_that_was_ahead_for_a_moment_does_not_stop_a_space
        );
    };
}
