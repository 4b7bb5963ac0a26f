//! What the log says of a space that is full.

use tidegate::hot::{Recorded, WhenFull};

use crate::hot::{MINUTE, PROMOTED, Space};
use crate::log_lines::{Line, LogLines};

/// How many pages were refused, by each warning since the last look.
fn refused_by(log: &LogLines) -> Vec<u64> {
    log.take("as many pages are hot as may be")
        .iter()
        .map(|line| line.fields["refused"].parse().unwrap())
        .collect()
}

#[tokio::test]
async fn a_full_space_warns_once_a_minute_with_how_many_were_refused() {
    for when_full in [WhenFull::Refuse, WhenFull::ReplaceColdest] {
        let set = |it: &mut tidegate::hot::HotOptions| {
            (it.max_tracked, it.hot_threshold, it.when_full) = (1, 1, when_full);
        };
        for space in Space::everywhere(set).await {
            let (on, log) = (space.on, LogLines::default());
            let _guard = tracing::subscriber::set_default(log.clone());
            // Two edits: none that comes with one is hotter.
            assert_eq!(space.record("p", "1").await, PROMOTED, "{on}");
            assert_eq!(space.record("p", "2").await, Recorded::Added, "{on}");
            assert_eq!(refused_by(&log), [0; 0], "{on}: there was room");
            let refused = async |from: u32, to: u32| {
                for page in from..to {
                    assert_eq!(space.record(&format!("q{page}"), "1").await, Recorded::Rejected, "{on}");
                }
            };
            refused(0, 1).await;
            assert_eq!(refused_by(&log), [1], "{on}: the first is told at once");
            refused(1, 8).await;
            space.clock.advance_ms(MINUTE - 1);
            refused(8, 9).await;
            assert_eq!(refused_by(&log), [0; 0], "{on}: not within a minute");
            space.clock.advance_ms(1);
            refused(9, 10).await;
            assert_eq!(refused_by(&log), [9], "{on}: all since then");
            space.clock.advance_ms(MINUTE);
            refused(10, 11).await;
            let [Line { fields, .. }] = &log.take("raise max_tracked")[..] else { panic!("{on}: not told") };
            assert_eq!(fields["refused"], "1", "{on}");
        }
    }
}
