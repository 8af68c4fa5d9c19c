//! Accounting as it is often written first: a drift with a destructor that settles it at the thread's end,
//! guarded by a flag, since the first access of a thread-local with a destructor may allocate.
//!
//! Three accesses a call: the flag is set, the drift is added to, the flag is cleared. This is the shape
//! that Apache DataFusion Comet's accounting had at first (apache/datafusion-comet#5934, September 2026).

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicIsize, Ordering::Relaxed};

/// Drift of a thread, in bytes, from which it is settled.
const THRESHOLD: isize = 64 * 1024;

/// Bytes allocated and not freed, less the drifts of the threads.
static BALANCE: AtomicIsize = AtomicIsize::new(0);

/// A thread's part of the balance that is not in [`BALANCE`] yet.
struct Drift(Cell<isize>);

impl Drop for Drift {
    fn drop(&mut self) {
        BALANCE.fetch_add(self.0.get(), Relaxed);
    }
}

thread_local! {
    static DRIFT: Drift = const { Drift(Cell::new(0)) };
    static ENTERED: Cell<bool> = const { Cell::new(false) };
}

/// The balance, in bytes; off by at most the threshold for each thread that lives.
pub fn balance() -> i64 {
    BALANCE.load(Relaxed) as i64
}

#[inline]
fn track(change: isize) {
    if ENTERED.with(|entered| entered.replace(true)) {
        BALANCE.fetch_add(change, Relaxed);
        return;
    }
    let added = DRIFT.try_with(|drift| {
        let total = drift.0.get() + change;
        if total.abs() < THRESHOLD {
            drift.0.set(total);
        } else {
            drift.0.set(0);
            BALANCE.fetch_add(total, Relaxed);
        }
    });
    if added.is_err() {
        BALANCE.fetch_add(change, Relaxed);
    }
    ENTERED.with(|entered| entered.set(false));
}

/// `System`, with its bytes counted.
pub struct Counting;

// SAFETY: every call is handed on to `System` as it is; the accounting neither allocates through this
// allocator unguarded nor unwinds.
unsafe impl GlobalAlloc for Counting {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are those of `System`.
        let block = unsafe { System.alloc(layout) };
        if !block.is_null() {
            track(layout.size() as isize);
        }
        block
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        let block = unsafe { System.alloc_zeroed(layout) };
        if !block.is_null() {
            track(layout.size() as isize);
        }
        block
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        track(-(layout.size() as isize));
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) };
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above.
        let moved = unsafe { System.realloc(block, layout, size) };
        if !moved.is_null() {
            track(size as isize - layout.size() as isize);
        }
        moved
    }
}
