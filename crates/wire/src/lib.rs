//! The profile file (`.hfp`): what the recorder writes and the reader reads.
//!
//! **For:** `homefree-record`, which maps the file shared and counts in place, and
//! `homefree-profile`, which decodes it. **Not for:** users; the stable, documented output is
//! `homefree report --json`.
//!
//! The file is an array of 4,096-byte pages. Page 0 is the [`Header`]; every other page says in its
//! first bytes what it holds ([`PageHead`]) and can be understood on its own, so a file that was cut,
//! or whose program was killed in the middle of a store, still reads back page by page.
//!
//! ```text
//! page 0    Header
//! page k    PageHead | 255 × Node          the calling-context tree, shared by all threads
//!           PageHead | 15 × Bank           one set of counters: of a live thread, or of a role's ended threads
//!           PageHead | 63 × Site           per bank: allocation site → counts
//!           PageHead | 9 × Flow            per bank: frees on another thread (allocation site → free site)
//!           PageHead | records             modules, roles, command line … ([`records`])
//! ```
//!
//! Counters are 64-bit little-endian words that only their owner stores, so a reader of a live
//! mapping sees each of them whole. No allocation, no `std`, no dependency.
//!
//! ```
//! use homefree_wire::{Error, Header, PAGE};
//! assert_eq!(Header::check(b"not a profile").unwrap_err(), Error::NotAProfile);
//! assert_eq!(Header::check(b"").unwrap_err(), Error::Empty);
//! # let _ = PAGE;
//! ```
#![no_std]

pub mod account;
mod buckets;
mod layout;
pub mod records;

pub use buckets::{
    LIFE_BUCKETS, SIZE_BUCKETS, life_bucket, life_bucket_floor, size_bucket, size_bucket_floor,
};
pub use layout::*;

/// Why bytes are not a profile this version can read. Copyable, so that it can be made without
/// allocation; [`core::fmt::Display`] says what to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// The file has no bytes.
    Empty,
    /// The first bytes are not [`MAGIC`].
    NotAProfile,
    /// Shorter than the header page.
    CutInHeader {
        /// Bytes there are.
        len: usize,
    },
    /// Written by a newer Homefree.
    Newer {
        /// Format version of the file.
        version: u32,
    },
}

impl core::fmt::Display for Error {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Error::Empty => write!(
                f,
                "the file is empty: the program ended before its first event was recorded, or another tool made the file"
            ),
            Error::NotAProfile => write!(
                f,
                "not a Homefree profile (its first bytes are not HOMEFREE); profiles are made by `homefree record`"
            ),
            Error::CutInHeader { len } => write!(
                f,
                "the profile is cut inside its header ({len} of {PAGE} bytes); nothing can be read from it"
            ),
            Error::Newer { version } => write!(
                f,
                "the profile has format version {version}, this program reads up to {VERSION}; use a newer homefree"
            ),
        }
    }
}

impl core::error::Error for Error {}
