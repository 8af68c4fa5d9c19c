//! The arm `ours` as a library.

#[path = "../src/arms/ours.rs"]
mod arm;

ledger_load::library!(arm::This);
