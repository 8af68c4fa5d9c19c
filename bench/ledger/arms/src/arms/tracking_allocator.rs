//! `tracking-allocator`, set up as its documentation shows, with the least tracker that can tell what is held. It puts
//! a word in front of every block, so `malloc` serves 8 bytes more.

use std::alloc::System;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use tracking_allocator::{AllocationGroupId, AllocationRegistry, AllocationTracker, Allocator};

#[global_allocator]
static A: Allocator<System> = Allocator::system();

static HELD: AtomicI64 = AtomicI64::new(0);

struct Tracker;

impl AllocationTracker for Tracker {
    #[inline]
    fn allocated(&self, _: usize, object_size: usize, _: usize, _: AllocationGroupId) {
        HELD.fetch_add(object_size as i64, Relaxed);
    }

    #[inline]
    fn deallocated(
        &self,
        _: usize,
        object_size: usize,
        _: usize,
        _: AllocationGroupId,
        _: AllocationGroupId,
    ) {
        HELD.fetch_sub(object_size as i64, Relaxed);
    }
}

/// The arm.
pub struct This;

impl ledger_load::Arm for This {
    const NAME: &'static str = "tracking-allocator";

    fn start() {
        if AllocationRegistry::set_global_tracker(Tracker).is_ok() {
            AllocationRegistry::enable_tracking();
        }
    }

    fn held() -> Option<i64> {
        Some(HELD.load(Relaxed))
    }

    fn readings() -> &'static [ledger_load::Reading] {
        &[("tracker", || HELD.load(Relaxed))]
    }
}
