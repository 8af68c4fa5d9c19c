//! Memory goes back to the system.
//!
//! Twice a second the heaps of all threads are swept, those that sleep included, and what was idle the
//! time before is given back: by whichever thread comes by with a call that leaves the fast path, or by
//! one of its own (`background.rs`).

use crate::heap::Heap;
use crate::slot::Access;
use crate::{heap, huge, pool, ring_of_sleeper};
use core::sync::atomic::{AtomicU64, Ordering::*};
use homefree_thread::sys;

/// Nanoseconds between two turns.
pub(crate) const TURN: u64 = 500_000_000;

static NEXT: AtomicU64 = AtomicU64::new(0);

/// Takes the turn, if it is time. At the calling thread's own pace, what it collected goes home.
pub(crate) fn tick(heap: Option<&Heap>) {
    let now = sys::clock(libc::CLOCK_MONOTONIC_COARSE);
    if let Some(heap) = heap
        && now >= heap.flushed.load(Relaxed) + TURN
    {
        heap.flushed.store(now, Relaxed);
        heap.flush();
    }
    let next = NEXT.load(Relaxed);
    if now >= next
        && NEXT
            .compare_exchange(next, now + TURN, AcqRel, Relaxed)
            .is_ok()
    {
        turn();
    }
}

/// Sweeps all heaps and gives back what was idle at the last turn too. True if the sweep found something.
pub(crate) fn turn() -> bool {
    ring_of_sleeper::flush_all();
    let swept = heap::sweep_all();
    pool::POOL.lock().purge(false);
    huge::purge(false);
    swept > 0
}

/// Something that grows with the memory that the system could have.
pub(crate) fn idle() -> usize {
    pool::RETAINED.load(Relaxed) + huge::RETAINED.load(Relaxed)
}

/// Gives back all that is idle, now. True if something was.
pub fn trim<A: Access>() -> bool {
    // SAFETY: the slot of the calling thread; null or a heap, which are never freed.
    if let Some(heap) = unsafe { (*A::slot()).heap.get().as_ref() } {
        heap.flush();
    }
    ring_of_sleeper::flush_all();
    heap::sweep_all();
    let before = idle();
    pool::POOL.lock().purge(true);
    huge::purge(true);
    idle() < before
}
