//! `stats_alloc`: five shared atomics, two of them for each event.

use stats_alloc::StatsAlloc;
use std::alloc::System;

#[global_allocator]
static A: StatsAlloc<System> = StatsAlloc::system();

fn held() -> i64 {
    let stats = A.stats();
    stats.bytes_allocated as i64 - stats.bytes_deallocated as i64 + stats.bytes_reallocated as i64
}

/// The arm.
pub struct This;

impl ledger_load::Arm for This {
    const NAME: &'static str = "stats_alloc";

    fn held() -> Option<i64> {
        // It counts what a block grows by twice: as allocated and as reallocated. Nothing grows meanwhile.
        Some(held())
    }

    fn readings() -> &'static [ledger_load::Reading] {
        &[("stats", held)]
    }
}
