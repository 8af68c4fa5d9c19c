//! The allocation functions behind a preloaded library: found once, by link order.
//!
//! **For:** libraries in `LD_PRELOAD` that stand in front of the program's allocator, whichever that is, and
//! forward to it. **Not for:** allocators; programs.
//!
//! A library has one [`Functions`], as a static, and says by [`Artifact`] what is its own about it. Each entry
//! starts as a function that resolves them all and then does its work, so hooks need no test for "not yet".
//! What the loader asks for meanwhile is served from [`bootstrap`].
//!
//! **Your duties:** a block that [`bootstrap::owns`] is never given to a next function: it is not freed at all,
//! and moved out by a `realloc`.
//!
//! No `std`, no allocation, no panic.
#![no_std]

pub mod bootstrap;
mod exits;
mod functions;
mod look;
pub mod operators;

pub use exits::exit_by;
pub use functions::{Artifact, Functions, Next};
pub use look::{
    c_library_has, clear_message, find, find_for_module, is_standard_runtime, module_name,
    same_module, standard_runtime_is_loaded,
};

/// A block, or null.
pub type Ptr = *mut core::ffi::c_void;
