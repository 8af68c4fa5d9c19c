//! The specification of how a sleeping thread's lists are taken (`src/ring_of_sleeper.rs`), checked in every
//! interleaving: the owner and the taker are never at the ring at the same time, and no block is lost.
//!
//! The kernel's barrier in the running threads is a fence on the owner's side here: what the barrier
//! makes of the compiler fence there.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test --release -p homefree-alloc --test loom_ring`.
#![cfg(loom)]
#![allow(
    clippy::undocumented_unsafe_blocks,
    reason = "blocks and cells are the test's own; it fails where they are not"
)]

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*, fence};
use loom::thread;

struct Ring {
    /// Blocks in the lists; loom tells if two threads are at it.
    blocks: UnsafeCell<usize>,
    home: AtomicUsize,
    at_ring: AtomicBool,
    taken: AtomicBool,
}

impl Ring {
    fn collect(&self) {
        self.at_ring.store(true, Relaxed);
        fence(SeqCst);
        if self.taken.load(Acquire) {
            self.at_ring.store(false, Release);
            self.home.fetch_add(1, Relaxed);
            return;
        }
        self.blocks.with_mut(|b| unsafe { *b += 1 });
        self.at_ring.store(false, Release);
    }

    fn take(&self) {
        self.taken.store(true, Relaxed);
        fence(SeqCst);
        if !self.at_ring.load(Acquire) {
            let n = self.blocks.with_mut(|b| unsafe { std::mem::take(&mut *b) });
            self.home.fetch_add(n, Relaxed);
        }
        self.taken.store(false, Release);
    }
}

#[test]
fn owner_and_taker_are_never_at_the_ring_together() {
    loom::model(|| {
        let ring = Arc::new(Ring {
            blocks: UnsafeCell::new(0),
            home: AtomicUsize::new(0),
            at_ring: AtomicBool::new(false),
            taken: AtomicBool::new(false),
        });
        let owner = {
            let ring = ring.clone();
            thread::spawn(move || (0..3).for_each(|_| ring.collect()))
        };
        ring.take();
        owner.join().unwrap();
        ring.take();
        assert_eq!(ring.home.load(Relaxed), 3);
    });
}
