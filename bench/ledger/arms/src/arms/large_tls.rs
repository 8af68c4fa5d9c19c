//! The ledger in a library with so much thread-local memory that the loader has no constant distance for it.

use homefree_ledger::Accounted;
use std::alloc::System;
use std::cell::Cell;

#[global_allocator]
static A: Accounted<System> = Accounted::new(System);

thread_local! {
    static LARGE: Cell<[u64; 512]> = const { Cell::new([0; 512]) };
}

/// The arm.
pub struct This;

impl ledger_load::Arm for This {
    const NAME: &'static str = "ours-large-tls";

    fn start() {
        LARGE.with(|large| std::hint::black_box(large).set([1; 512]));
    }

    fn held() -> Option<i64> {
        Some(A.usage_exact().current as i64)
    }

    fn settle_always() -> bool {
        A.set_drift_budget(1);
        A.settle();
        true
    }

    fn constant_distance() -> Option<bool> {
        Some(homefree_thread::counter::has_constant_distance())
    }

    fn readings() -> &'static [ledger_load::Reading] {
        &[
            ("usage", || A.usage().current as i64),
            ("usage_exact", || A.usage_exact().current as i64),
        ]
    }
}
