//! Room for what is being read: rules leave for it before it is made.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::task::yield_now;

use super::core::Core;

/// Room that is made in one step: lookups wait for no more.
const STEP_BYTES: usize = 128 << 10;

/// Bytes that all who read have set aside.
#[derive(Debug, Default)]
pub(crate) struct ReservedBytes(AtomicUsize);

impl ReservedBytes {
    pub(crate) fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// What one of them has.
#[derive(Debug)]
pub(super) struct Reserved<'a, O> {
    core: &'a Core<O>,
    bytes: usize,
}

impl<'a, O> Reserved<'a, O> {
    pub(super) fn none(core: &'a Core<O>) -> Self {
        Self { core, bytes: 0 }
    }

    /// Makes room until there is so much, a little at a time. By how many bytes it is too much even so.
    pub(super) async fn grow_to(&mut self, bytes: usize) -> usize {
        let mut excess = 0;
        while self.bytes < bytes {
            self.set(bytes.min(self.bytes + STEP_BYTES));
            excess = self.excess();
            yield_now().await;
        }
        excess
    }

    /// By how many bytes all is more than the bound, with those gone who can.
    pub(super) fn excess(&self) -> usize {
        self.core.write(|state| {
            state.fit();
            state.bytes().saturating_sub(state.bounds.all)
        })
    }

    /// So much is needed from now on, for which there is room.
    pub(super) fn set(&mut self, bytes: usize) {
        let all = &self.core.reserved.0;
        match bytes.checked_sub(self.bytes) {
            Some(more) => all.fetch_add(more, Ordering::Relaxed),
            None => all.fetch_sub(self.bytes - bytes, Ordering::Relaxed),
        };
        self.bytes = bytes;
    }
}

impl<O> Drop for Reserved<'_, O> {
    fn drop(&mut self) {
        self.set(0);
    }
}
