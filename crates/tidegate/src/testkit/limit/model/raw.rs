//! What was admitted and when, and nothing else.

/// Everything that was admitted, and when.
#[derive(Debug, Default)]
pub struct RawEvents(Vec<(u64, u64)>);

impl RawEvents {
    /// Remembers an admission; its number.
    pub fn admitted(&mut self, at_ms: u64, cost: u64) -> usize {
        self.0.push((at_ms, cost));
        self.0.len() - 1
    }

    /// Forgets what was given back; whether it had not been before.
    pub fn gave_back(&mut self, event: usize) -> bool {
        std::mem::take(&mut self.0[event].1) > 0
    }

    /// The most that any window holds that ends with an event, both ends
    /// included. If any window at all held more, one of these would.
    pub fn fullest_window(&self, window_ms: u64) -> u64 {
        let held_until = |end: u64| {
            let inside = |(at, _): &&(u64, u64)| *at <= end && *at + window_ms >= end;
            self.0.iter().filter(inside).map(|(_, cost)| cost).sum()
        };
        self.0.iter().map(|(at, _)| held_until(*at)).max().unwrap_or(0)
    }
}
