//! The process's memory beside what was accounted: allocators keep more than was asked of them.

use super::core::Core;

impl<O> Core<O> {
    /// Lowers what may be kept by what the process has beyond it, and no further than to half.
    pub(super) fn correct(&self) {
        if !self.options.is_alone {
            return;
        }
        let Some(resident) = resident_bytes() else { return };
        let most = self.options.max_bytes;
        self.write(|state| {
            // What the process had before anything was kept is not the cache's.
            let beyond = resident.saturating_sub(self.resident_before).saturating_sub(most);
            let bound = match beyond {
                // It goes back slowly, so that it does not swing.
                0 => (state.bounds.all + most / 100).min(most),
                _ => state.bounds.all.saturating_sub(beyond).max(most / 2),
            };
            state.bounds.all = bound;
            state.fit();
        });
    }
}

/// What the process has in memory of its own.
pub(super) fn resident_bytes() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let kib = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    kib.trim().strip_suffix(" kB")?.trim().parse::<usize>().ok().map(|kib| kib << 10)
}
