//! What happens off the fast path, counted by class.

use crate::class::CLASSES;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// A counter with one writer at a time.
pub struct Count(AtomicU32);

impl Count {
    /// Adds; wraps after 2^32.
    #[inline]
    pub fn add(&self, n: u32) {
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }

    /// The number so far.
    pub fn get(&self) -> u32 {
        self.0.load(Relaxed)
    }
}

/// Counts of one class.
pub struct ClassCounts {
    /// A thread's page was used up.
    pub refills: Count,
    /// ... and the next one came from the pool, under its lock.
    pub pool: Count,
    /// Batches sent to other threads' pages.
    pub sent: Count,
    /// Blocks in them: frees on another thread than the allocating one.
    pub remote_frees: Count,
    /// Pages taken back with blocks that others brought.
    pub received: Count,
}

/// Counts of a heap.
pub struct Counts([ClassCounts; CLASSES]);

impl Counts {
    pub(crate) const fn new() -> Self {
        Self(
            [const {
                ClassCounts {
                    refills: Count(AtomicU32::new(0)),
                    pool: Count(AtomicU32::new(0)),
                    sent: Count(AtomicU32::new(0)),
                    remote_frees: Count(AtomicU32::new(0)),
                    received: Count(AtomicU32::new(0)),
                }
            }; CLASSES],
        )
    }

    pub(crate) fn of(&self, class: usize) -> &ClassCounts {
        &self.0[class]
    }
}
