//! Homefree for Rust programs.
//!
//! # [`Accounted`]: how many bytes are held
//!
//! **For:** libraries and programs that want to know at any moment, in production, how many bytes they hold.
//! [`ledger`] has the whole of it: `homefree::ledger::{Counts, InitialExec, HardLimit, SoftLimit, Watch}` and more.
//! Its outputs through the facades `metrics` and `log` are features of those names. `docs/ledger.md` is its contract.
//!
//! ```no_run
//! use std::alloc::System;
//!
//! #[global_allocator]
//! static ALLOCATOR: homefree::Accounted<System> = homefree::Accounted::new(System);
//!
//! fn main() {
//!     println!("{} bytes are held", ALLOCATOR.usage().current);
//! }
//! ```
//!
//! # [`Alloc`]: memory that goes home
//!
//! **For:** programs whose threads free each other's memory. `docs/allocator.md` says how it is built.
//!
//! ```no_run
//! #[global_allocator]
//! static ALLOCATOR: homefree::Alloc = homefree::Alloc::new();
//! # fn main() {}
//! ```
//!
//! `Accounted<Alloc>` counts what it serves.
//!
//! # [`Recorded`]: which memory threads free for each other
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

pub use homefree_alloc::Alloc;
/// Exact byte accounting around any allocator.
pub use homefree_ledger as ledger;
pub use homefree_ledger::Accounted;
pub use homefree_recorded::Recorded;
