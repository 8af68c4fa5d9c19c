//! The arm `churn` as an executable.

#[path = "../arms/churn.rs"]
mod arm;

ledger_load::executable!(arm::This);
