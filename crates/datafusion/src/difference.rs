//! The answer: declared beside real.

use datafusion_execution::memory_pool::human_readable_size;
use homefree_ledger::ProcessMemory;
use std::fmt::{self, Display, Formatter};

/// What was declared to a pool beside what is really held. Bytes, but for the two counts.
///
/// Three numbers that are never mixed: *declared* is what operators said, *real* is what was requested of the
/// allocator and not freed, *resident* is what the kernel counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// Reserved in the pool now.
    pub declared: u64,
    /// The most that was reserved at once since the baseline.
    pub declared_peak: u64,
    /// Held now, above the baseline, exact as [`homefree_ledger::Ledger::usage_exact`] is. 0 where less is held than
    /// the baseline was.
    pub real: u64,
    /// The most that was held above the baseline.
    pub real_peak: u64,
    /// What was held before, see [`crate::LedgerPool::take_baseline`]. 0 if none was taken: then `real` is all.
    pub baseline: u64,
    /// The largest excess of real over declared that was seen: memory that nobody declared. Looked at whenever a
    /// reservation is about to change, and when the difference is asked for.
    pub undeclared_peak: u64,
    /// The largest excess of declared over real that was seen: reserved and not used, or counted several times, as
    /// slices of one buffer are.
    pub unused_peak: u64,
    /// The figures called `…_peak` are off by at most this.
    pub error: u64,
    /// Requests refused on the real number.
    pub refused: u64,
    /// Requests refused by the wrapped pool, on the declared number.
    pub declined: u64,
    /// What the kernel counts for the process, if it can be read. Never `memory.current` of a cgroup: that counts page
    /// cache too, which the kernel can take back, and so stands at the limit in every container that reads files
    /// (apache/datafusion-comet#5993).
    pub resident: Option<ProcessMemory>,
}

impl Difference {
    /// Held and not declared, now.
    pub fn undeclared(&self) -> u64 {
        self.real.saturating_sub(self.declared)
    }

    /// Declared and not held, now.
    pub fn unused(&self) -> u64 {
        self.declared.saturating_sub(self.real)
    }

    /// Declared for each byte really held; `None` where nothing is held. Comet found 0.90 to 0.92 at the median of
    /// TPC-H's samples (apache/datafusion-comet#4576).
    pub fn declared_share(&self) -> Option<f64> {
        (self.real > 0).then(|| self.declared as f64 / self.real as f64)
    }
}

pub(crate) fn size(bytes: u64) -> String {
    human_readable_size(usize::try_from(bytes).unwrap_or(usize::MAX))
}

/// One line for a log.
impl Display for Difference {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "declared {} (peak {}), really held {} (peak {}) above a baseline of {}, \
             undeclared at most {}, unused at most {}, refused {} on the real number and {} by the pool",
            size(self.declared),
            size(self.declared_peak),
            size(self.real),
            size(self.real_peak),
            size(self.baseline),
            size(self.undeclared_peak),
            size(self.unused_peak),
            self.refused,
            self.declined,
        )?;
        match self.resident {
            Some(memory) => write!(
                f,
                ", resident {} (anonymous {})",
                size(memory.resident),
                size(memory.anon)
            ),
            None => Ok(()),
        }
    }
}
