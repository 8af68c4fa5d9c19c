//! The arm `getcpu` as an executable.

#[path = "../arms/getcpu.rs"]
mod arm;

ledger_load::executable!(arm::This);
