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
pub mod slot;
mod source;
mod statistics;

pub use global::Alloc;
pub use purge::trim;
pub use source::{Source, System, set_source};
pub use statistics::{ClassStatistics, Statistics, statistics};
