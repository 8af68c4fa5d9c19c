//! The arm `stats_alloc` as a library.

#[path = "../src/arms/stats_alloc.rs"]
mod arm;

ledger_load::library!(arm::This);
