//! The plain system allocator, named, so that the shim is the same as for all others.

use std::alloc::System;

#[global_allocator]
static A: System = System;

/// The arm.
pub struct This;

impl ledger_load::Arm for This {
    const NAME: &'static str = "system";

    fn held() -> Option<i64> {
        None
    }
}
