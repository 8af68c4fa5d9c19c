//! Memory that is really held, and a lock for tests that look at the one ledger of their process.
#![allow(dead_code)]

use homefree_datafusion::LedgerPool;
use homefree_ledger::Accounted;
use std::alloc::System;
use std::hint::black_box;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use datafusion_execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};

#[global_allocator]
static A: Accounted<System> = Accounted::new(System);

pub const MIB: usize = 1 << 20;
/// What the test harness may allocate beside.
pub const SLACK: u64 = 1 << 20;

/// Memory that is requested and, being untouched, hardly resident.
pub fn hold(bytes: usize) -> Vec<u8> {
    black_box(Vec::with_capacity(bytes))
}

/// One test at a time.
pub fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

pub fn consumer<P: MemoryPool>(
    pool: &Arc<LedgerPool<P>>,
    name: &str,
    can_spill: bool,
) -> MemoryReservation {
    let pool: Arc<dyn MemoryPool> = pool.clone();
    MemoryConsumer::new(name)
        .with_can_spill(can_spill)
        .register(&pool)
}

pub fn near(a: u64, b: u64) -> bool {
    a.abs_diff(b) <= SLACK
}
