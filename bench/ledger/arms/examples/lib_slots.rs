//! The arm `slots` as a library.

#[path = "../src/arms/slots.rs"]
mod arm;

ledger_load::library!(arm::This);
