//! Sessions in this process, without a runtime: held by leases, left by silence, reaped with side
//! effects that run at least once.
//!
//! ```text
//! cargo run -p tidegate --example sessions
//! ```

use std::time::Duration;

use tidegate::Key;
use tidegate::clock::{ManualClock, Timestamp};
use tidegate::session::{Answer, InProcess, Reap, Refusal, SessionOptions, State};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let clock = ManualClock::at(Timestamp::from_millis(1_700_000_000_000));
    let seconds = Duration::from_secs;
    let options = SessionOptions::new().holder_lease(seconds(45)).grace(seconds(30)).reap(Reap::Claims);
    let sessions = InProcess::with_clock(options, clock.clone().into())?;

    let (channel, tab) = (Key::new("channel_7")?, Key::new("tab-1")?);
    let id = sessions.activate(channel, r#"{"theme":"dark"}"#, Some(tab))?.into_result()?.id;
    assert_eq!(sessions.delete(id), Answer::Refused(Refusal::Active));

    // The tab crashes: nobody hears of it. Somebody looks after the space meanwhile, as a timer would.
    for _ in 0..8 {
        clock.advance_ms(7_500);
        sessions.stamp();
    }
    let session = sessions.get(id).ok_or("it is still there")?;
    println!("{} is {}, since {:?}", session.broadcaster, session.state.as_str(), session.last_disconnect);
    assert_eq!(session.state, State::Disconnected, "its lease ended 15 seconds ago");

    // Nobody comes back within the grace: its side effects run, and it is gone.
    clock.advance_ms(15_000);
    for claim in sessions.claim(10).claims {
        println!("{} was left behind: token {}", claim.broadcaster, claim.generation.get());
        assert_eq!(sessions.resume(id, tab), Answer::Refused(Refusal::Reaping));
        sessions.ack(claim.id, claim.generation).into_result()?;
    }
    assert_eq!(sessions.resume(id, tab), Answer::Refused(Refusal::Gone));
    assert_eq!(sessions.counts().active + sessions.counts().disconnected, 0);
    Ok(())
}
