//! Accounting with one thread-local access a call: drift and phase of the thread share a thread-local that
//! needs no destructor; a second one, which has it, is touched when a thread is first seen and at its end.
//!
//! This is the shape that Apache DataFusion Comet's accounting took on (apache/datafusion-comet#6166,
//! September 2026), since each access is a call of `__tls_get_addr` in a library loaded with `dlopen`.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicIsize, Ordering::Relaxed};

/// Drift of a thread, in bytes, from which it is settled.
const THRESHOLD: isize = 64 * 1024;

/// Bytes allocated and not freed, less the drifts of the threads.
static BALANCE: AtomicIsize = AtomicIsize::new(0);

/// Phases of a thread. In every phase but `REGISTERED` changes go to the shared balance at once.
const UNREGISTERED: u8 = 0;
const REGISTERING: u8 = 1;
const REGISTERED: u8 = 2;
const EXITED: u8 = 3;

/// What is known of a thread.
struct State {
    /// The thread's part of the balance that is not in [`BALANCE`] yet.
    drift: Cell<isize>,
    phase: Cell<u8>,
}

/// Settles the thread's drift when it ends.
struct SettleOnExit;

impl Drop for SettleOnExit {
    fn drop(&mut self) {
        STATE.with(|state| {
            state.phase.set(EXITED);
            BALANCE.fetch_add(state.drift.replace(0), Relaxed);
        });
    }
}

thread_local! {
    static STATE: State = const {
        State { drift: Cell::new(0), phase: Cell::new(UNREGISTERED) }
    };
    static SETTLE_ON_EXIT: SettleOnExit = const { SettleOnExit };
}

/// The balance, in bytes; off by at most the threshold for each thread that lives.
pub fn balance() -> i64 {
    BALANCE.load(Relaxed) as i64
}

#[inline]
fn track(change: isize) {
    STATE.with(|state| {
        if state.phase.get() != REGISTERED {
            return track_unregistered(state, change);
        }
        let total = state.drift.get() + change;
        if total.abs() < THRESHOLD {
            state.drift.set(total);
        } else {
            state.drift.set(0);
            BALANCE.fetch_add(total, Relaxed);
        }
    });
}

#[cold]
#[inline(never)]
fn track_unregistered(state: &State, change: isize) {
    BALANCE.fetch_add(change, Relaxed);
    if state.phase.get() == UNREGISTERED {
        // To register the destructor may allocate.
        state.phase.set(REGISTERING);
        if SETTLE_ON_EXIT.try_with(|_| ()).is_ok() {
            state.phase.set(REGISTERED);
        } else {
            state.phase.set(EXITED);
        }
    }
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
