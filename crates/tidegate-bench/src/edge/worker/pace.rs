//! A rate at even distances. tokio's timers go by whole milliseconds: with them all that is due within one comes at once, and
//! what is measured is how long a burst takes.

use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

use anyhow::{Context as _, Result};
use tokio::io::unix::AsyncFd;

/// A timer of the system that goes off so many times a second.
pub(super) struct Pace(AsyncFd<OwnedFd>);

impl Pace {
    pub(super) fn new(per_s: u32) -> Result<Self> {
        #[allow(unsafe_code, reason = "the system's own timers: no crate here has them")]
        // SAFETY: it is given no memory, and what it answers is checked before it is anybody's.
        let timer = unsafe {
            let timer = libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_NONBLOCK | libc::TFD_CLOEXEC);
            (timer >= 0).then(|| OwnedFd::from_raw_fd(timer))
        };
        let timer = timer.ok_or_else(io::Error::last_os_error).context("there is no timer")?;
        let each = libc::timespec {
            tv_sec: i64::from(per_s == 1),
            tv_nsec: if per_s == 1 { 0 } else { i64::from(1_000_000_000 / per_s) },
        };
        let times = libc::itimerspec { it_interval: each, it_value: each };
        #[allow(unsafe_code, reason = "as above")]
        // SAFETY: the timer is open, and the times are there while they are read.
        let set =
            unsafe { libc::timerfd_settime(timer.as_raw_fd(), 0, &raw const times, std::ptr::null_mut()) };
        if set != 0 {
            return Err(io::Error::last_os_error()).context("a timer cannot be set");
        }
        #[allow(unsafe_code, reason = "as above")]
        // SAFETY: the timer is owned by what is registered, and is the same as long as that lives.
        let registered = unsafe { AsyncFd::register(timer) };
        Ok(Self(registered?))
    }

    /// Waits until it has gone off; how often since this was last asked.
    pub(super) async fn ticks(&self) -> Result<u64> {
        loop {
            let mut ready = self.0.readable().await?;
            let read = ready.try_io(|timer| {
                let mut count = 0_u64;
                #[allow(unsafe_code, reason = "as above")]
                // SAFETY: it writes eight bytes, for which there is room.
                let read =
                    unsafe { libc::read(timer.as_raw_fd(), (&raw mut count).cast(), size_of::<u64>()) };
                if read < 0 { Err(io::Error::last_os_error()) } else { Ok(count) }
            });
            if let Ok(count) = read {
                return Ok(count?);
            }
        }
    }
}
