//! Processor time of a process, from Linux.

use std::time::Duration;

use anyhow::{Context as _, Result};

/// What all threads of a process have used so far. A thread that ends takes its
/// share along, so compare only while none does.
pub(crate) fn used_by(pid: u32) -> Result<Duration> {
    let tasks = format!("/proc/{pid}/task");
    let mut used_ns = 0;
    for task in std::fs::read_dir(&tasks).with_context(|| tasks.clone())? {
        // A thread may end between the listing and the reading.
        let Ok(text) = std::fs::read_to_string(task?.path().join("schedstat")) else { continue };
        let on_cpu = text.split_whitespace().next().and_then(|field| field.parse::<u64>().ok());
        used_ns += on_cpu.with_context(|| format!("{tasks}: schedstat says {text:?}"))?;
    }
    Ok(Duration::from_nanos(used_ns))
}
