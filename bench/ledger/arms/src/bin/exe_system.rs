//! The arm `system` as an executable.

#[path = "../arms/system.rs"]
mod arm;

ledger_load::executable!(arm::This);
