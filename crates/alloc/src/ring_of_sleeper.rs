//! The lists that a sleeping thread collected for others go home without it.
//!
//! The owner's side is two plain stores and a load: it says that it is at its ring, and looks whether it
//! was taken. Whoever takes rings says so, has the kernel put a barrier into every running thread
//! (`membarrier`), and then looks who is at his. So one of the two always sees the other; the model is in
//! `tests/loom_ring.rs`. A kernel without that call leaves the lists with their owners.

use crate::heap::Heap;
use crate::page::{Block, Page};
use crate::{background, heap, registry};
use core::sync::atomic::{AtomicU32, Ordering::*, compiler_fence};
use homefree_thread::sys::syscall;
use homefree_thread::{Lock, sys};

/// Held while rings are taken.
pub(crate) static TAKING: Lock<()> = Lock::new(());

const NOT_ASKED: u32 = 0;
const READY: u32 = 1;
const ABSENT: u32 = 2;
static BARRIER: AtomicU32 = AtomicU32::new(NOT_ASKED);

const REGISTER_PRIVATE_EXPEDITED: usize = 1 << 4;
const PRIVATE_EXPEDITED: usize = 1 << 3;

fn membarrier(command: usize) -> bool {
    // SAFETY: changes no memory.
    unsafe { syscall(libc::SYS_membarrier, [command, 0, 0, 0, 0, 0]) == 0 }
}

/// In a child of `fork`: nobody is taking, and the kernel is asked anew.
pub(crate) fn forget() {
    BARRIER.store(NOT_ASKED, Relaxed);
    registry::each(|heap| {
        heap.at_ring.store(false, Relaxed);
        heap.ring_taken.store(false, Relaxed);
    });
}

impl Heap {
    /// Adds a block to the calling thread's, the owner's, lists.
    ///
    /// # Safety
    /// The block is of the page, and nobody's any more.
    #[inline]
    pub(crate) unsafe fn collect(&self, page: &'static Page, block: *mut Block) {
        self.at_ring.store(true, Relaxed);
        compiler_fence(SeqCst);
        if self.ring_taken.load(Acquire) {
            self.at_ring.store(false, Release);
            // SAFETY: the caller's promise.
            return unsafe { heap::bring(page, block, block, 1) };
        }
        // SAFETY: the ring is the owner's while it is not taken; and the caller's promise.
        unsafe { (*self.ring.get()).push(page, block, &self.counts) };
        self.at_ring.store(false, Release);
    }

    /// Sends home all that the calling thread, the owner, has collected.
    pub(crate) fn flush(&self) {
        loop {
            self.at_ring.store(true, Relaxed);
            compiler_fence(SeqCst);
            if !self.ring_taken.load(Acquire) {
                break;
            }
            self.at_ring.store(false, Release);
            sys::yield_now();
        }
        // SAFETY: the ring is the owner's while it is not taken.
        unsafe { (*self.ring.get()).flush(&self.counts) };
        self.at_ring.store(false, Release);
    }
}

/// Sends home the lists of all threads that are not at them right now.
pub(crate) fn flush_all() {
    if registry::ATTACHED.load(Relaxed) < 2 {
        return;
    }
    let Some(_taking) = TAKING.try_lock() else {
        return;
    };
    // A filter may forbid the call in its own way.
    if background::is_filtered() {
        return;
    }
    if BARRIER.load(Relaxed) == NOT_ASKED {
        let ready = membarrier(REGISTER_PRIVATE_EXPEDITED);
        BARRIER.store(if ready { READY } else { ABSENT }, Relaxed);
    }
    if BARRIER.load(Relaxed) == ABSENT {
        return;
    }
    registry::each(|heap| heap.ring_taken.store(true, Relaxed));
    let seen = membarrier(PRIVATE_EXPEDITED);
    registry::each(|heap| {
        // A heap made since then was not seen by the barrier, and was not taken.
        if seen && heap.ring_taken.load(Relaxed) && !heap.at_ring.load(Acquire) {
            // SAFETY: the owner, if there is one, sees that the ring is taken before it touches it.
            unsafe { (*heap.ring.get()).flush(&heap.counts) };
        }
        heap.ring_taken.store(false, Release);
    });
}
