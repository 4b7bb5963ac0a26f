//! Time that passes: what leases and calls to a store end by.

use std::time::Duration;

use super::monotonic;

/// Time since the machine was started, sleep included: what a lease ends by. A clock
/// that stops with the machine would let permits be spent after their end.
pub fn since_boot() -> Duration {
    #[cfg(target_os = "linux")]
    let clock = rustix::time::ClockId::Boottime;
    // Elsewhere the monotonic clock goes on in sleep, or there is nothing better.
    #[cfg(not(target_os = "linux"))]
    let clock = rustix::time::ClockId::Monotonic;
    let time = rustix::time::clock_gettime(clock);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

/// The instant `after` from now.
pub(crate) fn deadline(after: Duration) -> tokio::time::Instant {
    (monotonic() + after).into()
}
