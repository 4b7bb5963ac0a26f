//! Counts what the heap holds, while asked to.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

/// The system's allocator, and two counters that move only while counting is on:
/// timed runs are not slowed down by them.
pub(crate) struct Counting;

static IS_ON: AtomicBool = AtomicBool::new(false);
static ASKED: AtomicI64 = AtomicI64::new(0);
static TAKEN: AtomicI64 = AtomicI64::new(0);

/// Bytes that came to the heap and stayed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Growth {
    /// What the program asked for.
    pub(crate) asked: f64,
    /// What that takes, rounding and the allocator's own bookkeeping included.
    pub(crate) taken: f64,
}

/// Runs `work`, and how much the heap has grown by it. What `work` returns counts.
/// Only one at a time, and nothing else may allocate meanwhile.
pub(crate) fn growth<R>(work: impl FnOnce() -> R) -> (R, Growth) {
    let read = || (ASKED.load(Ordering::Relaxed), TAKEN.load(Ordering::Relaxed));
    let before = read();
    IS_ON.store(true, Ordering::SeqCst);
    let made = work();
    IS_ON.store(false, Ordering::SeqCst);
    let after = read();
    (made, Growth { asked: (after.0 - before.0) as f64, taken: (after.1 - before.1) as f64 })
}

/// Each allocation carries a word of bookkeeping in glibc.
const HEADER: usize = size_of::<usize>();

#[allow(unsafe_code, reason = "an allocator cannot be written without")]
mod counting {
    use super::*;

    fn count(sign: i64, pointer: *mut u8, layout: Layout) {
        if pointer.is_null() {
            return;
        }
        // SAFETY: the pointer is not null and a live allocation of `malloc`,
        // which is where `System` takes its memory from.
        let usable = unsafe { libc::malloc_usable_size(pointer.cast()) };
        ASKED.fetch_add(sign * layout.size() as i64, Ordering::Relaxed);
        TAKEN.fetch_add(sign * (usable + HEADER) as i64, Ordering::Relaxed);
    }

    // SAFETY: every call goes to `System` as it came.
    unsafe impl GlobalAlloc for Counting {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            // SAFETY: the caller keeps the contract, which is the same.
            let pointer = unsafe { System.alloc(layout) };
            if IS_ON.load(Ordering::Relaxed) {
                count(1, pointer, layout);
            }
            pointer
        }

        unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
            if IS_ON.load(Ordering::Relaxed) {
                count(-1, pointer, layout);
            }
            // SAFETY: as above.
            unsafe { System.dealloc(pointer, layout) }
        }

        // Not left to their defaults, which zero and copy by hand.
        unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
            // SAFETY: as above.
            let pointer = unsafe { System.alloc_zeroed(layout) };
            if IS_ON.load(Ordering::Relaxed) {
                count(1, pointer, layout);
            }
            pointer
        }

        unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
            let is_on = IS_ON.load(Ordering::Relaxed);
            if is_on {
                count(-1, pointer, layout);
            }
            // SAFETY: as above.
            let moved = unsafe { System.realloc(pointer, layout, new_size) };
            if is_on {
                match Layout::from_size_align(new_size, layout.align()) {
                    Ok(new) if !moved.is_null() => count(1, moved, new),
                    _ => count(1, pointer, layout),
                }
            }
            moved
        }
    }
}
