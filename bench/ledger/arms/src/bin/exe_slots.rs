//! The arm `slots` as an executable.

#[path = "../arms/slots.rs"]
mod arm;

ledger_load::executable!(arm::This);
