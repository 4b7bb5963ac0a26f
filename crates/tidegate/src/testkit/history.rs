//! How random histories are run, in every room.

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, TestCaseResult, TestRunner};

/// How many operations are run on memory, and parts of it on other stores. `TIDEGATE_HISTORY_OPS` says how many;
/// the default keeps the suite quick.
pub fn operations() -> usize {
    std::env::var("TIDEGATE_HISTORY_OPS").map_or(100_000, |ops| ops.parse().expect("a number"))
}

/// Runs so many random histories; the shortest that is found to fail is told.
pub(super) fn run<S: Strategy>(cases: usize, values: &S, history: impl AsyncFn(S::Value) -> TestCaseResult) {
    let config = Config { cases: cases.max(1) as u32, failure_persistence: None, ..Config::default() };
    TestRunner::new(config)
        .run(values, |value| {
            // With its runtime ends what a history has left in the background.
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(history(value))
        })
        .unwrap_or_else(|failure| panic!("{failure}"));
}
