//! The arm `system` as a library.

#[path = "../src/arms/system.rs"]
mod arm;

ledger_load::library!(arm::This);
