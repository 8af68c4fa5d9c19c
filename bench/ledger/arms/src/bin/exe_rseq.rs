//! The arm `rseq` as an executable.

#[path = "../arms/rseq.rs"]
mod arm;

ledger_load::executable!(arm::This);
