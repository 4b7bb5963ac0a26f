//! A limit in this process, without a runtime: a sliding window, a refusal with its time, a refund
//! and a reservation. The clock is moved by hand, so that nothing has to be waited for.
//!
//! ```text
//! cargo run -p tidegate --example limit
//! ```

use std::time::Duration;

use tidegate::clock::{ManualClock, Timestamp};
use tidegate::limit::{Decision, InProcess, LimitOptions, Reserve, Sliding};
use tidegate::{Cost, Key};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let clock = ManualClock::at(Timestamp::from_millis(1_700_000_000_000));
    let five_a_minute = Sliding::new("5/m".parse()?, Duration::from_secs(60))?;
    let limit = InProcess::with(five_a_minute, &LimitOptions::new().max_keys(10_000), clock.clone().into())?;
    let user = Key::new("user_123")?;

    for _ in 0..4 {
        assert!(limit.take(user, Cost::ONE)?.is_admitted());
    }
    let Decision::Admitted(last) = limit.take(user, Cost::ONE)? else { panic!("it was the fifth") };
    println!("the fifth is admitted, {} are left", last.quota.remaining);

    let refused = limit.take(user, Cost::ONE)?;
    let wait = refused.wait().ok_or("one fits later")?;
    println!("the sixth is not: come back in {} ms", wait.retry_after_ms);
    assert!(!refused.is_admitted());

    // Exactly then, and not a millisecond earlier.
    clock.advance_ms(wait.retry_after_ms - 1);
    assert!(!limit.peek(user)?.is_admitted());
    clock.advance_ms(1);
    let decision = limit.take(user, Cost::ONE)?;
    assert!(decision.is_admitted());

    // The work failed: give the permit back. Twice does no harm.
    let receipt = decision.receipt().ok_or("it was charged")?;
    assert_eq!((limit.refund(user, receipt)?, limit.refund(user, receipt)?), (1, 0));

    // Or hold first, and spend when it is done.
    let held = limit.reserve(user, "order-17", Cost::new(2)?, Duration::from_secs(30))?;
    assert!(matches!(held, Reserve::Held(_)));
    limit.commit(user, "order-17")?;
    println!("{} are left", limit.peek(user)?.quota().remaining);
    assert_eq!(limit.peek(user)?.quota().remaining, 3);
    Ok(())
}
