//! Hot pages in this process, without a runtime: out of many edits, which pages are hot right now.
//!
//! ```text
//! cargo run -p tidegate --example hot
//! ```

use tidegate::Key;
use tidegate::clock::{ManualClock, Timestamp};
use tidegate::hot::{Edit, HotOptions, InProcess, Recorded};

fn main() -> tidegate::Result<()> {
    let clock = ManualClock::at(Timestamp::from_millis(1_700_000_000_000));
    let options = HotOptions::new().hot_threshold(3).max_tracked(10);
    let hot = InProcess::with_clock(options, clock.clone().into())?;

    // Page number n of 1 to 12 is edited n times.
    for page in 1..=12 {
        let name = format!("page {page}");
        for edit in 0..page {
            let (id, editor) = (format!("{page}-{edit}"), format!("editor {}", edit % 4));
            hot.record(&Edit::new(Key::new(&name)?, &id, &editor))?;
            clock.advance_ms(100);
        }
    }
    for page in hot.list(3) {
        println!("{}: {} edits, the last at {}", page.page, page.edits, page.last_seen);
    }
    let hottest: Vec<_> = hot.list(3).into_iter().map(|it| it.page).collect();
    assert_eq!(hottest, ["page 12", "page 11", "page 10"]);
    assert!(!hot.is_hot(Key::new("page 2")?), "two edits are not enough");
    let stats = hot.stats(Key::new("page 12")?);
    assert_eq!((stats.edits_last_hour, stats.unique_editors), (12, 4));

    // Ten are tracked, and never more.
    let new = Key::new("page 13")?;
    for id in ["a", "b"] {
        assert_eq!(hot.record(&Edit::new(new, id, "somebody"))?, Recorded::Remembered);
    }
    assert_eq!(hot.record(&Edit::new(new, "c", "somebody"))?, Recorded::Rejected);

    // An hour later nobody edits any more.
    clock.advance_ms(3_600_000);
    assert_eq!((hot.tracked(), hot.cleanup()), (0, 10));
    println!("an hour later: none, and {} bytes", hot.bytes());
    Ok(())
}
