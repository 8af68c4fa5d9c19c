//! Rejected: shared counters, one for each processor, chosen by `sched_getcpu`. The thread may move between the
//! question and the add, so the add is atomic all the same.

use ledger_arms::{Count, Counted};
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

const SHARDS: usize = 64;

#[repr(align(128))]
struct Shard(AtomicI64);

static HELD: [Shard; SHARDS] = [const { Shard(AtomicI64::new(0)) }; SHARDS];

#[global_allocator]
static A: Counted<GetCpu> = Counted::new();

struct GetCpu;

#[inline(always)]
fn shard() -> &'static AtomicI64 {
    // SAFETY: no memory is involved.
    let cpu = unsafe { libc::sched_getcpu() };
    &HELD[cpu as usize % SHARDS].0
}

impl Count for GetCpu {
    #[inline(always)]
    fn allocated(bytes: usize) {
        shard().fetch_add(bytes as i64, Relaxed);
    }

    #[inline(always)]
    fn freed(bytes: usize) {
        shard().fetch_sub(bytes as i64, Relaxed);
    }
}

fn sum() -> i64 {
    HELD.iter().map(|shard| shard.0.load(Relaxed)).sum()
}

/// The arm.
pub struct This;

impl ledger_load::Arm for This {
    const NAME: &'static str = "getcpu";

    fn held() -> Option<i64> {
        Some(sum())
    }

    fn readings() -> &'static [ledger_load::Reading] {
        &[("sum", sum)]
    }
}
