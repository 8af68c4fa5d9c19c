//! The arm `null` as an executable.

#[path = "../arms/null.rs"]
mod arm;

ledger_load::executable!(arm::This);
