//! What every space of hot pages must do, whatever it stands on.
//!
//! The cases are written once, against [`Face`]: a space as a caller sees it, be it the
//! library's or one behind HTTP. A store joins by telling how to make fresh ones ([`Kit`]),
//! naming itself in [`hot_conformance!`](crate::hot_conformance), and running
//! [random histories](history::check) beside the [model](HotModel).

mod cases;
mod counting;
mod face;
pub mod history;
mod model;

pub use self::cases::*;
pub use self::counting::*;
pub use self::face::{Face, Happened, Kit, Library, Many, options};
pub use self::model::HotModel;
use crate::hot::EventKind;

/// The time at which every space starts.
pub const START_MS: u64 = 1_700_000_000_123;

/// All that can happen to a page.
pub const KINDS: [EventKind; 8] = EventKind::OF_PAGES;

/// Runs every case against a kit: `hot_conformance!(memory, make_kit())` makes a module
/// `memory` with a test per case.
#[macro_export]
macro_rules! hot_conformance {
    ($store:ident, $kit:expr) => {
        $crate::conformance_cases!(hot, $store, $kit;
            an_edit_counts_until_the_last_millisecond_of_its_window
            activity_is_remembered_until_the_last_millisecond_of_ten_minutes
            an_edit_that_comes_late_counts_for_what_is_left_of_its_window
            a_full_window_keeps_the_newest_whatever_order_they_come_in
            a_clock_that_steps_back_changes_nothing
            an_absurd_leap_of_the_clock_is_forgotten
            bounds_of_one_are_bounds_of_one
            all_hot_pages_are_listed_page_by_page_each_once
            as_many_as_there_are_can_be_listed
            wrong_input_is_an_error_and_changes_nothing
        );
    };
}

/// The same of spaces that only count.
#[macro_export]
macro_rules! hot_counting_conformance {
    ($store:ident, $kit:expr) => {
        $crate::conformance_cases!(hot, $store, $kit;
            a_count_counts_until_the_end_of_its_slot_and_the_window
            counts_before_a_page_is_hot_are_remembered_for_ten_minutes
            what_a_space_does_not_take_is_an_error_and_changes_nothing
            a_batch_of_counts_comes_to_the_same_however_it_is_split
            a_counted_page_beyond_the_bound_is_rejected_or_replaces_the_coldest
            counts_beyond_the_most_add_nothing
        );
    };
}
