//! The arm `null` as a library.

#[path = "../src/arms/null.rs"]
mod arm;

ledger_load::library!(arm::This);
