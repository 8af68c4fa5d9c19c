//! The arm `tracking_allocator` as an executable.

#[path = "../arms/tracking_allocator.rs"]
mod arm;

ledger_load::executable!(arm::This);
