//! The arm `local` as a library.

#[path = "../src/arms/local.rs"]
mod arm;

ledger_load::library!(arm::This);
