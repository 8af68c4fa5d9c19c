//! The arm `ours_executable` as an executable.

#[path = "../arms/ours_executable.rs"]
mod arm;

ledger_load::executable!(arm::This);
