//! The arm `tracking_allocator` as a library.

#[path = "../src/arms/tracking_allocator.rs"]
mod arm;

ledger_load::library!(arm::This);
