//! The arm `churn` as a library.

#[path = "../src/arms/churn.rs"]
mod arm;

ledger_load::library!(arm::This);
