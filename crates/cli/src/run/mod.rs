//! One run under the ledger: where its processes publish, what they say, and how it is shown.

mod account;
mod json;
mod memory;
mod pages;
mod place;
mod prometheus;
mod session;
mod text;

pub use account::Report;
pub use place::check as check_place;
pub use session::{Outputs, Session, Settings};

/// The account as `--json` shows it.
pub fn json(report: &Report) -> String {
    json::write(report)
}

/// The account as a person reads it.
pub fn text(report: &Report) -> String {
    text::write(report)
}
