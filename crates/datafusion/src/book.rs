//! A pool's figures: what was declared, and what was seen of the difference.

use crate::difference::Difference;
use crate::source::{Real, Source};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

/// Of all pools.
static DECLARED: AtomicU64 = AtomicU64::new(0);

/// Bytes declared to all [`crate::LedgerPool`]s of this executable or library. A pool counts once, however many
/// threads share it: what goes wrong when each thread's view of a shared pool is added up is
/// apache/datafusion-comet#5990.
pub fn declared_in_process() -> u64 {
    DECLARED.load(Relaxed)
}

#[derive(Debug)]
pub(crate) struct Book {
    source: Source,
    declared: AtomicU64,
    declared_peak: AtomicU64,
    baseline: AtomicU64,
    real_peak: AtomicU64,
    /// The largest of real less declared, and of declared less real.
    undeclared_peak: AtomicI64,
    unused_peak: AtomicI64,
    pub(crate) refused: AtomicU64,
    pub(crate) declined: AtomicU64,
}

impl Book {
    pub(crate) fn new(source: Source) -> Self {
        Self {
            source,
            declared: AtomicU64::new(0),
            declared_peak: AtomicU64::new(0),
            baseline: AtomicU64::new(0),
            real_peak: AtomicU64::new(0),
            undeclared_peak: AtomicI64::new(0),
            unused_peak: AtomicI64::new(0),
            refused: AtomicU64::new(0),
            declined: AtomicU64::new(0),
        }
    }

    pub(crate) fn grow(&self, bytes: usize) {
        let bytes = bytes as u64;
        DECLARED.fetch_add(bytes, Relaxed);
        let declared = self.declared.fetch_add(bytes, Relaxed) + bytes;
        self.declared_peak.fetch_max(declared, Relaxed);
    }

    /// Never below zero: a reservation gives back only what it was granted, and tells the pool of a grant before
    /// it can give any of it back.
    pub(crate) fn shrink(&self, bytes: usize) {
        DECLARED.fetch_sub(bytes as u64, Relaxed);
        self.declared.fetch_sub(bytes as u64, Relaxed);
    }

    pub(crate) fn declared(&self) -> u64 {
        self.declared.load(Relaxed)
    }

    pub(crate) fn baseline(&self) -> u64 {
        self.baseline.load(Relaxed)
    }

    /// Reads the real number, at the cost of a few loads, and keeps what is largest.
    ///
    /// Called before a reservation changes: then both numbers have had time to follow the one before. Just after,
    /// the difference would be the request itself, since one of the two has not moved yet.
    pub(crate) fn sample(&self) -> Real {
        self.note(self.source.quick())
    }

    /// As [`Self::sample`], exactly.
    pub(crate) fn sample_exactly(&self) -> Real {
        self.note(self.source.exact())
    }

    /// Takes the baseline off.
    fn note(&self, mut real: Real) -> Real {
        real.bytes = real.bytes.saturating_sub(self.baseline());
        let signed = |bytes| i64::try_from(bytes).unwrap_or(i64::MAX);
        let undeclared = signed(real.bytes).saturating_sub(signed(self.declared()));
        // A load first: the largest changes rarely, and a shared line is not to be taken at each call.
        if real.bytes > self.real_peak.load(Relaxed) {
            self.real_peak.fetch_max(real.bytes, Relaxed);
        }
        for (place, value) in [
            (&self.undeclared_peak, undeclared),
            (&self.unused_peak, undeclared.saturating_neg()),
        ] {
            if value > place.load(Relaxed) {
                place.fetch_max(value, Relaxed);
            }
        }
        real
    }

    /// What is held now, less what was declared for it, becomes the baseline, and all peaks begin anew.
    pub(crate) fn take_baseline(&self) -> u64 {
        self.source.restart_peak();
        let held = self.source.exact().bytes;
        let baseline = held.saturating_sub(self.declared());
        self.baseline.store(baseline, Relaxed);
        self.declared_peak.store(self.declared(), Relaxed);
        self.real_peak.store(held - baseline, Relaxed);
        self.undeclared_peak.store(0, Relaxed);
        self.unused_peak.store(0, Relaxed);
        baseline
    }

    pub(crate) fn difference(&self) -> Difference {
        let real = self.sample_exactly();
        let baseline = self.baseline();
        let seen = self.source.peak().saturating_sub(baseline);
        Difference {
            declared: self.declared(),
            declared_peak: self.declared_peak.load(Relaxed),
            real: real.bytes,
            real_peak: self.real_peak.load(Relaxed).max(seen),
            baseline,
            undeclared_peak: self.undeclared_peak.load(Relaxed).max(0) as u64,
            unused_peak: self.unused_peak.load(Relaxed).max(0) as u64,
            error: self.source.quick().error,
            refused: self.refused.load(Relaxed),
            declined: self.declined.load(Relaxed),
            resident: homefree_ledger::process_memory().ok(),
        }
    }
}
