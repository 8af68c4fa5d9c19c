//! Homefree for Rust programs: see which memory threads free for each other.
//!
//! **For:** programs in which `homefree record` can see nothing, because they are linked statically or
//! bring an allocator of their own; they record the same profile through the same code, from inside.
//!
//! ```no_run
//! use std::alloc::System;
//!
//! #[global_allocator]
//! static ALLOCATOR: homefree::Recorded<System> = homefree::Recorded::new(System);
//! # fn main() {}
//! ```
//!
//! The profile lies in the current directory when the program ends, as `homefree.NAME.PID.hfp`, or where
//! the variables of `docs/environment.md` say; `homefree report` reads it. **Your duties:** none, but
//! take it out again, or put it behind a feature of your own: recording costs, see `docs/cost.md`.
//! **Not for:** libraries (a library does not choose its program's allocator).
#![no_std]

// Named so that a report can tell its frames by the file's name alone.
mod homefree_recorded;

pub use homefree_recorded::Recorded;
