//! The arm `getcpu` as a library.

#[path = "../src/arms/getcpu.rs"]
mod arm;

ledger_load::library!(arm::This);
