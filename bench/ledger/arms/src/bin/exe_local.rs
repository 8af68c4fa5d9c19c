//! The arm `local` as an executable.

#[path = "../arms/local.rs"]
mod arm;

ledger_load::executable!(arm::This);
