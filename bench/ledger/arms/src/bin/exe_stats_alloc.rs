//! The arm `stats_alloc` as an executable.

#[path = "../arms/stats_alloc.rs"]
mod arm;

ledger_load::executable!(arm::This);
