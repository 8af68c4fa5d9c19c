//! Memory goes back to the system.
//!
//! Twice a second whichever thread comes by (with a call that leaves the fast path) sweeps the heaps of
//! all threads, those that sleep included, and purges what was idle the time before.

use crate::{heap, huge, pool};
use core::sync::atomic::{AtomicU64, Ordering::*};
use homefree_thread::sys;

/// Nanoseconds between two turns.
const TURN: u64 = 500_000_000;

static NEXT: AtomicU64 = AtomicU64::new(0);

/// Takes the turn, if it is time.
pub(crate) fn tick_now() {
    let now = sys::clock(libc::CLOCK_MONOTONIC_COARSE);
    let next = NEXT.load(Relaxed);
    if now >= next
        && NEXT
            .compare_exchange(next, now + TURN, AcqRel, Relaxed)
            .is_ok()
    {
        turn();
    }
}

fn turn() -> usize {
    heap::sweep_all();
    pool::POOL.lock().purge(false) + huge::purge(false)
}

/// Gives back all that is idle, now. True if something was.
pub fn trim() -> bool {
    let idle = |_: ()| pool::RETAINED.load(Relaxed) + huge::RETAINED.load(Relaxed);
    heap::sweep_all();
    let before = idle(());
    pool::POOL.lock().purge(true);
    huge::purge(true);
    idle(()) < before
}
