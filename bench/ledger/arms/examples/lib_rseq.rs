//! The arm `rseq` as a library.

#[path = "../src/arms/rseq.rs"]
mod arm;

ledger_load::library!(arm::This);
