//! The highest balance, over all time and since any mark.
//!
//! A mark begins an epoch, and every epoch has one register, the highest balance seen in it. The peak since
//! a mark is the highest register from its epoch on. Registers are reused in turn; so that old marks keep
//! their answers, a second row has one register for each [`ROW`] epochs.

use core::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// Registers in a row.
const ROW: u64 = 256;

/// A moment; see [`Ledger::mark`](crate::Ledger::mark).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    epoch: u64,
}

/// The registers. New epochs begin under a lock of the caller's; peaks are noted without one.
pub(crate) struct Peaks {
    epoch: AtomicU64,
    all: AtomicI64,
    fine: [AtomicI64; ROW as usize],
    coarse: [AtomicI64; ROW as usize],
}

impl Peaks {
    pub(crate) const fn new() -> Self {
        Self {
            epoch: AtomicU64::new(0),
            all: AtomicI64::new(0),
            fine: [const { AtomicI64::new(0) }; ROW as usize],
            coarse: [const { AtomicI64::new(0) }; ROW as usize],
        }
    }

    fn registers(&self, epoch: u64) -> [&AtomicI64; 2] {
        [
            &self.fine[(epoch % ROW) as usize],
            &self.coarse[(epoch / ROW % ROW) as usize],
        ]
    }

    /// Notes a balance. Three loads where it is no new peak.
    #[inline]
    pub(crate) fn note(&self, balance: i64) {
        let epoch = self.epoch.load(Ordering::Acquire);
        let [fine, coarse] = self.registers(epoch);
        for register in [&self.all, coarse, fine] {
            if balance > register.load(Ordering::Relaxed) {
                register.fetch_max(balance, Ordering::Relaxed);
            }
        }
    }

    /// The highest balance ever noted.
    pub(crate) fn all(&self) -> i64 {
        self.all.load(Ordering::Relaxed)
    }

    /// Begins an epoch at `balance`. One caller at a time.
    ///
    /// (A thread that read the old epoch just before notes its peak there, that is, as of before the mark.)
    pub(crate) fn mark(&self, balance: i64) -> Mark {
        let epoch = self.epoch.load(Ordering::Relaxed) + 1;
        let [fine, coarse] = self.registers(epoch);
        fine.store(balance, Ordering::Relaxed);
        if epoch.is_multiple_of(ROW) {
            coarse.store(balance, Ordering::Relaxed);
        } else {
            coarse.fetch_max(balance, Ordering::Relaxed);
        }
        self.epoch.store(epoch, Ordering::Release);
        Mark { epoch }
    }

    /// The highest balance since a mark. Exact as long as at most [`ROW`] − 1 marks were made after it; then it
    /// may count what happened up to [`ROW`] marks before it, and after some 65,000 all time.
    pub(crate) fn since(&self, mark: Mark) -> i64 {
        let now = self.epoch.load(Ordering::Acquire);
        let max = |row: &[AtomicI64], from: u64, to: u64| {
            (from..=to)
                .map(|e| row[(e % ROW) as usize].load(Ordering::Relaxed))
                .max()
        };
        let peak = if now - mark.epoch < ROW {
            max(&self.fine, mark.epoch, now)
        } else if now / ROW - mark.epoch / ROW < ROW {
            max(&self.coarse, mark.epoch / ROW, now / ROW)
        } else {
            None
        };
        peak.unwrap_or_else(|| self.all())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_sees_what_came_after_it() {
        let peaks = Peaks::new();
        peaks.note(100);
        let first = peaks.mark(40);
        assert_eq!((peaks.since(first), peaks.all()), (40, 100));
        peaks.note(60);
        let second = peaks.mark(10);
        peaks.note(50);
        assert_eq!((peaks.since(first), peaks.since(second)), (60, 50));
        assert_eq!(peaks.all(), 100);
    }

    #[test]
    fn old_marks_never_answer_too_little() {
        let peaks = Peaks::new();
        peaks.note(1_000_000);
        let marks: std::vec::Vec<_> = (1..=70_000i64).map(|n| (n, peaks.mark(n))).collect();
        let (last, _) = marks[marks.len() - 1];
        for (n, mark) in &marks {
            let peak = peaks.since(*mark);
            let age = last - n;
            assert!(peak >= last, "mark {n} says {peak}");
            if age < 65_000 {
                assert_eq!(peak, last, "mark {n} of age {age}");
            }
        }
        // What came before a mark of the first row is not in it.
        let peaks = Peaks::new();
        peaks.note(500);
        peaks.mark(0);
        let mark = peaks.mark(0);
        for _ in 0..255 {
            peaks.mark(0);
        }
        assert_eq!(peaks.since(mark), 0);
    }
}
