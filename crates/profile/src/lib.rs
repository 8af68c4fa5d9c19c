//! Profiles (`.hfp`) read, merged, symbolized and reported.
//!
//! **For:** the program `homefree` and tools that want its figures from Rust. **Not for:** writing
//! profiles (`homefree-record`) or the layout of the file (`homefree-wire`). Tools in other languages
//! read `homefree report --json`, described in `docs/json.md`.
//!
//! A [`Profile`] is one decoded file: opening it never panics, whatever the bytes are, and says in
//! [`Profile::warnings`] what could not be read. [`Report::build`] merges profiles by (build id,
//! offset), resolves the addresses that will be shown, and ranks. Symbols are read here and not in the
//! recorded process, from the files on this machine, and only where the build id is the recorded one.
//!
//! ```no_run
//! use homefree_profile::{Options, Profile, Report, TextStyle};
//! let profile = Profile::open("homefree.server.4242.hfp".as_ref())?;
//! for warning in profile.warnings() {
//!     eprintln!("{warning}");
//! }
//! let report = Report::build(vec![profile], &Options::default(), &|_| {})?;
//! report.write_text(&mut std::io::stdout(), &TextStyle::default())?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod decode;
mod histogram;
pub mod live;
mod maps;
mod merge;
mod open;
mod records;
pub mod report;
mod site;
mod site_rules;
mod symbols;
#[cfg(test)]
mod synthetic;
#[cfg(test)]
mod tests;

pub use open::{OpenError, Profile, Warning, WarningKind};
pub use regex::Regex;
pub use report::{By, Format, Options, ProgressEvent, Report, ReportError, TextStyle, Totals};
