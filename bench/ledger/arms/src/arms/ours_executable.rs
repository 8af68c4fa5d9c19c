//! The ledger, as only an executable can use it.

use homefree_ledger::{Accounted, Bytes, InitialExec};
use std::alloc::System;

#[global_allocator]
static A: Accounted<System, Bytes, InitialExec> = Accounted::new(System);

/// The arm.
pub struct This;

impl ledger_load::Arm for This {
    const NAME: &'static str = "ours-executable";

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
