//! The arm `ours_counts` as a library.

#[path = "../src/arms/ours_counts.rs"]
mod arm;

ledger_load::library!(arm::This);
