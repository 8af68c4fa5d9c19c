//! The arm `ours` as an executable.

#[path = "../arms/ours.rs"]
mod arm;

ledger_load::executable!(arm::This);
