//! Processor time of processes, and what they have in memory, from Linux.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

/// What all threads of a process have used so far, also those that have ended; to the nanosecond.
pub(crate) fn used_by(pid: u32) -> Result<Duration> {
    let mut clock = 0;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    #[allow(unsafe_code, reason = "nobody else reads this clock")]
    // SAFETY: both write to what they are given, which is there.
    let is_read = unsafe {
        libc::clock_getcpuclockid(pid as libc::pid_t, &raw mut clock) == 0
            && libc::clock_gettime(clock, &raw mut time) == 0
    };
    ensure!(is_read, "the processor time of process {pid} cannot be read");
    Ok(Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
}

/// What the children of a process have used that have ended; to a hundredth of a second.
pub(crate) fn used_by_ended_children(pid: u32) -> Result<Duration> {
    let path = format!("/proc/{pid}/stat");
    let text = std::fs::read_to_string(&path).with_context(|| path.clone())?;
    // Of what stands behind the name, which may have anything in it, the 14th and the 15th.
    let (_, fields) = text.rsplit_once(')').with_context(|| format!("{path} says {text:?}"))?;
    let times = fields.split_whitespace().skip(13).take(2).map(str::parse::<u64>);
    let ticks: u64 = times.sum::<Result<_, _>>().with_context(|| format!("{path} says {text:?}"))?;
    Ok(Duration::from_millis(ticks * 10))
}

/// The processes that a process has started and that have not ended.
pub(crate) fn children(pid: u32) -> Result<Vec<u32>> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let text = std::fs::read_to_string(&path).with_context(|| path.clone())?;
    Ok(text.split_whitespace().filter_map(|child| child.parse().ok()).collect())
}

/// What a process has in memory, in bytes: of what it shares, its part.
pub(crate) fn pss_bytes(pid: u32) -> Result<f64> {
    let path = format!("/proc/{pid}/smaps_rollup");
    let text = std::fs::read_to_string(&path).with_context(|| path.clone())?;
    let kib = text.lines().find_map(|line| line.strip_prefix("Pss:")?.trim().strip_suffix(" kB"));
    let kib = kib.and_then(|kib| kib.trim().parse::<f64>().ok());
    Ok(kib.with_context(|| format!("{path} says {text:?}"))? * 1024.0)
}
