//! What all threads share: the balance, the peaks, and what belongs to no living thread.

use crate::peaks::Peaks;
use core::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};

/// Bytes and events that were counted, over all time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    pub(crate) allocated: u64,
    pub(crate) freed: u64,
    pub(crate) allocations: u64,
    pub(crate) frees: u64,
}

impl Sums {
    /// Allocated less freed.
    pub(crate) fn net(&self) -> i64 {
        self.allocated.wrapping_sub(self.freed) as i64
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.allocated = self.allocated.wrapping_add(other.allocated);
        self.freed = self.freed.wrapping_add(other.freed);
        self.allocations = self.allocations.wrapping_add(other.allocations);
        self.frees = self.frees.wrapping_add(other.frees);
    }
}

/// [`Sums`] that any thread may add to.
pub(crate) struct AtomicSums {
    allocated: AtomicU64,
    freed: AtomicU64,
    allocations: AtomicU64,
    frees: AtomicU64,
}

impl AtomicSums {
    pub(crate) const fn new() -> Self {
        Self {
            allocated: AtomicU64::new(0),
            freed: AtomicU64::new(0),
            allocations: AtomicU64::new(0),
            frees: AtomicU64::new(0),
        }
    }

    pub(crate) fn add(&self, sums: &Sums) {
        let pairs = [
            (&self.allocated, sums.allocated),
            (&self.freed, sums.freed),
            (&self.allocations, sums.allocations),
            (&self.frees, sums.frees),
        ];
        for (place, more) in pairs {
            if more != 0 {
                place.fetch_add(more, Ordering::Relaxed);
            }
        }
    }

    pub(crate) fn get(&self) -> Sums {
        Sums {
            allocated: self.allocated.load(Ordering::Relaxed),
            freed: self.freed.load(Ordering::Relaxed),
            allocations: self.allocations.load(Ordering::Relaxed),
            frees: self.frees.load(Ordering::Relaxed),
        }
    }
}

/// The shared part of the ledger.
pub(crate) struct Shared {
    /// What was settled: allocated less freed.
    pub(crate) balance: AtomicI64,
    pub(crate) peaks: Peaks,
    /// Counted without an account: by threads that have ended or can not be told of their end, and by
    /// handlers of signals that came while a thread was settling.
    pub(crate) direct: AtomicSums,
    /// Of threads that have ended. Added to under the registry's lock.
    pub(crate) retired: AtomicSums,
    /// Sum of the margins of all accounts: how far `balance` can be off.
    pub(crate) margins: AtomicI64,
    /// Accounts.
    pub(crate) threads: AtomicUsize,
}

pub(crate) static SHARED: Shared = Shared {
    balance: AtomicI64::new(0),
    peaks: Peaks::new(),
    direct: AtomicSums::new(),
    retired: AtomicSums::new(),
    margins: AtomicI64::new(0),
    threads: AtomicUsize::new(0),
};

impl Shared {
    /// Adds to the balance.
    pub(crate) fn settle(&self, difference: i64) {
        let balance = self
            .balance
            .fetch_add(difference, Ordering::Relaxed)
            .wrapping_add(difference);
        if difference > 0 {
            self.peaks.note(balance);
            crate::alarm::check(balance);
        } else {
            crate::alarm::check_low(balance);
        }
    }

    /// Counts without an account.
    pub(crate) fn direct(&self, sums: &Sums) {
        self.direct.add(sums);
        self.settle(sums.net());
    }
}
