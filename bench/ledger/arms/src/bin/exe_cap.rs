//! The arm `cap` as an executable.

#[path = "../arms/cap.rs"]
mod arm;

ledger_load::executable!(arm::This);
