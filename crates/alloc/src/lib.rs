//! A thread-caching allocator: `free` needs the block's address and the calling thread's own slot, and a
//! block of another thread's goes home in a batch.
//!
//! **For:** Rust programs, as [`Alloc`]; everything else through `homefree-alloc-preload`. **Not for:**
//! a promise that blocks are apart from hostile ones: links of free blocks lie in them unprotected.
//!
//! `docs/allocator.md` tells the design. No `std`, no panic, no allocation from elsewhere; `errno` is
//! left alone.
//!
//! ```
//! #[global_allocator]
//! static A: homefree_alloc::Alloc = homefree_alloc::Alloc::new();
//!
//! let words: Vec<String> = (0..1000).map(|i| i.to_string()).collect();
//! drop(words);
//! homefree_alloc::trim();
//! ```
#![no_std]

#[cfg(test)]
extern crate std;

mod background;
mod checked;
pub mod class;
mod counts;
mod global;
mod heap;
mod huge;
mod life;
pub mod malloc;
mod page;
mod pool;
mod purge;
mod region;
mod registry;
mod ring;
mod ring_of_sleeper;
pub mod slot;
mod source;
mod statistics;

pub use global::Alloc;
pub use purge::trim as trim_as;
pub use source::{Source, System, set_source};
pub use statistics::{ClassStatistics, Statistics, statistics};

/// Gives all memory that is idle back to the system, whichever thread it is cached for. True if there was some.
/// A thread that sleeps keeps the pages that it allocates from, at most one a class.
pub fn trim() -> bool {
    trim_as::<slot::Descriptor>()
}
