//! `cap`, without a limit and without its statistics: one shared atomic.

use cap::Cap;
use std::alloc::System;

#[global_allocator]
static A: Cap<System> = Cap::new(System, usize::MAX);

/// The arm.
pub struct This;

impl ledger_load::Arm for This {
    const NAME: &'static str = "cap";

    fn held() -> Option<i64> {
        Some(A.allocated() as i64)
    }

    fn readings() -> &'static [ledger_load::Reading] {
        &[("allocated", || A.allocated() as i64)]
    }
}
