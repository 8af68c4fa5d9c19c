//! The arm `ours_counts` as an executable.

#[path = "../arms/ours_counts.rs"]
mod arm;

ledger_load::executable!(arm::This);
