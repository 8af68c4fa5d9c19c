//! Refusing on the real number.

use crate::difference::size;
use datafusion_execution::memory_pool::human_readable_size;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A limit on what is really held, above the baseline.
///
/// `try_grow` is refused when what is held and what is asked for come to more than the limit. The wrapped pool's own
/// limit goes on working beside it: that one bounds promises, this one facts. Keep the wrapped pool bounded, since
/// memory that was granted and not allocated yet is in no balance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RealLimit {
    /// Bytes that may be held.
    pub bytes: u64,
    /// The last of these bytes, kept from consumers that can spill: they are refused when what is held and asked
    /// for comes to more than `bytes - headroom`, so that those that cannot spill, and what nobody declares, have
    /// something left. 0: all are treated alike.
    pub headroom: u64,
}

impl RealLimit {
    /// A limit with a headroom of a tenth: DataFusion's own advice for what its pools do not track.
    pub const fn new(bytes: u64) -> Self {
        Self {
            bytes,
            headroom: bytes / 10,
        }
    }

    /// The limit for one consumer.
    pub(crate) fn of(&self, can_spill: bool) -> u64 {
        if can_spill {
            self.bytes.saturating_sub(self.headroom)
        } else {
            self.bytes
        }
    }
}

/// A limit that can be changed while queries run.
#[derive(Debug)]
pub(crate) struct Setting {
    bytes: AtomicU64,
    headroom: AtomicU64,
}

const NONE: u64 = u64::MAX;

impl Setting {
    pub(crate) const fn none() -> Self {
        Self {
            bytes: AtomicU64::new(NONE),
            headroom: AtomicU64::new(0),
        }
    }

    pub(crate) fn set(&self, limit: Option<RealLimit>) {
        self.headroom
            .store(limit.map_or(0, |limit| limit.headroom), Relaxed);
        self.bytes
            .store(limit.map_or(NONE, |limit| limit.bytes), Relaxed);
    }

    pub(crate) fn get(&self) -> Option<RealLimit> {
        let bytes = self.bytes.load(Relaxed);
        (bytes != NONE).then(|| RealLimit {
            bytes,
            headroom: self.headroom.load(Relaxed),
        })
    }
}

/// What a refusal says.
pub(crate) struct Refusal<'a> {
    pub(crate) consumer: &'a str,
    pub(crate) can_spill: bool,
    pub(crate) asked: usize,
    pub(crate) reserved: usize,
    pub(crate) limit: RealLimit,
    pub(crate) real: u64,
    pub(crate) declared: u64,
    pub(crate) baseline: u64,
    /// The wrapped pool, as it shows itself.
    pub(crate) pool: String,
}

impl Refusal<'_> {
    pub(crate) fn message(&self) -> String {
        let mut text = format!(
            "Failed to allocate additional {} for {} with {} already allocated for this reservation - \
             the limit of {} on what is really held",
            human_readable_size(self.asked),
            self.consumer,
            human_readable_size(self.reserved),
            size(self.limit.of(self.can_spill)),
        );
        if self.can_spill && self.limit.headroom > 0 {
            let _ = write!(
                text,
                " ({} less a headroom of {} kept from consumers that can spill)",
                size(self.limit.bytes),
                size(self.limit.headroom)
            );
        }
        let _ = write!(
            text,
            " would be passed: {} are held{}, of which {} are declared to the memory pool: {}. ",
            size(self.real),
            match self.baseline {
                0 => String::new(),
                baseline => format!(" above a baseline of {}", size(baseline)),
            },
            size(self.declared),
            self.pool,
        );
        text.push_str(self.advice());
        text
    }

    fn advice(&self) -> &'static str {
        if self.declared < self.real / 2 {
            "Most of it was declared by nobody, so spilling will not free it: run fewer partitions or queries at \
             once, use smaller batches, or raise RealLimit; LedgerPool::report() lists who declared what"
        } else {
            "Run fewer partitions or queries at once, let more operators spill, or raise RealLimit"
        }
    }
}
