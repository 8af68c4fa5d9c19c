//! The allocator of a Rust program.

use crate::malloc;
use crate::slot::Descriptor;
use core::alloc::{GlobalAlloc, Layout};

/// Homefree's allocator.
///
/// ```
/// #[global_allocator]
/// static A: homefree_alloc::Alloc = homefree_alloc::Alloc::new();
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Alloc;

impl Alloc {
    /// The allocator; all of them are one.
    pub const fn new() -> Self {
        Self
    }
}

// SAFETY: blocks are as large and aligned as asked, each is given out once until it is freed, and
// nothing unwinds.
unsafe impl GlobalAlloc for Alloc {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        malloc::of_layout::<Descriptor>(layout.size(), layout.align())
    }

    #[inline]
    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        // The page knows what the block is, whatever it was asked for as.
        // SAFETY: the caller's promise.
        unsafe { malloc::free_sized::<Descriptor>(p, layout.size()) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        malloc::aligned::<Descriptor>(layout.size(), layout.align(), true)
    }

    #[inline]
    unsafe fn realloc(&self, p: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's promise.
        unsafe { malloc::realloc::<Descriptor>(p, size, layout.align()) }
    }
}
