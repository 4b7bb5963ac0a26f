//! Hot pages in this process, without a runtime: out of many edits, which pages are hot right now.
//!
//! ```text
//! cargo run -p tidegate --example hot
//! ```

use tidegate::Key;
use tidegate::clock::{ManualClock, Timestamp};
use tidegate::hot::{Edit, HotOptions, InProcess, WhenFull};

fn main() -> tidegate::Result<()> {
    let clock = ManualClock::at(Timestamp::from_millis(1_700_000_000_000));
    let options = HotOptions::new().hot_threshold(3).max_tracked(2).when_full(WhenFull::ReplaceColdest);
    let hot = InProcess::with_clock(options, clock.clone().into())?;

    // Page number n of 1 to 20 is edited n times.
    for page in 1..=20 {
        let name = format!("page {page}");
        for edit in 0..page {
            let (id, editor) = (format!("{page}-{edit}"), format!("editor {}", edit % 4));
            hot.record(&Edit::new(Key::new(&name)?, &id, &editor))?;
            clock.advance_ms(100);
        }
    }
    for page in hot.list(10) {
        println!("{}: {} edits, the last at {}", page.page, page.edits, page.last_seen);
    }
    let hottest: Vec<_> = hot.list(10).into_iter().map(|it| it.page).collect();
    assert_eq!(hottest, ["page 20", "page 19"], "never more than two are tracked");

    let stats = hot.stats(Key::new("page 20")?);
    assert_eq!((stats.edits_last_hour, stats.unique_editors), (20, 4));

    // An hour later nobody edits any more.
    clock.advance_ms(3_600_000);
    assert_eq!((hot.count(), hot.cleanup()), (0, 2));
    println!("an hour later: none, and {} bytes", hot.bytes());
    Ok(())
}
