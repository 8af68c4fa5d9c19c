//! The arm `large_tls` as a library.

#[path = "../src/arms/large_tls.rs"]
mod arm;

ledger_load::library!(arm::This);
