//! What every space of runs must do, whatever it stands on.
//!
//! The cases are written once, against [`Face`]: a space as a caller sees it, be it the library's or
//! one behind HTTP. A store joins by telling how to make fresh ones ([`Kit`]), naming itself in
//! [`run_conformance!`](crate::run_conformance), and running [random histories](history::check)
//! beside the [model](RunModel).

mod cases;
mod face;
pub mod history;
mod item_cases;
mod model;
mod op;

pub use self::cases::*;
pub use self::face::{
    Face, Granted, Kit, Library, all_failures, all_in_hour, all_runs, all_to_retry, options,
};
pub use self::item_cases::*;
pub use self::model::RunModel;

/// The time at which every space starts: 2023-11-14, 22:13:20 of UTC.
pub const START_MS: u64 = 1_700_000_000_000;

/// Texts that something on the way might read as something else.
pub const ODD_TEXTS: [&str; 12] = [
    "100000000000001",
    "007",
    "manual_2024-09-17T14:30:00+00:00",
    "a:b",
    "a%3Ab",
    "{tag}",
    "it's \"quoted\"",
    "two\nlines\r\n",
    "nul\0byte",
    "Ünïcode ☃",
    "[]",
    " ",
];

/// Runs every case against a kit: `run_conformance!(memory, make_kit())` makes a module
/// `memory` with a test per case.
#[macro_export]
macro_rules! run_conformance {
    ($store:ident, $kit:expr) => {
        $crate::conformance_cases!(run, $store, $kit;
            a_run_is_started_once_and_who_comes_later_is_told
            live_states_follow_each_other_and_a_terminal_one_is_left_by_retry_alone
            a_retry_is_idempotent_and_clears_nothing
            who_means_another_attempt_changes_nothing
            a_run_ends_its_ttl_after_its_last_update_and_all_of_it
            a_new_run_begins_with_nothing
            a_cleanup_goes_on_until_nothing_is_over
            expire_only_shortens_a_life
            a_deleted_run_is_remembered_for_the_rest_of_its_life
            fields_come_back_as_they_went_in_and_are_bounded
            pages_of_runs_are_the_list_newest_first
            bounds_on_runs_and_tasks_are_exact
            a_clock_that_steps_back_brings_nothing_back
            a_clock_that_was_absurdly_ahead_keeps_nothing_for_ever
            texts_come_back_as_they_went_in
            items_are_counted_once_whoever_brings_them
            the_bound_on_processed_items_is_exact_and_what_was_taken_is_told
            a_batch_is_as_large_as_it_may_be_and_no_larger
            an_item_that_failed_is_to_be_retried_until_it_is_processed
            the_last_call_again_changes_nothing
            the_bound_on_failures_drops_the_oldest_and_tells
            failures_are_found_by_the_hour_of_the_stores_clock
            tasks_tell_how_long_they_took
            progress_tells_rate_and_end
            what_is_not_allowed_is_an_error_that_says_what_is
        );
    };
}
