//! Builds the programs of `tests/programs/`, runs them plain, under `homefree record` and with the library in
//! `LD_PRELOAD`, and reads their profiles through `homefree report --json`.
//!
//! Every child has a time limit: a program that hangs is a failed test, not a stuck one. No test asserts a duration.

#![allow(dead_code, unused_imports)] // each test file uses its part

mod account;
mod build;
mod corpus;
mod recording;
mod report;
mod run;

pub use account::{Accounted, accounted, accounted_with, figure, ledger_library};
pub use build::{plugin, program, program_with};
pub use corpus::{place, settle};
pub use recording::{
    Recording, homefree, library, preload, preload_with, record, record_with, report_of,
    report_output,
};
pub use report::{Flow, Report};
pub use run::{Ran, Run, Running, installed, signal_process};
