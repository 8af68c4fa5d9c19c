//! The arm `cap` as a library.

#[path = "../src/arms/cap.rs"]
mod arm;

ledger_load::library!(arm::This);
